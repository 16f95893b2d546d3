// Rows of a matrix lie w apart, not h apart.
__global__ void add_row(float* m, const float* row, int h, int w) {
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;  // guard
#ifdef MENDED
    int i = r * w + c;
#else
    int i = r * h + c;
#endif
    m[i] += row[c];  // BUG: out_of_bounds
}
