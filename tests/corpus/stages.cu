// Several tiles at a time: while one is multiplied, the next ones are copied. Products of half matrices by mma.sync, and
// sums, whose pipelines wait for the wrong stage, or overwrite one that is still read.
#include <cuda_fp16.h>

#define ADDRESS(p) static_cast<unsigned int>(__cvta_generic_to_shared(p))
#define CP_ASYNC_16(to, from) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(ADDRESS(to)), "l"(from))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(r, p)                                                                     \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"         \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                             \
                 : "r"(ADDRESS(p)))
#define LDMATRIX_X2_TRANS(r, p)                                                       \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"   \
                 : "=r"(r[0]), "=r"(r[1])                                             \
                 : "r"(ADDRESS(p)))
#define MMA_16816(d, a, b)                                                                              \
    asm volatile(                                                                                       \
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "        \
        "{%8, %9}, {%0, %1, %2, %3};\n"                                                                 \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// What a warp holds of a 16 x 8 product goes to c.
__device__ __forceinline__ void store_16x8(float* c, int pitch, const float (&d)[4]) {
    const int lane = threadIdx.x % 32;
    float* at = c + lane / 4 * pitch + lane % 4 * 2;
    at[0] = d[0], at[1] = d[1];
    at[8 * pitch] = d[2], at[8 * pitch + 1] = d[3];
}

// ---- uninitialized_wait_one_group_too_lax: three stages, two of which may be under way while one is read.
// c = a * b of 32 x k and k x 16, by a block of 4 warps, each of 16 x 8.
__global__ void three_stages(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(16) half as[3][32][24], bs[3][16][24];
    const int t = threadIdx.x, lane = t % 32, row = t / 64 * 16, column = t / 32 % 2 * 8, tiles = k / 16;
    auto load = [&](int tile) {
        if (tile < tiles) {
            if (t < 64) CP_ASYNC_16(&as[tile % 3][t / 2][t % 2 * 8], a + (size_t)(t / 2) * k + tile * 16 + t % 2 * 8);
            if (t >= 96)
                CP_ASYNC_16(&bs[tile % 3][t % 32 / 2][t % 2 * 8], b + (size_t)(tile * 16 + t % 32 / 2) * 16 + t % 2 * 8);
        }
        CP_ASYNC_COMMIT();
    };
    load(0);
    load(1);
    float sums[4] = {};
    for (int tile = 0; tile < tiles; tile++) {
        load(tile + 2);
#ifdef MENDED
        CP_ASYNC_WAIT(2);
#else
        CP_ASYNC_WAIT(3);
#endif
        __syncthreads();  // what the others have waited for
        unsigned int of_a[4], of_b[2];
        LDMATRIX_X4(of_a, &as[tile % 3][row + lane % 16][lane / 16 * 8]);  // BUG: uninitialized
        LDMATRIX_X2_TRANS(of_b, &bs[tile % 3][lane % 16][column]);         // BUG: the same of b
        MMA_16816(sums, of_a, of_b);
        __syncthreads();  // before the next copy goes where this was read
    }
    store_16x8(c + row * 16 + column, 16, sums);
}

// ---- uninitialized_last_tile_not_awaited: no copy begins in the last round, so all but the newest group is too few.
__global__ void two_stages(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(16) half as[2][16][24], bs[2][16][8];
    const int lane = threadIdx.x, tiles = k / 16;
    auto load = [&](int tile) {
        CP_ASYNC_16(&as[tile % 2][lane / 2][lane % 2 * 8], a + (size_t)(lane / 2) * k + tile * 16 + lane % 2 * 8);
        if (lane < 16) CP_ASYNC_16(&bs[tile % 2][lane][0], b + (size_t)(tile * 16 + lane) * 8);
        CP_ASYNC_COMMIT();
    };
    float sums[4] = {};
    load(0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) {
            load(tile + 1);
            CP_ASYNC_WAIT(1);
        } else {
#ifdef MENDED
            CP_ASYNC_WAIT(0);
#else
            CP_ASYNC_WAIT(1);
#endif
        }
        __syncwarp();
        unsigned int of_a[4], of_b[2];
        LDMATRIX_X4(of_a, &as[tile % 2][lane % 16][lane / 16 * 8]);  // BUG: uninitialized
        LDMATRIX_X2_TRANS(of_b, &bs[tile % 2][lane % 16][0]);        // BUG: the same of b
        MMA_16816(sums, of_a, of_b);
        __syncwarp();
    }
    store_16x8(c, 8, sums);
}

// ---- race_stage_refilled_while_read: two stages, and no barrier at the end of a round.
__global__ void refilled(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(16) half as[2][16][24], bs[2][16][40];
    const int t = threadIdx.x, lane = t % 32, column = t / 32 * 8, tiles = k / 16;
    auto load = [&](int tile) {
        if (t < 32) CP_ASYNC_16(&as[tile % 2][t / 2][t % 2 * 8], a + (size_t)(t / 2) * k + tile * 16 + t % 2 * 8);  // BUG: the other
        if (t < 64)
            CP_ASYNC_16(&bs[tile % 2][t / 4][t % 4 * 8], b + (size_t)(tile * 16 + t / 4) * 32 + t % 4 * 8);  // BUG: the other
        CP_ASYNC_COMMIT();
    };
    float sums[4] = {};
    load(0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) load(tile + 1);
        else CP_ASYNC_COMMIT();
        CP_ASYNC_WAIT(1);
        __syncthreads();
        unsigned int of_a[4], of_b[2];
        LDMATRIX_X4(of_a, &as[tile % 2][lane % 16][lane / 16 * 8]);  // BUG: race
        LDMATRIX_X2_TRANS(of_b, &bs[tile % 2][lane % 16][column]);   // BUG: race
        MMA_16816(sums, of_a, of_b);
#ifdef MENDED
        __syncthreads();
#endif
    }
    store_16x8(c + column, 32, sums);
}

