// The host's side of CUDA: memory, streams, events, what the device can do, and launches by function call (host/).
//
// The device's memory is the machine's own here, and work is done by the time a call returns. So a stream keeps its
// order by itself and nothing is ever waited for. What the engine does keep is CUDA's refusals: a mistake that CUDA
// answers with an error is answered with the same error.
#pragma once

#include "errors.h"

#define CUDART_VERSION 13000
#define CUDARTAPI
#define CUDART_CB

namespace cuda_on_cpu {

cudaError_t& last_error();             // of this CPU thread: what the last call or launch that failed said
cudaError_t answer(cudaError_t error); // notes an error as the last one, and returns it

}  // namespace cuda_on_cpu

cudaError_t cudaGetLastError();  // and forgets it
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

#include "host/device.h"
#include "host/graphs.h"
#include "host/kernels.h"
#include "host/launches.h"
#include "host/memory.h"
#include "host/streams.h"
