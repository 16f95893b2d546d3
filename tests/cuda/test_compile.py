"""load_cuda: what it builds, what it keeps, and what it says when something is wrong."""

import gc
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch

import kernels
import utils.cuda.compile
from tests.clock import slowdown
from utils import CompileError, load_cuda
from utils.cuda.common import toolchain
from utils.cuda.common.extension import run
from utils.cuda.cpu.build import Builder
from utils.cuda.cpu.translate import translate
from utils.ground.errors import ToolchainError

CPP = "torch::Tensor twice(torch::Tensor x);"
CUDA = (
    kernels.cuda_begin
    + r"""
__global__ void twice_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}

torch::Tensor twice(torch::Tensor x) {
    CHECK_INPUT(x);
    auto out = torch::empty_like(x);
    int n = x.numel();
    if (n) twice_kernel<<<cdiv(n, 128), 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""
)


def line_of(text, source=CUDA):
    return source[: source.index(text)].count("\n") + 1


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache, and nothing loaded from another; only the engine's runtime is not built again."""
    runtime = toolchain.cache_folder() / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    (tmp_path / "runtime").symlink_to(runtime)
    for name in [name for name in sys.modules if name.startswith("twice_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cpu"))


def test_the_lecture_s_source_runs_unchanged(backend):
    x = torch.randn(1031, device=backend)
    module = load_cuda(CUDA, CPP, ["twice"])
    torch.testing.assert_close(module.twice(x), 2 * x)
    assert Path(module.__file__).exists() and "twice" in dir(module)


def test_no_optimisation_gives_the_same(on_cpu):
    x = torch.randn(17)
    torch.testing.assert_close(load_cuda(CUDA, CPP, ["twice"], opt=False).twice(x), 2 * x)


@pytest.mark.alone
def test_cold_lecture_build_on_the_cpu_takes_at_most_12_seconds(fresh, on_cpu):
    slower, start = slowdown(), time.perf_counter()
    load_cuda(CUDA, CPP, ["twice"])
    seconds = time.perf_counter() - start
    print(f"\ncold build of a source in the lecture's form: {seconds:.1f} s")
    assert seconds < 12 * max(slower, slowdown())


def test_unchanged_source_is_not_built_again_and_a_changed_one_never_meets_the_old(on_cpu, monkeypatch):
    first = load_cuda(CUDA, CPP, ["twice"])
    assert load_cuda(CUDA, CPP, ["twice"]) is first
    monkeypatch.delitem(sys.modules, first.__name__)
    monkeypatch.setattr(Builder, "__call__", lambda *a, **k: pytest.fail("built again"))
    load_cuda(CUDA, CPP, ["twice"])
    with pytest.raises(pytest.fail.Exception):
        load_cuda(CUDA.replace("2 * x[i]", "3 * x[i]"), CPP, ["twice"])


def test_what_a_killed_build_left_is_built_anew(fresh, on_cpu):
    script = f"from utils import load_cuda\nload_cuda({CUDA!r}, {CPP!r}, ['twice'])"
    no_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(utils.__file__).parents[1], env=no_gpu)
    folder = fresh / "cpu"
    while not list(folder.glob("twice*/main.cpp")):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not list(folder.glob("twice*/complete"))
    x = torch.randn(5)
    torch.testing.assert_close(load_cuda(CUDA, CPP, ["twice"]).twice(x), 2 * x)


def _build(queue):
    utils.cuda.compile.device = lambda: torch.device("cpu")
    built = []
    call = Builder.__call__
    Builder.__call__ = lambda *a, **k: (built.append(1), call(*a, **k))[1]
    x = torch.arange(3.0)
    queue.put((len(built), load_cuda(CUDA, CPP, ["twice"]).twice(x).tolist(), len(built)))


