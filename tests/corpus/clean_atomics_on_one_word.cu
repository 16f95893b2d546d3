// Many threads of many blocks change the same words at once, by atomics of several kinds.
__global__ void statistics(const int* x, int* largest, int* sum, unsigned* seen, int n) {
    __shared__ int block_sum;
    if (threadIdx.x == 0) block_sum = 0;
    __syncthreads();  // else it is set to zero after others have added
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicMax(largest, x[i]);
        if (x[i] % 2) atomicAdd(largest, 0);
        atomicAdd(&block_sum, x[i]);
        atomicOr(seen, 1u << x[i] % 32);
    }
    __syncthreads();  // else the sum is not complete
    if (threadIdx.x == 0) atomicAdd(sum, block_sum);
}
