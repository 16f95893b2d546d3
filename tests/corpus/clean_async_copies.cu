// Rows come by asynchronous copies, one row ahead of the one in use: while row r is added, row r + 1 is on its way.
#include <cuda_pipeline.h>

#define THREADS 64

__global__ void sum_of_rows(const float* x, float* out, int rows) {
    __shared__ float buffer[2][THREADS];
    int t = threadIdx.x;
    float sum = 0.0f;
    __pipeline_memcpy_async(&buffer[0][t], &x[t], sizeof(float));
    __pipeline_commit();
    for (int r = 0; r < rows; ++r) {
        if (r + 1 < rows) __pipeline_memcpy_async(&buffer[(r + 1) % 2][t], &x[(r + 1) * THREADS + t], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(1);  // else row r has not arrived
        __syncthreads();           // else the others' parts of row r have not arrived
        sum += buffer[r % 2][THREADS - 1 - t];
        __syncthreads();  // else the next copy goes where others still read
    }
    out[t] = sum;
}
