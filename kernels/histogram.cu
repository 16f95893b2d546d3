// histogram: out[b] = how many elements of x are b, for b below `bins`; other elements are not counted.
// In the steps in front of the last, x holds bytes. For bytes, bins is at most 256. out must be 0 before each launch.
#include "cdiv.h"

// Global: every element adds 1 to its bin in global memory. Lanes with the same bin wait for each other, and so do
// all warps of the GPU.
__global__ void histogram_global_kernel(const unsigned char* __restrict__ x,
                                        unsigned long long* __restrict__ out,
                                        size_t n, size_t bins) {
    for (size_t i = size_t(blockIdx.x) * 256 + threadIdx.x; i < n; i += size_t(gridDim.x) * 256)
        if (x[i] < bins) atomicAdd(&out[x[i]], 1ull);  // guard
}

// Shared: a block counts in its own shared memory first. Only warps of one block wait for each other, and nobody waits
// for the L2 cache.
__global__ void histogram_shared_kernel(const unsigned char* __restrict__ x,
                                        unsigned long long* __restrict__ out,
                                        size_t n, size_t bins) {
    __shared__ unsigned int counts[256];
    int t = threadIdx.x;
    counts[t] = 0;
    __syncthreads();  // otherwise a thread zeroes a bin that another has already counted in
    for (size_t i = size_t(blockIdx.x) * 256 + t; i < n; i += size_t(gridDim.x) * 256)
        atomicAdd(&counts[x[i]], 1);
    __syncthreads();  // otherwise a thread adds up a bin that others still count in
    if (t < bins) atomicAdd(&out[t], 1ull * counts[t]);  // guard
}

// Warps: a copy per warp. Only lanes of one warp wait for each other.
__global__ void histogram_warps_kernel(const unsigned char* __restrict__ x,
                                       unsigned long long* __restrict__ out,
                                       size_t n, size_t bins) {
    __shared__ unsigned int counts[8][256];
    int t = threadIdx.x, warp = t / 32;
    for (int k = 0; k < 8; ++k) counts[k][t] = 0;
    __syncthreads();  // otherwise a thread zeroes a bin that another has already counted in
    for (size_t i = size_t(blockIdx.x) * 256 + t; i < n; i += size_t(gridDim.x) * 256)
        atomicAdd(&counts[warp][x[i]], 1);
    __syncthreads();  // otherwise a thread adds up a bin that others still count in
    unsigned int sum = 0;
    for (int k = 0; k < 8; ++k) sum += counts[k][t];
    if (t < bins) atomicAdd(&out[t], 1ull * sum);  // guard
}

// Votes: the lanes of a warp that have the same bin find each other, and the lowest of them adds for all.
__global__ void histogram_votes_kernel(const unsigned char* __restrict__ x,
                                       unsigned long long* __restrict__ out,
                                       size_t n, size_t bins) {
    __shared__ unsigned int counts[256];
    int t = threadIdx.x;
    counts[t] = 0;
    __syncthreads();  // otherwise a thread zeroes a bin that another has already counted in
    for (size_t first = size_t(blockIdx.x) * 256; first < n; first += size_t(gridDim.x) * 256) {
        int bin = first + t < n ? x[first + t] : 256;  // guard: all lanes vote, some for no bin
        unsigned int same = __match_any_sync(0xffffffff, bin);
        bool lowest = t % 32 == __ffs(same) - 1;  // __ffs: the place of the lowest 1, from 1
        if (bin < 256 && lowest) atomicAdd(&counts[bin], __popc(same));
    }
    __syncthreads();  // otherwise a thread adds up a bin that others still count in
    if (t < bins) atomicAdd(&out[t], 1ull * counts[t]);  // guard
}

