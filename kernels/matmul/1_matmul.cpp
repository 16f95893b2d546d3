// The torch side of 1_matmul.cu.
#include "product.h"

void launch_matmul_uncoalesced(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                               cudaStream_t stream);
void launch_matmul(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w), one element per thread, a warp in a column.
at::Tensor matmul_uncoalesced(const at::Tensor& m, const at::Tensor& n) {
    TORCH_CHECK_VALUE(n.dim() != 2 || n.size(1) <= 65535 * 8, "n may have ", 65535 * 8, " columns here, but it has ",
                      n.size(1), ": split it");
    return product(m, n, 0, launch_matmul_uncoalesced);
}

// The same with blocks of 16 x 16 threads, which are rows of neighbours.
at::Tensor matmul(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 16, launch_matmul); }
