// Running sums of a block by doubling steps, in place: one line reads a neighbour and writes, and only one barrier
// stands between two steps.
#define THREADS 128

__global__ void running_sums(const int* x, int* out) {
    __shared__ int sums[THREADS];
    int t = threadIdx.x;
    sums[t] = x[t];
    for (int step = 1; step < THREADS; step *= 2) {
        __syncthreads();  // else the step before is not complete
#ifdef MENDED
        int left = t >= step ? sums[t - step] : 0;
        __syncthreads();  // else a neighbour reads the new sum
        sums[t] += left;
#else
        if (t >= step)
            sums[t] += sums[t - step];  // BUG: race
#endif
    }
    out[t] = sums[t];
}
