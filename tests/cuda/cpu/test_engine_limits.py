"""The engine at its limits: many launches, large grids, interruptions, faults, deadlocks, other compilers and none.

What could hang or end the process runs in one of its own, which is given a time limit.
"""

import gc
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import utils.cuda.compile
import utils.cuda.kernel
from utils import compile_kernel
from utils.cuda.common import toolchain
from utils.cuda.kernel import Tracer

ROOT = Path(utils.__file__).parents[1]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc, which is Linux's")

SOURCE = r"""
#include <cuda_pipeline.h>
__global__ void plain(int* x, int n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}

__global__ void barriers(int* x, int n) {
    __shared__ int part[1024];
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    part[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int other = part[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    part[threadIdx.x] = other;
    __syncthreads();
    if (i < n) x[i] += 1 + part[blockDim.x - 1 - threadIdx.x] - int(threadIdx.x);
}

__global__ void shuffles(int* x, int n) {
    int sum = 1;
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    __syncwarp();
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] += sum / 32;
}

// Each block waits until all have come; none can if they run one after the other.
__global__ void rendezvous(int* came, int* met) {
    atomicAdd(came, 1);
    volatile int* now = came;
    for (long long i = 0; i < (1ll << 31) && *now < int(gridDim.x); i++) {}
    met[blockIdx.x] = *now;
}

__global__ void spin(int* x) { volatile int* never = x; while (*never == 0) {} }
__global__ void meet(int* x) { volatile int* never = x; while (*never == 0) __syncthreads(); }
__global__ void vote(int* x) { volatile int* never = x; while (__any_sync(0xffffffff, *never == 0)) {} }

__device__ long long deep(long long n) {
    volatile long long room[64];
    room[n % 64] = n;
    return deep(n + 1) + room[n % 64];
}
// One thread goes wrong, in its own way; those after it wait.
__global__ void stray(int* x, long long wrong, int kind) {
    extern __shared__ __align__(16) int room[];
    __syncthreads();
    if (blockIdx.x == 2 && threadIdx.x == 5) {
        if (kind == 0) x[wrong] = 1;
        if (kind == 1) x[0] = 7 / int(wrong);
        if (kind == 2) x[0] = deep(wrong);
        if (kind == 3) x[0] = 7 % int(wrong);
        if (kind == 4) room[wrong] = 1;
        if (kind == 5) __pipeline_memcpy_async(room, (char*)x + wrong, 16);
    }
    __syncthreads();
}
__global__ void deadlock(int* x) {
    if (threadIdx.x < 16) __syncthreads();
    else __syncwarp();
    x[threadIdx.x] = 1;
}

__global__ void dynamic(int* x) {
    extern __shared__ int room[];
    room[threadIdx.x] = 1;
    x[threadIdx.x] = room[threadIdx.x];
}
__global__ void static_and_dynamic(int* x) {
    __shared__ char most[40 * 1024];
    extern __shared__ char rest[];
    most[threadIdx.x] = rest[threadIdx.x] = 1;
    x[threadIdx.x] = most[threadIdx.x] + rest[threadIdx.x];
}
"""


def kilobytes(field="VmRSS"):
    """Memory of this process as the system counts it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":"))


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(utils.cuda.kernel, "device", lambda: torch.device("cpu"))


def run_python(script, limit, **environment):
    """What a Python process of its own prints, which must end in time."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stdout[-1000:]}\n{done.stderr[-2000:]}"
    return done.stdout


BEGIN = (
    f"SOURCE = {SOURCE!r}"
    + r"""
import json, os, re, signal, threading, time
import torch
from utils import compile_kernel
x = torch.zeros(1024, dtype=torch.int32)
def tell(case, **what):
    print(json.dumps([case, what]), flush=True)
def works():
    x.zero_()
    for name in ("plain", "barriers", "shuffles"):
        compile_kernel(SOURCE, name)[8, 128](x, 1024)
    return bool((x == 3).all())
def kilobytes():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS:"))
"""
)


def cases(script, limit):
    """What a process tells of its cases, by name: those before a hang or a crash are there too."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + script], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        text = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        text = process.communicate()[0]
    return {"process": {"ended": process.returncode}, **dict(map(json.loads, text.splitlines()))}


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
        for _ in range(50):
            kernel[1024, 32](x, x.numel())

    threads = [threading.Thread(target=launch, args=[x], daemon=True) for x in xs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert all((x == 50).all() for x in xs)


FORKS = r"""
def in_child(run):  # how it ended; what hangs ends with SIGALRM
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(10)
    os._exit(0 if run() else 1)

