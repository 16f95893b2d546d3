"""What goes wrong in a kernel never ends Python: local arrays, far accesses, cudaMalloc, refused calls."""

import mmap
import subprocess
import sys

import pytest
import torch

from tests.cuda.cpu.limits import HANGS, ROOT
from utils import CompileError, compile_kernel, load_cuda
from utils.cuda.cpu import guard
from utils.cuda.cpu.translate import TranslationError, translate
from utils.cuda.kernel import compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

LOCAL = r"""
__device__ __noinline__ void fill(float* p, int n) { for (int i = 0; i < n; i++) p[i] = 1; }
__device__ __noinline__ void put(float* p, int i) { p[i] = 1; }
__device__ __noinline__ float get(const float* p, int i) { return p[i]; }
__device__ void inlined(float* p, int i) { p[i] = 1; }
struct Params { float values[4]; };
__global__ void local(float* out, int kind, int i) {
    float part[8] = {0}, rows[4][4] = {{1}};
    float4 four = {1, 2, 3, 4};
    if (threadIdx.x == 3) {
        if (kind == 0) fill(part, i);
        if (kind == 1) put(part, i);
        if (kind == 2) four.x = get(part, i);
        if (kind == 3) inlined(part, i);
        if (kind == 4) part[i] = 1;
        if (kind == 5) put(rows[1], i);
        if (kind == 6) reinterpret_cast<float*>(&four)[i] = 1;
    }
    out[threadIdx.x] = part[threadIdx.x % 8] + rows[threadIdx.x % 4][1] + four.x;
}
__global__ void shared(float* out, long long at, int writes) {
    __shared__ float tile[32];
    tile[threadIdx.x] = threadIdx.x;
    if (writes) tile[at] = 1;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x] + (writes ? 0 : tile[at]);
}
__global__ void heap(float* out, int i) {
    float* p = new float[16];
    if (i < 100) p[i] = 1;
    out[0] = p[0];
    delete[] p;
    if (i == 100) delete[] p;
    if (i == 101) out[0] = p[1];
}
struct Node { Node* next; int value; };
__global__ void list(float* out, int n, int twice) {
    Node* all = nullptr;
    for (int i = 0; i < n; i++) all = new Node{all, i};
    for (Node* node = all; node;) {
        out[0] += node->value;
        Node* next = node->next;
        delete node;
        if (twice) delete node;
        node = next;
    }
}
"""
KINDS = {"fill": 0, "put": 1, "get": 2, "inlined": 3, "index": 4, "row": 5, "vector": 6}
LINES = {"fill": 2, "put": 3, "get": 4, "inlined": 5, "index": 15, "row": 3, "vector": 17}
BEYOND = [12, 13, 14, 25, 26, 27, 60, 130, 200, 5000, 10**6, 10**9]


@pytest.fixture(scope="module")
def kernels():
    names = ["local", "shared", "heap", "list"]
    return dict(zip(names, compile_kernels(LOCAL, names), strict=True))


def message(kernel, *args, launch=(1, 32)):
    try:
        kernel[launch](*args)
    except RuntimeError as error:
        return str(error)
    return ""


# ---- local arrays ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", KINDS)
def test_a_trace_finds_an_overrun_of_a_local_array_by_any_amount(kernels, how):
    for i in [*BEYOND, *(-i for i in BEYOND if how not in ("fill", "vector"))]:
        (problem, *_) = kernels["local"].trace[1, 32](torch.zeros(32), KINDS[how], i).problems
        assert (problem.kind, problem.thread, problem.line) == ("out_of_bounds", (3, 0, 0), LINES[how]), (i, problem)


