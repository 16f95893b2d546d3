"""Host code of an extension that touches a tensor which is in the GPU's memory."""

import re
import warnings

import pytest
import torch

from utils import load_cuda
from utils.cuda.cpu.trace.problems import KernelProblem

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#include <torch/types.h>
__global__ void scale(float* x, int n, float f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= f;
}
void launch(torch::Tensor x, float f) { scale<<<1, 32>>>(x.data_ptr<float>(), x.numel(), f); }
torch::Tensor host(torch::Tensor x, torch::Tensor sizes, int64_t kind) {
    float h[4] = {2, 2, 2, 2};
    if (kind == 0) launch(x, x.data_ptr<float>()[3]);
    if (kind == 1) { launch(x, 2); x.data_ptr<float>()[2] = 5; }
    if (kind == 2) { auto a = x.accessor<float, 1>(); launch(x, a[1]); }
    if (kind == 3) { launch(x, 2); memcpy(h, x.data_ptr<float>(), 16); x.fill_(h[2]); }
    if (kind == 4) { auto y = torch::zeros_like(x); y.data_ptr<float>()[0] = 1; launch(y, 2); }
    if (kind == 5) { auto c = x.cpu(); launch(x, c.data_ptr<float>()[1] + x[2].item<float>()); }
    if (kind == 6) scale<<<1, 32>>>(x.data_ptr<float>(), sizes.data_ptr<int64_t>()[0], 2);
    if (kind == 7) { auto y = torch::empty_like(x); y.copy_(x); launch(y, 2); return y; }
    return x;
}
"""
WRONG = [
    "the host reads x[3] (line 10: `if (kind == 0) launch(x, x.data_ptr<float>()[3]);`), but a kernel uses that",
    "the host writes x[2] (line 11: ",
    "the host reads x[1] (line 12: ",
    "the host reads x[0] to x[3] (line 13: ",
    "the host writes x[0] (line 14: ",
]


@pytest.fixture(scope="module")
def host():
    declared = "torch::Tensor host(torch::Tensor x, torch::Tensor sizes, int64_t kind);"
    return load_cuda(SOURCE, declared, ["host"], trace=True).host


def test_a_tensor_that_a_kernel_uses_is_not_for_the_host(host):
    for kind, told in enumerate(WRONG):
        with pytest.raises(KernelProblem, match=f"^{re.escape(told)}") as raised:
            host(torch.arange(10.0), torch.tensor([5]), kind)
        (problem,) = raised.value.problems
        assert problem.kind == "host_access" and problem.message.endswith("so it is in the GPU's memory")
        assert ("x.cpu()" if "reads" in told else "x.fill_(1)") in problem.hint


def test_copies_and_tensors_that_no_kernel_uses_are(host):
    x = torch.arange(10.0)
    doubled = torch.where(x < 5, 2 * x, x)
    assert torch.equal(host(x.clone(), torch.tensor([5]), 5), 3 * x)
    assert torch.equal(host(x.clone(), torch.tensor([5]), 6), doubled)
    assert torch.equal(host(x.clone(), torch.tensor([5]), 7), 2 * x)


def test_a_tensor_that_is_not_contiguous_is_noted_unless_the_source_asks():
    source, declared = SOURCE[: SOURCE.index("torch::Tensor host")], "void launch(torch::Tensor x, float f);"
    x = torch.ones(4, 3)
    module = load_cuda(source, declared, ["launch"], trace=True)
    said = (
        r"argument 1 of launch is not contiguous: its shape is \(3, 4\), its strides are \(1, 3\)\. .*\.contiguous\(\)"
    )
    with pytest.warns(UserWarning, match=said) as noted:
        module.launch(x.t(), 2)
    assert noted[0].filename == __file__
    loops = source.replace("{ scale<<<", "{ int stride = 2; scale<<<")
    with pytest.warns(UserWarning, match=said):
        load_cuda(loops, declared, ["launch"], trace=True).launch(x.t(), 2)
    asks = source.replace("{ scale<<<", "{ TORCH_CHECK(x.stride(0)); scale<<<")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.launch(x, 2)
        load_cuda(asks, declared, ["launch"], trace=True).launch(x.t(), 2)
