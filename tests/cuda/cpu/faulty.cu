// What goes wrong in the launches of faulty.py.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;
typedef long long whole;
__device__ __noinline__ void put(float* p, whole i) { p[i] = 1; }
__device__ __noinline__ float get(const float* p, whole i) { return p[i]; }
__device__ void inlined(float* p, whole i) { p[i] = 1; }
__device__ whole deep(whole n, whole at) {
    volatile whole room[64];
    room[at & 63] = n;
    return n ? deep(n - 1, at + 1) + room[n & 63] : room[0];
}
template <int floats> __device__ __noinline__ float large(whole at) {
    volatile float room[floats];
    room[at % floats] = 1;
    return room[(at + 1) % floats];
}
__device__ float table[64];
struct Pair { float first, second; };
struct Params { float values[4]; };
__device__ __noinline__ float of(const Params& p, whole i) { return p.values[i]; }

// What one thread of a block does wrong; the others wait for it at barriers.
__global__ void wrong(float* x, int n, int kind, whole a, whole b) {
    __shared__ float tile[32];
    extern __shared__ float more[];
    float local[8] = {0}, rows[4][4] = {{0}};
    tile[threadIdx.x % 32] = threadIdx.x;
    __syncthreads();
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == a % blockDim.x) {
        switch (kind) {
        case 0: x[b] = 1; break;
        case 1: x[0] = x[b]; break;
        case 2: tile[b] = 1; break;
        case 3: x[0] = tile[b]; break;
        case 4: more[b] = 1; break;
        case 5: put(local, b); break;
        case 6: x[0] = get(local, b); break;
        case 7: inlined(local, b); break;
        case 8: local[b] = 1; break;
        case 9: rows[b % 4][b] = 1; break;
        case 10: for (whole i = 0; i < b; i++) put(local, i); break;
        case 11: for (whole i = 0; i > -b; i--) put(local, i); break;
        case 12: *reinterpret_cast<float*>(b) = 1; break;
        case 13: x[0] = *reinterpret_cast<volatile float*>(b); break;
        case 14: reinterpret_cast<float4*>(reinterpret_cast<char*>(x) + 1)[b] = {}; break;
        case 15: x[0] = deep(b, a); break;
        case 16: x[0] = large<100000>(b); break;
        case 17: x[0] = large<1000000>(b); break;
        case 18: x[0] = 7 / int(b - b); break;
        case 19: x[0] = 7 % int(b - b); break;
        case 20: __trap(); break;
        case 21: assert(b < b); break;
        case 22: reinterpret_cast<void (*)(float*)>(b)(x); break;
        case 23: (*reinterpret_cast<void (**)(float*)>(x))(x); break;
        case 24: table[b] = 1; break;
        case 25: x[0] = table[b]; break;
        case 26: memset(x, 0, size_t(b)); break;
        case 27: memcpy(local, x, size_t(b)); break;
        case 28: memset(local, 1, size_t(b)); break;
        case 29: atomicAdd(x + b, 1.0f); break;
        case 30: atomicAdd(reinterpret_cast<int*>(tile) + b, 1); break;
        case 31: printf("%s", reinterpret_cast<char*>(b)); break;
        case 32: { float4 v = {}; reinterpret_cast<float*>(&v)[b] = 1; x[0] = v.x; break; }
        case 33: { Params p = {}; x[0] = of(p, b); break; }
        case 34: reinterpret_cast<double*>(x + 1)[b] = 1; break;
        case 35: return;                                       // before a barrier
        case 36: __syncthreads(); break;                       // the others are elsewhere
        case 37: __shfl_sync(0xffffffffu, 1, int(b)); break;
        case 38: __syncwarp(unsigned(b)); break;
        case 39: { float* p = static_cast<float*>(malloc(64)); p[b] = 1; free(p); break; }
        case 40: { float* p = new float[16]; delete[] p; p[b & 15] = 1; break; }
        case 41: free(reinterpret_cast<void*>(b)); break;
        case 42: free(x); break;
        case 43: { float* p = static_cast<float*>(malloc(64)); free(p); free(p); break; }
        case 44: { void (*none)() = nullptr; none(); break; }
        case 45: __builtin_unreachable(); break;
        case 46: x[0] = x[n]; x[-1] = 1; break;
        }
    }
    __syncthreads();
    if (threadIdx.x < unsigned(n)) x[threadIdx.x] += tile[threadIdx.x % 32] + local[a & 7] + rows[a & 3][b & 3];
}

