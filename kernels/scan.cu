// scan: cumsum, out[i] = x[0] + x[1] + ... + x[i], for n elements. The steps before the last take float32.
#include "bulk.h"
#include "cdiv.h"
#include "lookback.h"
#include "packs.h"

constexpr int WARPS = 32, TILE = 16 * 32 * WARPS;  // of the steps: warps per block, and elements per block

// Each lane's own value and those of all lanes below: from one lane below, then 2, 4, 8 and 16.
__device__ float scan_of_warp(float sum) {
    int lane = threadIdx.x % 32;
    for (int below = 1; below < 32; below *= 2) {
        float other = __shfl_up_sync(0xffffffff, sum, below);
        if (lane >= below) sum += other;
    }
    return sum;
}

// Warp: one warp walks through x. It scans 32 elements; its last lane has the sum that the next
// 32 begin with.
__global__ void cumsum_warp_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    int lane = threadIdx.x;
    float before = 0.0f;
    for (size_t first = 0; first < n; first += 32) {
        size_t i = first + lane;
        float sum = before + scan_of_warp(i < n ? x[i] : 0.0f);  // guard
        if (i < n) out[i] = sum;                                 // guard
        before = __shfl_sync(0xffffffff, sum, 31);
    }
}

// A block scans the n elements of its piece, 32 * WARPS at a time. `before` is the sum of all in front of them.
__device__ void scan_piece(const float* __restrict__ x, float* __restrict__ out, size_t n, float before) {
    __shared__ float sums[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (size_t first = 0; first < n; first += 32 * WARPS) {
        size_t i = first + threadIdx.x;
        float sum = scan_of_warp(i < n ? x[i] : 0.0f);  // guard
        if (lane == 31) sums[warp] = sum;
        __syncthreads();  // otherwise warp 0 scans sums that other warps have not stored yet
        if (warp == 0) sums[lane] = scan_of_warp(sums[lane]);
        __syncthreads();  // otherwise a warp adds sums that warp 0 has not scanned yet
        if (i < n) out[i] = before + (warp > 0 ? sums[warp - 1] + sum : sum);  // guard
        before += sums[WARPS - 1];
        __syncthreads();  // otherwise a warp that is ahead stores its next sum while others still read these
    }
}

// Block: one block of 32 warps walks through x. A warp scans the sums of the 32 warps.
__global__ void __launch_bounds__(32 * WARPS)
    cumsum_block_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    scan_piece(x, out, n, 0.0f);
}

// Three launches for a whole grid. First, each block adds a tile of x; then one block scans these sums (with
// cumsum_block_kernel); last, each block scans its tile, beginning with the sum of all tiles before. x is read twice.
__global__ void __launch_bounds__(32 * WARPS)
    tile_sums_kernel(const float* __restrict__ x, float* __restrict__ sums, size_t n) {
    __shared__ float sums_of_warps[WARPS];
    size_t first = size_t(blockIdx.x) * TILE;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < TILE; k += 32 * WARPS)
        if (first + k < n) sum += x[first + k];  // guard
    sum = scan_of_warp(sum);
    if (lane == 31) sums_of_warps[warp] = sum;
    __syncthreads();  // otherwise warp 0 adds sums that other warps have not stored yet
    if (warp > 0) return;
    sum = scan_of_warp(sums_of_warps[lane]);
    if (lane == 31) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(32 * WARPS)
    scan_tiles_kernel(const float* __restrict__ x, const float* __restrict__ sums, float* __restrict__ out,
                      size_t n) {
    size_t first = size_t(blockIdx.x) * TILE, left = n - first;
    scan_piece(x + first, out + first, left < TILE ? left : TILE, blockIdx.x > 0 ? sums[blockIdx.x - 1] : 0.0f);
}

// ---- one launch: decoupled look-back --------------------------------------------------------------------------------
// (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA NVR-2016-002)
//
// A block keeps its tile in registers, and finds the sum of all tiles before by looking back at what their blocks have
// announced. `words` and `next_tile` must be 0 before the launch.

constexpr int THREADS = 1024;  // of a block
constexpr int ITEMS = 32;      // elements of a thread

