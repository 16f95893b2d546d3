// Streams and events. Work is done by the time a call returns, unless the stream is being captured (graphs.cpp): then
// it is noted.
#include "../trace/trace.h"
#include "streams.h"

#include <mutex>
#include <set>

namespace cuda_on_cpu {

static Mutex streams_mutex;
static std::set<cudaStream_t> streams;
static std::set<cudaEvent_t> events;
static CUstream_st of_this_thread{.number = 1};  // cudaStreamPerThread
static std::atomic<unsigned int> newest{1};      // number of a stream
static std::atomic<bool> per_thread{false};      // it has been used

CUstream_st* stream_of(cudaStream_t stream) {
    if (stream == cudaStreamPerThread) return per_thread = true, &of_this_thread;
    if (!stream || stream == cudaStreamLegacy) return nullptr;
    std::lock_guard lock(streams_mutex);
    return streams.count(stream) ? stream : nullptr;
}

bool streams_exist() {
    std::lock_guard lock(streams_mutex);
    return per_thread || !streams.empty();
}

StreamId stream_id(cudaStream_t stream) {
    CUstream_st* s = stream_of(stream);
    return s ? StreamId{s->number, !(s->flags & cudaStreamNonBlocking)} : StreamId{0, true};
}

bool is_stream(cudaStream_t stream) { return !stream || stream == cudaStreamLegacy || stream_of(stream); }

static bool is_event(cudaEvent_t event) {
    std::lock_guard lock(streams_mutex);
    return events.count(event);
}

void end_capture(const Capture* capture) {
    std::lock_guard lock(streams_mutex);
    auto leave = [&](CUstream_st& stream) {
        if (stream.capture.get() != capture) return;
        stream.capture.reset();
        stream.last.clear();
    };
    for (cudaStream_t stream : streams) leave(*stream);
    leave(of_this_thread);
}

void forget_streams() {
    std::lock_guard lock(streams_mutex);
    for (cudaStream_t stream : streams) delete stream;
    for (cudaEvent_t event : events) delete event;
    streams.clear();
    events.clear();
    per_thread = false;
}

// Waiting for a stream that is being captured would wait for work that nobody has begun.
static cudaError_t not_captured(cudaStream_t stream) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    CUstream_st* s = stream_of(stream);
    if (!s) return outside_captures(cudaErrorStreamCaptureImplicit);
    if (!s->capture) return cudaSuccess;
    s->capture->invalid = true;
    return answer(cudaErrorStreamCaptureUnsupported);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
    if (!stream || flags > cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = device_error()) return error;
    *stream = new CUstream_st;
    (*stream)->flags = flags;
    (*stream)->number = ++newest;
    (*stream)->priority = priority < 0 ? priority < -5 ? -5 : priority : 0;
    std::lock_guard lock(streams_mutex);
    streams.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (!priority) return answer(cudaErrorInvalidValue);
    CUstream_st* s = stream_of(stream);
    *priority = s ? s->priority : 0;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (!flags) return answer(cudaErrorInvalidValue);
    CUstream_st* s = stream_of(stream);
    *flags = s ? s->flags : 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    std::lock_guard lock(streams_mutex);
    if (!streams.erase(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (stream->capture) stream->capture->invalid = true;
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const cudaError_t error = not_captured(stream);
    if (!error) trace_host_waits(trace_times(stream_id(stream)));
    return error ? error : wait_for_device();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaStreamQuery(stream); }
cudaError_t cudaDeviceSynchronize() {
    const cudaError_t error = outside_captures(cudaErrorStreamCaptureUnsupported);
    if (!error) trace_host_waits_for_all();
    return error ? error : wait_for_device();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    if (flags > 1) return answer(cudaErrorInvalidValue);
    if (!is_stream(stream) || !is_event(event)) return answer(cudaErrorInvalidResourceHandle);
    if (cudaError_t error = device_error()) return error;
    CUstream_st* s = stream_of(stream);
    auto captured = event->capture.lock();
    if (!captured) {
        if (!s || !s->capture) trace_stream_waits(stream_id(stream), event->times);
        if (!s || !s->capture || !event->recorded || flags == 1) return cudaSuccess;
        s->capture->invalid = true;
        return answer(cudaErrorStreamCaptureIsolation);
    }
    if (!s) return outside_captures(cudaErrorStreamCaptureImplicit);
    if (s->capture && s->capture != captured) {
        s->capture->invalid = captured->invalid = true;
        return answer(cudaErrorStreamCaptureMerge);
    }
    s->capture = captured;  // the stream joins
    for (CUgraphNode_st* node : event->last) s->last.push_back(node);
    return cudaSuccess;
}

thread_local bool cuda_on_cpu::Callback::running = false;
void cuda_on_cpu::leave_callback() { Callback::running = false; }

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    if (!function) return answer(cudaErrorInvalidValue);
    return enqueue(stream, cudaGraphNodeTypeHost, [=] {
        trace_finished();  // the stream's work before it
        trace_host_waits(trace_times(stream_id(stream)));
        return Callback(), function(data), cudaSuccess;
    });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned int flags) {
    if (!function || flags) return answer(cudaErrorInvalidValue);
    if (cudaError_t error = not_captured(stream)) return error;
    trace_host_waits(trace_times(stream_id(stream)));
    return Callback(), function(stream, cudaSuccess, data), cudaSuccess;
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* p, size_t, unsigned int flags) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    Allocation found;
    bool managed = find_allocation(p, found) && found.kind == Allocation::managed;
    return answer(managed && (flags == 1 || flags == 2 || flags == 4) ? cudaSuccess : cudaErrorInvalidValue);
}

