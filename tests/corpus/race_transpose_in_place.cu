// Transposes a square matrix in place. Both partners of a swap do it, and read what the other has written.
__global__ void transpose(float* a, int n) {
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int c = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (r < c && c < n) {  // one thread a pair
#else
    if (r < n && c < n) {
#endif
        float above = a[r * n + c];  // BUG: race
        a[r * n + c] = a[c * n + r];  // BUG: race
        a[c * n + r] = above;  // BUG: race
    }
}
