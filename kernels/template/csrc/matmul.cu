// matmul: out (h, w) = m (h, k) @ n (k, w), row-major, of type T: float or double.
// A block computes a tile of out, each thread one element of it: the one in row r and column c.
#include "common.h"

// The threads of a block load a tile of m and one of n into shared memory, multiply them, and go on to the next two, so
// that an element is read from global memory once per block, not once per thread.
// No thread returns early: all of them must reach every barrier.
template <class T>
__global__ void matmul_kernel(const T* __restrict__ m, const T* __restrict__ n, T* __restrict__ out, int64_t h,
                              int64_t w, int64_t k) {
    __shared__ T m_tile[TILE][TILE], n_tile[TILE][TILE];
    int tr = threadIdx.y, tc = threadIdx.x;
    int64_t r = int64_t(blockIdx.y) * TILE + tr, c = int64_t(blockIdx.x) * TILE + tc;

    T o = 0;
    for (int64_t start = 0; start < k; start += TILE) {
        m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : T(0);    // guard
        n_tile[tr][tc] = start + tr < k && c < w ? n[(start + tr) * w + c] : T(0);  // guard
        __syncthreads();  // otherwise a thread reads elements that other threads have not loaded yet
        for (int i = 0; i < TILE; ++i) o += m_tile[tr][i] * n_tile[i][tc];
        __syncthreads();  // otherwise a thread loads the next tiles over elements that others still read
    }
    if (r < h && c < w) out[r * w + c] = o;  // guard
}

template <class T>
void launch_matmul(const T* m, const T* n, T* out, int64_t h, int64_t w, int64_t k, cudaStream_t stream) {
    dim3 threads(TILE, TILE), blocks((w + TILE - 1) / TILE, (h + TILE - 1) / TILE);
    matmul_kernel<<<blocks, threads, 0, stream>>>(m, n, out, h, w, k);
    check_launch("matmul_kernel", blocks.x, blocks.y);
}

template void launch_matmul(const float*, const float*, float*, int64_t, int64_t, int64_t, cudaStream_t);
template void launch_matmul(const double*, const double*, double*, int64_t, int64_t, int64_t, cudaStream_t);
