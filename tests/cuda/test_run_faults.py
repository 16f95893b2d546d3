"""What a program hears of its kernels' faults: CUDA's errors, from the calls that give them on an H200."""

import re

import pytest

from utils.cuda import run
from utils.cuda.common.toolchain import device

FAULTS = r"""
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
extern __shared__ int shared[];
__device__ __noinline__ int element(int* a, long i) { return a[i]; }
__device__ int deep(int n, volatile int* p) {
    volatile int a[256];
    for (int i = 0; i < 256; i++) a[i] = n + i;
    return n ? deep(n - 1, p) + a[n & 255] : p[0];
}
__global__ void good(int* p) { p[0] = 7; }
__global__ void bad(int kind, int* p, int n) {
    if (kind == 0) p[1ll << 34] = 1;
    if (kind == 1) p[1] = p[-(1ll << 36)];
    if (kind == 2) *(volatile int*)nullptr = 1;
    if (kind == 3) assert(n > 100);
    if (kind == 4) __trap();
    if (kind == 5) shared[n + (1 << 20)] = 1;
    if (kind == 6) {
        int a[8];
        for (int i = 0; i < 8; i++) a[i] = n;
        p[0] = element(a, (1l << 28) + n);
    }
    if (kind == 7) p[0] = deep(1 << 20, p);
    if (kind == 8) asm volatile("trap;");
    if (kind == 9) {
        void (*f)() = (void (*)())(size_t)n;
        f();
    }
    if (kind == 10) {
        printf("printed before\n");
        atomicAdd(p + (1ll << 34), 1);
    }
    if (kind == 11) free(p + 1);
}
void show(std::initializer_list<int> codes) {
    for (int code : codes) printf("%d ", code);
    printf("\n");
}
int main(int, char** argv) {
    int *p, *managed, h = 5;
    cudaStream_t stream;
    cudaMalloc(&p, 1024);
    cudaMallocManaged(&managed, 4);
    cudaStreamCreate(&stream);
    *managed = 3;
    bad<<<1, 1, 64>>>(atoi(argv[1]), p, 2);
    // Nobody has waited.
    const int first = cudaGetLastError();
    good<<<1, 1>>>(managed);
    show({first, cudaGetLastError(), cudaMemset(p, 0, 4), cudaFree(nullptr)});
    show({cudaDeviceSynchronize(), cudaPeekAtLastError(), cudaGetLastError(), cudaGetLastError()});
    // From now on each call that needs the device fails, and nothing is done.
    void* more = nullptr;
    cudaEvent_t event;
    cudaFuncAttributes attributes;
    int blocks, device = 1;
    size_t free, total;
    good<<<1, 1>>>(managed);
    show({cudaGetLastError(), cudaMalloc(&more, 64), cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost),
          cudaMemsetAsync(p, 0, 4, stream), cudaStreamSynchronize(stream), cudaEventCreate(&event),
          cudaFuncGetAttributes(&attributes, good), cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, good, 32, 0),
          cudaMemGetInfo(&free, &total), cudaFree(p)});
    // These need none.
    show({cudaGetDevice(&device), device, cudaMemcpy(&h, p, 0, cudaMemcpyDeviceToHost),
          cudaMemcpy(&h, p, 4, cudaMemcpyKind(9)), h, *managed});
}
"""
CODES = {0: 700, 1: 700, 2: 700, 3: 710, 4: 719, 5: 700, 6: 700, 7: 700, 8: 719, 9: 718, 10: 700, 11: 700}


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("kind", CODES)
def test_a_fault_is_seen_by_whoever_waits_and_by_all_after_that(written, capfd, kind, trace):
    program = written("faults.cu", FAULTS)
    e = CODES[kind]
    code = run.main([str(program), *["--trace"] * trace, str(kind)])
    said = capfd.readouterr()
    numbers = [[int(word) for word in line.split()] for line in said.out.splitlines() if line[0].isdigit()]
    assert numbers == [[0, 0, 0, 0], [e, e, e, 0], [e] * 10, [0, 0, 0, 21, 5, 3]]
    assert ("printed before" in said.out) == (kind == 10)
    if not trace and device().type == "cpu":
        assert ("Run it with --trace, which shows the line." in said.err) == (e != 710)  # that message has its line
    if trace or device().type == "cpu":
        assert code == 1
        assert re.search(r"\(line \d+: `" if trace else "CUDA error: .*thread", said.err)