def test_the_message_names_the_array_and_the_index(kernels):
    trace = kernels["local"].trace
    (problem,) = trace[1, 32](torch.zeros(32), 1, 12).problems
    assert str(problem).startswith("thread (3,0,0) of block (0,0,0) writes part[12], but part has 8 elements (line 3:")
    (problem,) = trace[1, 32](torch.zeros(32), 2, -5).problems
    assert "reads part[-5], but the first element of part is part[0]" in str(problem)
    (problem,) = trace[1, 32](torch.zeros(32), 6, 9).problems
    assert "writes memory outside the local variable that its pointer belongs to" in str(problem)


@pytest.mark.parametrize("kind", range(7))
def test_a_trace_of_a_kernel_that_stays_inside_finds_nothing(kernels, kind):
    assert kernels["local"].trace[1, 32](torch.zeros(32), kind, 3).ok


@pytest.mark.parametrize("how", ["fill", "put", "inlined", "index"])
def test_a_launch_whose_thread_overruns_a_local_array_ends_in_an_exception(kernels, how):
    far = [i for i in BEYOND if i > 40]  # nearer ones may stay within the thread's other local variables
    assert not message(kernels["shared"], torch.zeros(32), 3, 0)  # it has a barrier, so it takes a stack per thread
    for i in far:
        told = message(kernels["local"], torch.zeros(32), KINDS[how], i)
        assert "thread (3, 0, 0) of block (0, 0, 0) of local " in told and "local" in told.split(" of local ")[1], i


def test_overruns_of_any_amount_leave_python_whole(kernels):
    for i in [*range(-300, 300), *BEYOND, *(-i for i in BEYOND)]:
        for kind in range(7):
            message(kernels["local"], torch.zeros(32), kind, i)
    out = torch.zeros(32)
    assert not message(kernels["shared"], out, 3, 0) and out[5] == 8


