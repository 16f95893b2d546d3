// The last block has more threads than there are elements left, and nothing holds them back.
__global__ void ramp(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (i >= n) return;  // guard
#endif
    out[i] = 0.5f * i;  // BUG: out_of_bounds
}