barriers, spin, over = compile_kernel(SOURCE, "barriers"), compile_kernel(SOURCE, "spin"), threading.Event()
def launch(y):
    barriers[32, 32](y, 1024)
    return bool((y == 1).all())
def launches():  # as short as can be: nearly all of such a launch is what a mutex guards
    y = torch.zeros(1, dtype=torch.int32)
    while not over.is_set():
        barriers[1, 1](y, 1)
works()
tell("idle", ended=[in_child(works) for _ in range(3)])

thread = threading.Thread(target=launches)
thread.start()
tell("busy", ended=[in_child(lambda: launch(torch.zeros(1024, dtype=torch.int32))) for _ in range(300)])
over.set()
thread.join()

def interrupted():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        spin[1, 32](torch.zeros(1, dtype=torch.int32))
    except KeyboardInterrupt:
        return works()
flag = torch.zeros(1, dtype=torch.int32)
thread = threading.Thread(target=lambda: spin[4, 32](flag))
thread.start()
time.sleep(0.3)
tell("interrupted", ended=[in_child(interrupted)])
flag.fill_(1)
thread.join()
tell("afterwards", ended=[0 if works() else 1])
"""


@pytest.fixture(scope="module")
def forks():
    return cases(FORKS, 120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("case", ["idle", "busy", "interrupted", "afterwards"])
def test_a_forked_process_launches_kernels(forks, case):
    assert case in forks, f"no answer, and the process ended with {forks['process']}"
    assert not any(forks[case]["ended"]), [os.waitstatus_to_exitcode(status) for status in forks[case]["ended"]]


def _launch_and_answer(name, answers):
    x = torch.zeros(100, dtype=torch.int32)
    compile_kernel(SOURCE, name)[4, 32](x, 100)
    answers.put(x.tolist())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_multiprocessing_by_fork():
    kernel, fork = compile_kernel(SOURCE, "barriers"), multiprocessing.get_context("fork")
    kernel[32, 32](torch.zeros(1024, dtype=torch.int32), 1024)
    answers = fork.SimpleQueue()
    child = fork.Process(target=_launch_and_answer, args=["barriers", answers])
    child.start()
    child.join(20)
    hangs = child.is_alive()
    child.kill()
    child.join()
    assert not hangs and child.exitcode == 0
    assert answers.get() == [1] * 100


# ---- interruptions ---------------------------------------------------------------------------------------------------

INTERRUPTIONS = r"""
never = torch.zeros(32, dtype=torch.int32)
def interrupted(case, run):
    try:
        threading.Timer(0.3, lambda: (sent.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT))).start()
        sent = []
        run()
        raised = None
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    except BaseException as error:
        raised = repr(error)
    tell(case, raised=raised, seconds=time.monotonic() - sent[0] if sent else None, works=works())
works()
for name in ("spin", "meet", "vote"):
    kernel = compile_kernel(SOURCE, name)
    for blocks, threads in ((1, 32), (100, 64)):
        interrupted(f"{name} {blocks}", lambda: kernel[blocks, threads](never))
for name in ("spin", "meet"):
    trace = compile_kernel(SOURCE, name).trace
    trace[1, 1](never, max_steps=10)
    interrupted(f"trace of {name}", lambda: trace[4, 64](never, max_steps=10**15))
    x.zero_()
    tell(f"after trace of {name}", ok=compile_kernel(SOURCE, "barriers").trace[8, 128](x, 1024).ok)
