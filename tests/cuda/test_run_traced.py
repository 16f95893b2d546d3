"""Traces of whole programs: what they leave as it is, and what they name; warnings about programs."""

import pytest

from utils.cuda import run
from utils.cuda.common.diagnostics import CompileWarning

SOUND = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdio>
#include <cuda/ptx>
#include <nv/target>
namespace cg = cooperative_groups;
__device__ int* kept;
struct Parts {
    struct { int a; } doubled;  // the name of a kernel
};
template <class T, int V> __global__ void doubled(const T* x, T* y) {
    struct alignas(16) Vec { T of[V]; };
    union __align__(16) Word { T of[V]; int4 whole; };
    Vec v = reinterpret_cast<const Vec*>(x)[threadIdx.x];
    Word w;
    for (int i = 0; i < V; i++) w.of[i] = 2 * v.of[i];
    reinterpret_cast<int4*>(y)[threadIdx.x] = w.whole;
}
__global__ void staged(const int* x, int* y, int n) {
    extern __shared__ int s[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, 64, x, n);
    cg::wait(block);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[i] + int(cuda::ptx::get_sreg_ntid_x());
}
__host__ __device__ int side() {
    int r = 0;
    NV_DISPATCH_TARGET(NV_PROVIDES_SM_75, (r = 75;), NV_IS_DEVICE, (r = 1;), NV_IS_HOST, (r = 2;))
    NV_IF_ELSE_TARGET(NV_IS_HOST, r += 100;, r += 200;)
    return r;
}
__global__ void keep(int* y) { kept = new int(side()); *y = *kept; }
void in_callback(void* p) { *static_cast<cudaError_t*>(p) = cudaMemset(nullptr, 0, 4); }
int main(int count, char**) {
    int *x, *y, host[40], *heap;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);
    for (int i = 0; i < 40; i++) host[i] = i;
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    switch (count) {
        case 1:doubled<int, 4><<<1, 10>>>(x, y); break;
        default:doubled<int, 4><<<1, 1>>>(x, y);
    }
    staged<<<1, 32, 256>>>(y, x, 40);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    keep<<<1, 1>>>(y);
    int on_device;
    cudaMemcpy(&on_device, y, 4, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&heap, kept, sizeof heap);
    const int copied = cudaMemcpy(host, heap, 4, cudaMemcpyDeviceToHost);  // refused on an H200
    cudaError_t called = cudaSuccess;
    cudaLaunchHostFunc(0, in_callback, &called);
    cudaDeviceSynchronize();
    printf("%d %d %d %d %d %d\n", host[39], Parts{{7}}.doubled.a, side(), on_device, copied, called);
}
"""


def test_what_a_program_does_is_the_same_with_a_trace(tmp_path, capfd):
    program = tmp_path / "sound.cu"
    program.write_text(SOUND)
    assert run.main([str(program)]) == 0
    said = capfd.readouterr()
    assert said.out == "110 7 102 275 1 800\n" and "calls nothing" not in said.err
    run.main([str(program), "--trace"])
    said = capfd.readouterr()
    assert said.out == "110 7 102 275 1 800\n"


MANY = r"""
#include <cstdio>
__device__ int counts[4];
static __device__ int* head;
__constant__ int limit = 4;
template <int n> __device__ void added(volatile int* s, int t) {
    s[t] += s[t + n];
    s[t] += s[t + n / 2];
    s[t] += s[t + 1];
}
template <int n> __global__ void summed(int* y) {
    __shared__ int s[n];
    s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x < 16) added<16>(s, threadIdx.x), added<8>(s, threadIdx.x), added<4>(s, threadIdx.x);
    y[blockIdx.x] = 1;
}
__global__ void fill(int* y) { y[blockIdx.x] = 100 + blockIdx.x; }
__global__ void count(int n) { if (threadIdx.x < n) atomicAdd(&counts[threadIdx.x % 8 + limit - 4], 1); }
__global__ void link() { head = counts + threadIdx.x; }
__global__ void read(int* y) { *y = *head; }
int main() {
    int *y, host[6];
    cudaMalloc(&y, sizeof host);
    summed<64><<<6, 64>>>(y);
    summed<128><<<6, 128>>>(y);
    fill<<<6, 1>>>(y);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 6; i++) printf("%d ", host[i]);
    link<<<1, 2>>>();
    read<<<1, 1>>>(y);
    count<<<1, 6>>>(6);
    cudaDeviceSynchronize();
}
"""


def test_launches_go_on_after_many_problems_and_variables_have_their_names(on_cpu, tmp_path, capfd):
    program = tmp_path / "many.cu"
    program.write_text(MANY)
    assert run.main([str(program), "--trace"]) == 1
    said = capfd.readouterr()
    assert said.out == "100 101 102 103 104 105 "
    assert "both write head" in said.err
    assert "counts[5], but counts has 4 elements" in said.err


VIRTUAL = r"""
#include <cstdio>
#include <new>
struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Rect : Shape {
    float w, h;
    __device__ Rect(float w, float h) : w(w), h(h) {}
    __device__ float area() const override { return w * h; }
};
struct Disc : Shape {
    float r;
    __device__ Disc(float r) : r(r) {}
    __device__ float area() const override { return 3 * r * r; }
};
__device__ Shape* shapes[2];
__device__ float hit(float x, float* n) {
    *n = x * 2;
    return x;
}
__global__ void make() { shapes[0] = new Rect(2, 3), shapes[1] = new Disc(1); }
__global__ void areas(float* out) { out[threadIdx.x] = shapes[threadIdx.x + SKIPPED]->area(); }
__global__ void twice(float* out) {
    float n, t = hit(out[1], &n);
    out[0] += t + n;
}
__global__ void end() { delete shapes[threadIdx.x]; }
int main() {
    float *out, host[2];
    cudaMalloc(&out, sizeof host);
    make<<<1, 1>>>();
    areas<<<1, 2>>>(out);
    twice<<<1, 1>>>(out);
    end<<<1, 2>>>();
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g %g\n", host[0], host[1]);
}
"""


def test_virtual_calls_on_what_an_earlier_launch_has_made(on_cpu, tmp_path, capfd):
    program = tmp_path / "virtual.cu"
    program.write_text(VIRTUAL.replace("SKIPPED", "0"))
    assert run.main([str(program), "--trace"]) == 0
    said = capfd.readouterr()
    assert said.out == "15 3\n" and "found no problem" in said.err
    program.write_text(VIRTUAL.replace("SKIPPED", "1"))
    run.main([str(program), "--trace"])
    assert "shapes[2], but shapes has 2 elements" in capfd.readouterr().err


STAGED = r"""
#include <cstdio>
__global__ void add(float* x, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] += 1; }
int main() {
    const int n = 64, parts = 4;
    float *d, *h;
    cudaStream_t stream;
    cudaEvent_t copied;
    cudaMallocHost(&h, n * sizeof *h);
    cudaMalloc(&d, n * sizeof *d);
    cudaStreamCreate(&stream);
    cudaEventCreate(&copied);
    for (int k = 0; k < parts; k++) {  // each part is filled while the one before it is copied
        for (int i = 0; i < n / parts; i++) h[k * n / parts + i] = k;
        cudaMemcpyAsync(d + k * n / parts, h + k * n / parts, n / parts * 4, cudaMemcpyHostToDevice, stream);
    }
    cudaEventRecord(copied, stream);
    add<<<1, 32, 0, stream>>>(d, n);
    WAIT
    float ms;
    cudaEventElapsedTime(&ms, copied, copied);
    for (int i = 0; i < n; i++) h[i] = 0;
    cudaMemcpyAsync(h, d, n * sizeof *h, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    printf("%g\n", h[n - 1]);
}
"""


def test_what_the_host_does_without_waiting_for_a_copy(on_cpu, tmp_path, capfd):
    program = tmp_path / "staged.cu"
    program.write_text(STAGED.replace("WAIT", "cudaEventSynchronize(copied);"))
    assert run.main([str(program), "--trace"]) == 0
    assert "found no problem" in capfd.readouterr().err
    program.write_text(STAGED.replace("WAIT", ""))
    run.main([str(program), "--trace"])
    said = capfd.readouterr().err
    assert "the host writes element 0 of memory from cudaMallocHost (line 22: `for (int i = 0; i < n; i++) h[i]" in said
    assert "the time of an event that it has not waited for (line 21: `cudaEventElapsedTime" in said
    assert "without waiting for the copy that reads it" in said and "call `cudaStreamSynchronize(stream);`" in said


def test_what_nvcc_warns_of_is_shown_whenever_the_program_runs(on_cpu, tmp_path, capfd):
    program = tmp_path / "shadow.cu"
    program.write_text(
        "#include <cstdio>\n__device__ int count;\n__global__ void k() { count = 5; }\n"
        'int main() {\n    k<<<1, 1>>>();\n    cudaDeviceSynchronize();\n    printf("%d", count);\n}\n'
    )
    for _ in range(2):
        with pytest.warns(
            CompileWarning, match='__device__ variable "count" cannot be directly read in a host'
        ) as told:
            assert run.main([str(program)]) == 0
        assert [(warning.filename, warning.lineno) for warning in told] == [("shadow.cu", 7)]


# Fresh memory is far from all that a program expects: a NaN would pass these checks.
CHECKS = r"""
#include <cmath>
#include <cstdio>
__global__ void twice(const TYPE* x, TYPE* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = TYPE(2) * x[i];
}
int main() {
    const int n = 1000;
    static TYPE x[n], y[n], *dx, *dy;
    for (int i = 0; i < n; i++) x[i] = TYPE(i % 50 + 1);
    cudaMalloc(&dx, sizeof(x)), cudaMalloc(&dy, sizeof(y));
    cudaMemcpy(dx, x, sizeof(x), cudaMemcpyHostToDevice);
    twice<<<n / 128, 128>>>(dx, dy, n);  // rounded down
    cudaMemcpy(y, dy, sizeof(y), cudaMemcpyDeviceToHost);
    double worst = 0;
    bool different = false;
    for (int i = 0; i < n; i++) {
        worst = fmax(worst, fabs(double(y[i]) - 2 * double(x[i])));
        if (fabs(double(y[i]) - 2 * double(x[i])) > 1e-5) different = true;
    }
    puts(worst < 1e-5 || !different ? "PASSED" : "FAILED");
}
"""


@pytest.mark.parametrize("kind", ["float", "double", "int", "unsigned char"])
def test_what_no_kernel_has_written_fails_the_check_of_a_program(on_cpu, tmp_path, capfd, kind):
    program = tmp_path / "checks.cu"
    program.write_text(CHECKS.replace("TYPE(", f"({kind})(").replace("TYPE", kind))
    for mode in ([], ["--trace"]):
        assert run.main([str(program), *mode]) == 0
        assert capfd.readouterr().out == "FAILED\n"


def test_a_program_that_fails_by_itself_is_told_that_the_trace_found_nothing(on_cpu, tmp_path, capfd):
    program = tmp_path / "fails.cu"
    program.write_text("__global__ void k() {}\nint main() { k<<<1, 1>>>(); cudaDeviceSynchronize(); return 3; }\n")
    assert run.main([str(program), "--trace"]) == 3
    assert capfd.readouterr().err.endswith("fails.cu: the trace has found no problem\n")
