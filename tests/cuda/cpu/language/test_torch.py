"""Torch functions written for stock `load_inline`: types, accessors, streams, errors, arguments."""

import pytest
import torch

from utils import load_cuda

TORCH_CPP = r"""
torch::Tensor twice_plus_one(torch::Tensor x);
torch::Tensor cube(const torch::Tensor& x);
torch::Tensor transposed(torch::Tensor x);
torch::Tensor corner(torch::Tensor x);
torch::Tensor reversed(torch::Tensor x);
torch::Tensor on_the_stream(torch::Tensor x);
torch::Tensor counted(torch::Tensor places, torch::Tensor out);
torch::Tensor sigmoid(torch::Tensor x);
void complains(torch::Tensor x, int64_t how);
std::vector<int64_t> device();
std::tuple<torch::Tensor, int64_t> first_two(std::vector<torch::Tensor> x);
std::string about(std::optional<torch::Tensor> x, bool loud, double number, std::string text, std::vector<double> more);
double timed(torch::Tensor x);
torch::Tensor clipped(torch::Tensor x);
torch::Tensor halves(torch::Tensor x);
torch::Tensor norm(torch::Tensor x);
torch::Tensor product(torch::Tensor x, torch::Tensor y);
"""
TORCH_CUDA = (
    r"""
#include <torch/extension.h>
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Exceptions.h>
#include <ATen/cuda/detail/KernelUtils.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAMathCompat.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <tuple>
#include <vector>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")
"""
    + TORCH_CPP
    + r"""
template <typename scalar_t> __global__ void twice_plus_one_kernel(const scalar_t* x, scalar_t* out, int64_t n) {
    CUDA_KERNEL_LOOP(i, n) {
        scalar_t v = x[i];
        v *= scalar_t(2);
        out[i] = v + static_cast<scalar_t>(1);
    }
}
torch::Tensor twice_plus_one(torch::Tensor x) {
    CHECK_INPUT(x);
    const at::cuda::OptionalCUDAGuard device_guard(device_of(x));
    auto out = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "twice", ([&] {
        twice_plus_one_kernel<scalar_t><<<at::cuda::detail::GET_BLOCKS(x.numel(), 128), 128, 0,
                                          at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.numel());
    }));
    AT_CUDA_CHECK(cudaGetLastError());
    return out;
}

template <typename T> __global__ void cube_kernel(const T* x, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * x[i] * x[i];
}
torch::Tensor cube(const torch::Tensor& x) {
    auto out = torch::zeros(x.sizes(), x.options());
    int n = x.numel();
    AT_DISPATCH_ALL_TYPES(x.scalar_type(), "cube", [&] {
        cube_kernel<scalar_t><<<(n + 31) / 32, 32>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

template <typename scalar_t>
__global__ void transposed_kernel(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                                  torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < x.size(0) && c < x.size(1)) out[c][r] = x[r][c];
}
torch::Tensor transposed(torch::Tensor x) {
    auto out = torch::empty({x.size(1), x.size(0)}, x.options());
    dim3 block(8, 8), grid((x.size(1) + 7) / 8, (x.size(0) + 7) / 8);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "transposed", [&] {
        transposed_kernel<scalar_t><<<grid, block>>>(
            x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

// The elements [i][1][2] of a three-dimensional tensor.
__global__ void corner_kernel(at::GenericPackedTensorAccessor<double, 3, at::RestrictPtrTraits, int64_t> x,
                              double* out) {
    out[threadIdx.x] = x[threadIdx.x][1][2] + x.stride(2);
}
torch::Tensor corner(torch::Tensor x) {
    auto out = torch::zeros({x.size(0)}, torch::TensorOptions().dtype(torch::kFloat64).device(x.device()));
    corner_kernel<<<1, x.size(0)>>>(x.packed_accessor64<double, 3, at::RestrictPtrTraits>(), out.data_ptr<double>());
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    return out;
}

__global__ void reversed_kernel(torch::PackedTensorAccessor<float, 1, torch::DefaultPtrTraits, size_t> x,
                                torch::PackedTensorAccessor<float, 1, torch::DefaultPtrTraits, size_t> out) {
    out[x.size(0) - 1 - threadIdx.x] = x[threadIdx.x];
}
torch::Tensor reversed(torch::Tensor x) {
    auto out = torch::full({x.size(0)}, NAN, torch::dtype(torch::kFloat32).device(torch::kCUDA));
    reversed_kernel<<<1, x.size(0)>>>(x.packed_accessor<float, 1, torch::DefaultPtrTraits, size_t>(),
                                      out.packed_accessor<float, 1, torch::DefaultPtrTraits, size_t>());
    return out;
}

torch::Tensor on_the_stream(torch::Tensor x) {
    c10::cuda::CUDAGuard guard(x.device());
    at::DeviceGuard also(x.device());
    c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
    cudaStream_t plain = at::cuda::getCurrentCUDAStream().stream();
    auto out = at::empty_like(x), last = torch::empty_like(out);
    int n = x.numel();
    cube_kernel<float><<<(n + 31) / 32, 32, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    cube_kernel<float><<<(n + 31) / 32, 32, 0, plain>>>(out.data_ptr<float>(), last.data_ptr<float>(), n);
    C10_CUDA_CHECK(cudaMemcpyAsync(out.data_ptr(), last.data_ptr(), n * 4, cudaMemcpyDeviceToDevice, stream.stream()));
    AT_CUDA_CHECK(cudaStreamSynchronize(stream));
    return out;
}

template <typename scalar_t> __global__ void counted_kernel(const int* places, scalar_t* out, int n) {
    using accscalar_t = at::acc_type<scalar_t, true>;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gpuAtomicAdd(out + places[i], static_cast<scalar_t>(accscalar_t(1)));
}
torch::Tensor counted(torch::Tensor places, torch::Tensor out) {
    int n = places.numel();
    AT_DISPATCH_ALL_TYPES_AND(at::kHalf, out.scalar_type(), "counted", [&] {
        counted_kernel<scalar_t><<<(n + 31) / 32, 32>>>(places.data_ptr<int>(), out.data_ptr<scalar_t>(), n);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

template <typename scalar_t> __global__ void sigmoid_kernel(const scalar_t* x, scalar_t* out, size_t n) {
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scalar_t(1) / (scalar_t(1) + c10::cuda::compat::exp(-x[i]));
}
torch::Tensor sigmoid(torch::Tensor x) {
    auto out = torch::zeros_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sigmoid", ([&] {
        sigmoid_kernel<<<(x.numel() + 31) / 32, 32>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.numel());
    }));
    return out;
}

void complains(torch::Tensor x, int64_t how) {
    TORCH_CHECK(how != 0, "x has ", x.size(0), " rows");
    TORCH_CHECK_VALUE(how != 1, "a bad value: ", how);
    TORCH_CHECK_INDEX(how != 2, "a bad index");
    if (how == 3) C10_CUDA_CHECK(cudaMemset(nullptr, 0, 4));
    if (how == 4) {
        cube_kernel<float><<<1, 5000>>>(nullptr, nullptr, 0);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (how == 5) TORCH_WARN("take care of ", how);
    if (how == 6) AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "complains", [&] {});
    if (how == 7) throw std::runtime_error("from the standard library");
}

std::vector<int64_t> device() {
    return {at::cuda::getCurrentDeviceProperties()->warpSize, at::cuda::warp_size(), c10::cuda::current_device(),
            c10::cuda::device_count() > 0 && c10::cuda::MaybeSetDevice(0) == cudaSuccess,
            at::cuda::getCurrentDeviceProperties()->maxThreadsPerBlock};
}

std::tuple<torch::Tensor, int64_t> first_two(std::vector<torch::Tensor> x) {
    return std::make_tuple(torch::cat({x[0], x[1]}), int64_t(x.size()));
}

std::string about(std::optional<torch::Tensor> x, bool loud, double number, std::string text,
                  std::vector<double> more) {
    double sum = number;
    for (double v : more) sum += v;
    return text + (x ? " with" : " without") + (loud ? "!" : ".") + std::to_string(sum);
}

// Without cuda_fp16.h: torch's headers include it for nvcc.
template <typename scalar_t> __global__ void clipped_kernel(const scalar_t* x, scalar_t* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const scalar_t positive = max(x[i], static_cast<scalar_t>(0)), larger = x[i] > positive ? x[i] : positive;
    out[i] = std::min(larger, static_cast<scalar_t>(2)) + static_cast<scalar_t>(::min(0.0f, x[i]) + fmaxf(x[i], 0.0f));
}
torch::Tensor clipped(torch::Tensor x) {
    auto out = torch::empty_like(x);
    int n = x.numel();
    AT_DISPATCH_SWITCH(x.scalar_type(), "clipped", AT_DISPATCH_CASE(at::kHalf, [&] {
        clipped_kernel<scalar_t><<<(n + 31) / 32, 32>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
    }) AT_DISPATCH_CASE(at::kBFloat16, [&] {
        clipped_kernel<scalar_t><<<(n + 31) / 32, 32>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
    }));
    C10_CUDA_CHECK_WARN(cudaGetLastError());
    return out;
}

__global__ void halves_kernel(const __half2* x, half2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __hadd2(x[i], __float2half2_rn(1.0f));
}
__global__ void bfloats_kernel(const __nv_bfloat16* x, __nv_bfloat16* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2bfloat16(__bfloat162float(x[i]) + 1.0f);
}
torch::Tensor halves(torch::Tensor x) {
    auto out = torch::empty_like(x);
    int n = x.numel();
    if (x.scalar_type() == at::kHalf) {
        auto* in = reinterpret_cast<const half2*>(x.data_ptr<at::Half>());
        halves_kernel<<<1, 32>>>(in, reinterpret_cast<__half2*>(out.data_ptr<at::Half>()), n / 2);
    } else {
        bfloats_kernel<<<2, 32>>>(reinterpret_cast<__nv_bfloat16*>(x.data_ptr<at::BFloat16>()),
                                  reinterpret_cast<__nv_bfloat16*>(out.data_ptr()), n);
    }
    return out;
}

// CUDA has a function of this name.
torch::Tensor norm(torch::Tensor x) {
    return x / x.mul(x).sum().sqrt();
}

torch::Tensor product(torch::Tensor x, torch::Tensor y) {  // columns of cuBLAS are rows of torch
    auto out = torch::empty({x.size(0), y.size(1)}, x.options());
    int m = y.size(1), n = x.size(0), k = x.size(1);
    float one = 1, zero = 0;
    TORCH_CUDABLAS_CHECK(cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one,
                                     y.data_ptr<float>(), m, x.data_ptr<float>(), k, &zero, out.data_ptr<float>(), m));
    return out;
}

double timed(torch::Tensor x) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record();
    auto y = cube(x);
    end.record(at::cuda::getCurrentCUDAStream());
    end.synchronize();
    return begin.elapsed_time(end);
}
"""
)
TORCH_FUNCS = (
    "twice_plus_one cube transposed corner reversed on_the_stream counted sigmoid complains device "
    "first_two about timed clipped halves norm product"
).split()


