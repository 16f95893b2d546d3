// Looks up each value in a sorted table by bisection. With two candidates left, the middle is the lower one, and then
// `low = middle` changes nothing.
__global__ void places(const float* table, int size, const float* x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    int low = 0, high = size;  // table[low] <= x[i] < table[high]
#ifdef MENDED
    while (high - low > 1) {
#else
    while (low < high) {  // BUG: runaway
#endif
        int middle = (low + high) / 2;
        if (table[middle] <= x[i])
            low = middle;
        else
            high = middle;
        out[i] = low;
    }
}
