// The sum of a block: a slot for each of up to 32 warps, then the first warp adds all 32 slots. A block of 128 threads
// has filled four.
__global__ void block_sum(const float* x, float* out, int n) {
    __shared__ float slots[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = i < n ? x[i] : 0.0f;
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (lane == 0) slots[warp] = sum;
    __syncthreads();  // else a slot is still empty
    if (warp == 0) {
#ifdef MENDED
        sum = lane < blockDim.x / 32 ? slots[lane] : 0.0f;
#else
        sum = slots[lane];  // BUG: uninitialized
#endif
        for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
        if (lane == 0) out[blockIdx.x] = sum;
    }
}
