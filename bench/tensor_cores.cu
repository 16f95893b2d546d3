// Products of bfloat16 matrices by tensor cores: c = a * b, with a of n x depth bfloat16, b of depth x n, and c of n x n
// float, all row-major. n must be a multiple of 64, and depth of 32.
#include <mma.h>

// Each block of 4 warps computes 64 x 64 elements of c, each warp 32 x 32, from global memory.
__global__ void matmul_wmma(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                            float* __restrict__ c, int n, int depth) {
    using namespace nvcuda::wmma;
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * 64 + warp / 2 * 32, column = blockIdx.x * 64 + warp % 2 * 32;
    fragment<accumulator, 16, 16, 16, float> sums[2][2];
    for (auto& line : sums)
        for (auto& sum : line) fill_fragment(sum, 0.0f);
    for (int k = 0; k < depth; k += 16) {
        fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> of_a[2];
        fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> of_b[2];
        for (int i = 0; i < 2; i++) load_matrix_sync(of_a[i], a + (size_t)(row + 16 * i) * depth + k, depth);
        for (int j = 0; j < 2; j++) load_matrix_sync(of_b[j], b + (size_t)k * n + column + 16 * j, n);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) mma_sync(sums[i][j], of_a[i], of_b[j], sums[i][j]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store_matrix_sync(c + (size_t)(row + 16 * i) * n + column + 16 * j, sums[i][j], n, mem_row_major);
}

__device__ unsigned int shared_address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }

// 16 bytes, done at the wait.
__device__ void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}
__device__ void commit() { asm volatile("cp.async.commit_group;"); }
template <int newest>
__device__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(newest));
}
__device__ void load_4(unsigned int (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row)));
}
__device__ void load_4_transposed(unsigned int (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row)));
}
// sums += a * b, of 16 x 16 and 16 x 8
__device__ void multiply_add(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Tiles of 64 x 32 of a and 32 x 64 of b in shared memory, two of each: one is copied while the other is multiplied.
// The 8 elements of a piece of 16 bytes stay together; the pieces of a row change places, so that eight rows of one
// 8 x 8 matrix are in different banks.
__device__ int place_in_a(int row, int piece) { return row * 32 + (piece ^ row / 2 % 4) * 8; }
__device__ int place_in_b(int row, int piece) { return row * 64 + (piece ^ row % 8) * 8; }

// Each block of 4 warps computes 64 x 64 elements of c, each warp 32 x 32.
__global__ void matmul_mma(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                           float* __restrict__ c, int n, int depth) {
    __shared__ __align__(128) __nv_bfloat16 tile_a[2][64 * 32], tile_b[2][32 * 64];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int block_row = blockIdx.y * 64, block_column = blockIdx.x * 64;
    const int row = warp / 2 * 32, column = warp % 2 * 32;
    float sums[2][4][4] = {};

    auto copy = [&](int stage, int k) {
        for (int piece = t; piece < 256; piece += 128) {
            const int r = piece / 4, p = piece % 4;
            copy_16(&tile_a[stage][place_in_a(r, p)], a + (size_t)(block_row + r) * depth + k + p * 8);
        }
        for (int piece = t; piece < 256; piece += 128) {
            const int r = piece / 8, p = piece % 8;
            copy_16(&tile_b[stage][place_in_b(r, p)], b + (size_t)(k + r) * n + block_column + p * 8);
        }
        commit();
    };

    copy(0, 0);
    for (int k = 0; k < depth; k += 32) {
        const int stage = k / 32 % 2;
        if (k + 32 < depth) {
            copy(1 - stage, k + 32);
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
                    multiply_add(sums[i][j], of_a[i], of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1]);
        }
        __syncthreads();  // without it, the next round would overwrite what another warp still reads
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++) {
                const int r = block_row + row + 16 * i + lane / 4 + e / 2 * 8;
                c[(size_t)r * n + block_column + column + 8 * j + lane % 4 * 2 + e % 2] = sums[i][j][e];
            }
}
