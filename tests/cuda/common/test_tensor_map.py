"""`tensor_map`: what it takes, and what it says about the rest. The copies themselves: tests/cuda/cpu/tensor."""

import gc
import weakref

import pytest
import torch

from utils import compile_kernel, tensor_map

ONES = torch.ones


def test_sizes_strides_and_box_begin_with_the_fastest_dimension():
    x = torch.zeros(3, 5, 64, dtype=torch.float16)
    made = tensor_map(x, (64, 4, 2), "128B")
    assert (made.sizes, made.strides, made.box) == ((64, 5, 3), (128, 640), (64, 4, 2))
    assert (made.type, made.swizzle_number, made.tensor) == (6, 3, x)
    assert repr(made) == "<map of a float16 tensor (3, 5, 64), box (64, 4, 2), swizzle 128B>"
    assert tensor_map(torch.zeros(100), 8).box == (8,)  # one dimension needs no tuple, and no multiple of 16 bytes


def test_it_keeps_its_tensor_alive():
    x = torch.zeros(64, 64)
    alive, made = weakref.ref(x), tensor_map(x, [32, 8])
    del x
    gc.collect()
    assert alive() is made.tensor


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tensor_map([1, 2], (4,)), TypeError, "takes a tensor, but got list"),
        (
            lambda: tensor_map(ONES(8, 8, dtype=torch.complex64), (4, 4)),
            TypeError,
            "elements of torch.complex64: it can",
        ),
        (lambda: tensor_map(torch.tensor(1.0), ()), ValueError, "1 to 5 dimensions, but the tensor has 0"),
        (lambda: tensor_map(ONES(1, 1, 1, 1, 1, 8), (4,) * 6), ValueError, "1 to 5 dimensions, but the tensor has 6"),
        (
            lambda: tensor_map(ONES(8, 16).t(), (4, 4)),
            ValueError,
            r"not contiguous \(shape \(16, 8\), strides \(1, 16\)",
        ),
        (lambda: tensor_map(ONES(0, 16), (4, 4)), ValueError, r"no elements \(shape \(0, 16\)\)"),
        (lambda: tensor_map(ONES(8, 16).to_sparse(), (4, 4)), ValueError, "layout torch.sparse_coo"),
        (
            lambda: tensor_map(ONES(8, 10), (4, 4)),
            ValueError,
            "10 elements of 4 bytes, 40 bytes.*multiple of 4 elements",
        ),
        (lambda: tensor_map(ONES(64)[1:], 4), ValueError, "begins 4 bytes after a multiple of 16.*clone"),
        (lambda: tensor_map(ONES(8, 16), (4.0, 4)), TypeError, "whole numbers, one for each dimension"),
        (lambda: tensor_map(ONES(8, 16), (4,)), ValueError, r"box \(4,\) has 1 sizes, but the tensor has 2 dimensions"),
        (lambda: tensor_map(ONES(8, 16), (4, 257)), ValueError, r"box\[1\] is 257, but a side of a box has 1 to 256"),
        (lambda: tensor_map(ONES(8, 16), (0, 4)), ValueError, r"box\[0\] is 0"),
        (lambda: tensor_map(ONES(8, 16), (6, 4)), ValueError, r"box\[0\] is 6 elements of 4 bytes, 24 bytes"),
        (lambda: tensor_map(ONES(8, 64), (64, 4), "128B"), ValueError, "at most 128 bytes: take 32 elements"),
        (lambda: tensor_map(ONES(8, 64), (8, 4), "16B"), ValueError, "'none', '32B', '64B', '128B', but got '16B'"),
    ],
)
def test_what_cuda_would_refuse_is_refused_in_words(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.fixture(scope="module")
def kernel():
    source = """
    #include <cuda.h>
    __global__ void word(const __grid_constant__ CUtensorMap map, const float* x, unsigned long long* out, int n) {
        if (threadIdx.x == 0) out[n] = (unsigned long long)&map % 64;
    }"""
    return compile_kernel(source, "word")


def test_a_kernel_names_the_parameter_as_the_source_does(kernel):
    assert repr(kernel).startswith("<kernel word(CUtensorMap map, const float* x, unsigned long long* out, int n)")


def test_arguments_are_checked_against_the_signature(kernel):
    where = kernel.device
    x, out = torch.zeros(8, 16, device=where), torch.full((2,), 7, dtype=torch.int64, device=where)
    made = tensor_map(x, (4, 4))
    kernel[1, 32](made, x, out, 1)
    assert out.tolist() == [7, 0]  # a map must begin at a multiple of 64 bytes
    kernel[1, 32](bytes(128), x, out, 1)  # made by other means
    for arguments, message in (
        ((x, x, out, 1), r"argument 1 of word \(CUtensorMap map\) takes a tensor map, but got a tensor: tensor_map"),
        ((5, x, out, 1), "takes a tensor map, which tensor_map.* makes, but got int 5"),
        ((made, made, out, 1), r"argument 2 of word \(const float\* x\) takes a tensor, but got TensorMap"),
        ((made, x, out, made), r"argument 4 of word \(int n\) takes no tensor map"),
    ):
        with pytest.raises(TypeError, match=message):
            kernel[1, 32](*arguments)
    x.resize_(4, 16)
    with pytest.raises(ValueError, match=r"made for a tensor of shape \(8, 16\), which now has shape \(4, 16\)"):
        kernel[1, 32](made, x, out, 1)


def test_a_map_is_of_a_tensor_on_the_kernels_device(kernel):
    other = tensor_map(torch.zeros(8, 16, device="meta"), (4, 4)) if kernel.device == "cpu" else None
    other = other or tensor_map(torch.zeros(8, 16), (4, 4))
    x = torch.zeros(8, 16, device=kernel.device)
    with pytest.raises(ValueError, match="is a map of a tensor on .*, but the kernel was compiled for"):
        kernel[1, 32](other, x, None, 0)
