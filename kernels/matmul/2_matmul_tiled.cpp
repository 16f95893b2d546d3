// The torch side of 2_matmul_tiled.cu.
#include "product.h"

void launch_matmul_tiled(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                         cudaStream_t stream);
void launch_matmul_dynamic(const float* m, const float* n, float* out, size_t h, size_t w, int k, int tile,
                           cudaStream_t stream);
void launch_matmul_template(const float* m, const float* n, float* out, size_t h, size_t w, int k, int tile,
                            cudaStream_t stream);

// float32 (h, k) @ float32 (k, w) -> float32 (h, w), tiles of 16 x 16 in shared memory.
at::Tensor matmul_tiled(const at::Tensor& m, const at::Tensor& n) { return product(m, n, 16, launch_matmul_tiled); }

// The same with tiles of any width from 1 to 32: a block may have 1024 threads.
at::Tensor matmul_dynamic(const at::Tensor& m, const at::Tensor& n, int64_t tile) {
    TORCH_CHECK_VALUE(1 <= tile && tile <= 32, "tile must be from 1 to 32, but it is ", tile,
                      ": a block of tile x tile threads may have 1024");
    return product(m, n, tile, launch_matmul_dynamic, int(tile));
}

// The same with tiles of a width that the compiler knows: 8, 16 or 32.
at::Tensor matmul_template(const at::Tensor& m, const at::Tensor& n, int64_t tile) {
    TORCH_CHECK_VALUE(tile == 8 || tile == 16 || tile == 32, "tile must be 8, 16 or 32, but it is ", tile,
                      ": matmul_dynamic takes others");
    return product(m, n, tile, launch_matmul_template, int(tile));
}
