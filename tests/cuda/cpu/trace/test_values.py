"""What a trace says of values that nobody has set: fresh tensors, local variables, lanes that have not come."""

import os
import re
import subprocess
import sys
import warnings

import pytest
import torch

from tests.cuda.cpu.limits import ROOT
from utils import CompileError, compile_kernel, load_cuda
from utils.cuda.common.diagnostics import CompileWarning
from utils.cuda.cpu.guard import guard_tensors
from utils.cuda.cpu.trace.problems import KernelProblem
from utils.cuda.kernel import Tracer, compile_kernels

SOURCE = r"""
enum { ADD, COUNT, TAIL, IN_PLACE, COPY };
template <class T>
__global__ void use(int which, const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (which == ADD) y[i] += x[i];  // ADD
    if (which == COUNT) atomicAdd(reinterpret_cast<int*>(y), 1);  // COUNT
    if (which == TAIL) {
        if (i < n - 1) y[i] = x[i];
        __syncthreads();
        y[i] = y[i] * 2;  // TAIL
    }
    if (which == IN_PLACE) {
        y[i] = x[i];
        y[i] += 1;
    }
    if (which == COPY) y[i] = x[i];  // COPY
}
"""


@pytest.fixture(scope="module", autouse=True)
def guarded():
    compile_kernel(SOURCE, "use<float>")  # builds the guard too
    if not guard_tensors():
        pytest.skip("torch's allocator is not the guard's")


