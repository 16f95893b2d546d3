"""Files are written as a whole or not at all."""

import os

import pytest

from utils.ground import system


def test_a_file_is_written_as_a_whole_or_not_at_all(monkeypatch, tmp_path):
    file = tmp_path / "page.md"
    file.write_text("old")
    file.chmod(0o640)

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="no space"):
            system.write(file, "new")
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]
    system.write(file, "new")
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_writing_is_all_or_nothing(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    path.chmod(0o600)
    with pytest.raises(TypeError):
        system.write(path, None)
    assert path.read_text() == "old"
    system.write(path, "new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600
