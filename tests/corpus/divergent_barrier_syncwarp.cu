// The even lanes of a warp hand a value on and wait for all 32 lanes of their warp. The odd ones never come.
__global__ void even_lanes(const int* x, int* out) {
    __shared__ int slots[32];
    int lane = threadIdx.x;
    if (lane % 2 == 0) {
        slots[lane] = x[lane];
#ifdef MENDED
        __syncwarp(0x55555555);  // else the neighbour's value is not there yet
#else
        __syncwarp();  // BUG: divergent_barrier
#endif
        out[lane / 2] = slots[(lane + 2) % 32];
    }
}
