// Each thread halves its value until it is small, all in step. Whoever is done leaves the loop, and the barrier in it.
#define THREADS 64

__global__ void settle(float* x, int* rounds) {
    __shared__ float tile[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t, r = 0;
    tile[t] = x[i];
    for (; r < 20; ++r) {
#ifdef MENDED
        if (!__syncthreads_or(tile[t] >= 1.0f)) break;
#else
        if (tile[t] < 1.0f) break;
        __syncthreads();  // BUG: divergent_barrier
#endif
        tile[t] *= 0.5f;
    }
    x[i] = tile[t];
    rounds[i] = r;
}
