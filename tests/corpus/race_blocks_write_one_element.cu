// The largest element. Each block finds its own, and all write it to the same place.
#define THREADS 128

__global__ void largest(const int* x, int* out) {
    __shared__ int most[THREADS];
    int t = threadIdx.x;
    most[t] = x[blockIdx.x * THREADS + t];
    for (int s = THREADS / 2; s > 0; s /= 2) {
        __syncthreads();  // else a partner's maximum is not there yet
        if (t < s) most[t] = max(most[t], most[t + s]);
    }
    if (t == 0)
#ifdef MENDED
        atomicMax(out, most[0]);
#else
        *out = most[0];  // BUG: race
#endif
}
