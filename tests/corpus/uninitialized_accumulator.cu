// How many elements of a block are positive. The shared counter starts with whatever was there.
__global__ void count_positive(const float* x, int* counts, int n) {
    __shared__ int count;
#ifdef MENDED
    if (threadIdx.x == 0) count = 0;
    __syncthreads();  // else it is set to zero after others have counted
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f)
        atomicAdd(&count, 1);  // BUG: uninitialized
    __syncthreads();  // else the count is not complete
    if (threadIdx.x == 0)
        counts[blockIdx.x] = count;  // BUG: uninitialized
}
