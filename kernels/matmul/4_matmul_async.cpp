// The torch side of 4_matmul_async.cu.
#include "product.h"

void launch_matmul_async(const float* m, const float* n, float* out, size_t h, size_t w, size_t k, cudaStream_t stream);
void launch_matmul_async_large(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                               cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w), 8 x 8 elements per thread, the next tiles in flight.
at::Tensor matmul_async(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 128, launch_matmul_async); }

// The same with 16 x 8 elements per thread.
at::Tensor matmul_async_large(const at::Tensor& m, const at::Tensor& n) {
    return product(m, n, 128, launch_matmul_async_large);
}
