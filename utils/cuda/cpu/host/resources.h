// What a kernel takes on the GPU that the engine behaves like, and what a multiprocessor has room for.
#pragma once

#include <cstddef>
#include <optional>

namespace cuda_on_cpu {

struct Resources {
    int registers;                     // of a thread
    size_t shared_bytes, local_bytes;  // static, of a block; of a thread
    unsigned int most_threads;         // of a block, by __launch_bounds__; 0 without
    bool operator==(const Resources&) const = default;
};
std::optional<Resources> resources(const void* kernel);  // where nvcc has said it: resources.cpp
// In kernels.cpp: blocks that a multiprocessor holds at once, and threads that a block can have.
int resident_blocks(long long block_threads, size_t shared_bytes, int registers);
size_t threads_with(int registers);

}  // namespace cuda_on_cpu
