// The torch side of grayscale.cu.
#include "checks.h"

void launch_rgb_to_grayscale(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream);
void launch_rgb_to_grayscale_2d(const unsigned char* x, unsigned char* out, size_t h, size_t w, cudaStream_t stream);

static at::Tensor check_and_allocate(const at::Tensor& image) {
    check_input(image, "image", at::kByte, 3);
    TORCH_CHECK_VALUE(image.size(0) == 3, "image must have 3 planes, red, green and blue, but its shape is ",
                      image.sizes());
    return at::empty({image.size(1), image.size(2)}, image.options());
}

// uint8 (3, h, w) -> uint8 (h, w), blocks of 256 threads along the pixels.
at::Tensor rgb_to_grayscale(const at::Tensor& image) {
    at::Tensor out = check_and_allocate(image);
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    c10::cuda::CUDAGuard on_device_of(image.device());
    launch_rgb_to_grayscale(image.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), out.numel(),
                            c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// The same with blocks of 16 x 16 threads.
at::Tensor rgb_to_grayscale_2d(const at::Tensor& image) {
    at::Tensor out = check_and_allocate(image);
    if (out.numel() == 0) return out;
    check_rows(out.size(0), 16);
    c10::cuda::CUDAGuard on_device_of(image.device());
    launch_rgb_to_grayscale_2d(image.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), out.size(0),
                               out.size(1), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
