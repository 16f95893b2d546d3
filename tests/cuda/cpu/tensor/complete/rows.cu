// Softmax of rows with packed bf16, and attention forward by mma.sync.
#include <cuda_bf16.h>
#include <math_constants.h>

__device__ __forceinline__ unsigned int largest_of(unsigned int x, unsigned int y) {
    unsigned int most;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(x), "r"(y));
    return most;
}
__device__ __forceinline__ unsigned int multiply_add(unsigned int x, unsigned int y, unsigned int z) {
    unsigned int sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}
__device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Two floats as bf16, the first in the lower half.
__device__ __forceinline__ unsigned int pack(float low, float high) {
    unsigned int both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ float low(unsigned int both) { return __uint_as_float(both << 16); }
__device__ __forceinline__ float high(unsigned int both) { return __uint_as_float(both & 0xffff0000u); }

// y = softmax(x) of each row: `pairs` pairs of bf16. A warp computes a row, and a block has 4 warps.
__global__ void softmax(const unsigned int* __restrict__ x, unsigned int* __restrict__ y, int rows, int pairs) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;  // guard: all lanes of a warp have the same row
    x += (size_t)row * pairs, y += (size_t)row * pairs;
    unsigned int most = 0xff80ff80u;  // -infinity, twice
    for (int i = lane; i < pairs; i += 32) most = largest_of(most, x[i]);
    for (int s = 16; s > 0; s /= 2) most = largest_of(most, __shfl_xor_sync(0xffffffff, most, s));
    most = largest_of(most, most << 16 | most >> 16);
    // 2^(x * log2(e) - most * log2(e)), in one fma for two elements
    const unsigned int log2_e = 0x3fb93fb9u, minus_log2_e = 0xbfb9bfb9u, zeros = 0x80008000u;
    const unsigned int minus = multiply_add(most, minus_log2_e, zeros);
    float sum = 0.0f;
    for (int i = lane; i < pairs; i += 32) {
        const unsigned int exponents = multiply_add(x[i], log2_e, minus);
        sum += power_of_2(low(exponents)) + power_of_2(high(exponents));
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    for (int i = lane; i < pairs; i += 32) {
        const unsigned int exponents = multiply_add(x[i], log2_e, minus);
        y[i] = pack(power_of_2(low(exponents)) / sum, power_of_2(high(exponents)) / sum);
    }
}

__device__ __forceinline__ unsigned int shared_address(const void* p) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copy_16(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0));
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
__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned int (&a)[4], unsigned int b0,
                                         unsigned int b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// out = softmax(q * k^T / sqrt(64)) * v for each head, of n x 64; if `causal`, without the keys behind a query's own.
// A block of 4 warps computes 64 rows, each warp 16, over tiles of 32 keys, of which the next is copied while one is
// multiplied. The largest product so far and the sum of powers are kept for each row, and the output is scaled when the
// largest changes (online softmax). Rows of 72 elements in shared memory begin in different banks.
__global__ void attention(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                          const __nv_bfloat16* __restrict__ v, float* __restrict__ out, int n, int causal) {
    __shared__ __align__(16) __nv_bfloat16 keys[2][32][72], values[2][32][72];
    const int t = threadIdx.x, lane = t % 32, pair = lane % 4 * 2;
    const int row = blockIdx.x * 64 + t / 32 * 16 + lane / 4;  // this lane has rows `row` and `row + 8`
    const size_t head = (size_t)blockIdx.y * n * 64;
    q += head, k += head, v += head, out += head;

    auto load = [&](int tile) {
        for (int piece = t; piece < 32 * 8; piece += 128) {
            const int r = piece / 8, c = piece % 8 * 8, from = tile * 32 + r;
            const bool inside = from < n;  // guard
            copy_16(&keys[tile % 2][r][c], inside ? k + (size_t)from * 64 + c : k, inside);
            copy_16(&values[tile % 2][r][c], inside ? v + (size_t)from * 64 + c : v, inside);
        }
        asm volatile("cp.async.commit_group;");
    };

    unsigned int of_q[4][4];
    for (int step = 0; step < 4; step++)
        for (int i = 0; i < 4; i++) {
            const int r = row + i % 2 * 8, c = step * 16 + i / 2 * 8 + pair;
            of_q[step][i] = r < n ? *reinterpret_cast<const unsigned int*>(q + (size_t)r * 64 + c) : 0;  // guard
        }
    float sums[8][4] = {}, most[2] = {-CUDART_INF_F, -CUDART_INF_F}, total[2] = {};
    const int end = causal ? min(n, (int)blockIdx.x * 64 + 64) : n, tiles = (end + 31) / 32;
    load(0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) {
            load(tile + 1);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();  // without it, a warp would read what another has not waited for
        float scores[4][4] = {};
        for (int step = 0; step < 4; step++)
            for (int j = 0; j < 2; j++) {
                unsigned int of_k[4];
                load_4(of_k, &keys[tile % 2][j * 16 + lane / 16 * 8 + lane % 8][step * 16 + lane / 8 % 2 * 8]);
                multiply(scores[2 * j], of_q[step], of_k[0], of_k[1]);
                multiply(scores[2 * j + 1], of_q[step], of_k[2], of_k[3]);
            }
        for (int h = 0; h < 2; h++) {
            float largest = most[h];
            for (int j = 0; j < 4; j++)
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    const int key = tile * 32 + j * 8 + pair + e % 2;
                    const bool seen = key < n && (!causal || key <= row + h * 8);
                    scores[j][e] = seen ? scores[j][e] * (0.125f * 1.44269504f) : -CUDART_INF_F;
                    largest = fmaxf(largest, scores[j][e]);
                }
            for (int s = 1; s < 4; s *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
            const float scale = power_of_2(most[h] - largest);  // every row has seen key 0: `largest` is a number
            most[h] = largest;
            total[h] *= scale;
            for (int j = 0; j < 8; j++) sums[j][2 * h] *= scale, sums[j][2 * h + 1] *= scale;
            for (int j = 0; j < 4; j++)
                for (int e = 2 * h; e < 2 * h + 2; e++) total[h] += scores[j][e] = power_of_2(scores[j][e] - largest);
        }
        for (int step = 0; step < 2; step++) {
            unsigned int of_p[4];  // what a lane holds of the scores is what it needs of the first factor
            for (int i = 0; i < 4; i++)
                of_p[i] = pack(scores[2 * step + i / 2][i % 2 * 2], scores[2 * step + i / 2][i % 2 * 2 + 1]);
            for (int j = 0; j < 4; j++) {
                unsigned int of_v[4];
                load_4_transposed(of_v, &values[tile % 2][step * 16 + lane % 16][j * 16 + lane / 16 * 8]);
                multiply(sums[2 * j], of_p, of_v[0], of_v[1]);
                multiply(sums[2 * j + 1], of_p, of_v[2], of_v[3]);
            }
        }
        __syncthreads();  // without it, the next round would overwrite what another warp still reads
    }
    for (int h = 0; h < 2; h++) {
        for (int s = 1; s < 4; s *= 2) total[h] += __shfl_xor_sync(0xffffffff, total[h], s);
        if (row + h * 8 >= n) continue;  // guard
        for (int j = 0; j < 8; j++)
            for (int e = 0; e < 2; e++)
                out[(size_t)(row + h * 8) * 64 + j * 8 + pair + e] = sums[j][2 * h + e] / total[h];
    }
}
