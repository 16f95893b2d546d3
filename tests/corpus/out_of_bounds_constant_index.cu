// A filter with five weights in constant memory. The loop asks for a sixth.
__constant__ float weights[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};

__global__ void blur(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float sum = 0.0f;
#ifdef MENDED
    for (int k = 0; k < 5; ++k) {
#else
    for (int k = 0; k <= 5; ++k) {
#endif
        int j = min(max(i + k - 2, 0), n - 1);  // the border repeats the outermost element
        sum += weights[k] * x[j];  // BUG: out_of_bounds
    }
    out[i] = sum;
}
