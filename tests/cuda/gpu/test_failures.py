"""A lost GPU: the message that takes the place of CUDA's, the launches that it names, where it appears.

Without a GPU the errors are torch's own, with the words that torch gives them, raised where torch raises them.
"""

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from collections import deque
from types import SimpleNamespace

import pytest
import torch

from tests.cuda.common.test_output import environment, notebook
from utils.cuda.common.arguments import Parameter
from utils.cuda.gpu import failures
from utils.cuda.gpu.nvrtc import include_folders
from utils.lesson.simulator import dim3

TORCH_SAYS = """CUDA error: {}
Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Device-side assertion tracking was not enabled by user.
"""
ILLEGAL = TORCH_SAYS.format("an illegal memory access was encountered")
ERROR = getattr(torch, "AcceleratorError", RuntimeError)
X = Parameter("x", "float*", "float* x", 8, 4, 4)
N = Parameter("n", "int", "int n", 4, 0, 0)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """A process in which nothing was launched yet."""
    monkeypatch.setattr(failures, "_launches", deque(maxlen=8))
    monkeypatch.setattr(failures, "_message", "")


def launch(name="stray", x=None, n=1000, blocks=(4,), shared_bytes=0):
    x = torch.zeros(1000) if x is None else x
    failures.launched(name, (x, n), (dim3(*blocks), dim3(16, 16), shared_bytes), (X, N))


@pytest.mark.parametrize("words", failures.LOST)
def test_every_error_after_which_a_process_is_lost(words):
    launch()
    for text in (TORCH_SAYS.format(words), f"CUDA error: {words}", f"Triton Error [CUDA]: {words}"):
        failures._message = ""
        said = failures.message(text)
        assert said.startswith(f"CUDA error: {words}. This process can no longer use the GPU")
        for part in ("stray[4, (16, 16)](float[1000], 1000)\n", "Kernel > Restart Kernel", "stray.trace[4, (16, 16)]("):
            assert part in said
        assert "not even a trace" in said and "Search for" not in said


def test_the_words_are_those_of_cuda():
    found = [so for folder in include_folders() for so in (folder.parent / "lib").glob("libcudart.so.1?")]
    if not found:
        pytest.skip("needs the CUDA runtime's library")
    cuda = ctypes.CDLL(str(found[0]))
    cuda.cudaGetErrorString.restype = ctypes.c_char_p
    # cudaErrorIllegalAddress, LaunchTimeout, Assert, HardwareStackError ... LaunchFailure (driver_types.h)
    assert [cuda.cudaGetErrorString(n).decode() for n in (700, 702, 710, 714, 715, 716, 717, 718, 719)] == [
        *failures.LOST
    ]


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: invalid argument\nSearch for `cudaErrorInvalidValue'",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "x has shape (3,)",
        "",
        # The CPU engine's, after which all goes on
        "CUDA error: an illegal memory access was encountered: thread (5, 0, 0) of block (2, 0, 0) of stray touches "
        "memory far outside: x",
        "CUDA error: device-side assert triggered: thread (0, 0, 0) of block (0, 0, 0) of k says that `n` fails",
    ],
)
def test_other_errors_are_left_alone(text):
    launch()
    error = RuntimeError(text)
    failures.explain(error)
    assert error.args == (text,) and not failures.message(text)


def test_the_message_stays_the_same_whatever_fails_later():
    launch()
    said = failures.message(ILLEGAL)
    launch("innocent")
    assert failures.message(TORCH_SAYS.format("device-side assert triggered")) == said
    assert failures.message("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`") == said
    assert failures.message(said) == said and "innocent" not in said
    assert not failures.message("x must be a CUDA tensor, but it is on cpu")


