"""compile_kernel: what it launches, what it refuses and in which words, what it keeps, what a trace is given."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import kernels
import utils.cuda.kernel
from utils import CompileError, compile_kernel
from utils.cuda.common import toolchain
from utils.cuda.common.arguments import kernels_of
from utils.lesson.simulator import cdiv, dim3

ROOT = Path(utils.__file__).parents[1]

SOURCE = r"""
// A comment with __global__ void nothing(int* x) in it.
typedef float real;
using number = int;

__device__ int three() { return 3; }

__global__ void scale(const float* __restrict__ x, real* out, number n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = three() * x[i];
}

template <int tile, class T = float>
__global__ void reversed(const T* x, T* out, int n) {
    __shared__ T part[tile];
    int i = blockIdx.x * tile + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) out[i] = part[tile - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256) plain_name(int* out, float4* any, void* also) {
    out[threadIdx.x] = threadIdx.x;
}

__global__ void places(int* out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    out[at] = at;
}

__global__ void last_bytes(unsigned char* out, int n) {
    extern __shared__ unsigned char room[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = i % 251;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = room[n - 1 - i];
}

struct Pair { float a; int b; };
__global__ void by_value(double* out, Pair p, bool flag, short s, unsigned int u, long long big, size_t size, double d,
                         float f, char c, unsigned char uc) {
    double values[] = {p.a, double(p.b), double(flag), double(s), double(u), double(big), double(size), d, f, double(c),
                       double(uc)};
    for (int i = 0; i < 11; i++) out[i] = values[i];
}

__global__ void empty() {}

#ifndef __CUDACC_RTC__
void launch(float* x, int n) { this does not compile, and nobody looks at it; }
#endif
"""


def line_of(text, source=SOURCE):
    return source[: source.index(text)].count("\n") + 1


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache; only the engine's runtime is not built again."""
    runtime = toolchain.cache_folder() / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    (tmp_path / "runtime").symlink_to(runtime)
    return tmp_path


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(utils.cuda.kernel, "device", lambda: torch.device("cpu"))


# ---- launches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 17, 1000, 4097])
def test_a_kernel_with_typedefs_and_a_device_function(backend, n):
    x, out = torch.randn(n, device=backend), torch.full((n + 1,), float("nan"), device=backend)
    kernel = compile_kernel(SOURCE, "scale")
    assert kernel[cdiv(n, 128), 128](x, out[:n], n) is None
    torch.testing.assert_close(out[:n], 3 * x)
    assert out[n].isnan()


def test_a_shared_source_with_host_code(backend):
    h, k, w = 65, 100, 70
    m, n = torch.randn(h, k, device=backend), torch.randn(k, w, device=backend)
    out = torch.full((h, w), float("nan"), device=backend)
    kernel = compile_kernel(kernels.source("matmul"), "matmul_kernel")
    kernel[(cdiv(w, 16), cdiv(h, 16)), (16, 16)](m, n, out, h, w, k)
    torch.testing.assert_close(out, m @ n, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "tile", "dtype"),
    [
        ("reversed<16>", 16, torch.float32),
        ("reversed< 32 , double >", 32, torch.float64),
        ("reversed<(5 > 3) ? 8 : 4, int>", 8, torch.int32),
    ],
)
def test_instances_of_a_template(backend, name, tile, dtype):
    x = torch.arange(2 * tile, device=backend).to(dtype)
    out = torch.full_like(x, -1)
    compile_kernel(SOURCE, name)[2, tile](x, out, 2 * tile)
    torch.testing.assert_close(out, x.reshape(2, tile).flip(1).flatten())


