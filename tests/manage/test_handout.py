"""utils/manage/handout.py: archives of lessons for participants, without solutions, and for the instructor."""

import json
import zipfile

import pytest

from utils.manage import handout
from utils.manage.lessons import ROOT, lessons


def packed(archive):
    with zipfile.ZipFile(archive) as file:
        return {name.rpartition("/")[2]: file.read(name).decode() for name in file.namelist()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    mine, yours = handout.pack(lessons(), tmp_path_factory.mktemp("handout"))
    return packed(mine), packed(yours)


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_participants_get_no_outputs_and_no_solutions(path, archives):
    mine, yours = (json.loads(each[path.name])["cells"] for each in archives)
    lesson = json.loads(path.read_text())["cells"]
    assert not any(cell.get("outputs") for cell in (*mine, *yours))
    text, full, original = ("\n".join("".join(cell["source"]) for cell in cells) for cells in (mine, yours, lesson))
    assert full == original
    assert "<summary>Solution" not in text and text.count("<details>") == text.count("</details>")
    solutions = original.count("<summary>Solution")
    assert solutions or 'check("' not in original
    assert text.count("<details>") == original.count("<details>") - solutions
    code = [["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"] for cells in (mine, lesson)]
    assert code[0] == code[1]


def test_the_archive_says_what_to_do(archives):
    assert "make lab" in archives[0]["README.txt"] and all(path.name in archives[0]["README.txt"] for path in lessons())


def test_command_line(tmp_path, capsys):
    (tmp_path / "notebooks").mkdir()
    for path in lessons(["1", "2"]):
        (tmp_path / "notebooks" / path.name).write_text(path.read_text())
    assert handout.main(["1"], tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[0] == "build/handout/handout.zip: for participants, 1 lesson"
    assert set(packed(tmp_path / "build" / "handout" / "handout.zip")) == {"01_grayscale_in_python.ipynb", "README.txt"}
    assert handout.main(["77"], tmp_path) == 2 and "'77'" in capsys.readouterr().err
    assert ROOT != tmp_path
