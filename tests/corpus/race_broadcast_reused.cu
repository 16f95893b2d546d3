// One thread passes a row's first element to all, row after row. A fast thread passes the next before a slow one has
// read the last.
__global__ void subtract_first(float* x, int rows) {
    __shared__ float first;
    int w = blockDim.x;
    for (int r = 0; r < rows; ++r) {
        if (threadIdx.x == 0)
            first = x[r * w];  // BUG: race
        __syncthreads();  // else the value is not there yet
        x[r * w + threadIdx.x] -= first;  // BUG: the other
#ifdef MENDED
        __syncthreads();  // else the value is overwritten while others read it
#endif
    }
}
