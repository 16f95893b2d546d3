// A pipeline that uses a row while it loads the next. Nobody has loaded the first.
#define THREADS 32

__global__ void sum_of_rows(const float* x, float* out, int rows) {
    __shared__ float row[THREADS];
    float sum = 0.0f;
    int t = threadIdx.x;
#ifdef MENDED
    row[t] = x[t];
#endif
    for (int r = 1; r <= rows; ++r) {
        __syncthreads();  // else the row is not complete
        sum += row[THREADS - 1 - t];  // BUG: uninitialized
        __syncthreads();  // else the row is overwritten while others read it
        if (r < rows) row[t] = x[r * THREADS + t];
    }
    out[t] = sum;
}
