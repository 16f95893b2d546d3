// The block's largest element and where it stands, as a struct in shared memory. The place is only set where a partner
// wins.
struct Best {
    float value;
    int place;
};

__global__ void largest(const float* x, float* values, int* places) {
    extern __shared__ Best best[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    best[t].value = x[i];
#ifdef MENDED
    best[t].place = i;
#endif
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        __syncthreads();  // else a partner's best is not there yet
        if (t < s && best[t + s].value > best[t].value)
            best[t] = best[t + s];  // BUG: uninitialized
    }
    if (t == 0) {
        values[blockIdx.x] = best[0].value;
        places[blockIdx.x] = best[0].place;  // BUG: uninitialized
    }
}
