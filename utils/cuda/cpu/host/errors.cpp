// The last error of each CPU thread, the device after a fault, and CUDA's names and words for errors (errors.h). Every
// function of the host's side answers through `answer`.
#include <atomic>
#include <stdexcept>
#include <utility>

#include "cuda_runtime.h"
#include "../runtime/runtime.h"
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

static std::atomic<cudaError_t> lost_by{cudaSuccess}, noticed{cudaSuccess};

void fault(cudaError_t error, const char* message) {
    if (!in_program && *message) throw std::runtime_error(message);
    if (!in_program) return;
    if (*message) tell_of_fault(message);
    cudaError_t none = cudaSuccess;
    lost_by.compare_exchange_strong(none, error);
}
bool device_is_lost() { return lost_by != cudaSuccess; }
void find_device_again() { lost_by = noticed = cudaSuccess; }

// Not through `answer`: a trace has reported the fault itself.
cudaError_t device_error() {
    const cudaError_t error = noticed;
    if (error != cudaSuccess) last_error() = error;
    return error;
}

cudaError_t wait_for_device() {
    trace_finished();
    noticed = lost_by.load();
    return device_error();
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