// A warp has PACKS rows of 32 packs of the tile, one after the other. Lanes read and write neighbouring packs.
template <class T>
__global__ void __launch_bounds__(THREADS)
    cumsum_kernel(const T* __restrict__ x, int* next_tile, Word* words, T* __restrict__ out, size_t n) {
    constexpr int SIZE = 16 / sizeof(T), PACKS = ITEMS / SIZE, ROW = 32 * SIZE;
    __shared__ int taken;
    __shared__ float sums[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Blocks may begin in any order. A tile's number is taken by a block that runs, so all tiles before it are taken by
    // blocks that run or have ended: waiting for them is safe.
    if (threadIdx.x == 0) taken = atomicAdd(next_tile, 1);
    __syncthreads();  // otherwise a thread reads `taken` before it is known
    int tile = taken;
    size_t first = (size_t(tile) * (THREADS / 32) + warp) * PACKS * ROW + lane * SIZE;
    bool whole = first - lane * SIZE + PACKS * ROW <= n;  // the warp's part of the tile

    Pack<T> loaded[PACKS];
    if (whole && size_t(x) % 16 == 0) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) loaded[k] = load_pack(x + first + k * ROW);
    } else {
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
#pragma unroll
            for (int j = 0; j < SIZE; ++j) {
                size_t i = first + k * ROW + j;
                set(loaded[k].at[j], 0.0f);
                if (i < n) loaded[k].at[j] = x[i];  // guard
            }
    }

    // Add up each pack, scan the sums of a row's packs over the lanes, and add up the rows.
    float before[PACKS], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        float pack_sum = 0.0f;
#pragma unroll
        for (int j = 0; j < SIZE; ++j) pack_sum += as_float(loaded[k], j);
        float sum_so_far = scan_of_warp(pack_sum), below = __shfl_up_sync(0xffffffff, sum_so_far, 1);
        before[k] = lane > 0 ? sum + below : sum;
        sum += __shfl_sync(0xffffffff, sum_so_far, 31);
    }
    if (lane == 0) sums[warp] = sum;
    __syncthreads();  // otherwise warp 0 scans sums that other warps have not stored yet
    if (warp == 0) {
        float own = lane < THREADS / 32 ? sums[lane] : 0.0f, sum_so_far = scan_of_warp(own);
        float tile_sum = __shfl_sync(0xffffffff, sum_so_far, 31), before_tile = 0.0f;
        if (tile > 0) {
            if (lane == 0) announce(words + tile, TILE_SUM, tile_sum);
            before_tile = look_back(words, tile);
        }
        if (lane == 0) announce(words + tile, SUM_SO_FAR, before_tile + tile_sum);
        float below = __shfl_up_sync(0xffffffff, sum_so_far, 1);
        if (lane < THREADS / 32) sums[lane] = lane > 0 ? before_tile + below : before_tile;
    }
    __syncthreads();  // otherwise a warp adds a sum that warp 0 has not found yet

    float before_warp = sums[warp];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        sum = before_warp + before[k];
        Pack<T> result;
        float sums_so_far[SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) sums_so_far[j] = sum += as_float(loaded[k], j);
        set(result, sums_so_far);
        if (whole)
            store_pack(out + first + k * ROW, result);
        else
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                if (first + k * ROW + j < n) out[first + k * ROW + j] = result.at[j];  // guard
    }
}

// ---- one launch, on Hopper: tiles ahead -------------------------------------------------------------------------------
// Blocks stay, and take tile after tile. A block adds up a tile and announces its sum as soon as the tile has arrived,
// but scans it AHEAD tiles later. Then all blocks have announced the tiles in between, and hardly anyone waits. A block
// knows the sum so far of its last tile, and adds what others have taken since.
// The tiles come by bulk copies: if threads copied them, each look at another tile's word would queue behind these.
constexpr int BYTES = 32 * 1024;  // of a tile
constexpr int STAGES = 6;         // tiles in shared memory,
constexpr int AHEAD = 3;          // and how many of them have been announced, but not yet scanned
constexpr int SLOTS = 8;          // for what is known of a block's last tile and the next STAGES

struct Tile {
    int number;         // of all tiles
    float sum, before;  // of this tile, and of all before it
    float sums[WARPS];  // of each warp's part, and then of the parts before it
};

