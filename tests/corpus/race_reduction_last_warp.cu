// The last steps of the tree are left to one warp, without barriers, as old code does. Since Volta the lanes of a warp
// no longer march in step.
#define THREADS 256

__global__ void block_sum(const float* x, float* out) {
    __shared__ float sums[THREADS];
    int t = threadIdx.x;
    sums[t] = x[blockIdx.x * THREADS + t];
    for (int s = THREADS / 2; s >= 32; s /= 2) {
        __syncthreads();  // else a partner's sum is not there yet
        if (t < s) sums[t] += sums[t + s];  // BUG: the other
    }
    if (t < 32) {
        for (int s = 16; s > 0; s /= 2) {
#ifdef MENDED
            __syncwarp();  // else a partner's sum is not there yet
#endif
            if (t < s)
                sums[t] += sums[t + s];  // BUG: race
        }
        if (t == 0) out[blockIdx.x] = sums[0];
    }
}
