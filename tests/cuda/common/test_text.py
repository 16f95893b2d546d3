"""Sources from any editor: what compiles as it is, what is put right, and what is refused with its line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils import CompileError, compile_kernel
from utils.cuda.common import text
from utils.cuda.common.lexer import lines_of
from utils.cuda.common.text import check_options, plain
from utils.ground.errors import ToolchainError
from utils.ground.system import short_path

ROOT = Path(text.__file__).parents[3]
SOURCE = "// über 5 €\n__global__ void k(float* x) { x[threadIdx.x] = 7; }\n"


def test_what_editors_add_is_taken_away():
    assert plain("cuda_src", "\ufeff" + SOURCE.replace("\n", "\r\n")) == SOURCE
    assert plain("cuda_src", SOURCE.replace("\n", "\r")) == plain("cuda_src", SOURCE) == SOURCE


def test_only_a_newline_ends_a_line():
    ends = "\f\v\x1c\x85\u2028"
    source = SOURCE.replace("5 €", f"5{ends}€").replace("7;", "seven;")
    assert lines_of(source) == source[:-1].split("\n") and lines_of("") == [""]
    with pytest.raises(CompileError, match="seven") as raised:
        compile_kernel(source, "k")
    assert raised.value.line == 2 and "-->    2 | __global__ void k" in str(raised.value)


@pytest.mark.parametrize(
    ("character", "said"),
    [("\0", "there is a NUL character in this line"), ("\ud800", "half a character"), ("\udcfc", r"'\\udcfc' in this")],
)
def test_what_no_file_can_hold_is_refused_with_its_line(character, said):
    with pytest.raises(CompileError, match=said) as raised:
        plain("cuda_src", SOURCE.replace("7;", f"7{character};"))
    assert raised.value.line == 2
    str(raised.value).encode()


def test_a_current_folder_that_is_gone_is_named(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(
        ToolchainError, match="the current folder, in which compilers are started, was deleted or moved"
    ):
        plain("cuda_src", SOURCE)
    assert short_path("/usr/bin") == "/usr/bin"


def test_other_types_are_refused():
    for source in (None, SOURCE.encode(), Path("k.cu")):
        with pytest.raises(TypeError, match="cpp_src must be text, but it is"):
            plain("cpp_src", source)
    with pytest.raises(TypeError, match="an option is text, as in '-DTILE=32', but got 5"):
        check_options(("-DN=1", 5))
    for character in "\0\ud800":
        with pytest.raises(ValueError, match="has a character that cannot be passed to a compiler"):
            check_options((f"-DN={character}",))


def test_they_compile_and_run(on_cpu, fresh):
    x = torch.zeros(2, 4)
    compile_kernel("\ufeff" + SOURCE.replace("\n", "\r\n"), "k")[1, 4](x[0])
    assert compile_kernel(SOURCE, "k").source == SOURCE
    assert len([folder for folder in (fresh / "cpu").iterdir()]) == 1, "one build serves both"
    long = SOURCE.replace(" k(", f" {'k' * 5000}(") + "//" + "x" * 1_000_000
    compile_kernel(long, "k" * 5000)[1, 4](x[1])
    assert x.tolist() == [[7] * 4] * 2


def test_a_truly_ascii_locale_is_named_with_the_command_that_helps():
    code = "from utils.cuda.common.text import plain\nplain('cuda_src', 'int x;')"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "ASCII only, by its locale. To fix it: export PYTHONUTF8=1" in done.stderr
    environment["PYTHONUTF8"] = "1"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment).returncode == 0


def test_a_cache_whose_path_is_not_utf_8_is_refused(on_cpu, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "caf\udce9"))
    with pytest.raises(ToolchainError, match=r"caf\\xe9', is not UTF-8. To fix it: export CUDA_COURSE_CACHE="):
        compile_kernel(SOURCE, "k")


def test_a_folder_of_headers_may_have_any_name(on_cpu, fresh, tmp_path):
    folder = tmp_path / "größe (1)"
    folder.mkdir()
    (folder / "v.h").write_bytes(b"// \xfc\n#define V 3\n")
    x = torch.zeros(1)
    compile_kernel('#include "v.h"\n__global__ void k(float* x) { x[0] = V; }', "k", (f"-I{folder}",))[1, 1](x)
    assert x.item() == 3
