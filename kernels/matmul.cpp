// The torch side of matmul.cu.
#include "checks.h"

void launch_matmul(const float* m, const float* n, float* out, size_t h, size_t w, size_t k, cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w), blocks of 16 x 16 threads.
at::Tensor matmul(const at::Tensor& m, const at::Tensor& n) {
    check_input(m, "m", at::kFloat, 2);
    check_input(n, "n", at::kFloat, 2);
    check_same_device(m, "m", n, "n");
    TORCH_CHECK_VALUE(m.size(1) == n.size(0), "inner sizes differ: m has ", m.size(1), " columns (shape ", m.sizes(),
                      "), n has ", n.size(0), " rows (shape ", n.sizes(), ")");
    c10::cuda::CUDAGuard on_device_of(m.device());
    at::Tensor out = at::empty({m.size(0), n.size(1)}, m.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    check_rows(out.size(0), 16);
    launch_matmul(m.const_data_ptr<float>(), n.const_data_ptr<float>(), out.mutable_data_ptr<float>(), out.size(0),
                  out.size(1), m.size(1), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
