// A picture in three planes of n bytes: red, green, blue begin at 0, n and 2n.
__global__ void grayscale(const unsigned char* x, unsigned char* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float red = x[i], green = x[i + n];
#ifdef MENDED
    float blue = x[i + 2 * n];
#else
    float blue = x[i + 3 * n];  // BUG: out_of_bounds
#endif
    out[i] = 0.299f * red + 0.587f * green + 0.114f * blue;
}
