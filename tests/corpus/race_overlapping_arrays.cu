// Two arrays in the dynamic memory: keys and values. The second begins inside the first.
__global__ void swap_ends(const int* keys, const float* values, int* keys_out, float* values_out) {
    extern __shared__ unsigned char memory[];
    int n = blockDim.x, t = threadIdx.x;
    int* k = reinterpret_cast<int*>(memory);
#ifdef MENDED
    float* v = reinterpret_cast<float*>(memory + n * sizeof(int));
#else
    float* v = reinterpret_cast<float*>(memory + n);  // n bytes on, not n ints
#endif
    k[t] = keys[t];  // BUG: race
    v[t] = values[t];  // BUG: the other
    __syncthreads();  // else the other end is not there yet
    keys_out[t] = k[n - 1 - t];
    values_out[t] = v[n - 1 - t];
}
