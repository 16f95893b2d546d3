// mbarriers and the bulk copy engine: wrong phases, parities, bytes and counts, memory that is used too early, and fences
// that are missing.
typedef unsigned long long mbarrier;
__device__ unsigned int at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
#define INIT(b, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(b)), "r"(n))
#define ARRIVE_AS(how, b) asm volatile("{ .reg .b64 state; mbarrier.arrive." how ".cta.shared::cta.b64 state, [%0]; }" \
    :: "r"(at(b)) : "memory")
#define ARRIVE(b) ARRIVE_AS("release", b)
#define EXPECT(b, bytes) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" \
    :: "r"(at(b)), "r"((int)(bytes)) : "memory")
#define WAIT(b, parity) asm volatile("{ .reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;" \
    " @!p bra again; }" :: "r"(at(b)), "r"(parity) : "memory")
#define LOAD(to, from, bytes, b) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" \
    " [%0], [%1], %2, [%3];" :: "r"(at(to)), "l"(from), "r"((int)(bytes)), "r"(at(b)) : "memory")
#define STORE(to, from, bytes) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \
    :: "l"(to), "r"(at(from)), "r"((int)(bytes)) : "memory")
#define ADD(to, from, bytes) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" \
    :: "l"(to), "r"(at(from)), "r"((int)(bytes)) : "memory")
#define FENCE_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define FENCE_ASYNC() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define WAIT_DONE() asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")

// ---- uninitialized_parity_of_the_phase_before: a fresh barrier passes a wait for parity 1.
__global__ void reverse_tile(const float* x, float* out) {
    __shared__ alignas(16) float tile[128];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 0) {
        EXPECT(&full, sizeof tile);
        LOAD(tile, x + blockIdx.x * 128, sizeof tile, &full);  // BUG: the other
    }
#ifdef MENDED
    WAIT(&full, 0);
#else
    WAIT(&full, 1);
#endif
    out[blockIdx.x * 128 + t] = tile[127 - t];  // BUG: uninitialized
}

// ---- race_parity_never_flips: the second round passes at once, since phase 0 is over.
__global__ void sum_of_tiles(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float tile[128];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        if (t == 0) {
            EXPECT(&full, sizeof tile);
            LOAD(tile, x + k * 128, sizeof tile, &full);  // BUG: race, the other
        }
#ifdef MENDED
        WAIT(&full, k & 1);
#else
        WAIT(&full, 0);
#endif
        sum += tile[127 - t];  // BUG: race, the other
        __syncthreads();
    }
    if (t == 0) WAIT(&full, (tiles - 1) & 1);
    out[t] = sum;
}

// ---- divergent_barrier_more_bytes_announced: expect_tx counts elements of the wrong size.
__global__ void doubled(const short* x, short* out) {
    __shared__ alignas(16) short tile[128];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 0) {
#ifdef MENDED
        EXPECT(&full, 128 * sizeof(short));
#else
        EXPECT(&full, 128 * sizeof(int));
#endif
        LOAD(tile, x, sizeof tile, &full);
    }
    WAIT(&full, 0);  // BUG: divergent_barrier
    out[t] = 2 * tile[t];
}

// ---- asynchronous_second_copy_not_announced: the phase ends when the bytes of the first have come.
__global__ void product_of_tiles(const float* a, const float* b, float* out) {
    __shared__ alignas(16) float left[64], right[64];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 0) {
#ifdef MENDED
        EXPECT(&full, sizeof left + sizeof right);
#else
        EXPECT(&full, sizeof left);
#endif
        LOAD(left, a, sizeof left, &full);
        LOAD(right, b, sizeof right, &full);  // BUG: asynchronous
    }
    WAIT(&full, 0);
    out[t] = left[t] * right[63 - t];  // BUG: uninitialized as well
}

// ---- asynchronous_no_fence_after_init: the copy engine may not see the barrier.
__global__ void scaled(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
#ifdef MENDED
        FENCE_INIT();
#endif
    }
    __syncthreads();
    if (t == 0) {
        EXPECT(&full, sizeof tile);
        LOAD(tile, x, sizeof tile, &full);  // BUG: asynchronous
    }
    WAIT(&full, 0);
    out[t] = 3.0f * tile[t];
}

// ---- uninitialized_no_barrier_after_init: other threads wait at a barrier that may not be there yet.
__global__ void shifted(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        FENCE_INIT();
        EXPECT(&full, sizeof tile);
        LOAD(tile, x, sizeof tile, &full);
    }
#ifdef MENDED
    __syncthreads();
#endif
    WAIT(&full, 0);  // BUG: uninitialized
    out[t] = tile[(t + 1) % 64];
}

// ---- race_one_thread_waits: the others go on without a barrier.
__global__ void centred(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 0) {
        EXPECT(&full, sizeof tile);
        LOAD(tile, x, sizeof tile, &full);  // BUG: race, the other
        WAIT(&full, 0);
    }
#ifdef MENDED
    __syncthreads();
