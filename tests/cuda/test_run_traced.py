"""Traces of whole programs: what they leave as it is, and what they name."""

from utils.cuda import run

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
