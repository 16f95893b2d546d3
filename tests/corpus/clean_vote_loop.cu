// A loop that goes on until the whole block is done. The vote is a barrier, and its result is the same for all threads.
#define THREADS 96

__global__ void bubble(int* x) {
    __shared__ int tile[THREADS];
    int t = threadIdx.x;
    tile[t] = x[blockIdx.x * THREADS + t];
    __syncthreads();  // else a neighbour's element is not there yet
    int odd = 0, quiet = 0;
    while (quiet < 2) {  // sorted when neither the even nor the odd pairs have changed
        bool swapped = false;
        int i = 2 * t + odd;
        if (i + 1 < THREADS && tile[i] > tile[i + 1]) {
            int left = tile[i];
            tile[i] = tile[i + 1];
            tile[i + 1] = left;
            swapped = true;
        }
        quiet = __syncthreads_or(swapped) ? 0 : quiet + 1;
        odd = 1 - odd;
    }
    x[blockIdx.x * THREADS + t] = tile[t];
}
