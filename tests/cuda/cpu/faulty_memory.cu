// What host code and a kernel do wrong with memory from cudaMalloc: for load_cuda, in faulty.py.
#include <stdexcept>
#include <string>

__global__ void touch(float* p, const float* q, int n, long long at, int kind) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = q ? q[i] + 1 : 1;
    if (i || !kind) return;
    if (kind == 1) p[at] = 1;
    if (kind == 2) p[0] = q[at];
    if (kind == 3) free(p);
    if (kind == 4) memcpy(p, q, at);
    if (kind == 5) memset(p + at, 0, 4 * n);
    if (kind == 6) __trap();
}
__global__ void together(float* p, long long at) {
    __syncthreads();
    p[at] = threadIdx.x;
}

static void raise(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void device_memory(long long kind, long long n, long long at, long long in_kernel) {
    cudaGetLastError();  // of the call before
    float *p = nullptr, *q = nullptr, host[64] = {0};
    cudaStream_t stream = nullptr;
    raise(cudaMalloc(&p, n * 4));
    raise(kind % 2 ? cudaMallocManaged(&q, n * 4) : cudaMallocHost(&q, n * 4));
    switch (kind) {
    case 0: break;
    case 1: raise(cudaMemcpy(p, host, size_t(at), cudaMemcpyHostToDevice)); break;
    case 2: raise(cudaMemcpy(p + at, host, 64, cudaMemcpyHostToDevice)); break;
    case 3: raise(cudaMemcpy(host, p + at, 64, cudaMemcpyDeviceToHost)); break;
    case 4: raise(cudaMemset(p, 1, size_t(at))); break;
    case 5: raise(cudaMemset(p + at, 1, 64)); break;
    case 6: raise(cudaFree(p)); break;
    case 7: raise(cudaFree(p + at)); break;
    case 8: raise(cudaFree(p)); raise(cudaFree(p)); break;
    case 9: raise(cudaFree(host)); break;
    case 10: raise(cudaFreeHost(p)); break;
    case 11: raise(cudaMalloc(&p, size_t(at))); break;
    case 12: raise(cudaMemcpy2D(p, size_t(at), host, 16, 16, 4, cudaMemcpyHostToDevice)); break;
    case 13: raise(cudaStreamCreate(&stream)); raise(cudaStreamDestroy(stream)); raise(cudaMemcpyAsync(p, q, n * 4, cudaMemcpyDefault, stream)); break;
    case 14: p[at] = 1; break;
    case 15: host[0] = q[at]; break;
    case 16: raise(cudaMemcpy(reinterpret_cast<void*>(at), host, 64, cudaMemcpyDefault)); break;
    case 17: cudaDeviceReset(); break;
    case 18: raise(cudaHostUnregister(host)); break;
    case 19: raise(cudaMemcpy(p, host, 64, cudaMemcpyKind(at))); break;
    case 20: raise(cudaMemPrefetchAsync(q, size_t(at), cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0)); break;
    case 21: raise(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(at))); break;
    case 22: raise(cudaEventRecord(reinterpret_cast<cudaEvent_t>(at))); break;
    }
    touch<<<2, 64>>>(p, q, int(n), at, int(in_kernel));
    raise(cudaGetLastError());
    if (at & 1) together<<<1, 32>>>(p, at);
    raise(cudaDeviceSynchronize());
    raise(cudaFree(p));
}
