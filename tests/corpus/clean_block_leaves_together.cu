// Whole blocks leave before a barrier, and a barrier is in a branch: the condition is the same for a whole block.
#define THREADS 64

__global__ void reverse_some(const int* lengths, const int* x, int* out, int rows) {
    __shared__ int tile[THREADS];
    int row = blockIdx.x, t = threadIdx.x;
    if (row >= rows) return;  // all of the block
    int length = lengths[row];
    if (length > 0) {
        tile[t] = x[row * THREADS + t];
        __syncthreads();  // else the other end is not there yet
        out[row * THREADS + t] = t < length ? tile[length - 1 - t] : tile[t];
    } else {
        out[row * THREADS + t] = 0;
    }
}