def problems(which, x, y, n=None, kernel="use<float>", blocks=1, **options):
    n = len(y) if n is None else n
    number = ["ADD", "COUNT", "TAIL", "IN_PLACE", "COPY"].index(which)
    found = Tracer(SOURCE, kernel)[blocks, -(-n // blocks)](number, x, y, n, **options).problems
    assert all(problem.source.endswith(f"// {which}") for problem in found if problem.line)
    return [(problem.kind, problem.thread) for problem in found]


@pytest.mark.parametrize("n", [1, 31, 64])
def test_adding_to_what_torch_empty_gave_is_reported(n):
    y = torch.empty(n)
    assert problems("ADD", torch.ones(n), y, outputs=[y]) == [("uninitialized", (0, 0, 0))]
    assert problems("ADD", torch.ones(n), y) == [("uninitialized", (0, 0, 0))]
    assert problems("COUNT", torch.ones(n), torch.empty(n)) == [("uninitialized", (0, 0, 0))]
    assert problems("COPY", torch.empty(n), torch.zeros(n), kernel="use<float>") != []


def test_only_the_elements_that_nobody_wrote_are_reported():
    y = torch.empty(64)
    assert problems("TAIL", torch.ones(64), y, outputs=[y]) == [("uninitialized", (63, 0, 0))]
    y = torch.empty(64)
    y[3:] = 0
    assert problems("ADD", torch.ones(64), y) == [("uninitialized", (0, 0, 0))]


@pytest.mark.parametrize("fill", [torch.zeros, torch.ones, torch.randn])
def test_a_tensor_that_has_values_may_be_added_to(fill):
    y = fill(64)
    assert problems("ADD", torch.ones(64), y, outputs=[y]) == []
    y = torch.empty(64)
    assert problems("IN_PLACE", torch.ones(64), y, outputs=[y]) == []
    assert problems("COPY", torch.ones(64), torch.empty(64)) == []


def test_bytes_are_told_by_their_neighbours():
    kernel = "use<unsigned char>"
    y = torch.empty(100, dtype=torch.uint8)
    assert problems("ADD", torch.ones(100, dtype=torch.uint8), y, kernel=kernel) == [("uninitialized", (0, 0, 0))]
    every = torch.arange(256).repeat(4).to(torch.uint8)
    for start in range(3):  # every value, at every place in a word
        y = every[start:].clone()
        assert problems("ADD", torch.ones_like(y), y, kernel=kernel, blocks=2) == []


def test_a_struct_may_have_gaps_but_no_member_that_nobody_wrote():
    source = """struct Gap { double key; int flag; };
    struct Pair { float a; int b; };
    template <class T, class M> __device__ double turned(T* all, M T::*first, double other) {
        all[threadIdx.x].*first = threadIdx.x;
        __syncthreads();
        T v = all[31 - threadIdx.x];
        return v.*first + other;
    }
    __global__ void gap(Gap* all, double* out) {
        all[threadIdx.x].flag = 2;
        out[threadIdx.x] = turned(all, &Gap::key, 0);
    }
    __global__ void half(Pair* all, double* out) { out[threadIdx.x] = turned(all, &Pair::a, 0); }"""
    kernels, out = compile_kernels(source, ["gap", "half"]), torch.zeros(32, dtype=torch.float64)
    gap, half = (kernel.trace[1, 32](torch.empty(512, dtype=torch.uint8), out) for kernel in kernels)
    assert gap.ok, gap
    assert [(problem.kind, problem.line) for problem in half.problems] == [("uninitialized", 6)]


def test_what_no_kernel_wrote_shows_without_a_trace_too():
    kernel, y = compile_kernel(SOURCE, "use<float>"), torch.empty(64)
    kernel[1, 64](0, torch.ones(64), y, 64)
    assert y.isnan().all()


def test_views_that_overlap():
    for begin, end in ((16, 80), (0, 64), (40, 104)):
        memory = torch.arange(128.0)
        x, y = memory[:64], memory[begin:end]
        found = problems("COPY", x, y, outputs=[y])
        assert all(kind == "race" for kind, _ in found), found  # and nothing is "never written"
        assert bool(found) == (0 < begin < 64), begin
    memory = torch.zeros(100)
    assert problems("COPY", torch.ones(30), memory[10:40], outputs=[memory[10:40]]) == []
    whole, part = memory, memory[20:50]  # all that is written is the part
    assert problems("COPY", whole[60:90], part, outputs=[part]) == []
    assert problems("COPY", torch.ones(20), part, n=20, outputs=[part]) == [("unwritten", (0, 0, 0))]
    assert problems("ADD", part, part, outputs=[part]) == []  # the same tensor twice


NUMBERS = r"""
__global__ void to_int(const float* x, int* y) { *y = *x; }
__global__ void to_unsigned(const float* x, unsigned int* y) { *y = *x; }
__global__ void to_byte(const float* x, unsigned char* y) { *y = *x; }
__global__ void to_short(const double* x, short* y) { *y = *x; }
__global__ void to_long(const double* x, long long* y) { *y = *x; }
__global__ void shift(const int* by, int* y) { *y = 1 << *by; }
"""
NAN, INF = float("nan"), float("inf")
CONVERTED = [  # what a GPU makes of it, by PTX's cvt; None: as the CPU does
    ("to_int", torch.int32, [(NAN, 0), (3e9, 2**31 - 1), (-INF, None), (-1.5, None)]),
    ("to_unsigned", torch.uint32, [(-1.5, 0), (NAN, None), (5e9, 2**32 - 1), (3e9, None), (-0.5, None)]),
    ("to_byte", torch.uint8, [(-1.0, 0), (300.0, None), (255.5, None)]),
    ("to_short", torch.int16, [(7e4, None), (1e10, -1), (NAN, None)]),
    ("to_long", torch.int64, [(1e20, 2**63 - 1), (NAN, None), (-1e20, None)]),
]


def test_numbers_that_a_gpu_computes_otherwise():
    names = [name for name, *_ in CONVERTED] + ["shift"]
    tracers = {name: Tracer(NUMBERS, name, together=names) for name in names}
    for name, dtype, values in CONVERTED:
        given = torch.float64 if name in ("to_short", "to_long") else torch.float32
        for value, on_gpu in values:
            y = torch.zeros(1, dtype=dtype)
            found = tracers[name][1, 1](torch.tensor([value], dtype=given), y).problems
            assert [p.kind for p in found] == ["undefined"] * (on_gpu is not None), (name, value, found)
            assert on_gpu is None or f": a GPU gives {on_gpu}, and the CPU " in found[0].message, (name, value, found)
    for by, shifted_by in ((31, None), (32, 0), (40, 8), (-1, 31)):
        y = torch.zeros(1, dtype=torch.int32)
        found = tracers["shift"][1, 1](torch.tensor([by], dtype=torch.int32), y).problems
        assert [p.line for p in found] == [7] * (shifted_by is not None)
        said = f"shifts a number of 32 bits by {by}: a GPU shifts all of them out, and the CPU shifts by {shifted_by} "
        assert shifted_by is None or said in found[0].message


EXTENSION = r"""
#include <torch/extension.h>
__global__ void add(const float* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] += x[threadIdx.x]; }
__global__ void shift(const float* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }
template <class T>
__global__ void sum(const T* x, T* y, int n) {
    T v = x[threadIdx.x];
    if (threadIdx.x < n) {
        T other = __shfl_down_sync((1u << n) - 1, v, 8);
        y[threadIdx.x] = n == 16 || threadIdx.x + 8 < n ? v + other : v;
    }
}
torch::Tensor added(torch::Tensor x, bool zeros) {
    auto y = zeros ? torch::zeros_like(x) : torch::empty_like(x);
    add<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
void shifted(torch::Tensor x, torch::Tensor y) {
    shift<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), y.numel());
}
torch::Tensor summed(torch::Tensor x, int n) {
    auto y = torch::zeros_like(x);
    if (x.is_floating_point()) sum<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    else sum<<<1, 32>>>(x.data_ptr<int>(), y.data_ptr<int>(), n);
    return y;
}
"""
DECLARED = """torch::Tensor added(torch::Tensor x, bool zeros);
void shifted(torch::Tensor x, torch::Tensor y);
torch::Tensor summed(torch::Tensor x, int n);"""


def test_the_same_in_an_extension():
    module = load_cuda(EXTENSION, DECLARED, ["added", "shifted", "summed"], trace=True)
    x = torch.randn(60)
    assert torch.equal(module.added(x, True), x)
    with pytest.raises(KernelProblem, match=r"reads y\[0\] before anything has been written to it"):
        module.added(x, False)
    with pytest.raises(KernelProblem, match=r"reads x\[0\] before anything has been written to it"):
        module.shifted(torch.empty(60), x.clone())
    memory = torch.randn(100)
    with pytest.raises(KernelProblem, match="race|both touch"):
        module.shifted(memory[:60], memory[20:80])
    for x in (torch.randn(32), torch.arange(32, dtype=torch.int32)):
        with pytest.raises(KernelProblem, match="what lane 16 holds, which is not in the mask"):
            module.summed(x, 16)
        assert torch.equal(module.summed(x, 12)[:4], x[:4] + x[8:12])


SHUFFLES = r"""
template <class T>
__global__ void absent(const T* x, T* y, int lanes, bool used) {
    int t = threadIdx.x;
    y[t] = 0;
    if (t >= lanes) return;
    unsigned mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
    T v = x[t];
    T other = __shfl_down_sync(mask, v, 8);
    y[t] = used || t + 8 < lanes ? v + other : v;
}
__global__ void widths(const int* x, int* y, int width) {
    int t = threadIdx.x;
    y[t] = __shfl_sync(~0u, x[t], t ^ 1, width);
    y[32 + t] = __shfl_down_sync(~0u, x[t], 3, width);
    y[64 + t] = __shfl_up_sync(~0u, x[t], 3, width);
    y[96 + t] = __shfl_xor_sync(~0u, x[t], 16, width);
}
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_lane_that_has_not_come_is_reported_where_its_value_is_used(dtype):
    x, y = torch.arange(32).to(dtype), torch.zeros(32, dtype=dtype)
    trace = Tracer(SHUFFLES, "absent<float>" if dtype.is_floating_point else "absent<int>")[1, 32]
    (problem,) = trace(x, y, 20, True).problems
    assert problem.kind == "undefined_shuffle" and problem.line == 9 and problem.thread == (12, 0, 0)
    assert "what lane 20 holds, which is not in the mask" in problem.message
    for lanes, used in ((20, False), (32, True), (32, False)):
        assert trace(x, y, lanes, used).ok


def test_what_is_wrong_in_one_launch_stays_so_if_another_does_not_use_it():
    both = """
    at::Tensor both(at::Tensor x, bool first, bool second) {
        at::Tensor y = torch::zeros({2, 32}, torch::kCUDA);
        absent<float><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), 20, first);
        absent<float><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>() + 32, 20, second);
        return y;
    }"""
    source = f"#include <torch/types.h>\n{SHUFFLES}{both}"
    module = load_cuda(source, "at::Tensor both(at::Tensor x, bool first, bool second);", ["both"], trace=True)
    x = torch.arange(32.0)
    assert module.both(x, False, False).shape == (2, 32)
    for used in ((True, False), (False, True), (True, True)):
        with pytest.raises(KernelProblem, match="what lane 20 holds, which is not in the mask"):
            module.both(x, *used)


def test_a_lane_that_has_not_come_gives_nan():
    kernel, y = compile_kernel(SHUFFLES, "absent<float>"), torch.zeros(32)
    kernel[1, 32](torch.ones(32), y, 20, True)
    assert (y[:12] == 2).all() and y[12:20].isnan().all()
    (problem,) = kernel.trace[1, 32](y, y, 20, True).problems  # and a trace takes that for a number that was written
    assert "what lane 20 holds, which is not in the mask" in problem.message


def test_a_width_that_is_no_power_of_two_does_what_a_gpu_does_and_is_reported():
    kernel, x, y = compile_kernel(SHUFFLES, "widths"), torch.arange(32, dtype=torch.int32), torch.zeros(4, 32).int()
    kernel[1, 32](x, y, 5)
    assert y[0].tolist() == list(range(32))  # as on an H200
    kernel[1, 32](x, y, 12)
    down = "3 4 5 6 7 8 9 10 11 9 10 11 15 13 14 15 19 20 21 22 23 24 25 26 27 25 26 27 31 29 30 31"
    up = "0 1 2 0 4 5 6 4 5 6 7 8 9 10 11 12 16 17 18 16 20 21 22 20 21 22 23 24 25 26 27 28"
    assert y[1].tolist() == list(map(int, down.split())) and y[2].tolist() == list(map(int, up.split()))
    kernel[1, 32](x, y, 8)
    assert y[3].tolist() == [t % 16 for t in range(32)]
    found = kernel.trace[1, 32](x, y, 12).problems
    assert [problem.line for problem in found] == [14, 15, 16, 17]
    assert all("with a width of 12, which is not a power of two" in problem.message for problem in found)
    assert kernel.trace[1, 32](x, y, 8).ok


LOCALS = r"""
__device__ float last(const float* x, int n, int at) {
    float sum;
    float more = sum + x[at];
    return at < n ? more : 0;
}
__global__ void sums(const float* x, float* y, int n) {
    y[threadIdx.x] = last(x, n, threadIdx.x);
}
__global__ void packed(int* y) { y[threadIdx.x] = 0xFEFEFEFE; }
"""


def test_a_local_variable_without_a_value():
    with pytest.warns(CompileWarning, match="'sum' is used uninitialized"):
        compile_kernel(LOCALS, "sums")
    (problem,) = Tracer(LOCALS, "sums")[1, 32](torch.ones(32), torch.zeros(32), 5).problems
    assert problem.kind == "uninitialized" and problem.line == 8 and problem.thread == (0, 0, 0)
    assert "writes to y[0] what depends on `sum`, which was never set" in problem.message
    assert Tracer(LOCALS, "packed")[1, 32](torch.zeros(32, dtype=torch.int32)).ok  # an integer may be just that


UNSET = r"""
#include <cuda_fp16.h>

