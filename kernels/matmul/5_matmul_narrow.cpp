// The torch side of 5_matmul_narrow.cu.
#include "product.h"

void launch_matmul_narrow(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w) for w of at most 16: m is read once, at the speed of the memory.
at::Tensor matmul_narrow(const at::Tensor& m, const at::Tensor& n) {
    TORCH_CHECK_VALUE(n.dim() != 2 || n.size(1) <= 16, "n may have 16 columns here, but it has ", n.size(1),
                      ": matmul_fast takes more");
    return product(m, n, 0, launch_matmul_narrow);
}
