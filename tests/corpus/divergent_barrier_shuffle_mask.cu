// The sum of the first half of a warp. The mask names all 32 lanes, and 16 of them never come.
__global__ void half_warp_sum(const int* x, int* out) {
    int lane = threadIdx.x;
    int value = x[blockIdx.x * 32 + lane];
    if (lane < 16) {
#ifdef MENDED
        for (int s = 8; s > 0; s /= 2) value += __shfl_down_sync(0x0000ffff, value, s);
#else
        for (int s = 8; s > 0; s /= 2)
            value += __shfl_down_sync(0xffffffff, value, s);  // BUG: divergent_barrier
#endif
        if (lane == 0) out[blockIdx.x] = value;
    }
}
