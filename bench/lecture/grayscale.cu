// grayscale as a lesson writes it: kernel and torch function in one text, on torch/extension.h.
// What a CUDA source of the lessons begins with: headers, input checks, and division rounded up.
#include <torch/extension.h>
#include <stdio.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

inline unsigned int cdiv(size_t a, size_t b) { return (unsigned int)((a + b - 1) / b); }

#include <c10/cuda/CUDAGuard.h>

__global__ void rgb_to_grayscale_kernel(const unsigned char* __restrict__ x,
                                        unsigned char* __restrict__ out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = 0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n];
}

torch::Tensor rgb_to_grayscale(torch::Tensor input) {
    // 1. Check: from here on there are only addresses, and nothing protects us.
    CHECK_INPUT(input);
    TORCH_CHECK(input.scalar_type() == torch::kByte, "input must be uint8, but it is ",
                input.scalar_type());
    TORCH_CHECK(input.dim() == 3 && input.size(0) == 3, "input must be (3, h, w), but it is ",
                input.sizes());

    // 2. Allocate: the same type and device as the input. The memory is not filled.
    c10::cuda::CUDAGuard on_device_of(input.device());
    int64_t h = input.size(1), w = input.size(2);
    torch::Tensor output = torch::empty({h, w}, input.options());
    if (h * w == 0) return output;  // CUDA refuses a grid without blocks

    // 3. Count the blocks.
    unsigned int threads = 256, blocks = cdiv(w * h, threads);

    // 4. Launch, with the bare addresses of both tensors.
    rgb_to_grayscale_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        input.data_ptr<unsigned char>(), output.data_ptr<unsigned char>(), w * h);

    // 5. Check the launch: CUDA does not raise an error when it refuses one.
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return output;
}