__global__ void right(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2 * i;
}
__global__ void cooperate(float* x, int n) {
    __syncthreads();
    if (threadIdx.x) __syncthreads();
    x[n] = 1;
}

// What the lanes of a warp do together, some of them with another mask, elsewhere, or not at all.
__global__ void lanes(int* x, int n, int kind, unsigned mask, int lane, int width) {
    const unsigned me = threadIdx.x % 32;
    int value = threadIdx.x, all;
    switch (kind) {
    case 0: value = __shfl_sync(mask, value, lane, width); break;
    case 1: value = __shfl_up_sync(mask, value, lane, width); break;
    case 2: value = __shfl_down_sync(mask, double(value), lane, width); break;
    case 3: value = __shfl_xor_sync(mask, (long long)value, lane, width); break;
    case 4: if (mask >> me & 1) value = __shfl_sync(0xffffffff, value, lane, width); break;
    case 5: if (mask >> me & 1) value = __shfl_sync(mask, value, lane, width); break;
    case 6: if (mask >> me & 1) return; value = __shfl_down_sync(0xffffffff, value, lane); break;
    case 7: value = __ballot_sync(mask, value & 1); break;
    case 8: value = __any_sync(mask, 0) + __all_sync(mask, 1); break;
    case 9: value = __match_any_sync(mask, value & 3); break;
    case 10: value = __match_all_sync(mask, value, &all); break;
    case 11: value = __reduce_add_sync(mask, value); break;
    case 12: __syncwarp(mask); break;
    case 13: __syncwarp(mask >> me & 1 ? mask : ~mask); break;
    case 14: __syncwarp(me & 1 ? mask : 0xffffffff); break;
    case 15: for (unsigned i = 0; i < me % 5; i++) value += __shfl_xor_sync(0xffffffff, value, lane); break;
    case 16: if (me & 1) value = __shfl_sync(mask, value, lane); else __syncwarp(mask); break;
    case 17: if (me & 1) __syncthreads(); else value = __shfl_sync(0xffffffff, value, lane); break;
    case 18: if (mask >> me & 1) value = __shfl_sync(__activemask(), value, lane); else x[unsigned(lane)] = 1; break;
    case 19: if (me == unsigned(lane) % 32) x[mask] = 1; value = __ballot_sync(0xffffffff, 1); break;
    case 20: value = __shfl_sync(0xffffffff, value, lane); x[-1 - value] = 1; break;
    case 21: if (me == unsigned(lane) % 32) __trap(); __syncwarp(); break;
    case 22: value = __syncthreads_count(me & 1 ? 0 : 1); if (mask >> me & 1) value += __syncthreads_or(1); break;
    case 23: { long long sum = 0; for (int i = 0; i < (lane & 1023); i++) sum += __shfl_sync(mask | 1u << me, value, i); value = sum; }
    }
    if (threadIdx.x < unsigned(n)) x[threadIdx.x] = value;
}

// Copies to shared memory that nobody waits for, or that go wrong.
__global__ void copies(float* x, int n, int kind, long long at, int times) {
    __shared__ __align__(16) float tile[256];
    extern __shared__ float more[];
    float* to = tile + threadIdx.x % 64 * 4;
    const float* from = x + threadIdx.x % 2 * 4;
    switch (kind) {
    case 0: __pipeline_memcpy_async(to, from, 4); __pipeline_commit(); break;
    case 1: for (int i = 0; i < times; i++) __pipeline_memcpy_async(to, from, 4); break;
    case 2: for (int i = 0; i < times; i++) { __pipeline_memcpy_async(to, from, 8); __pipeline_commit(); } break;
    case 3: __pipeline_memcpy_async(to, from + at, 4); break;
    case 4: __pipeline_memcpy_async(to + at, from, 4); break;
    case 5: __pipeline_memcpy_async(more + at, from, 4); break;
    case 6: __pipeline_memcpy_async((char*)to + (at & 7), from, 8); break;
    case 7: __pipeline_memcpy_async(to, (const char*)from + (at & 15), 16); break;
    case 8: __pipeline_memcpy_async(to, from, size_t(at)); break;
    case 9: __pipeline_memcpy_async(to, from, 16, size_t(at)); break;
    case 10: __pipeline_memcpy_async((void*)at, from, 4); break;
    case 11: __pipeline_memcpy_async(to, (const void*)at, 4); break;
    case 12: { float* p = (float*)malloc(64); __pipeline_memcpy_async(to, p, 4); free(p); break; }
    case 13: { float local[4] = {1}; __pipeline_memcpy_async(to, local + at, 4); break; }
    case 14: { float local[4] = {1}; __pipeline_memcpy_async(local + at, from, 4); __pipeline_commit(); break; }
    case 15: __pipeline_memcpy_async(to, from, 4); __pipeline_wait_prior(size_t(at)); break;
    case 16: if (threadIdx.x & 1) { __pipeline_memcpy_async(to, from, 4); return; } break;
    case 17: cg::memcpy_async(cg::this_thread_block(), tile, x, size_t(at)); break;
    case 18: cg::memcpy_async(cg::this_thread_block(), more, x, 1024); cg::wait(cg::this_thread_block()); break;
    }
    if (times & 1) { __pipeline_commit(); __pipeline_wait_prior(times & 2); __syncthreads(); }
    if (threadIdx.x < unsigned(n)) x[threadIdx.x] = to[0];
}

