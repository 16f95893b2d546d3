// The nodes of graphs: added one by one, and changed in a graph or in what was instantiated from it.
#include <algorithm>
#include <cstring>
#include <memory>

#include "streams.h"

namespace cuda_on_cpu {

static cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before, size_t count,
                            cudaGraphNodeType type, Work work) {
    if (!node || !is_graph(graph) || (count && !before)) return answer(cudaErrorInvalidValue);
    auto mine = [&](auto* one) {
        return std::any_of(graph->nodes.begin(), graph->nodes.end(), [&](auto& all) { return all.get() == one; });
    };
    if (!std::all_of(before, before + count, mine)) return answer(cudaErrorInvalidValue);
    *node = graph->add(type, std::move(work), {before, before + count});
    return cudaSuccess;
}

// ---- what a node does -----------------------------------------------------------------------------------------------

// Without work where the parameters are wrong; `error` is then what CUDA answers.
struct Planned {
    Work work;
    cudaError_t error = cudaErrorInvalidValue;
};

static Planned planned(const cudaKernelNodeParams* p) {
    if (!p || !p->func.copied || p->extra)
        return {{}, p && !p->func.address ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue};
    auto* made = p->func.copied(p->gridDim_, p->blockDim_, p->sharedMemBytes, p->kernelParams, p->func.address);
    std::shared_ptr<NotedLaunch> launch(static_cast<NotedLaunch*>(made));
    return {[launch] { return error_of([&] { launch->run(); }); }};
}

static Planned planned(const cudaMemcpy3DParms* copy) {
    if (!copy) return {};
    return {[copy = *copy] { return copy_box(copy); }};
}

static Planned planned(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return {[=] { return copy_rows(to, 0, from, 0, bytes, 1, kind); }};
}

static Planned planned(const cudaMemsetParams* p) {
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)) return {};
    return {[p = *p] {
        if (p.elementSize == 1) return set_rows(p.dst, p.pitch, int(p.value), p.width, p.height);
        if (cudaError_t error = set_rows(p.dst, p.pitch, 0, p.width * p.elementSize, p.height)) return error;
        DeviceAccess access;
        for (size_t row = 0; row < p.height; row++)
            for (size_t i = 0; i < p.width; i++)
                memcpy((char*)p.dst + row * p.pitch + i * p.elementSize, &p.value, p.elementSize);
        return cudaSuccess;
    }};
}

static Planned planned(const cudaHostNodeParams* p) {
    if (!p || !p->fn) return {};
    return {[p = *p] { return Callback(), p.fn(p.userData), cudaSuccess; }};
}

static cudaError_t add_planned(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before, size_t count,
                               cudaGraphNodeType type, Planned planned) {
    if (!planned.work) return answer(planned.error);
    return add_node(node, graph, before, count, type, std::move(planned.work));
}

static cudaError_t change(cudaGraphNode_t node, cudaGraphNodeType type, Planned planned) {
    if (!planned.work) return answer(planned.error);
    if (!node || node->type != type) return answer(cudaErrorInvalidValue);
    node->work = std::move(planned.work);
    return cudaSuccess;
}

// `node`: of the graph that `exec` was instantiated from, or of one that it was updated to.
static cudaError_t change(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeType type, Planned planned) {
    if (!planned.work) return answer(planned.error);
    if (!is_executable(exec)) return answer(cudaErrorInvalidValue);
    for (auto& step : exec->steps) {
        if (step.node != node || step.type != type) continue;
        step.work = std::move(planned.work);
        return cudaSuccess;
    }
    return answer(cudaErrorInvalidValue);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaKernelNodeParams* parameters) {
    return add_planned(node, graph, before, count, cudaGraphNodeTypeKernel, planned(parameters));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaMemcpy3DParms* copy) {
    return add_planned(node, graph, before, count, cudaGraphNodeTypeMemcpy, planned(copy));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                     size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return add_planned(node, graph, before, count, cudaGraphNodeTypeMemcpy, planned(to, from, bytes, kind));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaMemsetParams* parameters) {
    return add_planned(node, graph, before, count, cudaGraphNodeTypeMemset, planned(parameters));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before, size_t count,
                                 const cudaHostNodeParams* parameters) {
    return add_planned(node, graph, before, count, cudaGraphNodeTypeHost, planned(parameters));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                  size_t count) {
    return add_node(node, graph, before, count, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                       size_t count, cudaGraph_t child) {
    cudaGraphExec_t made;
    if (cudaError_t error = cudaGraphInstantiate(&made, child)) return error;
    CUgraphExec_st copy = *made;
    cudaGraphExecDestroy(made);
    return add_node(node, graph, before, count, cudaGraphNodeTypeGraph, [copy] { return run(copy); });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData*, size_t count) {
    if (!is_graph(graph) || (count && (!from || !to))) return answer(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) to[i]->before.push_back(from[i]);
    return cudaSuccess;
}

// ---- changes --------------------------------------------------------------------------------------------------------

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
    return change(node, cudaGraphNodeTypeKernel, planned(parameters));
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* copy) {
    return change(node, cudaGraphNodeTypeMemcpy, planned(copy));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                           cudaMemcpyKind kind) {
    return change(node, cudaGraphNodeTypeMemcpy, planned(to, from, bytes, kind));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* parameters) {
    return change(node, cudaGraphNodeTypeMemset, planned(parameters));
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
    return change(node, cudaGraphNodeTypeHost, planned(parameters));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
    return change(exec, node, cudaGraphNodeTypeKernel, planned(parameters));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* copy) {
    return change(exec, node, cudaGraphNodeTypeMemcpy, planned(copy));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from,
                                               size_t bytes, cudaMemcpyKind kind) {
    return change(exec, node, cudaGraphNodeTypeMemcpy, planned(to, from, bytes, kind));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* parameters) {
    return change(exec, node, cudaGraphNodeTypeMemset, planned(parameters));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* parameters) {
    return change(exec, node, cudaGraphNodeTypeHost, planned(parameters));
}
