// The sum of a block as a tree. One barrier after the loop is not one after each step.
#define THREADS 256

__global__ void block_sum(const float* x, float* out) {
    __shared__ float sums[THREADS];
    int t = threadIdx.x;
    sums[t] = x[blockIdx.x * THREADS + t];
    __syncthreads();  // else a partner's element is not there yet
    for (int s = THREADS / 2; s > 0; s /= 2) {
        if (t < s)
            sums[t] += sums[t + s];  // BUG: race
#ifdef MENDED
        __syncthreads();  // else a partner's sum is not there yet
#endif
    }
    __syncthreads();
    if (t == 0) out[blockIdx.x] = sums[0];
}
