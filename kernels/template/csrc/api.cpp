// The Python interface: tensors in, tensors out. Every function checks, allocates, and launches on the device of its
// inputs, on the stream that is current there. Each is bound twice:
//   pybind11       my_kernels._C.square(x): the function itself. It records no gradients, and torch.compile cannot
//                  look into it.
//   torch.library  torch.ops.my_kernels.square(x): an operator of PyTorch. src/my_kernels/__init__.py adds its gradient,
//                  and what torch.compile needs.
#include <ATen/Dispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <optional>
#include <type_traits>

#include "common.h"

// Where the kernels run, and where PyTorch's own functions take over. This is the only difference between the builds:
// everything else in this file is compiled in both, so a mistake that one of them shows does not wait for the other.
#ifdef KERNELS_ON_CPU  // defined by setup.py when it builds for the CPU
#define HERE CPU
#define ELSEWHERE CUDA
#else
#define HERE CUDA
#define ELSEWHERE CPU
#endif
constexpr at::DeviceType DEVICE = at::DeviceType::HERE;

// ---- checks: each error names the argument, what was found, and what to do ----------------------------------------

static void check_device(const at::Tensor& x, const char* name) {
    TORCH_CHECK(x.device().type() == DEVICE, name, " must be on a ", DEVICE, " device, but it is on ", x.device(),
                ": the kernels were built for ", DEVICE);
}

static void check_dtype(const at::Tensor& x, const char* name, bool half) {
    at::ScalarType dtype = x.scalar_type();
    TORCH_CHECK_TYPE(dtype == at::kFloat || dtype == at::kDouble || (half && dtype == at::kHalf), name,
                     " must be float32", half ? ", float64 or float16" : " or float64", ", but it is ",
                     c10::getDtypeNames(dtype).first, ": convert it with .to(torch.float32)");
}

static void check_pair(const at::Tensor& x, const char* x_name, const at::Tensor& y, const char* y_name) {
    TORCH_CHECK(x.device() == y.device(), x_name, " is on ", x.device(), ", but ", y_name, " is on ", y.device(),
                ": both must be on one device");
    TORCH_CHECK_TYPE(x.scalar_type() == y.scalar_type(), x_name, " is ", c10::getDtypeNames(x.scalar_type()).first,
                     ", but ", y_name, " is ", c10::getDtypeNames(y.scalar_type()).first, ": both must be of one type");
}

static void check_vectors(const at::Tensor& a, const at::Tensor& b) {
    check_dtype(a, "a", true);
    check_pair(a, "a", b, "b");
    TORCH_CHECK_VALUE(a.sizes() == b.sizes(), "a and b must have the same size, but a has ", a.sizes(), " and b has ",
                      b.sizes());
}

static void check_matrices(const at::Tensor& m, const at::Tensor& n) {
    check_dtype(m, "m", false);
    check_pair(m, "m", n, "n");
    TORCH_CHECK_VALUE(m.dim() == 2 && n.dim() == 2, "m and n must have 2 dimensions, but their sizes are ", m.sizes(),
                      " and ", n.sizes());
    TORCH_CHECK_VALUE(m.size(1) == n.size(0), "m has ", m.size(1), " columns (size ", m.sizes(), "), but n has ",
                      n.size(0), " rows (size ", n.sizes(), "): they must be as many");
}

// Where the result goes that the caller brought: given the size it needs, as PyTorch's own functions do with `out`.
static void resize_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
    check_pair(a, "a", out, "out");
    out.resize_(a.sizes());
    TORCH_CHECK_VALUE(out.is_contiguous(), "out must be contiguous, but its strides are ", out.strides(),
                      " for the size ", out.sizes());
    at::assert_no_partial_overlap(out, a);
    at::assert_no_partial_overlap(out, b);
    out.unsafeGetTensorImpl()->bump_version();  // a backward pass that has kept the old numbers then refuses
}

// ---- the functions that launch --------------------------------------------------------------------------------------

// CUDA's name of an element's type: torch's half is another type than CUDA's, of the same bits.
template <class T>
using cuda_type = std::conditional_t<std::is_same_v<T, at::Half>, half, T>;

template <class T>
static const T* read(const at::Tensor& x) { return static_cast<const T*>(x.const_data_ptr()); }

template <class T>
static T* write(const at::Tensor& x) { return static_cast<T*>(x.mutable_data_ptr()); }

// a and b of any one size -> a + b, in `out` if there is one.
static at::Tensor vector_add_into(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& given) {
    check_device(a, "a");
    check_vectors(a, b);
    c10::cuda::CUDAGuard on_device_of(a.device());
    at::Tensor from_a = a.contiguous(), from_b = b.contiguous();  // a copy where they are not
    at::Tensor out = given ? *given : at::empty(a.sizes(), from_a.options());
    if (given) resize_out(out, from_a, from_b);
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(out.scalar_type(), "vector_add", [&] {
        using T = cuda_type<scalar_t>;
        launch_vector_add(read<T>(from_a), read<T>(from_b), write<T>(out), out.numel(),
                          c10::cuda::getCurrentCUDAStream());
    });
    return out;
}

