// Sums over a warp and over a block, which every thread receives.
__device__ inline float warp_sum(float v) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) v += __shfl_xor_sync(0xffffffff, v, apart);
    return v;
}

// `board` is shared memory for a float per warp. It must not be used again before the block's next barrier: a thread
// may still read it when the others have left.
__device__ inline float block_sum(float v, float* board) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = warp_sum(v);
    if (lane == 0) board[warp] = v;
    __syncthreads();  // otherwise a warp reads sums that other warps have not stored yet
    return warp_sum(lane < warps ? board[lane] : 0.0f);
}
