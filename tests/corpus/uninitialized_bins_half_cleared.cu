// 256 bins in shared memory and 128 threads: `each thread clears one` leaves half of the bins as they were.
#define BINS 256

__global__ void histogram(const unsigned char* x, unsigned* counts, int n) {
    __shared__ unsigned own[BINS];
#ifdef MENDED
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) own[b] = 0;
#else
    if (threadIdx.x < BINS) own[threadIdx.x] = 0;
#endif
    __syncthreads();  // else a bin is cleared after others have counted
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[x[i]], 1u);  // BUG: uninitialized
    __syncthreads();  // else counts are missing
    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        atomicAdd(&counts[b], own[b]);  // BUG: uninitialized
}