def test_several_launches_are_named_once_each_the_latest_last():
    for _ in range(3):
        launch(n=1)
    launch(n=2, blocks=(2, 3), shared_bytes=64)
    failures.remembered(lambda x, text: None)(torch.zeros(2, 3), text="a")
    said = failures.message(ILLEGAL)
    named = [line.strip() for line in said.splitlines() if line.startswith("    ")]
    assert named == [
        "stray[4, (16, 16)](float[1000], 1)",
        "stray[(2, 3), (16, 16), 64](float[1000], 2)",
        "<lambda>(tensor[2, 3], 'a')",
    ]
    assert "stray.trace[(2, 3), (16, 16), 64](...) or the function of load_cuda(..., trace=True)" in said


def test_at_most_eight_are_kept_and_no_tensor_is_kept_alive():
    x = torch.zeros(7)
    alive = weakref.ref(x)
    for n in range(20):
        launch(x=x, n=n)
    del x
    gc.collect()
    assert alive() is None
    said = failures.message(ILLEGAL)
    assert "(float[7], 11)" not in said and all(f"(float[7], {n})" in said for n in range(12, 20))


def test_without_a_launch_of_ours_the_message_says_so():
    said = failures.message(ILLEGAL)
    assert "Nothing from compile_kernel or load_cuda was running" in said and "CUDA_LAUNCH_BLOCKING=1" in said


def test_with_cuda_launch_blocking_exactly_one_launch_is_named():
    script = "from utils.cuda.gpu import failures as f\n[f.launched(f'k{n}', ()) for n in range(3)]\n"
    script += f"print(f.message({ILLEGAL!r}))"
    for blocking, named in (("1", ["k2()"]), ("0", ["k0()", "k1()", "k2()"])):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env=environment() | {"CUDA_LAUNCH_BLOCKING": blocking},
        )
        assert [line.strip() for line in done.stdout.splitlines() if line.startswith("    ")] == named


def test_an_extension_s_own_error_is_explained_where_it_is_raised():
    def go(x):
        """Doubles."""
        raise ERROR(ILLEGAL)

    wrapped = failures.remembered(go)
    assert (wrapped.__name__, wrapped.__doc__) == ("go", "Doubles.")
    with pytest.raises(ERROR, match="can no longer use the GPU") as caught:
        wrapped(torch.zeros(3))
    assert "go(tensor[3])" in str(caught.value)