def test_extern_c_and_pointers_that_take_any_tensor(backend):
    out = torch.full((32,), -1, dtype=torch.int32, device=backend)
    any_tensor = torch.zeros(3, dtype=torch.float64, device=backend)
    compile_kernel(SOURCE, "plain_name")[1, 32](out, any_tensor, None)
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize(
    ("blocks", "threads"),
    [
        (2, 3),
        ((2,), (3, 4)),
        ((2, 3, 4), (5, 2, 3)),
        (dim3(3, 2), dim3(4)),
        (SimpleNamespace(x=2, y=1, z=3), [4, 2]),
        (1, 1024),
        (1, (16, 1, 64)),
    ],
)
def test_sizes_of_grid_and_block(backend, blocks, threads):
    def total(size):
        sizes = [size.x, size.y, size.z] if hasattr(size, "x") else [size] if isinstance(size, int) else size
        return torch.tensor(sizes).prod().item()

    n = total(blocks) * total(threads)
    out = torch.full((n,), -1, dtype=torch.int32, device=backend)
    compile_kernel(SOURCE, "places")[blocks, threads](out)
    assert out.tolist() == list(range(n))


@pytest.mark.parametrize("size", [1, 1000, 60_000])
def test_dynamic_shared_memory(backend, size):
    out = torch.zeros(size, dtype=torch.uint8, device=backend)
    compile_kernel(SOURCE, "last_bytes")[1, 64, size](out, size)
    assert torch.equal(out.cpu(), (torch.arange(size) % 251).flip(0).to(torch.uint8))


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int)]


@pytest.mark.parametrize("pair", [Pair(1.5, -7), bytes(Pair(1.5, -7))])
def test_values(backend, pair):
    out = torch.full((11,), float("nan"), dtype=torch.float64, device=backend)
    values = [True, -32768, 2**32 - 1, -(2**63), 2**52, 0.1, 0.5, -3, 255]
    compile_kernel(SOURCE, "by_value")[1, 1](out, pair, *values)
    assert out.tolist() == [1.5, -7.0, *map(float, values)]


def test_a_kernel_without_parameters_and_numpy_numbers(backend):
    numpy = pytest.importorskip("numpy")
    compile_kernel(SOURCE, "empty")[1, 1]()
    x, out = torch.ones(3, device=backend), torch.zeros(3, device=backend)
    compile_kernel(SOURCE, "scale")[numpy.int64(1), 32](x, out, numpy.int32(2))
    assert out.tolist() == [3, 3, 0]


HALVES = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void halves(half* h, __nv_bfloat16* b, __half hv, __nv_bfloat16 bv) { h[0] = hv; b[0] = bv; }
"""


def test_half_precision(backend):
    h, b = torch.zeros(2, dtype=torch.float16, device=backend), torch.zeros(2, dtype=torch.bfloat16, device=backend)
    kernel = compile_kernel(HALVES, "halves")
    kernel[1, 1](h, b, 0.1, 3.14159)
    assert h.tolist() == torch.tensor([0.1, 0], dtype=torch.float16).tolist()
    assert b.tolist() == torch.tensor([3.14159, 0], dtype=torch.bfloat16).tolist()
    with pytest.raises(TypeError, match=r"argument 1 .* h\) takes a float16 tensor, but this one is bfloat16"):
        kernel[1, 1](b, b, 0, 0)
    with pytest.raises(ValueError, match="cannot hold 70000: it is too large"):
        kernel[1, 1](h, b, 70_000, 0)


GRID_SYNC = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ void wait_for_all() { cg::this_grid().sync(); }
__global__ void waits(int* x, int* out) {
    x[blockIdx.x] = blockIdx.x;
    wait_for_all();
    out[blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
}
"""


def test_a_kernel_that_waits_for_the_grid_is_launched_cooperatively(backend):
    x, out = (torch.full((4,), -1, dtype=torch.int32, device=backend) for _ in range(2))
    compile_kernel(GRID_SYNC, "waits")[4, 1](x, out)
    assert out.tolist() == [3, 2, 1, 0]


def test_options_reach_the_compiler(backend):
    source = "__global__ void k(int* out) { out[0] = N; }"
    for options in ("-DN=5", ["-D", "N=5"], ("--define-macro=N=5", "--use_fast_math")):
        out = torch.zeros(1, dtype=torch.int32, device=backend)
        compile_kernel(source, "k", options=options)[1, 1](out)
        assert out.item() == 5
    out = torch.zeros(1, dtype=torch.int32, device=backend)
    compile_kernel(source, "k", options="-DN=6")[1, 1](out)
    assert out.item() == 6


# ---- arguments ------------------------------------------------------------------------------------------------------

