// matmul as a lesson writes it: kernel and torch function in one text, on torch/extension.h.
// What a CUDA source of the lessons begins with: headers, input checks, and division rounded up.
#include <torch/extension.h>
#include <stdio.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

inline unsigned int cdiv(size_t a, size_t b) { return (unsigned int)((a + b - 1) / b); }

__global__ void matmul_kernel(const float* __restrict__ m, const float* __restrict__ n,
                              float* __restrict__ out, size_t h, size_t w, int k) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;  // guard

    float o = 0.0f;
    for (int i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}

#include <climits>

void check_fit(torch::Tensor m, torch::Tensor n) {
    CHECK_INPUT(m); CHECK_INPUT(n);
    TORCH_CHECK(m.dim() == 2 && n.dim() == 2, "not matrices: ", m.sizes(), " and ", n.sizes());
    TORCH_CHECK(m.scalar_type() == torch::kFloat && n.scalar_type() == torch::kFloat,
                "m and n must be float32, but are ", m.scalar_type(), " and ", n.scalar_type());
    TORCH_CHECK(m.device() == n.device(), "m is on ", m.device(), ", n is on ", n.device());
    int64_t h = m.size(0), k = m.size(1);
    TORCH_CHECK(k == n.size(0), "inner sizes differ: m is ", m.sizes(), ", n is ", n.sizes());
    TORCH_CHECK(k <= INT_MAX, "the kernel counts to ", INT_MAX, ", but m has ", k, " columns");
    TORCH_CHECK(h <= 65535 * 16, "at most ", 65535 * 16, " rows, but m has ", h);
}

#include <c10/cuda/CUDAGuard.h>

torch::Tensor matmul(torch::Tensor m, torch::Tensor n) {
    check_fit(m, n);
    int64_t h = m.size(0), k = m.size(1), w = n.size(1);
    torch::Tensor out = torch::empty({h, w}, m.options());
    if (h * w == 0) return out;  // CUDA refuses an empty grid
    c10::cuda::CUDAGuard on_device_of(m.device());

    dim3 tpb(16, 16);
    dim3 blocks(cdiv(w, tpb.x), cdiv(h, tpb.y));
    matmul_kernel<<<blocks, tpb, 0, c10::cuda::getCurrentCUDAStream()>>>(
        m.data_ptr<float>(), n.data_ptr<float>(), out.data_ptr<float>(), h, w, int(k));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
