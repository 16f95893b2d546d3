// Masks of lanes that do not match the lanes that come: match, vote, redux and shuffles.

// ---- divergent_barrier_match_without_the_tail: the mask names all lanes, and those beyond the end have left.
// A histogram in which one lane adds for all lanes of its warp with the same value.
__global__ void histogram(const int* x, int* bins, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
#ifdef MENDED
    const unsigned int there = __ballot_sync(0xffffffff, i < n);
    if (i >= n) return;  // guard
    const unsigned int same = __match_any_sync(there, x[i]);
#else
    if (i >= n) return;
    const unsigned int same = __match_any_sync(0xffffffff, x[i]);  // BUG: divergent_barrier
#endif
    if (lane == __ffs(same) - 1) atomicAdd(&bins[x[i]], __popc(same));
}

// ---- divergent_barrier_vote_after_break: lanes leave the loop one by one, and those that stay ask all.
// Newton's method for square roots, until no lane of the warp moves.
__global__ void square_roots(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = i < n ? x[i] : 1.0f;
    float root = value > 1.0f ? value : 1.0f;
    for (int step = 0; step < 40; step++) {
        const float next = 0.5f * (root + value / root);
        const bool moves = fabsf(next - root) > 1e-6f * root;
        root = next;
#ifndef MENDED
        if (!moves) break;
#endif
        if (!__any_sync(0xffffffff, moves)) break;  // BUG: divergent_barrier
    }
    if (i < n) out[i] = root;
}

// ---- divergent_barrier_redux_of_half_a_warp: only 16 lanes hold a value, and the mask names 32.
__global__ void sums_of_sixteen(const int* x, int* out) {
    const int lane = threadIdx.x;
    if (lane < 16) {
#ifdef MENDED
        const int sum = __reduce_add_sync(0x0000ffff, x[blockIdx.x * 16 + lane]);
#else
        const int sum = __reduce_add_sync(0xffffffff, x[blockIdx.x * 16 + lane]);  // BUG: divergent_barrier
#endif
        if (lane == 0) out[blockIdx.x] = sum;
    }
}

// ---- undefined_shuffle_in_the_last_warp: the mask has the lanes that are there, and the sum asks those that are not.
__global__ void sums_of_warps(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    float sum = i < n ? x[i] : 0.0f;
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) out[i / 32] = sum;
#else
    const unsigned int there = __ballot_sync(0xffffffff, i < n);
    if (i < n) {
        float sum = x[i];
        for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(there, sum, s);  // BUG: undefined_shuffle
        if (threadIdx.x % 32 == 0) out[i / 32] = sum;
    }
#endif
}

// ---- divergent_barrier_mask_of_another_group: groups of 8 lanes, but the mask moves by one lane per group.
__global__ void largest_of_eight(const float* x, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
#ifdef MENDED
    const unsigned int group = 0xffu << lane / 8 * 8;
#else
    const unsigned int group = 0xffu << lane / 8;
#endif
    float most = x[i];
    for (int s = 4; s > 0; s /= 2) most = fmaxf(most, __shfl_xor_sync(group, most, s));  // BUG: divergent_barrier
    if (lane % 8 == 0) out[i / 8] = most;
}

// ---- undefined_shuffle_from_a_lane_that_left: lane 0 has nothing to add and leaves, but it holds what all need.
__global__ void minus_first(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const float mine = i < n ? x[i] : 0.0f;
#ifdef MENDED
    const float first = __shfl_sync(0xffffffff, mine, 0);
    if (lane == 0 || i >= n) return;
#else
    if (lane == 0 || i >= n) return;
    const float first = __shfl_sync(__activemask(), mine, 0);  // BUG: undefined_shuffle
#endif
    out[i] = mine - first;
}

// ---- race_flags_of_warps_without_ballot: every lane writes the flag of its warp.
__global__ void rows_with_negative(const float* x, int* out, int columns) {
    __shared__ int negative[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* row = x + (blockIdx.x * 2 + warp) * columns;
    bool found = false;
    for (int c = lane; c < columns; c += 32) found = found || row[c] < 0.0f;
#ifdef MENDED
    found = __any_sync(0xffffffff, found);
    if (lane == 0) negative[warp] = found;
    __syncwarp();
#else
    negative[warp] = found;  // BUG: race
    __syncwarp();
#endif
    if (lane == 0) out[blockIdx.x * 2 + warp] = negative[warp];
}
