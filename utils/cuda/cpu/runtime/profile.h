// The GPU that the engine behaves like: one of the table utils/cuda/common/gpus.h. Everything that reports or enforces
// a limit reads it here.
#pragma once

#include <cstddef>

namespace cuda_on_cpu {

struct Profile {
    const char* key;   // as in CUDA_COURSE_GPU: "T4"; "" unless one was chosen
    const char* name;  // as CUDA reports it
    int capability;    // 75 for 7.5
    int multiprocessors;
    int clock_khz, memory_clock_khz, memory_bus_bits;  // clock64 counts by the first
    size_t l2_bytes;

    unsigned int multiprocessor_threads, multiprocessor_blocks;
    int registers;                       // of 32 bits, of a multiprocessor; a block may have them all
    size_t multiprocessor_shared_bytes;
    size_t shared_bytes_opt_in;          // of a block, static and dynamic together, after cudaFuncSetAttribute
    size_t reserved_shared_bytes;        // that the system takes for each block
    size_t shared_unit;                  // a block's shared memory is rounded up to a multiple of it

    // The same on all ("CUDA C++ Programming Guide", Compute Capabilities).
    static constexpr int version = 13000;                     // CUDA 13.0
    static constexpr unsigned int warp_size = 32;
    static constexpr unsigned int block_threads = 1024;               // in one block
    static constexpr unsigned int register_unit = 256;  // a warp's registers are allocated in multiples of it
    static constexpr unsigned int parts = 4;            // of a multiprocessor, each with a quarter of the registers
    static constexpr unsigned int block_dim[3] = {1024, 1024, 64};    // and along x, y, z
    static constexpr unsigned int cluster = 8, most_cluster = 16;     // blocks, and for a kernel that has opted in to more
    static constexpr unsigned int grid_dim[3] = {0x7fffffff, 65535, 65535};
    static constexpr size_t shared_bytes = 48 * 1024;                 // of a block that has not opted in to more
    static constexpr size_t constant_bytes = 64 * 1024;
    static constexpr size_t pitch_bytes = 512;  // rows from cudaMallocPitch begin at multiples of it
    static constexpr size_t max_pitch_bytes = 0x7fffffff;
};

extern Profile profile;  // from the start that of $CUDA_COURSE_GPU

}  // namespace cuda_on_cpu

// Behaves like the GPU called `name` from now on, "" for the table's first. Whether the table has it.
extern "C" bool cuda_on_cpu_choose_gpu(const char* name);
