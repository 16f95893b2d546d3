// The torch side of 1_layernorm.cu. x is float32, float16 or bfloat16 of any shape (..., w), weight and bias are of its
// dtype and of shape (w) or None, mean and rstd are float32 of shape (...).
#include "inputs.h"

using Launch = void (*)(const float*, const float*, const float*, float*, float*, float*, size_t, int, float,
                        cudaStream_t);
void launch_layer_norm_three_passes(const float* x, const float* weight, const float* bias, float* out, float* mean,
                                    float* rstd, size_t h, int w, float eps, cudaStream_t stream);
void launch_layer_norm_welford(const float* x, const float* weight, const float* bias, float* out, float* mean,
                               float* rstd, size_t h, int w, float eps, cudaStream_t stream);
bool launch_norm(const float* x, const float* weight, const float* bias, float* out, float* mean, float* rstd,
                 size_t h, int w, float eps, int wanted, cudaStream_t stream);
bool launch_norm(const __half* x, const __half* weight, const __half* bias, __half* out, float* mean, float* rstd,
                 size_t h, int w, float eps, int wanted, cudaStream_t stream);
bool launch_norm(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
                 float* mean, float* rstd, size_t h, int w, float eps, int wanted, cudaStream_t stream);

using Weight = std::optional<at::Tensor>;
using Normed = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
enum Way { ANY, WARPS, REGISTERS, SHARED };

// Calls launch(type, out, mean, rstd, rows) for outputs that are not empty.
template <class LaunchFor>
static Normed normed(const at::Tensor& x, const Weight& weight, const Weight& bias, LaunchFor launch) {
    Rows rows = rows_of(x, "x");
    check_for_rows(weight, "weight", x, rows.w);
    check_for_rows(bias, "bias", x, rows.w);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::IntArrayRef of_rows = x.sizes().slice(0, x.dim() - 1);
    at::Tensor out = at::empty(x.sizes(), x.options());
    at::Tensor mean = at::empty(of_rows, x.options().dtype(at::kFloat));
    at::Tensor rstd = at::empty(of_rows, x.options().dtype(at::kFloat));
    if (rows.h == 0) return {out, mean, rstd};  // CUDA refuses an empty grid
    launch(out, mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>(), rows);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {out, mean, rstd};
}

static Normed norm(const at::Tensor& x, const Weight& weight, const Weight& bias, double eps, Way way, bool centered) {
    return normed(x, weight, bias, [&](at::Tensor& out, float* mean, float* rstd, Rows rows) {
        for_dtype(x, [&](auto type) {
            using T = typename decltype(type)::type;
            bool taken = launch_norm((const T*)x.const_data_ptr(), data<T>(weight), data<T>(bias),
                                     (T*)out.mutable_data_ptr(), centered ? mean : nullptr, rstd, rows.h, rows.w, eps,
                                     way, c10::cuda::getCurrentCUDAStream());
            TORCH_CHECK_VALUE(taken, "x has rows of ", rows.w,
                              " elements, which are too long here: layer_norm takes any");
        });
    });
}

static Normed rung(const at::Tensor& x, const Weight& weight, const Weight& bias, double eps, Launch launch) {
    check_input(x, "x", at::kFloat);
    return normed(x, weight, bias, [&](at::Tensor& out, float* mean, float* rstd, Rows rows) {
        launch(x.const_data_ptr<float>(), data<float>(weight), data<float>(bias), out.mutable_data_ptr<float>(), mean,
               rstd, rows.h, rows.w, eps, c10::cuda::getCurrentCUDAStream());
    });
}

static Normed float_norm(const at::Tensor& x, const Weight& weight, const Weight& bias, double eps, Way way) {
    check_input(x, "x", at::kFloat);
    return norm(x, weight, bias, eps, way, true);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_three_passes(const at::Tensor& x, const Weight& weight,
                                                                       const Weight& bias, double eps) {
    return rung(x, weight, bias, eps, launch_layer_norm_three_passes);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_welford(const at::Tensor& x, const Weight& weight,
                                                                  const Weight& bias, double eps) {
    return rung(x, weight, bias, eps, launch_layer_norm_welford);
}

// Rows of at most 1024. Where x, weight or bias do not allow loads of 16 bytes, it does the same as layer_norm_shared.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_warps(const at::Tensor& x, const Weight& weight,
                                                                const Weight& bias, double eps) {
    return float_norm(x, weight, bias, eps, WARPS);
}

// Rows of at most 32,768. Where x, weight or bias do not allow loads of 16 bytes, it does the same as
// layer_norm_shared or, if rows are too long for that, as layer_norm.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_registers(const at::Tensor& x, const Weight& weight,
                                                                    const Weight& bias, double eps) {
    return float_norm(x, weight, bias, eps, REGISTERS);
}

// Rows that fit into a block's shared memory.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_shared(const at::Tensor& x, const Weight& weight,
                                                                 const Weight& bias, double eps) {
    return float_norm(x, weight, bias, eps, SHARED);
}

// Any rows -> out, and mean and rstd, which the backward pass needs.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const Weight& weight,
                                                          const Weight& bias, double eps) {
    return norm(x, weight, bias, eps, ANY, true);
}

// Any rows -> out and rstd.
std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const Weight& weight, double eps) {
    auto [out, mean, rstd] = norm(x, weight, std::nullopt, eps, ANY, false);
    return {out, rstd};
}