// ---- race_one_stage_too_few: the copy of tile k + 2 goes where tile k is read.
__global__ void running_sums(const float* x, float* out, int tiles) {
#ifdef MENDED
    constexpr int stages = 3;
#else
    constexpr int stages = 2;
#endif
    __shared__ __align__(16) float ring[stages][256];
    const int t = threadIdx.x;
    auto load = [&](int tile) {
        if (tile < tiles) CP_ASYNC_16(&ring[tile % stages][t * 4], x + (size_t)tile * 256 + t * 4);  // BUG: the other
        CP_ASYNC_COMMIT();
    };
    load(0);
    load(1);
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        CP_ASYNC_WAIT(1);
        __syncthreads();  // tile k is there, and all have read tile k - 1
        load(tile + 2);
        for (int i = t; i < 256; i += 64) sum += ring[tile % stages][i];  // BUG: race
    }
    out[t] = sum;
}

// ---- uninitialized_wrong_parity: the stage that is read is the one that is being filled.
__global__ void squares(const float* x, float* out, int tiles) {
    __shared__ __align__(16) float stage[2][128];
    const int t = threadIdx.x;
    CP_ASYNC_16(&stage[0][t * 4], x + t * 4);
    CP_ASYNC_COMMIT();
    int fill = 1;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) CP_ASYNC_16(&stage[fill][t * 4], x + (size_t)(tile + 1) * 128 + t * 4);  // BUG: the copy
        CP_ASYNC_COMMIT();
        CP_ASYNC_WAIT(1);
        __syncwarp();
#ifdef MENDED
        const float* now = stage[fill ^ 1];
#else
        const float* now = stage[fill];
#endif
        for (int i = t; i < 128; i += 32) out[(size_t)tile * 128 + i] = now[i] * now[i];  // BUG: uninitialized
        __syncwarp();
        fill ^= 1;
    }
}

// ---- race_barrier_before_wait: the barrier comes first, so it says nothing of the others' copies.
__global__ void differences(const float* x, float* out, int tiles) {
    __shared__ __align__(16) float stage[2][256];
    const int t = threadIdx.x;
    CP_ASYNC_16(&stage[0][t * 4], x + t * 4);  // BUG: the other
    CP_ASYNC_COMMIT();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) CP_ASYNC_16(&stage[(tile + 1) % 2][t * 4], x + (size_t)(tile + 1) * 256 + t * 4);  // BUG: the other
        CP_ASYNC_COMMIT();
#ifdef MENDED
        CP_ASYNC_WAIT(1);
        __syncthreads();
#else
        __syncthreads();
        CP_ASYNC_WAIT(1);
#endif
        const float* now = stage[tile % 2];
        for (int i = t; i < 255; i += 64) out[(size_t)tile * 256 + i] = now[i + 1] - now[i];  // BUG: race
        if (t == 0) out[(size_t)tile * 256 + 255] = now[0] - now[255];  // BUG: race
        __syncthreads();
    }
}

// ---- out_of_bounds_prefetch_past_the_end: what is copied ahead is copied ahead of the last tile too.
__global__ void total_of_tiles(const float* x, float* out, int tiles) {
    __shared__ __align__(16) float ring[4][128];
    const int t = threadIdx.x;
    auto load = [&](int tile) {
#ifdef MENDED
        if (tile < tiles)
#endif
            CP_ASYNC_16(&ring[tile % 4][t * 4], x + (size_t)tile * 128 + t * 4);  // BUG: out_of_bounds
        CP_ASYNC_COMMIT();
    };
    for (int tile = 0; tile < 3; tile++) load(tile);
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        load(tile + 3);
        CP_ASYNC_WAIT(3);
        __syncwarp();
        for (int i = t; i < 128; i += 32) sum += ring[tile % 4][i];
        __syncwarp();
    }
    CP_ASYNC_WAIT(0);
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (t == 0) *out = sum;
}

// ---- uninitialized_prologue_too_short: four stages are to be filled ahead, and only two are.
__global__ void products(const float* x, const float* y, float* out, int tiles) {
    __shared__ __align__(16) float xs[4][128], ys[4][128];
    const int t = threadIdx.x;
    auto load = [&](int tile) {
        if (tile < tiles) {
            CP_ASYNC_16(&xs[tile % 4][t * 4], x + (size_t)tile * 128 + t * 4);
            CP_ASYNC_16(&ys[tile % 4][t * 4], y + (size_t)tile * 128 + t * 4);
        }
        CP_ASYNC_COMMIT();
    };
#ifdef MENDED
    for (int tile = 0; tile < 3; tile++) load(tile);
#else
    for (int tile = 0; tile < 2; tile++) load(tile);
#endif
    for (int tile = 0; tile < tiles; tile++) {
        load(tile + 3);
        CP_ASYNC_WAIT(3);
        __syncwarp();
        for (int i = t; i < 128; i += 32)
            out[(size_t)tile * 128 + i] = xs[tile % 4][i] * ys[tile % 4][i];  // BUG: uninitialized
        __syncwarp();
    }
}
