// What the .cu files and api.cpp share. No header of torch: nvcc takes many seconds for one, and 1 second without.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

constexpr int THREADS = 128;      // of a block, where one thread computes one element after another
constexpr int MAX_BLOCKS = 4096;  // of such a grid: threads go on in steps of the grid, so more elements are no problem
constexpr int TILE = 16;          // of the matrix product: blocks of TILE x TILE threads

// How many blocks of THREADS threads are launched for n elements: enough, and at most MAX_BLOCKS.
inline unsigned int GET_BLOCKS(int64_t n) {
    return (unsigned int)std::min<int64_t>((n + THREADS - 1) / THREADS, MAX_BLOCKS);
}

// Throws where the launch just made was refused. What goes wrong while a kernel runs is reported by a later CUDA call.
inline void check_launch(const char* kernel, int64_t blocks_x, int64_t blocks_y = 1) {
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
        throw std::runtime_error(std::string(kernel) + ", launched with " + std::to_string(blocks_x) + " x " +
                                 std::to_string(blocks_y) + " blocks: " + cudaGetErrorString(error));
}

// The launchers: pointers to contiguous memory of one device, numbers of elements, and the stream. Sizes are 64-bit.
// Each .cu file says for which T its launcher is compiled.

// out[i] = a[i] + b[i]; n > 0.
template <class T>
void launch_vector_add(const T* a, const T* b, T* out, int64_t n, cudaStream_t stream);

// out[i] = x[i] * x[i]; n > 0.
template <class T>
void launch_square(const T* x, T* out, int64_t n, cudaStream_t stream);

// out (h, w) = m (h, k) @ n (k, w), row-major; h > 0, w > 0, and h at most 65535 * TILE.
template <class T>
void launch_matmul(const T* m, const T* n, T* out, int64_t h, int64_t w, int64_t k, cudaStream_t stream);