template <class T> struct Pair { T a, b; };
template <class T>
__global__ void use(int which, const T* x, T* y, int n) {
    int t = threadIdx.x;
    if (which == 0) { T v; if (t < n) v = x[t]; y[t] = v; }
    if (which == 1) { T v; if (t < n) v = x[t]; y[t] = T(2) * v + T(1); }
    if (which == 2) { Pair<T> p; p.a = x[t]; if (t < n) p.b = x[t]; y[t] = p.a - p.b; }
    if (which == 3) { T v; if (t < n) v = x[t]; if constexpr (sizeof(T) > 1) atomicAdd(y, v); }
    T a[8];
    if (which > 3) for (int k = 0; k < n; k++) a[k % 8] = x[k];
    if (which == 4) y[t] = a[t % 8];
    if (which == 5) for (int i = 0; i < 8; i++) y[t * 8 + i] = a[i] + x[i];
    if (which == 6) {  // a window that shifts: what was never set is copied, and not used
        for (int k = 0; k < 7; k++) a[k] = a[k + 1];
        y[t] = a[1];
    }
    int v, at[8];
    if (t < n) v = t;
    for (int k = 0; k < n; k++) at[k % 8] = k % 8;
    if (which == 7) y[v] = x[t];
    if (which == 8) y[t] = x[at[t % 8] & 31];
}
"""
LINES = {0: 8, 1: 9, 2: 10, 3: 11, 4: 14, 5: 15, 7: 23, 8: 24}  # of each mistake
DTYPES = {"float": torch.float32, "double": torch.float64, "__half": torch.float16, "int": torch.int32}
DTYPES["unsigned char"] = torch.uint8


@pytest.mark.parametrize("name", DTYPES)
def test_what_is_made_from_variables_without_a_value(name):
    traced, dtype = Tracer(UNSET, f"use<{name}>", together=[f"use<{each}>" for each in DTYPES])[1, 32], DTYPES[name]
    x = torch.arange(32).to(dtype)
    for which in range(9):
        assert traced(which, x, torch.zeros(256, dtype=dtype), 32).ok, which
        found = traced(which, x, torch.zeros(256, dtype=dtype), 3).problems
        kinds = ["uninitialized"] + ["out_of_bounds"] * (which == 7)
        right = which == 6 or (which == 3 and name == "unsigned char")
        assert [(p.kind, p.line) for p in found] == [(kind, LINES[which]) for kind in kinds if not right], (
            which,
            found,
        )


DEPENDS = """
#include <cstdio>
struct Pair {
    int a;
    bool b;
};
struct Counter {
    int count;
    __device__ Counter() {}
};
__global__ void k(int which, const int* x, int* y, int n) {
    int t = threadIdx.x;
    if (which == 0) {
        int count[4];
        if (n == 3) count[1] = 0;
        y[t] = count[1] > 2;
    }
    if (which == 1) {
        bool found;
        if (x[t] < n) found = true;
        if (found) y[t] = 1;
    }
    if (which == 2) {
        Pair p;
        p.a = t;
        if (n == 3) p.b = true;
        if (p.b) y[t] = p.a;
    }
    if (which == 3) {
        float largest;
        if (n == 3) largest = 0;
        if (x[t] < largest) y[t] = 1;
    }
    if (which == 4) {
        int end;
        if (n == 3) end = 1;
        for (int i = 0; i < end; i++) y[t] += x[i];
    }
    if (which == 5) {
        unsigned at;
        if (n == 3) at = t;
        y[at % 32] = t;
    }
    if (which == 6) {
        short odd;
        if (n == 3) odd = 1;
        atomicAdd(y, odd & 1);
    }
    if (which == 7) {
        int seen;
        if (n == 3) seen = 0;
        if (seen > 4 && t == 0) printf("%d\\n", t);
    }
    if (which == 8) {
        int first, last = 0;
        if (n == 3) first = 0;
        for (int i = 0; i < 2; i++) last |= first == 0;
        y[t] = last;
    }
    if (which == 9) {  // what is not set is read, and has no effect
        int v, kept[2];
        if (t < 5) v = t, kept[0] = 1;
        int all = t < 5 ? v : 0, copy[2] = {kept[0], kept[1]};
        v = __shfl_sync(~0u, v, 3);
        if (t < 5) y[t] = all + copy[0] + v;
    }
    if (which == 10) {  // neither have a quotient, what is between members, and the bits of a clock
        int d, both[4];
        if (t < n) d = 3;
        const int quotient = x[t] / d;
        Pair p[2];
        for (int i = 0; i < 2; i++) p[i].a = t, p[i].b = true;
        for (int i = 0; i < 2; i++) memcpy(both + 2 * i, p + i, 8);
        y[t] = t < n ? quotient : both[t % 4] + (clock64() & 1);
    }
    if (which == 11) {
        int low, high;
        if (n == 3) low = high = 0;
        y[t] = high - low;
    }
    if (which == 12) {
        Counter seen;
        if (n == 3) seen.count = 0;
        y[t] = seen.count > 5;
    }
    if (which == 13) {
        for (int next, i = n; i < 4; i++) {
            if (n == 3) next = 0;
            y[t] += next > 7;
        }
    }
    if (which == 14) {  // what is shifted and converted is not used
        int by;
        float f;
        if (t < n) by = 3, f = 2;
        const int shifted = 1 << by, whole = int(f);
        if (t < n) y[t] = shifted + whole;
    }
}
"""
DECLARATIONS = ["int count[4];", "bool found;", "Pair p;", "float largest;", "int end;", "unsigned at;", "short odd;"]
DECLARATIONS += ["int seen;", "int first, last = 0;", "", "", "int low, high;", "Counter seen;"]
DECLARATIONS += ["for (int next, i = n; i < 4; i++) {", ""]  # by `which`


@pytest.mark.parametrize("which", range(15))
def test_a_variable_without_a_value_is_found_by_what_depends_on_it(which, capfd):
    traced = Tracer(DEPENDS, "k")[1, 32]
    x, y = torch.arange(32).int(), torch.zeros(32).int()
    assert traced(which, torch.zeros(32).int(), y, 3).ok
    found = traced(which, x, y, 2).problems
    if not DECLARATIONS[which]:
        assert not found, found
        return
    line = [text.strip() for text in DEPENDS.splitlines()].index(DECLARATIONS[which]) + 1
    name = re.search(r"\w+ (\w+)", DECLARATIONS[which])[1]
    assert found[0].kind == "uninitialized" and f"depends on `{name}`, which was never set" in found[0].message, found
    assert f"where it is declared, in line {line}" in found[0].hint, found
    assert capfd.readouterr().out == "0\n" * (which == 7)  # though the launch is made again


def test_a_variable_that_only_the_last_block_leaves_unset_is_found():
    source = """__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool odd;
    if (i < n) odd = false;
    for (int j = 0; j < 8; j++) y[i] += x[(i + j) % n];
    if (odd) y[i] = 0;
}"""
    (problem,) = Tracer(source, "k")[100, 128](torch.rand(12800), torch.zeros(12800), 12800 - 1).problems
    assert "thread (127,0,0) of block (99,0,0) writes to y[12799] what depends on `odd`" in problem.message, problem


def test_no_warning_of_variables_that_have_a_value_wherever_they_are_used():
    source = r"""
