// A block in cooperative groups. Its sync belongs to the whole block, and only the first tile calls it.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void first_tile_fills(float* out) {
    __shared__ float shift;
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    if (block.thread_rank() < 32) {
        if (tile.thread_rank() == 0) shift = 0.5f * blockIdx.x;
#ifdef MENDED
        tile.sync();  // else the shift is not there yet
#else
        block.sync();  // BUG: divergent_barrier
#endif
        out[blockIdx.x * 32 + tile.thread_rank()] = shift + tile.thread_rank();
    }
}