"""
INTERRUPTED = [f"{name} {blocks}" for name in ("spin", "meet", "vote") for blocks in (1, 100)]


@pytest.fixture(scope="module")
def interruptions():
    return cases(INTERRUPTIONS, 60)


@pytest.mark.parametrize("case", [*INTERRUPTED, "trace of spin", "trace of meet"])
def test_an_interruption_ends_a_kernel_and_the_next_runs(interruptions, case):
    assert case in interruptions, f"no answer, and the process ended with {interruptions['process']}"
    told = interruptions[case]
    assert told["raised"] == "KeyboardInterrupt" and told["works"]
    assert told["seconds"] < 2
    if case.startswith("trace"):
        assert interruptions[f"after {case}"]["ok"]


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
for case, kind, wrong, shared in (
    ("far", 0, 1 << 40, 0), ("far below", 0, -(1 << 40), 0), ("division", 1, 0, 0), ("remainder", 3, 0, 0),
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
    return cases(ACCIDENTS, 60)


@needs_proc
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("far", "an illegal memory access was encountered: {who} touches memory that is not there"),
        ("far below", "an illegal memory access was encountered: {who} touches memory that is not there"),
        ("division", "{who} divides a whole number by zero"),
        ("remainder", "{who} divides a whole number by zero"),
        ("recursion", "{who} needs more than 256 KB for its local variables"),
        ("no shared", "{who} writes dynamic shared memory, but this launch has none"),
        ("behind shared", "{who} writes 100000 bytes behind the 100000 bytes of dynamic shared memory"),
        ("before shared", "{who} writes before the start of shared memory"),
        ("misaligned copy", "{who} begins a copy of 16 bytes from an address that is no multiple of 16"),
    ],
)
def test_a_hundred_faults_are_a_hundred_exceptions(accidents, case, message):
    assert case in accidents, f"no answer, and the process ended with {accidents['process']}"
    told = accidents[case]
    assert message.format(who="thread (5, 0, 0) of block (2, 0, 0) of stray") in told["told"]
    assert told["different"] == 1 and told["works"]
    assert told["grown"] < 2048


@needs_proc
def test_threads_that_wait_for_ever_are_an_exception(accidents):
    assert "deadlock" in accidents, f"no answer, and the process ended with {accidents['process']}"
    told = accidents["deadlock"]
    assert "this launch would never end: thread (" in told["told"] and "waits at __sync" in told["told"]
    assert told["works"] and told["grown"] < 2048
    assert accidents["process"] == {"ended": 0}


def test_a_trace_of_a_loop_without_end_ends_by_itself():
    """One runaway thread is told of soon; its neighbours, who do the same, are not run to the limit one by one."""
    script = (
        BEGIN
        + r"""
trace = compile_kernel(SOURCE, "spin").trace[100, 128](torch.zeros(1, dtype=torch.int32))
tell("spin", kinds=[problem.kind for problem in trace.problems], count=trace.problems[0].count)
"""
    )
    told = json.loads(run_python(script, 20))[1]
    assert told["kinds"] == ["runaway"] and told["count"] >= 1


# ---- refused launches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "launch", "values"),
    [
        ("dynamic", (1, 1025), ["1025", "1024"]),
        ("dynamic", (1, (32, 33)), ["(32 33 1)", "1056", "1024"]),
        ("dynamic", (1, (1, 1, 65)), ["65", "64", "z"]),
        ("dynamic", ((1, 65536), 1), ["65536", "65535"]),
        ("dynamic", ((1, 1, 65536), 1), ["65536", "65535"]),
        ("dynamic", (1, 32, 10**6), ["1000000"]),
        ("static_and_dynamic", (1, 32, 8 * 1024 + 1), ["49152"]),
    ],
)
def test_refused_launches_name_the_values(name, launch, values):
    x = torch.zeros(32, dtype=torch.int32)
    kernel = compile_kernel(SOURCE, name)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        kernel[launch](x)
    assert all(value in str(raised.value).replace(",", "") for value in values), raised.value
    assert (x == 0).all()
    if name == "static_and_dynamic":
        kernel[1, 32, 8 * 1024](x)
        assert (x == 2).all()
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
""",
    "void launch(at::Tensor x, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz, int64_t bytes);"
    "void launch_both(at::Tensor x, int64_t bytes);",
    ["launch", "launch_both"],
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
    with pytest.raises(RuntimeError, match="49152"):
        module.launch_both(x, 8 * 1024 + 1)
    module.launch_both(x, 8 * 1024)
    assert (x == 2).all()


# ---- compilers -------------------------------------------------------------------------------------------------------

