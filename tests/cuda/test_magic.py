"""%%cuda: what a cell leaves in the notebook, what it prints, and what it says when something is wrong."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

import utils.cuda.kernel
from tests.clock import cpu_seconds
from utils import CompileError
from utils.cuda.common import toolchain
from utils.cuda.kernel import Kernel
from utils.cuda.magic import Template, _options
from utils.ground.errors import CourseError

ROOT = Path(utils.__file__).parents[1]

CELL = """%%cuda
__global__ void scale(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}

__device__ int counter;
__global__ void count(int* out) { out[0] = atomicAdd(&counter, 1); }
__global__ void count_too(int* out) { out[0] = atomicAdd(&counter, 1); }

template <int tile, bool negative, class T = float>
__global__ void filled(T* out) { out[threadIdx.x] = negative ? -tile : tile; }

#ifndef __CUDACC_RTC__
void launch(float* x) { this does not compile, and nobody looks at it; }
#endif
"""


@pytest.fixture
def shell(monkeypatch):
    """An IPython session with the magic, as a notebook's kernel has one."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # which the session takes
    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
    shell = InteractiveShell(config=config)
    assert shell.run_cell("%load_ext utils.cuda.magic").success
    return shell


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache; only the engine's runtime is not built again."""
    runtime = toolchain.cache_folder() / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "runtime").symlink_to(runtime)
    return tmp_path


def failing(shell, cell, kind):
    """The error that ends a cell."""
    error = shell.run_cell(cell).error_in_exec
    assert isinstance(error, kind), error
    return error


# ---- what a cell brings ---------------------------------------------------------------------------------------------


def test_resources_below_a_cell(shell, capsys):
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVIDIA's cuda-bindings")
    assert shell.run_cell(CELL.replace("%%cuda", "%%cuda --resources")).success
    said = capsys.readouterr().out
    assert re.search(r"scale on \w+: \d+ registers per thread, no shared memory, nothing spilled\n", said)
    assert "count on" in said and "blocks per SM" in said and "filled.of(16, True)" in said
    assert shell.run_cell(CELL.replace("%%cuda", "%%cuda --resources T4")).success
    assert re.search(r"scale on T4: \d+ registers per thread", capsys.readouterr().out)
    error = failing(shell, CELL.replace("%%cuda", "%%cuda --resources=K80"), CourseError)
    assert "there is no GPU 'K80'" in str(error)


def test_the_magic_s_own_options():
    for chosen in ("-DN=3 --resources sm_75 --verbose", "--resources=sm_75 -DN=3 --verbose"):
        assert _options(chosen) == (["-DN=3"], {"--resources": "sm_75", "--verbose": None})
    assert _options("--resources -D N=3") == (["-DN=3"], {"--resources": None})


def test_every_kernel_of_the_cell_can_be_launched(shell, backend, capsys):
    assert shell.run_cell(CELL).success
    assert capsys.readouterr().out == "kernels: scale, count, count_too, filled<...>\n"
    brought = [shell.user_ns[name] for name in ("scale", "count", "count_too", "filled")]
    assert [type(kernel) for kernel in brought] == [Kernel, Kernel, Kernel, Template]

    x, out = torch.randn(1000, device=backend), torch.full((1000,), float("nan"), device=backend)
    shell.push({"x": x, "out": out})
    assert shell.run_cell("scale[4, 256](x, out, 1000)").success
    torch.testing.assert_close(out, 2 * x)
    trace = brought[0].trace[4, 256](x, out, 1000, outputs=[out])
    assert not trace.problems and trace.requests["line"].tolist() == [4, 4], "lines as the notebook counts them"


def test_kernels_of_a_cell_share_its_global_variables(shell, backend):
    shell.run_cell(CELL.replace("int counter;", "int counter = 40;  // a cell of its own"))
    seen, out = [], torch.zeros(1, dtype=torch.int32, device=backend)
    for name in ("count", "count_too", "count"):
        shell.user_ns[name][1, 1](out)
        seen.append(out.item())
    assert seen == [40, 41, 42]


def test_a_template_gives_instances(shell, backend):
    shell.run_cell(CELL)
    filled, out = shell.user_ns["filled"], torch.zeros(3, device=backend)
    for arguments, value in (((16, True), -16), ((7, False), 7), (("3 + 1", True, "float"), -4)):
        filled.of(*arguments)[1, 3](out)
        assert out.tolist() == [value] * 3
    assert filled.of(7, False).name == "filled<7, false>"
    whole = torch.zeros(3, dtype=torch.int32)
    assert filled.of(7, False, "int").trace[1, 3](whole).args[0].tolist() == [7, 7, 7]


def test_a_template_launched_like_a_kernel_says_how_to_use_it(shell, on_cpu):
    shell.run_cell(CELL)
    for use, example in (
        ("filled[1, 3](None)", r"filled.of\(16, True\)\[blocks, threads\]\(...\)$"),
        ("filled(1, 3)", r"filled.of\(16, True\)\[blocks, threads\]\(...\)$"),
        ("filled.trace[1, 3](None)", r"filled.of\(16, True\).trace\[blocks, threads\]\(...\)$"),
        ("filled.of()", r"takes the template's arguments, as in filled.of\(16, True\)$"),
    ):
        with pytest.raises(TypeError, match=example):
            raise failing(shell, use, TypeError)
    assert "template <int tile, bool negative, class T = float>" in repr(shell.user_ns["filled"])