def test_what_compilers_print_is_not_left_open(monkeypatch):
    open_files = []
    monkeypatch.setattr(sys, "unraisablehook", open_files.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run([["true"], ["true"]], lambda _: None) == ""
        assert run([["sleep", "60"], ["false"]], lambda _: None) == "false ended with 1"
        gc.collect()
    assert open_files == []


def test_of_several_processes_one_builds_and_all_get_it(fresh, on_cpu):
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    processes = [spawn.Process(target=_build, args=(queue,)) for _ in range(4)]
    for process in processes:
        process.start()
    answers = [queue.get(timeout=900) for _ in processes]
    for process in processes:
        process.join()
    assert [a[1] for a in answers] == [[0, 2, 4]] * 4
    assert sum(a[2] for a in answers) == 1


def test_torch_beyond_the_smaller_headers_is_built_with_all_of_torch(on_cpu, capsys):
    source = CUDA.replace("torch::empty_like(x)", "torch::nn::functional::relu(torch::tensor({1.0f})) * 0 + x")
    x = torch.randn(1031)
    torch.testing.assert_close(load_cuda(source, CPP, ["twice"], verbose=True).twice(x), 2 * x)
    printed = capsys.readouterr().out
    assert "the smaller torch headers do not have torch::nn: with all of torch" in printed
    assert printed.count(" -c ") == 2, "each source is compiled once"
    assert printed.count(" -DCUDA_COURSE_WHOLE_TORCH ") == 1, "the declaration needs little of torch"


@pytest.mark.parametrize("statement", ["int n = x.shape[0]", "int n = x.size", "c10::cuda::CUDAGuard g(x.device())"])
def test_what_torch_does_not_have_is_not_looked_for_in_all_of_torch(on_cpu, capsys, statement):
    source = CUDA.replace("torch::empty_like(x)", f"torch::empty_like(x); {statement}")
    with pytest.raises(CompileError, match="shape|size|CUDAGuard"):
        load_cuda(source, CPP, ["twice"], verbose=True)
    printed = capsys.readouterr().out
    assert " -c " in printed and "all of torch" not in printed


# ---- what is wrong is said, on the learner's own line ----------------------------------------------------------------


def test_syntax_error_shows_the_learner_s_line(backend):
    bad = CUDA.replace("out[i] = 2 * x[i];", "out[i] = 2 * x[i]")
    with pytest.raises(CompileError) as raised:
        load_cuda(bad, CPP, ["twice"])
    source, line, message = raised.value.errors[0]
    assert source == "cuda_src" and line in (line_of("if (i < n)"), line_of("if (i < n)") + 1) and ";" in message
    assert "if (i < n) out[i] = 2 * x[i]" in str(raised.value)
    assert len(str(raised.value).splitlines()) < 25, "the learner's lines, not the whole log"
    assert str(Path.home()) + "/" not in str(raised.value)


def test_unknown_name_on_a_line_with_a_launch(backend):
    bad = CUDA.replace("cdiv(n, 128), 128>>>", "cdiv(n, thread), 128>>>")
    with pytest.raises(CompileError, match="thread") as raised:
        load_cuda(bad, CPP, ["twice"])
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("twice_kernel<<<"))


def test_error_in_the_declaration_is_in_cpp_src(on_cpu):
    with pytest.raises(CompileError) as raised:
        load_cuda(CUDA, "\ntorch::Tensro twice(torch::Tensor x);", ["twice"])
    assert raised.value.errors[0][:2] == ("cpp_src", 2)
    assert "Tensro" in str(raised.value)


def test_what_the_declaration_lacks_at_its_end_is_missed_in_cpp_src(on_cpu):
    with pytest.raises(CompileError) as raised:
        load_cuda(CUDA, "torch::Tensor twice(torch::Tensor x)", ["twice"])
    assert raised.value.errors[0][:2] == ("cpp_src", 1)
    assert "--->" not in str(raised.value) and "torch::Tensor twice(torch::Tensor x)" in str(raised.value)


def test_a_host_function_that_forgets_to_return(on_cpu):
    with pytest.raises(CompileError, match="no return statement|non-void function") as raised:
        load_cuda(CUDA.replace("    return out;\n", ""), CPP, ["twice"])
    assert raised.value.errors[0][0] == "cuda_src"


