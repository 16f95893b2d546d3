// The torch side of grayscale.cu.
#include "checks.h"

void launch_rgb_to_grayscale(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream);
void launch_rgb_to_grayscale_2d(const unsigned char* x, unsigned char* out, size_t h, size_t w, cudaStream_t stream);
void launch_rgb_to_grayscale_vector(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream);
void launch_rgb_to_grayscale_hwc(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream);

using Launch = void (*)(const unsigned char*, unsigned char*, size_t, cudaStream_t);

static void check_planes(const at::Tensor& image) {
    check_input(image, "image", at::kByte, 3);
    TORCH_CHECK_VALUE(image.size(0) == 3, "image must have 3 planes, red, green and blue, but its shape is ",
                      image.sizes());
}

// Allocates the grey picture (h, w) of an image that was checked, and launches.
static at::Tensor grey(const at::Tensor& image, int64_t h, int64_t w, Launch launch) {
    c10::cuda::CUDAGuard on_device_of(image.device());
    at::Tensor out = at::empty({h, w}, image.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch(image.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), out.numel(),
           c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// uint8 (3, h, w) -> uint8 (h, w), blocks of 256 threads along the pixels.
at::Tensor rgb_to_grayscale(const at::Tensor& image) {
    check_planes(image);
    return grey(image, image.size(1), image.size(2), launch_rgb_to_grayscale);
}

// The same with blocks of 16 x 16 threads.
at::Tensor rgb_to_grayscale_2d(const at::Tensor& image) {
    check_planes(image);
    check_grid(image.size(1), image.size(2), 16);
    c10::cuda::CUDAGuard on_device_of(image.device());
    at::Tensor out = at::empty({image.size(1), image.size(2)}, image.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch_rgb_to_grayscale_2d(image.const_data_ptr<uint8_t>(), out.mutable_data_ptr<uint8_t>(), out.size(0),
                               out.size(1), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// The same with 16 pixels per thread; with 4 or 1 where the image's address or h * w is not a multiple of 16.
at::Tensor rgb_to_grayscale_vector(const at::Tensor& image) {
    check_planes(image);
    return grey(image, image.size(1), image.size(2), launch_rgb_to_grayscale_vector);
}

// uint8 (h, w, 3) -> uint8 (h, w), one pixel per thread.
at::Tensor rgb_to_grayscale_hwc(const at::Tensor& image) {
    check_input(image, "image", at::kByte, 3);
    TORCH_CHECK_VALUE(image.size(2) == 3, "image must have 3 bytes a pixel, red, green and blue, but its shape is ",
                      image.sizes());
    return grey(image, image.size(0), image.size(1), launch_rgb_to_grayscale_hwc);
}
