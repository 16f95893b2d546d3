// The sum of a grid in one launch: the block that draws the last ticket adds the blocks' sums. Other blocks' plain
// writes are read without a barrier, and rightly: a fence stands before each ticket.
#define THREADS 128

__global__ void grid_sum(const float* x, float* sums, unsigned* tickets, float* total, int n) {
    __shared__ float part[THREADS];
    __shared__ bool last;
    int t = threadIdx.x;
    float own = 0.0f;
    for (int i = blockIdx.x * THREADS + t; i < n; i += gridDim.x * THREADS) own += x[i];
    part[t] = own;
    for (int s = THREADS / 2; s > 0; s /= 2) {
        __syncthreads();  // else a partner's sum is not there yet
        if (t < s) part[t] += part[t + s];
    }
    if (t == 0) {
        sums[blockIdx.x] = part[0];
        __threadfence();  // else the ticket can be seen before the sum
        last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;  // back to 0 for the next launch
    }
    __syncthreads();  // else `last` is not there yet
    if (last) {
        __threadfence();  // else a sum may have been read before the ticket
        float sum = 0.0f;
        for (int b = t; b < gridDim.x; b += THREADS) sum += ((volatile float*)sums)[b];
        part[t] = sum;
        for (int s = THREADS / 2; s > 0; s /= 2) {
            __syncthreads();  // `last` is the same for the whole block, so all of it comes here
            if (t < s) part[t] += part[t + s];
        }
        if (t == 0) *total = part[0];
    }
}
