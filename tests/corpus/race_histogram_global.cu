// How often each byte occurs. Many threads read a count, add one and write it back: counts are lost.
__global__ void histogram(const unsigned char* x, unsigned* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // guard
#ifdef MENDED
        atomicAdd(&counts[x[i]], 1u);
#else
        counts[x[i]] += 1;  // BUG: race
#endif
}
