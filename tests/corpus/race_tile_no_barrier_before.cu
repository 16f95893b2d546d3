// A block turns its part around through shared memory, and reads before the others have written.
#define THREADS 128

__global__ void reverse_each_block(const float* x, float* out) {
    __shared__ float part[THREADS];
    int t = threadIdx.x, start = blockIdx.x * THREADS;
    part[t] = x[start + t];  // BUG: the other
#ifdef MENDED
    __syncthreads();  // else the other end is not there yet
#endif
    out[start + t] = part[THREADS - 1 - t];  // BUG: race
}
