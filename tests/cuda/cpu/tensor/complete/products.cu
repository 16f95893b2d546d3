// Products of matrices of any size by tensor cores: c = a * b, with a of m x k and b of k x n.
#include <mma.h>

__device__ __forceinline__ unsigned int shared_address(const void* p) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(p));
}
// 16 bytes, or zeros if `inside` is false; done at the wait.
__device__ __forceinline__ void copy_16(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;"); }
template <int newest>
__device__ __forceinline__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(newest));
}
__device__ __forceinline__ void load_4(unsigned int (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row)));
}
__device__ __forceinline__ void load_4_transposed(unsigned int (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row)));
}

#define MULTIPLY(shape_and_types, letter, sums, a, b0, b1)                                                    \
    asm volatile("mma.sync.aligned." shape_and_types                                                          \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                           \
                 : "+" letter(sums[0]), "+" letter(sums[1]), "+" letter(sums[2]), "+" letter(sums[3])         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1,
                                         half) {
    MULTIPLY("m16n8k16.row.col.f32.f16.f16.f32", "f", sums, a, b0, b1);
}
__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1,
                                         __nv_bfloat16) {
    MULTIPLY("m16n8k16.row.col.f32.bf16.bf16.f32", "f", sums, a, b0, b1);
}

// Tiles of 64 x 32 of a and 32 x 64 of b in shared memory. The 8 elements of a piece of 16 bytes stay together; the
// pieces of a row change places, so that eight rows of one 8 x 8 matrix are in different banks.
__device__ __forceinline__ int place_in_a(int row, int piece) { return row * 32 + (piece ^ row / 2 % 4) * 8; }
__device__ __forceinline__ int place_in_b(int row, int piece) { return row * 64 + (piece ^ row % 8) * 8; }

// A block of 4 warps computes 64 x 64 elements of c, each warp 32 x 32; one tile is copied while another is multiplied.
// Rows whose length is not a multiple of 8 cannot be copied by 16 bytes: their elements are loaded one by one.
template <class T>
__global__ void matmul_swizzled(const T* __restrict__ a, const T* __restrict__ b, float* __restrict__ c, int m, int n,
                                int k) {
    __shared__ __align__(128) T tile_a[2][64 * 32], tile_b[2][32 * 64];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int block_row = blockIdx.y * 64, block_column = blockIdx.x * 64;
    const int row = warp / 2 * 32, column = warp % 2 * 32;
    float sums[2][4][4] = {};

    auto piece_of = [](T* to, const T* matrix, int rows, int columns, int r, int from) {
        if (columns % 8 == 0) {
            const bool inside = r < rows && from < columns;  // guard
            copy_16(to, inside ? matrix + (size_t)r * columns + from : matrix, inside);
        } else {
            for (int i = 0; i < 8; i++)
                to[i] = r < rows && from + i < columns ? matrix[(size_t)r * columns + from + i] : T(0.0f);  // guard
        }
    };
    auto load = [&](int stage, int from) {
        for (int piece = t; piece < 256; piece += 128)
            piece_of(&tile_a[stage][place_in_a(piece / 4, piece % 4)], a, m, k, block_row + piece / 4,
                     from + piece % 4 * 8);
        for (int piece = t; piece < 256; piece += 128)
            piece_of(&tile_b[stage][place_in_b(piece / 8, piece % 8)], b, k, n, from + piece / 8,
                     block_column + piece % 8 * 8);
        commit();
    };

    load(0, 0);
    for (int from = 0; from < k; from += 32) {
        const int stage = from / 32 % 2;
        if (from + 32 < k) {
            load(1 - stage, from + 32);
            wait_for_all_but<1>();
        } else {
            wait_for_all_but<0>();
        }
        __syncthreads();  // without it, a warp would read what another has not waited for
        for (int inner = 0; inner < 32; inner += 16) {
            unsigned int of_a[2][4], of_b[2][4];
            for (int i = 0; i < 2; i++)
                load_4(of_a[i], &tile_a[stage][place_in_a(row + 16 * i + lane % 16, inner / 8 + lane / 16)]);
            for (int j = 0; j < 2; j++)
                load_4_transposed(of_b[j],
                                  &tile_b[stage][place_in_b(inner + lane % 16, column / 8 + 2 * j + lane / 16)]);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    multiply(sums[i][j], of_a[i], of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1], T());
        }
        __syncthreads();  // without it, the next round would overwrite what another warp still reads
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++) {
                const int r = block_row + row + 16 * i + lane / 4 + e / 2 * 8;
                const int s = block_column + column + 8 * j + lane % 4 * 2 + e % 2;
                if (r < m && s < n) c[(size_t)r * n + s] = sums[i][j][e];  // guard
            }
}

