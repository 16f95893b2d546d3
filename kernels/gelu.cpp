// The torch side of gelu.cu.
#include <tuple>

#include "checks.h"
#include "dtypes.h"

void launch_bias_gelu_naive(const float* x, const float* bias, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_bias_gelu(const float* x, const float* bias, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_bias_gelu(const __half* x, const __half* bias, __half* out, size_t h, size_t w, cudaStream_t stream);
void launch_bias_gelu(const __nv_bfloat16* x, const __nv_bfloat16* bias, __nv_bfloat16* out, size_t h, size_t w,
                      cudaStream_t stream);
size_t parts_of_bias_gelu_backward(size_t h, size_t w);
void launch_bias_gelu_backward(const float* dy, const float* x, const float* bias, float* dx, float* dbias,
                               float* parts, size_t h, size_t w, cudaStream_t stream);
void launch_bias_gelu_backward(const __half* dy, const __half* x, const __half* bias, __half* dx, __half* dbias,
                               float* parts, size_t h, size_t w, cudaStream_t stream);
void launch_bias_gelu_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* bias,
                               __nv_bfloat16* dx, __nv_bfloat16* dbias, float* parts, size_t h, size_t w,
                               cudaStream_t stream);

static void check_bias(const at::Tensor& x, const at::Tensor& bias) {
    check_input(bias, "bias", x.scalar_type(), 1);
    check_same_device(x, "x", bias, "bias");
    TORCH_CHECK_VALUE(bias.size(0) == x.size(1), "x has ", x.size(1), " columns, but bias has ", bias.size(0),
                      " elements: they must be as many");
}

// x (h, w), bias (w), float32 -> gelu(x + bias), float32 (h, w): one element per thread.
at::Tensor bias_gelu_naive(const at::Tensor& x, const at::Tensor& bias) {
    check_input(x, "x", at::kFloat, 2);
    check_bias(x, bias);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch_bias_gelu_naive(x.const_data_ptr<float>(), bias.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
                           x.size(0), x.size(1), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// x (h, w), bias (w), both float32, float16 or bfloat16 -> gelu(x + bias), of the same dtype and shape as x. The sum is
// not rounded before GELU, which is the exact one: torch.nn.functional.gelu(x + bias) with approximate="none".
at::Tensor bias_gelu(const at::Tensor& x, const at::Tensor& bias) {
    check_floating(x, "x", 2);
    check_bias(x, bias);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    for_dtype(x, [&](auto element) {
        using T = typename decltype(element)::type;
        launch_bias_gelu((const T*)x.const_data_ptr(), (const T*)bias.const_data_ptr(), (T*)out.mutable_data_ptr(),
                         x.size(0), x.size(1), c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// dy (h, w): the gradient of bias_gelu(x, bias) -> those of x, dx (h, w), and of bias, dbias (w): the sum of dx over
// the rows, made of unrounded values in float32. Its order depends only on the shape.
std::tuple<at::Tensor, at::Tensor> bias_gelu_backward(const at::Tensor& dy, const at::Tensor& x,
                                                      const at::Tensor& bias) {
    check_floating(x, "x", 2);
    check_bias(x, bias);
    check_input(dy, "dy", x.scalar_type(), 2);
    check_same_device(x, "x", dy, "dy");
    TORCH_CHECK_VALUE(dy.sizes() == x.sizes(), "dy must have the shape of x, ", x.sizes(), ", but it has ", dy.sizes());
    c10::cuda::CUDAGuard on_device_of(x.device());
    size_t h = x.size(0), w = x.size(1);
    at::Tensor dx = at::empty(x.sizes(), x.options()), dbias = at::empty(bias.sizes(), x.options());
    if (w == 0) return {dx, dbias};  // CUDA refuses an empty grid
    int64_t count = parts_of_bias_gelu_backward(h, w);
    at::Tensor parts = at::empty({count, x.size(1)}, x.options().dtype(at::kFloat));
    for_dtype(x, [&](auto element) {
        using T = typename decltype(element)::type;
        launch_bias_gelu_backward((const T*)dy.const_data_ptr(), (const T*)x.const_data_ptr(),
                                  (const T*)bias.const_data_ptr(), (T*)dx.mutable_data_ptr(),
                                  (T*)dbias.mutable_data_ptr(), parts.mutable_data_ptr<float>(), h, w,
                                  c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, dbias};
}
