"""What lesson 06 says of its loop counters, for every GPU that it speaks of, and of its host function in a hurry."""

import ast
import re

import pytest
import torch

import kernels
from tests.notebooks.test_notebooks import NOTEBOOKS, code_cells
from utils import device, load_cuda
from utils.cuda.gpu.compiled import compiled

(LESSON,) = [path for path in NOTEBOOKS if path.name.startswith("06_")]


def text_named(name):
    """The text that a cell of the lesson gives this name."""
    (found,) = [match[1] for cell in code_cells(LESSON) if (match := re.match(rf'{name} = (r""".*?""")', cell, re.S))]
    return ast.literal_eval(found)


def counted(gpu, counter):
    """How many steps a round of the kernel's loop does on a GPU, and how many instructions it has."""
    source = text_named("kernel_src").replace("int k", f"{counter} k").replace("int i", f"{counter} i")
    loop = compiled(source, "matmul_kernel", gpu=gpu).sass.loop
    return sum(each.opcode == "FFMA" for each in loop), len(loop)


@pytest.mark.parametrize("gpu", ["T4", "A100", "sm_86", "sm_89", "H200", "sm_100", "sm_120"])
def test_an_int_counts_in_fewer_instructions(gpu):
    (of_size_t, long), (of_int, short) = counted(gpu, "size_t"), counted(gpu, "int")
    assert (of_size_t, of_int) == ((8, 8) if gpu in ("sm_100", "sm_120") else (4, 16))
    equal = gpu == "sm_120" and short == long  # with nvcc 13.0
    assert equal or short / of_int < long / of_size_t


def test_an_unsigned_counter_costs_more_than_an_int():
    (steps, long), (of_int, short) = counted("H200", "unsigned int"), counted("H200", "int")
    assert steps == of_int == 16 and long > 1.3 * short


@pytest.mark.skipif(device().type == "cuda", reason="its result is in memory that a GPU does not reach")
def test_the_hurried_host_function_is_wrong_where_the_solution_says():
    source = kernels.cuda_begin + "#include <climits>\n" + text_named("kernel_src") + text_named("hurried_src")
    declared = "torch::Tensor matmul(torch::Tensor m, torch::Tensor n);"
    m, n = torch.randn(64, 64), torch.randn(64, 64)
    with pytest.raises(RuntimeError, match="a tensor that was made without a device"):
        load_cuda(source, declared, ["matmul"]).matmul(m, n)
    better = source.replace("torch::empty({h, w})", "torch::empty({h, w}, m.options())")
    assert better != source
    module = load_cuda(better, declared, ["matmul"])
    torch.testing.assert_close(module.matmul(m, n), m @ n, rtol=1e-5, atol=1e-4)
    with pytest.raises(RuntimeError, match="empty"):
        module.matmul(m[:5], n)