RESET = r"""
#include <cstdio>
__global__ void set(int* p, long i) { p[i] = 1; }
int main() {
    int* p;
    cudaMalloc(&p, 4);
    set<<<1, 1>>>(p, 1l << 34);
    printf("%d", cudaDeviceSynchronize());
    printf(" %d", cudaDeviceReset());
    printf(" %d", cudaMalloc(&p, 4));
    set<<<1, 1>>>(p, 0);
    printf(" %d\n", cudaDeviceSynchronize());
}
"""


def test_a_reset_gives_the_device_back_and_the_program_still_fails(on_cpu, tmp_path, capfd):
    program = tmp_path / "reset.cu"
    program.write_text(RESET)
    assert run.main([str(program)]) == 1
    assert capfd.readouterr().out == "700 0 0 0\n"


THREADS = r"""
#include <thread>
__global__ void fill(int* p) { p[threadIdx.x] = 1; }
int main(int, char** argv) {
    int* p;
    cudaMalloc(&p, 32 * 4);
    if (argv[1][0] == 'o')
        std::thread([p] { fill<<<1, 32>>>(p); }).join();
    else
        fill<<<1, 32>>>(p);
    return cudaDeviceSynchronize();
}
"""


def test_a_trace_says_what_it_does_not_see(on_cpu, tmp_path, capfd):
    program = tmp_path / "threads.cu"
    program.write_text(THREADS)
    assert run.main([str(program), "--trace", "own"]) == 1
    said = "a std::thread of the host code launches fill, which the trace does not see (line 8: `std::thread("
    assert said in capfd.readouterr().err
    assert run.main([str(program), "--trace", "main's"]) == 0


# Kernels of which an access does not show the line.
LINES = r"""
typedef int (*Function)(int);
__global__ void traps() { asm volatile("trap;"); }
__global__ void stops() { asm volatile("brkpt;"); }
__global__ void calls(Function f, int* p) { *p = f(3); }
__device__ void wrapped() { asm volatile("trap;"); }
__global__ void wraps() {
    wrapped();
}
__global__ void counts(int* p) { for (int i = 0; i < 10000; i++) p[0] += i; }
int main(int, char** argv) {
    int* p;
    cudaMalloc(&p, 4);
    cudaMemset(p, 0, 4);
    switch (argv[1][0]) {
        case '0': traps<<<1, 1>>>(); break;
        case '1': stops<<<1, 1>>>(); break;
        case '2': calls<<<1, 1>>>((Function)0x1234567, p); break;
        case '3': calls<<<1, 1>>>(nullptr, p); break;
        case '4': wraps<<<1, 1>>>(); break;
        case '5': counts<<<1, 1>>>(p); break;
    }
    return cudaDeviceSynchronize() % 256;
}
"""


@pytest.mark.parametrize(("kernel", "line"), [(0, 3), (1, 4), (2, 5), (3, 5), (4, 8)])
def test_a_trace_has_the_line_of_what_ends_a_thread(on_cpu, written, capfd, kernel, line):
    program = written("lines.cu", LINES)
    run.main([str(program), "--trace", str(kernel)])
    assert f"(line {line}: `" in capfd.readouterr().err


