// Products by clusters of two blocks: c = a * b^T, row-major.

constexpr int cluster_stages = 3;
struct ClusterStage {
    bf16 a[2][32 * 64];  // one half from each block
    bf16 b[128 * 64];
};

// a of m x k, b of n x k, bfloat16; c of m x n float. The two blocks compute 64 x 128 each, side by side: each loads
// half of the tile of a for both, and its own tile of b. Warps 0 to 3 multiply, warp 4 copies. k is a multiple of 8, n
// is even. Boxes, with the swizzle of 128 bytes: 64 x 32 of a, 64 x 128 of b (64 along k).
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160)
    multicast(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* __restrict__ c,
              int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    ClusterStage* stage = reinterpret_cast<ClusterStage*>(memory);
    __shared__ mbarrier full[cluster_stages], empty[cluster_stages];
    const int t = threadIdx.x, rank = cluster_rank(), steps = (k + 63) / 64;
    const int row = blockIdx.y * 64, column = blockIdx.x * 128;
    if (t == 0) {
        for (int s = 0; s < cluster_stages; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);  // both blocks read what this one copies
        }
        fence_mbarrier_init();
    }
    cluster_sync();  // without it, a copy could come before the peer's barriers are initialised

    if (t == 128) {
        for (int step = 0; step < steps; step++) {
            const int s = step % cluster_stages;
            mbarrier_wait(&empty[s], step / cluster_stages % 2 ^ 1);
            mbarrier_expect(&full[s], sizeof(ClusterStage));
            tma_load_multicast(stage[s].a[rank], &a, step * 64, row + 32 * rank, &full[s], 3);
            tma_load(stage[s].b, &b, step * 64, column, &full[s]);
        }
    } else if (t < 128) {
        float sums[64];
        for (int step = 0; step < steps; step++) {
            const int s = step % cluster_stages;
            mbarrier_wait(&full[s], step / cluster_stages % 2);
            const uint64_t of_a = tile_descriptor(stage[s].a), of_b = tile_descriptor(stage[s].b);
            wgmma_fence();
            for (int i = 0; i < 4; i++) wgmma_64x128<0, 0>(sums, of_a + 2 * i, of_b + 2 * i, step || i);
            wgmma_commit();
            wgmma_wait<0>();
            if (t < 2) mbarrier_arrive_in(&empty[s], t);
        }
        const int warp = t / 32, lane = t % 32;
        for (int i = 0; i < 32; i++) {
            const int r = row + warp * 16 + lane / 4 + i % 2 * 8, at = column + i / 2 * 8 + lane % 4 * 2;
            if (r < m && at < n)  // guard
                *reinterpret_cast<float2*>(&c[(size_t)r * n + at]) = make_float2(sums[2 * i], sums[2 * i + 1]);
        }
    }
    cluster_sync();  // without it, a block could end before its peer arrives at its barriers
}

// d += a * b, of 64 x 32 and 32 x 16 whole numbers
__device__ __forceinline__ void wgmma_s8_64x16(int (&d)[8], uint64_t a, uint64_t b, int adds) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "setp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p;\n}"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
        : "l"(a), "l"(b), "r"(adds));
}

// Adds to a variable of the block `rank`, whose barrier counts 4 bytes.
__device__ __forceinline__ void add_in(int* to, int value, mbarrier* complete, int rank) {
    asm volatile(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%0], %1, [%2];" ::"r"(
            address_in(to, rank)),
        "r"(value), "r"(address_in(complete, rank))
        : "memory");
}

// a of m x k, b of n x k, both of bytes; c of m x n ints. The two blocks share the steps along k; block 1 adds its sums
// to those of block 0, in its shared memory. k is a multiple of 16. Boxes, with the swizzle of 128 bytes: 128 x 64 of a
// and 128 x 16 of b (128 along k).
__global__ void __cluster_dims__(1, 1, 2) __launch_bounds__(128)
    halves(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, int* __restrict__ c, int m,
           int n, int k) {
    __shared__ __align__(1024) signed char tile_a[64 * 128], tile_b[16 * 128];
    __shared__ int others[64 * 16];
    __shared__ mbarrier full, complete;
    const int t = threadIdx.x, rank = cluster_rank(), row = blockIdx.y * 64, column = blockIdx.x * 16;
    for (int i = t; i < 64 * 16; i += 128) others[i] = 0;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&complete, 1);
        fence_mbarrier_init();
        if (rank == 0) mbarrier_expect(&complete, sizeof others);
    }
    cluster_sync();  // without it, the peer could add before the zeros are there

    int sums[8] = {}, parity = 0;
    for (int step = rank; step * 128 < k; step += 2, parity ^= 1) {
        if (t == 0) {
            mbarrier_expect(&full, sizeof tile_a + sizeof tile_b);
            tma_load(tile_a, &a, step * 128, row, &full);
            tma_load(tile_b, &b, step * 128, column, &full);
        }
        mbarrier_wait(&full, parity);
        wgmma_fence();
        for (int i = 0; i < 4; i++)
            wgmma_s8_64x16(sums, tile_descriptor(tile_a) + 2 * i, tile_descriptor(tile_b) + 2 * i, 1);
        wgmma_commit();
        wgmma_wait<0>();  // without it, the next step would overwrite tiles that are being read
    }
    const int warp = t / 32, lane = t % 32;
    if (rank == 0) mbarrier_wait(&complete, 0);
    for (int i = 0; i < 8; i++) {
        const int r = warp * 16 + lane / 4 + i / 2 % 2 * 8, at = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (rank == 1)
            add_in(&others[r * 16 + at], sums[i], &complete, 0);
        else if (row + r < m && column + at < n)  // guard
            c[(size_t)(row + r) * n + column + at] = sums[i] + others[r * 16 + at];
    }
    cluster_sync();  // without it, block 0 could end before its peer's sums come
}
