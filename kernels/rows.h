// Rows of a matrix, read by 16 bytes wherever they begin, and what the threads that share a row find out together.
#include "packs.h"

// The lowest float that is a number: where a search for the largest begins. A row of -inf alone stays below it.
constexpr float LOWEST = -3.402823466e38f;

// 2^v in one instruction, and e^v in two. __expf takes five: it also serves results below 2^-126, which are 0 here.
// exp_of(v - max) takes three. As 2^fma(v, log2(e), -max * log2(e)) it would take two, but that product is rounded: if
// max is 1e9, the exponent may be off by 64.
__device__ inline float power_of_2(float v) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
}
__device__ inline float exp_of(float v) { return power_of_2(1.4426950409f * v); }

// A row of w elements: packs of 16 bytes, and the elements in front of the first and behind the last pack, its edges.
// There are fewer edges than a warp has lanes.
template <class T>
struct Row {
    static constexpr int SIZE = 16 / sizeof(T);
    size_t packs;
    int head, edges;

    __device__ Row(const T* from, size_t w) {
        head = (16 - size_t(from) % 16) % 16 / sizeof(T);
        if (head > w) head = w;
        packs = (w - head) / SIZE;
        edges = w - packs * SIZE;
    }
    __device__ size_t pack(size_t i) const { return head + i * SIZE; }  // where pack i begins
    __device__ size_t edge(int i) const { return i < head ? i : i + packs * SIZE; }
};

// A pack of equal elements.
template <class T>
__device__ inline Pack<T> pack_of(float v) {
    float values[Row<T>::SIZE];
    for (float& value : values) value = v;
    Pack<T> pack;
    set(pack, values);
    return pack;
}

// Stores a pack anywhere, one element at a time.
template <class T>
__device__ inline void store_elements(T* __restrict__ to, const Pack<T>& pack) {
#pragma unroll
    for (int j = 0; j < Row<T>::SIZE; ++j) to[j] = pack.at[j];
}

// Stores a pack at place i of another row: 16 bytes at once if that begins at a multiple of 16 bytes.
template <class T>
__device__ inline void store_pack_at(T* __restrict__ to, size_t i, const Pack<T>& pack, bool wide) {
    if (wide)
        *(Pack<T>*)(to + i) = pack;
    else
        store_elements(to + i, pack);
}

// What a thread keeps of a row in registers: up to 32 elements in packs, and at most one edge. All its loads are in
// flight together. Where there is no element it has -inf, whose exp is 0.
constexpr int KEPT = 32;

template <class T>
struct Kept {
    Pack<T> packs[KEPT / Row<T>::SIZE];
    float edge;

    // Packs lane, lane + lanes, lane + 2 * lanes and so on.
    __device__ Kept(const T* __restrict__ from, const Row<T>& row, int lane, int lanes) {
        edge = lane < row.edges ? as_float(from[row.edge(lane)]) : -INFINITY;
#pragma unroll
        for (int k = 0; k < KEPT / Row<T>::SIZE; ++k)
            if (lane + k * lanes < int(row.packs))  // guard
                packs[k] = *(const Pack<T>*)(from + row.pack(lane + k * lanes));
            else
                packs[k] = pack_of<T>(-INFINITY);
    }
};

// Asks the L2 cache for row r, if there is one, which another block will read soon: 128 bytes per request. A block that
// waits for the sums of its row loads nothing; with this, memory stays busy, even where one block fills an SM.
template <class T>
__device__ inline void prefetch_row(const T* x, size_t r, size_t h, size_t w, int lane, int lanes) {
    const char* row = (const char*)(x + r * w);
    if (r >= h) return;
    for (size_t byte = lane * 128; byte < w * sizeof(T); byte += lanes * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(row + byte));
}

// The largest value of the warp's, and their sum, in all lanes.
__device__ inline float max_of_warp(float v) {
    for (int lanes = 16; lanes > 0; lanes /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, lanes));
    return v;
}
__device__ inline float sum_of_warp(float v) {
    for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffff, v, lanes);
    return v;
}

// The sum over a block, in all threads. `sums` is shared, with 32 places.
__device__ inline float sum_of_block(float sum, float* sums) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sum = sum_of_warp(sum);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();  // otherwise a warp adds sums that other warps have not stored yet
    return sum_of_warp(lane < blockDim.x / 32 ? sums[lane] : 0.0f);
}

// What a softmax divides by: the sum of exp(v - max) over the values v of a row, or of a part of it.
struct Divisor {
    float max, sum;
};

// The divisors of a warp's lanes become that of all their values.
__device__ inline Divisor divisor_of_warp(Divisor part) {
    float max = max_of_warp(part.max);
    return {max, sum_of_warp(part.sum * exp_of(part.max - max))};
}

// The same for the warps of a block, each with one divisor in all its lanes. `parts` is shared, with 32 places.
__device__ inline Divisor divisor_of_block(Divisor part, Divisor* parts) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) parts[warp] = part;
    __syncthreads();  // otherwise a warp reads parts that other warps have not stored yet
    Divisor none = {LOWEST, 0.0f};
    return divisor_of_warp(lane < blockDim.x / 32 ? parts[lane] : none);
}

// The divisor of a row of any length, for all threads of a block. A thread has LOADS packs in flight, and rescales its
// sum once for all of them, when one of their elements is larger than all before. Loads are plain: the next pass, or the
// next kernel, may find the row in the L2 cache.
template <int LOADS, class T>
__device__ Divisor divisor_of_row(const T* __restrict__ from, const Row<T>& row, Divisor* parts) {
    constexpr int SIZE = Row<T>::SIZE;
    Divisor mine = {LOWEST, 0.0f};
    if (threadIdx.x < row.edges) {
        float v = as_float(from[row.edge(threadIdx.x)]);
        mine.max = fmaxf(LOWEST, v);
        mine.sum = exp_of(v - mine.max);
    }
    auto add_packs = [&](size_t i, bool all) {
        Pack<T> packs[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (all || i + k * blockDim.x < row.packs)  // guard
                packs[k] = *(const Pack<T>*)(from + row.pack(i + k * blockDim.x));
            else
                packs[k] = pack_of<T>(-INFINITY);
        float max = mine.max, sums[2] = {};
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
#pragma unroll
            for (int j = 0; j < SIZE; ++j) max = fmaxf(max, as_float(packs[k], j));
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
#pragma unroll
            for (int j = 0; j < SIZE; ++j) sums[j % 2] += exp_of(as_float(packs[k], j) - max);
        mine = {max, mine.sum * exp_of(mine.max - max) + (sums[0] + sums[1])};
    };
    size_t i = threadIdx.x;
    for (; i + (LOADS - 1) * blockDim.x < row.packs; i += LOADS * blockDim.x) add_packs(i, true);
    if (i < row.packs) add_packs(i, false);
    return divisor_of_block(divisor_of_warp(mine), parts);
}
