// The sum of a grid in one launch: the block that finishes last adds the blocks' sums. Nothing makes a block's sum
// visible before its ticket.
#define THREADS 64

__global__ void grid_sum(const float* x, float* sums, unsigned* tickets, float* total) {
    __shared__ float part[THREADS];
    __shared__ bool last;
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * THREADS + t];
    for (int s = THREADS / 2; s > 0; s /= 2) {
        __syncthreads();  // else a partner's sum is not there yet
        if (t < s) part[t] += part[t + s];
    }
    if (t == 0) {
        sums[blockIdx.x] = part[0];  // BUG: the other
#ifdef MENDED
        __threadfence();  // else the ticket can be seen before the sum
#endif
        last = atomicAdd(tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();  // else `last` is not there yet
    if (last && t == 0) {
#ifdef MENDED
        __threadfence();  // else a sum may have been read before the ticket
#endif
        float sum = 0.0f;
        for (int b = 0; b < gridDim.x; ++b)
            sum += ((volatile float*)sums)[b];  // BUG: race
        *total = sum;
    }
}
