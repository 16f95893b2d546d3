// What the files of this folder know of each other's streams, events and graphs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_runtime.h"
#include "../runtime/runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {
using Work = std::function<cudaError_t()>;
}

struct CUgraphNode_st {
    cudaGraphNodeType type;
    cuda_on_cpu::Work work;
    std::vector<CUgraphNode_st*> before;  // what has to be done first
};

struct CUgraph_st {
    std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
    CUgraphNode_st* add(cudaGraphNodeType type, cuda_on_cpu::Work work, std::vector<CUgraphNode_st*> before);
};

struct CUgraphExec_st {
    struct Step {
        const CUgraphNode_st* node;  // it may be gone: only for comparisons
        cudaGraphNodeType type;
        cuda_on_cpu::Work work;
    };
    std::vector<Step> steps;  // in an order in which they may be done
};

namespace cuda_on_cpu {

// One or more streams that are being captured into a graph.
struct Capture {
    std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    unsigned long long id;
    bool invalid = false;
};

}  // namespace cuda_on_cpu

struct CUstream_st {
    unsigned int flags = 0;
    int priority = 0;
    unsigned int number = 0;
    std::shared_ptr<cuda_on_cpu::Capture> capture;
    std::vector<CUgraphNode_st*> last;  // of the capture: what the stream's next work comes after
};

struct CUevent_st {
    unsigned int flags;
    bool recorded;
    std::chrono::steady_clock::time_point time;
    uint64_t waits;                               // of the host, until then
    cuda_on_cpu::StreamTimes times;               // of the stream's work before it
    std::weak_ptr<cuda_on_cpu::Capture> capture;  // in which it was recorded last, if in any
    bool captured = false;
    std::vector<CUgraphNode_st*> last;
};

namespace cuda_on_cpu {

// The stream behind a handle; nullptr for the legacy stream and for what is not a stream.
CUstream_st* stream_of(cudaStream_t stream);
// While one of these lives, what is done is work of the stream, as traces see it.
class StreamWork {
public:
    StreamWork(cudaStream_t stream, const char* name) : begun(tracing && trace_work_begins(stream_id(stream), name)) {}
    StreamWork(const StreamWork&) = delete;
    ~StreamWork() {
        if (begun) trace_work_ends();
    }

private:
    const bool begun;
};

// Does the work now, or adds it to the graph that the stream is captured into.
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Work work);
// What waits for the whole device, or touches the legacy stream, is refused while a stream is captured, and ends the
// capture. `error` is what CUDA answers.
cudaError_t outside_captures(cudaError_t error);
// Of this thread, while it runs what a stream calls on the host: an H200 refuses CUDA's own functions there.
struct Callback {
    static thread_local bool running;
    Callback() { running = true; }
    ~Callback() { running = false; }
};
void end_capture(const Capture* capture);  // of every stream that has joined it
// In graphs.cpp.
bool is_graph(cudaGraph_t graph);
bool is_executable(cudaGraphExec_t exec);
cudaError_t run(const CUgraphExec_st& exec);
cudaError_t error_of(const std::function<void()>& launch);  // of a launch itself, not one that was there before
// In memory.cpp: the copies of cudaMemcpy and the like, without looking at captures.
cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind);
// In frames.cpp: ends the host's call if `to` is one of its local variables, and has no room for so much; `rows`: the bytes of rows, and what is between them.
void check_local_variable(const void* to, size_t bytes, bool rows);
bool is_on_stack(const void* p);  // of this CPU thread, in a frame that has not ended
void trace_registered();  // in pinned.cpp
bool reaches_out(const void* p, size_t pitch, size_t width, size_t height);
cudaError_t copy_box(const cudaMemcpy3DParms& copy);
cudaError_t set_rows(void* p, size_t pitch, int value, size_t width, size_t height);

}  // namespace cuda_on_cpu