// Lanes: a copy per lane, which all warps of the block share. Bin b of lane l is word 32 b + l: whatever the bytes are,
// the lanes of a warp use 32 different banks, and no lane waits for another one.
__global__ void histogram_lanes_kernel(const unsigned char* __restrict__ x,
                                       unsigned long long* __restrict__ out,
                                       size_t n, size_t bins) {
    __shared__ unsigned int counts[256 * 32];
    int t = threadIdx.x, lane = t % 32;
    for (int k = t; k < 256 * 32; k += 256) counts[k] = 0;
    __syncthreads();  // otherwise a thread zeroes a bin that another has already counted in
    for (size_t i = size_t(blockIdx.x) * 256 + t; i < n; i += size_t(gridDim.x) * 256)
        atomicAdd(&counts[32 * x[i] + lane], 1);
    __syncthreads();  // otherwise a thread adds up a bin that others still count in
    unsigned int sum = 0;
    for (int k = 0; k < 32; ++k) sum += counts[32 * t + (k + lane) % 32];  // 32 banks at a time
    if (t < bins) atomicAdd(&out[t], 1ull * sum);                          // guard
}

// ---- the histogram: any integers, any number of bins ----------------------------------------------------------------

using Count = unsigned long long;
constexpr int THREADS = 256, BYTES = 256;  // threads per block; values that a byte may have

// 16 bytes of T, which one load of a thread moves; the caches need not keep them.
template <class T>
union Pack {
    uint4 bytes;
    T at[16 / sizeof(T)];
};

// Adds a block's counts to out. A bin's counts are `copies` words side by side; thread b starts with copy b % copies,
// so that the lanes of a warp read different banks.
__device__ void add_counts(const unsigned int* counts, Count* out, int bins, int copies) {
    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        unsigned int sum = 0;
        for (int k = 0; k < copies; ++k) sum += counts[b * copies + (k + b) % copies];
        if (sum > 0) atomicAdd(out + b, Count(sum));
    }
}

// Wide: a copy per lane, 16 bytes per load, LOADS of them in flight, and only as many blocks as the GPU runs at a time.
// With more bins than fit 32 times, fewer copies: lane l uses copy l % copies. counts has room for bins * copies. Its
// 32 bits are enough for a block's share, since no GPU has room for 2^32 elements per block.
constexpr int WIDE_THREADS = 1024, LOADS = 2, BLOCKS_PER_SM = 2;

template <class T>
__device__ void count(unsigned int* mine, T v, size_t bins, int copies) {
    if ((unsigned long long)v < bins) atomicAdd(mine + int(v) * copies, 1u);  // guard: a negative v is a very large one
}

template <class T>
__device__ void count_pack(unsigned int* mine, const Pack<T>& pack, size_t bins, int copies) {
#pragma unroll
    for (int j = 0; j < 16 / sizeof(T); ++j) count(mine, pack.at[j], bins, copies);
}

// Bytes, with a copy per lane. Bin b begins 128 * b bytes into counts: a shift and a mask make this of a word's byte,
// which is an instruction less per byte than to take the byte and multiply.
__device__ void count_pack(unsigned int* mine, const Pack<unsigned char>& pack, size_t, int) {
    unsigned int words[] = {pack.bytes.x, pack.bytes.y, pack.bytes.z, pack.bytes.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        atomicAdd((unsigned int*)((char*)mine + (words[j] << 7 & 0x7f80)), 1u);
#pragma unroll
        for (int k = 1; k < 4; ++k) atomicAdd((unsigned int*)((char*)mine + (words[j] >> (8 * k - 7) & 0x7f80)), 1u);
    }
}

template <class T>
__global__ void __launch_bounds__(WIDE_THREADS)
    histogram_kernel(const T* __restrict__ x, Count* __restrict__ out, size_t n, size_t bins, int copies) {
    constexpr int SIZE = 16 / sizeof(T);
    if (sizeof(T) == 1) copies = 32;
    extern __shared__ unsigned int counts[];
    int words = (sizeof(T) == 1 ? BYTES : int(bins)) * copies;
    for (int k = threadIdx.x; k < words; k += WIDE_THREADS) counts[k] = 0;
    __syncthreads();  // otherwise a thread sets a bin to 0 that another warp has counted in already

    unsigned int* mine = counts + threadIdx.x % copies;
    size_t head = (16 - size_t(x) % 16) % 16 / sizeof(T);
    if (head > n) head = n;
    size_t packs = (n - head) / SIZE, tail = head + packs * SIZE;
    if (blockIdx.x == 0) {  // what is in front of the first multiple of 16 bytes, and behind the last
        if (threadIdx.x < head) count(mine, x[threadIdx.x], bins, copies);
        if (threadIdx.x < n - tail) count(mine, x[tail + threadIdx.x], bins, copies);
    }
    const uint4* from = (const uint4*)(x + head);
    size_t i = size_t(blockIdx.x) * LOADS * WIDE_THREADS + threadIdx.x;
    for (; i < packs; i += size_t(gridDim.x) * LOADS * WIDE_THREADS) {
        Pack<T> loaded[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * WIDE_THREADS < packs) loaded[k].bytes = __ldcs(from + i + k * WIDE_THREADS);  // guard
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * WIDE_THREADS < packs) count_pack(mine, loaded[k], bins, copies);  // guard
    }
    __syncthreads();  // otherwise a thread adds a bin to out in which other warps still count
    add_counts(counts, out, bins, copies);
}

