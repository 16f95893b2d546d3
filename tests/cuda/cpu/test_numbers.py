"""Numbers that C++ leaves undefined: a launch computes what a GPU does, or warns of what a GPU gives instead.

The numbers of a GPU are an H200's, for kernels that nvcc compiled.
"""

import warnings

import pytest
import torch

from utils import compile_kernel, load_cuda
from utils.cuda.common.diagnostics import CompileWarning
from utils.cuda.cpu.differences import KernelWarning
from utils.cuda.kernel import compile_kernels

SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class F, class I>
__global__ void convert(const F* x, I* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];  // convert
}
template <class T, class K>
__global__ void shift(const T* x, const K* by, T* left, T* right) {
    *left = *x << *by;  // left
    *right = *x >> *by;  // right
}
static __device__ int of_module[4];
template <class T>
__global__ void divide(const T* x, const T* by, T* y, int at) {
    T on_stack[8];
    for (int i = 0; i < 8; i++) on_stack[i] = by[i / 4];
    of_module[at] = *by;
    y[0] = *x / *by;
    y[1] = *x % *by;
    y[2] = *x / on_stack[at];
    y[3] = *x % on_stack[at + 3];
    y[4] = *x / of_module[at];
    y[5] = *x / (T)of_module[1];
}
__global__ void index(const float* x, float* y) { y[1000000LL * (int)*x] = 1; }
"""
NAN, INF, BIG = float("nan"), float("inf"), 1.5 * 2.0**63
GIVEN = [
    NAN,
    INF,
    -INF,
    3e9,
    5e9,
    -3e9,
    300.0,
    -1.0,
    -0.5,
    -1.5,
    7e4,
    -7e4,
    200.5,
    -200.5,
    1e10,
    -1e10,
    1e20,
    -1e20,
    BIG,
]
SMALL = [300, -1, 0, -1, 70000, -70000, 200, -200]  # what the values from 300 to -200.5 are as 32 bits
LOW, HIGH, LOW_64, HIGH_64 = -(2**31), 2**31 - 1, -(2**63), 2**63 - 1
HUGE, HUGE_64 = 2**32 - 1, 2**64 - 1
GIVES = {
    "signed char": [0, -1, 0, -1, -1, 0, 44, -1, 0, -1, 112, -112, -56, 56, -1, 0, -1, 0, -1],
    "unsigned char": [0, 255, 0, 0, 255, 0, 44, 0, 0, 0, 112, 0, 200, 0, 255, 0, 255, 0, 255],
    "short": [0, -1, 0, -1, -1, 0, 300, -1, 0, -1, 4464, -4464, 200, -200, -1, 0, -1, 0, -1],
    "unsigned short": [0, 65535, 0, 24064, 65535, 0, 300, 0, 0, 0, 4464, 0, 200, 0, 65535, 0, 65535, 0, 65535],
    "int": [0, HIGH, LOW, HIGH, HIGH, LOW, *SMALL, HIGH, LOW, HIGH, LOW, HIGH],
    "unsigned int": [0, HUGE, 0, 3 * 10**9, HUGE, 0, *(max(0, x) for x in SMALL), HUGE, 0, HUGE, 0, HUGE],
    "long long": [
        LOW_64,
        HIGH_64,
        LOW_64,
        3 * 10**9,
        5 * 10**9,
        -3 * 10**9,
        *SMALL,
        10**10,
        -(10**10),
        HIGH_64,
        LOW_64,
        HIGH_64,
    ],
    "unsigned long long": [
        2**63,
        HUGE_64,
        0,
        3 * 10**9,
        5 * 10**9,
        0,
        *(max(0, x) for x in SMALL),
        10**10,
        0,
        HUGE_64,
        0,
        int(BIG),
    ],
}
OF_DOUBLE = {("int", 0): LOW, ("unsigned int", 0): 2**31}  # by type and place: what is different for a double
HALVES = [NAN, INF, -INF, 300.0, -1.0, -1.5, 200.5, -200.5]
OF_HALF = {
    "signed char": [0, 127, -128, 127, -1, -1, 127, -128],
    "unsigned char": [0, 255, 0, 255, 0, 0, 200, 0],
    "short": [0, 32767, -32768, 300, -1, -1, 200, -200],
    "unsigned short": [0, 65535, 0, 300, 0, 0, 200, 0],
    "int": [0, HIGH, LOW, 300, -1, -1, 200, -200],
    "unsigned int": [0, HUGE, 0, 300, 0, 0, 200, 0],
    "long long": [LOW_64, HIGH_64, LOW_64, 300, -1, -1, 200, -200],
    "unsigned long long": [2**63, HUGE_64, 0, 300, 0, 0, 200, 0],
}
FLOATS = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "__nv_bfloat16": torch.bfloat16}
INTEGERS = dict(zip(GIVES, (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32), strict=False))
INTEGERS |= {"unsigned int": torch.uint32, "long long": torch.int64, "unsigned long long": torch.uint64}
SHIFTED = [(value, count) for value in ("int", "unsigned int", "long long") for count in ("int", "long long")]
NAMES = [f"convert<{f}, {i}>" for f in FLOATS for i in INTEGERS] + [f"shift<{v}, {c}>" for v, c in SHIFTED]
NAMES += ["divide<int>", "divide<long long>", "index"]


@pytest.fixture(scope="module")
def kernels():
    return dict(zip(NAMES, compile_kernels(SOURCE, NAMES), strict=True))


def launched(kernel, *args, blocks=1, threads=1):
    """What a launch warns of: (line, message)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel[blocks, threads](*args)
    assert all(w.category is KernelWarning and w.filename == "cuda_src" for w in caught)
    return [(w.lineno, str(w.message)) for w in caught]