@pytest.mark.parametrize("cpp_src", ["", "torch::Tensor twcie(torch::Tensor x);"])
def test_a_declaration_that_cpp_src_lacks_is_shown(backend, cpp_src):
    with pytest.raises(CompileError, match="cpp_src does not declare `twice`, so Python cannot call it") as raised:
        load_cuda(CUDA, cpp_src, ["twice"])
    assert str(raised.value).endswith("Hint: Write into cpp_src: `torch::Tensor twice(torch::Tensor x);`")
    assert f"{line_of('torch::Tensor twice')} | torch::Tensor twice(torch::Tensor x)" in str(raised.value)
    module = load_cuda(CUDA, raised.value.hint.split("`")[1], ["twice"])
    assert module.twice(torch.ones(2, device=backend)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("right", "wrong", "said", "hint"),
    [
        ("torch::empty_like", "torch.empty_like", "expected", "In C++, it is `torch::empty_like(...)`, with `::`."),
        (
            "x.data_ptr<float>(), out",
            "x, out",
            r"the kernel takes \(.*float.*\), but this launch passes \(at::Tensor",
            "A kernel takes a tensor's address: `x.data_ptr<float>()`.",
        ),
    ],
)
def test_a_mistake_in_the_host_s_code_gets_a_hint(on_cpu, right, wrong, said, hint):
    assert right in CUDA
    with pytest.raises(CompileError, match=said) as raised:
        load_cuda(CUDA.replace(right, wrong), CPP, ["twice"])
    assert raised.value.hint == hint and "cuda_on_cpu" not in raised.value.wrong
    assert "NVIDIA's compiler accepts" not in str(raised.value), "nvcc has not seen the host's code"


def test_a_declaration_with_other_parameters(on_cpu):
    with pytest.raises(CompileError, match="no source defines it. They define: twice") as raised:
        load_cuda(CUDA, "torch::Tensor twice(torch::Tensor x, int n);", ["twice"])
    assert "defines `torch::Tensor twice(torch::Tensor x)`: the types of the parameters must be the same" in (
        raised.value.hint
    )


def test_source_that_is_no_text(on_cpu):
    with pytest.raises(TypeError, match="cuda_src must be text, but it is NoneType"):
        load_cuda(None, CPP, ["twice"])


def test_the_two_texts_in_the_wrong_order(on_cpu):
    with pytest.raises(CompileError, match="`__global__` belongs in cuda_src"):
        load_cuda(CPP, CUDA, ["twice"])


def test_built_in_variables_in_a_function_of_the_host(on_cpu):
    of_host = CUDA.replace(
        "torch::Tensor twice(torch::Tensor x) {", "torch::Tensor twice(torch::Tensor x) {\n    {use}"
    )
    line = next(k for k, text in enumerate(of_host.splitlines(), 1) if "{use}" in text)
    with pytest.raises(CompileError, match="`threadIdx` exists in device code only, but `twice` is") as raised:
        load_cuda(of_host.replace("{use}", "int n = threadIdx.x;"), CPP, ["twice"])
    assert raised.value.line == line
    for use in ("int threadIdx = 1; threadIdx++;", "auto f = [] __device__ () { return blockIdx.x; };"):
        assert translate(of_host.replace("{use}", use))
    assert translate("struct S { __device__ int f() { return threadIdx.x; } };\n" + CUDA)
    by_macro = "#define ON_GPU __device__\nON_GPU int index() { return threadIdx.x; }\n"
    assert translate(of_host.replace("{use}", "").replace("__global__", f"{by_macro}__global__", 1))


def test_a_kernel_that_takes_a_tensor(on_cpu):
    with pytest.raises(CompileError, match="device code cannot use a `torch::Tensor`: take a pointer"):
        load_cuda(CUDA.replace("const float* x, float* out", "torch::Tensor x, float* out"), CPP, ["twice"])


def test_function_that_is_not_there(on_cpu):
    with pytest.raises(ValueError, match="no function 'twyce'. Did you mean 'twice'. It has: twice.$"):
        load_cuda(CUDA, CPP, ["twyce"])
    with pytest.raises(ValueError, match="funcs is empty"):
        load_cuda(CUDA, CPP, [])


def test_function_that_is_declared_and_never_defined(backend):
    lacking = CUDA.replace("torch::Tensor twice(", "torch::Tensor two_times(")
    with pytest.raises(
        CompileError, match=r"twice\(at::Tensor\)` is .* but no source defines it. They define: two_times"
    ):
        load_cuda(lacking, CPP, ["twice"])


