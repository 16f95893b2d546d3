// The torch side of scan.cu: 1-D -> the sums so far, of the same shape and dtype. The steps in front of `cumsum` take
// float32.
#include "checks.h"
#include "dtypes.h"

void launch_cumsum_warp(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_cumsum_block(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_cumsum_three(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
size_t scratch_of_cumsum(size_t n);
void launch_cumsum_look_back(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_cumsum(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_cumsum(const __half* x, __half* out, size_t n, void* scratch, cudaStream_t stream);
void launch_cumsum(const __nv_bfloat16* x, __nv_bfloat16* out, size_t n, void* scratch, cudaStream_t stream);

static at::Tensor scratch_for(const at::Tensor& x) {
    return at::empty({int64_t(scratch_of_cumsum(x.numel()))}, x.options().dtype(at::kByte));
}

using Launch = void (*)(const float*, float*, size_t, void*, cudaStream_t);

static at::Tensor scanned(const at::Tensor& x, Launch launch) {
    check_input(x, "x", at::kFloat, 1);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options()), scratch = scratch_for(x);
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel(), scratch.mutable_data_ptr(),
           c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

at::Tensor cumsum_warp(const at::Tensor& x) { return scanned(x, launch_cumsum_warp); }
at::Tensor cumsum_block(const at::Tensor& x) { return scanned(x, launch_cumsum_block); }
at::Tensor cumsum_three(const at::Tensor& x) { return scanned(x, launch_cumsum_three); }
at::Tensor cumsum_look_back(const at::Tensor& x) { return scanned(x, launch_cumsum_look_back); }

// float32, float16 or bfloat16 (n) -> out[i] = x[0] + ... + x[i], added up in float32 and rounded to the dtype once.
// How far a block looks back depends on which blocks are ahead: the last digits may differ from launch to launch.
at::Tensor cumsum(const at::Tensor& x) {
    check_floating(x, "x", 1);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options()), scratch = scratch_for(x);
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    for_dtype(x, [&](auto element) {
        using T = decltype(element);
        launch_cumsum((const typename T::type*)x.const_data_ptr(), (typename T::type*)out.mutable_data_ptr(),
                      x.numel(), scratch.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
