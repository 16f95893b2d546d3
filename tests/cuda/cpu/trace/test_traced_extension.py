"""load_cuda(trace=True): what is found in an extension's launches, and that nothing else changes."""

import os
import subprocess
import sys
import time

import pytest
import torch

import kernels
import utils.cuda.compile
from tests.clock import slowdown
from tests.cuda.cpu.limits import HANGS
from tests.imports import ROOT
from utils import load_cuda
from utils.cuda.cpu.trace.problems import KernelProblem

CUDA = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAException.h>
#include <string>
#include <vector>

__global__ void copy(const float* from, float* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];  // copies
}
static void launch_copy(at::Tensor from, at::Tensor to, int n) {
    copy<<<(n + 31) / 32, 32>>>(from.data_ptr<float>(), to.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
at::Tensor copied(at::Tensor x, int64_t n) {
    at::Tensor out = torch::empty({n}, x.options());
    launch_copy(x, out, n);
    return out;
}

template <typename T> __global__ void average(const T* row, T* means, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) means[i] = (row[i] + row[i + 1]) / 2;  // averages
}
at::Tensor averages(at::Tensor x) {
    at::Tensor own = torch::empty_like(x), out = torch::empty_like(x);
    int n = x.numel();
    launch_copy(x, own, n);
    average<float><<<(n + 31) / 32, 32>>>(own.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}

__global__ void store_behind(float* to, int n) { to[n + threadIdx.x] = 1; }  // stores
at::Tensor stored_behind(int64_t n) {
    at::Tensor out = torch::zeros({n}, torch::kCUDA);
    store_behind<<<1, 1>>>(out.data_ptr<float>(), n);
    return out;
}

__global__ void own_number(int* last) { *last = blockIdx.x; }  // everybody writes
at::Tensor last_block() {
    at::Tensor out = torch::zeros({1}, torch::device(torch::kCUDA).dtype(torch::kInt));
    own_number<<<2, 1>>>(out.data_ptr<int>());
    return out;
}

template <bool waits> __global__ void reverse(const float* x, float* out) {
    __shared__ float part[64];
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];  // fills the part
    if (waits) __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = part[63 - threadIdx.x];  // reads the part
}
at::Tensor reversed(at::Tensor x, bool waits) {
    at::Tensor out = torch::empty_like(x);
    auto kernel = waits ? reverse<true> : reverse<false>;
    kernel<<<x.numel() / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

at::Tensor two_mistakes(at::Tensor x) {
    at::Tensor out = torch::empty({x.numel() + 1}, x.options());
    launch_copy(x, out, x.numel() + 1);
    reverse<false><<<1, 64>>>(x.data_ptr<float>(), out.data_ptr<float>());
    return out;
}

at::Tensor by_torch_alone(at::Tensor x) {
    launch_copy(x, torch::empty_like(x), x.numel());
    return x.add(1.0f);
}

at::Tensor half_filled(int64_t n, std::string how) {
    at::Tensor ones = torch::ones({n}, torch::kCUDA), out;
    if (how == "empty") out = torch::empty({n}, torch::kCUDA);
    if (how == "zeros") out = torch::zeros({n}, torch::kCUDA);
    if (how == "full") out = torch::full({n}, 3.0f, torch::kCUDA);
    if (how == "fill_") out = torch::empty({n}, torch::kCUDA).fill_(3.0f);
    if (how == "copy_") out = torch::empty({n}, torch::kCUDA).copy_(ones);
    if (how == "clone") out = ones.clone();
    launch_copy(ones, out, n / 2);
    return out;
}

at::Tensor three_launches(at::Tensor x) {
    TORCH_CHECK(x.numel() % 64 == 0, "x must fill its parts, but it has ", x.numel(), " elements");
    at::Tensor one = torch::empty_like(x), two = torch::empty_like(x);
    reverse<true><<<x.numel() / 64, 64>>>(x.data_ptr<float>(), one.data_ptr<float>());
    reverse<true><<<x.numel() / 64, 64>>>(one.data_ptr<float>(), two.data_ptr<float>());
    launch_copy(two, one, x.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return one;
}

__global__ void add(float* x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += value;
}
void add_(at::Tensor x, double value) {
    if (x.numel() == 0) return;
    add<<<(x.numel() + 31) / 32, 32>>>(x.data_ptr<float>(), value, x.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void row_sums(const float* x, float* sums, int rows, int columns, int down, int right) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0;
    for (int c = 0; c < columns; c++) sum += x[r * down + c * right];  // sums
    sums[r] = sum;
}
at::Tensor sums(at::Tensor x, int64_t more_columns) {
    at::Tensor out = torch::empty({x.size(0)}, x.options());
    if (!x.size(0)) return out;
    row_sums<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0),
                                             x.size(1) + more_columns, x.stride(0), x.stride(1));
    return out;
}

std::vector<at::Tensor> each_copied(std::vector<at::Tensor> all, int64_t more) {
    std::vector<at::Tensor> out;
    for (auto& x : all) out.push_back(copied(x, x.numel() + more));
    return out;
}

at::Tensor combined(at::Tensor x, std::string what, double factor, int64_t times, bool negative) {
    TORCH_CHECK(what == "sum" || what == "product", "what is 'sum' or 'product', not '", what, "'");
    at::Tensor out = copied(x, x.numel());
    for (int64_t i = 0; i < times; i++)
        if (what == "sum") add_(out, negative ? -factor : factor);
        else out.mul_(negative ? -factor : factor);
    return out;
}

void too_many_threads() {
    own_number<<<1, 1025>>>(nullptr);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
void refused_in_silence(int64_t blocks) { own_number<<<blocks, 32>>>(nullptr); }

__global__ void spin(volatile int* x) {
    while (*x == 0) {}
}
void wait_for_ever() {
    at::Tensor never = torch::zeros({1}, torch::device(torch::kCUDA).dtype(torch::kInt));
    spin<<<1, 256>>>(never.data_ptr<int>());
}

__global__ void copy_pairs(const float* from, const float* same, float* to, int n) {
    if (threadIdx.x < n) to[threadIdx.x] = from[0] + same[threadIdx.x];
}
__global__ void add_to(float* sums, const float* x, int n) {
    if (threadIdx.x < n) sums[threadIdx.x] += x[threadIdx.x];
}
at::Tensor so_far(at::Tensor x) {
    static at::Tensor sums = torch::zeros_like(x);
    add_to<<<1, 64>>>(sums.data_ptr<float>(), x.data_ptr<float>(), x.numel());
    return sums.clone();
}

at::Tensor with_its_view(at::Tensor view, at::Tensor whole) {
    at::Tensor out = torch::empty_like(whole);
    int n = whole.numel();
    copy_pairs<<<1, n>>>(view.data_ptr<float>(), whole.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""
CPP = r"""
at::Tensor copied(at::Tensor x, int64_t n);
at::Tensor averages(at::Tensor x);
at::Tensor stored_behind(int64_t n);
at::Tensor last_block();
at::Tensor reversed(at::Tensor x, bool waits);
at::Tensor two_mistakes(at::Tensor x);
at::Tensor half_filled(int64_t n, std::string how);
at::Tensor by_torch_alone(at::Tensor x);
at::Tensor three_launches(at::Tensor x);
void add_(at::Tensor x, double value);
at::Tensor sums(at::Tensor x, int64_t more_columns);
std::vector<at::Tensor> each_copied(std::vector<at::Tensor> all, int64_t more);
at::Tensor combined(at::Tensor x, std::string what, double factor, int64_t times, bool negative);
void too_many_threads();
void refused_in_silence(int64_t blocks);
void wait_for_ever();
at::Tensor with_its_view(at::Tensor view, at::Tensor whole);
at::Tensor so_far(at::Tensor x);
"""
FUNCS = ["copied", "averages", "stored_behind", "last_block", "reversed", "two_mistakes", "half_filled"]
FUNCS += ["by_torch_alone", "three_launches", "add_", "sums", "each_copied", "combined", "too_many_threads"]
FUNCS += ["wait_for_ever", "with_its_view", "refused_in_silence", "so_far"]


def line_of(text):
    assert CUDA.count(text) == 1
    return CUDA[: CUDA.index(text)].count("\n") + 1


@pytest.fixture(scope="module")
def traced():
    return load_cuda(CUDA, CPP, FUNCS, trace=True)


def problems_of(function, *args):
    """What a call raises; the message must be about the first."""
    with pytest.raises(KernelProblem) as raised:
        function(*args)
    problems = raised.value.problems
    assert str(raised.value).startswith(problems[0].message)
    return problems


# ---- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 33, 100])
def test_a_read_outside_a_tensor_from_python(traced, n):
    (problem,) = problems_of(traced.copied, torch.randn(n), n + 1)
    assert (problem.kind, problem.line) == ("out_of_bounds", line_of("// copies"))
    assert (problem.block, problem.thread) == ((n // 32, 0, 0), (n % 32, 0, 0))
    assert f"from[{n}]" in problem.message and f"from has {n} element" in problem.message


def test_a_read_outside_a_tensor_of_the_extension_is_told_by_the_parameter_s_name(traced):
    (problem,) = problems_of(traced.averages, torch.randn(40))
    assert (problem.kind, problem.line) == ("out_of_bounds", line_of("// averages"))
    assert (problem.block, problem.thread) == ((1, 0, 0), (7, 0, 0))
    assert "reads row[40]" in problem.message and "row has 40 elements" in problem.message


def test_a_write_outside_a_tensor_of_the_extension(traced):
    (problem,) = problems_of(traced.stored_behind, 5)
    assert (problem.kind, problem.line) == ("out_of_bounds", line_of("// stores"))
    assert "writes to[5]" in problem.message and "to has 5 elements" in problem.message


def test_a_race_between_blocks(traced):
    (problem,) = problems_of(traced.last_block)
    assert (problem.kind, problem.line, problem.other_line) == ("race", *[line_of("// everybody writes")] * 2)
    assert {problem.block, problem.other_block} == {(0, 0, 0), (1, 0, 0)}


def test_a_forgotten_barrier(traced):
    problems = problems_of(traced.reversed, torch.randn(64), False)
    lines = {line_of("// fills the part"), line_of("// reads the part")}
    assert {p.kind for p in problems} <= {"race", "uninitialized"}
    race = next(p for p in problems if p.kind == "race")
    assert {race.line, race.other_line} == lines and race.thread[0] + race.other_thread[0] == 63


def test_all_problems_of_all_launches_are_kept_in_order(traced):
    problems = problems_of(traced.two_mistakes, torch.randn(64))
    kinds = [p.kind for p in problems]
    assert kinds[0] == "out_of_bounds" and "race" in kinds[1:]
    with pytest.raises(KernelProblem, match=rf"from\[64\](.|\n)*{len(kinds) - 1} more problem"):
        traced.two_mistakes(torch.randn(64))


@pytest.mark.parametrize("n", [2, 101])
def test_an_element_that_nobody_wrote(traced, n):
    (problem,) = problems_of(traced.half_filled, n, "empty")
    assert problem.kind == "unwritten" and problem.count == n - n // 2
    assert f"to[{n // 2}]" in problem.message


@pytest.mark.parametrize("how", ["zeros", "full", "fill_", "copy_", "clone"])
def test_what_torch_has_filled_is_no_alarm(traced, how):
    out = traced.half_filled(101, how)
    rest = {"zeros": 0.0, "full": 3.0, "fill_": 3.0}.get(how, 1.0)
    assert out.tolist() == 50 * [1.0] + 51 * [rest]


def test_a_result_that_torch_has_computed_is_no_alarm_whatever_its_bytes(traced):
    x = torch.full((100,), 100.5)
    assert (x + 1).view(torch.uint8).eq(0xCB).any(), "the byte that fresh memory is filled with"
    torch.testing.assert_close(traced.by_torch_alone(x), x + 1)


# ---- what is left as it is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 3])
def test_a_sound_function_gives_right_results_again_and_again(traced, parts):
    for _ in range(2):
        x = torch.randn(64 * parts)
        torch.testing.assert_close(traced.reversed(x, True), x.reshape(-1, 64).flip(1).flatten())
        assert traced.trace.ok and len(traced.trace.requests)


def test_several_launches_in_one_call(traced):
    x = torch.randn(192)
    torch.testing.assert_close(traced.three_launches(x), x)
    assert traced.trace.ok


def test_a_failed_check_of_the_extension_passes_through(traced):
    with pytest.raises(RuntimeError, match="x must fill its parts, but it has 65 elements") as raised:
        traced.three_launches(torch.randn(65))
    assert not isinstance(raised.value, KernelProblem)
    with pytest.raises(RuntimeError, match="'sum' or 'product', not 'other'"):
        traced.combined(torch.randn(3), "other", 1.0, 1, False)
    with pytest.raises(TypeError):
        traced.copied("no tensor", 3)
    x = torch.randn(7)
    torch.testing.assert_close(traced.copied(x, 7), x)


def test_a_refused_launch_passes_through(traced):
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument") as raised:
        traced.too_many_threads()
    assert not isinstance(raised.value, KernelProblem)


def test_a_refused_launch_that_nobody_asked_about(traced):
    with pytest.raises(
        KernelProblem, match="the launch of own_number is refused .*invalid argument.*grid of .0, 1, 1."
    ) as raised:
        traced.refused_in_silence(0)
    (problem,) = raised.value.problems
    assert problem.line and problem.source.startswith("void refused_in_silence(int64_t blocks) { own_number<<<")


def test_functions_that_work_in_place(traced):
    x = torch.arange(50.0)
    before = x.clone()
    assert traced.add_(x, 2.5) is None
    torch.testing.assert_close(x, before + 2.5)
    traced.add_(x[10:20], 1.0)  # a view: its neighbours keep their values
    before[10:20] += 1
    torch.testing.assert_close(x, before + 2.5)


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(5, 7),
        torch.randn(7, 5).t(),
        torch.randn(5, 14)[:, ::2],
        torch.randn(40, 9)[3:38:7, 1:8],
        torch.randn(5, 1).expand(5, 7),
        torch.randn(1, 7).expand(5, 7),
    ],
)
def test_tensors_that_are_not_contiguous(traced, x):
    torch.testing.assert_close(traced.sums(x, 0), x.sum(1))


def test_a_read_outside_a_tensor_that_is_not_contiguous(traced):
    rows = torch.randn(10, 9)[::3, :7]  # its last element is not the last of the memory below it
    (problem,) = problems_of(traced.sums, rows, 1)
    assert (problem.kind, problem.line, problem.thread) == ("out_of_bounds", line_of("// sums"), (3, 0, 0))


def test_empty_tensors(traced):
    assert traced.sums(torch.empty(0, 5), 0).shape == (0,)
    assert traced.sums(torch.empty(5, 0), 0).tolist() == 5 * [0.0]
    traced.add_(torch.empty(0), 1.0)
    assert traced.trace.ok and traced.trace.requests.empty


def test_lists_of_tensors(traced):
    all = [torch.randn(n) for n in (1, 50, 33)]
    for x, copy in zip(all, traced.each_copied(all, 0), strict=True):
        torch.testing.assert_close(copy, x)
    problems = problems_of(traced.each_copied, all, 1)
    assert {p.kind for p in problems} == {"out_of_bounds"} and sum(p.count for p in problems) == 3
    assert traced.each_copied([], 1) == []


def test_text_and_numbers(traced):
    x = torch.randn(45)
    torch.testing.assert_close(traced.combined(x, "sum", 0.5, 3, True), x - 1.5)
    torch.testing.assert_close(traced.combined(x, "product", 0.5, 2, False), x / 4)
    torch.testing.assert_close(traced.combined(x, "sum", 2, 1, False), x + 2)


def test_a_tensor_and_a_view_of_its_beginning(traced):
    x = torch.randn(20)
    torch.testing.assert_close(traced.with_its_view(x[:5], x), x[0] + x)
    torch.testing.assert_close(traced.with_its_view(x, x), x[0] + x)


def test_a_problem_leaves_the_module_and_torch_as_they_were(traced):
    x = torch.randn(64)
    for _ in range(5):
        problems_of(traced.averages, torch.randn(40))
        problems_of(traced.reversed, x, False)
        torch.testing.assert_close(traced.reversed(x, True), x.flip(0))
        # torch's own allocator again: a tensor that is made after the call is not on any list
        torch.testing.assert_close(torch.empty(1000).fill_(2).sum(), torch.tensor(2000.0))


@pytest.mark.alone
def test_a_traced_call_can_be_interrupted(traced):
    # From another process: an extension's function holds Python's lock, and no other thread runs.
    sender = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"])
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            traced.wait_for_ever()
    finally:
        sender.kill()
        sender.wait()
    assert time.monotonic() - began < 2.3 * slowdown()
    x = torch.randn(64)
    torch.testing.assert_close(traced.reversed(x, True), x.flip(0))


def test_a_tensor_that_an_earlier_call_has_made(traced):
    assert [traced.so_far(torch.ones(8)).unique().tolist() for _ in range(3)] == [[1], [2], [3]]
    (problem,) = problems_of(traced.so_far, torch.ones(9))
    assert "sums[8], but sums has 8 elements" in problem.message


def test_results_outlive_the_call(traced):
    kept = [traced.copied(torch.full((1000,), float(i)), 1000) for i in range(20)]
    traced.reversed(torch.randn(64), True)
    assert [x.unique().tolist() for x in kept] == [[float(i)] for i in range(20)]


def test_the_same_source_without_a_trace_is_unaffected(traced, monkeypatch):
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cpu"))
    plain = load_cuda(CUDA, CPP, FUNCS)
    x = torch.randn(64)
    for _ in range(2):
        torch.testing.assert_close(plain.reversed(x, True), x.flip(0))
        assert plain.half_filled(6, "empty")[:3].tolist() == [1.0, 1.0, 1.0]
        assert plain.last_block().item() in (0, 1)
        problems_of(traced.reversed, x, False)


def test_check_is_an_earlier_name_of_trace(traced):
    for named in ({"check": True}, {"trace": True, "check": False}):
        module = load_cuda(CUDA, CPP, FUNCS, **named)
        assert type(module) is type(traced) and module.__file__ == traced.__file__


# The first module that a process loads, and host code whose maps the trace's own code uses, too.
MAPS = r"""
from utils import load_cuda
import torch

cuda = '''
#include <torch/types.h>
#include <unordered_map>
__global__ void copy(const float* x, float* out, int n) {
    int i = threadIdx.x;
    if (i <= n) out[i] = x[i];
}
at::Tensor copied(at::Tensor x) {
    std::unordered_map<uint32_t, uint16_t> seen;
    std::unordered_map<uint64_t, uint16_t> seen_too;
    for (int i = 0; i < x.numel(); i++) seen[i] = 1, seen_too[i] = 1;
    at::Tensor out = torch::empty_like(x);
    copy<<<1, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}
'''
module = load_cuda(cuda, "at::Tensor copied(at::Tensor x);", ["copied"], trace=True)
try:
    module.copied(torch.rand(100))
except RuntimeError as error:
    print(str(error).splitlines()[0])
print("problems:", len(module.trace.problems))
"""


def test_the_trace_runs_its_own_code_and_not_the_module_s():
    command = [sys.executable, "-c", MAPS]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert ended.returncode == 0, ended.stderr
    first, count = ended.stdout.splitlines()[-2:]
    assert first.startswith("thread (100,0,0) of block (0,0,0) reads x[100], but x has 100 elements"), ended.stdout
    assert count == "problems: 1"


# ---- the kernels of the course ---------------------------------------------------------------------------------------


def images(h, w):
    return [torch.randint(0, 256, (3, h, w), dtype=torch.uint8)]


def matrices(h, w):
    return [torch.randn(h, 7), torch.randn(7, w)]


TRANSPOSES = ["naive", "tiled", "padded", "swizzled", "rows", "wide", "large", "registers", "fast"]
ARGUMENTS = {  # of functions on pictures and matrices, by height and width; tests/kernels traces every kernel
    "rgb_to_grayscale": images,
    "rgb_to_grayscale_2d": images,
    "rgb_to_grayscale_vector": images,
    "rgb_to_grayscale_hwc": lambda h, w: [images(h, w)[0].permute(1, 2, 0).contiguous()],
    "matmul": matrices,
    "matmul_tiled": matrices,
    "matmul_dynamic": lambda h, w: [*matrices(h, w), 7],
    "matmul_template": lambda h, w: [*matrices(h, w), 8],
    **dict.fromkeys(kernels.functions("matmul_registers") + kernels.functions("matmul_async"), matrices),
    **dict.fromkeys(["matmul_uncoalesced", "matmul_fast"], matrices),
    **dict.fromkeys([*kernels.functions("matmul_rows"), "matmul_narrow"], lambda h, w: matrices(h, min(w, 16))),
    **dict.fromkeys(["square", "copy", "copy_vector"], lambda h, w: [torch.randn(h, w)]),
    **{f"transpose_{how}": lambda h, w: [torch.randn(h, w)] for how in TRANSPOSES},
}
EXPECTED = {
    "square": torch.square,
    **dict.fromkeys(["copy", "copy_vector"], torch.clone),
    **{f"transpose_{how}": torch.t for how in TRANSPOSES},
    **{name: lambda m, n, *tile: m @ n for name in ARGUMENTS if name.startswith("matmul")},
}
SIZES = [(0, 5), (5, 0), (1, 1), (1, 17), (17, 1), (13, 19), (16, 16), (33, 40)]


@pytest.mark.parametrize("name", [name for name in kernels.names() if {*kernels.functions(name)} <= ARGUMENTS.keys()])
def test_no_module_of_the_course_raises_an_alarm(name):
    module = load_cuda(kernels.source(name), kernels.host(name), kernels.functions(name), trace=True)
    for function in kernels.functions(name):
        for size in SIZES:
            args = ARGUMENTS[function](*size)
            out = getattr(module, function)(*args)
            assert module.trace.ok
            if function in EXPECTED:
                torch.testing.assert_close(out, EXPECTED[function](*args), rtol=1e-4, atol=1e-4)
            else:
                planes = args[0].permute(2, 0, 1) if "hwc" in function else args[0]
                grey = torch.einsum("c,chw->hw", torch.tensor([0.2989, 0.5870, 0.1140]), planes.float())
                assert out.shape == size and ((out.float() - grey).abs() <= 1.001).all()


def test_of_a_slice_only_what_is_returned_must_be_written():
    source = """
    __global__ void k(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x + 2] = 1; }
    at::Tensor part(at::Tensor x, int64_t from, int64_t n) {
        at::Tensor out = torch::empty_like(x);
        k<<<1, 32>>>(out.data_ptr<float>(), n);
        return out.slice(0, from, 2 + n);
    }"""
    module = load_cuda(source, "at::Tensor part(at::Tensor x, int64_t from, int64_t n);", ["part"], trace=True)
    assert module.part(torch.zeros(20), 2, 5).tolist() == [1.0] * 5
    with pytest.raises(RuntimeError, match=r"out\[1\] was never written"):
        module.part(torch.zeros(20), 1, 5)


# ---- CUDA calls that fail --------------------------------------------------------------------------------------------

FAILING = """
#include <torch/types.h>
#include <c10/cuda/CUDAException.h>
__global__ void fill(float* x) { x[threadIdx.x] = 1; }
void failing(torch::Tensor x, int64_t kind) {
    float *d = nullptr, h[4] = {};
    cudaMalloc(&d, 16);
    if (kind & 1) cudaMemcpy(d, h, 400, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3 && kind & 2; i++) cudaFree(h);
    if (kind & 4) cudaGetLastError();
    if (kind & 8) TORCH_CHECK(cudaFree(h) == cudaSuccess, "its own words");
    fill<<<1, 4>>>(x.data_ptr<float>());
    if (kind & 16) C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (kind & 32 && cudaFree(h) != cudaSuccess) kind = 0;
    cudaFree(d);
}
"""


def test_cuda_calls_that_fail_and_that_nobody_checks():
    traced = load_cuda(FAILING, "void failing(torch::Tensor x, int64_t kind);", ["failing"], trace=True)
    x = torch.zeros(4)
    for kind in (0, 1 + 2 + 4, 16, 32):
        traced.failing(x, kind)
    said = r"`cudaMemcpy` returns cudaErrorInvalidValue, 'invalid argument' \(line 8: `if \(kind & 1\) cudaMemcpy"
    with pytest.raises(KernelProblem, match=said) as raised:
        traced.failing(x, 1 + 2)
    assert [(p.kind, p.line, p.count) for p in raised.value.problems] == [("failed_call", 8, 1), ("failed_call", 9, 3)]
    with pytest.raises(RuntimeError, match="its own words"):
        traced.failing(x, 1 + 8)
    traced.failing(x, 16)  # an error that has been reported is no error of the next call
