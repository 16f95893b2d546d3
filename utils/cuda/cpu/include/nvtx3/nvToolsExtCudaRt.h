// Stands in for NVTX's header when a source is compiled for the CPU: names for a profiler that is not there.
#pragma once
#include "../cuda_runtime.h"
#include "../nvToolsExt.h"

inline void nvtxNameCudaDeviceA(int, const char*) {}
inline void nvtxNameCudaStreamA(cudaStream_t, const char*) {}
inline void nvtxNameCudaEventA(cudaEvent_t, const char*) {}
#define nvtxNameCudaDevice nvtxNameCudaDeviceA
#define nvtxNameCudaStream nvtxNameCudaStreamA
#define nvtxNameCudaEvent nvtxNameCudaEventA
