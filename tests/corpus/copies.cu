// Tiles that come by cp.async, one at a time: read too early, copied from the wrong place, or never waited for.
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned int shared_address(const void* p) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared_address(to)), "l"(from));
}
// The first `bytes` bytes come from memory, the others are zeros.
__device__ __forceinline__ void copy_16_or_zeros(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void copy_8(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;\n" ::"r"(shared_address(to)), "l"(from));
}
__device__ __forceinline__ void copy_4(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(shared_address(to)), "l"(from));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int n>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(n));
}

// ---- uninitialized_rows_not_awaited: each warp centres one row of 128 floats. The barrier does not wait for copies.
__global__ void centre_rows(const float* x, float* out) {
    __shared__ __align__(16) float rows[4][128];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t row = blockIdx.x * 4 + warp;
    copy_16(&rows[warp][lane * 4], x + row * 128 + lane * 4);
    commit();
#ifdef MENDED
    wait<0>();
#endif
    __syncthreads();
    float sum = 0.0f;
    for (int i = lane; i < 128; i += 32) sum += rows[warp][i];  // BUG: uninitialized
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    for (int i = lane; i < 128; i += 32) out[row * 128 + i] = rows[warp][i] - sum / 128;  // BUG: the same again
}

// ---- uninitialized_not_committed: a wait is for groups, and these copies were never made one.
__global__ void largest_of_rows(const float* x, float* out) {
    __shared__ __align__(16) float rows[8][32];
    const int t = threadIdx.x;
    copy_16(&rows[t / 8][t % 8 * 4], x + (size_t)blockIdx.x * 256 + t * 4);
#ifdef MENDED
    commit();
#endif
    wait<0>();
    __syncthreads();
    if (t < 8) {
        float most = rows[t][0];  // BUG: uninitialized
        for (int i = 1; i < 32; i++) most = fmaxf(most, rows[t][i]);  // BUG: the same again
        out[blockIdx.x * 8 + t] = most;
    }
}

// ---- uninitialized_scale_in_second_group: the tile is one group, the scale of each row another.
__global__ void dequantize(const signed char* q, const float* scale, float* out) {
    __shared__ __align__(16) signed char tile[32][64];
    __shared__ __align__(16) float factor[32];
    const int t = threadIdx.x, row = blockIdx.x * 32;
    copy_16(&tile[t / 4][t % 4 * 16], q + (size_t)(row + t / 4) * 64 + t % 4 * 16);
    commit();
    if (t < 8) copy_16(&factor[t * 4], scale + row + t * 4);
    commit();
#ifdef MENDED
    wait<0>();
#else
    wait<1>();  // the tile is there
#endif
    __syncthreads();
    for (int i = t; i < 32 * 64; i += 128) {
        const int r = i / 64, c = i % 64;
        out[(size_t)(row + r) * 64 + c] = tile[r][c] * factor[r];  // BUG: uninitialized
    }
}

// ---- race_no_barrier_after_wait: a thread waits for its own copies, and reads what others have copied.
__global__ void transpose(const float* x, float* out, int n) {
    __shared__ float tile[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int from = blockIdx.y * 16, column = blockIdx.x * 16;
    copy_4(&tile[ty][tx], x + (size_t)(from + ty) * n + column + tx);  // BUG: the other
    commit();
    wait<0>();
#ifdef MENDED
    __syncthreads();
#endif
    out[(size_t)(column + ty) * n + from + tx] = tile[tx][ty];  // BUG: race
}

// ---- race_scales_before_barrier: a warp finds the scale of a row, all threads use it.
__global__ void quantize(const float* x, signed char* q, float* scale) {
    __shared__ __align__(16) float rows[4][64];
    __shared__ float largest[4];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const size_t first = (size_t)blockIdx.x * 4;
    if (t < 64) copy_16(&rows[t / 16][t % 16 * 4], x + first * 64 + t * 4);
    commit();
    wait<0>();
    __syncthreads();
    float most = fmaxf(fabsf(rows[warp][lane]), fabsf(rows[warp][lane + 32]));
    for (int s = 16; s > 0; s /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, s));
    if (lane == 0) largest[warp] = fmaxf(most, 1e-6f);  // BUG: the other
#ifdef MENDED
    __syncthreads();
#endif
    for (int i = t; i < 256; i += 128) {
        const float by = largest[i / 64] / 127.0f;  // BUG: race
        q[first * 64 + i] = static_cast<signed char>(rintf(rows[i / 64][i % 64] / by));
    }
    if (lane == 0) scale[first + warp] = largest[warp] / 127.0f;
}

