// Two steps of a simulation in one launch. The second reads what the neighbouring block wrote in the first, and
// __syncthreads waits for the own block alone.
#include <cooperative_groups.h>

__global__ void two_steps(const float* x, float* middle, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    middle[i] = 0.5f * (x[i] + x[(i + 1) % n]);  // BUG: the other
#ifdef MENDED
    cooperative_groups::this_grid().sync();  // else a neighbour's element is not there yet
#else
    __syncthreads();
#endif
    out[i] = 0.5f * (middle[i] + middle[(i + 1) % n]);  // BUG: race
}