TAKEN = {
    "float": ["float32"],
    "double": ["float64"],
    "int": ["int32", "uint32"],
    "unsigned": ["int32", "uint32"],
    "long long": ["int64", "uint64"],
    "size_t": ["int64", "uint64"],
    "short": ["int16", "uint16"],
    "unsigned char": ["uint8", "int8", "bool"],
    "char": ["uint8", "int8", "bool"],
    "bool": ["bool"],
}
DTYPES = sorted({dtype for dtypes in TAKEN.values() for dtype in dtypes} | {"float16", "bfloat16", "complex64"})


def test_every_pointer_takes_the_tensors_of_its_type_and_no_others(backend):
    parameters = ", ".join(f"const {kind}* p{i}" for i, kind in enumerate(TAKEN))
    kernel = compile_kernel(f"__global__ void k({parameters}) {{}}", "k")
    good = [torch.zeros(4, dtype=getattr(torch, dtypes[0]), device=backend) for dtypes in TAKEN.values()]
    for i, taken in enumerate(TAKEN.values()):
        for dtype in DTYPES:
            args = [*good]
            args[i] = torch.zeros(4, dtype=getattr(torch, dtype), device=backend)
            if dtype in taken:
                kernel[1, 1](*args)
            else:
                with pytest.raises(TypeError, match=rf"argument {i + 1} of k \(const .*\* p{i}\) takes a .*is {dtype}"):
                    kernel[1, 1](*args)


X = torch.ones(8)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X, X), TypeError, r"scale takes 3 arguments \(const float\* x, float\* out, int n\), but got 2"),
        ((X, X, 8, 9), TypeError, "takes 3 arguments .*, but got 4"),
        ((X.double(), X, 8), TypeError, r"argument 1 .* takes a float32 tensor, but .* float64: x.to\(torch.float32\)"),
        ((X, [1.0], 8), TypeError, r"argument 2 of scale \(float\* out\) takes a tensor, but got list \[1.0\]"),
        ((X, X.numpy(), 8), TypeError, "takes a tensor, but got ndarray.*torch.from_numpy"),
        ((X, 12345, 8), TypeError, "takes a tensor, but got int 12345"),
        (
            (X[::2], X, 4),
            ValueError,
            r"not contiguous \(shape \(4,\), strides \(2,\)\): x.contiguous\(\)",
        ),
        ((X.to_sparse(), X, 8), ValueError, r"layout torch.sparse_coo: x.to_dense\(\)"),
        ((X, X, 8.0), TypeError, r"argument 3 of scale \(int n\) takes a whole number, but got float 8.0"),
        ((X, X, "8"), TypeError, "takes a whole number, but got str '8'"),
        ((X, X, None), TypeError, "takes a whole number, but got None"),
        ((X, X, torch.tensor(8)), TypeError, r"takes a number, but got a tensor of shape \(\): pass x.item\(\)"),
        ((X, X, X), TypeError, r"takes a number, but got a tensor of shape \(8,\)"),
        ((X, X, 2**31), ValueError, "holds -2,147,483,648 to 2,147,483,647, but got 2,147,483,648"),
        ((X, X, -(2**31) - 1), ValueError, "but got -2,147,483,649"),
    ],
)
def test_arguments_that_do_not_fit(backend, args, error, message):
    def there(arg):
        if not isinstance(arg, torch.Tensor) or not arg.dim():
            return arg
        if arg.layout == torch.strided and not arg.is_contiguous():
            return X.to(backend)[::2]  # a copy alone would be contiguous
        return arg.to(backend)

    before = X.clone()
    with pytest.raises(error, match=message):
        compile_kernel(SOURCE, "scale")[1, 8](*map(there, args))
    assert torch.equal(X, before)


