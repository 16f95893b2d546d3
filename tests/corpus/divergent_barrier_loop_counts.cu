// Sums of columns: a thread takes every blockDim.x-th row and waits in each turn. Some threads have one turn more.
#define THREADS 32

__global__ void total(const float* x, float* out, int n) {
    __shared__ float part[THREADS];
    float sum = 0.0f;
#ifdef MENDED
    for (int start = 0; start < n; start += THREADS) {
        int i = start + threadIdx.x;
        part[threadIdx.x] = i < n ? x[i] : 0.0f;
#else
    for (int i = threadIdx.x; i < n; i += THREADS) {
        part[threadIdx.x] = x[i];
#endif
        __syncthreads();  // BUG: divergent_barrier
        sum += part[THREADS - 1 - threadIdx.x];
        __syncthreads();  // BUG: divergent_barrier
    }
    out[threadIdx.x] = sum;
}
