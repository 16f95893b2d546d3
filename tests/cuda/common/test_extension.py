"""How much of torch's headers a source is compiled with, and how long that is expected to take."""

import pytest

from utils.cuda.common import extension

WHOLE = ["-DCUDA_COURSE_WHOLE_TORCH"]


@pytest.mark.parametrize(
    ("text", "log", "builds"),
    [
        ("torch::Tensor f(torch::Tensor x) { return torch::empty_like(x) + at::sum(x); }", "", [[]]),
        ("torch::Tensor f(torch::Tensor x) { return x.relu(); }  // torch::relu", "", [[]]),
        ("auto s = at::cuda::getCurrentCUDAStream();", "", [[]]),
        ("torch::Tensor f(torch::Tensor x) { return torch::relu(x); }", "", [WHOLE]),
        ("torch::Tensor f(torch::Tensor x) { return torch::nn::functional::relu(x); }", "", [WHOLE]),
        ("using namespace torch;", "cuda_src:1:2: error: 'relu' is not a member of 'torch'", [[], WHOLE]),
        ("using namespace torch;", "cuda_src:1:2: error: 'misspelt' is not a member of 'torch'", [[]]),
    ],
)
def test_a_source_is_compiled_with_all_of_torch_at_once_if_it_says_so(monkeypatch, text, log, builds):
    expected, tried = [], []
    monkeypatch.setattr(extension, "expect", expected.append)

    def build(more):
        tried.append(more)
        return "" if more else log

    extension.compiled(build, lambda command: None, [text, "torch::Tensor f(torch::Tensor x);"])
    assert tried == builds
    assert len(expected) == builds.count(WHOLE) and all(seconds >= 27 for seconds in expected)
