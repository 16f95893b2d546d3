// The launch caps the grid at two blocks, which is fine with a loop that steps over the grid, and not without.
__global__ void cosine(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    for (; i < n; i += gridDim.x * blockDim.x)
#else
    if (i < n)  // guard
#endif
        out[i] = cosf(x[i]);
}
