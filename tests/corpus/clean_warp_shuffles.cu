// Sums by shuffles: values pass from lane to lane without any memory, so there is nothing to race on. The last warp of
// the last block is only half inside the data, and its lanes take part all the same.
__global__ void warp_sums(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < n ? x[i] : 0.0f;
    for (int lanes = 1; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    if (threadIdx.x % 32 == 0 && i < n) out[i / 32] = sum;
}