static at::Tensor vector_add(const at::Tensor& a, const at::Tensor& b) { return vector_add_into(a, b, std::nullopt); }

// x of any size -> every element squared.
static at::Tensor square(const at::Tensor& x) {
    check_device(x, "x");
    check_dtype(x, "x", true);
    c10::cuda::CUDAGuard on_device_of(x.device());
    at::Tensor from = x.contiguous(), out = at::empty(x.sizes(), from.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(out.scalar_type(), "square", [&] {
        using T = cuda_type<scalar_t>;
        launch_square(read<T>(from), write<T>(out), out.numel(), c10::cuda::getCurrentCUDAStream());
    });
    return out;
}

// m (h, k) and n (k, w) -> (h, w).
static at::Tensor matmul(const at::Tensor& m, const at::Tensor& n) {
    check_device(m, "m");
    check_matrices(m, n);
    // A grid has at most 65,535 blocks in y (CUDA C++ Programming Guide, "Compute Capabilities").
    TORCH_CHECK_VALUE(m.size(0) <= 65535 * TILE, "m has ", m.size(0), " rows, but a grid reaches ", 65535 * TILE,
                      ": split m");
    c10::cuda::CUDAGuard on_device_of(m.device());
    at::Tensor from_m = m.contiguous(), from_n = n.contiguous();
    at::Tensor out = at::empty({m.size(0), n.size(1)}, from_m.options());
    if (out.numel() == 0) return out;  // CUDA refuses an empty grid
    AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "matmul", [&] {
        launch_matmul(read<scalar_t>(from_m), read<scalar_t>(from_n), write<scalar_t>(out), m.size(0), n.size(1),
                      m.size(1), c10::cuda::getCurrentCUDAStream());
    });
    return out;
}

// ---- bound as operators of PyTorch ----------------------------------------------------------------------------------

TORCH_LIBRARY(my_kernels, m) {
    m.def("vector_add(Tensor a, Tensor b) -> Tensor");
    m.def("square(Tensor x) -> Tensor");
    m.def("matmul(Tensor m, Tensor n) -> Tensor");
}

TORCH_LIBRARY_IMPL(my_kernels, HERE, m) {
    m.impl("vector_add", vector_add);
    m.impl("square", square);
    m.impl("matmul", matmul);
}

// Tensors on the other device are left to PyTorch, so that a model that uses the operators can be tried without a GPU.
TORCH_LIBRARY_IMPL(my_kernels, ELSEWHERE, m) {
    m.impl("vector_add", [](const at::Tensor& a, const at::Tensor& b) {
        check_vectors(a, b);
        return a.contiguous().add(b.contiguous());
    });
    m.impl("square", [](const at::Tensor& x) {
        check_dtype(x, "x", true);
        at::Tensor from = x.contiguous();
        return from.mul(from);
    });
    m.impl("matmul", [](const at::Tensor& m, const at::Tensor& n) {
        check_matrices(m, n);
        return m.mm(n);
    });
}

// ---- bound with pybind11 --------------------------------------------------------------------------------------------

// Below, nobody records what a gradient needs. An error is better than a gradient that is missing.
template <class... Tensors>
static void refuse_gradients(const char* function, const Tensors&... tensors) {
    TORCH_CHECK(!at::GradMode::is_enabled() || !(tensors.requires_grad() || ...), "_C.", function,
                " records no gradients: call my_kernels.", function, ", or this under torch.no_grad()");
}

static at::Tensor plain_vector_add(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& out) {
    refuse_gradients("vector_add", a, b, out ? *out : a);
    return vector_add_into(a, b, out);
}

static at::Tensor plain_square(const at::Tensor& x) {
    refuse_gradients("square", x);
    return square(x);
}

static at::Tensor plain_matmul(const at::Tensor& m, const at::Tensor& n) {
    refuse_gradients("matmul", m, n);
    return matmul(m, n);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.attr("device") = c10::DeviceTypeName(DEVICE, true);
    module.def("vector_add", torch::wrap_pybind_function_no_gil(plain_vector_add), py::arg("a"), py::arg("b"),
               py::arg("out") = py::none(), "a + b, without gradients. `out` is resized and receives the result.");
    module.def("square", torch::wrap_pybind_function_no_gil(plain_square), py::arg("x"), "x * x, without gradients.");
    module.def("matmul", torch::wrap_pybind_function_no_gil(plain_matmul), py::arg("m"), py::arg("n"),
               "The matrix product m @ n, without gradients.");
}
