// Half a warp sums among itself: its mask names just those lanes. The other lanes, too, in a branch of their own.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void two_sums(const int* x, int* out) {
    __shared__ int kept[32];
    int lane = threadIdx.x, value = x[blockIdx.x * 32 + lane];
    if (lane < 12) {
        cg::coalesced_group group = cg::coalesced_threads();
        kept[lane] = value;
        group.sync();  // else the neighbour's value is not there yet
        value += kept[(lane + 1) % group.size()];
    } else if (lane >= 16) {
        for (int s = 8; s > 0; s /= 2) value += __shfl_down_sync(0xffff0000, value, s, 16);
    }
    out[blockIdx.x * 32 + lane] = value;
}
