// Each block loads its part with one element more than it writes, the right neighbour of its last. Here it also writes
// for that one, which belongs to the next block.
#define THREADS 32

__global__ void difference(const float* x, float* out, int n) {
    __shared__ float tile[THREADS];
    int i = blockIdx.x * (THREADS - 1) + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();  // else a neighbour's element is not there yet
#ifdef MENDED
    if (threadIdx.x < THREADS - 1 && i < n - 1)
#else
    if (i < n - 1)
#endif
        out[i] = tile[(threadIdx.x + 1) % THREADS] - tile[threadIdx.x];  // BUG: race
}
