"""The engine's own library, which is built beside the first kernel."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from utils.cuda.common import gpus
from utils.cuda.common.sealed import is_whole
from utils.cuda.cpu import library
from utils.ground.system import cxx_compiler

FOLDERS = ["trace", "runtime", "host", "guard", "include"]  # what the library is made of


def test_who_lacks_it_waits_for_the_one_who_builds_it(tmp_path, monkeypatch):
    """Building it takes most of a minute: where several notebooks begin at once, one does it for all."""
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "cache"))
    text, built = tmp_path / "part.cpp", []
    text.write_text("int part() { return 1; }\n")

    def compiling(place):
        return [cxx_compiler(), "-fPIC", "-c", str(text), "-o", str(place / "part.o")]

    def commands(beside):
        built.append(beside)
        return [compiling(beside)]

    def kernel(number):
        folder = tmp_path / f"kernel_{number}"
        folder.mkdir()
        link = [cxx_compiler(), "-shared", f"{folder}/part.o", str(library.path()), "-o", f"{folder}/kernel.so"]
        return library.compile_and_link([compiling(folder)], link, folder, lambda command: None)

    monkeypatch.setattr(library, "_commands", commands)
    with ThreadPoolExecutor(4) as pool:
        logs = list(pool.map(kernel, range(4)))
    assert logs == [""] * 4 and all((tmp_path / f"kernel_{number}" / "kernel.so").exists() for number in range(4))
    assert len(built) == 1 and is_whole(library.path())
    assert list(library.path().parent.iterdir()) == [library.path()], "neither a lock nor what it was built from"


def test_its_name_depends_on_what_is_compiled_and_on_nothing_else(tmp_path, monkeypatch):
    for name in FOLDERS:
        shutil.copytree(library._HERE / name, tmp_path / name)
    monkeypatch.setattr(library, "_HERE", tmp_path)
    monkeypatch.setattr(library, "INCLUDE", tmp_path / "include")
    fingerprint = library.fingerprint.__wrapped__
    before = fingerprint()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "trace" / "notes.pyc").touch()
    assert fingerprint() == before
    for name in FOLDERS:
        changed = next(path for path in sorted((tmp_path / name).rglob("*.h")))
        text = changed.read_text()
        changed.write_text(text + "\n")
        assert fingerprint() != before, changed
        changed.write_text(text)
    assert fingerprint() == before


def test_what_its_files_include_is_part_of_its_name():
    here = library._HERE
    for file in (path for name in FOLDERS[:4] for path in (here / name).iterdir() if path.suffix in (".h", ".cpp")):
        for beside in re.findall(r'^#include "(\.\./.*)"', file.read_text(), re.MULTILINE):
            included = Path(file.parent, beside).resolve()
            assert included == gpus.TABLE or included.relative_to(here).parts[0] in FOLDERS, (file, beside)
