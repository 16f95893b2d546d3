// Names that the engine gives another meaning elsewhere: torch's `.cuda()`, printf behind a macro, textures' enumerations,
// and shared variables of other files.
#include <cstdio>

#include "uses_shared.h"

typedef enum cudaTextureFilterMode Mode;

#define CHECK { cudaError_t error = cudaGetLastError(); if (error != cudaSuccess) return 1; }

struct Buffer {
    int* on_device = nullptr;
    void cuda() { cudaMalloc(&on_device, sizeof(int)); }
    void cuda(int value) { cudaMemset(on_device, value, sizeof(int)); }
};

__global__ void add(int* x) { atomicAdd(x, 1); }

__global__ void turn(int* x) {
    if (threadIdx.x == 0) x[0] = 0;
    __syncthreads();
    atomicAdd(x, threadIdx.x * reversed(threadIdx.x));
    __syncthreads();
    lanes[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int lane : lanes) x[0] += lane;
}

int main() {
    Buffer buffer, *other = &buffer;
    buffer.cuda();
    other->cuda(0);
    add<<<1, 32>>>(buffer.on_device);
    CHECK
    printf("mode %d\n", Mode(cudaFilterModeLinear));
    int sum;
    cudaMemcpy(&sum, buffer.on_device, sizeof sum, cudaMemcpyDeviceToHost);
    CHECK
    printf("sum %d\n", sum);
    turn<<<1, 32>>>(buffer.on_device);
    cudaMemcpy(&sum, buffer.on_device, sizeof sum, cudaMemcpyDeviceToHost);
    printf("turned %d, %d\n", sum, of_host(3));
    cudaFree(buffer.on_device);
}
