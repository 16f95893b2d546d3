// The last error of each CPU thread, and CUDA's names and words for errors (errors.h). Every function of the host's
// side answers through `answer`.
#include <utility>

#include "cuda_runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

cudaError_t& last_error() {
    static thread_local cudaError_t error = cudaSuccess;
    return error;
}

cudaError_t answer(cudaError_t error) {
    if (error != cudaSuccess) last_error() = error;
    if (error != cudaSuccess && tracing) trace_failed(*tracing, error);
    return error;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaPeekAtLastError() {
    if (tracing) trace_asked(*tracing);
    return last_error();
}

cudaError_t cudaGetLastError() {
    cudaPeekAtLastError();
    return std::exchange(last_error(), cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define CUDA_ON_CPU_ERROR(name, number, words) \
    case name: return #name;
        CUDA_ON_CPU_ERRORS(CUDA_ON_CPU_ERROR)
#undef CUDA_ON_CPU_ERROR
    }
    return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define CUDA_ON_CPU_ERROR(name, number, words) \
    case name: return words;
        CUDA_ON_CPU_ERRORS(CUDA_ON_CPU_ERROR)
#undef CUDA_ON_CPU_ERROR
    }
    return "unrecognized error code";
}