def test_editing_the_cell_and_running_it_again_is_the_whole_loop(shell, backend):
    x, out = torch.randn(8, device=backend), torch.zeros(8, device=backend)
    for factor in (2, 3, 2):
        assert shell.run_cell(CELL.replace("2 * x[i]", f"{factor} * x[i]")).success
        shell.user_ns["scale"][1, 8](x, out, 8)
        torch.testing.assert_close(out, factor * x)
    failing(shell, CELL.replace("2 * x[i];", "2 * x[i]"), CompileError)
    shell.user_ns["scale"][1, 8](x, out, 8)
    torch.testing.assert_close(out, 2 * x)  # a cell that fails changes nothing, as in Python


def test_options_on_the_line(shell, backend, capsys):
    shell.push({"tile": 32, "out": torch.zeros(1, dtype=torch.int32, device=backend)})
    text = "__global__ void sizes(int* out) { out[0] = 100 * TILE + EXTRA; }"
    assert shell.run_cell(f"%%cuda -DTILE={{tile}} -D EXTRA=5 --use_fast_math --verbose\n{text}").success
    assert "-DTILE=32" in capsys.readouterr().out
    assert shell.run_cell("sizes[1, 1](out); assert out.item() == 3205").success


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--fast", "%%cuda has no option '--fast'. It takes: -DNAME or -DNAME=VALUE, .*--use_fast_math, .*--verbose$"),
        ("-DTILE=1 scale", "%%cuda has no option 'scale'"),
        ("-D", "%%cuda has no option '-D'"),
        ("-D'TILE", "No closing quotation"),
    ],
)
def test_options_that_are_not_known(shell, on_cpu, line, message):
    with pytest.raises(ValueError, match=message):
        raise failing(shell, f"%%cuda {line}\n__global__ void k() {{}}", ValueError)


def test_what_the_preprocessor_leaves_out_is_no_kernel(shell, backend, capsys):
    hidden = "#if SIZE > 3\n__global__ void large() {}\n#else\n__global__ void small() {}\n#endif\n"
    assert shell.run_cell(f"%%cuda -DSIZE=3\n{hidden}").success
    assert capsys.readouterr().out == "kernels: small (left out by the source: large)\n"
    assert "large" not in shell.user_ns and "small" in shell.user_ns
    with pytest.raises(ValueError, match="an #if or a namespace hides every kernel of the cell: k"):
        raise failing(shell, "%%cuda\n#if 0\n__global__ void k() {}\n#endif", ValueError)


# ---- one wait -------------------------------------------------------------------------------------------------------


def many(number, salt):
    kernel = "__global__ void k{0}(float* x, int n) {{ for (int i = 0; i < n; i++) x[i] += {0} * x[n - i]; }}\n"
    return f"%%cuda\n// {salt}\n" + "".join(kernel.format(i) for i in range(number))


def test_five_kernels_are_compiled_in_one_wait(shell, fresh, on_cpu, monkeypatch):
    from utils.cuda.cpu import module

    builds = []
    build = module.build_kernels
    monkeypatch.setattr(module, "build_kernels", lambda *a, **k: (builds.append(1), build(*a, **k))[1])
    seconds = {1: [], 5: []}
    for salt in range(2):
        for number in seconds:
            start = cpu_seconds()
            assert shell.run_cell(many(number, salt)).success
            seconds[number].append(cpu_seconds() - start)
    print(f"\ncold cell of one kernel: {min(seconds[1]):.2f} s of CPU time, of five: {min(seconds[5]):.2f} s")
    assert len(builds) == 4
    assert min(seconds[5]) < 3 * min(seconds[1])


def test_nvrtc_compiles_five_kernels_at_once(fresh):
    pytest.importorskip("cuda.bindings.nvrtc")
    from utils.cuda.gpu import nvrtc
    from utils.cuda.gpu.facts import facts_file

    source = many(5, 0).partition("\n")[2]
    names = [f"k{i}" for i in range(5)]
    try:
        together = nvrtc.built(source, names, (), 90)
    except RuntimeError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip("torch brings no NVRTC here")
    for number, name in enumerate(names):
        alone = nvrtc.built(source, name, (), 90)
        assert facts_file(together, number).read_text() == facts_file(alone, 0).read_text()
    with pytest.raises(CompileError) as raised:
        nvrtc.built(source, ["k0", "k9"], (), 90)
    assert [error[:2] for error in raised.value.errors] == [("name", 2)]


