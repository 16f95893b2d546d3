// Each element of a 16x16 tile takes its right neighbour, and the last one of a row the first. Without the turn the
// index leaves its row: tile[3][16] is tile[4][0], inside the array and still wrong.
__global__ void roll(const float* x, float* out) {
    __shared__ float tile[16][16];
    int r = threadIdx.y, c = threadIdx.x;
    tile[r][c] = x[r * 16 + c];
    __syncthreads();  // else the neighbour is not there yet
#ifdef MENDED
    out[r * 16 + c] = tile[r][(c + 1) % 16];
#else
    out[r * 16 + c] = tile[r][c + 1];  // BUG: out_of_bounds
#endif
}
