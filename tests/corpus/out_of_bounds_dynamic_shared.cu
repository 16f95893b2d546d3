// A block turns its part around. The launch gives room for blockDim.x elements, and the bug counts from the end
// without the - 1.
__global__ void reverse_each_block(const int* x, int* out) {
    extern __shared__ int part[];
    int t = threadIdx.x, start = blockIdx.x * blockDim.x;
    part[t] = x[start + t];
    __syncthreads();  // else the other end is not there yet
#ifdef MENDED
    out[start + t] = part[blockDim.x - 1 - t];
#else
    out[start + t] = part[blockDim.x - t];  // BUG: out_of_bounds
#endif
}
