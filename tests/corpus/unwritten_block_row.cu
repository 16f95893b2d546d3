// A matrix in 8x8 blocks. The row forgets which block it is in, so all blocks write the first eight rows.
__global__ void row_numbers(int* out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    int r = blockIdx.y * blockDim.y + threadIdx.y;
#else
    int r = threadIdx.y;
#endif
    if (r < h && c < w)  // guard
        out[r * w + c] = r;  // BUG: race as well, by threads that meet on one element
}
