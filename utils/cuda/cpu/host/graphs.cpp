// Graphs, and the capture of streams into them.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "streams.h"

CUgraphNode_st* CUgraph_st::add(cudaGraphNodeType type, cuda_on_cpu::Work work, std::vector<CUgraphNode_st*> before) {
    nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{type, std::move(work), std::move(before)}));
    return nodes.back().get();
}

namespace cuda_on_cpu {

int captures_under_way = 0;  // launches look at it

static Mutex graphs_mutex;
static std::set<std::shared_ptr<Capture>> captures;
static std::set<cudaGraph_t> graphs;
static std::set<cudaGraphExec_t> executables;
static thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

bool is_graph(cudaGraph_t graph) {
    std::lock_guard lock(graphs_mutex);
    return graphs.count(graph);
}

bool is_executable(cudaGraphExec_t exec) {
    std::lock_guard lock(graphs_mutex);
    return executables.count(exec);
}

cudaError_t outside_captures(cudaError_t error) {
    if (Callback::running) return answer(cudaErrorNotPermitted);
    if (!captures_under_way) return cudaSuccess;
    std::lock_guard lock(graphs_mutex);
    bool refused = false;
    for (auto& capture : captures) {
        CUstream_st* origin = capture->origin;
        // The legacy stream waits for all others, except for those that were made not to.
        bool meets = error == cudaErrorStreamCaptureImplicit ? !(origin->flags & cudaStreamNonBlocking)
                                                             : capture->mode != cudaStreamCaptureModeRelaxed &&
                                                                   mode_of_thread != cudaStreamCaptureModeRelaxed;
        if (meets) refused = capture->invalid = true;
    }
    return answer(refused ? error : cudaSuccess);
}

static const char* name_of(cudaGraphNodeType type) {
    return type == cudaGraphNodeTypeMemcpy ? "a copy" : type == cudaGraphNodeTypeMemset ? "a memset" : "a graph";
}

cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Work work) {
    auto do_now = [&] {
        StreamWork begun(stream, name_of(type));
        return work();
    };
    if (Callback::running) return answer(cudaErrorNotPermitted);
    if (cudaError_t error = device_error()) return error;
    if (device_is_lost() && type != cudaGraphNodeTypeMemcpy) return cudaSuccess;  // it comes after the kernel's fault
    if (!captures_under_way) return is_stream(stream) ? do_now() : answer(cudaErrorInvalidResourceHandle);
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    CUstream_st* s = stream_of(stream);
    if (!s) {
        cudaError_t error = outside_captures(cudaErrorStreamCaptureImplicit);
        return error ? error : do_now();
    }
    if (!s->capture) return do_now();
    if (s->capture->invalid) return answer(cudaErrorStreamCaptureInvalidated);
    s->last = {s->capture->graph->add(type, std::move(work), s->last)};
    return cudaSuccess;
}

cudaError_t error_of(const std::function<void()>& launch) {
    cudaError_t before = std::exchange(last_error(), cudaSuccess);
    launch();
    cudaError_t error = last_error();
    if (!error) last_error() = before;
    return error;
}

static std::shared_ptr<void> copied(const void* call, size_t bytes) {
    constexpr std::align_val_t alignment{128};  // a tensor map's
    void* kept = memcpy(::operator new(bytes, alignment), call, bytes);
    return {kept, [](void* p) { ::operator delete(p, alignment); }};
}

// Called by every launch while a capture is under way (start.h): whether it was noted, or refused.
bool captured(const char* name, const Launch& launch, void (*run_threads)(void*), Copies copies, const void* call) {
    CUstream_st* s = stream_of(launch.stream);
    if (is_stream(launch.stream) && s && !s->capture) return false;
    if (!s && is_stream(launch.stream) && !outside_captures(cudaErrorStreamCaptureImplicit)) return false;
    if (!s || !s->capture) return true;
    std::shared_ptr<void> kept =
        copies.copy ? std::shared_ptr<void>(copies.copy(call), copies.destroy) : copied(call, launch.argument_bytes);
    Launch later = launch;
    later.stream = nullptr;
    enqueue(launch.stream, cudaGraphNodeTypeKernel, [name = std::string(name), later, run_threads, kept] {
        return error_of([&] { run_grid(name.c_str(), later, run_threads, kept.get()); });
    });
    return true;
}

// The nodes in an order in which they may be done: in that of their making, where nothing else is asked. Empty if they
// wait for each other in a circle.
static std::vector<const CUgraphNode_st*> ordered(const CUgraph_st& graph) {
    std::vector<const CUgraphNode_st*> found;
    std::set<const CUgraphNode_st*> done;
    while (found.size() < graph.nodes.size()) {
        size_t before = found.size();
        for (auto& node : graph.nodes) {
            auto ready = [&](auto* other) { return done.count(other); };
            if (done.count(node.get()) || !std::all_of(node->before.begin(), node->before.end(), ready)) continue;
            found.push_back(node.get());
            done.insert(node.get());
        }
        if (found.size() == before) return {};
    }
    return found;
}

cudaError_t run(const CUgraphExec_st& exec) {
    for (auto& step : exec.steps)
        if (cudaError_t error = step.work()) return error;
    return cudaSuccess;
}