LOADS = """
import ctypes, shutil, sys
from tests.cuda.cpu.test_faults import LOCAL
from utils.cuda.cpu import guard
from utils.cuda.kernel import compile_kernels
kernel = compile_kernels(LOCAL, ["local", "shared", "heap", "list"])[0]
for n in range(12):  # more than fit in one place
    copy = shutil.copy(kernel._module.path, f"{sys.argv[1]}/copy{n}.so")
    with guard.apart(copy, has_variables=n == 9):
        ctypes.CDLL(copy)
print(open("/proc/self/maps").read())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there libraries lie amid reserved space")
def test_half_of_a_return_address_changed_leads_to_no_other_code(tmp_path):
    """What an overrun leaves of a return address in a kernel, or in the engine that has called it."""
    command = [sys.executable, "-c", LOADS, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=True)
    code = [line.split() for line in ran.stdout.splitlines() if " r-xp " in line]
    kernels = [
        words for words in code if "kernel.so" in words[-1] or "/copy" in words[-1] or "libcuda_on_cpu-" in words[-1]
    ]
    assert len(kernels) == 14
    halves = {int(words[0].split("-")[0], 16) >> 32 for words in kernels}
    others = [words for words in code if words not in kernels and int(words[0].split("-")[0], 16) >> 32 in halves]
    assert len(halves) >= 3 and not others


# ---- calls through pointers ------------------------------------------------------------------------------------------


CALLS = """
typedef float (*Function)(float);
__device__ float twice(float x) { return 2 * x; }
__global__ void calls(float* x, long long address) {
    Function f = address < 0 ? twice : (Function)address;
    x[threadIdx.x] = 1;
    if (threadIdx.x == 3)
        x[threadIdx.x] = f(4) + 1;
}
"""


@pytest.mark.parametrize(
    ("address", "does"),
    [(0, "calls a function through a null pointer"), (4096, "jumps to an address that holds no code: it calls")],
)
def test_a_call_through_a_bad_pointer_is_an_error_and_in_a_trace_has_its_line(address, does):
    calls = compile_kernel(CALLS, "calls")
    calls[1, 32](x := torch.zeros(32), -1)
    assert x[3] == 9
    assert f"thread (3, 0, 0) of block (0, 0, 0) of calls {does}" in message(calls, torch.zeros(32), address)
    (problem,) = calls.trace[1, 32](torch.zeros(32), address).problems
    assert (problem.thread, problem.line) == ((3, 0, 0), 8) and does in str(problem)
    assert "a trace of this launch" not in str(problem)


# ---- far accesses, and the heap of kernels ---------------------------------------------------------------------------


BESIDE_SHARED = r"""
__global__ void one(float* out, int at) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1;
    if (threadIdx.x == 3) tile[at] *= 2;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void two(float* out, int at) {
    __shared__ float tile[64];
    extern __shared__ float more[];
    tile[threadIdx.x] = more[threadIdx.x] = 1;
    if (threadIdx.x == 3) tile[at] *= 2;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x] + more[threadIdx.x];
}
"""


def test_writes_just_outside_shared_memory_raise():
    one, two = compile_kernels(BESIDE_SHARED, ["one", "two"])
    dynamic = 12 * 1024  # where it begins, in floats: more static memory than this no block has
    for at in (64, 65, 100, 1000, 1023, 1024, 3000, dynamic - 1, dynamic, 20_000):
        how = f"{4 * (at - 64)} bytes" if at > 64 else "right"
        assert f" {how} past the end of tile in shared memory: " in message(one, torch.zeros(32), at), at
    for at in (64, 65, 1023, 1024, 3000):
        told = message(two, torch.zeros(32), at, launch=(2, 32, 200))
        how = f"{4 * (at - 64)} bytes" if at > 64 else "right"
        assert f" {how} past the end of tile in shared memory: " in told, (at, told)
    for at in (dynamic - 1, dynamic - 2000):
        told = message(two, torch.zeros(32), at, launch=(2, 32, 200))
        assert f" {4 * (dynamic - at)} bytes before the start of dynamic shared memory: " in told, (at, told)
    for at in (50, 51, 1000, 5000):
        told = message(two, torch.zeros(32), dynamic + at, launch=(2, 32, 200))
        how = f"{4 * at - 200} bytes" if at > 50 else "right"
        assert f" {how} past the 200 bytes of dynamic shared memory" in told, (at, told)
    assert not message(one, torch.zeros(32), 63) and not message(two, torch.zeros(32), 63, launch=(2, 32, 200))


@pytest.mark.parametrize("writes", [0, 1])
def test_far_accesses_outside_shared_memory_always_raise(kernels, writes):
    for megabytes in (1, 2, 5, 10, 17, 40, 100, 1000, 8000):
        for at in (megabytes * 2**18, -megabytes * 2**18, megabytes * 2**18 + 12345, 1 - megabytes * 2**18):
            told = message(kernels["shared"], torch.zeros(32), at, writes)
            assert "an illegal memory access" in told and "shared memory" in told, at


def test_a_trace_names_the_shared_array_that_is_left_far_behind(kernels):
    (problem, *_) = kernels["shared"].trace[1, 32](torch.zeros(32), 10**7, 1).problems
    assert problem.kind == "out_of_bounds" and "tile" in str(problem) and problem.line == 24


@pytest.mark.parametrize("before", [0, 500])
def test_far_accesses_outside_variables_of_the_module_raise(before, monkeypatch):
    monkeypatch.setattr(guard, "_sizes", iter([size for times, size in guard._RESERVED for _ in range(times)][before:]))
    writable = [mmap.mmap(-1, 160 << 20) for _ in range(9)]
    for gap in writable[1::2]:  # a library would fit in, between memory that an index must not reach
        gap.close()
    source = f"__device__ float table[{8 + before}];\n__global__ void k(long long at) {{ table[at] = 1; }}"
    kernel = compile_kernel(source, "k")
    for megabytes in (-4000, -1000, -300, -200, -100, 60, 82, 100, 200, 300, 1000, 4000):
        with pytest.raises(RuntimeError, match="an illegal memory access"):
            kernel[1, 1](megabytes * 2**18)


def test_memory_from_new_is_guarded(kernels):
    out = torch.zeros(4)
    assert not message(kernels["heap"], out, 3, launch=(1, 1))
    assert "past the end of a malloc or new allocation of 64 bytes" in message(kernels["heap"], out, 16, launch=(1, 1))
    freed = message(kernels["heap"], out, 100, launch=(1, 1))
    assert "frees memory that was freed before: a malloc or new allocation of 64 bytes" in freed
    assert "reads memory that was freed" in message(kernels["heap"], out, 101, launch=(1, 1))
    (problem, *_) = kernels["heap"].trace[1, 1](out, 20).problems
    assert (problem.kind, problem.line) == ("out_of_bounds", 30)


def test_a_kernel_may_allocate_more_pieces_than_have_guards_of_their_own(kernels):
    out = torch.zeros(1)
    assert not message(kernels["list"], out, 5000, 0, launch=(1, 1)) and out == 5000 * 4999 / 2
    assert kernels["list"].trace[1, 1](out, 4500, 0).ok
    assert "frees memory that is not from malloc or new" in message(kernels["list"], out, 5000, 1, launch=(1, 1))


@pytest.mark.parametrize(("launch", "rounds"), [((1, 32), 5000), ((1, 2), 30000)])
def test_a_trace_of_a_kernel_that_allocates_survives_many_accesses(launch, rounds):
    source = """__global__ void k(float* out, int n) {
        float* m = new float[64];
        for (int j = 0; j < n; j++) m[j % 64] = j;
        out[threadIdx.x] = m[(n - 1) % 64];
        delete[] m;
    }"""
    trace = compile_kernel(source, "k").trace[launch](torch.zeros(32), rounds)
    assert trace.ok and trace.args[0][: launch[1]].eq(rounds - 1).all(), trace


def test_malloc_returns_null_when_the_heap_of_kernels_is_full():
    source = """__global__ void taken(int* out, size_t bytes, bool back) {
        char* m = (char*)malloc(bytes);
        out[threadIdx.x] = m != nullptr;
        if (back) free(m); else if (bytes > 1 << 26) *(volatile char*)m = 1;
    }"""
    taken, out = compile_kernel(source, "taken"), torch.zeros(64, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"`malloc` or `new` has returned null: .* 8388608 bytes \(cudaLimitMalloc"):
        taken[1, 1](out, 1 << 27, False)  # from here on the heap is empty, as after any fault
    taken[1, 64](out, 1 << 18, False)
    assert out.sum() == 32
    for back in (True, False):
        with pytest.raises(RuntimeError, match="has returned null"):
            taken[1, 1](out, 1 << 27, False)
        for _ in range(3):
            taken[1, 16](out, 1 << 18, back)
        assert out[:16].sum() == (16 if back else 0)
    with pytest.raises(RuntimeError):
        taken[1, 1](out, 1 << 27, False)


# ---- what there is no room for ---------------------------------------------------------------------------------------


def test_a_tensor_whose_storage_was_resized_is_refused(kernels):
    for x, left in ((torch.zeros(32), 0), (torch.zeros(64)[32:], 128)):
        x.untyped_storage().resize_(left)
        for run in (kernels["heap"][1, 1], kernels["heap"].trace[1, 1]):
            with pytest.raises(ValueError, match=f"a storage of {left} bytes, but its shape needs {2 * left or 128}"):
                run(x, 3)


ROOM = r"""
import resource
import torch
from utils import compile_kernel
source = "__global__ void meet(float* x) { __shared__ float all[1024]; all[threadIdx.x] = 1; __syncthreads(); "
source += "x[blockIdx.x * blockDim.x + threadIdx.x] = all[1023 - threadIdx.x]; }"
meet, x = compile_kernel(source, "meet"), torch.zeros(8 * 1024)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 150 * 2**20, resource.RLIM_INFINITY))
for _ in range(3):
    try:
        meet[8, 1024](x)
    except RuntimeError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
