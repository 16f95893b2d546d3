"""What goes wrong in an extension's host code ends the call, and not Python."""

import os
import resource
import signal
import subprocess
import sys

import pytest
import torch

from tests.cuda.cpu.limits import HANGS, ROOT
from utils import CompileError, compile_kernel, load_cuda
from utils.cuda.cpu import constructors
from utils.cuda.cpu.trace.problems import KernelProblem

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cassert>
#include <string>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <torch/types.h>
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
int deeper(int n) {
    volatile char room[1000];
    room[n % 1000] = 1;
    return n < 0 ? 0 : deeper(n + 1) + room[5];
}
int64_t off_by(int64_t n) {
    volatile float room[16];
    for (int64_t i = 0; i < 16 + n; i++) room[i] = 1;
    return room[3];
}
void in_thread(void (*work)(float*, int64_t), float* p, int64_t i) { std::thread(work, p, i).join(); }
static void own(int) {}
int64_t host(torch::Tensor x, int64_t kind, int64_t i) {
    float* p = x.data_ptr<float>();
    fill<<<1, 32>>>(p, 4);
    switch (kind) {
    case 0: *reinterpret_cast<volatile float*>(i) = 1; break;
    case 1: fill<<<4 / i, 4>>>(p, 4); break;
    case 2: return deeper(0);
    case 3: abort();
    case 4: exit(1);
    case 5: assert(x.numel() == i); break;
    case 6: reinterpret_cast<void (*)()>(i)(); break;
    case 7: return p[i];
    case 8: memset(p, 0, size_t(i)); break;
    case 9: throw 5;
    case 10: throw std::runtime_error("its own");
    case 11: for (volatile int turn = 0;; turn++);
    case 12: __builtin_trap();
    case 13: cudaMemcpy(reinterpret_cast<void*>(i), &i, 8, cudaMemcpyDefault); break;
    case 15: return INT64_MIN / i;
    case 14: cudaMemset(reinterpret_cast<void*>(i), 0, 8); break;
    case 16: []() noexcept { throw std::runtime_error("its own"); }(); break;
    case 17: std::terminate();
    case 18: { std::thread unjoined([&] { for (volatile int turn = 0; turn < 10'000'000; turn++) i = turn; }); break; }
    case 19: in_thread([](float*, int64_t i) { *reinterpret_cast<volatile float*>(i) = 1; }, p, i); break;
    case 20: in_thread([](float*, int64_t i) { throw std::runtime_error("a thread's own"); }, p, i); break;
    case 21: in_thread([](float*, int64_t i) { abort(); }, p, i); break;
    case 22: in_thread([](float*, int64_t i) noexcept { if (i == 0) throw 5; }, p, i); break;
    case 23: in_thread([](float* p, int64_t) { fill<<<1, 32>>>(p, 4); }, p, i); break;
    case 25: raise(int(i)); break;
    case 26: kill(getpid(), int(i)); break;
    case 27: _exit(1);
    case 28: pthread_exit(nullptr);
    case 29: in_thread([](float*, int64_t) { pthread_exit(nullptr); }, p, i); break;
    case 30: cudaMalloc(reinterpret_cast<void**>(i), 400); break;
    case 31: {
        float** rows;
        cudaMalloc(&rows, 4 * sizeof(float*));
        cudaMalloc(&rows[i], 400);
        break;
    }
    case 32: cudaMalloc(&p, 400); free(p); break;
    case 33: cudaMalloc(&p, 400); delete[] p; break;
    case 34: cudaMallocHost(&p, 400); free(p); break;
    case 36: {
        float* d = nullptr;
        cudaMalloc(&d, 4000);
        cudaMemcpy(&d, d, i, cudaMemcpyDefault);
        break;
    }
    case 37: return off_by(i);
    case 38: signal(SIGSEGV, SIG_DFL); *reinterpret_cast<volatile float*>(i) = 1; break;
    case 39: {
        static struct sigaction before, after;
        after.sa_handler = own;
        sigaction(SIGSEGV, &after, &before);
        fill<<<1, 4>>>(reinterpret_cast<float*>(i), 4);
        break;
    }
    case 40: return signal(SIGUSR1, own) == SIG_DFL && signal(SIGUSR1, SIG_DFL) == own;
    case 41: return pthread_kill(pthread_self(), int(i));
    case 42: alarm(unsigned(i)); return alarm(0);
    case 43: { itimerval soon{{}, {i, 0}}; return setitimer(ITIMER_REAL, &soon, nullptr); }
    case 44: return syscall(i, 3, 0);
    case 45: return syscall(SYS_tgkill, getpid(), gettid(), i);
    case 46: {
        signal(SIGALRM, own);
        int left = alarm(5) + alarm(0);
        signal(SIGALRM, SIG_DFL);
        return left;
    }
    case 47: execl("/bin/true", "true", (char*)nullptr); break;
    case 48: { char* const arguments[] = {nullptr}; execv("/bin/true", arguments); break; }
    case 49: free(reinterpret_cast<void*>(i)); break;
    case 50: { char* room = (char*)malloc(40); p = (float*)realloc(room + i, 80); free(room); break; }
    case 51: case 52: {
        int status;
        pid_t child = kind == 51 ? fork() : vfork();
        if (!child) _exit(int(i));
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    case 53: {
        int status;
        pid_t child = fork();
        if (!child) execlp("sh", "sh", "-c", "exit $0", std::to_string(i).c_str(), (char*)nullptr);
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    case 24: in_thread([](float* p, int64_t) { fill<<<1, 2000>>>(p, 4); deeper(0); }, p, i); break;
    }
    return x.numel();
}
"""
WRONG = [
    (0, 0, r"host writes memory that is not there \(address 0, next to a null pointer\), in its host code"),
    (0, 100_000, r"host writes memory that is not there \(address 0x186a0\), in"),
    (1, 0, "host divides a whole number by zero, in its host code"),
    (15, -1, "host divides the smallest whole number by -1, in its host code"),
    (2, 0, "host needs more stack than there is"),
    (3, 0, "host calls abort, which would end Python"),
    (4, 0, "host calls exit, which would end Python"),
    (25, 15, "host raises signal 15 .*, which would end Python"),
    (25, 8, "host raises signal 8 .*, which would end Python"),
    (26, 9, "host raises signal 9 .*, which would end Python"),
    (27, 0, "host calls _exit, which would end Python"),
    (28, 0, "host calls pthread_exit, which would end Python"),
    (5, 3, r"host fails the assertion `x.numel\(\) ?== ?i` \(cuda_src, line 36\)"),
    (6, 0, "host calls a function through a bad pointer"),
    (6, 5, "host calls a function through a bad pointer"),
    (7, 4, "host reads right past the end of a tensor of 16 bytes"),
    (8, 10**9, "host writes .*, in its host code"),
    (9, 0, "host throws what is not a std::exception"),
    (10, 0, "^its own$"),
    (13, 100_000, "host writes memory that is not there .*, in its host code"),
    (14, 100_000, "host writes memory that is not there .*, in its host code"),
    (12, 0, "host has reached what the compiler took for unreachable"),
    (16, 0, r"host calls std::terminate because of an exception, `its own` \(does it leave a destructor, or another"),
    (17, 0, r"host calls std::terminate \(does it destroy a std::thread"),
    (18, 0, r"host calls std::terminate \(does it destroy a std::thread without joining it\?\), in its host code"),
    (19, 0, r"host writes memory that is not there \(address 0, .*\), in a std::thread of its host code"),
    (20, 0, "host throws in a std::thread, where nobody catches it: a thread's own"),
    (21, 0, "host calls abort, which would end Python, in a std::thread of its host code"),
    (22, 0, "host calls std::terminate because of an exception, `what is not a std::exception` .*, in a std::thread"),
    (30, 16, r"host gives cudaMalloc address 0x10 .*, where nothing can be written \(does it need the `&` of `&d`"),
    (31, 3, "host gives cudaMalloc address .*, which is in memory of the device"),
    (32, 0, "host calls free for memory from cudaMalloc, which is for cudaFree"),
    (33, 0, r"host calls delete\[\] for memory from cudaMalloc, which is for cudaFree"),
    (34, 0, "host calls free for memory from cudaMallocHost, which is for cudaFreeHost"),
    (36, 4000, r"host copies 4000 bytes to where its local variables have room for \d+ \(is it `d`, and not `&d`"),
    (38, 0, "host writes memory that is not there .address 0, next to a null pointer., in its host code"),
    (
        39,
        16,
        r"writes memory next to a null pointer \(address 0x10\)|writes 4 bytes at address 0x10, outside every tensor",
    ),
    (41, 15, "host raises signal 15 .*, which would end Python"),
    (42, 1, r"host calls alarm, whose signal 14 \(Alarm clock\) would end Python: install a handler for it first"),
    (43, 1, r"host calls setitimer, whose signal 14 \(Alarm clock\) would end Python"),
    (44, 231, r"host calls syscall\(SYS_exit_group\), which would end Python"),
    (44, 60, r"host calls syscall\(SYS_exit\), which would end Python"),
    (45, 9, "host raises signal 9 .*, which would end Python"),
    (47, 0, "host calls execl, which would end Python"),
    (48, 0, "host calls execv, which would end Python"),
    (49, 16, "host gives free an address that is not from malloc or new"),
    (50, 1, "host gives realloc an address in the middle: byte 1 of 40 bytes from malloc"),
    (37, 6, "host writes past the end of a local array, in its host code"),
    (24, 0, "host needs more stack than there is .*, in a std::thread"),
]


@pytest.fixture(scope="module", params=[False, True], ids=["", "traced"])
def host(request):
    declared = "int64_t host(torch::Tensor x, int64_t kind, int64_t i);"
    return load_cuda(SOURCE, declared, ["host"], trace=request.param).host


def test_host_code_that_goes_wrong_is_an_exception(host):
    for kind, i, told in WRONG * 2:
        x = torch.zeros(4)
        with pytest.raises(RuntimeError, match=told) as raised:
            host(x, kind, i)
        if hasattr(host, "__wrapped__") and "in its host code" in str(raised.value):
            lines = {2: "", 31: "cudaMalloc(&rows[i], 400);", 36: "cudaMemcpy(&d, d, i, ", 37: "}"}
            assert f": `{lines.get(kind, f'case {kind}: ')}" in str(raised.value)  # the trace quotes the line
        assert host(x, -1, 0) == 4 and x.sum() == 4


def test_a_trace_does_not_see_launches_of_the_host_code_s_own_threads(host):
    x = torch.zeros(4)
    if not hasattr(host, "__wrapped__"):
        assert host(x, 23, 0) == 4 and x.sum() == 4
        return
    with pytest.raises(
        KernelProblem, match="a std::thread of the host code launches fill, which the trace does not"
    ) as raised:
        host(x, 23, 0)
    (problem,) = raised.value.problems
    assert problem.kind == "untraced_launch" and "fill<<<" in problem.source


def test_an_endless_recursion_ends_where_the_stack_has_no_limit(host):
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if hard != resource.RLIM_INFINITY:
        pytest.skip("the stack's limit cannot be lifted here")
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    try:
        with pytest.raises(RuntimeError, match="host needs more stack than there is"):
            host(torch.zeros(4), 2, 0)
        assert resource.getrlimit(resource.RLIMIT_STACK) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def test_signals_that_are_no_faults_are_the_host_code_s_own(host):
    x = torch.zeros(4)
    assert host(x, 40, 0) == 1
    assert host(x, 41, 0) == 0 and host(x, 42, 0) == 0 and host(x, 43, 0) == 0
    assert host(x, 44, 39) == os.getpid() and host(x, 45, 0) == 0
    assert host(x, 46, 0) == 5


def test_a_child_of_the_host_code_ends_as_it_likes(host):
    assert [host(torch.zeros(4), kind, 7) for kind in (51, 52, 53)] == [7, 7, 7]


def test_the_stop_button_ends_a_loop_of_host_code(host):
    x = torch.zeros(4)
    with subprocess.Popen(["sh", "-c", f"sleep 1; kill -INT {os.getpid()}"]), pytest.raises(KeyboardInterrupt):
        host(x, 11, 0)
    assert host(x, -1, 0) == 4


# ---- before the first call -------------------------------------------------------------------------------------------

GLOBAL = """
#include <stdexcept>
#include <torch/types.h>
struct Table {
    int64_t entry;
    Table(int64_t kind) : entry(kind) {
        if (kind == 1) *reinterpret_cast<volatile int*>(0) = 1;
        if (kind == 2) for (volatile int turn = 0;; turn++);
        if (kind == 3) throw std::runtime_error("no table");
    }
};
static Table table(KIND);
int64_t entry() { return table.entry; }
"""


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (1, "ends the process: Segmentation fault"),
        (2, "does not end .it was stopped after 4 s of processor time"),
        (3, r"ends the process: Aborted; its last words: .*no table"),
    ],
)
def test_a_global_variable_that_cannot_be_set(monkeypatch, kind, told):
    monkeypatch.setattr(constructors, "MOST_SECONDS", 4)
    with pytest.raises(
        CompileError, match=f"code such as that of `table` runs when the extension is loaded, and {told}"
    ) as raised:
        load_cuda(GLOBAL.replace("KIND", str(kind)), "int64_t entry();", ["entry"])
    assert raised.value.line == 12


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("int g = threadIdx.x;", "`g` runs when the kernel is loaded, and ends the process: Segmentation fault"),
        ("struct S { int a; S() { a = blockIdx.x; } };\nS s;", "`s` .*Segmentation fault"),
        ("int* p;\nint g = *p;", "`g` .*Segmentation fault"),
        ("static int n = [] { throw 1; return 1; }();", "`n` .*Aborted"),
        ("#include <cstdlib>\nstatic int n = [] { std::exit(3); return 1; }();", "`n` .*with status 3"),
    ],
)
def test_a_global_variable_beside_a_kernel_that_cannot_be_set(variable, told):
    with pytest.raises(CompileError, match=told):
        compile_kernel(variable + "\n__global__ void k(int* x) { x[0] = 1; }", "k")


def test_a_global_variable_that_can_be_set():
    x = torch.zeros(1, dtype=torch.int32)
    compile_kernel("int n = 3, twice = 2 * n;\n__global__ void k(int* x) { x[0] = 1; }", "k")[1, 1](x)
    assert x.item() == 1
    assert load_cuda(GLOBAL.replace("KIND", "5"), "int64_t entry();", ["entry"]).entry() == 5


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('int n = 3;\nstatic float x[2] = {1, 2};\nconst char* names[] = {"a"};', None),
        ("__device__ float w[3];\nconstexpr int k = f(3);\nnamespace cg = cooperative_groups;", None),
        ("struct A { A(); };\nenum E { a };\nextern A other;\nint f() { A inside; return 1; }", None),
        ("int f();\nint n = f();", (2, "n")),
        ("struct A { A(); };\n\nA here;", (3, "here")),
        ("namespace own {\nstd::vector<int> v;\n}", (2, "v")),
        ("int f();\n__attribute__((constructor)) static void first() { f(); }", (2, "first")),
        ("static void f() { int constructor = 1; }", None),
        ("const int N = 3, M = N + 1;\nfloat w[] = {N, -1.5f};", None),
        ("int n = 2;\nint g = threadIdx.x;", (2, "g")),
    ],
)
def test_which_global_variables_take_code(source, found):
    assert constructors.global_with_code(source) == found


# ---- what Python does with memory of cudaMalloc ----------------------------------------------------------------------

FROM_BLOB = r"""
import ctypes, faulthandler, sys, torch
from utils import load_cuda
faulthandler.enable()
source = '''#include <torch/types.h>
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
at::Tensor made(int64_t n, int64_t promised, bool frees) {
    float* d;
    cudaMalloc(&d, n * sizeof(float));
    fill<<<1, 32>>>(d, n);
    auto t = torch::from_blob(d, {promised}, torch::kCUDA);
    if (frees) cudaFree(d);
    return t;
}
void over(at::Tensor x) { fill<<<1, 32>>>(x.data_ptr<float>(), 32); }
'''
functions = ["made", "over"]
declared = "at::Tensor made(int64_t n, int64_t promised, bool frees); void over(at::Tensor x);"
module = load_cuda(source, declared, functions, trace=sys.argv[1] == "traced")
print(module.made(8, 8, False).sum(), module.made(8, 8, True).sum(), module.made(8, 100_000, False)[8:].isnan().all())
module.made(8, 8, True).fill_(1)
for _ in range(2):
    try:
        print(module.over(torch.zeros(8)))
    except RuntimeError as error:
        print("an illegal memory access" in str(error))
if sys.argv[1] == "dies":
    ctypes.string_at(16)
"""


@pytest.mark.parametrize("how", ["launched", "traced", "dies"])
def test_a_tensor_from_blob_without_its_memory_does_not_end_python(how):
    command = [sys.executable, "-c", FROM_BLOB, how]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=HANGS)
    assert done.returncode == (-signal.SIGSEGV if how == "dies" else 0), done.stderr
    assert done.stdout.startswith("tensor(8.) tensor(nan) tensor(True)\n")
    assert how == "traced" or done.stdout.endswith("\nTrue\nTrue\n")
    first, *others = [line for line in done.stderr.splitlines() if "CUDA error" in line]
    assert not others and "outside of any launch reads memory that was freed: a cudaMalloc allocation of 32" in first
    assert ("Fatal Python error: Segmentation fault" in done.stderr) == (how == "dies")