// Whether the origin's next work would come after all that has been captured.
static bool is_joined(const Capture& capture) {
    std::vector<CUgraphNode_st*> ahead = capture.origin->last;
    std::set<CUgraphNode_st*> reached(ahead.begin(), ahead.end());
    while (!ahead.empty()) {
        CUgraphNode_st* node = ahead.back();
        ahead.pop_back();
        for (auto* before : node->before)
            if (reached.insert(before).second) ahead.push_back(before);
    }
    return reached.size() == capture.graph->nodes.size();
}

static cudaGraph_t registered(std::unique_ptr<CUgraph_st> graph) {
    std::lock_guard lock(graphs_mutex);
    return *graphs.insert(graph.release()).first;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

// ---- capture --------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    CUstream_st* s = stream_of(stream);
    if (!s) return answer(cudaErrorStreamCaptureUnsupported);
    if (s->capture) return answer(cudaErrorIllegalState);
    static std::atomic<unsigned long long> next{1};
    s->capture = std::make_shared<Capture>();
    s->capture->origin = s;
    s->capture->mode = mode;
    s->capture->id = next++;
    s->last.clear();
    std::lock_guard lock(graphs_mutex);
    captures.insert(s->capture);
    captures_under_way++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    if (!graph) return answer(cudaErrorInvalidValue);
    *graph = nullptr;
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    CUstream_st* s = stream_of(stream);
    if (!s || !s->capture) return answer(cudaErrorIllegalState);
    auto capture = s->capture;
    if (capture->origin != s) {
        capture->invalid = true;
        return answer(cudaErrorStreamCaptureUnmatched);
    }
    bool joined = is_joined(*capture);
    end_capture(capture.get());
    {
        std::lock_guard lock(graphs_mutex);
        captures.erase(capture);
        captures_under_way--;
    }
    if (capture->invalid) return answer(cudaErrorStreamCaptureInvalidated);
    if (!joined) return answer(cudaErrorStreamCaptureUnjoined);
    *graph = registered(std::move(capture->graph));
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph) {
    if (!status) return answer(cudaErrorInvalidValue);
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    CUstream_st* s = stream_of(stream);
    *status = cudaStreamCaptureStatusNone;
    if (!s) return outside_captures(cudaErrorStreamCaptureImplicit);
    if (!s->capture) return cudaSuccess;
    *status = s->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    if (id) *id = s->capture->id;
    if (graph) *graph = s->capture->graph.get();
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return cudaStreamGetCaptureInfo(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    if (!mode) return answer(cudaErrorInvalidValue);
    std::swap(*mode, mode_of_thread);
    return cudaSuccess;
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
    if (!graph || flags) return answer(cudaErrorInvalidValue);
    *graph = registered(std::make_unique<CUgraph_st>());
    return cudaSuccess;
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
    if (!clone || !is_graph(graph)) return answer(cudaErrorInvalidValue);
    auto made = std::make_unique<CUgraph_st>();
    std::map<const CUgraphNode_st*, CUgraphNode_st*> twin;
    for (auto& node : graph->nodes) twin[node.get()] = made->add(node->type, node->work, {});
    for (auto& node : graph->nodes)
        for (auto* before : node->before) twin[node.get()]->before.push_back(twin[before]);
    *clone = registered(std::move(made));
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    std::lock_guard lock(graphs_mutex);
    if (!graphs.erase(graph)) return answer(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    if (!exec || !is_graph(graph)) return answer(cudaErrorInvalidValue);
    auto nodes = ordered(*graph);
    if (nodes.size() != graph->nodes.size()) return answer(cudaErrorInvalidValue);
    *exec = new CUgraphExec_st;
    for (auto* node : nodes) (*exec)->steps.push_back({node, node->type, node->work});
    std::lock_guard lock(graphs_mutex);
    executables.insert(*exec);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t* wrong, char* log,
                                 size_t log_bytes) {
    if (wrong) *wrong = nullptr;
    if (log && log_bytes) *log = '\0';
    return cudaGraphInstantiate(exec, graph);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    if (!is_executable(exec)) return answer(cudaErrorInvalidValue);
    if (!is_stream(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (!captures_under_way) {
        StreamWork begun(stream, "a graph");
        return run(*exec);
    }
    return enqueue(stream, cudaGraphNodeTypeGraph, [copy = *exec] { return run(copy); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    if (!is_executable(exec)) return answer(cudaErrorInvalidValue);
    return answer(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
    if (!info || !is_executable(exec) || !is_graph(graph)) return answer(cudaErrorInvalidValue);
    *info = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
    auto nodes = ordered(*graph);
    if (nodes.size() != exec->steps.size())
        info->result = cudaGraphExecUpdateErrorTopologyChanged;
    else
        for (size_t i = 0; i < nodes.size(); i++)
            if (nodes[i]->type != exec->steps[i].type) info->result = cudaGraphExecUpdateErrorNodeTypeChanged;
    if (info->result != cudaGraphExecUpdateSuccess) return answer(cudaErrorGraphExecUpdateFailure);
    for (size_t i = 0; i < nodes.size(); i++) exec->steps[i].work = nodes[i]->work;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    std::lock_guard lock(graphs_mutex);
    if (!executables.erase(exec)) return answer(cudaErrorInvalidValue);
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    if (!count || !is_graph(graph)) return answer(cudaErrorInvalidValue);
    size_t all = graph->nodes.size();
    for (size_t i = 0; nodes && i < *count; i++) nodes[i] = i < all ? graph->nodes[i].get() : nullptr;
    *count = nodes ? std::min(*count, all) : all;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    if (!node || !type) return answer(cudaErrorInvalidValue);
    *type = node->type;
    return cudaSuccess;
}
