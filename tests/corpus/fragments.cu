// Fragments: elements that were never set, lanes that are absent, tiles that leave the matrix, and sums that several
// warps or blocks add to.
#include <mma.h>
using namespace nvcuda;

// c += a * b, of 16 x 16 and 16 x 8 bf16
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned int (&a)[4], const unsigned int (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ unsigned int pair_at(const __nv_bfloat16* p) {
    return *reinterpret_cast<const unsigned int*>(p);
}

// ---- uninitialized_sums_of_second_half: two accumulators, and only the first begins with zeros.
__global__ void two_accumulators(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k) {
    const int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
    float sums[2][4];
#ifdef MENDED
    for (int j = 0; j < 2; j++)
#else
    for (int j = 0; j < 1; j++)
#endif
        for (int e = 0; e < 4; e++) sums[j][e] = 0.0f;
    for (int from = 0; from < k; from += 16) {
        unsigned int of_a[4], of_b[2];
        for (int i = 0; i < 4; i++) of_a[i] = pair_at(a + (row + i % 2 * 8) * k + from + i / 2 * 8 + pair);
        for (int j = 0; j < 2; j++) {
            for (int i = 0; i < 2; i++) of_b[i] = pair_at(b + (j * 8 + row) * k + from + i * 8 + pair);  // b by columns
            multiply(sums[j], of_a, of_b);  // BUG: uninitialized
        }
    }
    for (int j = 0; j < 2; j++)
        for (int e = 0; e < 4; e++) c[(row + e / 2 * 8) * 16 + j * 8 + pair + e % 2] = sums[j][e];
}

// ---- uninitialized_rows_left_out: a row outside the matrix is not loaded, and not set to zero either.
__global__ void rows_left_out(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m) {
    const int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
    unsigned int of_a[4], of_b[2] = {pair_at(b + row * 16 + pair), pair_at(b + row * 16 + 8 + pair)};
    for (int i = 0; i < 4; i++) {
        const int r = row + i % 2 * 8;
        if (r < m) of_a[i] = pair_at(a + r * 16 + i / 2 * 8 + pair);
#ifdef MENDED
        else of_a[i] = 0;
#endif
    }
    float sums[4] = {};
    multiply(sums, of_a, of_b);  // BUG: uninitialized
    for (int e = 0; e < 4; e++)
        if (row + e / 2 * 8 < m) c[(row + e / 2 * 8) * 8 + pair + e % 2] = sums[e];
}

// ---- uninitialized_wmma_sums: mma_sync adds to what the fragment holds.
__global__ void without_fill(const half* a, const half* b, float* c, int k) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
#ifdef MENDED
    wmma::fill_fragment(sum, 0.0f);
#endif
    for (int from = 0; from < k; from += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> of_a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> of_b;
        wmma::load_matrix_sync(of_a, a + from, k);
        wmma::load_matrix_sync(of_b, b + from * 16, 16);
        wmma::mma_sync(sum, of_a, of_b, sum);  // BUG: uninitialized
    }
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// ---- divergent_barrier_lanes_left_before_mma: lanes without a row leave, and then the warp multiplies.
__global__ void early_return(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m) {
    const int lane = threadIdx.x, row = blockIdx.x * 8 + lane / 4, pair = lane % 4 * 2;
#ifndef MENDED
    if (row >= m) return;
#endif
    const __nv_bfloat16* mine = a + min(row, m - 1) * 16 + pair;
    const unsigned int of_a[4] = {pair_at(mine), 0, pair_at(mine + 8), 0};
    const unsigned int of_b[2] = {pair_at(b + lane / 4 * 16 + pair), pair_at(b + lane / 4 * 16 + 8 + pair)};
    float sums[4] = {};
    multiply(sums, of_a, of_b);  // BUG: divergent_barrier
    if (row < m) c[row * 8 + pair] = sums[0], c[row * 8 + pair + 1] = sums[1];
}

// ---- divergent_barrier_lanes_skip_a_tile: a tile of zeros is skipped, but each lane only looks at its own elements.
__global__ void sparse_tiles(const half* a, const half* b, float* c, int k) {
    const int lane = threadIdx.x;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int from = 0; from < k; from += 16) {
        bool any = false;
        for (int i = 0; i < 8; i++) any = any || __half2float(a[(lane / 2) * k + from + lane % 2 * 8 + i]) != 0.0f;
#ifdef MENDED
        any = __any_sync(0xffffffff, any);
#endif
        if (!any) continue;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> of_a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> of_b;
        wmma::load_matrix_sync(of_a, a + from, k);  // BUG: divergent_barrier
        wmma::load_matrix_sync(of_b, b + from * 16, 16);
        wmma::mma_sync(sum, of_a, of_b, sum);
    }
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);  // BUG: the other
}