__global__ void guarded(const float* x, float* y, int n) {
    __shared__ float s[32];
    float v, acc[4], best;
    int i = blockIdx.x * blockDim.x + threadIdx.x, arg;
    if (i < n) v = x[i];
    for (int k = 0; k < 4; k++) acc[k] = k;
    s[threadIdx.x] = i < n ? v : 0;
    __syncthreads();
    for (int k = 0; k < n; k++)
        if (k == 0 || s[k % 32] > best) best = s[k % 32], arg = k;
    if (i < n) y[i] = v + acc[i % 4] + (n > 0 ? best + arg : 0);
}
"""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        try:
            compile_kernel(source, "guarded")
        except CompileError as error:
            pytest.fail(str(error))


def test_an_atomic_at_a_misaligned_address():
    source = """__global__ void k(float* x) {
    atomicAdd(x + threadIdx.x, 1.0f);
    if (threadIdx.x == 3) atomicAdd((float2*)(x + threadIdx.x), make_float2(1, 1));
}"""
    (problem,) = Tracer(source, "k")[1, 32](torch.zeros(32)).problems
    assert (problem.kind, problem.line, problem.thread) == ("misaligned", 3, (3, 0, 0)), problem
    assert "updates 8 bytes atomically at x[3]" in problem.message


WIDE = """__global__ void k(const float* x, float* y, int n, bool guarded) {
    __shared__ __align__(16) float s[64];
    int t = threadIdx.x;
    for (int i = t; i < n; i += 16) s[i] = x[i];
    __syncthreads();
    if (4 * t >= n) return;
    float4 v = *(float4*)(s + 4 * t);
    float last = 4 * t + 3 < n || !guarded ? v.w : v.x;
    y[t] = fmaxf(fmaxf(v.x, 4 * t + 1 < n ? v.y : v.x), last);
}"""


def test_a_wide_read_may_reach_what_nobody_has_written_if_it_does_not_use_it():
    traced, x, y = Tracer(WIDE, "k")[1, 16], torch.rand(64), torch.zeros(16)
    assert traced(x, y, 42, True).ok and traced(x, y, 44, False).ok
    (problem,) = traced(x, y, 42, False).problems  # of s[40] to s[43], the last two: fmaxf ignores NaN
    assert (problem.kind, problem.line, problem.thread) == ("uninitialized", 7, (10, 0, 0))


HEAP = """struct Pair { int a; float b; };
__global__ void array(float* x) { float* h = new float[4]; h[1] = 3; delete[] h; x[1] = 2; }
__global__ void single(float* x) { float* h = new float(x[0]); delete h; x[1] = 2; }
__global__ void object(float* x) { Pair* h = new Pair{1, x[0]}; delete h; x[1] = 2; }
__global__ void late(float* x) { float* h = (float*)malloc(16); h[1] = x[0]; free(h); x[1] = h[1]; }
"""


@pytest.mark.parametrize("name", ["array", "single", "object"])
def test_what_was_stored_in_memory_is_looked_at_before_that_is_freed(name):
    assert Tracer(HEAP, name)[1, 1](torch.ones(4)).ok


def test_a_read_of_memory_that_was_freed():
    """In a process of its own: others' kernels may have left so much memory behind that none is watched any more."""
    script = "import torch\nfrom tests.cuda.cpu.trace.test_values import HEAP, Tracer\n"
    script += "print(Tracer(HEAP, 'late')[1, 1](torch.ones(4)).problems)"
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=hidden, capture_output=True, text=True)
    assert "reads memory that was freed" in ran.stdout and ran.stdout.count("thread (") == 1, ran


ASKS = """__global__ void k(int* counts, int* order) {
    for (int i = 0; i < 3; i++) atomicAdd(counts, 0);
    order[atomicAdd(counts + 1, 1)] = threadIdx.x;
}"""


def test_the_order_of_threads_that_ask_does_not_depend_on_earlier_launches():
    """A launch is compared with itself, made again."""
    kernel, orders = compile_kernel(ASKS, "k"), []
    for _ in range(4):
        orders.append(torch.zeros(200, dtype=torch.int32))
        kernel[1, 200](torch.zeros(2, dtype=torch.int32), orders[-1])
    assert all(torch.equal(order, orders[0]) for order in orders)