def line_of(mark):
    return next(n for n, line in enumerate(SOURCE.splitlines(), 1) if line.endswith(f"// {mark}"))


@pytest.mark.parametrize("of", FLOATS)
def test_a_conversion_gives_what_a_gpu_gives_or_warns_of_it(kernels, of):
    is_half, differing = of in ("half", "__nv_bfloat16"), 0
    for to, dtype in INTEGERS.items():
        gives = OF_HALF[to] if is_half else GIVES[to]
        for at, (value, on_gpu) in enumerate(zip(HALVES if is_half else GIVEN, gives, strict=True)):
            on_gpu = OF_DOUBLE.get((to, at), on_gpu) if of == "double" else on_gpu
            x, y = torch.tensor([value], dtype=FLOATS[of]), torch.zeros(1, dtype=dtype)
            said, here = launched(kernels[f"convert<{of}, {to}>"], x, y, 1), y.tolist()[0]
            if here == on_gpu:
                assert not said, (of, to, value, said)
            else:
                assert said[0][0] == line_of("convert") and not is_half
                assert f": a GPU gives {on_gpu}, and the CPU {here}." in said[0][1], (of, to, value, said)
                differing += 1
    assert (differing > 0) == (not is_half)


def wrapped(value, of):
    """An integer as this type holds it, which drops the upper bits."""
    bits = 64 if of == "long long" else 32
    value %= 2**bits
    return value - 2**bits if value >= 2 ** (bits - 1) and "unsigned" not in of else value


@pytest.mark.parametrize(("of", "by"), SHIFTED)
def test_a_shift_gives_what_a_gpu_gives_or_warns_of_it(kernels, of, by):
    bits, more = 64 if of == "long long" else 32, [2**32, 2**32 + 3, -(2**32)] if by == "long long" else []
    for count in (0, 31, 32, 33, 63, 64, -1, -31, 256, *more):
        value = 201 if of == "unsigned int" else -7
        x, left, right = (torch.tensor([v], dtype=INTEGERS[of]) for v in (value, 0, 0))
        said = launched(kernels[f"shift<{of}, {by}>"], x, torch.tensor([count], dtype=INTEGERS[by]), left, right)
        shifted = count % 2**32  # nvcc drops the upper half of a count
        if shifted < bits:
            assert not said, (of, by, count, said)
            assert left.tolist() + right.tolist() == [wrapped(value << shifted, of), value >> shifted]
        else:
            assert len(said) == 1 and said[0][0] == line_of("left")
            words = f"shifts a number of {bits} bits by {count}: a GPU shifts all of them out, and the CPU shifts by "
            assert f"{words}{count % bits}." in said[0][1]


@pytest.mark.parametrize("of", ["int", "long long"])
def test_the_smallest_integer_divided_by_minus_one_is_itself(kernels, of):
    smallest, kernel = LOW if of == "int" else LOW_64, kernels[f"divide<{of}>"]
    for x, by in ((smallest, -1), (smallest, 1), (smallest + 1, -1), (7, -1), (-7, 2)):
        quotient = abs(x) // abs(by) * (1 if (x < 0) == (by < 0) else -1)
        rest, quotient = x - by * quotient, wrapped(quotient, of)
        y = torch.zeros(6, dtype=INTEGERS[of])
        given = torch.tensor([x], dtype=y.dtype), torch.tensor([by, by], dtype=y.dtype)
        assert launched(kernel, *given, y, 1) == []
        assert y.tolist() == [quotient, rest, quotient, rest, quotient, quotient]
    with pytest.raises(RuntimeError, match="divides a whole number by zero"):
        kernel[1, 1](given[0], torch.zeros_like(given[1]), y, 1)