ROWS = r"""
struct Node { int value; Node* next; };
__global__ void fill(float* d, size_t pitch) { d[blockIdx.x * pitch + threadIdx.x] = 1; }
__global__ void list(float* out) {
    Node* head = nullptr;
    for (int i = 0; i < 4; i++) head = new Node{i, head};
    for (Node* n = head; n; n = n->next) {
        *out += n->value;
        delete n;
    }
}
int main(int, char** argv) {
    float h[20][30], *d;
    size_t pitch;
    cudaMallocPitch(&d, &pitch, 120, 20);
    cudaMemset2D(d, pitch, 0, 120, 20);
    switch (argv[1][0]) {
        case '0': fill<<<20, 30>>>(d, pitch); break;
        case '1': list<<<1, 1>>>(d); break;
        case '2': fill<<<1, 30>>>(h[0], 30); break;
        case '3': cudaMemcpy2D(h, pitch, d, 120, 120, 20, cudaMemcpyDeviceToHost); break;
    }
    return cudaDeviceSynchronize() % 256;
}
"""
IN_ROWS = [
    "cudaMallocPitch gives the pitch in bytes: row y of elements of type T begins at `(T*)((char*)d + y * pitch)`.",
    "a malloc or new allocation of 16 bytes (line 7: `for (Node* n = head; n; n = n->next) {`)\n    hint: Read what",
    "argument 1 of fill points to memory of the host: a local variable. A kernel needs a pointer from cudaMalloc. "
    "(line 20: `case '2': fill<<<1, 30>>>(h[0], 30); break;`)",
    "(does each pitch match its own array?) (line 21: `case '3': cudaMemcpy2D(h, pitch, d, 120, 120, 20, cuda",
]


@pytest.mark.parametrize("kind", range(4))
def test_a_trace_explains_pitches_freed_memory_and_pointers_of_the_host(on_cpu, written, capfd, kind):
    program = written("rows.cu", ROWS)
    assert run.main([str(program), "--trace", str(kind)]) != 0
    assert IN_ROWS[kind] in capfd.readouterr().err


def test_how_many_steps_a_trace_allows(on_cpu, written, capfd):
    program = written("lines.cu", LINES)
    assert run.main([str(program), "--trace", "5"]) == 0
    assert run.main([str(program), "--trace", "--max-steps=1000", "5"]) == 702 % 256
    assert "has run 1,000 steps in the loop at line 10" in capfd.readouterr().err


REFUSED = """
__global__ void k(float* x) { x[threadIdx.x] = 1; }
template <class T> __global__ void t(T* x, T by) { x[threadIdx.x] = by; }
__global__ void __launch_bounds__(64) b(float* x, int n = 3) { x[threadIdx.x] = n; }
#define RUN(...) __VA_ARGS__
void go(void (*f)(float*), float* x) {
    f<<<1, 2000>>>(x);
}
int main() {
    float* x;
    cudaMalloc(&x, 4096);
    t<<<1, 3000>>>(x, 2.0f);
    b<<<1, 128>>>(x);
    RUN(k<<<1,
        4000>>>(x));
    go(k, x);
    void* args[] = {&x};
    cudaLaunchKernel((void*)k, dim3(1), dim3(5000), args, 0, 0);
}
"""


@pytest.mark.skipif(device().type == "cuda", reason="a trace runs on the CPU engine")
def test_a_trace_names_the_lines_of_refused_launches(tmp_path, capfd):
    (tmp_path / "refused.cu").write_text(REFUSED)
    assert run.main([str(tmp_path / "refused.cu"), "--trace"]) == 1
    said = re.findall(r"a block of .(\d+), 1, 1. .*\(line (\d+): `", capfd.readouterr().err)
    assert said == [("3000", "12"), ("128", "13"), ("4000", "14"), ("2000", "7"), ("5000", "18")]


