// Each thread handles n / threads elements in a row. What is left by that division belongs to nobody.
template <typename T>
__global__ void clamp_positive(const T* x, T* out, int n) {
    int threads = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    int each = (n + threads - 1) / threads;
#else
    int each = n / threads;
#endif
    for (int k = i * each; k < (i + 1) * each && k < n; ++k) out[k] = x[k] > T(0) ? x[k] : T(0);
}
