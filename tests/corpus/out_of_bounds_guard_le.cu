// Each thread doubles one of n elements. The guard lets one thread too many through.
__global__ void twice(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (i < n)  // guard
#else
    if (i <= n)
#endif
        out[i] = 2.0f * x[i];  // BUG: out_of_bounds
}
