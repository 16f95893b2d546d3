"""Where torch's tensors are: moves between the host and the device copy, here as on a GPU."""

import pytest
import torch

from utils import load_cuda

FUNCTIONS = {
    # What a fill of the device's tensor with ones leaves of this, for x = 2, 3, 4, 5.
    "before": ("auto before = x.cpu(); fill(x); return x.cpu() - before;", [-1, -2, -3, -4]),
    "sent": ("auto h = torch::zeros({4}); auto d = h.cuda(); fill(d); return h;", [0, 0, 0, 0]),
    "sent_to": ("auto h = torch::zeros({4}, torch::kFloat32); fill(h.to(torch::kCUDA)); return h;", [0, 0, 0, 0]),
    "sent_back": ("auto h = x.to(torch::kCPU); auto d = h.to(x.device()); fill(d); return h + x.cpu();", [4, 6, 8, 10]),
    "there": ("auto d = x.to(x.device()).cuda(); fill(d); return x;", [1, 1, 1, 1]),
    "here": ("auto h = torch::zeros({4}); auto g = h.cpu(); g.fill_(7); return h;", [7, 7, 7, 7]),
    "wrapped": ("float v[4] = {6, 7, 8, 9}; return torch::from_blob(v, {4}).to(x.device());", [6, 7, 8, 9]),
    "named": ("auto there = x.device(); auto d = torch::zeros({4}).to(there); fill(d); return d;", [1, 1, 1, 1]),
    "like": (
        "auto d = torch::zeros({4}).to(x), e = torch::zeros({4}).type_as(x); fill(d); fill(e); return d + e;",
        [2] * 4,
    ),
    "chained": ("return (x * 2).cpu().cuda().to(torch::kCPU, torch::kFloat64);", [4, 6, 8, 10]),
    "left": ("auto h = torch::ones({2, 2}).reshape(-1); x.copy_(h.to(x.options())); return x;", [1, 1, 1, 1]),
}
SOURCE = r"""
#include <torch/extension.h>
__global__ void ones(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 1;
}
void fill(torch::Tensor y) { ones<<<1, 64>>>(y.data_ptr<float>(), y.numel()); }
torch::Tensor without_a_device(torch::Tensor x, bool how) {
    auto y = how ? torch::empty({x.numel()}) : at::full({4}, 3.5, x.scalar_type());
    fill(y);
    return y;
}
"""


@pytest.fixture(scope="module")
def sources():
    bodies = [f"torch::Tensor {name}(torch::Tensor x) {{ {body} }}" for name, (body, _) in FUNCTIONS.items()]
    declared = [f"torch::Tensor {name}(torch::Tensor x);" for name in FUNCTIONS]
    declared.append("torch::Tensor without_a_device(torch::Tensor x, bool how);")
    return SOURCE + "\n".join(bodies), "\n".join(declared), [*FUNCTIONS, "without_a_device"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_move_is_a_copy(sources, backend, name):
    if backend.type == "cpu" and torch.cuda.is_available():
        pytest.skip("beside a GPU, the tensors of the CPU have no guard, which knows whose they are")
    x = torch.tensor([2.0, 3, 4, 5], device=backend)
    assert getattr(load_cuda(*sources), name)(x).tolist() == FUNCTIONS[name][1]


@pytest.mark.parametrize("how", [True, False])
@pytest.mark.parametrize("trace", [False, True])
def test_a_kernel_cannot_use_a_tensor_that_was_made_without_a_device(sources, how, trace):
    if torch.cuda.is_available():
        pytest.skip("the GPU would be lost")
    module = load_cuda(*sources, trace=trace)
    with pytest.raises(RuntimeError, match=r"argument 1 of ones points to .*without a device.*`x.options\(\)`"):
        module.without_a_device(torch.ones(4), how)
