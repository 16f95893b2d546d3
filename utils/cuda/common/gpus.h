// The one table of GPUs. Python reads its rows as text (gpus.py), the CPU engine includes it (cpu/runtime/profile.cpp):
// whoever includes it defines CAPABILITY and GPU first.
//
// Sources: CUDA C++ Programming Guide, "Compute Capabilities"; the allocation unit is in the toolkit's
// cuda_occupancy.h. The rows of the H100 and the H200 are what their driver (580) reports, the T4's and the A100's are
// what the sample deviceQuery prints on a T4 and on an A100-SXM4-40GB.

// compute capability; of a multiprocessor: threads, blocks, 32-bit registers, KB of shared memory; of a block: KB of
// shared memory after opting in, bytes that the system reserves, bytes to which shared memory is rounded up
CAPABILITY(75, 1024, 16, 65536, 64, 64, 0, 256)
CAPABILITY(80, 2048, 32, 65536, 164, 163, 1024, 128)
CAPABILITY(86, 1536, 16, 65536, 100, 99, 1024, 128)
CAPABILITY(89, 1536, 24, 65536, 100, 99, 1024, 128)
CAPABILITY(90, 2048, 32, 65536, 228, 227, 1024, 128)
CAPABILITY(100, 2048, 32, 65536, 228, 227, 1024, 128)
CAPABILITY(120, 1536, 24, 65536, 100, 99, 1024, 128)

// name, name that CUDA reports, compute capability, multiprocessors, clock in kHz, memory clock in kHz, width of the
// memory bus in bits, bytes of L2 cache. The first is none that one can buy: it is what the CPU engine behaves like
// unless another is chosen, large enough for any source that runs on one of the others.
GPU("", "CUDA on CPU", 90, 8, 1000000, 0, 0, 52428800)
GPU("T4", "Tesla T4", 75, 40, 1590000, 5001000, 256, 4194304)
GPU("A100", "NVIDIA A100-SXM4-40GB", 80, 108, 1410000, 1215000, 5120, 41943040)
GPU("H100", "NVIDIA H100 80GB HBM3", 90, 132, 1980000, 2619000, 5120, 52428800)
GPU("H200", "NVIDIA H200", 90, 132, 1980000, 3201000, 6016, 62914560)
