// What every torch wrapper of the course includes: few torch headers, since each takes seconds to compile, and the
// checks made before a pointer is used. Each error names the argument and what was found.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

inline void check_input(const at::Tensor& x, const char* name, at::ScalarType dtype, int64_t dims = -1) {
    TORCH_CHECK(x.is_cuda(), name, " must be a CUDA tensor, but it is on ", x.device(), ": move it with .cuda()");
    TORCH_CHECK_TYPE(x.scalar_type() == dtype, name, " must be ", c10::getDtypeNames(dtype).first, ", but it is ",
                     c10::getDtypeNames(x.scalar_type()).first, ": convert it with .to(torch.",
                     c10::getDtypeNames(dtype).first, ")");
    TORCH_CHECK_VALUE(dims < 0 || x.dim() == dims, name, " must have ", dims, " dimensions, but it has ", x.dim(),
                      ": its shape is ", x.sizes());
    TORCH_CHECK_VALUE(x.is_contiguous(), name, " must be contiguous, but its strides are ", x.strides(),
                      " for the shape ", x.sizes(), ": copy it with .contiguous()");
}

inline void check_same_device(const at::Tensor& x, const char* x_name, const at::Tensor& y, const char* y_name) {
    TORCH_CHECK(x.device() == y.device(), x_name, " is on ", x.device(), ", but ", y_name, " is on ", y.device(),
                ": both must be on one device");
}

// A grid has at most 65,535 blocks in y (CUDA C++ Programming Guide, "Compute Capabilities"). An output without columns
// needs no grid.
inline void check_grid(int64_t rows, int64_t columns, int64_t threads_y) {
    TORCH_CHECK_VALUE(columns == 0 || rows <= 65535 * threads_y, "there are ", rows, " rows, but a grid reaches ",
                      65535 * threads_y, " with ", threads_y, " threads in y: split the input");
}