# ---- what is wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("2 * x[i];", "two * x[i];"), "if (i < n)"),
        (("count_too(int* out)", "count_too(itn* out)"), "void count_too"),
        (("tile : tile;", "tile : tile"), "void filled"),
    ],
)
def test_a_compile_error_shows_the_line_of_the_cell_once_and_no_traceback(shell, backend, capsys, change, line):
    if backend.type == "cuda" and line == "void filled":
        pytest.skip("NVRTC reads the body of a template when an instance is asked for")
    bad = CELL.replace(*change)
    error = failing(shell, bad, CompileError)
    number = 1 + bad[: bad.index(line)].count("\n")
    assert ("cuda_src", number) in [found[:2] for found in error.errors]
    printed = capsys.readouterr().out
    assert f"-->{number:5} | {bad.splitlines()[number - 1]}" in printed
    assert printed.count("CompileError") == 1 and "kernels:" not in printed
    for ours in ("Traceback", "File ", "run_cell_magic", "utils/"):
        assert ours not in printed


def test_a_template_alone_is_looked_at_when_the_cell_is_run(shell, on_cpu, capsys):
    alone = "%%cuda\ntemplate <class T>\n__global__ void k(T* x) { x[0] = 1; }\n"
    assert shell.run_cell(alone).success and capsys.readouterr().out == "kernels: k<...>\n"
    error = failing(shell, alone.replace("1; }", "1 }"), CompileError)
    assert error.errors[0][:2] == ("cuda_src", 3)
    assert capsys.readouterr().out.endswith("\nk is still the kernel that compiled before.\n")


def test_what_the_last_line_lacks_is_said_about_that_line(shell, on_cpu):
    error = failing(shell, CELL + "struct Pair { int a; }", CompileError)
    assert error.errors[0][:2] == ("cuda_src", len(CELL.splitlines()) + 1)


def test_a_cell_without_a_kernel(shell, on_cpu, capsys):
    for cell in ("%%cuda\nint x;", "%%cuda\n\n", "%%cuda\n// __global__ void k() {}"):
        with pytest.raises(ValueError, match="the cell has no kernel: a kernel is a function marked __global__"):
            raise failing(shell, cell, ValueError)
    assert "Traceback" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="__global__. `k` in line 2 is marked `__globl__`"):
        raise failing(shell, "%%cuda\n__globl__ void k(float* x) { x[0] = 1; }", ValueError)
    with pytest.raises(ValueError, match="__global__. `k` in line 4 has no mark"):
        raise failing(shell, "%%cuda\n__device__ void f() {}\n\nvoid k(float* x) { x[0] = 1; }", ValueError)
    with pytest.raises(Exception, match="cell body is empty"):
        raise failing(shell, "%%cuda", Exception)


def test_a_comment_above_the_magic_is_an_error(shell, on_cpu):
    result = shell.run_cell("# a comment\n" + CELL)
    assert isinstance(result.error_before_exec, SyntaxError) and "scale" not in shell.user_ns


@pytest.mark.alone
def test_the_stop_button_ends_a_compile(shell, fresh, on_cpu, monkeypatch, capsys):
    slow = fresh / "slow-g++"
    minutes = "i=0; while [ $i -lt 6000 ]; do sleep 0.1; i=$((i + 1)); done"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *-dM*) ;; *) touch {fresh}/began; {minutes}; touch {fresh}/ended;; esac\n'
    )
    slow.chmod(0o755)

    def stop():
        while not (fresh / "began").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as slowly:
        slowly.setenv("CXX", str(slow))
        threading.Thread(target=stop).start()
        failing(shell, CELL, KeyboardInterrupt)
    assert not (fresh / "ended").exists(), "it waited for the compiler"
    assert capsys.readouterr().out == "KeyboardInterrupt\n"
    assert not list((fresh / "cache" / "cpu").iterdir()), "neither a half build nor a lock"
    assert shell.run_cell(CELL).success


# ---- in a notebook --------------------------------------------------------------------------------------------------


def test_a_notebook_with_the_magic_runs_headless_and_nbval_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COURSE_HEADLESS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    cells = [
        "%load_ext utils.cuda.magic\nimport torch\nx, out = torch.arange(4.0), torch.zeros(4)",
        CELL,
        "scale[1, 4](x, out, 4)\nout",
        CELL.replace("2 * x[i];", "two * x[i];"),
        CELL.replace("2 * x[i]", "3 * x[i]"),
        "scale[1, 4](x, out, 4)\nout",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.cells[3].metadata.tags = ["raises-exception"]
    NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    said = [[out.get("text") or out.get("data", {}).get("text/plain") for out in c.outputs] for c in notebook.cells]
    assert said[:3] == [[], ["kernels: scale, count, count_too, filled<...>\n"], ["tensor([0., 2., 4., 6.])"]]
    assert said[5] == ["tensor([0., 3., 6., 9.])"]
    (error,) = notebook.cells[3].outputs
    assert error.ename == "CompileError" and error.traceback[0].startswith("CompileError: cuda_src, line 4: ")
    assert not any("utils/" in line for line in error.traceback)

    path = tmp_path / "lesson.ipynb"
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider", path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

    del notebook.cells[3].metadata["tags"]
    with pytest.raises(CellExecutionError, match="CompileError"):
        NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
