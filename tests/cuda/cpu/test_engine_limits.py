"""The engine at its limits: many launches, large grids, faults, deadlocks, endless loops, refused launches."""

import gc
import os
import re
import subprocess
import threading
import time

import pytest
import torch

import utils
import utils.cuda.compile
from tests.cuda.cpu.limits import CORES, HANGS, SOURCE, cases, kilobytes, needs_proc
from utils import compile_kernel
from utils.cuda.common import gpus
from utils.cuda.common.toolchain import nvcc_candidates
from utils.cuda.cpu.trace.problems import MAX_STEPS
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")


# ---- nothing leaks, whatever the size --------------------------------------------------------------------------------


@needs_proc
@pytest.mark.parametrize("name", ["plain", "barriers", "shuffles"])
def test_ten_thousand_launches_leak_nothing(name):
    kernel, x = compile_kernel(SOURCE, name), torch.zeros(128, dtype=torch.int32)
    for _ in range(500):  # so much is kept for the next launch
        kernel[4, 32](x, 128)
    gc.collect()
    before = kilobytes()
    for _ in range(10_000):
        kernel[4, 32](x, 128)
    gc.collect()
    after = kilobytes()
    assert after - before < 2048
    assert (x == 10_500).all()


@needs_proc
def test_two_hundred_traces_leak_nothing():
    kernel, x = compile_kernel(SOURCE, "barriers"), torch.zeros(256, dtype=torch.int32)
    for _ in range(20):
        assert kernel.trace[4, 64](x, 256).ok
    gc.collect()
    before = kilobytes()
    for _ in range(200):
        assert kernel.trace[4, 64](x, 256).ok
    gc.collect()
    assert kilobytes() - before < 10 * 1024


@needs_proc
@pytest.mark.alone
@pytest.mark.parametrize(("name", "blocks", "threads"), [("plain", 2**22, 1), ("barriers", 2000, 1024)])
def test_memory_does_not_grow_with_the_grid(name, blocks, threads):
    kernel, x = compile_kernel(SOURCE, name), torch.zeros(blocks * threads, dtype=torch.int32)
    kernel[2 * CORES, threads](x, x.numel())  # every worker has its stacks
    x.zero_()
    gc.collect()
    before = kilobytes()
    kernel[blocks, threads](x, x.numel())
    after = kilobytes()
    assert after - before < 4096
    assert (x == 1).all()


# ---- cores, threads, processes ---------------------------------------------------------------------------------------


@pytest.mark.skipif(CORES < 2, reason="has one core")
def test_blocks_run_on_all_cores_at_once():
    came, met = torch.zeros(1, dtype=torch.int32), torch.zeros(CORES, dtype=torch.int32)
    compile_kernel(SOURCE, "rendezvous")[CORES, 1](came, met)
    assert met.tolist() == [CORES] * CORES


