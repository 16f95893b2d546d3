// Names that the engine gives another meaning elsewhere: torch's `.cuda()`, printf behind a macro, textures' enumerations.
#include <cstdio>

typedef enum cudaTextureFilterMode Mode;

#define CHECK { cudaError_t error = cudaGetLastError(); if (error != cudaSuccess) return 1; }

struct Buffer {
    int* on_device = nullptr;
    void cuda() { cudaMalloc(&on_device, sizeof(int)); }
    void cuda(int value) { cudaMemset(on_device, value, sizeof(int)); }
};

__global__ void add(int* x) { atomicAdd(x, 1); }

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
    cudaFree(buffer.on_device);
}