// Groups whose members do not all come, and grids that are none.
__global__ void groups(int* x, int n, int kind, int a, unsigned mask) {
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    const bool chosen = mask >> threadIdx.x % 32 & 1;
    int value = threadIdx.x;
    switch (kind) {
    case 0: if (blockIdx.x) grid.sync(); break;
    case 1: if (chosen) grid.sync(); break;
    case 2: if (chosen) return; grid.sync(); break;
    case 3: for (int i = 0; i <= int(blockIdx.x); i++) grid.sync(); break;
    case 4: if (chosen) grid.sync(); else block.sync(); break;
    case 5: grid.sync(); x[(long long)a * 1000] = 1; grid.sync(); break;
    case 6: if (chosen) block.sync(); break;
    case 7: if (chosen) tile.sync(); break;
    case 8: if (chosen) value = tile.shfl(value, a); break;
    case 9: value = cg::tiled_partition(cg::coalesced_threads(), unsigned(a)).shfl(value, a); break;
    case 10: if (chosen) value = cg::reduce(tile, value, cg::plus<int>()); break;
    case 11: if (chosen) value = cg::exclusive_scan(tile, value, cg::plus<int>()); break;
    case 12: if (chosen) { auto some = cg::coalesced_threads(); value = some.shfl(value, a); some.sync(); block.sync(); } break;
    case 13: value = cg::labeled_partition(tile, value % 3).shfl_down(value, a); if (chosen) tile.sync(); break;
    case 14: if (chosen) value = cg::binary_partition(tile, value & 1).ballot(1); break;
    case 15: if (chosen) block.barrier_arrive(); block.sync(); break;
    case 16: grid.sync(); if (chosen) __trap(); grid.sync(); break;
    case 17: cg::invoke_one(tile, [&] { x[a * 1000ll] = 1; }); tile.sync(); break;
    }
    if (threadIdx.x < unsigned(n)) x[threadIdx.x] = value;
}

// Atomics at addresses that are not theirs.
__global__ void atomics(float* x, int n, int kind, long long at) {
    __shared__ unsigned long long tile[32];
    tile[threadIdx.x % 32] = 0;
    __syncthreads();
    char* bytes = reinterpret_cast<char*>(x);
    switch (kind) {
    case 0: atomicAdd(x + at, 1.0f); break;
    case 1: atomicAdd(reinterpret_cast<double*>(bytes + at), 1.0); break;
    case 2: atomicCAS(reinterpret_cast<int*>(bytes + at), 0, 1); break;
    case 3: atomicExch(reinterpret_cast<unsigned long long*>(x) + at, 1ull); break;
    case 4: atomicMin(reinterpret_cast<int*>(at), 1); break;
    case 5: atomicMax(reinterpret_cast<long long*>(tile) + at, 1ll); break;
    case 6: atomicInc(reinterpret_cast<unsigned*>(x) + at, 5u); break;
    case 7: atomicOr(reinterpret_cast<unsigned*>(reinterpret_cast<char*>(tile) + at), 5u); break;
    case 8: while (atomicCAS(reinterpret_cast<int*>(tile), 0, 1)) {} x[at] = 1; atomicExch(reinterpret_cast<int*>(tile), 0); break;
    case 9: { int local[4] = {0}; atomicAdd(local + at, 1); break; }
    case 10: atomicSub(static_cast<int*>(nullptr) + at % 4, 1); break;
    case 11: atomicCAS(reinterpret_cast<unsigned short*>(bytes + at), 0, 1); break;
    case 12: atomicAdd_block(reinterpret_cast<int*>(x) + at, 1); break;
    }
}