def test_the_first_number_of_the_first_block_is_named_whatever_the_cores_do(kernels):
    x, y = torch.zeros(100_000), torch.zeros(100_000, dtype=torch.int32)
    x[[3 * 128 + 70, 3 * 128 + 75, 3 * 128 + 77, 4 * 128]] = torch.tensor([-4e9, 5e9, 6e9, NAN])  # the first is LOW
    for _ in range(20):
        ((line, message),) = launched(kernels["convert<float, int>"], x, y, len(x), blocks=800, threads=128)
        words = "thread (75, 0, 0) of block (3, 0, 0) of convert<float, int> converts 5e+09 to int: a GPU gives "
        assert line == line_of("convert") and message == (
            f"{words}{HIGH}, and the CPU {LOW}.\n-->    7 |     if (i < n) y[i] = x[i];  // convert\n"
            "Hint: C++ leaves this undefined: bring the number into the type's range first, as with `min` and `max`."
        )


def test_a_line_is_warned_of_once_in_a_cell_and_filters_apply(kernels):
    y, kernel = torch.zeros(1, dtype=torch.int32), kernels["convert<float, int>"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for value in (NAN, 5e9, NAN, 6e9):
            kernel[1, 1](torch.tensor([value]), y, 1)
    assert len(caught) == 1 and "converts nan to int" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KernelWarning, match=r"converts 7e\+09 to int"):
            kernel[1, 1](torch.tensor([7e9]), y, 1)
    assert launched(kernel, torch.tensor([7.0]), y, 1) == [] and y.item() == 7


def test_a_fault_names_the_number_that_may_have_led_to_it(kernels):
    with pytest.raises(RuntimeError) as raised:
        kernels["index"][1, 1](torch.tensor([NAN]), torch.zeros(5))
    words = (
        "In the same launch, thread (0, 0, 0) of block (0, 0, 0) of index converts nan to int: a GPU gives 0, and the "
    )
    assert f"{words}CPU {LOW} (cuda_src, line {len(SOURCE.splitlines())})" in str(raised.value)
    assert launched(kernels["convert<float, int>"], torch.ones(1), torch.zeros(1, dtype=torch.int32), 1) == []


def test_nvcc_makes_the_instructions_that_the_numbers_are_about(kernels):
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVIDIA's cuda-bindings")
    for to, of in (("signed char", "float"), ("unsigned short", "double"), ("unsigned long long", "float")):
        kind = ("u" if "unsigned" in to else "s") + ("64" if "long" in to else "32")
        assert f"cvt.rzi.{kind}.{'f32' if of == 'float' else 'f64'}" in kernels[f"convert<{of}, {to}>"].ptx
    assert "cvt.rzi.u8.f16" in kernels["convert<half, unsigned char>"].ptx
    shifts = kernels["shift<int, long long>"].ptx
    assert "shl.b32" in shifts and "shr.s32" in shifts and "min." not in shifts  # a count as it is


EXTENSION = r"""
#include <torch/extension.h>
__global__ void convert(const double* x, int* y) { *y = (int)*x; }
int64_t in_kernels(torch::Tensor x, torch::Tensor y, int64_t times) {
    for (int i = 0; i < times; i++) convert<<<1, 1>>>(x.data_ptr<double>(), y.data_ptr<int>());
    return times;
}
int64_t in_host_code(double x, int64_t by) {
    volatile int narrow = (int)x, shifted = 1 << (int)by;
    return narrow + shifted - shifted;
}
"""


def test_an_extension_warns_of_its_kernels_and_not_of_its_host_code():
    declared = "int64_t in_kernels(torch::Tensor x, torch::Tensor y, int64_t times);"
    declared += " int64_t in_host_code(double x, int64_t by);"
    module = load_cuda(EXTENSION, declared, ["in_kernels", "in_host_code"])
    x, y = torch.tensor([-1e10]), torch.zeros(1, dtype=torch.int32)
    with pytest.warns(KernelWarning, match="of convert converts 1e[+]10 to int: a GPU gives 2147483647") as caught:
        assert module.in_kernels(-x.double(), y, 100) == 100
    assert [(w.filename, w.lineno) for w in caught] == [("cuda_src", 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.in_kernels(x.double(), y, 3)  # the smallest int, as on a GPU
        module.in_host_code(1e10, 40)
        with pytest.raises(KernelWarning):
            module.in_kernels(-x.double(), y, 1)


LONG = """
__device__ long double plus(long double x, long double const& y) { return x + y; }
__host__ __device__ long double sizes() { return sizeof(long double); }
__global__ void k(double* y, double x) {
    long double a = x, unsigned_like = 1.L;
    y[0] = plus(a, 0x1p-60L) - 1e0L;
    y[1] = (double long)(x / 3) * 3.0L - unsigned_like;
    y[2] = sizeof(long double) + 100 * sizeof(double long) + static_cast<long long>(1.5);
}"""


def test_a_long_double_of_device_code_is_a_double():
    with pytest.warns(CompileWarning, match="'long double' is treated as 'double' in device code"):
        kernel = compile_kernel(LONG, "k")
    kernel[1, 1](y := torch.empty(3, dtype=torch.float64), 1.0)
    assert y.tolist() == [0, 0, 16 + 1600 + 1]
