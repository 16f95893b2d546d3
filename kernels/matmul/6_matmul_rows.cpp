// The torch side of 6_matmul_rows.cu.
#include "product.h"

void launch_matmul_row(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream);
void launch_matmul_rows(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream);
void launch_matmul_rows_vector(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                               cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w) for w of at most 16, a warp per row of m.
at::Tensor matmul_row(const at::Tensor& m, const at::Tensor& n) { return narrow_product(m, n, launch_matmul_row); }

// The same with four rows per warp, and n in shared memory.
at::Tensor matmul_rows(const at::Tensor& m, const at::Tensor& n) { return narrow_product(m, n, launch_matmul_rows); }

// The same with 16 bytes per read.
at::Tensor matmul_rows_vector(const at::Tensor& m, const at::Tensor& n) {
    return narrow_product(m, n, launch_matmul_rows_vector);
}
