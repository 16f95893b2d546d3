// A histogram for each block in shared memory, added to the whole at the end. The inner counting is not atomic.
#define BINS 64

__global__ void histogram(const int* x, int* counts, int n) {
    __shared__ int own[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) own[b] = 0;
    __syncthreads();  // else a count is set to zero after others have counted
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
#ifdef MENDED
        atomicAdd(&own[x[i]], 1);
#else
        own[x[i]]++;  // BUG: race
#endif
    __syncthreads();  // else counts are missing
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&counts[b], own[b]);
}