@pytest.mark.parametrize("name", ["plain", "barriers", "shuffles"])
def test_launches_from_several_threads_of_python_at_once(name):
    kernel, xs = compile_kernel(SOURCE, name), [torch.zeros(1024 * 32, dtype=torch.int32) for _ in range(4)]

    def launch(x):
        for _ in range(20):
            kernel[1024, 32](x, x.numel())

    threads = [threading.Thread(target=launch, args=[x], daemon=True) for x in xs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert not any(thread.is_alive() for thread in threads)
    assert all((x == 20).all() for x in xs)


MANY = r"""
barriers, wrong = compile_kernel(SOURCE, "barriers"), []
def launch():
    y = torch.zeros(8 * 1024, dtype=torch.int32)
    try:
        barriers[8, 1024](y, y.numel())
        assert (y == 1).all()
    except Exception as error:
        wrong.append(str(error))
threads = [threading.Thread(target=launch) for _ in range(40)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
tell("many", wrong=wrong)
"""


def test_many_threads_of_python_with_large_blocks_find_room_for_their_stacks():
    """All at once, the threads of their blocks would need more stacks than Linux allows a process."""
    assert cases(MANY)["many"]["wrong"] == []


# ---- accidents -------------------------------------------------------------------------------------------------------

ACCIDENTS = r"""
def message(kernel, *launch):
    try:
        kernel[4, 32, shared](*launch)
    except RuntimeError as error:
        return str(error)
stray, deadlock = compile_kernel(SOURCE, "stray"), compile_kernel(SOURCE, "deadlock")
works()
shared = 0
# 2**45 whole numbers from any address are beyond the 47 bits of one.
for case, kind, wrong, shared in (
    ("far", 0, 1 << 45, 0), ("far below", 0, -(1 << 40), 0), ("division", 1, 0, 0), ("remainder", 3, 0, 0),
    ("recursion", 2, 0, 0), ("no shared", 4, 0, 0), ("behind shared", 4, 50_000, 100_000),
    ("before shared", 4, -20_000, 128), ("misaligned copy", 5, 4, 16)):
    for _ in range(10):
        message(stray, x, wrong, kind)
    before = kilobytes()
    told = [message(stray, x, wrong, kind) for _ in range(100)]
    tell(case, told=told[0] and re.sub("address 0x[0-9a-f]+", "address", told[0]),
         different=len({re.sub("address 0x[0-9a-f]+", "address", t or "") for t in told}),
         grown=kilobytes() - before, works=works())
before = [message(deadlock, x) for _ in range(10)] and kilobytes()
told = [message(deadlock, x) for _ in range(100)]
tell("deadlock", told=told[0], different=len(set(told)), grown=kilobytes() - before, works=works())
"""


@pytest.fixture(scope="module")
def accidents():
    return cases(ACCIDENTS)


@needs_proc
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("far", "illegal memory access was encountered: {who} touches memory far outside: a trace"),
        ("far below", "an illegal memory access was encountered: {who} touches memory that is not there"),
        ("division", "{who} divides a whole number by zero"),
        ("remainder", "{who} divides a whole number by zero"),
        ("recursion", "{who} needs more than 512 KB for its local variables"),
        ("no shared", "{who} writes dynamic shared memory, but this launch has none"),
        ("behind shared", "{who} writes 100000 bytes past the 100000 bytes of dynamic shared memory"),
        ("before shared", "{who} writes before the start of shared memory"),
        ("misaligned copy", "{who} begins a copy of 16 bytes from an address that is not a multiple of 16"),
    ],
)
def test_a_hundred_faults_are_a_hundred_exceptions(accidents, case, message):
    assert case in accidents, f"no answer, and the process ended with {accidents['process']}"
    told = accidents[case]
    assert message.format(who="thread (5, 0, 0) of block (2, 0, 0) of stray") in told["told"]
    assert told["different"] == 1 and told["works"]
    assert told["grown"] < 1024 + 512 * os.cpu_count()  # KB: each worker has a stack


@needs_proc
def test_threads_that_wait_for_ever_are_an_exception(accidents):
    assert "deadlock" in accidents, f"no answer, and the process ended with {accidents['process']}"
    told = accidents["deadlock"]
    assert "this launch would never end: thread (" in told["told"] and "waits at __sync" in told["told"]
    assert told["works"] and told["grown"] < 2048
    assert accidents["process"] == {"ended": 0}


def test_a_trace_of_a_loop_without_end_ends_by_itself():
    """One runaway thread is reported; its neighbours, which do the same, do not run to the limit one by one."""
    kernel, x = compile_kernel(SOURCE, "spin"), torch.zeros(1, dtype=torch.int32)
    for max_steps in (10_000, MAX_STEPS):
        trace = kernel.trace[100, 128](x, max_steps=max_steps)
        assert [problem.kind for problem in trace.problems] == ["runaway"] and trace.problems[0].count >= 1
        assert trace.requests["requests"].sum() <= 8 * max_steps, "one by one, 400 warps would make 400 times as many"


# ---- refused launches ------------------------------------------------------------------------------------------------

MOST_SHARED = gpus.chosen().limits.block_shared_bytes  # bytes of a block that has opted in