meet[8, 1024](x)
print(x.sum().item())
"""


def test_no_room_for_stacks_ends_the_launch():
    ended = subprocess.run([sys.executable, "-c", ROOM], cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert ended.returncode == 0, ended.stderr
    *told, total = ended.stdout.splitlines()[-4:]
    assert len(told) == 3 and all(line.startswith("CUDA error: out of memory: ") for line in told), told
    assert float(total) == 8 * 1024


# ---- cudaMalloc ------------------------------------------------------------------------------------------------------

ALLOCATED = r"""
#include <torch/types.h>
__global__ void scale(const float* x, float* y, int n, int over) {
    int i = threadIdx.x;
    if (i < n) y[i + over] = 2 * x[i];
}
torch::Tensor scaled(torch::Tensor x, int over, bool freed, bool host) {
    float *a, *b;
    int n = x.numel();
    if (host) cudaMallocHost(&b, n * 4); else cudaMalloc(&b, n * 4);
    cudaMallocManaged(&a, n * 4);
    cudaMemcpy(a, x.data_ptr<float>(), n * 4, cudaMemcpyDeviceToDevice);
    if (freed) TORCH_CHECK(cudaFree(a) == cudaSuccess && cudaFree(a) == cudaErrorInvalidValue);
    scale<<<1, 32>>>(a, b, n, over);
    auto y = torch::empty_like(x);
    cudaMemcpy(y.data_ptr<float>(), b, n * 4, cudaMemcpyDeviceToDevice);
    cudaFree(a);
    if (host) cudaFreeHost(b); else cudaFree(b);
    return y;
}
int64_t last_error() { return cudaGetLastError(); }
"""
DECLARED = "torch::Tensor scaled(torch::Tensor x, int over, bool freed, bool host); int64_t last_error();"


@pytest.mark.parametrize("host", [False, True])
def test_memory_from_cudamalloc_has_guards(host):
    module, x = load_cuda(ALLOCATED, DECLARED, ["scaled", "last_error"]), torch.arange(30.0)
    function = "cudaMallocHost" if host else "cudaMalloc"
    assert guard.guard_tensors() in (True, False)
    assert (module.scaled(x, 0, False, host) == 2 * x).all()
    for over, told in (
        (1, f"a thread of scale wrote right past the end of a {function} allocation of 120 bytes"),
        (3, rf"thread \(29, 0, 0\) .* writes 8 bytes past the end of a {function} allocation of 120 bytes"),
        (-1, f"a thread of scale wrote 4 bytes before the start of a {function} allocation of 120 bytes"),
        (10**8, "an illegal memory access"),
        (-(10**8), "an illegal memory access"),
    ):
        with pytest.raises(RuntimeError, match=told):
            module.scaled(x, over, False, host)
    with pytest.raises(RuntimeError, match="reads memory that was freed: a cudaMallocManaged allocation of 120 bytes"):
        module.scaled(x, 0, True, host)
    other = compile_kernel("__global__ void two(float* x) { x[0] = 2; }", "two")
    other[1, 1](x)  # an error that the extension has not asked for is none of this launch
    assert x[0] == 2 and module.last_error() == 1  # the second cudaFree


def test_a_traced_extension_knows_memory_from_cudamalloc():
    module, x = load_cuda(ALLOCATED, DECLARED, ["scaled", "last_error"], trace=True), torch.arange(30.0)
    assert (module.scaled(x, 0, False, False) == 2 * x).all() and module.trace.ok
    with pytest.raises(RuntimeError, match=r"thread \(27,0,0\) .* writes y\[30\], but y has 30 elements \(line 5:"):
        module.scaled(x, 3, False, False)
    with pytest.raises(RuntimeError, match=r"reads memory that was freed: a cudaMallocManaged allocation .* \(line 5:"):
        module.scaled(x, 0, True, False)
    assert module.last_error() == 0  # the trace has reported the second cudaFree


# ---- refused ---------------------------------------------------------------------------------------------------------


def test_a_kernel_cannot_be_called_like_a_function():
    source = "__global__ void square(float* x) { x[0] *= x[0]; }\nvoid go(long long p) {\n    square((float*)p);\n}"
    with pytest.raises(CompileError, match="square is a kernel and not a function: launch it, square<<<") as caught:
        load_cuda(source, "void go(long long p);", ["go"])
    assert caught.value.line == 3
    with pytest.raises(
        CompileError, match="mark it with __device__ in place of __global__, then kernels can"
    ) as caught:
        compile_kernel("__global__ void f(float* x) {}\n__global__ void k(float* x) { f(x); }", "k")
    assert caught.value.line == 2
    source = source.replace("square((float*)p)", "square [1, 32]((float*)p)")
    with pytest.raises(CompileError, match=r"square\[...\]\(...\) is Python's launch: in C\+\+, launch it") as caught:
        load_cuda(source, "void go(long long p);", ["go"])
    assert caught.value.hint == "In C++, a launch is `square<<<1, 32>>>(...)`."


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("void other(int f) {}\nvoid go() {\n    { int f = 3; }\n    f<int>(nullptr);\n}", 5),
        ("struct A { void f(int); };\nvoid go() {\n    auto g = [](int* x) { f(x); };\n}", 4),
        ("void go(int* x) {\n    if (x)\n        f(x);\n    int f = 2;\n}", 4),
    ],
)
def test_a_kernel_s_name_means_the_kernel_where_nothing_hides_it(text, line):
    with pytest.raises(TranslationError, match="f is a kernel and not a function: launch it") as caught:
        translate(f"template <class T> __global__ void f(T* x) {{}}\n{text}")
    assert caught.value.line == line


def test_a_kernel_that_copies_by_the_runtime_is_told_what_that_needs():
    source = "__global__ void k(float* x, float* y) {\n  cudaMemcpyAsync(x, y, 4, cudaMemcpyDeviceToDevice, 0);\n}"
    with pytest.raises(CompileError, match="a kernel can call `cudaMemcpyAsync` only where .* -rdc=true") as caught:
        compile_kernel(source, "k")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("launch", "error", "told"),
    [
        ((1, 64, 2**64), ValueError, "shared_bytes is 18,446,744,073,709,551,616, but no GPU"),
        ((1, 64, -1), ValueError, "shared_bytes must not be negative"),
        ((1, 64, 1.5), TypeError, "shared_bytes must be a whole number of bytes, but got 1.5"),
        ((1, 2**64), ValueError, "a block has at most 1,024 threads, but"),
        ((2**64, 1), ValueError, "a grid has at most 2,147,483,647 blocks, but"),
        ((1.0, 64), TypeError, "blocks must be whole numbers, but got 1.0"),
        ((1, -1), ValueError, "threads must be at least 1"),
    ],
)
def test_sizes_that_no_launch_can_have(kernels, launch, error, told):
    with pytest.raises(error, match=told):
        kernels["heap"][launch]


# ---- thousands of random ones ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_random_faulty_launches_end_in_exceptions_and_python_ends_well(seed):
    command = [sys.executable, "-m", "tests.cuda.cpu.faulty", "400", str(seed)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].endswith("exceptions, and Python is whole")


BLOCKED = """
import signal, threading, torch
from utils import compile_kernel
over = compile_kernel("__global__ void over(float* x, int n) { x[threadIdx.x + n] = 1; }", "over")
def blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for kernel in (over, over.trace):
        try:
            found = kernel[1, 32](torch.zeros(32), 10)
            print("found", len(found.problems))
        except RuntimeError as error:
            print("raised")
    print(len(signal.pthread_sigmask(signal.SIG_BLOCK, [])) > 20)
