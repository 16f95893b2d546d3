// The torch side of softmax.cu: of each row of (h, w) by itself.
#include <limits>

#include "checks.h"
#include "dtypes.h"

void launch_softmax_naive(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_three_passes(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_online(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_wide(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
bool launch_softmax_shared(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_warp(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_block(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax(const float* x, float* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax(const __half* x, __half* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax(const __nv_bfloat16* x, __nv_bfloat16* out, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_backward(const float* dy, const float* y, float* dx, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_backward(const __half* dy, const __half* y, __half* dx, size_t h, size_t w, cudaStream_t stream);
void launch_softmax_backward(const __nv_bfloat16* dy, const __nv_bfloat16* y, __nv_bfloat16* dx, size_t h, size_t w,
                             cudaStream_t stream);

const int64_t ANY = std::numeric_limits<int64_t>::max();

static void check_rows(const at::Tensor& x, int64_t longest = ANY) {
    TORCH_CHECK_VALUE(x.size(1) <= longest, "x may have ", longest, " columns here, but it has ", x.size(1),
                      ": softmax takes more");
    // A block or a warp per row; warps are four to a block, and are enough for 1024 columns.
    TORCH_CHECK_VALUE(x.size(1) <= 1024 || x.size(0) <= std::numeric_limits<int>::max(), "x has ", x.size(0),
                      " rows, but a grid has at most 2147483647 blocks: split the input");
}

// One of the steps of softmax.cu, for float32.
template <class Launch>
static at::Tensor softmax_by(Launch launch, const at::Tensor& x, int64_t longest = ANY) {
    check_input(x, "x", at::kFloat, 2);
    check_rows(x, longest);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    launch(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), size_t(x.size(0)), size_t(x.size(1)),
           c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// float32 (h, w) -> float32 (h, w).
at::Tensor softmax_naive(const at::Tensor& x) { return softmax_by(launch_softmax_naive, x); }
at::Tensor softmax_three_passes(const at::Tensor& x) { return softmax_by(launch_softmax_three_passes, x); }
at::Tensor softmax_online(const at::Tensor& x) { return softmax_by(launch_softmax_online, x); }
at::Tensor softmax_wide(const at::Tensor& x) { return softmax_by(launch_softmax_wide, x); }

// The row must fit into the shared memory of a block.
at::Tensor softmax_shared(const at::Tensor& x) {
    auto checked = [&](auto... arguments) {
        TORCH_CHECK_VALUE(launch_softmax_shared(arguments...), "x has ", x.size(1),
                          " columns, but a block has no room for so many in shared memory: softmax takes more");
    };
    return softmax_by(checked, x);
}

// At most 1024 columns for a warp per row, and 32,768 for a block per row.
at::Tensor softmax_warp(const at::Tensor& x) { return softmax_by(launch_softmax_warp, x, 1024); }
at::Tensor softmax_block(const at::Tensor& x) { return softmax_by(launch_softmax_block, x, 32768); }

// float32, float16 or bfloat16 (h, w) -> the softmax of each row, of the same dtype; made of floats. As in torch, a row
// with NaN or inf, or of -inf alone, is NaN.
at::Tensor softmax(const at::Tensor& x) {
    check_floating(x, "x", 2);
    check_rows(x);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor out = at::empty(x.sizes(), x.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    for_dtype(x, [&](auto element) {
        using T = typename decltype(element)::type;
        launch_softmax((const T*)x.const_data_ptr(), (T*)out.mutable_data_ptr(), x.size(0), x.size(1),
                       c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// dy (h, w), the gradient of y, and y (h, w), what softmax returned -> dx (h, w), the gradient of softmax's input.
at::Tensor softmax_backward(const at::Tensor& dy, const at::Tensor& y) {
    check_floating(y, "y", 2);
    check_input(dy, "dy", y.scalar_type(), 2);
    check_same_device(dy, "dy", y, "y");
    TORCH_CHECK_VALUE(dy.sizes() == y.sizes(), "dy must have the shape of y, ", y.sizes(), ", but it has ", dy.sizes());
    check_rows(y);
    c10::cuda::CUDAGuard on_device_of(y.device());
    if (size_t(dy.const_data_ptr()) % 16) return softmax_backward(dy.clone(), y);  // a copy begins where packs do
    if (size_t(y.const_data_ptr()) % 16) return softmax_backward(dy, y.clone());
    at::Tensor dx = at::empty(y.sizes(), y.options());
    if (dx.numel() == 0) return dx;  // CUDA refuses an empty grid
    for_dtype(y, [&](auto element) {
        using T = typename decltype(element)::type;
        launch_softmax_backward((const T*)dy.const_data_ptr(), (const T*)y.const_data_ptr(), (T*)dx.mutable_data_ptr(),
                                y.size(0), y.size(1), c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return dx;
}
