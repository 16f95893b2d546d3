// The index is kept in 16 bits "to save registers". From 32768 on it is negative, and passes the guard.
__global__ void fill(float* out, int n, float value) {
#ifdef MENDED
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#else
    short i = blockIdx.x * blockDim.x + threadIdx.x;
#endif
    if (i < n)  // guard
        out[i] = value;  // BUG: out_of_bounds
}
