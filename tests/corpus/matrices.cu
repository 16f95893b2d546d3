// Rows for ldmatrix and stmatrix: at addresses that are not multiples of 16, outside the tile, never written, or shared
// with a warp that still writes them.
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned int shared_address(const void* p) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void load_a(unsigned int (&a)[4], const half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(shared_address(row)));
}
__device__ __forceinline__ void load_b(unsigned int (&b)[2], const half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"(shared_address(row)));
}
__device__ __forceinline__ void store_2(half* row, unsigned int d0, unsigned int d1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};\n" ::"r"(shared_address(row)), "r"(d0), "r"(d1)
                 : "memory");
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned int (&a)[4], const unsigned int (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ unsigned int pack(float low, float high) {
    const half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned int*>(&both);
}
// A warp's 16 x 8 sums go to c.
__device__ __forceinline__ void write(float* c, int pitch, const float (&d)[4]) {
    const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    c[row * pitch + column] = d[0], c[row * pitch + column + 1] = d[1];
    c[(row + 8) * pitch + column] = d[2], c[(row + 8) * pitch + column + 1] = d[3];
}

// ---- misaligned_rows_with_odd_padding: one element of padding is right for single elements, not for rows of 16 bytes.
__global__ void with_padding(const half* a, const half* b, float* c, int k) {
#ifdef MENDED
    __shared__ __align__(16) half as[16][64 + 8], bs[64][8];
#else
    __shared__ __align__(16) half as[16][64 + 1], bs[64][8];
#endif
    const int lane = threadIdx.x;
    float sums[4] = {};
    for (int from = 0; from < k; from += 64) {
        for (int i = lane; i < 16 * 64; i += 32) as[i / 64][i % 64] = a[i / 64 * k + from + i % 64];
        for (int i = lane; i < 64 * 8; i += 32) bs[i / 8][i % 8] = b[(size_t)(from + i / 8) * 8 + i % 8];
        __syncwarp();
        for (int inner = 0; inner < 64; inner += 16) {
            unsigned int of_a[4], of_b[2];
            load_a(of_a, &as[lane % 16][inner + lane / 16 * 8]);  // BUG: misaligned
            load_b(of_b, bs[inner + lane % 16]);
            multiply(sums, of_a, of_b);
        }
        __syncwarp();
    }
    write(c, 8, sums);
}

// ---- out_of_bounds_rows_of_fourth_warp: the tile has 48 rows, and four warps take 16 each.
__global__ void four_warps(const half* a, const half* b, float* c, int m) {
    __shared__ __align__(16) half as[48 * 16], bs[16 * 8];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    for (int i = t; i < 48 * 16; i += blockDim.x) as[i] = i / 16 < m ? a[i] : __float2half(0.0f);
    for (int i = t; i < 16 * 8; i += blockDim.x) bs[i] = b[i];
    __syncthreads();
#ifdef MENDED
    if (warp * 16 >= 48) return;
#endif
    unsigned int of_a[4], of_b[2];
    load_b(of_b, bs + lane % 16 * 8);
    load_a(of_a, as + (warp * 16 + lane % 16) * 16 + lane / 16 * 8);  // BUG: out_of_bounds
    float sums[4] = {};
    multiply(sums, of_a, of_b);
    if (warp < 3) write(c + warp * 16 * 8, 8, sums);
}

// ---- uninitialized_rows_beyond_the_matrix: the guard leaves the last rows of the tile as they were.
__global__ void with_guard(const half* a, const half* b, float* c, int m) {
    __shared__ __align__(16) half as[16][24], bs[16][8];
    const int lane = threadIdx.x, first = blockIdx.x * 16;
    for (int i = lane; i < 16 * 16; i += 32) {
        if (first + i / 16 < m) as[i / 16][i % 16] = a[(first + i / 16) * 16 + i % 16];
#ifdef MENDED
        else as[i / 16][i % 16] = __float2half(0.0f);
#endif
    }
    for (int i = lane; i < 16 * 8; i += 32) bs[i / 8][i % 8] = b[i];
    __syncwarp();
    unsigned int of_a[4], of_b[2];
    load_a(of_a, &as[lane % 16][lane / 16 * 8]);  // BUG: uninitialized
    load_b(of_b, bs[lane % 16]);
    float sums[4] = {};
    multiply(sums, of_a, of_b);
    for (int e = 0; e < 4; e++) {
        const int row = first + lane / 4 + e / 2 * 8;
        if (row < m) c[row * 8 + lane % 4 * 2 + e % 2] = sums[e];
    }
}

// ---- race_tile_filled_by_other_warps: every warp fills a part of the tile, and waits only for itself.
__global__ void filled_together(const half* a, const half* b, float* c) {
    __shared__ __align__(16) half as[16][40], bs[32][16 + 8];
    const int t = threadIdx.x, lane = t % 32, column = t / 32 * 8;
    for (int i = t; i < 16 * 32; i += 64) as[i / 32][i % 32] = a[i];  // BUG: the other
    for (int i = t; i < 32 * 16; i += 64) bs[i / 16][i % 16] = b[i];  // BUG: the other
#ifdef MENDED
    __syncthreads();
#else
    __syncwarp();
#endif
    float sums[4] = {};
    for (int inner = 0; inner < 32; inner += 16) {
        unsigned int of_a[4], of_b[2];
        load_a(of_a, &as[lane % 16][inner + lane / 16 * 8]);  // BUG: race
        load_b(of_b, &bs[inner + lane % 16][column]);         // BUG: race
        multiply(sums, of_a, of_b);
    }
    write(c + column, 16, sums);
}

// ---- race_warp_tiles_overlap: a warp's rows begin 8 rows after those of the warp before, and there are 16.
__global__ void overlapping_tiles(const half* a, const half* b, half* c) {
    __shared__ __align__(16) half as[4][16][24], bs[16][8], out[4 * 16 * 8];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    for (int i = t; i < 64 * 16; i += 128) as[i / 256][i / 16 % 16][i % 16] = a[i];
    if (t < 128) bs[t / 8][t % 8] = b[t];
    __syncthreads();
    unsigned int of_a[4], of_b[2];
    load_a(of_a, &as[warp][lane % 16][lane / 16 * 8]);
    load_b(of_b, bs[lane % 16]);
    float sums[4] = {};
    multiply(sums, of_a, of_b);
#ifdef MENDED
    half* mine = out + warp * 16 * 8;
#else
    half* mine = out + warp * 8 * 8;
#endif
    store_2(mine + lane % 16 * 8, pack(sums[0], sums[1]), pack(sums[2], sums[3]));  // BUG: race
    __syncwarp();
    for (int i = lane; i < 128; i += 32) c[warp * 128 + i] = mine[i];  // BUG: reads what another warp writes
}

// ---- misaligned_stmatrix_pitch: rows of 20 halves begin at multiples of 40 bytes.
__global__ void to_rows_of_20(const half* a, const half* b, half* c) {
#ifdef MENDED
    constexpr int pitch = 24;
#else
    constexpr int pitch = 20;
#endif
    __shared__ __align__(16) half as[16][24], bs[16][24], out[16 * pitch];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) as[i / 16][i % 16] = a[i], bs[i / 16][i % 16] = b[i];
    __syncwarp();
    unsigned int of_a[4];
    load_a(of_a, &as[lane % 16][lane / 16 * 8]);
    for (int column = 0; column < 16; column += 8) {
        unsigned int of_b[2];
        load_b(of_b, &bs[lane % 16][column]);
        float sums[4] = {};
        multiply(sums, of_a, of_b);
        store_2(out + lane % 16 * pitch + column, pack(sums[0], sums[1]), pack(sums[2], sums[3]));  // BUG: misaligned
    }
    __syncwarp();
    for (int i = lane; i < 256; i += 32) c[i] = out[i / 16 * pitch + i % 16];
}

