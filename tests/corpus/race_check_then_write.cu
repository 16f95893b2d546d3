// The smallest element: look whether mine is smaller, then write it. Between the two another thread can write.
__global__ void smallest(const int* x, int* best, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
#ifdef MENDED
    atomicMin(best, x[i]);
#else
    if (x[i] < *best)  // BUG: race
        *best = x[i];  // BUG: race
#endif
}
