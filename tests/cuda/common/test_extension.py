"""What a source is compiled with of torch's headers, how long that should take, and what modules are linked against."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from utils.cuda.common import extension
from utils.cuda.common.toolchain import host_compiler

SMALL, WHOLE, PYBIND = [], ["-DCUDA_COURSE_WHOLE_TORCH"], ["-DCUDA_COURSE_PYBIND"]
DECLARED = "torch::Tensor f(torch::Tensor x);"
NO_RELU = "cuda_src:1:2: error: 'relu' is not a member of 'torch'"
NO_PYBIND = "main.cpp:1:2: error: static assertion failed: cuda_course: pybind11 is needed"


@pytest.mark.parametrize(
    ("cuda_src", "cpp_src", "logs", "builds"),
    [
        (
            "torch::Tensor f(torch::Tensor x) { return torch::empty_like(x) + at::sum(x); }",
            DECLARED,
            [],
            [(SMALL, SMALL)],
        ),
        ("torch::Tensor f(torch::Tensor x) { return x.relu(); }  // torch::relu", DECLARED, [], [(SMALL, SMALL)]),
        ("auto s = at::cuda::getCurrentCUDAStream();", DECLARED, [], [(SMALL, SMALL)]),
        # only what says so takes the longer
        ("torch::Tensor f(torch::Tensor x) { return torch::relu(x); }", DECLARED, [], [(WHOLE, SMALL)]),
        ("torch::Tensor f(torch::Tensor x) { return torch::nn::functional::relu(x); }", DECLARED, [], [(WHOLE, SMALL)]),
        ("", "auto y = torch::relu(x);", [], [(SMALL, WHOLE)]),
        ("auto y = torch::relu(x);", "auto y = torch::relu(x);", [], [(WHOLE, WHOLE)]),
        ("auto y = torch::relu(x);", DECLARED, [NO_RELU], [(WHOLE, SMALL), (WHOLE, WHOLE)]),
        ("auto y = torch::relu(x);", "auto y = torch::relu(x);", [NO_RELU], [(WHOLE, WHOLE)]),
        ("auto y = torch::relu(x);", DECLARED, [NO_PYBIND], [(WHOLE, SMALL), (WHOLE, PYBIND)]),
        ("std::map<int, int> f();", DECLARED, [NO_PYBIND], [(SMALL, SMALL), (PYBIND, PYBIND)]),
        ("using namespace torch;", DECLARED, [NO_RELU], [(SMALL, SMALL), (WHOLE, WHOLE)]),
        ("using namespace torch;", DECLARED, [NO_RELU.replace("relu", "misspelt")], [(SMALL, SMALL)]),
        ("max(a, 1)", DECLARED, ["error: call of overloaded 'max(c10::Half&, int)' is ambiguous"], [(SMALL, SMALL)]),
        ("norm(a)", DECLARED, ["error: no matching function for call to 'norm(c10::Half&)'"], [(SMALL, SMALL)]),
        (
            "norm(a)",
            DECLARED,
            ["error: no matching function for call to 'norm(at::Tensor&)'"],
            [(SMALL, SMALL), (WHOLE, WHOLE)],
        ),
        (
            "TORCH_CHECK_EQ(1, 2);",
            DECLARED,
            ["error: 'LoggerVoidify' is not a member of 'c10'"],
            [(SMALL, SMALL), (WHOLE, WHOLE)],
        ),
    ],
)
def test_what_is_compiled_with_all_of_torch(monkeypatch, cuda_src, cpp_src, logs, builds):
    expected, tried, logs = [], [], [*logs, "", ""]
    monkeypatch.setattr(extension, "expect", expected.append)

    def build(more):
        tried.append((more.get("cuda", SMALL), more.get("main", SMALL)))
        return logs.pop(0)

    extension.compiled(build, lambda command: None, {"cuda": cuda_src, "main": cpp_src})
    assert tried == builds
    assert all(seconds >= 27 for seconds in expected)
    changes = zip([(SMALL, SMALL), *builds], builds, strict=False)
    assert len(expected) == sum(after.count(WHOLE) > before.count(WHOLE) for before, after in changes)


def test_threads_may_make_the_empty_libraries_at_the_same_time(monkeypatch, tmp_path):
    """Each needs files of its own until they are put in place."""
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: extension._empty_libraries(["one", "two"], host_compiler()), range(4)))
    (folder,) = folders
    assert sorted(path.name for path in folder.glob("*.so")) == ["libone.so", "libtwo.so"]
    assert [path for path in folder.iterdir() if path.is_dir()] == []