// ---- race_read_while_stmatrix_writes: the rows of the tile are copied out by whoever comes first.
__global__ void copied_out(const half* a, const half* b, half* c) {
    __shared__ __align__(16) half as[32][24], bs[16][8], out[32][8];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    for (int i = t; i < 512; i += 64) as[i / 16][i % 16] = a[i];
    for (int i = t; i < 128; i += 64) bs[i / 8][i % 8] = b[i];
    __syncthreads();
    unsigned int of_a[4], of_b[2];
    load_a(of_a, &as[warp * 16 + lane % 16][lane / 16 * 8]);
    load_b(of_b, bs[lane % 16]);
    float sums[4] = {};
    multiply(sums, of_a, of_b);
    store_2(out[warp * 16 + lane % 16], pack(sums[0], sums[1]), pack(sums[2], sums[3]));  // BUG: the other
#ifdef MENDED
    __syncthreads();
#endif
    for (int i = t; i < 128; i += 64)
        *reinterpret_cast<half2*>(&c[i * 2]) = *reinterpret_cast<half2*>(&out[i / 4][i % 4 * 2]);  // BUG: race
}

// ---- uninitialized_swizzle_of_eight_pieces: rows of four pieces are written by `row % 4`, and read by `row % 8`.
__global__ void swizzled(const half* a, const half* b, float* c) {
    __shared__ __align__(128) half as[16 * 64], bs[32 * 8];
    const int lane = threadIdx.x;
    for (int piece = lane; piece < 16 * 4; piece += 32) {
        const int row = piece / 4, p = piece % 4;
        *reinterpret_cast<int4*>(&as[row * 64 + (p ^ row % 4) * 8]) = reinterpret_cast<const int4*>(a)[piece];
    }
    reinterpret_cast<int4*>(bs)[lane] = reinterpret_cast<const int4*>(b)[lane];
    __syncwarp();
    float sums[4] = {};
    for (int inner = 0; inner < 32; inner += 16) {
        const int row = lane % 16, p = inner / 8 + lane / 16;
#ifdef MENDED
        const int place = p ^ row % 4;
#else
        const int place = p ^ row % 8;
#endif
        unsigned int of_a[4], of_b[2];
        load_a(of_a, &as[row * 64 + place * 8]);  // BUG: uninitialized
        load_b(of_b, &bs[(inner + lane % 16) * 8]);
        multiply(sums, of_a, of_b);
    }
    write(c, 8, sums);
}

// ---- out_of_bounds_last_step_along_k: `<=` takes one step of 16 more than the tile has.
__global__ void one_step_more(const half* a, const half* b, float* c) {
    __shared__ __align__(16) half as[16 * 48], bs[48 * 8];
    const int lane = threadIdx.x;
    for (int i = lane; i < 16 * 48; i += 32) as[i] = a[i];
    for (int i = lane; i < 48 * 8; i += 32) bs[i] = b[i];
    __syncwarp();
    float sums[4] = {};
#ifdef MENDED
    for (int inner = 0; inner < 48; inner += 16) {
#else
    for (int inner = 0; inner <= 48; inner += 16) {
#endif
        unsigned int of_a[4], of_b[2];
        load_b(of_b, bs + (inner + lane % 16) * 8);  // BUG: out_of_bounds
        load_a(of_a, as + lane % 16 * 48 + inner + lane / 16 * 8);  // BUG: out_of_bounds
        multiply(sums, of_a, of_b);
    }
    write(c, 8, sums);
}