// ---- events ---------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    if (!event || flags > 7 || ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)))
        return answer(cudaErrorInvalidValue);
    if (cudaError_t error = device_error()) return error;
    *event = new CUevent_st{flags, false, {}, 0, {}, {}, false, {}};
    std::lock_guard lock(streams_mutex);
    events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    std::lock_guard lock(streams_mutex);
    if (!events.erase(event)) return answer(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    if (flags > cudaEventRecordExternal) return answer(cudaErrorInvalidValue);
    if (!is_event(event) || !is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (cudaError_t error = device_error()) return error;
    CUstream_st* s = stream_of(stream);
    auto note_time = [event, stream] {
        event->recorded = true;
        event->time = std::chrono::steady_clock::now();
        event->waits = waits_of_host;
        event->times = trace_times(stream_id(stream));
    };
    if (s && s->capture && flags == cudaEventRecordExternal)
        return enqueue(stream, cudaGraphNodeTypeEmpty, [=] { return note_time(), cudaSuccess; });
    if (!s)
        if (cudaError_t error = outside_captures(cudaErrorStreamCaptureImplicit)) return error;
    event->captured = s && s->capture;
    event->capture.reset();
    event->last.clear();
    if (event->captured) {
        event->capture = s->capture;
        event->last = s->last;
    } else {
        note_time();
    }
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (!is_event(event)) return answer(cudaErrorInvalidResourceHandle);
    if (!event->captured) return trace_host_waits(event->times), wait_for_device();
    if (auto capture = event->capture.lock()) capture->invalid = true;
    return answer(cudaErrorCapturedEvent);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaEventQuery(event); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (!milliseconds) return answer(cudaErrorInvalidValue);
    for (cudaEvent_t event : {begin, end})
        if (!is_event(event) || !event->recorded || event->captured || (event->flags & cudaEventDisableTiming))
            return answer(cudaErrorInvalidResourceHandle);
    if (cudaError_t error = device_error()) return error;
    if (tracing && end->waits == waits_of_host)
        trace_host_error(*tracing, "the host asks for the time of an event that it has not waited for");
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
    return cudaSuccess;
}

// ---- the asynchronous calls -----------------------------------------------------------------------------------------

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return enqueue(stream, cudaGraphNodeTypeMemcpy, [=] {
        Allocation found;
        if (find_allocation(to, found) && found.kind == Allocation::host) trace_unfinished(to);
        if (find_allocation(from, found) && found.kind == Allocation::host) trace_read_later(from, bytes);
        const cudaError_t error = copy_rows(to, 0, from, 0, bytes, 1, kind);
        // To memory that is not pinned: the call returns when it is there.
        if (!find_allocation(to, found)) trace_host_waits(trace_times(stream_id(stream)));
        return error;
    });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return enqueue(stream, cudaGraphNodeTypeMemcpy,
                   [=] { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind); });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t stream) {
    if (!copy) return answer(cudaErrorInvalidValue);
    return enqueue(stream, cudaGraphNodeTypeMemcpy, [copy = *copy] { return copy_box(copy); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
    if (to_device || from_device) return answer(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
    return enqueue(stream, cudaGraphNodeTypeMemset, [=] { return set_rows(p, 0, value, bytes, 1); });
}

cudaError_t cudaMemset2DAsync(void* p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    return enqueue(stream, cudaGraphNodeTypeMemset, [=] { return set_rows(p, pitch, value, width, height); });
}

// Managed memory is where the CPU wants it already.
cudaError_t cudaMemPrefetchAsync(const void* p, size_t, int device, cudaStream_t stream) {
    if (device != 0 && device != cudaCpuDeviceId) return answer(cudaErrorInvalidDevice);
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    return answer(p ? cudaSuccess : cudaErrorInvalidValue);
}
