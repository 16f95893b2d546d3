// A three-point mean from a tile in shared memory. The tile has room for the block's elements, none for the halo.
#define THREADS 64

__global__ void mean3(const float* x, float* out, int n) {
#ifdef MENDED
    __shared__ float tile[THREADS + 2];
#else
    __shared__ float tile[THREADS];
#endif
    int i = blockIdx.x * THREADS + threadIdx.x;
    int t = threadIdx.x + 1;  // tile[0] is the left neighbour of the block's first element
    tile[t] = i < n ? x[i] : 0.0f;  // BUG: out_of_bounds
    if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (threadIdx.x == THREADS - 1) tile[t + 1] = i + 1 < n ? x[i + 1] : 0.0f;  // BUG: out_of_bounds
    __syncthreads();  // else a neighbour's element is not there yet
    if (i < n) out[i] = (tile[t - 1] + tile[t] + tile[t + 1]) / 3.0f;  // BUG: out_of_bounds
}
