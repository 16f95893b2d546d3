// Four threads write the four bytes of one word, each its own, first in shared memory and then in global memory.
__global__ void threshold(const float* x, unsigned char* out, int n) {
    __shared__ unsigned char flags[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    flags[threadIdx.x] = i < n && x[i] > 0.0f;
    __syncthreads();  // else the neighbour's flag is not there yet
    if (i < n) out[i] = flags[threadIdx.x] + 2 * flags[(threadIdx.x + 1) % blockDim.x];
}
