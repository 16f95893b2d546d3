// crossentropy: the mean over the rows r of logits (h, w) of log(sum of exp(logits[r])) - logits[r][target[r]], without
// rows whose target is `ignored`. Probabilities are never stored: the backward makes them again from the logits and
// from logsumexp (h), the first of the two terms. It is a float: where logits are near 10,000, gradients have 3 digits.
#include "cdiv.h"
#include "rows.h"

constexpr int LOADS = 4;  // packs of a thread that are in flight at the same time

// A block per row: its logsumexp and its loss, in one read.
template <class T>
__global__ void __launch_bounds__(256)
    cross_entropy_kernel(const T* __restrict__ logits, const long long* __restrict__ target,
                         float* __restrict__ losses, float* __restrict__ logsumexp, size_t w, long long ignored) {
    __shared__ Divisor parts[32];
    size_t r = blockIdx.x;
    const T* from = logits + r * w;
    Divisor all = divisor_of_row<LOADS>(from, Row<T>(from, w), parts);
    if (threadIdx.x == 0) {
        float log_sum = logf(all.sum);
        long long t = target[r];
        logsumexp[r] = all.max + log_sum;
        // Not logsumexp[r] - from[t]: if max is large, logsumexp has lost digits of log_sum.
        losses[r] = t == ignored ? 0.0f : t >= 0 && t < (long long)w ? all.max - as_float(from[t]) + log_sum : NAN;
    }
}

