"""Every mistake of mistakes.py, compiled by nvcc and by the engine's compiler: the learner's line and the hint."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cuda.common.mistakes import MISTAKES, in_kernel
from utils.cuda import verdict
from utils.cuda.common import cxx, extension
from utils.cuda.common.diagnostics import CompileError, explained
from utils.cuda.common.hints import hint
from utils.cuda.cpu import build, library

NO_INSTANCE = 'no instance of function template "{}" matches the argument list: argument types are: (double)'


def both(source, folder):
    """The CompileErrors of nvcc and of the C++ compiler; None for one that accepts the source."""
    name = next(iter(cxx.kernels(source)), "k")
    sources, logs = {"cuda_src": source, "name": name}, {}

    def by_engine():
        try:
            logs["g++"] = build.build_kernels(source, [name], folder, say=lambda command: None)
        except CompileError as error:
            logs["g++"] = error
        return ""

    judge = verdict.on_kernels(source, [name])
    if judge is None:
        pytest.skip("there is no nvcc here")
    logs["nvcc"] = judge.beside(by_engine, folder, lambda command: None)
    return {
        compiler: explained(log, sources, folder) if isinstance(log, str) and log else log or None
        for compiler, log in logs.items()
    }


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """What both compilers say about every mistake, by its name."""

    def only_checked(commands, link, folder, say):
        return extension.run([[*command, "-fsyntax-only"] for command in commands], say)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(os.cpu_count()) as pool:
        patch.setattr(library, "compile_and_link", only_checked)
        asked = {
            name: pool.submit(both, source, tmp_path_factory.mktemp("mistake"))
            for name, (source, _, _) in MISTAKES.items()
        }
        return {name: future.result() for name, future in asked.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_the_learners_line_and_a_hint(errors, name):
    source, lines, words = MISTAKES[name]
    judged = errors[name]["nvcc"] is not None  # a missing header is left to the engine's compiler
    assert judged or "#include" in source and errors[name]["g++"], "nvcc accepts it"
    for compiler, error in errors[name].items():
        if error is None:  # the C++ compiler may accept what nvcc rejects
            continue
        text = str(error)
        assert error.line in ((lines,) if isinstance(lines, int) else lines), f"{compiler}: {text}"
        assert f"--> {error.line:4} | {source.splitlines()[error.line - 1]}" in text
        if compiler == "nvcc" or error.hint or not judged:
            assert words in error.hint if words else not error.hint, f"{compiler}: {text}"
            assert not error.hint or text.splitlines()[-1] == f"Hint: {error.hint}"
        if compiler == "nvcc":
            assert not re.search(r"cuda_on_cpu|cuda_course|/include/", text.split("\nThe whole log")[0]), text


ASM = 'asm("add.s32 %0, %1, 1;" : "=f"(v) : "f"(v));'
CONCEPT = "template <class T> concept Num = sizeof(T) == 4;\ntemplate <Num T> __device__ T twice(T t) { return 2 * t; }"
NOT_MEANT = {
    "asm": (in_kernel(f"    {ASM}"), 3, "Arguments mismatch for instruction 'add'"),
    "a concept": (f"{CONCEPT}\nfloat f(double x) {{ return twice(x); }}", 3, NO_INSTANCE.format("twice")),
    "a requirement": (
        "template <class T> requires (sizeof(T) == 4) T twice(T t);\nfloat f(double x) { return twice(x); }",
        2,
        NO_INSTANCE.format("twice"),
    ),
    "a space in a comment": (in_kernel("    x[i] = zzz;  // a\u00a0comment"), 3, 'identifier "zzz" is undefined'),
}


@pytest.mark.parametrize("name", NOT_MEANT)
def test_a_hint_is_not_given_for_what_only_looks_like_its_mistake(name):
    assert hint(*NOT_MEANT[name]) == ""


@pytest.mark.parametrize(
    "message",
    [
        'class "Row" has no member "len"',
        "'struct Row' has no member named 'len'",
        "no member named 'len' in 'Row'",
    ],
)
def test_a_member_is_no_word_of_python_s(message):
    source, line, words = MISTAKES["member len"]
    assert hint(source, line, message) == words
    assert "cudaDevAttrClockRate" in hint(source, line, message.replace("len", "clockRate"))


def test_a_template_beside_the_call_that_fails_is_no_hint():
    source = "template <class T> float mm(T a) { return a; }\nfloat f(C a) { return mm(max(a, a)); }\n"
    assert not hint(source, 2, "no matching function for call to 'max(C&, C&)'")
    assert "`mm` is a `template <class T>`" in hint(source, 2, "no matching function for call to 'mm(C&)'")