#endif
    out[t] = tile[t] - tile[0];  // BUG: race, the other
}

// ---- race_stage_filled_while_read: nobody says that a stage has been read.
__global__ void sums_by_stages(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float stage[2][64];
    __shared__ mbarrier full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            INIT(&full[s], 1);
            INIT(&empty[s], 64);
        }
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 64) {
        for (int k = 0; k < tiles; k++) {
#ifdef MENDED
            WAIT(&empty[k % 2], k / 2 & 1 ^ 1);
#else
            if (k >= 2) WAIT(&full[k % 2], k / 2 & 1 ^ 1);
#endif
            EXPECT(&full[k % 2], sizeof stage[0]);
            LOAD(stage[k % 2], x + 64 * k, sizeof stage[0], &full[k % 2]);  // BUG: race, the other
        }
    } else if (t < 64) {
        float sum = 0;
        for (int k = 0; k < tiles; k++) {
            WAIT(&full[k % 2], k / 2 & 1);  // BUG: divergent_barrier as well
            sum += stage[k % 2][63 - t];  // BUG: race, the other
            ARRIVE(&empty[k % 2]);
        }
        out[t] = sum;
    }
}

// ---- race_count_of_one_reader: the stage is free when the first of two warps has read it.
__global__ void sums_by_warps(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float stage[2][64];
    __shared__ mbarrier full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            INIT(&full[s], 1);
#ifdef MENDED
            INIT(&empty[s], 2);
#else
            INIT(&empty[s], 1);
#endif
        }
        FENCE_INIT();
    }
    __syncthreads();
    if (t >= 64) {
        if (t > 64) return;
        for (int k = 0; k < tiles; k++) {
            WAIT(&empty[k % 2], k / 2 & 1 ^ 1);
            EXPECT(&full[k % 2], sizeof stage[0]);
            LOAD(stage[k % 2], x + 64 * k, sizeof stage[0], &full[k % 2]);  // BUG: race, the other
        }
    } else {
        float sum = 0;
        for (int k = 0; k < tiles; k++) {
            WAIT(&full[k % 2], k / 2 & 1);
            sum += stage[k % 2][63 - t];  // BUG: race, the other
            __syncwarp();
            if (t % 32 == 0) ARRIVE(&empty[k % 2]);
        }
        out[t] = sum;
    }
}

// ---- divergent_barrier_count_of_threads: one lane of each warp arrives, and the count is that of all threads.
__global__ void sums_by_lanes(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float stage[64];
    __shared__ mbarrier full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
#ifdef MENDED
        INIT(&empty, 2);
#else
        INIT(&empty, 64);
#endif
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 64) {
        for (int k = 0; k < tiles; k++) {
            WAIT(&empty, k & 1 ^ 1);  // BUG: divergent_barrier
            EXPECT(&full, sizeof stage);
            LOAD(stage, x + 64 * k, sizeof stage, &full);
        }
    } else if (t < 64) {
        float sum = 0;
        for (int k = 0; k < tiles; k++) {
            WAIT(&full, k & 1);  // BUG: divergent_barrier
            sum += stage[63 - t];
            __syncwarp();
            if (t % 32 == 0) ARRIVE(&empty);
        }
        out[t] = sum;
    }
}

// ---- uninitialized_waits_for_other_stage: the barrier is that of the stage which comes next.
__global__ void differences(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float stage[2][64];
    __shared__ mbarrier full[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; s++) INIT(&full[s], 1);
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 0)
        for (int s = 0; s < 2; s++) {
            EXPECT(&full[s], sizeof stage[0]);
            LOAD(stage[s], x + 64 * s, sizeof stage[0], &full[s]);  // BUG: the other
        }
#ifdef MENDED
    WAIT(&full[0], 0);
#else
    WAIT(&full[1], 0);
#endif
    const float first = stage[0][63 - t];  // BUG: uninitialized
    WAIT(&full[1], 0);
    out[t] = stage[1][t] - first;
    if (t == 0) WAIT(&full[0], 0);
}

// ---- race_relaxed_arrival: .relaxed says nothing of what was read before.
__global__ void relaxed_sums(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float stage[64];
    __shared__ mbarrier full, empty;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&full, 1);
        INIT(&empty, 64);
        FENCE_INIT();
    }
    __syncthreads();
    if (t == 64) {
        for (int k = 0; k < tiles; k++) {
            WAIT(&empty, k & 1 ^ 1);
            EXPECT(&full, sizeof stage);
            LOAD(stage, x + 64 * k, sizeof stage, &full);  // BUG: race, the other
        }
    } else if (t < 64) {
        float sum = 0;
        for (int k = 0; k < tiles; k++) {
            WAIT(&full, k & 1);
            sum += stage[63 - t];  // BUG: race, the other
#ifdef MENDED
            ARRIVE(&empty);
#else
            ARRIVE_AS("relaxed", &empty);
#endif
        }
        out[t] = sum;
    }
}