@pytest.fixture
def extension(backend):
    return load_cuda(TORCH_CUDA, TORCH_CPP, TORCH_FUNCS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floating_types(extension, backend, dtype):
    x = torch.randn(1031, dtype=dtype, device=backend)
    torch.testing.assert_close(extension.twice_plus_one(x), x * 2 + 1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float64])
def test_all_types(extension, backend, dtype):
    x = torch.randint(0, 6, (5, 7), device=backend).to(dtype)
    torch.testing.assert_close(extension.cube(x), x**3 if dtype != torch.int8 else (x.short() ** 3).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_packed_accessors(extension, backend, dtype):
    x = torch.randn(21, 34, device=backend).to(dtype)
    torch.testing.assert_close(extension.transposed(x), x.t().contiguous())
    torch.testing.assert_close(extension.transposed(x[3:, ::3]), x[3:, ::3].t().contiguous())


def test_other_accessors(extension, backend):
    x = torch.randn(4, 6, 5, dtype=torch.float64, device=backend).transpose(1, 2)
    torch.testing.assert_close(extension.corner(x), x[:, 1, 2] + 5)
    y = torch.randn(100, device=backend)
    torch.testing.assert_close(extension.reversed(y), y.flip(0))


def test_streams_and_guards(extension, backend):
    x = torch.rand(100, device=backend)
    torch.testing.assert_close(extension.on_the_stream(x), x**9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int16, torch.int64, torch.uint8])
