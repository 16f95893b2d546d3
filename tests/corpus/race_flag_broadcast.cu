// The first thread looks up whether the block has anything to do, the others ask too early.
__global__ void process(const int* active, float* x) {
    __shared__ int flag;
    if (threadIdx.x == 0)
        flag = active[blockIdx.x];  // BUG: the other
#ifdef MENDED
    __syncthreads();  // else the flag is not there yet
#endif
    if (flag)  // BUG: race
        x[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f;
}
