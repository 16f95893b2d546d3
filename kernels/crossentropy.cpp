// The torch side of crossentropy.cu.
#include <limits>
#include <tuple>

#include "checks.h"
#include "dtypes.h"

void launch_cross_entropy(const float* logits, const long long* target, float* losses, float* logsumexp, float* mean,
                          float* count, size_t h, size_t w, long long ignored, cudaStream_t stream);
void launch_cross_entropy(const __half* logits, const long long* target, float* losses, float* logsumexp, float* mean,
                          float* count, size_t h, size_t w, long long ignored, cudaStream_t stream);
void launch_cross_entropy(const __nv_bfloat16* logits, const long long* target, float* losses, float* logsumexp,
                          float* mean, float* count, size_t h, size_t w, long long ignored, cudaStream_t stream);
void launch_cross_entropy_backward(const float* grad, const float* logits, const long long* target,
                                   const float* logsumexp, const float* count, float* dlogits, size_t h, size_t w,
                                   long long ignored, cudaStream_t stream);
void launch_cross_entropy_backward(const float* grad, const __half* logits, const long long* target,
                                   const float* logsumexp, const float* count, __half* dlogits, size_t h, size_t w,
                                   long long ignored, cudaStream_t stream);
void launch_cross_entropy_backward(const float* grad, const __nv_bfloat16* logits, const long long* target,
                                   const float* logsumexp, const float* count, __nv_bfloat16* dlogits, size_t h,
                                   size_t w, long long ignored, cudaStream_t stream);

// A vector with an element for every row of the logits.
static void check_rows(const at::Tensor& logits, const at::Tensor& x, const char* name, at::ScalarType dtype) {
    check_input(x, name, dtype, 1);
    check_same_device(logits, "logits", x, name);
    TORCH_CHECK_VALUE(x.size(0) == logits.size(0), "logits has ", logits.size(0), " rows, but ", name, " has ",
                      x.size(0), " elements: they must be as many");
}

static void check_logits(const at::Tensor& logits, const at::Tensor& target) {
    check_floating(logits, "logits", 2);
    check_rows(logits, target, "target", at::kLong);
    TORCH_CHECK_VALUE(logits.size(0) <= std::numeric_limits<int>::max(), "logits has ", logits.size(0),
                      " rows, but a grid has at most 2147483647 blocks: split the input");
}

// logits (h, w), float32, float16 or bfloat16, and target (h), int64 -> (loss, logsumexp, count), all float32: the mean
// loss and how many rows it is made of, 0-d, and logsumexp (h) for the backward. As in torch, rows whose target is
// ignore_index do not count (torch's default is -100), and without any row the mean is NaN. So it is with a target that
// is neither ignore_index nor a column.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy(const at::Tensor& logits, const at::Tensor& target,
                                                             int64_t ignore_index) {
    check_logits(logits, target);
    c10::cuda::CUDAGuard on_device_of(logits.device());
    auto floats = logits.options().dtype(at::kFloat);
    size_t h = logits.size(0), w = logits.size(1);
    at::Tensor loss = at::empty({}, floats), count = at::empty({}, floats);
    at::Tensor logsumexp = at::empty({logits.size(0)}, floats), losses = at::empty({logits.size(0)}, floats);
    for_dtype(logits, [&](auto element) {
        using T = typename decltype(element)::type;
        launch_cross_entropy((const T*)logits.const_data_ptr(), (const long long*)target.const_data_ptr(),
                             losses.mutable_data_ptr<float>(), logsumexp.mutable_data_ptr<float>(),
                             loss.mutable_data_ptr<float>(), count.mutable_data_ptr<float>(), h, w, ignore_index,
                             c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {loss, logsumexp, count};
}

// grad, float32 and 0-d: the gradient of the loss; then what cross_entropy was given and returned -> that of logits, of
// the dtype and shape of logits. The rows of ignore_index are 0.
at::Tensor cross_entropy_backward(const at::Tensor& grad, const at::Tensor& logits, const at::Tensor& target,
                                  const at::Tensor& logsumexp, const at::Tensor& count, int64_t ignore_index) {
    check_logits(logits, target);
    check_rows(logits, logsumexp, "logsumexp", at::kFloat);
    check_input(grad, "grad", at::kFloat, 0);
    check_same_device(logits, "logits", grad, "grad");
    check_input(count, "count", at::kFloat, 0);
    check_same_device(logits, "logits", count, "count");
    c10::cuda::CUDAGuard on_device_of(logits.device());
    at::Tensor dlogits = at::empty(logits.sizes(), logits.options());
    if (dlogits.numel() == 0) return dlogits;  // CUDA refuses an empty grid
    for_dtype(logits, [&](auto element) {
        using T = typename decltype(element)::type;
        launch_cross_entropy_backward(grad.const_data_ptr<float>(), (const T*)logits.const_data_ptr(),
                                      (const long long*)target.const_data_ptr(), logsumexp.const_data_ptr<float>(),
                                      count.const_data_ptr<float>(), (T*)dlogits.mutable_data_ptr(), logits.size(0),
                                      logits.size(1), ignore_index, c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return dlogits;
}
