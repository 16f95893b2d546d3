// Two arrays in the dynamic memory: one byte for each of 33 threads, then one double each. Byte 33 is no place for a
// double.
__global__ void weigh(const unsigned char* labels, const double* weights, double* out) {
    extern __shared__ unsigned char memory[];
    int n = blockDim.x, t = threadIdx.x;
#ifdef MENDED
    double* kept = reinterpret_cast<double*>(memory + (n + 7) / 8 * 8);
#else
    double* kept = reinterpret_cast<double*>(memory + n);
#endif
    memory[t] = labels[t];
    kept[t] = weights[t];  // BUG: misaligned
    __syncthreads();  // else the neighbour's values are not there yet
    out[t] = memory[(t + 1) % n] * kept[(t + 1) % n];  // BUG: misaligned
}
