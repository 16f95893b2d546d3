// vector_add: out[i] = a[i] + b[i] for n values of type T: float, double or half.
// One thread computes one element, moves on by the number of threads in the grid, and computes the next.
#include "common.h"

// PyTorch compiles extensions without the operators of half (-D__CUDA_NO_HALF_OPERATORS__), so + needs a name.
template <class T>
__device__ T sum(T a, T b) { return a + b; }
__device__ inline half sum(half a, half b) { return __hadd(a, b); }

// No __restrict__: out may be a or b.
template <class T>
__global__ void vector_add_kernel(const T* a, const T* b, T* out, int64_t n) {
    int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = first; i < n; i += step)  // guard
        out[i] = sum(a[i], b[i]);
}

template <class T>
void launch_vector_add(const T* a, const T* b, T* out, int64_t n, cudaStream_t stream) {
    unsigned int blocks = GET_BLOCKS(n);
    vector_add_kernel<<<blocks, THREADS, 0, stream>>>(a, b, out, n);
    check_launch("vector_add_kernel", blocks);
}

template void launch_vector_add(const float*, const float*, float*, int64_t, cudaStream_t);
template void launch_vector_add(const double*, const double*, double*, int64_t, cudaStream_t);
template void launch_vector_add(const half*, const half*, half*, int64_t, cudaStream_t);
