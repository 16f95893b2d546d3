// A product of bfloat16 matrices with TMA and wgmma: c = a * b, with a of m x k, b of k x n, and c of m x n float, all
// row-major. k and n are multiples of 8, as the tensor maps need; otherwise the sizes are free.

constexpr int stages = 4;
struct Stage {
    bf16 a[2][64 * 64];  // rows along k: rows 0 to 63 and 64 to 127
    bf16 b[2][64 * 64];  // rows along n: columns 0 to 63 and 64 to 127
};

// Each block of two warpgroups computes 128 x 128 elements of c, each warpgroup 64 x 128. Boxes: 64 x 64 of a and of b,
// with the swizzle of 128 bytes.
__global__ void __launch_bounds__(256)
    matmul_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* __restrict__ c,
                 int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stage* stage = reinterpret_cast<Stage*>(memory);
    __shared__ mbarrier full[stages], empty[stages];
    const int t = threadIdx.x, row = blockIdx.y * 128, column = blockIdx.x * 128, steps = (k + 63) / 64;
    if (t == 0) {
        for (int s = 0; s < stages; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 8);  // one arrival per warp
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // without it, a thread would wait at a barrier that is not initialised

    auto load = [&](int step) {
        const int s = step % stages;
        mbarrier_expect(&full[s], sizeof(Stage));
        for (int half = 0; half < 2; half++) {
            tma_load(stage[s].a[half], &a, step * 64, row + 64 * half, &full[s]);
            tma_load(stage[s].b[half], &b, column + 64 * half, step * 64, &full[s]);
        }
    };
    if (t == 0)
        for (int step = 0; step < stages - 1 && step < steps; step++) load(step);

    float sums[64];
    for (int step = 0; step < steps; step++) {
        const int s = step % stages;
        mbarrier_wait(&full[s], step / stages % 2);
        const uint64_t of_a = tile_descriptor(stage[s].a[t / 128]);
        const uint64_t of_b = tile_descriptor(stage[s].b, sizeof stage[s].b[0]);
        wgmma_fence();
        for (int i = 0; i < 4; i++)  // 16 along k: 32 bytes of a row of a, and 16 rows of b
            wgmma_64x128<0, 1>(sums, of_a + i * (32 >> 4), of_b + i * (2048 >> 4), step || i);
        wgmma_commit();
        wgmma_wait<1>();  // the previous step's products are done: its stage is free
        if (step > 0 && t % 32 == 0) mbarrier_arrive(&empty[(step - 1) % stages]);
        const int next = step + stages - 1;
        if (t == 0 && next < steps) {
            if (step > 0) mbarrier_wait(&empty[next % stages], (step - 1) / stages % 2);
            load(next);
        }
    }
    wgmma_wait<0>();

    const int warp = t / 32, lane = t % 32;
    for (int i = 0; i < 16; i++)
        for (int half = 0; half < 2; half++) {
            const int r = row + warp * 16 + lane / 4 + half * 8, at = column + i * 8 + lane % 4 * 2;
            if (r < m && at < n)  // guard: n is even
                *reinterpret_cast<float2*>(&c[(size_t)r * n + at]) =
                    make_float2(sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1]);
        }
}
