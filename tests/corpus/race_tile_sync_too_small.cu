// Turns 64 elements around with cooperative groups. The tile of 32 threads waits for itself, but the other end lies in
// the other tile.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void reverse(const float* x, float* out) {
    __shared__ float part[64];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    int t = block.thread_rank();
    part[t] = x[t];  // BUG: the other
#ifdef MENDED
    block.sync();  // else the other end is not there yet
#else
    tile.sync();
#endif
    out[t] = part[63 - t] + tile.thread_rank();  // BUG: race
}
