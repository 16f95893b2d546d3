// Even and odd threads wait at two barriers that look the same and are not.
#define THREADS 64

__global__ void exchange(const int* x, int* out) {
    __shared__ int even[THREADS / 2], odd[THREADS / 2];
    int t = threadIdx.x;
    if (t % 2 == 0) {
        even[t / 2] = x[t];
#ifndef MENDED
        __syncthreads();  // BUG: divergent_barrier
#endif
    } else {
        odd[t / 2] = x[t];
#ifndef MENDED
        __syncthreads();  // BUG: the other
#endif
    }
#ifdef MENDED
    __syncthreads();  // else the partner's element is not there yet
#endif
    out[t] = t % 2 == 0 ? odd[t / 2] : even[t / 2];
}