def test_bindings_that_are_already_there(on_cpu):
    bound = CUDA + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }\n'
    with pytest.raises(CompileError, match="makes the bindings of `funcs` itself: leave out PYBIND11_MODULE") as raised:
        load_cuda(bound, CPP, ["twice"])
    assert raised.value.line == len(bound.splitlines()) and not raised.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("128>>>(", "128>>(("), "this launch has `<<<` but no `>>>`"),
        (("<<<cdiv(n, 128), 128>>>", "<<<>>>"), "this launch lacks the numbers of blocks and of threads per block"),
        (("out[i] = 2 * x[i];", 'asm("ret;");'), "`ret` needs a GPU"),
        (("    int i =", "    __shared__ int s = 1; int i ="), "cannot have an initial value"),
        (("    int i =", '    asm volatile("frob;"); int i ='), "knows no instruction `frob`"),
    ],
)
def test_what_cannot_be_translated_names_its_line(on_cpu, change, message):
    bad = CUDA.replace(*change)
    line = next(n for n, (a, b) in enumerate(zip(CUDA.splitlines(), bad.splitlines(), strict=True), 1) if a != b)
    with pytest.raises(CompileError, match=message) as raised:
        load_cuda(bad, CPP, ["twice"])
    assert raised.value.errors[0][:2] == ("cuda_src", line)


def test_a_kernel_that_is_not_marked_as_one(on_cpu):
    """nvcc would refuse it; a C++ compiler sees nothing wrong."""
    with pytest.raises(
        CompileError, match="`twice_kernel` is launched like a kernel, but not marked __global__"
    ) as raised:
        load_cuda(CUDA.replace("__global__ void", "void"), CPP, ["twice"])
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("twice_kernel<<<"))


def test_no_compiler_names_the_command(fresh, on_cpu, monkeypatch):
    from utils.cuda.cpu import build

    build._engine_fingerprint.cache_clear()
    apt = fresh / "apt"
    apt.write_text("")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match=r"no C\+\+ compiler .*: sudo apt install g\+\+$"):
        load_cuda(CUDA, CPP, ["twice"])
    monkeypatch.setenv("CXX", "my-g++")
    with pytest.raises(ToolchainError, match=r"\$CXX names 'my-g\+\+', which is not there"):
        load_cuda(CUDA, CPP, ["twice"])


def test_gpu_without_nvcc_names_the_command(fresh, monkeypatch):
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(toolchain, "cuda_home", lambda: None)
    with pytest.raises(ToolchainError, match=r"there is a GPU, but no nvcc.*pip install 'cuda-toolkit\[nvcc,.*\]=="):
        load_cuda(CUDA, CPP, ["twice"])


def test_gpu_with_an_nvcc_that_does_not_run(fresh, monkeypatch):
    nvcc = fresh / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\nexit 1\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(toolchain, "cuda_home", lambda: fresh)
    monkeypatch.setattr(toolchain, "gpu_architecture", lambda: 90)
    with pytest.raises(ToolchainError, match="bin/nvcc does not run"):
        load_cuda(CUDA, CPP, ["twice"])


def test_cache_that_cannot_be_written(on_cpu, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(blocked / "cache"))
    told = r"cannot write the build to .*file/cache.*export .*: .*file is not a folder"
    with pytest.raises(ToolchainError, match=told):
        load_cuda(CUDA + "// not built before", CPP, ["twice"])


def test_an_exception_in_cpp_becomes_one_in_python(on_cpu):
    with pytest.raises(RuntimeError, match="x must be contiguous"):
        load_cuda(CUDA, CPP, ["twice"]).twice(torch.ones(3, 2).t())


def test_a_launch_that_cuda_refuses(backend):
    module = load_cuda(CUDA.replace("128>>>", "2048>>>"), CPP, ["twice"])
    # CUDA 12: "invalid configuration argument"; CUDA 13, measured on an H200: "invalid argument"
    with pytest.raises(RuntimeError, match="CUDA error: invalid (configuration )?argument"):
        module.twice(torch.ones(3, device=backend))
