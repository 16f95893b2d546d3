// Streams that are captured into graphs, and graphs made node by node. Prints what tests/cuda/test_programs.py expects.
#include <cstdio>
#include <vector>

__global__ void add(float* x, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += by;
}
__global__ void twice(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

static float* x;
static const int n = 100;
static float first() {
    float value;
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}
static void called(void* count) { ++*static_cast<int*>(count); }

static void captured() {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMemset(x, 0, n * sizeof(float));
    float by = 3;
    int calls = 0;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void (*chosen)(float*, int) = twice;
    cudaStreamCaptureStatus status;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    add<<<1, 128, 0, stream>>>(x, n, by);
    chosen<<<1, 128, 0, stream>>>(x, n);
    cudaLaunchHostFunc(stream, called, &calls);
    cudaStreamIsCapturing(stream, &status);
    by = 100;           // what was captured stays
    chosen = nullptr;
    int ended = cudaStreamEndCapture(stream, &graph);
    printf("captured %d %d: %g after nothing has run\n", status, ended, first());
    printf("instantiated %d\n", cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    cudaGraphDestroy(graph);  // the executable one is its own
    for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    printf("three times: %g, %d calls\n", first(), calls);
    printf("destroyed %d", cudaGraphExecDestroy(exec));
    printf(" %d\n", cudaGraphLaunch(exec, stream));
    cudaStreamDestroy(stream);
}

static void forked() {
    cudaStream_t a, b;
    cudaEvent_t fork, join;
    cudaStreamCreate(&a), cudaStreamCreate(&b), cudaEventCreate(&fork), cudaEventCreate(&join);
    cudaMemset(x, 0, n * sizeof(float));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    for (bool joined : {true, false}) {
        cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
        add<<<1, 128, 0, a>>>(x, n, 1);
        cudaEventRecord(fork, a);
        cudaStreamWaitEvent(b, fork, 0);
        twice<<<1, 128, 0, b>>>(x, n);
        cudaEventRecord(join, b);
        if (joined) cudaStreamWaitEvent(a, join, 0);
        if (joined) add<<<1, 128, 0, a>>>(x, n, 5);
        int ended = cudaStreamEndCapture(a, &graph);
        printf("%s %d\n", joined ? "joined" : "not joined", ended);
        if (!joined) break;
        size_t count = 0;
        cudaGraphGetNodes(graph, nullptr, &count);
        cudaGraphInstantiate(&exec, graph, 0);
        cudaGraphLaunch(exec, a);
        printf("%zu nodes: %g, event %d\n", count, first(), cudaEventQuery(join));
    }
    cudaGetLastError();
    twice<<<1, 128, 0, b>>>(x, n);  // b is free again
    printf("free again: %g %d\n", first(), cudaGetLastError());
}

static void refused() {
    cudaStream_t stream, apart;
    cudaStreamCreate(&stream);
    cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking);
    cudaGraph_t graph;
    int* p;
    auto ends = [&](const char* what, int said) {
        int ended = cudaStreamEndCapture(stream, &graph);
        printf("%s %d %d\n", what, said, ended);
        cudaGetLastError();
    };
    printf("legacy stream %d\n", cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    ends("synchronize", cudaStreamSynchronize(stream));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    ends("device", cudaDeviceSynchronize());
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    ends("malloc", cudaMalloc(&p, 4));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    ends("relaxed malloc", cudaMalloc(&p, 4));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    ends("memcpy", cudaMemcpy(x, x + 1, 4, cudaMemcpyDeviceToDevice));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    add<<<1, 1>>>(x, 1, 1);
    ends("launch elsewhere", cudaGetLastError());
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    add<<<1, 1, 0, apart>>>(x, 1, 1);
    ends("apart", cudaGetLastError());
    printf("nothing begun %d\n", cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
}

static void made() {
    cudaGraph_t graph;
    cudaGraphNode_t set, plus, doubled, back, host;
    cudaGraphExec_t exec;
    cudaGraphCreate(&graph, 0);
    cudaMemsetParams zero = {};
    zero.dst = x, zero.elementSize = 4, zero.width = n, zero.height = 1;
    float by = 4, result = -1;
    int size = n, calls = 0;
    void* of_add[] = {&x, &size, &by};
    void* of_twice[] = {&x, &size};
    cudaKernelNodeParams kernel = {nullptr, dim3(1), dim3(128), 0, of_add, nullptr};
    kernel.func = (void*)add;
    cudaHostNodeParams function = {called, &calls};
    // `doubled` is added before what it depends on.
    int errors = cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &zero);
    errors += cudaGraphAddKernelNode(&plus, graph, &set, 1, &kernel);
    errors += cudaGraphAddMemcpyNode1D(&back, graph, nullptr, 0, &result, x, 4, cudaMemcpyDeviceToHost);
    kernel.func = (void*)twice;
    kernel.kernelParams = of_twice;
    errors += cudaGraphAddKernelNode(&doubled, graph, &plus, 1, &kernel);
    errors += cudaGraphAddDependencies(graph, &doubled, &back, nullptr, 1);
    errors += cudaGraphAddHostNode(&host, graph, &back, 1, &function);
    by = 50;
    errors += cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 2; i++) errors += cudaGraphLaunch(exec, 0);
    cudaDeviceSynchronize();
    printf("made: %g, %d calls, %d errors\n", result, calls, errors);
    printf("circle %d", cudaGraphAddDependencies(graph, &back, &set, nullptr, 1));
    printf(" %d\n", cudaGraphInstantiate(&exec, graph, 0));
}

static void changed() {
    cudaGraph_t graph;
    cudaGraphNode_t set, plus, back, host;
    cudaGraphExec_t exec, other;
    cudaGraphCreate(&graph, 0);
    cudaMemsetParams zero = {};
    zero.dst = x, zero.elementSize = 4, zero.width = n, zero.height = 1;
    float by = 4, result[2] = {-1, -1};
    int size = n, calls = 0, others = 0;
    void* of_add[] = {&x, &size, &by};
    void* of_twice[] = {&x, &size};
    cudaKernelNodeParams kernel = {nullptr, dim3(1), dim3(128), 0, of_add, nullptr};
    kernel.func = (void*)add;
    cudaHostNodeParams function = {called, &calls};
    cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &zero);
    cudaGraphAddKernelNode(&plus, graph, &set, 1, &kernel);
    cudaGraphAddMemcpyNode1D(&back, graph, &plus, 1, result, x, 8, cudaMemcpyDeviceToHost);
    cudaGraphAddHostNode(&host, graph, &back, 1, &function);
    cudaGraphInstantiate(&exec, graph, 0);
    auto shows = [&](const char* what, cudaGraphExec_t one) {
        result[0] = result[1] = -1;
        cudaGraphLaunch(one, 0);
        cudaDeviceSynchronize();
        printf("changed %s: %g %g, %d and %d calls\n", what, result[0], result[1], calls, others);
    };
    // In what was instantiated: another value, then one element only, then another kernel.
    by = 7, size = 1;
    int errors = cudaGraphExecKernelNodeSetParams(exec, plus, &kernel);
    shows("arguments", exec);
    zero.value = 1;  // the bits of 1e-45
    errors += cudaGraphExecMemsetNodeSetParams(exec, set, &zero);
    kernel.func = (void*)twice, kernel.kernelParams = of_twice, size = n;
    errors += cudaGraphExecKernelNodeSetParams(exec, plus, &kernel);
    function.userData = &others;
    errors += cudaGraphExecHostNodeSetParams(exec, host, &function);
    errors += cudaGraphExecMemcpyNodeSetParams1D(exec, back, result + 1, x, 4, cudaMemcpyDeviceToHost);
    shows("all", exec);
    // The graph is as it was, until its own nodes are changed.
    cudaGraphInstantiate(&other, graph, 0);
    shows("nothing", other);
    kernel.func = (void*)add, kernel.kernelParams = of_add, by = 0.5f;
    errors += cudaGraphKernelNodeSetParams(plus, &kernel);
    zero.value = 0x3f800000;
    errors += cudaGraphMemsetNodeSetParams(set, &zero);
    errors += cudaGraphHostNodeSetParams(host, &function);
    errors += cudaGraphMemcpyNodeSetParams1D(back, result, x, 4, cudaMemcpyDeviceToHost);
    cudaGraphInstantiate(&other, graph, 0);
    shows("nodes", other);
    printf("%d errors, of another kind %d\n", errors, cudaGraphExecKernelNodeSetParams(exec, set, &kernel));
}

int main() {
    cudaMalloc(&x, n * sizeof(float));
    captured();
    forked();
    refused();
    made();
    changed();
}
