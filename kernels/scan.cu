// scan: cumsum, out[i] = x[0] + x[1] + ... + x[i], for n elements. The steps before the last take float32.
#include "cdiv.h"
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
// announced, each in one word of 64 bits: its state above, a sum below. Both are stored at once, so no fence is needed
// between them. The words must be 0 before the launch, as must `next_tile`.

constexpr int THREADS = 1024;  // of a block
constexpr int ITEMS = 32;      // elements of a thread
constexpr int WINDOW = 1;      // words per lane in one round of looking back: 32 * WINDOW tiles
enum State : unsigned int { NOTHING, TILE_SUM, SUM_SO_FAR };

using Word = unsigned long long;

__device__ void announce(volatile Word* word, State state, float sum) {
    *word = Word(state) << 32 | __float_as_uint(sum);
}

// The sum of all tiles before `tile`, for every lane of the warp that calls it. Lane 0 looks at the nearest tile. A
// tile that has announced its sum so far ends the search. One that has announced nothing is asked again: its block is
// running already, since tiles are taken in order, so it will announce something.
__device__ float look_back(volatile const Word* words, int tile) {
    int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int nearest = tile - 1;; nearest -= 32 * WINDOW) {
        Word seen[WINDOW];
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) {
            int at = nearest - 32 * k - lane;
            seen[k] = at >= 0 ? words[at] : Word(SUM_SO_FAR) << 32;  // in front of tile 0: a sum so far of 0
        }
#pragma unroll
        for (int k = 0; k < WINDOW; ++k) {
            unsigned int nothing, so_far;
            while (true) {  // until all tiles up to the nearest sum so far have announced something
                nothing = __ballot_sync(0xffffffff, seen[k] >> 32 == NOTHING);
                so_far = __ballot_sync(0xffffffff, seen[k] >> 32 == SUM_SO_FAR);
                if ((nothing & (so_far ^ (so_far - 1))) == 0) break;  // these bits: the lowest of so_far and all below
                if (seen[k] >> 32 == NOTHING) seen[k] = words[nearest - 32 * k - lane];
            }
            if (lane < __ffs(so_far) || so_far == 0) sum += __uint_as_float((unsigned int)seen[k]);
            if (so_far == 0) continue;
            for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
            return sum;
        }
    }
}

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
        for (int j = 0; j < SIZE; ++j) pack_sum += as_float(loaded[k].at[j]);
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
#pragma unroll
        for (int j = 0; j < SIZE; ++j) set(result.at[j], sum += as_float(loaded[k].at[j]));
        if (whole)
            store_pack(out + first + k * ROW, result);
        else
#pragma unroll
            for (int j = 0; j < SIZE; ++j)
                if (first + k * ROW + j < n) out[first + k * ROW + j] = result.at[j];  // guard
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
// floats for each, smaller tile of the steps.
size_t scratch_of_cumsum(size_t n) { return 8 * (size_t(cdiv(n, TILE)) + 1); }
static_assert(ITEMS * THREADS >= TILE, "there are as many words as tiles");

void launch_cumsum(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    cumsum_kernel<float><<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(
        x, (int*)scratch, (Word*)scratch + 1, out, n);
}

void launch_cumsum(const __half* x, __half* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    cumsum_kernel<__half><<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(
        x, (int*)scratch, (Word*)scratch + 1, out, n);
}

void launch_cumsum(const __nv_bfloat16* x, __nv_bfloat16* out, size_t n, void* scratch, cudaStream_t stream) {
    cudaMemsetAsync(scratch, 0, scratch_of_cumsum(n), stream);
    cumsum_kernel<__nv_bfloat16><<<cdiv(n, ITEMS * THREADS), THREADS, 0, stream>>>(
        x, (int*)scratch, (Word*)scratch + 1, out, n);
}
#endif