// Many bins, more than shared memory holds: atomics on global memory, one for all lanes of a warp with the same bin.
template <class T>
__global__ void histogram_many_kernel(const T* __restrict__ x, Count* __restrict__ out, size_t n, size_t bins) {
    int lane = threadIdx.x % 32;
    for (size_t first = size_t(blockIdx.x) * THREADS; first < n; first += size_t(gridDim.x) * THREADS) {
        size_t i = first + threadIdx.x;
        Count bin = i < n ? Count(x[i]) : bins;  // guard: all 32 lanes vote
        unsigned int same = __match_any_sync(0xffffffff, bin);
        if (bin < bins && lane == __ffs(same) - 1) atomicAdd(out + bin, Count(__popc(same)));  // guard
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// As many blocks as the GPU runs at a time, `per_sm` on each SM, or fewer if they are enough for n pieces.
static unsigned int blocks_for(size_t n, unsigned int per_sm) {
    int device = 0, sms = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    size_t most = size_t(per_sm) * sms;
    return (unsigned int)(n < most ? n + (n == 0) : most);
}

void set_to_zero(void* out, size_t bytes, cudaStream_t stream) { cudaMemsetAsync(out, 0, bytes, stream); }

void launch_histogram_global(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    histogram_global_kernel<<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
}

void launch_histogram_shared(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    histogram_shared_kernel<<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
}

void launch_histogram_warps(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    histogram_warps_kernel<<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
}

void launch_histogram_votes(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    histogram_votes_kernel<<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
}

void launch_histogram_lanes(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    histogram_lanes_kernel<<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
}

// How many words a block's copies take at most: 48 KB, which every GPU gives a block without being asked.
constexpr size_t WORDS = 12288;

// A copy per lane, or fewer for more bins; 0 if there is no room for one.
static int copies_of(size_t bins) {
    int copies = 32;
    while (bins * copies > WORDS) copies /= 2;
    return copies;
}

static unsigned int wide_blocks(size_t bytes) {
    return blocks_for(cdiv(bytes, 16 * LOADS * WIDE_THREADS), BLOCKS_PER_SM);
}

void launch_histogram(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    size_t shared = BYTES * 32 * sizeof(unsigned int);
    histogram_kernel<unsigned char><<<wide_blocks(n), WIDE_THREADS, shared, stream>>>(x, out, n, bins, 32);
}

void launch_histogram(const int* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    int copies = copies_of(bins);
    size_t shared = bins * copies * sizeof(unsigned int);
    if (copies == 0)
        histogram_many_kernel<int><<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
    else
        histogram_kernel<int><<<wide_blocks(4 * n), WIDE_THREADS, shared, stream>>>(x, out, n, bins, copies);
}

void launch_histogram(const long long* x, Count* out, size_t n, size_t bins, cudaStream_t stream) {
    int copies = copies_of(bins);
    size_t shared = bins * copies * sizeof(unsigned int);
    if (copies == 0)
        histogram_many_kernel<long long><<<blocks_for(cdiv(n, THREADS), 8), THREADS, 0, stream>>>(x, out, n, bins);
    else
        histogram_kernel<long long><<<wide_blocks(8 * n), WIDE_THREADS, shared, stream>>>(x, out, n, bins, copies);
}
#endif
