// Each element becomes its difference to the left neighbour. The first element has none.
__global__ void difference(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
#ifdef MENDED
    float left = i > 0 ? x[i - 1] : 0.0f;
#else
    float left = x[i - 1];  // BUG: out_of_bounds
#endif
    out[i] = x[i] - left;
}
