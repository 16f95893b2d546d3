// Halves each element. The stride is worked out in whole groups of 64 threads, of which a block of 32 has none.
__global__ void halve(float* x, int n) {
#ifdef MENDED
    int stride = blockDim.x;
#else
    int stride = blockDim.x / 64 * 64;
#endif
    for (int i = threadIdx.x; i < n; i += stride)  // BUG: runaway
        x[i] *= 0.5f;
}
