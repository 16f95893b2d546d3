"""What compiles but hardly does what is meant: a CompileWarning with the learner's line, whenever a build is used."""

import warnings

import pytest

from utils.cuda.common.cache import build_once
from utils.cuda.common.diagnostics import CompileWarning

SOURCE = "__global__ void k(float* x, unsigned n) {\n    for (unsigned j = n; j >= 0; j--) x[j] = 3;\n    n == 2;\n}\n"
LOG = """cuda_src(2): warning #186-D: pointless comparison of unsigned integer with zero
      for (unsigned j = n; j >= 0; j--) x[j] = 3;
                             ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

cuda_src(3): warning #174-D: expression has no effect
cuda_src(3): warning #174-D: expression has no effect
cuda_src(3): warning #177-D: variable "c" was declared but never referenced
/usr/include/header.h(3): warning #174-D: expression has no effect
"""


def built(folder):
    def build(place):
        (place / "commands.txt").write_text("nvcc")
        (place / "warnings.log").write_text(LOG)
        return ""

    build_once(folder, build, "compiling", {"cuda_src": SOURCE, "name": "k"}, 1)


def test_a_compilers_warnings_are_shown_when_the_build_is_made_and_when_it_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    for _ in range(2):
        with pytest.warns(CompileWarning) as caught:
            built(tmp_path / "cpu" / "k")
        shown = [(warning.filename, warning.lineno, str(warning.message)) for warning in caught]
        assert shown == [
            (
                "cuda_src",
                2,
                "pointless comparison of unsigned integer with zero\n"
                "-->    2 |     for (unsigned j = n; j >= 0; j--) x[j] = 3;",
            ),
            ("cuda_src", 3, "expression has no effect\n-->    3 |     n == 2;"),
        ]


def test_a_warning_is_shown_once_in_a_cell_and_can_be_hidden(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda *shown: print(warnings.formatwarning(*shown[:4]))
        built(tmp_path / "cpu" / "k")
        built(tmp_path / "cpu" / "k")
    assert capsys.readouterr().out.count("cuda_src:3: CompileWarning: expression has no effect\n-->    3") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        built(tmp_path / "cpu" / "k")
    assert not capsys.readouterr().out
