"""The engine's own library, which is built beside the first kernel."""

from concurrent.futures import ThreadPoolExecutor

from utils.cuda.common.sealed import is_whole
from utils.cuda.cpu import library
from utils.ground.system import cxx_compiler


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
