// Stands in for torch's header of this name: a loop over n elements by all threads of a grid.
#pragma once

#include <c10/util/Exception.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                             \
    for (int64_t i##_wide = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i##_wide < (n); \
         i##_wide += int64_t(blockDim.x) * gridDim.x)                                       \
        if (index_type i = index_type(i##_wide); true)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace at::cuda::detail {
constexpr int CUDA_NUM_THREADS = 1024;

inline int GET_BLOCKS(int64_t n, int64_t block_threads = CUDA_NUM_THREADS) {
    int64_t blocks = (n + block_threads - 1) / block_threads;
    TORCH_INTERNAL_ASSERT(n > 0 && blocks <= std::numeric_limits<int>::max());
    return int(blocks);
}
}  // namespace at::cuda::detail
