// A picture of h rows and w columns, one thread a pixel. Row and column are swapped in the index that is read.
__global__ void invert(const unsigned char* x, unsigned char* out, int h, int w) {
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < h && c < w) {  // guard
#ifdef MENDED
        unsigned char value = x[r * w + c];
#else
        unsigned char value = x[c * w + r];  // BUG: out_of_bounds
#endif
        out[r * w + c] = 255 - value;
    }
}
