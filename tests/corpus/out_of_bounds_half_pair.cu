// Two half values a thread. With an odd number of them the last pair reaches past the end.
#include <cuda_fp16.h>

__global__ void halve(const half* x, half* out, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
#ifdef MENDED
    if (i + 1 < n) {
#else
    if (i < n) {
#endif
        half2 pair = *reinterpret_cast<const half2*>(x + i);  // BUG: out_of_bounds
        *reinterpret_cast<half2*>(out + i) = __hmul2(pair, __float2half2_rn(0.5f));  // BUG: out_of_bounds
    }
#ifdef MENDED
    else if (i < n) {
        out[i] = __hmul(x[i], __float2half(0.5f));
    }
#endif
}
