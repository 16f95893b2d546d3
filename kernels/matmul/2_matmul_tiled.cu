// matmul_tiled: out (h, w) = m (h, k) @ n (k, w), float32, row-major, with tiles in shared memory.
// A block of TW x TW threads computes a tile of out of that size, each thread the element in row r and column c.
// Step by step along k, the block loads a tile of m and one of n, one element of each per thread, and multiplies them.
// No thread returns early: all of them must reach every barrier.
#include "../cdiv.h"

// An element is read from global memory once per block, not once per thread. TW is 16.
__global__ void matmul_tiled_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                    float* __restrict__ out, size_t h, size_t w, int k) {
    const int TW = 16;  // tile width: blocks of TW x TW threads
    __shared__ float m_tile[TW][TW], n_tile[TW][TW];
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * TW + tr, c = size_t(blockIdx.x) * TW + tc;

    float o = 0.0f;
    for (int start = 0; start < k; start += TW) {
        m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;    // guard
        n_tile[tr][tc] = start + tr < k && c < w ? n[(start + tr) * w + c] : 0.0f;  // guard
        __syncthreads();  // otherwise a thread reads what others have not loaded yet
        for (int i = 0; i < TW; ++i) o += m_tile[tr][i] * n_tile[i][tc];
        __syncthreads();  // otherwise a thread loads over what others still read
    }
    if (r < h && c < w) out[r * w + c] = o;  // guard
}

// The tile width tw is an argument of the launch, so one kernel serves every width. It needs 2 * tw * tw floats of
// dynamic shared memory, and the compiler cannot unroll the inner loop.
__global__ void matmul_dynamic_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                      float* __restrict__ out, size_t h, size_t w, int k, int tw) {
    extern __shared__ float tiles[];
    float *m_tile = tiles, *n_tile = tiles + tw * tw;
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * tw + tr, c = size_t(blockIdx.x) * tw + tc;

    float o = 0.0f;
    for (int start = 0; start < k; start += tw) {
        m_tile[tr * tw + tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;    // guard
        n_tile[tr * tw + tc] = start + tr < k && c < w ? n[(start + tr) * w + c] : 0.0f;  // guard
        __syncthreads();  // otherwise a thread reads what others have not loaded yet
        for (int i = 0; i < tw; ++i) o += m_tile[tr * tw + i] * n_tile[i * tw + tc];
        __syncthreads();  // otherwise a thread loads over what others still read
    }
    if (r < h && c < w) out[r * w + c] = o;  // guard
}

// TW, the tile width, is a template parameter: any width again, and the compiler unrolls the inner loop.
template <int TW>
__global__ void matmul_template_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                       float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ float m_tile[TW][TW], n_tile[TW][TW];
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * TW + tr, c = size_t(blockIdx.x) * TW + tc;

    float o = 0.0f;
    for (int start = 0; start < k; start += TW) {
        m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;    // guard
        n_tile[tr][tc] = start + tr < k && c < w ? n[(start + tr) * w + c] : 0.0f;  // guard
        __syncthreads();  // otherwise a thread reads what others have not loaded yet
        for (int i = 0; i < TW; ++i) o += m_tile[tr][i] * n_tile[i][tc];
        __syncthreads();  // otherwise a thread loads over what others still read
    }
    if (r < h && c < w) out[r * w + c] = o;  // guard
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_tiled(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                         cudaStream_t stream) {
    dim3 tpb(16, 16), blocks(cdiv(w, 16), cdiv(h, 16));
    matmul_tiled_kernel<<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_dynamic(const float* m, const float* n, float* out, size_t h, size_t w, int k, int tile,
                           cudaStream_t stream) {
    dim3 tpb(tile, tile), blocks(cdiv(w, tile), cdiv(h, tile));
    size_t bytes = 2 * tile * tile * sizeof(float);
    matmul_dynamic_kernel<<<blocks, tpb, bytes, stream>>>(m, n, out, h, w, k, tile);
}

// tile is 8, 16 or 32: a kernel for each is compiled.
void launch_matmul_template(const float* m, const float* n, float* out, size_t h, size_t w, int k, int tile,
                            cudaStream_t stream) {
    dim3 tpb(tile, tile), blocks(cdiv(w, tile), cdiv(h, tile));
    if (tile == 8) matmul_template_kernel<8><<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
    if (tile == 16) matmul_template_kernel<16><<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
    if (tile == 32) matmul_template_kernel<32><<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
}
#endif
