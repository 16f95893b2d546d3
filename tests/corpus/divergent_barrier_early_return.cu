// In the last block, threads past the end leave before the barrier that the others wait at.
#define THREADS 128

__global__ void smooth(const float* x, float* out, int n) {
    __shared__ float tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
#ifdef MENDED
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
#else
    if (i >= n) return;
    tile[threadIdx.x] = x[i];
#endif
    __syncthreads();  // BUG: divergent_barrier
    if (i < n) out[i] = 0.5f * (tile[threadIdx.x] + tile[threadIdx.x > 0 ? threadIdx.x - 1 : 0]);
}
