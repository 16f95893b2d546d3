// A product whose steps along k are shared by gridDim.z blocks: c += a * b^T, with a of m x k, b of n x k bfloat16, and
// c of m x n float, all row-major. k is a multiple of 8, n of 4. Each block has two stages, fills one while the other
// is multiplied, and adds its 64 x 64 sums to c by bulk reductions of rows. Boxes, with the swizzle of 128 bytes:
// 64 x 64.

struct Split {
    bf16 a[2][64 * 64], b[2][64 * 64];
    float out[64][64 + 4];
};

__device__ __forceinline__ void bulk_add(float* to, const float* from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

__global__ void __launch_bounds__(128)
    split(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Split& shared = *reinterpret_cast<Split*>(memory);
    __shared__ mbarrier full[2];
    const int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = (k + 63) / 64;
    const int first = steps * blockIdx.z / gridDim.z, last = steps * (blockIdx.z + 1) / gridDim.z;
    if (first == last) return;
    if (t == 0) {
        for (int s = 0; s < 2; s++) mbarrier_init(&full[s], 1);
        fence_mbarrier_init();
    }
    __syncthreads();  // without it, a thread would wait at a barrier that is not initialised

    auto load = [&](int step) {
        const int s = (step - first) % 2;
        mbarrier_expect(&full[s], sizeof shared.a[s] + sizeof shared.b[s]);
        tma_load(shared.a[s], &a, step * 64, row, &full[s]);
        tma_load(shared.b[s], &b, step * 64, column, &full[s]);
    };
    if (t == 0) load(first);
    float sums[32];
    for (int step = first; step < last; step++) {
        const int s = (step - first) % 2;
        const uint64_t of_a = tile_descriptor(shared.a[s]), of_b = tile_descriptor(shared.b[s]);
        if (t == 0 && step + 1 < last) load(step + 1);
        mbarrier_wait(&full[s], (step - first) / 2 % 2);
        wgmma_fence();
        for (int i = 0; i < 4; i++) wgmma_64x64<0, 0>(sums, of_a + 2 * i, of_b + 2 * i, step > first || i);
        wgmma_commit();
        wgmma_wait<0>();  // without it, the next step would fill a stage that is being read
    }
    const int warp = t / 32, lane = t % 32;
    for (int i = 0; i < 32; i++)
        shared.out[warp * 16 + lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
    fence_async();
    __syncthreads();  // without it, a row would be added before all its sums are there
    const int inside = n - column < 64 ? n - column : 64;
    if (t < 64 && row + t < m) {  // guard
        bulk_add(&c[(size_t)(row + t) * n + column], shared.out[t], inside * 4);
        bulk_commit();
        bulk_wait_read<0>();  // without it, the block might end while its memory is read
    }
}
