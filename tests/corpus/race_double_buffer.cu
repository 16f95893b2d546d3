// Two buffers take turns: one is filled while the other is read. That saves one of two barriers a step, not both.
#define THREADS 64

__global__ void sum_of_rows(const float* x, float* out, int rows) {
    __shared__ float buffer[2][THREADS];
    int t = threadIdx.x;
    float sum = 0.0f;
    buffer[0][t] = x[t];
    __syncthreads();  // else the first row is not complete
    for (int r = 0; r < rows; ++r) {
        int now = r % 2;
        if (r + 1 < rows)
            buffer[1 - now][t] = x[(r + 1) * THREADS + t];  // BUG: race
        sum += buffer[now][t] + buffer[now][(t + 1) % THREADS];  // BUG: the other
#ifdef MENDED
        __syncthreads();  // else the next row is not complete, or this one is overwritten
#endif
    }
    out[t] = sum;
}
