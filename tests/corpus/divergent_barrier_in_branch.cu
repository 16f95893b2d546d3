// Only the threads of the first half load, and only they wait.
__global__ void repeat_half(const float* x, float* out) {
    extern __shared__ float half_tile[];
    int t = threadIdx.x, half = blockDim.x / 2;
    if (t < half) {
        half_tile[t] = x[blockIdx.x * half + t];
#ifndef MENDED
        __syncthreads();  // BUG: divergent_barrier
#endif
    }
#ifdef MENDED
    __syncthreads();  // else the tile is not complete
#endif
    if (t < half) out[blockIdx.x * blockDim.x + t] = half_tile[half - 1 - t];
}
