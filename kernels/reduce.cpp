// The torch side of reduce.cu: any shape -> 0-d tensor. The steps in front of `sum` take float32.
#include "checks.h"
#include "dtypes.h"

void launch_sum_divergent(const float* x, float* out, size_t n, float* sums, cudaStream_t stream);
void launch_sum_conflicts(const float* x, float* out, size_t n, float* sums, cudaStream_t stream);
void launch_sum_halves(const float* x, float* out, size_t n, float* sums, cudaStream_t stream);
void launch_sum_eight(const float* x, float* out, size_t n, float* sums, cudaStream_t stream);
void launch_sum_shuffles(const float* x, float* out, size_t n, float* sums, cudaStream_t stream);
size_t scratch_of_reduction();
void launch_sum_wide(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_sum_atomic(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_sum(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream);
void launch_sum(const __half* x, __half* out, size_t n, void* scratch, cudaStream_t stream);
void launch_sum(const __nv_bfloat16* x, __nv_bfloat16* out, size_t n, void* scratch, cudaStream_t stream);
void launch_argmax(const float* x, long long* out, size_t n, void* scratch, cudaStream_t stream);
void launch_argmax(const __half* x, long long* out, size_t n, void* scratch, cudaStream_t stream);
void launch_argmax(const __nv_bfloat16* x, long long* out, size_t n, void* scratch, cudaStream_t stream);

using Launch = void (*)(const float*, float*, size_t, float*, cudaStream_t);

static at::Tensor added(const at::Tensor& x, int64_t piece, Launch launch) {
    check_input(x, "x", at::kFloat);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty({}, x.options()), sums = at::empty({2 * (x.numel() / piece + 1)}, x.options());
    launch(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel(), sums.mutable_data_ptr<float>(),
           c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

at::Tensor sum_divergent(const at::Tensor& x) { return added(x, 256, launch_sum_divergent); }
at::Tensor sum_conflicts(const at::Tensor& x) { return added(x, 256, launch_sum_conflicts); }
at::Tensor sum_halves(const at::Tensor& x) { return added(x, 256, launch_sum_halves); }
at::Tensor sum_eight(const at::Tensor& x) { return added(x, 2048, launch_sum_eight); }
at::Tensor sum_shuffles(const at::Tensor& x) { return added(x, 2048, launch_sum_shuffles); }

static at::Tensor scratch_for(const at::Tensor& x) {
    return at::empty({int64_t(scratch_of_reduction())}, x.options().dtype(at::kByte));
}

using LaunchGrid = void (*)(const float*, float*, size_t, void*, cudaStream_t);

static at::Tensor added_by_grid(const at::Tensor& x, LaunchGrid launch) {
    check_input(x, "x", at::kFloat);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty({}, x.options()), scratch = scratch_for(x);
    launch(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel(), scratch.mutable_data_ptr(),
           c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

at::Tensor sum_wide(const at::Tensor& x) { return added_by_grid(x, launch_sum_wide); }
at::Tensor sum_atomic(const at::Tensor& x) { return added_by_grid(x, launch_sum_atomic); }

// float32, float16 or bfloat16 of any shape -> the sum of all elements as a 0-d tensor of that dtype. It is added up in
// float32, in an order that depends only on the number of elements, where x begins, and the GPU.
at::Tensor sum(const at::Tensor& x) {
    check_floating(x, "x");
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty({}, x.options()), scratch = scratch_for(x);
    for_dtype(x, [&](auto element) {
        using T = decltype(element);
        launch_sum((const typename T::type*)x.const_data_ptr(), (typename T::type*)out.mutable_data_ptr(), x.numel(),
                   scratch.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// float32, float16 or bfloat16 of any shape -> where the first largest element is in x, read row by row: int64, 0-d.
// As with torch.argmax, NaN is larger than any number, and an empty x is refused.
at::Tensor argmax(const at::Tensor& x) {
    check_floating(x, "x");
    TORCH_CHECK_VALUE(x.numel() > 0, "x has no largest element: its shape is ", x.sizes());
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty({}, x.options().dtype(at::kLong)), scratch = scratch_for(x);
    for_dtype(x, [&](auto element) {
        using T = decltype(element);
        launch_argmax((const typename T::type*)x.const_data_ptr(), (long long*)out.mutable_data_ptr(), x.numel(),
                      scratch.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
