// The host's calls that books use: pinned and mapped memory, pools, callbacks, limits, peers, boxes of memory, complex
// numbers, ranges for a profiler, macros that print a launch. Prints what tests/cuda/test_programs.py expects.
#include <cuComplex.h>
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <cstdio>
#include <cstring>

__device__ int counter;
__constant__ float factors[4];

#define REPORTED(what, ...) __VA_ARGS__; printf("%s [" #__VA_ARGS__ "] %d\n", what, cudaGetLastError())
#define ALL(call...) call; puts(#call)
#define TWICE(call, count, x) for (int i = 0; i < count; i++) { call; printf("%s, " #x "\n", #call); }

__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factors[i % 4];
    if (i == 0) counter += n;
}
__global__ void conjugates(cuFloatComplex* z, int n) {
    int i = threadIdx.x;
    if (i < n) z[i] = cuCmulf(z[i], cuConjf(z[i]));
}

static void after(cudaStream_t, cudaError_t status, void* data) { *static_cast<int*>(data) = 10 + status; }

int main() {
    // Host memory that the device reaches.
    static float room[1000];
    float *mapped, *pinned, *seen;
    int registered = cudaHostRegister(room, sizeof room, cudaHostRegisterMapped);
    int again = cudaHostRegister(room + 10, 40, 0);
    printf("register %d %d", registered, again);
    printf(" %d", cudaHostGetDevicePointer(&mapped, room, 0));
    for (float& v : room) v = 2;
    float by[] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(factors, by, sizeof by);
    scale<<<4, 256>>>(mapped, 1000);
    cudaDeviceSynchronize();
    int count = 0;
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    printf(" %g %g %d", room[0], room[3], count);
    printf(" %d", cudaHostUnregister(room));
    printf(" %d\n", cudaHostUnregister(room));
    cudaHostAlloc(&pinned, 64, cudaHostAllocMapped);
    int local = 0, error = cudaHostGetDevicePointer(&seen, &local, 0);
    cudaPointerAttributes of[4];
    float *device, *managed;
    cudaMalloc(&device, 64), cudaMallocManaged(&managed, 64);
    void* asked[] = {&local, pinned, device + 3, managed};
    for (int i = 0; i < 4; i++) cudaPointerGetAttributes(&of[i], asked[i]);
    printf("pointers %d: %d %d %d %d\n", error, of[0].type, of[1].type, of[2].type, of[3].type);
    printf("advice %d", cudaMemAdvise(managed, 64, cudaMemAdviseSetReadMostly, cudaMemLocation{cudaMemLocationTypeDevice, 0}));
    printf(" %d\n", cudaMemPrefetchAsync(managed, 64, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, 0));

    // Pools and callbacks.
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    nvtxNameCudaStreamA(stream, "copies");
    cudaMemPool_t pool;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    unsigned long long threshold = ~0ull, used = 1;
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    float* taken;
    cudaMallocAsync(&taken, 4096, stream);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
    printf("pool %d", used >= 4096);
    cudaFreeAsync(taken, stream);
    cudaStreamSynchronize(stream);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
    printf(" %llu\n", used);
    int called = 0;
    cudaStreamAddCallback(stream, after, &called, 0);
    cudaStreamSynchronize(stream);
    printf("callback %d\n", called);

    // What one device says about itself.
    size_t heap = 0;
    int can = -1, found = -1;
    char id[20];
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20);
    cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize);
    cudaDeviceGetPCIBusId(id, sizeof id, 0);
    cudaDeviceGetByPCIBusId(&found, id);
    printf("device %zu %d", heap, found);
    printf(" peer %d", cudaDeviceCanAccessPeer(&can, 0, 0));
    printf(" %d", can);
    printf(" %d", cudaDeviceEnablePeerAccess(0, 0));
    printf(" %d", cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 0));
    printf(" %d\n", cudaSetDevice(99));
    cudaGetLastError();

    // A box of memory, within a larger one.
    cudaPitchedPtr box;
    cudaMalloc3D(&box, make_cudaExtent(4 * sizeof(int), 3, 2));
    cudaMemset3D(box, 0, make_cudaExtent(4 * sizeof(int), 3, 2));
    int host[2][3][4], back[2][3][4];
    for (int i = 0; i < 24; i++) (&host[0][0][0])[i] = i;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(host, 16, 4, 3);
    copy.dstPtr = box;
    copy.srcPos = copy.dstPos = make_cudaPos(4, 1, 0);
    copy.extent = make_cudaExtent(2 * sizeof(int), 2, 2);
    copy.kind = cudaMemcpyHostToDevice;
    printf("box %d", cudaMemcpy3D(&copy));
    copy = {};
    copy.srcPtr = box, copy.dstPtr = make_cudaPitchedPtr(back, 16, 4, 3);
    copy.extent = make_cudaExtent(16, 3, 2), copy.kind = cudaMemcpyDeviceToHost;
    printf(" %d:", cudaMemcpy3D(&copy));
    for (int i = 0; i < 24; i++) printf(" %d", (&back[0][0][0])[i]);
    printf("\n");

    // Complex numbers, on both sides, and a profiler that is not there.
    cuFloatComplex z[2] = {make_cuFloatComplex(3, 4), make_cuComplex(0, -2)}, *on_device;
    cudaMalloc(&on_device, sizeof z);
    cudaMemcpy(on_device, z, sizeof z, cudaMemcpyHostToDevice);
    nvtxRangePushA("conjugates");
    cudaProfilerStart();
    conjugates<<<1, 32>>>(on_device, 2);
    cudaProfilerStop();
    nvtxRangePop();
    cudaMemcpy(z, on_device, sizeof z, cudaMemcpyDeviceToHost);
    cuDoubleComplex q = cuCdiv(make_cuDoubleComplex(1, 2), make_cuDoubleComplex(3, -4));
    printf("complex %g %g %g %g %g\n", cuCrealf(z[0]), cuCimagf(z[0]), z[1].x, cuCreal(q), cuCabs(make_cuDoubleComplex(3, 4)));

    // Macros that print what they are given.
    REPORTED("set", cudaMemset(on_device, 0,   sizeof z));
    REPORTED("\"quoted\"", conjugates<<<dim3(1, 1),
             32>>>(on_device,   int("\t"[0]) - '\t'));
    ALL(conjugates<<<1, 32>>>(on_device, 2));
    TWICE((conjugates<<<1, 32>>>(on_device, 2)), 2, a  +  "b");
    return cudaDeviceReset();
}
