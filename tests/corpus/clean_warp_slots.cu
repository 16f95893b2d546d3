// Each warp turns its 32 elements around in a part of shared memory that no other warp touches. __syncwarp is enough.
__global__ void reverse_each_warp(const int* x, int* out, int rounds) {
    __shared__ int slots[4][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = x[i];
    for (int r = 0; r < rounds + warp; ++r) {  // warps take different numbers of turns
        slots[warp][lane] = value;
        __syncwarp();  // else the other end is not there yet
        value = slots[warp][31 - lane];
        __syncwarp();  // else it is overwritten while others read it
    }
    out[i] = value;
}
