// Two steps with a grid-wide barrier between them. The threads past the end leave before it.
#include <cooperative_groups.h>

__global__ void two_steps(const float* x, float* middle, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    if (i < n)
#else
    if (i >= n) return;
#endif
        middle[i] = 2.0f * x[i];
    cooperative_groups::this_grid().sync();  // BUG: divergent_barrier
    if (i < n) out[i] = middle[n - 1 - i];
}
