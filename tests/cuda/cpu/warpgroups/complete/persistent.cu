// A product of bfloat16 matrices by blocks that stay and take one tile after the other: c = a * b^T, with a of m x k,
// b of n x k and c of m x n bfloat16, all row-major. k and n are multiples of 8; otherwise the sizes are free.
// Warpgroup 0 only copies; warpgroups 1 and 2 multiply 64 x 128 of a tile of 128 x 128 each.

constexpr int persistent_stages = 3;
struct PersistentStage {
    bf16 a[2][64 * 64];  // of each consumer
    bf16 b[128 * 64];
};
struct Persistent {
    PersistentStage stage[persistent_stages];
    bf16 out[8][2][16 * 64];  // of each consuming warp: 16 rows, columns 0 to 63 and 64 to 127
};

// Four matrices of 8 x 8 as bf16; each thread gives 8 sums, and the address of one row.
__device__ __forceinline__ void store_matrices(bf16* row, const float* s) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7]))
                 : "memory");
}

// Boxes, all with the swizzle of 128 bytes: 64 x 64 of a, 64 x 128 of b (64 along k), 64 x 16 of c.
__global__ void __launch_bounds__(384, 1)
    persistent(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
               const __grid_constant__ CUtensorMap c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Persistent& shared = *reinterpret_cast<Persistent*>(memory);
    __shared__ mbarrier full[persistent_stages], empty[persistent_stages];
    const int t = threadIdx.x, group = t / 128, across = (n + 127) / 128, tiles = across * ((m + 127) / 128);
    const int steps = (k + 63) / 64;
    if (t == 0) {
        for (int s = 0; s < persistent_stages; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);  // one thread of each consumer
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // without it, a thread would wait at a barrier that is not initialised

    int s = 0, parity = 0;
    auto advance = [&] {
        if (++s == persistent_stages) s = 0, parity ^= 1;
    };
    if (group == 0) {
        fewer_registers<40>();
        if (t == 0)
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const int row = tile / across * 128, column = tile % across * 128;
                for (int step = 0; step < steps; step++, advance()) {
                    mbarrier_wait(&empty[s], parity ^ 1);  // the first time, it is over at once
                    mbarrier_expect(&full[s], sizeof(PersistentStage));
                    for (int half = 0; half < 2; half++)
                        tma_load(shared.stage[s].a[half], &a, step * 64, row + 64 * half, &full[s]);
                    tma_load(shared.stage[s].b, &b, step * 64, column, &full[s]);
                }
            }
    } else {
        more_registers<232>();
        const int warp = t / 32 - 4, lane = t % 32;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int row = tile / across * 128, column = tile % across * 128;
            float sums[64];
            int last = 0;
            for (int step = 0; step < steps; step++, advance()) {
                mbarrier_wait(&full[s], parity);
                const uint64_t of_a = tile_descriptor(shared.stage[s].a[group - 1]);
                const uint64_t of_b = tile_descriptor(shared.stage[s].b);
                wgmma_fence();
                for (int i = 0; i < 4; i++) wgmma_64x128<0, 0>(sums, of_a + 2 * i, of_b + 2 * i, step || i);
                wgmma_commit();
                wgmma_wait<1>();  // the previous step's products are done
                if (step > 0 && t % 128 == 0) mbarrier_arrive(&empty[last]);
                last = s;
            }
            wgmma_wait<0>();
            if (t % 128 == 0) mbarrier_arrive(&empty[last]);

            bf16(&out)[2][16 * 64] = shared.out[warp];
            if (lane == 0) bulk_wait_read<0>();  // without it, the tile before would be overwritten while it is stored
            __syncwarp();
            for (int i = 0; i < 8; i++) {  // 16 x 16 elements: four matrices of 8 x 8
                const int r = lane % 16, chunk = i % 4 * 2 + lane / 16;
                store_matrices(&out[i / 4][r * 64 + (chunk ^ r % 8) * 8], &sums[8 * i]);
            }
            fence_async();
            __syncwarp();
            if (lane == 0) {
                for (int half = 0; half < 2; half++)
                    tma_store(&c, column + 64 * half, row + warp * 16, out[half]);
                bulk_commit();
            }
        }
        if (lane == 0) bulk_wait_read<0>();  // without it, the block might end while its memory is read
    }
}
