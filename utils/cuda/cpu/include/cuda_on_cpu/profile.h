// The GPU that the engine pretends to be: one that a source for any GPU from the T4 to the H200 finds large enough.
//
// The limits are those of compute capability 9.0 ("CUDA C++ Programming Guide", Compute Capabilities). Only the number
// of multiprocessors and the clock are our own. Everything that reports or enforces a limit reads it here.
#pragma once

#include <cstddef>

namespace cuda_on_cpu {

inline constexpr struct Profile {
    const char* name = "CUDA on CPU";
    int major = 9, minor = 0;    // compute capability
    int version = 13000;         // CUDA 13.0
    int multiprocessors = 8;
    int clock_khz = 1'000'000;   // clock64 counts nanoseconds

    unsigned int warp_size = 32;
    unsigned int block_threads = 1024;               // in one block
    unsigned int block_dim[3] = {1024, 1024, 64};    // and along x, y, z
    unsigned int grid_dim[3] = {0x7fffffff, 65535, 65535};
    unsigned int multiprocessor_threads = 2048;
    unsigned int multiprocessor_blocks = 32;
    int registers = 65536;                           // of 32 bits, of a multiprocessor; a block may have them all

    size_t shared_bytes = 48 * 1024;                 // of a block, static and dynamic together
    size_t shared_bytes_opt_in = 227 * 1024;         // the same after cudaFuncSetAttribute
    size_t reserved_shared_bytes = 1024;             // that the system takes for each block
    size_t multiprocessor_shared_bytes = 228 * 1024;
    size_t constant_bytes = 64 * 1024;
    size_t l2_bytes = 50 * 1024 * 1024;
    size_t pitch_bytes = 512;                        // rows from cudaMallocPitch begin at multiples of it
    size_t max_pitch_bytes = 0x7fffffff;
} profile;

}  // namespace cuda_on_cpu
