"""What a source is compiled with of torch's headers, how long that should take, and what modules are linked against."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from utils.cuda.common import extension
from utils.cuda.common.toolchain import host_compiler

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
        ("max(a, 1)", "cuda_src:1:2: error: call of overloaded 'max(c10::Half&, int)' is ambiguous", [[]]),
        ("norm(a)", "cuda_src:1:2: error: no matching function for call to 'norm(c10::Half&)'", [[]]),
        ("norm(a)", "cuda_src:1:2: error: no matching function for call to 'norm(at::Tensor&)'", [[], WHOLE]),
        ("TORCH_CHECK_EQ(1, 2);", "cuda_src:1:2: error: 'LoggerVoidify' is not a member of 'c10'", [[], WHOLE]),
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


def test_threads_may_make_the_empty_libraries_at_the_same_time(monkeypatch, tmp_path):
    """Each needs files of its own until they are put in place."""
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: extension._empty_libraries(["one", "two"], host_compiler()), range(4)))
    (folder,) = folders
    assert sorted(path.name for path in folder.glob("*.so")) == ["libone.so", "libtwo.so"]
    assert [path for path in folder.iterdir() if path.is_dir()] == []
