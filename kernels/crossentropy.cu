// crossentropy: the mean over the rows r of logits (h, w) of log(sum of exp(logits[r])) - logits[r][target[r]], without
// rows whose target is `ignored`. Probabilities are never stored: the backward makes them again from the logits and
// from logsumexp (h), the first of the two terms.
#include "cdiv.h"
#include "rows.h"

// A block per row: its logsumexp and its loss, in one read.
template <class T>
__global__ void __launch_bounds__(256)
    cross_entropy_kernel(const T* __restrict__ logits, const long long* __restrict__ target,
                         float* __restrict__ losses, float* __restrict__ logsumexp, size_t w, long long ignored) {
    constexpr int LOADS = 16 / Row<T>::SIZE;  // packs of a thread that are in flight at the same time
    __shared__ Divisor parts[32];
    size_t r = blockIdx.x;
    const T* from = logits + r * w;
    Divisor all = divisor_of_row<LOADS>(from, Row<T>(from, w), parts);
    if (threadIdx.x == 0) {
        float log_sum = all.max + logf(all.sum);
        long long t = target[r];
        logsumexp[r] = log_sum;
        losses[r] = t == ignored ? 0.0f : t >= 0 && t < (long long)w ? log_sum - as_float(from[t]) : NAN;
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

// A block per row: dlogits = (softmax(logits) - 1 at the target) * grad / count, in one read and one write.
template <class T>
__global__ void __launch_bounds__(1024)
    cross_entropy_backward_kernel(const float* __restrict__ grad, const T* __restrict__ logits,
                                  const long long* __restrict__ target, const float* __restrict__ logsumexp,
                                  const float* __restrict__ count, T* __restrict__ dlogits, size_t w,
                                  long long ignored) {
    constexpr int LOADS = 8 / Row<T>::SIZE;
    size_t r = blockIdx.x;
    const T* from = logits + r * w;
    T* to = dlogits + r * w;
    Row<T> row(from, w);
    size_t t = target[r];
    bool wide = size_t(to + row.head) % 16 == 0, counts = target[r] != ignored;
    float log_sum = logsumexp[r], scale = *grad / *count;
    auto slope = [&](T logit, float wanted) {
        return counts ? (__expf(as_float(logit) - log_sum) - wanted) * scale : 0.0f;
    };
    for (size_t i = threadIdx.x; i < row.packs; i += LOADS * blockDim.x) {
        Pack<T> packs[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * blockDim.x < row.packs)  // guard
                packs[k] = load_pack(from + row.pack(i + k * blockDim.x));
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * blockDim.x < row.packs) {  // guard
                size_t c = row.pack(i + k * blockDim.x);
#pragma unroll
                for (int j = 0; j < Row<T>::SIZE; ++j) set(packs[k].at[j], slope(packs[k].at[j], 0.0f));
                store_pack_at(to, c, packs[k], wide);
                if (t - c < Row<T>::SIZE) set(to[t], slope(from[t], 1.0f));  // once more, for the target
            }
    }
    if (threadIdx.x < row.edges) {
        size_t c = row.edge(threadIdx.x);
        set(to[c], slope(from[c], c == t ? 1.0f : 0.0f));
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// Threads for a row: enough that each has two packs, up to `most`. On an H200, 256 read and 1024 copy fastest.
static unsigned int threads_for(size_t w, size_t size, unsigned int most) {
    size_t warps = cdiv(w * size, 16 * 2 * 32);
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
        <<<h, threads_for(w, 4, 1024), 0, stream>>>(grad, logits, target, logsumexp, count, dlogits, w, ignored);
}

void launch_cross_entropy_backward(const float* grad, const __half* logits, const long long* target,
                                   const float* logsumexp, const float* count, __half* dlogits, size_t h, size_t w,
                                   long long ignored, cudaStream_t stream) {
    cross_entropy_backward_kernel<__half>
        <<<h, threads_for(w, 2, 1024), 0, stream>>>(grad, logits, target, logsumexp, count, dlogits, w, ignored);
}

void launch_cross_entropy_backward(const float* grad, const __nv_bfloat16* logits, const long long* target,
                                   const float* logsumexp, const float* count, __nv_bfloat16* dlogits, size_t h,
                                   size_t w, long long ignored, cudaStream_t stream) {
    cross_entropy_backward_kernel<__nv_bfloat16>
        <<<h, threads_for(w, 2, 1024), 0, stream>>>(grad, logits, target, logsumexp, count, dlogits, w, ignored);
}
#endif
