"""Launches in a source: the kernel they name, and what its `__launch_bounds__` allow."""

import pytest
import torch

from utils import load_cuda
from utils.cuda.kernel import compile_kernel, compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

BOUNDED = """
#define THREADS (32 * 4)
namespace my { template <int n, class T = float>
__global__ void __launch_bounds__(n * 32, 2) some(T* x, int = 1) { x[threadIdx.x] = n; } }
__launch_bounds__(THREADS)
__global__ void fixed(float* x);
__global__ void __launch_bounds__(THREADS) fixed(float* x) { x[threadIdx.x] = 4; }
__global__ void __launch_bounds__(64) same(int* x) {}
__global__ void same(float* x) { x[threadIdx.x] = 4; }
void launched(torch::Tensor x, torch::Tensor errors, int threads) {
    int* error = errors.data_ptr<int>();
    fixed<<<1, threads>>>(x.data_ptr<float>());
    error[0] = cudaGetLastError();
    my::some<4><<<1, threads>>>(x.data_ptr<float>());
    error[1] = cudaGetLastError();
    same<<<1, threads>>>(x.data_ptr<float>());
    error[2] = cudaGetLastError();
}
"""


def test_a_launch_keeps_to_its_launch_bounds():
    only = BOUNDED[: BOUNDED.index("void launched")]
    said = r"CUDA error: invalid argument: a block of \(16, 16, 1\) has 256 threads, and .*__launch_bounds__ allows 128"
    for launched in compile_kernels(only, ["my::some<4>", "fixed"]):
        x = torch.zeros(256)
        args = (x, 1) if "some" in launched.name else (x,)
        launched[1, 128](*args)
        assert x.sum() == 4 * 128
        with pytest.raises(RuntimeError, match=said):
            launched[1, (16, 16)](*args)
        assert x.sum() == 4 * 128
    module = load_cuda(BOUNDED, "void launched(torch::Tensor x, torch::Tensor errors, int threads);", "launched")
    for threads, expected in ((128, [0, 0, 0]), (256, [1, 1, 0])):
        errors = torch.full((3,), -1, dtype=torch.int32)
        module.launched(torch.zeros(256), errors, threads)
        assert errors.tolist() == expected


@pytest.mark.parametrize(
    ("declared", "defined"),
    [("", "__launch_bounds__(64)"), ("__launch_bounds__(128)", "__launch_bounds__(64)"), ("__launch_bounds__(64)", "")],
)
def test_the_last_launch_bounds_count_wherever_a_kernel_is_declared(declared, defined):
    source = f"__global__ void {declared} k(float*); __global__ void {defined} k(float* x) {{ x[threadIdx.x] = 4; }}"
    kernel, x = compile_kernel(source, "k"), torch.zeros(65)
    kernel[1, 64](x)
    with pytest.raises(
        RuntimeError, match="a block of .* has 65 threads, and the kernel's __launch_bounds__ allows 64"
    ):
        kernel[1, 65](x)
    assert x.tolist() == [4.0] * 64 + [0.0]


def test_a_kernel_s_name_may_be_shared_with_one_that_takes_nothing():
    source = """__global__ void k();
    __global__ void k(int* x, int n) { x[threadIdx.x] = n; }
    void go(torch::Tensor x) { k<<<1, 4>>>(x.data_ptr<int>(), 7); }"""
    load_cuda(source, "void go(torch::Tensor x);", ["go"]).go(x := torch.zeros(4, dtype=torch.int32))
    assert x.tolist() == [7] * 4


PACKS = """
namespace my { template <int n, typename... A> __global__ void sum(int* x, A... a) { x[0] = n + (a + ... + 0); } }
template <typename T, int n = 2, typename... A> __global__ void __launch_bounds__(64) count(T* x, A... a) {
    x[0] = n + sizeof...(a);
}
extern "C" static __global__ void ten(int* x) { x[0] = 10; }
void run(torch::Tensor x) {
    int* p = x.data_ptr<int>();
    my::sum<3><<<1, 1>>>(p, 1, 2);
    my::sum<3, int><<<1, 1>>>(p + 1, 7);
    my::sum<3><<<1, 1>>>(p + 2);
    count<int, 3><<<1, 1>>>(p + 3, 1, 2);
    count<int><<<1, 1>>>(p + 4);
    count<<<1, 1>>>(p + 5, 2.0, 3);
    count<<<1, 65>>>(p + 6, 2.0);
    x[6] = int(cudaGetLastError());
    ten<<<1, 1>>>(p + 7);
}
"""


def test_a_launch_leaves_what_is_in_a_pack_to_the_compiler():
    x = torch.zeros(8, dtype=torch.int32)
    load_cuda(PACKS, "void run(torch::Tensor x);", ["run"]).run(x)
    assert x.tolist() == [6, 10, 3, 5, 2, 4, 1, 10]


MOVED = """
struct Owner {
    float* x;
    explicit Owner(float* x) : x(x) {}
    Owner(Owner&& other) : x(other.x) { other.x = nullptr; }
    Owner(const Owner&) = delete;
};
__global__ void fill(Owner owner, float value) { owner.x[threadIdx.x] = value; }
void run(torch::Tensor x) { fill<<<1, x.numel()>>>(Owner(x.data_ptr<float>()), 3); }
"""


def test_a_kernel_takes_an_object_that_can_only_be_moved():
    x = torch.zeros(40)
    load_cuda(MOVED, "void run(torch::Tensor x);", ["run"]).run(x)
    assert (x == 3).all()