@pytest.mark.parametrize(
    ("number", "value", "error", "message"),
    [
        (1, Pair, TypeError, r"argument 2 of by_value \(Pair p\) is a Pair passed by value: .* as 8 bytes"),
        (1, b"1234", ValueError, "has 8 bytes, but got 4"),
        (2, 2, TypeError, r"\(bool flag\) takes True or False, but got int 2"),
        (3, 32768, ValueError, r"\(short s\) holds -32,768 to 32,767, but got 32,768"),
        (4, -1, ValueError, r"\(unsigned int u\) holds 0 to 4,294,967,295, but got -1"),
        (5, 2**63, ValueError, r"\(long long big\) holds"),
        (6, -1, ValueError, r"\(unsigned long size\) holds 0 to"),
        (7, "1", TypeError, r"\(double d\) takes a number, but got str"),
        (8, 1e39, ValueError, r"\(float f\) cannot hold 1e\+39: it is too large"),
        (10, 256, ValueError, r"\(unsigned char uc\) holds 0 to 255, but got 256"),
    ],
)
def test_values_that_do_not_fit(backend, number, value, error, message):
    args = [torch.zeros(11, dtype=torch.float64, device=backend), Pair(1, 2), True, 1, 1, 1, 1, 1, 1, 1, 1]
    kernel = compile_kernel(SOURCE, "by_value")
    kernel[1, 1](*args)
    args[number] = value
    with pytest.raises(error, match=message):
        kernel[1, 1](*args)


def test_tensors_on_another_device(backend):
    elsewhere = torch.ones(8, device="cpu" if backend.type == "cuda" else "meta")
    x = torch.ones(8, device=backend)
    wanted = (
        rf"argument 2 of scale \(float\* out\) is on {elsewhere.device}.* for {backend.type}: out.to\('{backend}'\)"
    )
    with pytest.raises(ValueError, match=wanted):
        compile_kernel(SOURCE, "scale")[1, 8](x, elsewhere, 8)


def test_a_lazily_conjugated_tensor_is_refused(backend):
    z = torch.ones(3, dtype=torch.complex64, device=backend)
    kernel = compile_kernel("__global__ void k(float2* z) {}", "k")
    kernel[1, 1](z)
    with pytest.raises(ValueError, match="conjugates or negates"):
        kernel[1, 1](z.conj())


# ---- launches that are refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "error", "message"),
    [
        ((0, 32), ValueError, "blocks must be at least 1, but blocks=0"),
        ((1, -1), ValueError, "threads must be at least 1, but threads=-1"),
        ((1.0, 32), TypeError, "blocks must be whole numbers, but got 1.0"),
        ((1, 1025), ValueError, "threads is at most 1,024 in x, but threads=1025"),
        ((1, (64, 32)), ValueError, r"at most 1024 threads, but threads=\(64, 32, 1\) makes 2048"),
        ((1, (1, 1, 65)), ValueError, "at most 64 in z"),
        (((1, 65536), 1), ValueError, "at most 65,535 in y"),
        (((1, 1, 1, 1), 1), ValueError, "one to three numbers .* got 4"),
        (((), 1), ValueError, "one to three numbers .* got 0"),
        ((1,), TypeError, r"takes \[blocks, threads\]"),
        (3, TypeError, r"takes \[blocks, threads\] or \[blocks, threads, shared_bytes\], but got 3"),
        ((1, 1, 0, 0), TypeError, r"takes \[blocks, threads\]"),
        ((1, 1, -4), ValueError, "shared_bytes must not be negative, but it is -4"),
        ((1, 1, 4.0), TypeError, "shared_bytes must be a whole number of bytes, but got 4.0"),
    ],
)
def test_bad_launches_are_refused_with_their_values(backend, launch, error, message):
    kernel = compile_kernel(SOURCE, "scale")
    with pytest.raises(error, match=message):
        kernel[launch]
    with pytest.raises(error, match=message):
        kernel.trace[launch]


def test_too_much_shared_memory_is_refused_and_the_next_launch_runs(backend):
    kernel, out = compile_kernel(SOURCE, "last_bytes"), torch.zeros(4, dtype=torch.uint8, device=backend)
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument.*1000000 bytes of dynamic shared memory"):
        kernel[1, 1, 1_000_000](out, 4)
    kernel[1, 1, 4](out, 4)
    assert out.tolist() == [3, 2, 1, 0]


def test_a_kernel_called_without_a_launch(backend):
    with pytest.raises(TypeError, match=r"scale needs a launch: scale\[blocks, threads\]\(...\)"):
        compile_kernel(SOURCE, "scale")(X, X, 8)


