// Two steps in one launch. The second reads what other blocks wrote in the first, so the whole grid waits between them.
#include <cooperative_groups.h>

__global__ void reverse_twice(const float* x, float* middle, float* out, int n) {
    auto grid = cooperative_groups::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) middle[i] = x[n - 1 - i];
    grid.sync();  // else the other end is not there yet
    for (int i = grid.thread_rank(); i < n; i += grid.size()) out[i] = middle[n - 1 - i];
}
