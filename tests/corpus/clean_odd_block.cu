// The sum of a block of any size, by a tree that carries the odd one along: 100 are three warps and part of one.
__global__ void block_sum(const float* x, float* out, int n) {
    extern __shared__ float part[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : 0.0f;
    for (int count = blockDim.x; count > 1;) {
        int half = (count + 1) / 2;
        __syncthreads();  // else a partner's sum is not there yet
        if (t < count / 2) part[t] += part[t + half];
        count = half;
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