def test_a_fault_on_the_cpu_names_thread_and_block(on_cpu):
    with pytest.raises(RuntimeError, match=r"illegal memory .* thread \(0, 0, 0\) of block \(0, 0, 0\) of scale"):
        compile_kernel(SOURCE, "scale")[1, 8](None, X.clone(), 8)


@pytest.mark.alone
def test_a_running_kernel_can_be_interrupted(on_cpu):
    source = "__global__ void endless(volatile int* x) { while (x[0] == 0) {} }"
    kernel, x = compile_kernel(source, "endless"), torch.zeros(1, dtype=torch.int32)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        kernel[1, 1](x)
        x[0] = 1  # the signal may be told to Python only now
        threading.Event().wait(2)
    timer.join()
    x[0] = 1
    kernel[1, 1](x)


# ---- names and compile errors ---------------------------------------------------------------------------------------

HAS = r"The source has: scale, reversed<...> \(template <int tile, class T = float>\), plain_name, places, last_bytes, "


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scael", rf"the source has no kernel 'scael'. Did you mean 'scale'\? {HAS}"),
        ("nothing", f"the source has no kernel 'nothing'. {HAS}"),
        ("", f"'' is no kernel's name.*{HAS}"),
        ("a b", f"'a b' is no kernel's name.*{HAS}"),
        ("three", f"'three' is a function but no kernel: only a __global__ function can be launched. {HAS}"),
        ("reversed", "'reversed' is a template .template <int tile, class T = float>.: name an instance"),
        ("scale<16>", "'scale' is no template, so 'scale<16>' does not exist"),
    ],
)
def test_names_that_are_no_kernel(backend, name, message):
    with pytest.raises(ValueError, match=message):
        compile_kernel(SOURCE, name)


def test_source_or_name_that_is_no_text(backend):
    with pytest.raises(TypeError, match="source must be text, but it is NoneType"):
        compile_kernel(None, "k")
    with pytest.raises(TypeError, match="name must be text, but it is int: 3"):
        compile_kernel(SOURCE, 3)
    with pytest.raises(ValueError, match="The source has no __global__ function"):
        compile_kernel("int x;", "k")


def test_a_kernel_that_a_macro_defines(backend):
    source = "#define KERNEL(name) __global__ void name\nKERNEL(made)(int* out) { out[0] = 7; }"
    out = torch.zeros(1, dtype=torch.int32, device=backend)
    compile_kernel(source, "made")[1, 1](out)
    assert out.item() == 7


def test_a_compile_error_shows_the_learner_s_line(backend):
    bad = SOURCE.replace("out[i] = three() * x[i];", "out[i] = four() * x[i];")
    with pytest.raises(CompileError, match="four") as raised:
        compile_kernel(bad, "scale")
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("three() * x[i]"))
    assert "if (i < n) out[i] = four() * x[i];" in str(raised.value) and "build.log" in str(raised.value)


def test_a_wrong_template_argument_is_shown_in_the_name(backend):
    with pytest.raises(CompileError, match="tyle") as raised:
        compile_kernel(SOURCE, "reversed<tyle>")
    assert raised.value.errors[0][:2] == ("name", 1)
    assert "reversed<tyle>" in str(raised.value)


def test_what_the_cpu_cannot_run_names_its_line(on_cpu):
    with pytest.raises(CompileError, match="inline PTX needs a GPU") as raised:
        compile_kernel(SOURCE.replace("out[at] = at;", 'asm("exit;");'), "places")
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("out[at] = at;"))


def test_a_function_that_is_defined_nowhere(on_cpu):
    with pytest.raises(CompileError, match=r"`lost\(int\)` is declared and called, but no source defines it"):
        compile_kernel("__device__ int lost(int);\n__global__ void k(int* x) { x[0] = lost(3); }", "k")


