"""What load_cuda refuses before any compiler sees it: names of functions, and declarations that do not fit."""

import pytest

from utils import CompileError, load_cuda
from utils.cuda.common.declared import check_functions

CUDA = """__global__ void k(float* y) { y[threadIdx.x] = 1; }
RETURNS f(torch::Tensor y, int64_t n) {
    k<<<1, 4>>>(y.data_ptr<float>());
}
"""


@pytest.mark.parametrize(
    ("declared", "defined", "said"),
    [
        ("void", "torch::Tensor", "`f` returns nothing here, but a Tensor where cuda_src defines it"),
        ("at::Tensor", "void", "`f` returns a Tensor here, but nothing where"),
        ("int64_t", "torch::Tensor", "`f` returns a number here, but a Tensor where"),
        ("std::vector<torch::Tensor>", "at::Tensor", "`f` returns a std::vector here, but a Tensor where"),
        ("std::tuple<at::Tensor, at::Tensor>", "std::vector<at::Tensor>", "a std::tuple here, but a std::vector where"),
        ("torch::Tensor&", "torch::Tensor", "`f` returns an address here, but a Tensor where"),
    ],
)
def test_a_declaration_with_another_type_than_the_definition_is_shown_with_it(declared, defined, said):
    cpp_src = f"// the declaration\n{declared} f(at::Tensor y, long n);"
    with pytest.raises(CompileError) as raised:
        check_functions(CUDA.replace("RETURNS", defined), cpp_src, ["f"])
    text, error = str(raised.value), raised.value
    assert text.startswith("cpp_src, line 2: ") and said in text and error.errors[0][:2] == ("cpp_src", 2)
    assert f"-->    2 | {declared} f(at::Tensor y, long n);\ncuda_src, line 2:\n-->    2 | {defined} f(tor" in text
    assert error.hint == f"Write into cpp_src: `{defined} f(torch::Tensor y, int64_t n);`"


@pytest.mark.parametrize(
    ("declared", "defined"),
    [
        ("at::Tensor", "torch::Tensor"),
        ("Tensor", "torch::Tensor"),
        ("int", "int64_t"),
        ("const float*", "float*"),
        ("std::vector<Tensor>", "std::vector<at::Tensor>"),
        ("Pair", "std::tuple<at::Tensor, at::Tensor>"),
        ("auto", "torch::Tensor"),
        ("template <class T> T", "torch::Tensor"),
        ("void f(at::Tensor y, int64_t n);\n#else\nat::Tensor", "torch::Tensor"),
        ("void f(at::Tensor y);\ntorch::Tensor", "torch::Tensor"),
        ("__host__ torch::Tensor", "[[nodiscard]] torch::Tensor"),
    ],
)
def test_what_may_be_the_same_type_passes(declared, defined):
    check_functions(CUDA.replace("RETURNS", defined), f"{declared} f(torch::Tensor y, int64_t n);", ["f"])


def test_a_kernel_is_no_function_for_python():
    cuda_src = CUDA.replace("RETURNS", "torch::Tensor")
    with pytest.raises(ValueError, match="'k' is a kernel, .* name a host function that launches it, here 'f'"):
        check_functions(cuda_src, "torch::Tensor f(torch::Tensor y, int64_t n);", ["f", "k"])
    with pytest.raises(ValueError, match="a host function that launches it. compile_kernel makes"):
        check_functions("__global__ void k(float* y) {}", "", ["k"])
    check_functions(f"{cuda_src}void k(torch::Tensor y) {{}}", "void k(torch::Tensor y);", ["k"])
    check_functions(f'#include "mine.h"\n{cuda_src}', "", ["k"])


@pytest.mark.parametrize("funcs", [None, 3, check_functions])
def test_funcs_that_are_no_names(funcs):
    with pytest.raises(
        TypeError, match="funcs must be a function's name, such as 'square', or a list of names, but it is"
    ):
        load_cuda(CUDA, "", funcs)
