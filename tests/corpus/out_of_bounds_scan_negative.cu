// Running sums of a block, by doubling steps between two halves of a shared array. Threads near the start look to the
// left of it.
#define THREADS 128

__global__ void running_sums(const int* x, int* out) {
    __shared__ int sums[2][THREADS];
    int t = threadIdx.x, from = 0;
    sums[0][t] = x[blockIdx.x * THREADS + t];
    for (int step = 1; step < THREADS; step *= 2) {
        __syncthreads();  // else the step before is not complete
#ifdef MENDED
        int left = t >= step ? sums[from][t - step] : 0;
#else
        int left = sums[from][t - step];  // BUG: out_of_bounds
#endif
        sums[1 - from][t] = sums[from][t] + left;
        from = 1 - from;
    }
    out[blockIdx.x * THREADS + t] = sums[from][t];
}