def test_kernels_of_a_source():
    found = kernels_of(r"""
        /* __global__ void no(); */ const char* s = "__global__ void no() {";
        namespace n { template <class T, int (*f)(int)> static __global__ void __launch_bounds__(64, 2)
            one(const T* __restrict__ a, unsigned long long b, float (*c)[16], int d[4]); }
        extern "C" __global__ __launch_bounds__(K(1, 2)) void two(void) { if (1) { } }
        void __global__ three(float x) { grid.sync(); }
        template <> __global__ void four<float>(float x) {}
        __global__ void five(int *p) { auto g = cooperative_groups::this_grid(); g.sync(); }
    """)
    assert list(found) == ["one", "two", "three", "four", "five"]
    assert found["one"].template == "template <class T, int (*f)(int)>" and not found["two"].template
    assert found["one"].names[:2] == ["a", "b"] and found["one"].names[3] == "d"
    assert found["two"].names == [] and found["three"].names == ["x"] and found["five"].names == ["p"]
    assert [name for name, kernel in found.items() if kernel.cooperative] == ["five"]
    assert kernels_of(GRID_SYNC)["waits"].cooperative, "a function that the kernel calls waits for the grid"


# ---- the cache ------------------------------------------------------------------------------------------------------


def test_an_unchanged_source_is_not_built_again_and_a_changed_one_is(fresh, on_cpu, monkeypatch):
    from utils.cuda.cpu import module

    compile_kernel(SOURCE, "scale")
    monkeypatch.setattr(module, "build_kernels", lambda *a, **k: pytest.fail("built again"))
    x = torch.zeros(8)
    compile_kernel(SOURCE, "scale")[1, 8](X, x, 8)
    assert x.tolist() == [3] * 8
    for changed in ((SOURCE + "\n", "scale"), (SOURCE, "places"), (SOURCE, "scale", "-DN")):
        with pytest.raises(pytest.fail.Exception, match="built again"):
            compile_kernel(*changed)


def test_two_versions_of_one_kernel_live_side_by_side(backend):
    out = torch.zeros(2, dtype=torch.int32, device=backend)
    template = "template <int n> __global__ void k(int* out) {{ __shared__ int s; s = {}; out[n] = s + n; }}"
    one, two = (compile_kernel(template.format(value), "k<1>") for value in (10, 20))
    for kernel, value in ((one, 11), (two, 21), (one, 11)):
        kernel[1, 1](out)
        assert out.tolist() == [0, value]


def test_what_a_killed_build_left_or_a_disk_damaged_is_built_anew(fresh, on_cpu, monkeypatch):
    from utils.cuda.cpu import module

    compile_kernel(SOURCE, "scale")
    (folder,) = (f for f in (fresh / "cpu").iterdir() if f.is_dir())
    for damage in (
        lambda: (folder / "complete").unlink(),
        lambda: (folder / "kernel.so").write_bytes(b"\x7fELF"),
        lambda: (folder / "kernel.so").unlink(),
    ):
        damage()
        monkeypatch.setattr(module, "_loaded", {})
        x = torch.zeros(8)
        compile_kernel(SOURCE, "scale")[1, 8](X, x, 8)
        assert x.tolist() == [3] * 8
        assert (folder / "complete").exists()


