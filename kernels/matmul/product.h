// What the torch wrappers of all matrix products share.
#include <climits>

#include "../checks.h"

// float32 m (h, k) and n (k, w) -> float32 (h, w): checks, allocates and launches. `tile` is how many rows of the
// output a row of blocks computes; 0 where the rows are not in y. `more` are further arguments of the launcher.
template <class Launch, class... More>
static at::Tensor product(const at::Tensor& m, const at::Tensor& n, int64_t tile, Launch launch, More... more) {
    check_input(m, "m", at::kFloat, 2);
    check_input(n, "n", at::kFloat, 2);
    check_same_device(m, "m", n, "n");
    TORCH_CHECK_VALUE(m.size(1) == n.size(0), "inner sizes differ: m has ", m.size(1), " columns (shape ", m.sizes(),
                      "), n has ", n.size(0), " rows (shape ", n.sizes(), ")");
    TORCH_CHECK_VALUE(m.size(1) <= INT_MAX - 31, "m has ", m.size(1), " columns (shape ", m.sizes(), "), but at most ",
                      INT_MAX - 31, " fit: the kernels count them with an int, 32 at a time");
    if (tile) check_grid(m.size(0), n.size(1), tile);
    c10::cuda::CUDAGuard on_device_of(m.device());
    at::Tensor out = at::empty({m.size(0), n.size(1)}, m.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch(m.const_data_ptr<float>(), n.const_data_ptr<float>(), out.mutable_data_ptr<float>(), out.size(0),
           out.size(1), int(m.size(1)), more..., c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// The same for an n of at most 16 columns.
template <class Launch>
static at::Tensor narrow_product(const at::Tensor& m, const at::Tensor& n, Launch launch) {
    TORCH_CHECK_VALUE(n.dim() != 2 || n.size(1) <= 16, "n may have 16 columns here, but it has ", n.size(1),
                      ": matmul_fast takes more");
    return product(m, n, 0, launch);
}