@pytest.mark.parametrize(
    ("name", "launch", "values"),
    [
        ("dynamic", (1, 1025), ["1025", "1024"]),
        ("dynamic", (1, (32, 33)), ["(32 33 1)", "1056", "1024"]),
        ("dynamic", (1, (1, 1, 65)), ["65", "64", "z"]),
        ("dynamic", ((1, 65536), 1), ["65536", "65535"]),
        ("dynamic", ((1, 1, 65536), 1), ["65536", "65535"]),
        ("dynamic", (1, 32, 10**6), ["1000000"]),
        ("static_and_dynamic", (1, 32, MOST_SHARED - 40 * 1024 + 1), [str(MOST_SHARED), str(40 * 1024)]),
    ],
)
def test_refused_launches_name_the_values(name, launch, values):
    x = torch.zeros(32, dtype=torch.int32)
    kernel = compile_kernel(SOURCE, name)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        kernel[launch](x)
    assert all(value in str(raised.value).replace(",", "") for value in values), raised.value
    assert (x == 0).all()
    if name == "static_and_dynamic":  # a launch from Python opts in by itself to more than 48 KB, as on a GPU
        for room in (8 * 1024, 8 * 1024 + 1, 48 * 1024, 48 * 1024 + 1, MOST_SHARED - 40 * 1024):
            kernel[1, 32, room](x.zero_())
            assert (x == 2).all()
        assert kernel.trace[1, 32, 48 * 1024](x).ok
    else:
        kernel[1, 32, 128](x)
        assert (x == 1).all()


EXTENSION = (
    r"""
#include <torch/types.h>
#include <c10/cuda/CUDAException.h>
__global__ void little(int* x) { x[threadIdx.x] = 1; }
__global__ void both(int* x) {
    __shared__ char most[40 * 1024];
    extern __shared__ char rest[];
    most[threadIdx.x] = rest[threadIdx.x] = 1;
    x[threadIdx.x] = most[threadIdx.x] + rest[threadIdx.x];
}
void launch(at::Tensor x, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz, int64_t bytes) {
    little<<<dim3(gx, gy, gz), dim3(bx, by, bz), bytes>>>(x.data_ptr<int>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
void launch_both(at::Tensor x, int64_t bytes) {
    both<<<1, 32, bytes>>>(x.data_ptr<int>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
int64_t allow_both(int64_t bytes) {
    return cudaFuncSetAttribute(both, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
""",
    "void launch(at::Tensor x, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz, int64_t bytes);"
    "void launch_both(at::Tensor x, int64_t bytes); int64_t allow_both(int64_t bytes);",
    ["launch", "launch_both", "allow_both"],
)


def test_an_extension_refuses_in_cuda_s_words(monkeypatch):
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cpu"))
    module, x = utils.load_cuda(*EXTENSION), torch.zeros(32, dtype=torch.int32)
    for sizes, values in {
        (1, 1, 1, 1025, 1, 1, 0): ["(1025, 1, 1)", "1025 threads", "1024"],
        (1, 1, 1, 1, 1, 65, 0): ["64 threads along z, not 65"],
        (1, 65536, 1, 1, 1, 1, 0): ["65535", "(1, 65536, 1)"],
        (2**31, 1, 1, 1, 1, 1, 0): ["2147483647", "(2147483648, 1, 1)"],
        (0, 1, 1, 1, 1, 1, 0): ["(0, 1, 1)", "empty"],
        (1, 1, 1, 32, 1, 1, 49153): ["49153 bytes", "49152"],
    }.items():
        with pytest.raises(RuntimeError, match="CUDA error: invalid argument") as raised:
            module.launch(x, *sizes)
        assert all(value in str(raised.value) for value in values), raised.value
    module.launch(x, 1, 1, 1, 32, 1, 1, 0)
    assert (x == 1).all()
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument: 8193 bytes .* and 40960 .* than the 49152"):
        module.launch_both(x, 8 * 1024 + 1)
    module.launch_both(x, 8 * 1024)
    assert (x == 2).all()
    for allowed, limit in {
        20_000: "20001 bytes of dynamic .* 20000",
        MOST_SHARED - 40 * 1024: str(MOST_SHARED),
    }.items():
        assert module.allow_both(allowed) == 0
        module.launch_both(x.zero_(), allowed)
        assert (x == 2).all()
        with pytest.raises(RuntimeError, match=limit):
            module.launch_both(x, allowed + 1)
    if nvcc_candidates():  # it has said what is static
        assert module.allow_both(MOST_SHARED) == 1
        with pytest.raises(RuntimeError, match="invalid argument"):  # that error, for which nobody has asked yet
            module.launch_both(x, 8 * 1024)
        module.launch_both(x, 8 * 1024)


