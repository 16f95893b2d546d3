// The torch side of histogram.cu: integers of any shape -> int64 (bins,): out[b] is how many elements are b.
// Elements below 0 and from `bins` on are not counted. (torch.bincount refuses the first, and adds bins for the others.)
#include "checks.h"

using Count = unsigned long long;

void launch_histogram_global(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram_shared(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram_warps(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram_votes(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram_lanes(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram(const unsigned char* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram(const int* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void launch_histogram(const long long* x, Count* out, size_t n, size_t bins, cudaStream_t stream);
void set_to_zero(void* out, size_t bytes, cudaStream_t stream);

static at::Tensor zeros(const at::Tensor& x, int64_t bins) {
    TORCH_CHECK_VALUE(bins >= 0, "bins must not be negative, but it is ", bins);
    at::Tensor out = at::empty({bins}, x.options().dtype(at::kLong));
    set_to_zero(out.mutable_data_ptr(), out.nbytes(), c10::cuda::getCurrentCUDAStream());
    return out;
}

using Launch = void (*)(const unsigned char*, Count*, size_t, size_t, cudaStream_t);

static at::Tensor counted(const at::Tensor& x, int64_t bins, Launch launch) {
    check_input(x, "x", at::kByte);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = zeros(x, bins);
    if (x.numel() > 0 && bins > 0)
        launch(x.const_data_ptr<uint8_t>(), (Count*)out.mutable_data_ptr(), x.numel(), bins < 256 ? bins : 256,
               c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// The steps take uint8.
at::Tensor histogram_global(const at::Tensor& x, int64_t bins) { return counted(x, bins, launch_histogram_global); }
at::Tensor histogram_shared(const at::Tensor& x, int64_t bins) { return counted(x, bins, launch_histogram_shared); }
at::Tensor histogram_warps(const at::Tensor& x, int64_t bins) { return counted(x, bins, launch_histogram_warps); }
at::Tensor histogram_votes(const at::Tensor& x, int64_t bins) { return counted(x, bins, launch_histogram_votes); }
at::Tensor histogram_lanes(const at::Tensor& x, int64_t bins) { return counted(x, bins, launch_histogram_lanes); }

// uint8, int32 or int64.
at::Tensor histogram(const at::Tensor& x, int64_t bins) {
    at::ScalarType dtype = x.scalar_type();
    if (x.is_cuda() && dtype != at::kByte && dtype != at::kInt && dtype != at::kLong)
        TORCH_CHECK_TYPE(false, "x must be uint8, int32 or int64, but it is ", c10::getDtypeNames(dtype).first,
                         ": convert it with .to(torch.int32)");
    if (dtype == at::kByte) return counted(x, bins, launch_histogram);
    check_input(x, "x", dtype);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = zeros(x, bins);
    Count* counts = (Count*)out.mutable_data_ptr();
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (x.numel() > 0 && bins > 0) {
        if (dtype == at::kInt)
            launch_histogram((const int*)x.const_data_ptr(), counts, x.numel(), bins, stream);
        else
            launch_histogram((const long long*)x.const_data_ptr(), counts, x.numel(), bins, stream);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
