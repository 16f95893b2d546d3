// How many elements are positive. The first thread clears the counter, while other blocks may be counting already.
// Mended, the counter is cleared before the launch.
__global__ void count_positive(const float* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifndef MENDED
    if (i == 0)
        *count = 0;  // BUG: race
    __syncthreads();  // waits for this block alone
#endif
    if (i < n && x[i] > 0.0f)
        atomicAdd(count, 1);  // BUG: the other
}
