// Values from 0 to 1, both included, in ten bins. The value 1 itself has no bin.
#define BINS 10

__global__ void histogram(const float* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
#ifdef MENDED
    int bin = min(int(x[i] * BINS), BINS - 1);
#else
    int bin = int(x[i] * BINS);
#endif
    atomicAdd(&bins[bin], 1);  // BUG: out_of_bounds
}