@pytest.mark.alone
def test_a_new_process_loads_it_in_milliseconds(fresh, on_cpu):
    compile_kernel(SOURCE, "scale")
    script = f"""
import time, torch
start = time.perf_counter()
from utils import compile_kernel
compile_kernel({SOURCE!r}, "scale")
print(time.perf_counter() - start)
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", script]
    ran = [subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True) for _ in range(3)]
    assert all(r.returncode == 0 for r in ran), ran[0].stderr
    seconds = min(float(r.stdout) for r in ran)
    print(f"\nwarm compile_kernel in a new process: {1000 * seconds:.1f} ms")
    assert seconds < 0.05


def test_verbose_prints_the_command(fresh, on_cpu, capsys):
    compile_kernel(SOURCE, "scale", verbose=True)
    assert "-O3" in capsys.readouterr().out
    compile_kernel(SOURCE, "scale", verbose=True)
    assert "already built in" in capsys.readouterr().out


# ---- NVRTC, which compiles on a machine without a GPU too -----------------------------------------------------------


@pytest.fixture
def nvrtc(fresh):
    pytest.importorskip("cuda.bindings.nvrtc")
    if not any(place.exists() for place in _nvrtc_libraries()):
        pytest.skip("torch brings no NVRTC here")
    from utils.cuda.gpu import nvrtc

    return nvrtc


def _nvrtc_libraries():
    from importlib import util

    wheel = util.find_spec("nvidia")
    for place in wheel.submodule_search_locations if wheel else ():
        yield from Path(place).glob("*/lib/libnvrtc.so*")


@pytest.mark.parametrize("capability", [75, 90])
def test_every_kernel_of_the_course_compiles_with_nvrtc(nvrtc, capability):
    for name in kernels.names():
        for kernel in kernels.launched(name):
            folder = nvrtc.built(kernels.source(name), kernel, (), capability)
            assert (folder / "kernel.bin").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "name", ["scale", "reversed<16>", "reversed<8, double>", "plain_name", "last_bytes", "by_value", "empty"]
)
def test_both_compilers_tell_the_same_signature(nvrtc, on_cpu, name):
    import json

    facts = json.loads((nvrtc.built(SOURCE, name, (), 75) / "kernel.json").read_text())
    on_cpu = compile_kernel(SOURCE, name)._module
    assert facts["signature"] == on_cpu.signature
    assert facts["sizes"] == [size for size, _, _ in on_cpu.sizes]


@pytest.mark.parametrize("source", [SOURCE, HALVES, GRID_SYNC, "#include <cstdint>\n#include <cmath>\n" + SOURCE])
def test_nvrtc_finds_the_headers(nvrtc, source):
    nvrtc.built(source, list(kernels_of(source))[0], (), 75)


@pytest.mark.parametrize("options", [("-DN=5",), ("-D", "N=5"), ("--define-macro=N=5", "--use_fast_math")])
def test_options_reach_nvrtc(nvrtc, options):
    nvrtc.built("__global__ void k(int* out) { out[0] = N; }", "k", options, 75)
    with pytest.raises(CompileError, match="N"):
        nvrtc.built("__global__ void k(int* out) { out[0] = N; }", "k", (), 75)


def test_nvrtc_knows_what_nvcc_knows_without_an_include(nvrtc):
    body = "p[0] = INFINITY + FLT_MAX + NAN + INT_MAX; q[0] = UINT_MAX;"
    nvrtc.built(f"__global__ void k(float* p, uint32_t* q, int64_t n) {{ {body} }}", "k", (), 75)


def test_nvrtc_errors_are_told_as_those_of_the_cpu_are(nvrtc):
    bad = SOURCE.replace("out[i] = three() * x[i];", "out[i] = four() * x[i];")
    with pytest.raises(CompileError, match="four") as raised:
        nvrtc.built(bad, "scale", (), 75)
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("three() * x[i]"))
    with pytest.raises(CompileError, match="tyle") as raised:
        nvrtc.built(SOURCE, "reversed<tyle>", (), 75)
    assert [error[:2] for error in raised.value.errors] == [("name", 1)]


def test_the_architecture_can_be_chosen_and_newer_gpus_get_ptx(nvrtc):
    chosen = nvrtc.built(SOURCE, "scale", ("--gpu-architecture=compute_80",), 75)
    newer = nvrtc.built(SOURCE, "scale", (), 999)
    for folder, target in ((chosen, b".target sm_80"), (newer, b".target sm_")):
        assert target in (folder / "kernel.bin").read_bytes()
    with pytest.raises(toolchain.ToolchainError, match=r"this GPU \(sm_30\) is older than what NVRTC"):
        nvrtc.built(SOURCE, "scale", (), 30)


# ---- traces ---------------------------------------------------------------------------------------------------------


def test_a_trace_works_on_copies_and_gives_them_back(backend):
    x, out = torch.randn(100, device=backend), torch.full((100,), 7.0, device=backend)
    trace = compile_kernel(SOURCE, "scale").trace[1, 128](x, out, 100, outputs=[out])
    assert trace.problems == []
    assert (out == 7).all() and trace.args[2] == 100
    torch.testing.assert_close(trace.args[1], 3 * x)
    assert trace.args[1].device == out.device


def test_a_trace_finds_the_line_of_a_bad_access(backend):
    x, out = torch.ones(100, device=backend), torch.zeros(100, device=backend)
    trace = compile_kernel(SOURCE, "scale").trace[1, 128](x, out, 101, outputs=out)
    assert {(p.kind, p.line) for p in trace.problems} == {("out_of_bounds", line_of("out[i] = three()"))}
    assert any("x[100]" in p.message for p in trace.problems) and any("out[100]" in p.message for p in trace.problems)


def test_outputs_must_be_written_and_must_be_arguments(backend):
    x, out = torch.ones(100, device=backend), torch.zeros(100, device=backend)
    kernel = compile_kernel(SOURCE, "scale")
    assert [p.kind for p in kernel.trace[1, 128](x, out, 99, outputs=[out]).problems] == ["unwritten"]
    assert kernel.trace[1, 128](x, out, 99).problems == []
    assert kernel.trace[1, 128](x, out, 99, outputs=[x, out.view(10, 10)]).problems[0].kind == "unwritten"
    with pytest.raises(
        ValueError, match=r"outputs\[0\] \(shape \(3,\)\) is not one of the arguments \(const float\* x, float"
    ):
        kernel.trace[1, 128](x, out, 99, outputs=[torch.zeros(3, device=backend)])
    with pytest.raises(TypeError, match="outputs takes tensors"):
        kernel.trace[1, 128](x, out, 99, outputs=[1])


@pytest.mark.parametrize(("first", "sectors"), [(0, 4), (1, 5), (8, 4), (15, 5)])
def test_a_copy_lies_in_its_sectors_as_the_tensor_does(backend, first, sectors):
    """32 threads read 32 floats: 4 sectors of 32 bytes, or 5 where the first does not begin one."""
    x, out = torch.ones(64, device=backend)[first : first + 32], torch.zeros(32, device=backend)
    table = compile_kernel(SOURCE, "scale").trace[1, 32](x, out, 32).requests
    assert table[table.op == "load"].sectors.tolist() == [sectors]
    assert table[table.op == "store"].sectors.tolist() == [4]


def test_tensors_that_overlap_still_do_in_a_trace(backend):
    x = torch.arange(8.0, device=backend)
    kernel = compile_kernel(SOURCE, "scale")
    trace = kernel.trace[1, 8](x, x, 8, outputs=[x])
    assert trace.problems == [] and trace.args[0].tolist() == trace.args[1].tolist() == [0, 3, 6, 9, 12, 15, 18, 21]
    trace = kernel.trace[1, 2](x[:4], x[2:6], 2)  # writes x[2] and x[3]
    assert trace.args[0].tolist() == [0, 1, 0, 3] and trace.args[1].tolist() == [0, 3, 4, 5]
    assert x.tolist() == list(range(8))


def test_a_trace_takes_the_same_arguments_and_options(backend):
    kernel, x = compile_kernel(SOURCE, "scale"), torch.ones(8, device=backend)
    with pytest.raises(TypeError, match="takes 3 arguments"):
        kernel.trace[1, 8](x, x)
    with pytest.raises(ValueError, match="order is 'forward', 'reversed' or a seed .* but got 'backward'"):
        kernel.trace[1, 8](x, x, 8, order="backward")
    with pytest.raises(ValueError, match="max_problems must be a whole number, at least 1, but got 0"):
        kernel.trace[1, 8](x, x, 8, max_problems=0)
    for order in ("forward", "reversed", 0, 12345):
        assert kernel.trace[2, 8](x, x.clone(), 8, order=order).problems == []
    empty = torch.zeros(0, device=backend)
    assert kernel.trace[1, 1](empty, empty, 0).args[0].shape == (0,)
    assert kernel.trace[1, 1](None, None, 0).args == [None, None, 0]


def test_a_traced_template_with_options(backend):
    source = "template <int n> __global__ void k(int* out) { out[threadIdx.x] = N + n; }"
    out = torch.zeros(3, dtype=torch.int32, device=backend)
    trace = compile_kernel(source, "k<4>", options="-DN=5").trace[1, 4](out)
    assert trace.args[0].tolist() == [9, 9, 9] and [p.kind for p in trace.problems] == ["out_of_bounds"]