// By wmma: a block of 4 warps computes 64 x 64 elements of c, each warp 32 x 32. All tiles go through shared memory, with
// zeros beyond the edges, and so do the sums, since a tile is stored in full.
__global__ void matmul_wmma(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int m, int n,
                            int k) {
    using namespace nvcuda::wmma;
    __shared__ __align__(128) half tile_a[64][40], tile_b[32][72];
    __shared__ __align__(128) float tile_c[64][72];
    const int t = threadIdx.x, row = t / 64 * 32, column = t / 32 % 2 * 32;
    const int block_row = blockIdx.y * 64, block_column = blockIdx.x * 64;
    fragment<accumulator, 16, 16, 16, float> sums[2][2];
    for (auto& line : sums)
        for (auto& sum : line) fill_fragment(sum, 0.0f);
    for (int from = 0; from < k; from += 32) {
        for (int i = t; i < 64 * 32; i += 128) {
            const int r = block_row + i / 32, s = from + i % 32;
            tile_a[i / 32][i % 32] = r < m && s < k ? a[(size_t)r * k + s] : __float2half(0.0f);  // guard
        }
        for (int i = t; i < 32 * 64; i += 128) {
            const int r = from + i / 64, s = block_column + i % 64;
            tile_b[i / 64][i % 64] = r < k && s < n ? b[(size_t)r * n + s] : __float2half(0.0f);  // guard
        }
        __syncthreads();  // without it, a warp would load what others have not written
        for (int inner = 0; inner < 32; inner += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> of_a[2];
            fragment<matrix_b, 16, 16, 16, half, row_major> of_b[2];
            for (int i = 0; i < 2; i++) load_matrix_sync(of_a[i], &tile_a[row + 16 * i][inner], 40);
            for (int j = 0; j < 2; j++) load_matrix_sync(of_b[j], &tile_b[inner][column + 16 * j], 72);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) mma_sync(sums[i][j], of_a[i], of_b[j], sums[i][j]);
        }
        __syncthreads();  // without it, the next round would overwrite what another warp still loads
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store_matrix_sync(&tile_c[row + 16 * i][column + 16 * j], sums[i][j], 72, mem_row_major);
    __syncthreads();  // without it, the sums of other warps would not be there
    for (int i = t; i < 64 * 64; i += 128) {
        const int r = block_row + i / 64, s = block_column + i % 64;
        if (r < m && s < n) c[(size_t)r * n + s] = tile_c[i / 64][i % 64];  // guard
    }
}

__device__ __forceinline__ void multiply_bytes(int (&sums)[4], const unsigned int (&a)[4], const unsigned int (&b)[2]) {
    MULTIPLY("m16n8k32.row.col.s32.s8.s8.s32", "r", sums, a, b[0], b[1]);
}
__device__ __forceinline__ void multiply_bytes(float (&sums)[4], const unsigned int (&a)[4],
                                               const unsigned int (&b)[2]) {
    MULTIPLY("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f", sums, a, b[0], b[1]);
}

// Of 8-bit numbers: whole ones with sums of int, e4m3 with sums of float. b is transposed, n x k, as weights are stored.
// A block of 4 warps computes 32 x 16 elements of c, each warp 16 x 8. Rows of 48 bytes in shared memory begin in
// different banks.
template <class Sum>
__global__ void matmul_bytes(const unsigned char* __restrict__ a, const unsigned char* __restrict__ b,
                             Sum* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(16) unsigned char tile_a[32][48], tile_b[16][48];
    const int t = threadIdx.x, lane = t % 32, row = t / 64 * 16, column = t / 32 % 2 * 8;
    const int block_row = blockIdx.y * 32, block_column = blockIdx.x * 16;
    Sum sums[4] = {};
    for (int from = 0; from < k; from += 32) {
        for (int i = t; i < 32 * 32; i += 128) {
            const int r = block_row + i / 32, s = from + i % 32;
            tile_a[i / 32][i % 32] = r < m && s < k ? a[(size_t)r * k + s] : 0;  // guard
        }
        for (int i = t; i < 16 * 32; i += 128) {
            const int r = block_column + i / 32, s = from + i % 32;
            tile_b[i / 32][i % 32] = r < n && s < k ? b[(size_t)r * k + s] : 0;  // guard
        }
        __syncthreads();  // without it, a warp would read what others have not written
        unsigned int of_a[4], of_b[2];
        for (int i = 0; i < 4; i++)
            of_a[i] = *reinterpret_cast<unsigned int*>(&tile_a[row + lane / 4 + i % 2 * 8][i / 2 * 16 + lane % 4 * 4]);
        for (int i = 0; i < 2; i++)
            of_b[i] = *reinterpret_cast<unsigned int*>(&tile_b[column + lane / 4][i * 16 + lane % 4 * 4]);
        multiply_bytes(sums, of_a, of_b);
        __syncthreads();  // without it, the next round would overwrite what another warp still reads
    }
    for (int e = 0; e < 4; e++) {
        const int r = block_row + row + lane / 4 + e / 2 * 8, s = block_column + column + lane % 4 * 2 + e % 2;
        if (r < m && s < n) c[(size_t)r * n + s] = sums[e];  // guard
    }
}

__device__ __forceinline__ unsigned int as_tf32(float x) {
    unsigned int rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

// Of float, rounded to tf32: a block of 4 warps computes 32 x 16 elements of c, each warp 16 x 8, from global memory.
__global__ void matmul_tf32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
                            int n, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.y * 32 + warp / 2 * 16 + lane / 4, column = blockIdx.x * 16 + warp % 2 * 8;
    auto element = [](const float* matrix, int rows, int columns, int r, int s) {
        return as_tf32(r < rows && s < columns ? matrix[(size_t)r * columns + s] : 0.0f);  // guard
    };
    float sums[4] = {};
    for (int from = 0; from < k; from += 8) {
        unsigned int of_a[4], of_b[2];
        for (int i = 0; i < 4; i++) of_a[i] = element(a, m, k, row + i % 2 * 8, from + i / 2 * 4 + lane % 4);
        for (int i = 0; i < 2; i++) of_b[i] = element(b, k, n, from + i * 4 + lane % 4, column + lane / 4);
        MULTIPLY("m16n8k8.row.col.f32.tf32.tf32.f32", "f", sums, of_a, of_b[0], of_b[1]);
    }
    for (int e = 0; e < 4; e++) {
        const int r = row + e / 2 * 8, s = column + lane % 4 * 2 + e % 2;
        if (r < m && s < n) c[(size_t)r * n + s] = sums[e];  // guard
    }
}