thread = threading.Thread(target=blocked)
thread.start()
thread.join()
"""


def test_a_thread_that_blocks_all_signals_gets_exceptions_too():
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, cwd=ROOT, timeout=HANGS)
    assert (done.stdout.split(), done.returncode) == (["raised", "found", "1", "True"], 0), done.stderr


def test_memory_that_is_not_used_is_taken_all_the_same():
    source = """__global__ void leaks(int* out) {
        for (int i = 0; i < 100000; i++) {
            void* p = malloc(1000);
            if (!p) { *out = i; return; }
        }
    }"""
    out = torch.zeros(1, dtype=torch.int32)
    compile_kernel(source, "leaks")[1, 1](out)
    assert 8_000 < out.item() < 8_500  # of 1,000 bytes each: 8 MB


MISALIGNED = """#include <cuda_fp16.h>
#define HALF2(pointer) (*reinterpret_cast<half2*>(&(pointer)))
__global__ void pairs(float* x, int first) {
    float2 pair = *reinterpret_cast<float2*>(x + first);
    x[0] = pair.x + pair.y;
}
__global__ void halves(half* x, int first) {
    HALF2(x[first]) = __floats2half2_rn(1, 2);
}
__global__ void shared(float* x, int first) {
    extern __shared__ char bytes[];
    int* numbers = (int*)(bytes + first);
    numbers[threadIdx.x] = 1;
    x[0] = numbers[0];
}
__global__ void atomic(float* x, int first) {
    atomicAdd((int*)((char*)x + first), 1);
}
"""


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("name", "kind", "first", "told"),
    [
        (
            "pairs",
            torch.float32,
            3,
            r"reads a float2 at byte 12 of a tensor, which is not a multiple of 8 .* line 4",
        ),
        ("halves", torch.half, 1, r"writes a \w*half2 at byte 2 of a tensor, which is not a multiple of 4 .* line 8"),
        (
            "shared",
            torch.float32,
            6,
            r"writes an int at an address in shared memory that is not a multiple of 4 .* line 13",
        ),
    ],
)
def test_a_misaligned_access_behind_a_cast_ends_the_kernel(name, kind, first, told):
    kernel = compile_kernel(MISALIGNED, name)
    x = torch.ones(8, dtype=kind)
    kernel[1, 1, 64](x, 0)
    with pytest.raises(RuntimeError, match=rf"misaligned address: thread \(0, 0, 0\) of .* {told}"):
        kernel[1, 1, 64](x, first)
    kernel[1, 1, 64](x, 4)


COMPUTED = [
    "int v = *(int*)(b + first);",
    "int v; v = *(int*)&b[first];",
    "int v = ((int*)(b + first - 4))[1];",
    "int v = *(int*)(char*)(b + first);",
    "int v = *reinterpret_cast<int*>(b + first);",
    "int v = 1; ((int*)&b[first])[0] = v;",
    "int v = (int)*(double*)(b + first);",
]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("code", COMPUTED)
def test_an_address_that_a_cast_computes_is_checked_with_its_constant(code):
    sources = [
        "__global__ void k(int* out, unsigned char* b) {\n" + code.replace("first", number) + "\nout[0] = v; }"
        for number in ("5", "8")
    ]
    wrong, right = (compile_kernel(source, "k") for source in sources)
    out, b = torch.zeros(1, dtype=torch.int32), torch.zeros(64, dtype=torch.uint8)
    right[1, 1](out, b)
    assert right.trace[1, 1](out, b).ok
    assert [(p.kind, p.line) for p in wrong.trace[1, 1](out, b).problems] == [("misaligned", 2)]
    with pytest.raises(RuntimeError, match="misaligned address: .* line 2"):
        wrong[1, 1](out, b)


@pytest.mark.usefixtures("on_cpu")
def test_a_misaligned_atomic_ends_the_kernel():
    kernel, x = compile_kernel(MISALIGNED, "atomic"), torch.ones(8)
    with pytest.raises(RuntimeError, match="misaligned address: .* updates 4 bytes atomically at byte 6 of a tensor"):
        kernel[1, 1](x, 6)
    assert torch.equal(x, torch.ones(8))
    kernel[1, 1](x, 4)
