// The torch side of 3_matmul_registers.cu.
#include "product.h"

void launch_matmul_column(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                          cudaStream_t stream);
void launch_matmul_square(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                          cudaStream_t stream);
void launch_matmul_vector(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                          cudaStream_t stream);
void launch_matmul_banks(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream);
void launch_matmul_warp(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w), 8 elements of a column per thread.
at::Tensor matmul_column(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 64, launch_matmul_column); }

// The same with 8 x 8 elements per thread.
at::Tensor matmul_square(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 128, launch_matmul_square); }

// The same with loads of 16 bytes.
at::Tensor matmul_vector(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 128, launch_matmul_vector); }

// The same without bank conflicts.
at::Tensor matmul_banks(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 128, launch_matmul_banks); }

// The same with a tile of 64 x 32 elements per warp.
at::Tensor matmul_warp(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 128, launch_matmul_warp); }
