// Attention forward for one head of 64 dimensions: out = softmax(q * k^T / 8) * v, with q, k and v of n x 64 bfloat16
// and out of n x 64 float. A block computes 64 queries; warps 0 to 3 compute, warp 4 copies tiles of 64 keys and of 64
// values to two stages. Boxes, with the swizzle of 128 bytes: 64 x 64.
#include <math_constants.h>

struct Attention {
    bf16 q[64 * 64], k[2][64 * 64], v[2][64 * 64];
};

template <bool causal>
__global__ void __launch_bounds__(160)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
              const __grid_constant__ CUtensorMap v, float* __restrict__ out, int n) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Attention& shared = *reinterpret_cast<Attention*>(memory);
    __shared__ mbarrier full_q, full_k[2], full_v[2], empty_k[2], empty_v[2];
    const int t = threadIdx.x, row = blockIdx.x * 64;
    const int keys = causal && row + 64 < n ? row + 64 : n, tiles = (keys + 63) / 64;
    if (t == 0) {
        mbarrier_init(&full_q, 1);
        for (int s = 0; s < 2; s++) {
            mbarrier_init(&full_k[s], 1);
            mbarrier_init(&full_v[s], 1);
            mbarrier_init(&empty_k[s], 128);
            mbarrier_init(&empty_v[s], 128);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // without it, a thread would wait at a barrier that is not initialised

    if (t >= 128) {
        if (t > 128) return;
        mbarrier_expect(&full_q, sizeof shared.q);
        tma_load(shared.q, &q, 0, row, &full_q);
        for (int tile = 0; tile < tiles; tile++) {
            const int s = tile % 2, parity = tile / 2 % 2 ^ 1;
            mbarrier_wait(&empty_k[s], parity);
            mbarrier_expect(&full_k[s], sizeof shared.k[s]);
            tma_load(shared.k[s], &k, 0, tile * 64, &full_k[s]);
            mbarrier_wait(&empty_v[s], parity);
            mbarrier_expect(&full_v[s], sizeof shared.v[s]);
            tma_load(shared.v[s], &v, 0, tile * 64, &full_v[s]);
        }
        return;
    }

    const int lane = t % 32, first = row + t / 32 * 16 + lane / 4;  // this thread's rows: `first` and 8 below
    const float scale = 0.125f * 1.44269504f;                       // of exponents of 2
    float sums[32] = {}, most[2] = {-CUDART_INF_F, -CUDART_INF_F}, total[2] = {};
    mbarrier_wait(&full_q, 0);
    for (int tile = 0; tile < tiles; tile++) {
        const int s = tile % 2, parity = tile / 2 % 2;
        float scores[32];
        mbarrier_wait(&full_k[s], parity);
        wgmma_fence();
        for (int i = 0; i < 4; i++)
            wgmma_64x64<0, 0>(scores, tile_descriptor(shared.q) + 2 * i, tile_descriptor(shared.k[s]) + 2 * i, i);
        wgmma_commit();
        wgmma_wait<0>();
        mbarrier_arrive(&empty_k[s]);

        for (int i = 0; i < 32; i++) {
            const int key = tile * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (key >= n || (causal && key > first + i / 2 % 2 * 8)) scores[i] = -CUDART_INF_F;
        }
        float shrink[2];
        for (int half = 0; half < 2; half++) {
            float now = most[half];
            for (int i = 0; i < 32; i++)
                if (i / 2 % 2 == half) now = fmaxf(now, scores[i]);
            now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 2));
            shrink[half] = exp2f((most[half] - now) * scale);
            most[half] = now;
            total[half] *= shrink[half];
        }
        for (int i = 0; i < 32; i++) {
            scores[i] = exp2f((scores[i] - most[i / 2 % 2]) * scale);
            total[i / 2 % 2] += scores[i];
            sums[i] *= shrink[i / 2 % 2];
        }
        unsigned int weights[4][4];  // 64 x 16 each, as the operand A
        for (int i = 0; i < 16; i++) weights[i / 4][i % 4] = pack(scores[2 * i], scores[2 * i + 1]);
        mbarrier_wait(&full_v[s], parity);
        wgmma_fence();
        for (int i = 0; i < 4; i++)
            wgmma_64x64<1>(sums, weights[i], tile_descriptor(shared.v[s]) + i * (2048 >> 4), 1);
        wgmma_commit();
        wgmma_wait<0>();
        mbarrier_arrive(&empty_v[s]);
    }
    for (int half = 0; half < 2; half++) {
        total[half] += __shfl_xor_sync(0xffffffff, total[half], 1);
        total[half] += __shfl_xor_sync(0xffffffff, total[half], 2);
    }
    for (int i = 0; i < 32; i++) {
        const int r = first + i / 2 % 2 * 8;
        if (r < n) out[(size_t)r * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i] / total[i / 2 % 2];  // guard
    }
}
