// Smooths a signal in place: a thread reads neighbours that others may have overwritten already, in its own block and
// in the next.
__global__ void smooth(float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        float mean = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];  // BUG: the other
#ifdef MENDED
        out[i] = mean;
#else
        x[i] = mean;  // BUG: race
#endif
    }
}
