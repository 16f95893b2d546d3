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

// A kernel's fault raises an exception in Python. A program loses its device, as on a GPU: nothing runs there any more,
// the first call that waits for the device gets `error`, and after that so does each that needs the device (measured on
// an H200). The message goes to stderr, unless a trace reports the fault.
void fault(cudaError_t error, const char* message);
bool device_is_lost();
cudaError_t device_error();     // what a call answers that needs the device
cudaError_t wait_for_device();  // likewise, and it waits
void find_device_again();       // cudaDeviceReset

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
