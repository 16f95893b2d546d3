// A grid-stride loop must step over the whole grid. With a step of one block, blocks meet on the same elements.
__global__ void twice(float* x, int n) {
#ifdef MENDED
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#else
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x)
#endif
        x[i] *= 2.0f;  // BUG: race
}