# ---- endless loops, and functions that only the host has ------------------------------------------------------------


def test_an_endless_loop_whose_store_a_compiler_could_move_out_of_it_ends_as_a_runaway():
    source = "__global__ void k(const float* __restrict__ x, float* __restrict__ out, int n) {\n"
    source += "    int i = threadIdx.x;\n    while (i < n) { out[i] = x[i]; }\n}\n"
    x = torch.ones(4)
    trace = Tracer(source, "k")[1, 4](x, x, 4, max_steps=10_000)
    assert [problem.kind for problem in trace.problems] == ["runaway"]


SILENT = {
    "while": "while (true) {}",
    "for": "for (;;);",
    "do": "do {} while (1);",
    "unsigned": "float s = 0; for (unsigned i = 128; i >= 0; --i) s += i; out[0] = s;",
    "another variable": "int s = 0; for (int i = 0; i < 8; ++i) for (int j = 0; j < 8; ++i) s += 1; out[0] = s;",
}
TRACED_KERNEL = "__global__ void k(const float* x, float* out, int n) {{\n    {}\n}}\n"


@needs_proc
@pytest.mark.parametrize("loop", SILENT)
def test_a_trace_ends_a_loop_that_does_nothing(loop):
    kernel = compile_kernel(TRACED_KERNEL.format(SILENT[loop]), "k")
    begun = time.process_time()
    (problem,) = kernel.trace[2, 64](torch.zeros(64), torch.zeros(64), 64).problems
    assert time.process_time() - begun < 30
    assert (problem.kind, problem.thread) == ("runaway", (0, 0, 0)) and problem.line in (2, None)  # may have none left
    assert "keeps running" in problem.message and "max_steps" not in problem.hint
    assert compile_kernel(SOURCE, "plain").trace[4, 64](torch.zeros(256, dtype=torch.int32), 256).ok, "the next runs"


@needs_proc
@pytest.mark.alone
def test_the_stop_button_ends_a_trace_of_a_loop_that_does_nothing():
    kernel = compile_kernel(TRACED_KERNEL.format(SILENT["while"]), "k")
    kernel.trace[1, 1](torch.zeros(1), torch.zeros(1), 1)  # compiled before it is interrupted
    subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -INT {os.getpid()}"])
    begun = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            kernel.trace[1, 1](torch.zeros(1), torch.zeros(1), 1)
    assert time.process_time() - begun < 20


@needs_proc
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("exit(3);", "calls exit, which only the host has"),
        ("_Exit(3);", "calls _Exit, which only the host has"),
        ("abort();", "calls abort, which only the host has"),
        ("int z = n - n; out[0] = 5 / z;", "a division by zero, or a function that ends without a return"),
    ],
)
def test_what_would_end_python_ends_the_kernel(code, says, monkeypatch):
    monkeypatch.setattr("utils.cuda.verdict.on_kernels", lambda *asked: None)  # nvcc would reject the first three
    kernel, x = compile_kernel(TRACED_KERNEL.format(code), "k"), torch.zeros(4)
    with pytest.raises(RuntimeError, match=re.escape(says)):
        kernel[1, 4](x, x.clone(), 4)
    (problem,) = kernel.trace[1, 4](x, x.clone(), 4).problems
    assert problem.kind == "trap" and says in problem.message


def test_a_flood_of_printf_is_cut(capfd):
    source = 'extern "C" __global__ void flood(int n) { for (int i = 0; i < 3; i++) printf("%*d\\n", n, i); }'
    flood = compile_kernel(source, "flood")
    flood[2, 1](5)
    assert capfd.readouterr().out == 2 * "    0\n    1\n    2\n"
    flood[2, 1](10 * 2**20)  # CUDA keeps 1 MB, the engine 16 MB
    said = capfd.readouterr().out
    assert len(said) < 11 * 2**20 and said.endswith(
        f"(flood has printed {5 * (10 * 2**20 + 1)} bytes more, which are left out)\n"
    )