// ---- misaligned_copy_of_odd_rows: rows of 36 bytes, copied 16 bytes at a time.
__global__ void sums_of_columns(const half* x, float* out, int rows, int columns) {
    extern __shared__ __align__(16) half tile[];  // rows x 32
    const int t = threadIdx.x;
    for (int piece = t; piece < rows * 2; piece += 32) {
        const int r = piece / 2, c = piece % 2 * 8;
#ifdef MENDED
        for (int i = c; i < c + 8; i += 2) copy_4(&tile[r * 32 + i], x + (size_t)r * columns + i);
#else
        copy_16(&tile[r * 32 + c], x + (size_t)r * columns + c);  // BUG: misaligned
#endif
    }
    commit();
    wait<0>();
    __syncthreads();
    float sum = 0.0f;
    if (t < 16) {
        for (int r = 0; r < rows; r++) sum += __half2float(tile[r * 32 + t]);
        out[t] = sum;
    }
}

// ---- out_of_bounds_copy_without_guard: the last tile has fewer rows.
__global__ void rows_times_vector(const float* x, const float* y, float* out, int rows) {
    __shared__ __align__(16) float tile[32][36];
    const int t = threadIdx.x, first = blockIdx.x * 32;
    for (int piece = t; piece < 32 * 8; piece += 64) {
        const int r = piece / 8, c = piece % 8 * 4;
#ifdef MENDED
        const int inside = first + r < rows;
        copy_16_or_zeros(&tile[r][c], x + (size_t)(inside ? first + r : 0) * 32 + c, inside ? 16 : 0);  // guard
#else
        copy_16(&tile[r][c], x + (size_t)(first + r) * 32 + c);  // BUG: out_of_bounds
#endif
    }
    commit();
    wait<0>();
    __syncthreads();
    if (t < 32 && first + t < rows) {
        float sum = 0.0f;
        for (int c = 0; c < 32; c++) sum += tile[t][c] * y[c];
        out[first + t] = sum;
    }
}

// ---- out_of_bounds_zeros_counted_as_float: what is left of the array is counted in floats, but its elements are half.
__global__ void sum_of_tiles(const half* x, float* out, int n) {
    __shared__ __align__(16) half tile[256];
    const int t = threadIdx.x, first = blockIdx.x * 256 + t * 8;
    const int left = max(0, min(8, n - first));
#ifdef MENDED
    copy_16_or_zeros(&tile[t * 8], left ? x + first : x, left * (int)sizeof(half));
#else
    copy_16_or_zeros(&tile[t * 8], left ? x + first : x, min(16, left * (int)sizeof(float)));  // BUG: out_of_bounds
#endif
    commit();
    wait<0>();
    __syncwarp();
    float sum = 0.0f;
    for (int i = t; i < 256; i += 32) sum += __half2float(tile[i]);
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (t == 0) out[blockIdx.x] = sum;
}

// ---- uninitialized_part_of_a_row: 48 pieces are needed and there are 32 threads.
__global__ void halve_rows(const float* x, float* out) {
    __shared__ __align__(16) float row[192];
    const int t = threadIdx.x;
    const float* from = x + (size_t)blockIdx.x * 192;
#ifdef MENDED
    for (int piece = t; piece < 48; piece += 32) copy_16(&row[piece * 4], from + piece * 4);
#else
    if (t < 48) copy_16(&row[t * 4], from + t * 4);
#endif
    commit();
    wait<0>();
    __syncwarp();
    for (int i = t; i < 192; i += 32) out[(size_t)blockIdx.x * 192 + i] = 0.5f * row[i];  // BUG: uninitialized
}

// ---- asynchronous_copy_of_next_row: while a row is added, the next is copied; after the last one, the first again.
__global__ void sum_of_rows(const float* x, float* out, int rows) {
    __shared__ __align__(16) float row[2][128];
    const int t = threadIdx.x;
    float sum[4] = {};
    copy_16(&row[0][t * 4], x + t * 4);
    commit();
    for (int r = 0; r < rows; r++) {
#ifdef MENDED
        if (r + 1 < rows) copy_16(&row[(r + 1) % 2][t * 4], x + (size_t)(r + 1) * 128 + t * 4);
#else
        copy_16(&row[(r + 1) % 2][t * 4], x + (size_t)((r + 1) % rows) * 128 + t * 4);  // BUG: asynchronous
#endif
        commit();
        wait<1>();
        for (int i = 0; i < 4; i++) sum[i] += row[r % 2][t * 4 + i];  // its own copies alone
    }
    for (int i = 0; i < 4; i++) out[t * 4 + i] = sum[i];
}

// ---- asynchronous_copy_of_one_that_leaves: a thread begins its copy, finds that it has nothing to do, and leaves.
__global__ void clamp_rows(const float* x, float* out, int n) {
    __shared__ __align__(16) float piece[64][4];
    const int t = threadIdx.x, i = (blockIdx.x * 64 + t) * 4;
#ifdef MENDED
    if (i >= n) return;
    copy_16(piece[t], x + i);
    commit();
#else
    copy_16(piece[t], x + min(i, n - 4));  // BUG: asynchronous
    commit();
    if (i >= n) return;
#endif
    wait<0>();
    for (int k = 0; k < 4; k++) out[i + k] = fminf(fmaxf(piece[t][k], -1.0f), 1.0f);
}
