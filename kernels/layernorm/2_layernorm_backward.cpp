// The torch side of 2_layernorm_backward.cu. dy and x are float32, float16 or bfloat16 of one shape (..., w), weight is
// of their dtype and of shape (w) or None, mean and rstd are what layer_norm returned: float32 of shape (...).
#include "inputs.h"

size_t floats_of_norm_backward_two_kernels(size_t h, int w);
void launch_norm_backward_two_kernels(const float* dy, const float* x, const float* weight, const float* mean,
                                      const float* rstd, float* dx, float* dweight, float* dbias, float* scratch,
                                      size_t h, int w, cudaStream_t stream);
size_t floats_of_norm_backward(const float* dy, const float* x, const float* weight, size_t h, int w);
void launch_norm_backward(const float* dy, const float* x, const float* weight, const float* mean, const float* rstd,
                          float* dx, float* dweight, float* dbias, float* scratch, size_t h, int w,
                          cudaStream_t stream);
size_t floats_of_norm_backward(const __half* dy, const __half* x, const __half* weight, size_t h, int w);
void launch_norm_backward(const __half* dy, const __half* x, const __half* weight, const float* mean, const float* rstd,
                          __half* dx, __half* dweight, __half* dbias, float* scratch, size_t h, int w,
                          cudaStream_t stream);
size_t floats_of_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight, size_t h,
                               int w);
void launch_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight,
                          const float* mean, const float* rstd, __nv_bfloat16* dx, __nv_bfloat16* dweight,
                          __nv_bfloat16* dbias, float* scratch, size_t h, int w, cudaStream_t stream);

using Weight = std::optional<at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

static void check_statistic(const at::Tensor& statistic, const char* name, const at::Tensor& x) {
    check_input(statistic, name, at::kFloat);
    TORCH_CHECK_VALUE(statistic.sizes() == x.sizes().slice(0, x.dim() - 1), name, " has the shape ",
                      statistic.sizes(), ", but x has the shape ", x.sizes(), ": one value per row is needed");
    check_same_device(statistic, name, x, "x");
}

// dx, dweight and dbias. Without a mean this is RMS norm, and dbias is empty.
static Gradients gradients(const at::Tensor& dy, const at::Tensor& x, const Weight& weight,
                           const std::optional<at::Tensor>& mean, const at::Tensor& rstd, bool fast) {
    Rows rows = rows_of(x, "x");
    check_input(dy, "dy", x.scalar_type());
    TORCH_CHECK_VALUE(dy.sizes() == x.sizes(), "dy has the shape ", dy.sizes(), ", but x has the shape ", x.sizes());
    check_same_device(dy, "dy", x, "x");
    check_for_rows(weight, "weight", x, rows.w);
    if (mean) check_statistic(*mean, "mean", x);
    check_statistic(rstd, "rstd", x);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor dx = at::empty(x.sizes(), x.options()), dweight = at::empty({rows.w}, x.options());
    at::Tensor dbias = at::empty({mean ? rows.w : 0}, x.options());
    if (dx.numel() == 0) return {dx, dweight.zero_(), dbias.zero_()};  // CUDA refuses an empty grid
    for_dtype(x, [&](auto type) {
        using T = typename decltype(type)::type;
        auto of_dy = (const T*)dy.const_data_ptr(), of_x = (const T*)x.const_data_ptr();
        size_t floats = fast ? floats_of_norm_backward(of_dy, of_x, data<T>(weight), rows.h, rows.w)
                             : floats_of_norm_backward_two_kernels(rows.h, rows.w);
        at::Tensor scratch = at::empty({int64_t(floats)}, x.options().dtype(at::kFloat));
        auto call = [&](auto launch) {
            launch(of_dy, of_x, data<T>(weight), mean ? mean->const_data_ptr<float>() : nullptr,
                   rstd.const_data_ptr<float>(), (T*)dx.mutable_data_ptr(), (T*)dweight.mutable_data_ptr(),
                   (T*)dbias.mutable_data_ptr(), scratch.mutable_data_ptr<float>(), rows.h, rows.w,
                   c10::cuda::getCurrentCUDAStream());
        };
        if constexpr (std::is_same_v<T, float>)
            if (!fast) return call(launch_norm_backward_two_kernels);
        call([](auto... arguments) { launch_norm_backward(arguments...); });
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, dweight, dbias};
}

// float32 only: one kernel for dx and one for dweight and dbias, each of which reads x and dy.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward_two_kernels(const at::Tensor& dy,
                                                                               const at::Tensor& x,
                                                                               const Weight& weight,
                                                                               const at::Tensor& mean,
                                                                               const at::Tensor& rstd) {
    check_input(x, "x", at::kFloat);
    return gradients(dy, x, weight, mean, rstd, false);
}

// The gradients of x, weight and bias. Those of weight and bias are computed without a weight, too: as if it were 1.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                                   const Weight& weight, const at::Tensor& mean,
                                                                   const at::Tensor& rstd) {
    return gradients(dy, x, weight, mean, rstd, true);
}

// The gradients of x and weight.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const Weight& weight,
                                                     const at::Tensor& rstd) {
    auto [dx, dweight, dbias] = gradients(dy, x, weight, std::nullopt, rstd, true);
    return {dx, dweight};
}