// A warp has PACKS rows of 32 packs of each tile, one after the other.
template <class T>
__global__ void __launch_bounds__(THREADS)
    cumsum_ahead_kernel(const T* __restrict__ x, int* next_tile, Word* words, T* __restrict__ out, size_t n) {
    constexpr int SIZE = 16 / sizeof(T), TILE = BYTES / sizeof(T), PACKS = TILE / SIZE / THREADS, ROW = 32 * SIZE;
    extern __shared__ __align__(128) uint4 dynamic[];  // as copies are slower to other places
    __shared__ Barrier arrived[STAGES];
    __shared__ Tile slots[SLOTS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (n + TILE - 1) / TILE;
    auto tile = [&](int j) -> Tile& { return slots[j % SLOTS]; };  // the block's tile j: 0, 1, 2, ...
    auto stage = [&](int j) { return (Pack<T>*)dynamic + j % STAGES * (BYTES / 16); };
    auto mine = [&](int j) { return stage(j) + warp * PACKS * 32 + lane; };  // this thread's first pack
    auto first = [&](int j) { return size_t(tile(j).number) * TILE + warp * PACKS * ROW + lane * SIZE; };
    auto copied = [&](int j) { return size_t(tile(j).number + 1) * TILE <= n && size_t(x) % 16 == 0; };
    auto begin_copy = [&](int j) {  // one thread
        if (copied(j)) copy_bulk(stage(j), x + size_t(tile(j).number) * TILE, BYTES, arrived + j % STAGES);
    };

    // A tile's sum, in two parts. All warps add up their parts of tile j, and after a barrier warp 0 announces the sum.
    auto add_up = [&](int j) {
        if (tile(j).number >= tiles) return;
        float sum = 0.0f;
        if (copied(j))
            wait(arrived + j % STAGES, j / STAGES % 2);
        else
            for (int k = 0; k < PACKS; ++k)
                for (int i = 0; i < SIZE; ++i) {
                    size_t at = first(j) + k * ROW + i;
                    set(mine(j)[k * 32].at[i], at < n ? as_float(x[at]) : 0.0f);  // guard
                }
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
#pragma unroll
            for (int i = 0; i < SIZE; ++i) sum += as_float(mine(j)[k * 32], i);
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        if (lane == 0) tile(j).sums[warp] = sum;
    };
    auto announce_sum = [&](int j) {
        if (tile(j).number >= tiles) return;
        float sum = scan_of_warp(tile(j).sums[lane]), below = __shfl_up_sync(0xffffffff, sum, 1);
        tile(j).sums[lane] = lane > 0 ? below : 0.0f;
        if (lane == WARPS - 1) announce(words + tile(j).number, TILE_SUM, tile(j).sum = sum);
        __syncwarp();  // otherwise another lane reads the sum before it is stored
    };
    int last = -1;  // of warp 0: the last tile it has looked at, and the sum up to that
    float so_far = 0.0f;
    auto look_back_from = [&](int j) {
        if (tile(j).number >= tiles) return;
        so_far += sum_between(words, last + 1, tile(j).number);
        if (lane == 0) tile(j).before = so_far;
        so_far += tile(j).sum;
        last = tile(j).number;
    };

    if (threadIdx.x == 0) {
        init(arrived, STAGES);
        for (int j = 0; j < STAGES; ++j) {
            tile(j).number = atomicAdd(next_tile, 1);
            begin_copy(j);
        }
    }
    __syncthreads();  // otherwise a thread reads a tile's number before it is known
    for (int j = 0; j < AHEAD; ++j) {
        add_up(j);
        __syncthreads();  // otherwise warp 0 adds sums that other warps have not stored yet
        if (warp == 0) announce_sum(j);
    }
    if (warp == 0) look_back_from(0);
    for (int j = 0; tile(j).number < tiles; ++j) {
        add_up(j + AHEAD);
        __syncthreads();  // all have stored their sums of tile j + AHEAD, and have done with tile j - 1
        int next = 0;
        if (threadIdx.x == 32) {
            if (j > 0) begin_copy(j - 1 + STAGES);
            next = atomicAdd(next_tile, 1);
        }
        if (warp == 0) {
            announce_sum(j + AHEAD);
            look_back_from(j + 1);
        }
        float before = tile(j).before + tile(j).sums[warp];
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            Pack<T> pack = mine(j)[k * 32];
            float sums[SIZE], sum = 0.0f;
#pragma unroll
            for (int i = 0; i < SIZE; ++i) sums[i] = sum += as_float(pack, i);
            float sum_so_far = scan_of_warp(sum), below = __shfl_up_sync(0xffffffff, sum_so_far, 1);
#pragma unroll
            for (int i = 0; i < SIZE; ++i) sums[i] += lane > 0 ? before + below : before;
            before += __shfl_sync(0xffffffff, sum_so_far, 31);
            set(pack, sums);
            size_t to = first(j) + k * ROW;
            if (size_t(tile(j).number + 1) * TILE <= n)
                *(Pack<T>*)(out + to) = pack;
            else
#pragma unroll
                for (int i = 0; i < SIZE; ++i)
                    if (to + i < n) out[to + i] = pack.at[i];  // guard
        }
        if (threadIdx.x == 32) tile(j + STAGES).number = next;
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_cumsum_warp(const float* x, float* out, size_t n, void*, cudaStream_t stream) {
    cumsum_warp_kernel<<<1, 32, 0, stream>>>(x, out, n);
}

void launch_cumsum_block(const float* x, float* out, size_t n, void*, cudaStream_t stream) {
    cumsum_block_kernel<<<1, 32 * WARPS, 0, stream>>>(x, out, n);
}

// `scratch` has room for two floats per tile of the steps.
void launch_cumsum_three(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int tiles = cdiv(n, TILE);
    float* sums = (float*)scratch;
    tile_sums_kernel<<<tiles, 32 * WARPS, 0, stream>>>(x, sums, n);
    cumsum_block_kernel<<<1, 32 * WARPS, 0, stream>>>(sums, sums + tiles, tiles);
    scan_tiles_kernel<<<tiles, 32 * WARPS, 0, stream>>>(x, sums + tiles, out, n);
}

// Bytes of scratch memory for n elements: the number of the next tile, and from byte 8 on, the words of the tiles; or two
// floats for each tile of the steps.
size_t scratch_of_cumsum(size_t n) { return 8 * (size_t(cdiv(n, BYTES / 4)) + 1); }
static_assert(ITEMS * THREADS >= BYTES / 4 && TILE >= BYTES / 4, "there are as many words as tiles");

void launch_cumsum_look_back(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    cumsum_kernel<float>
        <<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(x, (int*)scratch, (Word*)scratch + 1, out, n);
}

// The blocks that take `tiles` tiles: one for each SM. 0 where there are no bulk copies, or no room for the stages.
template <class Kernel>
static unsigned int blocks_ahead(Kernel kernel, unsigned int tiles) {
    int device = 0, major = 0, sms = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (major < 9 || cudaFuncSetAttribute(kernel, most, STAGES * BYTES) != cudaSuccess) sms = 0;
    cudaGetLastError();  // a refusal is an answer here, and no error
    return tiles < sms ? tiles : sms;
}

void launch_cumsum(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    int* next_tile = (int*)scratch;
    Word* words = (Word*)scratch + 1;
    if (unsigned int blocks = blocks_ahead(cumsum_ahead_kernel<float>, cdiv(n, BYTES / 4)))
        cumsum_ahead_kernel<float><<<blocks, THREADS, STAGES * BYTES, stream>>>(x, next_tile, words, out, n);
    else
        cumsum_kernel<float><<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(x, next_tile, words, out, n);
}

void launch_cumsum(const __half* x, __half* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    int* next_tile = (int*)scratch;
    Word* words = (Word*)scratch + 1;
    if (unsigned int blocks = blocks_ahead(cumsum_ahead_kernel<__half>, cdiv(n, BYTES / 2)))
        cumsum_ahead_kernel<__half><<<blocks, THREADS, STAGES * BYTES, stream>>>(x, next_tile, words, out, n);
    else
        cumsum_kernel<__half><<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(x, next_tile, words, out, n);
}

void launch_cumsum(const __nv_bfloat16* x, __nv_bfloat16* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    int* next_tile = (int*)scratch;
    Word* words = (Word*)scratch + 1;
    if (unsigned int blocks = blocks_ahead(cumsum_ahead_kernel<__nv_bfloat16>, cdiv(n, BYTES / 2)))
        cumsum_ahead_kernel<__nv_bfloat16><<<blocks, THREADS, STAGES * BYTES, stream>>>(x, next_tile, words, out, n);
    else
        cumsum_kernel<__nv_bfloat16><<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(x, next_tile, words, out, n);
}
#endif