ONE_RUN_AND_ONE_TRACE = (
    BEGIN
    + r"""
x = torch.zeros(256, dtype=torch.int32)
compile_kernel(SOURCE, "barriers")[4, 64](x, 256)
trace = compile_kernel(SOURCE, "plain").trace
ok, bad = trace[4, 64](x, 256), trace[5, 64](x, 320)
(problem,) = bad.problems
tell("done", result=bool((x == 1).all()), ok=ok.ok, requests=int(ok.requests["requests"].sum()),
     sectors=int(ok.requests["sectors"].sum()), kind=problem.kind, line=problem.line, block=problem.block)
"""
)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_each_compiler_builds_a_kernel_and_a_trace(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    programs = tmp_path / "bin"  # no other compiler is found
    programs.mkdir()
    for tool in (compiler, "ld", "as", "addr2line", "sh"):
        if path := shutil.which(tool):
            (programs / tool).symlink_to(path)
    environment = {"CXX": compiler, "CUDA_COURSE_CACHE": str(tmp_path / "cache"), "PATH": str(programs)}
    if os.path.basename(toolchain.cxx_compiler()) == compiler:
        del environment["CUDA_COURSE_CACHE"]  # what the other tests have built will do
    told = json.loads(run_python(ONE_RUN_AND_ONE_TRACE, 60, **environment))[1]
    line = SOURCE[: SOURCE.index("if (i < n) x[i] += 1;")].count("\n") + 1
    assert told == {
        "result": True,
        "ok": True,
        "requests": 16,  # 8 warps load and store
        "sectors": 64,
        "kind": "out_of_bounds",
        "line": line,
        "block": [4, 0, 0],
    }
    for kernel in (tmp_path / "cache" / "cpu").glob("*/commands.txt"):
        assert kernel.read_text().startswith(compiler) or f"/{compiler} " in kernel.read_text()


def test_without_a_compiler_the_error_names_how_to_get_one(tmp_path):
    script = r"""
import torch
from utils import compile_kernel, load_cuda
from utils.cuda.common.toolchain import ToolchainError
source = "__global__ void f(int* x) { x[0] = 1; }"
x = torch.zeros(1, dtype=torch.int32)
for attempt in (lambda: compile_kernel(source, "f"),
                lambda: load_cuda(source + " void g() {}", "void g();", ["g"]),
                lambda: load_cuda(source + " void g() {}", "void g();", ["g"], trace=True)):
    try:
        attempt()
        print("built")
    except ToolchainError as error:
        print(error)
"""
    environment = {"PATH": str(tmp_path), "CUDA_COURSE_CACHE": str(tmp_path / "cache"), "CXX": ""}
    told = run_python(script, 60, **environment).splitlines()
    assert len(told) == 3
    for message in told:
        assert message.startswith("there is no C++ compiler (g++ or clang++). To mend it: ")
        assert message.split(": ")[1], "a command, or the packages where no package manager is found either"


def test_an_endless_loop_whose_store_a_compiler_could_move_out_of_it_ends_as_a_runaway():
    source = "__global__ void k(const float* __restrict__ x, float* __restrict__ out, int n) {\n"
    source += "    int i = threadIdx.x;\n    while (i < n) { out[i] = x[i]; }\n}\n"
    x = torch.ones(4)
    trace = Tracer(source, "k")[1, 4](x, x, 4, max_steps=10_000)
    assert [problem.kind for problem in trace.problems] == ["runaway"]


# ---- loops of which no hook hears, and functions that only the host has ----------------------------------------------

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
    begun = time.monotonic()
    (problem,) = kernel.trace[2, 64](torch.zeros(64), torch.zeros(64), 64).problems
    assert time.monotonic() - begun < 30
    assert (problem.kind, problem.thread) == ("runaway", (0, 0, 0)) and problem.line in (2, None)  # may have none left
    assert "keeps running" in problem.message and "max_steps" not in problem.hint
    assert compile_kernel(SOURCE, "plain").trace[4, 64](torch.zeros(256, dtype=torch.int32), 256).ok, "the next runs"


@needs_proc
@pytest.mark.alone
def test_the_stop_button_ends_a_trace_of_a_loop_that_does_nothing():
    kernel = compile_kernel(TRACED_KERNEL.format(SILENT["while"]), "k")
    Tracer(kernel.source, "k")  # compiled before the clock runs
    subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -INT {os.getpid()}"])
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            kernel.trace[1, 1](torch.zeros(1), torch.zeros(1), 1)
    assert time.monotonic() - begun < 20


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
def test_what_would_end_python_ends_the_kernel(code, says):
    kernel, x = compile_kernel(TRACED_KERNEL.format(code), "k"), torch.zeros(4)
    with pytest.raises(RuntimeError, match=re.escape(says)):
        kernel[1, 4](x, x.clone(), 4)
    (problem,) = kernel.trace[1, 4](x, x.clone(), 4).problems
    assert problem.kind == "trap" and says in problem.message
