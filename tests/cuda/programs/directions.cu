// Which copies CUDA refuses because the kind contradicts the memory, and what it answers to other wrong calls.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__device__ float variable[16];
__constant__ float two[2];

int main() {
    char *host = (char*)malloc(64), *device, *pinned, local[64], *symbol;
    cudaMalloc(&device, 64);
    cudaMallocHost(&pinned, 64);
    cudaGetSymbolAddress((void**)&symbol, variable);
    const char* names[] = {"host", "local", "device", "pinned", "symbol"};
    char* places[] = {host, local, device, pinned, symbol};
    for (int kind = 0; kind < 5; kind++) {
        printf("%d:", kind);
        for (int to = 0; to < 5; to++)
            for (int from = 0; from < 5; from++)
                if (to != from && cudaMemcpy(places[to], places[from], 64, (cudaMemcpyKind)kind))
                    printf(" %s-%s", names[from], names[to]);
        printf("\n");
    }
    cudaGetLastError();
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    printf("asynchronous %d\n", cudaMemcpyAsync(device, host, 4, cudaMemcpyDeviceToHost, stream));
    printf("memset %d", cudaMemset(host, 0, 4));
    printf(" %d\n", cudaMemset(symbol, 0, 4));
    printf("symbols %d", cudaMemcpyToSymbol("two", host, 8));
    printf(" %d\n", cudaMemcpyToSymbol(two, host, 12));
    printf("free %d", cudaFree(device));
    printf(" %d", cudaFree(device));
    printf(" %d\n", cudaFree(host));
}