MEETING = r"""
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
__device__ unsigned int arrived;
__device__ void meet(unsigned int all, bool by_atomic) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrived, 1);
        if (by_atomic) while (atomicAdd(&arrived, 0) < all) {}
        else while (*(volatile unsigned int*)&arrived < all) {}
        __threadfence();
    }
    __syncthreads();
}
__global__ void turn(int* a, int* b, int by_atomic, int faulty) {
    const int n = gridDim.x, me = blockIdx.x, next = (me + 1) % n;
    if (threadIdx.x == 0) a[me] = me;
    meet(n, by_atomic);
    if (threadIdx.x == 0) b[me] = a[next];
    if (me == faulty) a[1ll << 34] = 3;
    meet(2 * n, by_atomic);
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) a[me] = b[next];
    if (threadIdx.x == 0 && me < 3) printf("%d ", me);
}
int main(int, char** argv) {
    int n = atoi(argv[1]), by_atomic = atoi(argv[2]), faulty = atoi(argv[3]), *a, *b, got[100], right = 0;
    cudaMalloc(&a, n * sizeof(int));
    cudaMalloc(&b, n * sizeof(int));
    void* arguments[] = {&a, &b, &by_atomic, &faulty};
    cudaLaunchCooperativeKernel((const void*)turn, dim3(n), dim3(32), arguments, 0, 0);
    printf("%d", cudaDeviceSynchronize());
    cudaMemcpy(got, a, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) right += got[i] == (i + 2) % n;
    printf(" %d\n", right);
}
"""


@pytest.mark.parametrize("blocks", [1, 2, 5, 100])
def test_blocks_of_a_cooperative_launch_may_wait_for_each_other_by_hand(written, capfd, blocks):
    program, printed = written("meeting.cu", MEETING), [*map(str, range(min(3, blocks))), "0", str(blocks)]
    traces = [[], ["--trace"]] if device().type == "cpu" else [[]]
    for by_atomic, trace in [(by_atomic, trace) for by_atomic in "01" for trace in traces]:
        assert run.main([*trace, str(program), str(blocks), by_atomic, "-1"]) == 0
        said = capfd.readouterr()
        assert sorted(said.out.split()) == sorted(printed)
        assert not trace or "found no problem" in said.err
        run.main([*trace, str(program), str(blocks), by_atomic, str(blocks // 2)])
        said = capfd.readouterr()
        assert said.out.startswith("700 ")
        assert not trace or re.search(r"\(line 22: `", said.err) and "does it ever end" not in said.err


FUNCTIONS = r"""
#include <cstdio>
#include <cstdlib>
#include <type_traits>
typedef float (*Function)(float);
__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
__host__ __device__ float both(float x) { return x + 1; }
__device__ Function of_device[] = {twice, half_of};
Function of_host[] = {half_of, &twice};
template <class A, class B> constexpr bool same = std::is_same_v<A, B>;
__global__ void apply(float* y, Function f) { *y = f(*y); }
template <Function f, int n> __global__ void apply_known(float* y) { for (int i = 0; i < n; i++) *y = f(*y); }
Function chosen(bool first) { return first ? twice : half_of; }
float by_name(float half_of) { return half_of; }
int main(int, char** argv) {
    static_assert(same<decltype(twice), decltype(half_of)> && sizeof(&twice) == 8, "");
    float *y, start = 3, end;
    Function copied;
    cudaMalloc(&y, 4);
    cudaMemcpy(y, &start, 4, cudaMemcpyHostToDevice);
    cudaMemcpyFromSymbol(&copied, of_device, sizeof copied, sizeof copied);
    apply<<<1, 1>>>(y, copied);
    apply_known<twice, 3><<<1, 1>>>(y);
    cudaMemcpy(&end, y, 4, cudaMemcpyDeviceToHost);
    printf("%g %g %g %d\n", end, both(1), by_name(5), chosen(true) == of_host[1]);
    const Function taken[] = {twice, chosen(false), of_host[0]};
    apply<<<1, 1>>>(y, taken[atoi(argv[1])]);
    printf("%d\n", cudaDeviceSynchronize() != cudaSuccess);
}
"""


@pytest.mark.parametrize("which", range(3))
def test_the_address_that_host_code_takes_of_a_device_function_is_none(tmp_path, capfd, which):
    (tmp_path / "functions.cu").write_text(FUNCTIONS)
    run.main([str(tmp_path / "functions.cu"), str(which)])
    told = capfd.readouterr()
    assert told.out == "12 2 5 1\n1\n"
    if device().type == "cpu":
        assert "calls a __device__ function by the address that host code took" in told.err
