"""A product of bf16 with wgmma whose tiles come through two stages, right and with mistakes that a template chooses."""

HELPERS = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
typedef unsigned long long mbarrier;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left>
__device__ void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(left) : "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ unsigned long long tile(const void* p, int stride = 1024) {
    unsigned long long start = (at(p) & 0x3ffff) >> 4, rows = stride >> 4;
    return start | 1ull << 16 | rows << 32 | 1ull << 62;
}
template <int adds>
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, %6, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "n"(adds));
}
// From rows of `pitch` elements, 64 of each, swizzled by 128 bytes.
__device__ void fill(bf16* to, const bf16* from, int rows, int pitch) {
    for (int i = threadIdx.x % 128; i < rows * 64; i += 128) {
        int r = i / 64, c = i % 64;
        to[r * 64 + (c / 8 ^ r % 8) * 8 + c % 8] = from[r * pitch + c];
    }
}
__device__ void put(float* d, const float (&s)[4]) {
    int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    for (int e = 0; e < 4; e++) d[(warp * 16 + lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = s[e];
}
enum { right, no_fence, fence_too_early, no_proxy_fence, no_barrier, no_wait, too_lax, no_commit, read_early,
       moved_early, overwritten, wrong_stride, misaligned, strays, part_filled };
"""

# One group is in flight while the next stage is filled.
PRODUCT = (
    HELPERS
    + r"""
template <int mistake>
__global__ void product(const bf16* a, const bf16* b, float* d, int k) {
    constexpr int rows_of_b = mistake == misaligned ? 16 : 8;
    __shared__ alignas(1024) bf16 tiles_a[2][64 * 64];
    __shared__ alignas(1024) bf16 tiles_b[2][rows_of_b * 64];
    float sums[4] = {}, others[4] = {};
    if (mistake == fence_too_early) fence();
    for (int step = 0; step < k / 64; step++) {
        const int stage = mistake == overwritten ? 0 : step % 2;
        bf16* to_b = tiles_b[stage] + (mistake == misaligned ? 4 * 64 : 0);
        fill(tiles_a[stage], a + step * 64, mistake == part_filled ? 56 : 64, k);
        fill(to_b, b + step * 64, 8, k);
        if (mistake != no_proxy_fence) fence_async();
        if (mistake != no_barrier) __syncthreads();
        if (mistake != no_fence && mistake != fence_too_early) fence();
        const int stride = mistake == wrong_stride ? 2048 : 1024;
        for (int i = 0; i < 4; i++)
            multiply<1>(sums, tile(tiles_a[stage], mistake == strays ? 4352 : stride) + 2 * i, tile(to_b) + 2 * i);
        if (mistake != no_commit) commit();
        if (mistake == read_early && step == 1) d[0] = sums[0];
        if (mistake == moved_early && step == 1)
            for (int e = 0; e < 4; e++) others[e] = sums[e];
        wait<1>();
        if (mistake == fence_too_early && step == 0) {
            wait<0>();
            for (int e = 0; e < 4; e++) sums[e] += 1.0f;
        }
    }
    if (mistake == too_lax) wait<1>();
    else if (mistake != no_wait) wait<0>();
    put(d, mistake == moved_early ? others : sums);
}
"""
)

# Two warpgroups, one of which fills while the other multiplies; accumulators for two rows of tiles.
SPECIALISED = (
    HELPERS
    + r"""
template <bool wrong>
__global__ void alternate(const bf16* a, const bf16* b, float* d, int k) {
    __shared__ alignas(1024) bf16 tiles_a[2][2][64 * 64], tiles_b[2][8 * 64];
    float sums[2][4] = {};
    const int group = threadIdx.x / 128;
    for (int step = 0; step <= k / 64; step++) {
        if (group == 0 && step < k / 64) {
            for (int half = 0; half < 2; half++) fill(tiles_a[step % 2][half], a + step * 64 + half * 64 * k, 64, k);
            fill(tiles_b[step % 2], b + step * 64, 8, k);
            fence_async();
        }
        if (group == 1 && step > 0) {
            const int stage = (step - 1 + wrong) % 2;
            fence();
            for (int i = 0; i < 4; i++)
                for (int half = 0; half < 2; half++)
                    multiply<1>(sums[half], tile(tiles_a[stage][half]) + 2 * i, tile(tiles_b[stage]) + 2 * i);
            commit();
            wait<0>();
        }
        __syncthreads();
    }
    if (group == 1)
        for (int half = 0; half < 2; half++) put(d + half * 64 * 8, sums[half]);
}
"""
)

# What all 128 threads of a warpgroup must do together.
TOGETHER = (
    HELPERS
    + r"""
enum { a_warp_is_absent, a_warp_has_ended, other_descriptor, other_scale, far_away };
template <int mistake>
__global__ void together(float* d, int odd) {
    __shared__ alignas(1024) bf16 tiles_a[64 * 64], tiles_b[8 * 64];
    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) tiles_a[i] = __float2bfloat16(1.0f);
    for (int i = threadIdx.x; i < 8 * 64; i += blockDim.x) tiles_b[i] = __float2bfloat16(1.0f);
    fence_async();
    __syncthreads();
    const bool last = threadIdx.x / 32 == 3 && odd;
    if (mistake == a_warp_has_ended && last) return;
    float sums[4] = {};
    unsigned long long a = tile(tiles_a) + (mistake == other_descriptor && last ? 2 : 0);
    if (mistake == far_away && odd) a |= 0x3fffull << 32;
    fence();
    if (mistake == other_scale && last) multiply<0>(sums, a, tile(tiles_b));
    else if (mistake != a_warp_is_absent || !last) multiply<1>(sums, a, tile(tiles_b));
    commit();
    wait<0>();
    __syncthreads();
    put(d, sums);
}
"""
)
