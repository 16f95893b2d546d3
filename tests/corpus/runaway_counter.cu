// The sum of every blockDim.x-th element. The loop forgets to go on.
__global__ void partial_sums(const float* x, float* out, int n) {
    int i = threadIdx.x;
    out[threadIdx.x] = 0.0f;
    while (i < n) {  // BUG: runaway
        out[threadIdx.x] += x[i];
#ifdef MENDED
        i += blockDim.x;
#endif
    }
}
