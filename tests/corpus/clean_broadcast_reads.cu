// All threads read one element of shared memory, and all blocks one of global memory. Reading together is no race.
__constant__ float scale[2] = {0.5f, 2.0f};

__global__ void normalise(const float* x, const float* mean, float* out, int n) {
    __shared__ float first;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) first = x[blockIdx.x * blockDim.x];
    __syncthreads();  // else it is not there yet
    if (i < n) out[i] = (x[i] - *mean + 0.0f * first) * scale[i % 2];
}
