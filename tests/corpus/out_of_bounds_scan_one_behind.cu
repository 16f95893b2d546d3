// From running sums (scan) to where each row begins: starts[i + 1] = sum up to row i. `starts` has n + 1 elements in
// most libraries; here the caller gave n, so the last one has no place.
__global__ void row_starts(const int* sums, int* starts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) starts[0] = 0;
#ifdef MENDED
    if (i < n - 1)
#else
    if (i < n)
#endif
        starts[i + 1] = sums[i];  // BUG: out_of_bounds
}