// ---- race_no_proxy_fence: __syncthreads orders the writes for threads, not for the copy engine.
__global__ void squares(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    const int t = threadIdx.x;
    tile[t] = x[blockIdx.x * 64 + t] * x[blockIdx.x * 64 + t];  // BUG: race, the other
#ifdef MENDED
    FENCE_ASYNC();
#endif
    __syncthreads();
    if (t == 0) {
        STORE(out + blockIdx.x * 64, tile, sizeof tile);  // BUG: race, the other
        COMMIT();
        WAIT_READ();
    }
}

// ---- race_proxy_fence_by_one_thread: each thread has to fence its own writes, before the barrier.
__global__ void cubes(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    const int t = threadIdx.x;
    tile[t] = x[t] * x[t] * x[t];  // BUG: the other
#ifdef MENDED
    FENCE_ASYNC();
#endif
    __syncthreads();
    if (t == 0) {
        FENCE_ASYNC();
        STORE(out, tile, sizeof tile);  // BUG: race
        COMMIT();
        WAIT_READ();
    }
}

// ---- race_source_overwritten: the next tile is written while the copy engine may still read this one.
__global__ void running_sums(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float tile[64];
    const int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        sum += x[64 * k + t];
        tile[t] = sum;  // BUG: race, the other
        FENCE_ASYNC();
        __syncthreads();
        if (t == 0) {
            STORE(out + 64 * k, tile, sizeof tile);  // BUG: race, the other
            COMMIT();
#ifdef MENDED
            WAIT_READ();
#endif
        }
        __syncthreads();
    }
    if (t == 0) WAIT_READ();
}

// ---- asynchronous_ends_before_store_has_read: the block's shared memory is the next block's then.
__global__ void halves(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    const int t = threadIdx.x;
    tile[t] = 0.5f * x[blockIdx.x * 64 + t];
    FENCE_ASYNC();
    __syncthreads();
    if (t == 0) {
        STORE(out + blockIdx.x * 64, tile, sizeof tile);  // BUG: asynchronous
        COMMIT();
#ifdef MENDED
        WAIT_READ();
#endif
    }
}

// ---- asynchronous_group_not_committed: there is no group to wait for.
__global__ void thirds(const float* x, float* out) {
    __shared__ alignas(16) float tile[64];
    const int t = threadIdx.x;
    tile[t] = x[t] / 3.0f;
    FENCE_ASYNC();
    __syncthreads();
    if (t == 0) {
        STORE(out, tile, sizeof tile);  // BUG: asynchronous
#ifdef MENDED
        COMMIT();
#endif
        WAIT_READ();
    }
}

// ---- uninitialized_result_read_after_wait_read: .read waits for the source, and not for the result.
__global__ void total(const float* x, float* sums, float* out) {
    __shared__ alignas(16) float tile[64];
    const int t = threadIdx.x;
    tile[t] = x[t];
    FENCE_ASYNC();
    __syncthreads();
    if (t == 0) {
        ADD(sums, tile, sizeof tile);  // BUG: the other
        COMMIT();
#ifdef MENDED
        WAIT_DONE();
#else
        WAIT_READ();
#endif
        out[0] = sums[5];  // BUG: uninitialized
    }
}

// ---- asynchronous_barrier_overwritten: the array is one element too short for its index, and the barrier follows.
__global__ void counted(const float* x, float* out) {
    __shared__ struct {
        alignas(16) float tile[64];
        int odd[2];
        mbarrier full;
    } s;
    const int t = threadIdx.x;
    if (t == 0) {
        INIT(&s.full, 1);  // BUG: the other
        FENCE_INIT();
    }
    __syncthreads();
#ifdef MENDED
    int* odd = s.odd + 1;
#else
    int* odd = s.odd + 2;
#endif
    if (t == 0) {
        EXPECT(&s.full, sizeof s.tile);
        LOAD(s.tile, x, sizeof s.tile, &s.full);
    }
    WAIT(&s.full, 0);  // BUG: asynchronous as well
    if (t == 63) *odd = t;  // BUG: asynchronous
    out[t] = s.tile[t];
}

// ---- asynchronous_nobody_waits_for_the_last_copy: one copy more is begun than is used.
__global__ void prefetched(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float stage[2][64];
    __shared__ mbarrier full[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; s++) INIT(&full[s], 1);
        FENCE_INIT();
    }
    __syncthreads();
    float sum = 0;
    for (int k = -1; k < tiles; k++) {
#ifdef MENDED
        const bool more = k + 1 < tiles;
#else
        const bool more = k + 1 <= tiles;
#endif
        if (t == 0 && more) {
            EXPECT(&full[(k + 1) % 2], sizeof stage[0]);
            LOAD(stage[(k + 1) % 2], x + 64 * (k + 1), sizeof stage[0], &full[(k + 1) % 2]);  // BUG: asynchronous
        }
        if (k < 0) continue;
        WAIT(&full[k % 2], k / 2 & 1);
        sum += stage[k % 2][63 - t];
        __syncthreads();
    }
    out[t] = sum;
}
