// Named barriers between groups of warps: a wait that is missing or comes too early, groups and counts that do not fit.
__device__ __forceinline__ void sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}

// ---- race_consumer_does_not_wait: nothing tells the second warp that the first has written.
__global__ void handed_over(const float* x, float* out) {
    __shared__ float tile[32];
    const int t = threadIdx.x, lane = t % 32;
    if (t < 32) tile[t] = 0;
    __syncthreads();
    if (t < 32) {
        tile[t] = x[t];  // BUG: race, the other
        arrive(1, 64);
    } else {
#ifdef MENDED
        sync(1, 64);
#endif
        out[lane] = tile[31 - lane];  // BUG: race, the other
    }
}

// ---- race_arrives_before_it_writes: who waits knows only what was done before the arrival.
__global__ void announced(const float* x, float* out) {
    __shared__ float tile[64];
    const int t = threadIdx.x, i = t % 64;
    if (t < 64) tile[t] = 0;
    __syncthreads();
    if (t < 64) {
#ifdef MENDED
        tile[t] = x[t];
        arrive(1, 128);
#else
        arrive(1, 128);
        tile[t] = x[t];  // BUG: race, the other
#endif
    } else {
        sync(1, 128);
        out[i] = tile[63 - i];  // BUG: race, the other
    }
}

// ---- race_stage_is_not_handed_back: the tile is filled again without waiting for those that read it.
__global__ void summed(const float* x, float* out, int tiles) {
    __shared__ float tile[32];
    const int t = threadIdx.x, lane = t % 32;
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        if (t < 32) {
#ifdef MENDED
            if (k) sync(3, 64);
#endif
            tile[t] = x[32 * k + t];  // BUG: race, the other
            arrive(1 + k % 2, 64);
        } else {
            sync(1 + k % 2, 64);
            sum += tile[31 - lane];  // BUG: race, the other
#ifdef MENDED
            if (k + 1 < tiles) arrive(3, 64);
#endif
        }
    }
    if (t >= 32) out[lane] = sum;
}

// ---- race_barrier_of_one_group: each group waits for itself, and reads what the other has written.
__global__ void exchanged(const float* x, float* out) {
    __shared__ float tile[128];
    const int t = threadIdx.x, group = t / 64;
    tile[t] = 0;
    __syncthreads();
    tile[t] = x[t];  // BUG: race, the other
#ifdef MENDED
    sync(1, 128);
#else
    sync(1 + group, 64);
#endif
    out[t] = tile[127 - t] + group;  // BUG: race, the other
}

// ---- race_two_groups_use_one_number: the arrivals of both groups end the phase before anyone waits.
__global__ void split(const float* x, float* out) {
    __shared__ float tile[64];
    const int t = threadIdx.x;
#ifdef MENDED
    const int full = 1 + t / 32 % 2;
#else
    const int full = 1;
#endif
    if (t < 64) tile[t] = 0;
    __syncthreads();
    if (t < 64) {
        tile[t] = x[t];  // BUG: race, the other
        arrive(full, 64);
    } else {
        sync(full, 64);
        out[t - 64] = tile[(t - 64) ^ 31];  // BUG: race, the other
    }
}

// ---- divergent_barrier_counts_the_whole_block: the warp that loads does not come to the consumers' own barrier.
__global__ void normalized(const float* x, float* out) {
    __shared__ float tile[64], parts[2];
    const int t = threadIdx.x, i = t - 32;
    if (t < 32) {
        tile[t] = x[t];
        tile[t + 32] = x[t + 32];
        arrive(1, 96);
        sync(2, 96);  // BUG: the other
        return;
    }
    sync(1, 96);
    float sum = tile[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (i % 32 == 0) parts[i / 32] = sum;
#ifdef MENDED
    sync(3, 64);
#else
    sync(3, 96);  // BUG: divergent_barrier, the other
#endif
    out[i] = tile[i] / (parts[0] + parts[1]);
    arrive(2, 96);
}

// ---- divergent_barrier_producer_leaves_early: one tile fewer is loaded than is waited for.
__global__ void last_of_tiles(const float* x, float* out, int tiles) {
    __shared__ float tile[2][32];
    const int t = threadIdx.x, lane = t % 32;
    if (t < 64) tile[t / 32][lane] = 0;
    __syncthreads();
#ifdef MENDED
    const int loads = tiles;
#else
    const int loads = tiles - 1;
#endif
    for (int k = 0; k < (t < 32 ? loads : tiles); k++) {
        if (t < 32) {
            if (k >= 2) sync(3 + k % 2, 64);
            tile[k % 2][lane] = x[32 * k + lane];
            arrive(1 + k % 2, 64);
        } else {
            sync(1 + k % 2, 64);  // BUG: divergent_barrier
            out[lane] = tile[k % 2][31 - lane];
            if (k + 2 < tiles) arrive(3 + k % 2, 64);
        }
    }
}
