// square as a lesson writes it: kernel and torch function in one text, on torch/extension.h.
// What a CUDA source of the lessons begins with: headers, input checks, and division rounded up.
#include <torch/extension.h>
#include <stdio.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

inline unsigned int cdiv(size_t a, size_t b) { return (unsigned int)((a + b - 1) / b); }

#include <c10/cuda/CUDAGuard.h>

__global__ void square_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = x[i] * x[i];
}

torch::Tensor square(torch::Tensor x) {
    CHECK_INPUT(x);
    TORCH_CHECK(x.scalar_type() == torch::kFloat, "x must be float32, but it is ", x.scalar_type());
    torch::Tensor out = torch::empty_like(x);
    if (x.numel() == 0) return out;  // CUDA refuses an empty grid
    c10::cuda::CUDAGuard on_device_of(x.device());
    unsigned int threads = 256;
    square_kernel<<<cdiv(x.numel(), threads), threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
