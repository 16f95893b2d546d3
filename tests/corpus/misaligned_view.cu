// Four elements at once from a view that begins at the second element of a tensor: 4 bytes behind a multiple of 16.
__global__ void sum4(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {  // guard
#ifdef MENDED
        out[i] = x[4 * i] + x[4 * i + 1] + x[4 * i + 2] + x[4 * i + 3];
#else
        float4 v = reinterpret_cast<const float4*>(x)[i];  // BUG: misaligned
        out[i] = v.x + v.y + v.z + v.w;
#endif
    }
}
