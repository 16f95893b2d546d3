// A tile is copied asynchronously. A barrier does not wait for the copies; __pipeline_wait_prior does.
#include <cuda_pipeline.h>

#define THREADS 64

__global__ void reverse(const float* x, float* out) {
    __shared__ float tile[THREADS];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&tile[t], &x[blockIdx.x * THREADS + t], sizeof(float));
    __pipeline_commit();
#ifdef MENDED
    __pipeline_wait_prior(0);  // else the own copy has not arrived
#endif
    __syncthreads();  // else the others' copies have not arrived
    out[blockIdx.x * THREADS + t] = tile[THREADS - 1 - t];  // BUG: uninitialized
}
