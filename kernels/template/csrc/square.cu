// square: out[i] = x[i] * x[i] for n values of type T: float, double or half.
// One thread computes one element, moves on by the number of threads in the grid, and computes the next.
#include "common.h"

// PyTorch compiles extensions without the operators of half (-D__CUDA_NO_HALF_OPERATORS__), so * needs a name.
template <class T>
__device__ T product(T a, T b) { return a * b; }
__device__ inline half product(half a, half b) { return __hmul(a, b); }

template <class T>
__global__ void square_kernel(const T* __restrict__ x, T* __restrict__ out, int64_t n) {
    int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = first; i < n; i += step)  // guard
        out[i] = product(x[i], x[i]);
}

template <class T>
void launch_square(const T* x, T* out, int64_t n, cudaStream_t stream) {
    unsigned int blocks = GET_BLOCKS(n);
    square_kernel<<<blocks, THREADS, 0, stream>>>(x, out, n);
    check_launch("square_kernel", blocks);
}

template void launch_square(const float*, float*, int64_t, cudaStream_t);
template void launch_square(const double*, double*, int64_t, cudaStream_t);
template void launch_square(const half*, half*, int64_t, cudaStream_t);
