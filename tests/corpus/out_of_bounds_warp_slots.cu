// The sum of a block: each warp sums by shuffles and leaves its sum in a slot. There are four slots, for 128 threads;
// the block has 256.
__global__ void block_sum(const float* x, float* out, int n) {
#ifdef MENDED
    __shared__ float slots[32];
#else
    __shared__ float slots[4];
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float sum = i < n ? x[i] : 0.0f;
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (lane == 0) slots[warp] = sum;  // BUG: out_of_bounds
    __syncthreads();  // else a slot is still empty
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int k = 0; k < warps; ++k) total += slots[k];  // BUG: out_of_bounds
        out[blockIdx.x] = total;
    }
}
