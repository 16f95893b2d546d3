// The sum over the 32 lanes of a warp. In each round a lane adds what the lane `half` away has; after five rounds each
// lane has the sum of all.
__device__ inline float sum_over_warp(float sum) {
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);
    return sum;
}
