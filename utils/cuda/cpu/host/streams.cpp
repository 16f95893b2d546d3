// Streams and events. Work is done by the time a call returns, so a stream has nothing to remember but that it exists.
#include <chrono>
#include <mutex>
#include <set>

#include "cuda_runtime.h"
#include "../runtime/runtime.h"

struct CUstream_st {};
struct CUevent_st {
    unsigned int flags;
    bool recorded;
    std::chrono::steady_clock::time_point time;
};

namespace cuda_on_cpu {

static Mutex mutex;
static std::set<cudaStream_t> streams;
static std::set<cudaEvent_t> events;

static bool is_stream(cudaStream_t stream) {
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return true;
    std::lock_guard lock(mutex);
    return streams.count(stream);
}

static bool is_event(cudaEvent_t event) {
    std::lock_guard lock(mutex);
    return events.count(event);
}

void forget_streams() {
    std::lock_guard lock(mutex);
    for (cudaStream_t stream : streams) delete stream;
    for (cudaEvent_t event : events) delete event;
    streams.clear();
    events.clear();
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    if (!stream || flags > cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
    *stream = new CUstream_st;
    std::lock_guard lock(mutex);
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    std::lock_guard lock(mutex);
    if (!streams.erase(stream)) return answer(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return answer(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaStreamQuery(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    if (flags > 1) return answer(cudaErrorInvalidValue);
    return answer(is_stream(stream) && is_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    if (!function) return answer(cudaErrorInvalidValue);
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    function(data);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    constexpr unsigned int interprocess = 4;
    if (!event || flags > 7 || ((flags & interprocess) && !(flags & cudaEventDisableTiming)))
        return answer(cudaErrorInvalidValue);
    *event = new CUevent_st{flags, false, {}};
    std::lock_guard lock(mutex);
    events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    std::lock_guard lock(mutex);
    if (!events.erase(event)) return answer(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (!is_event(event) || !is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return answer(is_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaEventQuery(event); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (!milliseconds) return answer(cudaErrorInvalidValue);
    for (cudaEvent_t event : {begin, end})
        if (!is_event(event) || !event->recorded || (event->flags & cudaEventDisableTiming))
            return answer(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
    return cudaSuccess;
}