// ---- misaligned_tile_at_odd_columns: a tile must begin at a multiple of 32 bytes, which 8 halves are not.
__global__ void sliding_tiles(const half* x, const half* kernel, float* out) {
    __shared__ __align__(32) half line[16 * 48];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 48; i += 32) line[i] = x[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> weights;
    wmma::load_matrix_sync(weights, kernel, 16);
#ifdef MENDED
    for (int from = 0; from <= 32; from += 16) {
#else
    for (int from = 0; from <= 32; from += 8) {
#endif
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> window;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::load_matrix_sync(window, line + from, 48);  // BUG: misaligned
        wmma::fill_fragment(sum, 0.0f);
        wmma::mma_sync(sum, window, weights, sum);
        wmma::store_matrix_sync(out + from / 16 * 256, sum, 16, wmma::mem_row_major);
    }
}

// ---- misaligned_stride_of_wmma: the matrix has 20 columns, but a stride must be a multiple of 16 bytes.
__global__ void narrow_matrix(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(32) half as[16 * 24];
    const int lane = threadIdx.x;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> of_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
#ifdef MENDED
    for (int i = lane; i < 256; i += 32) as[i / 16 * 24 + i % 16] = a[i / 16 * k + i % 16];
    __syncwarp();
    wmma::load_matrix_sync(of_a, as, 24);
#else
    wmma::load_matrix_sync(of_a, a, k);  // BUG: misaligned
#endif
    wmma::load_matrix_sync(of_b, b, 16);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, of_a, of_b, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// ---- out_of_bounds_edge_tile: n is not a multiple of 16, and the last tiles are stored in full.
__global__ void edge_tiles(const half* a, const half* b, float* c, int n) {
    __shared__ __align__(32) float tile[256];
    const int row = blockIdx.y * 16, column = blockIdx.x * 16, lane = threadIdx.x;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> of_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(of_a, a + row * 16, 16);     // a and b have padding for whole tiles
    wmma::load_matrix_sync(of_b, b + column, 48);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, of_a, of_b, sum);
#ifdef MENDED
    wmma::store_matrix_sync(tile, sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
        if (row + i / 16 < n && column + i % 16 < n) c[(row + i / 16) * n + column + i % 16] = tile[i];  // guard
#else
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);  // BUG: out_of_bounds
#endif
}

// ---- race_store_of_neighbour_warp: a warp's tile is 16 columns wide, and the next begins after 8.
__global__ void tiles_side_by_side(const half* a, const half* b, float* c) {
    const int warp = threadIdx.x / 32;
#ifdef MENDED
    const int column = warp * 16;
#else
    const int column = warp * 8;
#endif
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> of_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(of_a, a, 16);
    wmma::load_matrix_sync(of_b, b + warp * 256, 16);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, of_a, of_b, sum);
    wmma::store_matrix_sync(c + column, sum, 32, wmma::mem_row_major);  // BUG: race
}

// ---- race_sums_of_two_warps: each warp multiplies half of k and adds it to the same sums.
__global__ void shared_sums(const half* a, const half* b, float* c, int k) {
    __shared__ __align__(32) float sums[256];
    const int t = threadIdx.x, warp = t / 32, warps = blockDim.x / 32;
    for (int i = t; i < 256; i += blockDim.x) sums[i] = 0.0f;
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> of_b;
#ifdef MENDED
    for (int turn = 0; turn < warps; turn++) {
        if (turn == warp) {
            wmma::load_matrix_sync(sum, sums, 16, wmma::mem_row_major);
            for (int from = warp * 16; from < k; from += warps * 16) {
                wmma::load_matrix_sync(of_a, a + from, k);
                wmma::load_matrix_sync(of_b, b + from * 16, 16);
                wmma::mma_sync(sum, of_a, of_b, sum);
            }
            wmma::store_matrix_sync(sums, sum, 16, wmma::mem_row_major);
        }
        __syncthreads();
    }
#else
    wmma::load_matrix_sync(sum, sums, 16, wmma::mem_row_major);  // BUG: the other
    for (int from = warp * 16; from < k; from += warps * 16) {
        wmma::load_matrix_sync(of_a, a + from, k);
        wmma::load_matrix_sync(of_b, b + from * 16, 16);
        wmma::mma_sync(sum, of_a, of_b, sum);
    }
    wmma::store_matrix_sync(sums, sum, 16, wmma::mem_row_major);  // BUG: race
#endif
    __syncthreads();
    for (int i = t; i < 256; i += blockDim.x) c[i] = sums[i];
}

// ---- race_split_k_without_atomics: each block multiplies a part of k, and adds to the same elements of c.
__global__ void split_k(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k) {
    const int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2, each = k / gridDim.x;
    float sums[4] = {};
    for (int from = blockIdx.x * each; from < (blockIdx.x + 1) * each; from += 16) {
        unsigned int of_a[4], of_b[2];
        for (int i = 0; i < 4; i++) of_a[i] = pair_at(a + (row + i % 2 * 8) * k + from + i / 2 * 8 + pair);
        for (int i = 0; i < 2; i++) of_b[i] = pair_at(b + row * k + from + i * 8 + pair);
        multiply(sums, of_a, of_b);
    }
    for (int e = 0; e < 4; e++) {
        float* to = c + (row + e / 2 * 8) * 8 + pair + e % 2;
#ifdef MENDED
        atomicAdd(to, sums[e]);
#else
        *to += sums[e];  // BUG: race
#endif
    }
}

// ---- out_of_bounds_int8_beyond_k: a step along k is 32 bytes, and rows have 48.
__global__ void int8_rows(const signed char* a, const signed char* b, int* c, int k) {
    const int lane = threadIdx.x, row = lane / 4, four = lane % 4 * 4;
    int sums[4] = {};
    auto at = [&](const signed char* p, int r, int from) {
#ifdef MENDED
        if (from >= k) return 0;  // guard
#endif
        return *reinterpret_cast<const int*>(p + r * k + from);  // BUG: out_of_bounds
    };
    for (int from = 0; from < k; from += 32) {
        int of_a[4], of_b[2];
        for (int i = 0; i < 4; i++) of_a[i] = at(a, row + i % 2 * 8, from + i / 2 * 16 + four);
        for (int i = 0; i < 2; i++) of_b[i] = at(b, row, from + i * 16 + four);
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};\n"
            : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
            : "r"(of_a[0]), "r"(of_a[1]), "r"(of_a[2]), "r"(of_a[3]), "r"(of_b[0]), "r"(of_b[1]));
    }
    for (int e = 0; e < 4; e++) c[(row + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = sums[e];
}