def test_atomics_on_every_type(extension, backend, dtype):
    places = torch.randint(0, 10, (700,), dtype=torch.int32)
    out = extension.counted(places.to(backend), torch.zeros(10, dtype=dtype, device=backend))
    assert out.tolist() == torch.bincount(places, minlength=10).tolist()


def test_mathematics_for_both_precisions(extension, backend):
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(100, dtype=dtype, device=backend)
        torch.testing.assert_close(extension.sigmoid(x), 1 / (1 + torch.exp(-x)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_types_of_16_bits_are_torch_s_and_cuda_s(extension, backend, dtype):
    x = torch.linspace(-3, 5, 34, device=backend).to(dtype)
    torch.testing.assert_close(extension.clipped(x), x.clamp(0, 2) + x)
    torch.testing.assert_close(extension.halves(x), x + 1)


def test_a_function_may_have_the_name_of_one_of_cuda_s(extension, backend):
    x = torch.randn(20, device=backend)
    torch.testing.assert_close(extension.norm(x), x / x.norm())


def test_torch_s_handle_of_cublas(extension, backend):
    x, y = torch.randn(5, 7, device=backend), torch.randn(7, 3, device=backend)
    torch.testing.assert_close(extension.product(x, y), x @ y)


def test_errors_become_python_s(extension, backend):
    x = torch.zeros(3, 2, device=backend, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="x has 3 rows"):
        extension.complains(x, 0)
    with pytest.raises(ValueError, match="a bad value: 1"):
        extension.complains(x, 1)
    with pytest.raises(IndexError, match="a bad index"):
        extension.complains(x, 2)
    for how in (3, 4):
        with pytest.raises(RuntimeError, match="CUDA error: invalid (configuration )?argument"):
            extension.complains(x, how)
    with pytest.warns(UserWarning, match="take care of 5"):
        extension.complains(x, 5)
    with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
        extension.complains(x, 6)
    with pytest.raises(RuntimeError, match="from the standard library"):
        extension.complains(x, 7)
    extension.complains(x, 8)
    with pytest.raises(RuntimeError, match="x must be a contiguous CUDA tensor"):
        extension.twice_plus_one(torch.randn(4, 4, device=backend).t())


def test_the_device_as_torch_tells_it(extension):
    assert extension.device()[:4] == [32, 32, 0, 1] and extension.device()[4] == 1024


def test_values_of_other_types(extension, backend):
    x = torch.arange(3, device=backend)
    joined, count = extension.first_two([x, x + 3, x])
    assert joined.tolist() == list(range(6)) and count == 3
    assert extension.about(None, True, 1, "é", [0.5, 2]) == "é without!3.500000"
    assert extension.about(x, False, 1.25, "", ()) == " with.1.250000"
    assert 0 <= extension.timed(torch.ones(4, device=backend)) < 1000


@pytest.mark.parametrize(
    "arguments",
    [(), (3,), (None,), ("x",), ([1.0],), (torch.ones(2), torch.ones(2)), (torch.ones(2).untyped_storage(),)],
)
def test_wrong_arguments_are_a_type_error(extension, arguments):
    with pytest.raises(TypeError):
        extension.cube(*arguments)


@pytest.mark.parametrize(
    "type_and_value", [("std::map<std::string, int64_t>", {"a": 3}), ("at::ScalarType", torch.int32)]
)
def test_types_that_need_pybind11(backend, type_and_value):
    kind, value = type_and_value
    cpp = f"#include <map>\n#include <string>\n{kind} same({kind} x) {{ return x; }}"
    assert load_cuda("", cpp, ["same"]).same(value) == value
