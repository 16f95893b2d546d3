// A three-point mean from a tile with a halo. At the two ends of the signal nobody writes the halo.
#define THREADS 64

__global__ void mean3(const float* x, float* out, int n) {
    __shared__ float tile[THREADS + 2];
    int i = blockIdx.x * THREADS + threadIdx.x;
    int t = threadIdx.x + 1;
    tile[t] = i < n ? x[i] : 0.0f;
#ifdef MENDED
    if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (threadIdx.x == THREADS - 1) tile[t + 1] = i + 1 < n ? x[i + 1] : 0.0f;
#else
    if (threadIdx.x == 0 && i > 0) tile[0] = x[i - 1];
    if (threadIdx.x == THREADS - 1 && i + 1 < n) tile[t + 1] = x[i + 1];
#endif
    __syncthreads();  // else a neighbour's element is not there yet
    if (i < n)
        out[i] = (tile[t - 1] + tile[t] + tile[t + 1]) / 3.0f;  // BUG: uninitialized
}