def test_settling_waits_only_when_something_was_launched(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    failures.settle()
    launch()
    failures.settle()
    failures.settle()
    assert waited == [1] and not failures._launches
    launch()
    failures.message(ILLEGAL)
    failures.settle()  # all has been said
    assert waited == [1]


def test_errors_that_an_error_came_from_are_explained_too():
    launch()
    error = ValueError("the lesson's own")
    error.__cause__ = ERROR(ILLEGAL)
    error.__cause__.__context__ = error  # a circle ends
    failures.explain(error)
    assert str(error) == "the lesson's own" and "stray[4" in str(error.__cause__)


def test_a_launch_that_the_driver_refuses_on_a_lost_gpu(monkeypatch):
    nvrtc = pytest.importorskip("utils.cuda.gpu.nvrtc")
    lost = nvrtc.driver.CUresult.CUDA_ERROR_MISALIGNED_ADDRESS
    monkeypatch.setattr(nvrtc.driver, "cuLaunchKernel", lambda *args: (lost,))
    monkeypatch.setattr(nvrtc.driver, "cuGetErrorString", lambda error: (0, b"misaligned address"))
    monkeypatch.setattr(nvrtc, "_context", lambda index: open(os.devnull))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    module = object.__new__(nvrtc.Module)
    module.name = "stray"
    module._function = lambda device: SimpleNamespace(handle=0, shared_bytes=0)
    launch()
    with pytest.raises(RuntimeError) as caught:
        module.launch((4, 1, 1), (16, 16, 1), 0, False, (ctypes.c_void_p * 1)(), torch.device("cuda", 0))
    assert str(caught.value) == failures.message(ILLEGAL) and "stray[4, (16, 16)](float[1000], 1000)" in str(
        caught.value
    )
    with pytest.raises(RuntimeError, match="can no longer use the GPU"):
        nvrtc._result((lost,))


# ---- where it appears -----------------------------------------------------------------------------------------------

SIMULATED = f"""
import torch
from utils.cuda.gpu import failures
from utils.cuda import session
session.begin()
ERROR = getattr(torch, "AcceleratorError", RuntimeError)
SAYS = {ILLEGAL!r}
def lost(*args, **named):
    raise ERROR(SAYS)
class Tensor:
    dtype, shape, __repr__, cpu = torch.float32, torch.Size([7]), lost, lost
x = Tensor()
def launch():
    failures.launched("stray", (x, 3))
    torch.cuda.synchronize = lost
"""


@pytest.mark.parametrize("last", ["launch(); x.cpu()", "launch(); print(x)", "launch()"])
def test_in_a_program(last):
    done = subprocess.run([sys.executable, "-c", SIMULATED + last], capture_output=True, text=True, env=environment())
    assert done.stderr.count("This process can no longer use the GPU") == 1 and "Search for" not in done.stderr
    assert "    stray(tensor[7], 3)\n" in done.stderr and "AcceleratorError: CUDA error" in done.stderr
    assert ("Traceback" in done.stderr) == ("x" in last) == bool(done.returncode)


def test_in_a_notebook_the_cell_that_launched_fails():
    anew = "failures._message = ''\n"  # as if the kernel had been restarted
    bad = ["launch(); x.cpu()", "launch()\nx", "launch()\nprint(x)", "launch()"]
    ran = notebook([SIMULATED, *[cell for last in bad for cell in (anew + last, "lost()", "1 / 0")]], allow_errors=True)
    outputs = [cell.outputs for cell in ran.cells[1:]]
    for (first,), (later,), (other,) in zip(outputs[::3], outputs[1::3], outputs[2::3], strict=True):
        trace = "\n".join(first.traceback)
        assert "stray(tensor[7], 3)" in first.evalue and first.evalue == later.evalue and first.evalue in trace
        assert other.evalue == "division by zero"
    assert "utils/" not in trace, "where the learner's lines are all done, none of ours are shown"
    assert "Search for" not in str(outputs)


# ---- on a real GPU --------------------------------------------------------------------------------------------------

SOURCES = {  # a kernel for each mistake, and CUDA's words for it
    "illegal address": ("x[threadIdx.x + n] = 1;", "an illegal memory access was encountered"),
    "misaligned": ("*(float4*)(x + n % 2 + 1) = make_float4(0, 0, 0, 0);", "misaligned address"),
    "assert": ("assert(threadIdx.x + n < 8);", "device-side assert triggered"),
    "trap": ("if (threadIdx.x < n) __trap();", "unspecified launch failure"),
}
KINDS = [(how, what) for what in SOURCES for how in ("compile_kernel", "load_cuda")]


def gpu_cells(how, what):
    """Cells that launch a good kernel, then a bad one, then go on as a learner would."""
    kernel = f"__global__ void stray_kernel(float* x, long long n) {{ {SOURCES[what][0]} }}"
    good = "__global__ void good_kernel(float* x, long long n) { x[threadIdx.x] = n; }"
    if how == "compile_kernel":
        build = f"good = compile_kernel({good!r}, 'good_kernel')[1, 32]\n"
        build += f"stray = compile_kernel({kernel!r}, 'stray_kernel')[1, 32]"
    else:
        text = "#include <torch/extension.h>\n#include <cassert>\n#include <c10/cuda/CUDAException.h>\n"
        for name, source in (("good", good), ("stray", kernel)):
            text += f"{source}\nvoid {name}(torch::Tensor x, int64_t n) {{\n"
            text += f"    {name}_kernel<<<1, 32>>>(x.data_ptr<float>(), n);\n    C10_CUDA_KERNEL_LAUNCH_CHECK();\n}}\n"
        declared = "void good(torch::Tensor x, int64_t n);\nvoid stray(torch::Tensor x, int64_t n);"
        build = (
            f"module = load_cuda({text!r}, {declared!r}, ['good', 'stray'])\ngood, stray = module.good, module.stray"
        )
    begin = "import torch\nfrom utils import compile_kernel, load_cuda\nfrom utils.cuda import session\n"
    begin += "from utils.cuda.gpu import failures\nsession.begin()\n"
    begin += "x = torch.zeros(256, device='cuda')\n"
    return [
        begin + build + "\ngood(x, 1)\nassert x.sum() == 32",
        "good(x, 2)\nstray(x, 1 << 40)\nprint('launched')\nprint(x.cpu())",
        "good(x, 3)",
        "print(torch.ones(3, device='cuda').cpu())",
    ]


def named_launches(how, what, blocking, whole_cell):
    """The lines of the message that name launches; `whole_cell` where those of the cell before are known to be good."""
    call = "{}_kernel[1, 32](float[256], {})" if how == "compile_kernel" else "{}(tensor[256], {})"
    calls = [call.format("good", 1), call.format("good", 2), call.format("stray", 1 << 40)]
    return calls[2:] if blocking else calls[1:] if whole_cell else calls


def wrong_with(message, how, what, blocking, whole_cell):
    """What is wrong with a message about `gpu_cells`; empty if nothing is."""
    wanted = [f"CUDA error: {SOURCES[what][1]}. This process can no longer use the GPU", "Kernel > Restart Kernel"]
    wanted += ["stray_kernel.trace[1, 32](...)" if how == "compile_kernel" else "load_cuda(..., trace=True)"]
    missing = [part for part in wanted if part not in message]
    named = [line.strip() for line in message.splitlines() if line.startswith("    ") and "256]" in line]
    if named != named_launches(how, what, blocking, whole_cell):
        missing.append(f"launches, but names {named}")
    return "" if not missing and "Search for" not in message else f"misses {missing} in:\n{message}"


def program_on_a_gpu(how, what, blocking):
    """Run `gpu_cells` as a program that goes on after the first error; what is wrong, empty if nothing is."""
    begin, bad, *later = gpu_cells(how, what)
    tried = "".join(
        f"try:\n    {cell}\nexcept Exception as e:\n    failures.explain(e); LATER.append(str(e))\n" for cell in later
    )
    tried = "import atexit, sys\nLATER = []\nhook = sys.excepthook\ndef last(*error):\n    hook(*error)\n" + (
        "    " + tried.replace("\n", "\n    ") + "print(*LATER, sep='=====')\nsys.excepthook = last\n"
    )
    env = environment() | {"CUDA_LAUNCH_BLOCKING": str(int(blocking))}
    script = f"{begin}\n{tried}\n{bad}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300)
    message = done.stderr[done.stderr.find("CUDA error: ") :]
    after = done.stdout.rpartition("launched\n")[2].strip().split("=====")
    if done.returncode == 0 or len(after) != 2 or len(set(after)) != 1:
        return f"ends with {done.returncode}, later errors {after}:\n{done.stdout}{done.stderr}"
    return wrong_with(after[0], how, what, blocking, False) or wrong_with(message, how, what, blocking, False)


def notebook_on_a_gpu(how, what, blocking):
    """The same as a notebook; what is wrong, empty if nothing is."""
    env = {"CUDA_LAUNCH_BLOCKING": str(int(blocking))}
    ran = notebook(gpu_cells(how, what), allow_errors=True, more=env).cells
    errors = [[o.evalue for o in cell.outputs if o.output_type == "error"] for cell in ran]
    if [len(e) for e in errors] != [0, 1, 1, 1] or len({e[0] for e in errors[1:]}) != 1:
        return f"errors of the cells: {errors}"
    return wrong_with(errors[1][0], how, what, blocking, True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU, which the kernels break")
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("run", [program_on_a_gpu, notebook_on_a_gpu])
@pytest.mark.parametrize("how, what", KINDS)
def test_on_a_gpu(how, what, run, blocking):
    assert not run(how, what, blocking)
