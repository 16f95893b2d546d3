// The torch side of copy.cu.
#include "checks.h"

void launch_copy(const float* x, float* out, size_t n, cudaStream_t stream);
void launch_copy_vector(const float* x, float* out, size_t n, cudaStream_t stream);

using Launch = void (*)(const float*, float*, size_t, cudaStream_t);

static at::Tensor copied(const at::Tensor& x, Launch launch) {
    check_input(x, "x", at::kFloat);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel(), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// float32 of any shape -> the same values in new memory, one float per thread.
at::Tensor copy(const at::Tensor& x) { return copied(x, launch_copy); }

// The same with 16 bytes per thread, where x begins at a multiple of 16 bytes.
at::Tensor copy_vector(const at::Tensor& x) { return copied(x, launch_copy_vector); }