// One block: the mean of the losses, and how many rows count, in a fixed order.
__global__ void __launch_bounds__(1024)
    mean_of_losses_kernel(const float* __restrict__ losses, const long long* __restrict__ target,
                          float* __restrict__ mean, float* __restrict__ count, size_t h, long long ignored) {
    __shared__ float sums[32], counts[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float sum = 0.0f, counted = 0.0f;
    for (size_t r = threadIdx.x; r < h; r += blockDim.x) {
        sum += losses[r];
        counted += target[r] == ignored ? 0.0f : 1.0f;
    }
    sum = sum_of_warp(sum), counted = sum_of_warp(counted);
    if (lane == 0) sums[warp] = sum, counts[warp] = counted;
    __syncthreads();  // otherwise warp 0 reads sums that other warps have not stored yet
    if (warp > 0) return;
    sum = sum_of_warp(lane < warps ? sums[lane] : 0.0f), counted = sum_of_warp(lane < warps ? counts[lane] : 0.0f);
    if (lane == 0) *mean = sum / counted, *count = counted;
}

// A block per row: dlogits = (softmax(logits) - 1 at the target) * grad / count, in one read and one write. The last
// rows come first: the L2 cache may still have them from the forward. Stores must not evict them, so they are .cs.
template <class T>
__global__ void __launch_bounds__(512)
    cross_entropy_backward_kernel(const float* __restrict__ grad, const T* __restrict__ logits,
                                  const long long* __restrict__ target, const float* __restrict__ logsumexp,
                                  const float* __restrict__ count, T* __restrict__ dlogits, size_t w,
                                  long long ignored) {
    constexpr int SIZE = Row<T>::SIZE;
    size_t r = gridDim.x - 1 - blockIdx.x;
    const T* from = logits + r * w;
    T* to = dlogits + r * w;
    Row<T> row(from, w);
    size_t t = target[r];
    bool wide = size_t(to + row.head) % 16 == 0, counts = target[r] != ignored;
    float log_sum = logsumexp[r], scale = *grad / *count;
    auto slope = [&](float logit, float wanted) {
        return counts ? (exp_of(logit - log_sum) - wanted) * scale : 0.0f;
    };
    for (size_t i = threadIdx.x; i < row.packs; i += LOADS * blockDim.x) {
        Pack<T> packs[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * blockDim.x < row.packs)  // guard
                packs[k] = *(const Pack<T>*)(from + row.pack(i + k * blockDim.x));
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * blockDim.x < row.packs) {  // guard
                size_t c = row.pack(i + k * blockDim.x);
                float values[SIZE];
#pragma unroll
                for (int j = 0; j < SIZE; ++j) values[j] = slope(as_float(packs[k], j), 0.0f);
                set(packs[k], values);
                if (wide)
                    store_pack(to + c, packs[k]);
                else
                    store_elements(to + c, packs[k]);
                if (t - c < SIZE) set(to[t], slope(as_float(from[t]), 1.0f));  // once more, for the target
            }
    }
    if (threadIdx.x < row.edges) {
        size_t c = row.edge(threadIdx.x);
        set(to[c], slope(as_float(from[c]), c == t ? 1.0f : 0.0f));
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// Threads for a row: enough that each has LOADS packs, up to `most`. On an H200, 256 read and 512 copy fastest.
static unsigned int threads_for(size_t w, size_t size, unsigned int most) {
    size_t warps = cdiv(w * size, 16 * LOADS * 32);
    return 32 * warps < 32 ? 32 : 32 * warps < most ? 32 * warps : most;
}
static void launch_mean_of_losses(const float* losses, const long long* target, float* mean, float* count, size_t h,
                                  long long ignored, cudaStream_t stream) {
    mean_of_losses_kernel<<<1, 1024, 0, stream>>>(losses, target, mean, count, h, ignored);
}

void launch_cross_entropy(const float* logits, const long long* target, float* losses, float* logsumexp, float* mean,
                          float* count, size_t h, size_t w, long long ignored, cudaStream_t stream) {
    if (h > 0)  // CUDA refuses an empty grid
        cross_entropy_kernel<float>
            <<<h, threads_for(w, 4, 256), 0, stream>>>(logits, target, losses, logsumexp, w, ignored);
    launch_mean_of_losses(losses, target, mean, count, h, ignored, stream);
}

void launch_cross_entropy(const __half* logits, const long long* target, float* losses, float* logsumexp, float* mean,
                          float* count, size_t h, size_t w, long long ignored, cudaStream_t stream) {
    if (h > 0)  // CUDA refuses an empty grid
        cross_entropy_kernel<__half>
            <<<h, threads_for(w, 2, 256), 0, stream>>>(logits, target, losses, logsumexp, w, ignored);
    launch_mean_of_losses(losses, target, mean, count, h, ignored, stream);
}

void launch_cross_entropy(const __nv_bfloat16* logits, const long long* target, float* losses, float* logsumexp,
                          float* mean, float* count, size_t h, size_t w, long long ignored, cudaStream_t stream) {
    if (h > 0)  // CUDA refuses an empty grid
        cross_entropy_kernel<__nv_bfloat16>
            <<<h, threads_for(w, 2, 256), 0, stream>>>(logits, target, losses, logsumexp, w, ignored);
    launch_mean_of_losses(losses, target, mean, count, h, ignored, stream);
}

void launch_cross_entropy_backward(const float* grad, const float* logits, const long long* target,
                                   const float* logsumexp, const float* count, float* dlogits, size_t h, size_t w,
                                   long long ignored, cudaStream_t stream) {
    cross_entropy_backward_kernel<float>
        <<<h, threads_for(w, 4, 512), 0, stream>>>(grad, logits, target, logsumexp, count, dlogits, w, ignored);
}

void launch_cross_entropy_backward(const float* grad, const __half* logits, const long long* target,
                                   const float* logsumexp, const float* count, __half* dlogits, size_t h, size_t w,
                                   long long ignored, cudaStream_t stream) {
    cross_entropy_backward_kernel<__half>
        <<<h, threads_for(w, 2, 512), 0, stream>>>(grad, logits, target, logsumexp, count, dlogits, w, ignored);
}

void launch_cross_entropy_backward(const float* grad, const __nv_bfloat16* logits, const long long* target,
                                   const float* logsumexp, const float* count, __nv_bfloat16* dlogits, size_t h,
                                   size_t w, long long ignored, cudaStream_t stream) {
    cross_entropy_backward_kernel<__nv_bfloat16>
        <<<h, threads_for(w, 2, 512), 0, stream>>>(grad, logits, target, logsumexp, count, dlogits, w, ignored);
}
#endif
