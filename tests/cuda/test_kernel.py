"""compile_kernel: what it launches, what it refuses and in which words, what it keeps, what a trace is given."""

import copy
import ctypes
import os
import pickle
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import kernels
from tests.cuda.sources import GRID_SYNC, HALVES, SOURCE, X, line_of
from utils import compile_kernel
from utils.lesson.simulator import cdiv, dim3

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


def test_half_precision(backend):
    h, b = torch.zeros(2, dtype=torch.float16, device=backend), torch.zeros(2, dtype=torch.bfloat16, device=backend)
    kernel = compile_kernel(HALVES, "halves")
    kernel[1, 1](h, b, 0.1, 3.14159)
    assert h.tolist() == torch.tensor([0.1, 0], dtype=torch.float16).tolist()
    assert b.tolist() == torch.tensor([3.14159, 0], dtype=torch.bfloat16).tolist()
    with pytest.raises(TypeError, match=r"argument 1 .* h\) takes a tensor of float16, but this one is bfloat16"):
        kernel[1, 1](b, b, 0, 0)
    with pytest.raises(ValueError, match="cannot hold 70000: it is too large"):
        kernel[1, 1](h, b, 70_000, 0)


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


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X, X), TypeError, r"scale takes 3 arguments \(const float\* x, float\* out, int n\), but got 2"),
        ((X, X, 8, 9), TypeError, "takes 3 arguments .*, but got 4"),
        ((X.double(), X, 8), TypeError, r"argument 1 .* a tensor of float32, but .* float64: x.to\(torch.float32\)"),
        ((X, [1.0], 8), TypeError, r"argument 2 of scale \(float\* out\) takes a tensor, but got list \[1.0\]"),
        (
            (X, list(range(99)), 8),
            TypeError,
            r"but got list \[0, 1, .*, \.\.\.: torch.tensor\(\.\.\., dtype=torch.float32\) turns a list into one",
        ),
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
        ((X, X, torch.tensor(8)), TypeError, r"takes a number, but got a tensor of shape \(\): pass n.item\(\)"),
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


def test_tensors_without_memory_are_refused():
    kernel = compile_kernel(SOURCE, "scale")
    nested = torch.nested.nested_tensor([torch.ones(8)])
    for x, kind in ((torch.ones(8, device="meta"), "a meta tensor"), (nested, "a nested tensor")):
        with pytest.raises(TypeError, match=rf"argument 1 of scale \(const float\* x\) is {kind}, which has no memory"):
            kernel.trace[1, 8](x, torch.ones(8), 8)
    inside = "argument 1 .* is a tensor within torch.vmap or torch.func"
    with pytest.raises(TypeError, match=inside):
        torch.vmap(lambda x: kernel.trace[1, 8](x, torch.ones(8), 8))(torch.ones(2, 8))


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
        ((1, 1025), ValueError, "a block has at most 1,024 threads, but threads=1025"),
        ((1, (64, 32)), ValueError, r"at most 1024 threads, but threads=\(64, 32, 1\) makes 2048"),
        ((1, (1, 1, 65)), ValueError, "at most 64 threads in z"),
        (((1, 65536), 1), ValueError, "at most 65,535 blocks in y"),
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


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_kernel_that_is_pickled_or_copied(backend, copied):
    with pytest.raises(TypeError, match="the kernel scale can be neither pickled nor copied: call compile_kernel"):
        copied(compile_kernel(SOURCE, "scale"))


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
        threading.Event().wait(60)
    timer.join()
    x[0] = 1
    kernel[1, 1](x)


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
    with pytest.raises(TypeError, match="outputs takes tensors that are among the arguments, but got 5"):
        kernel.trace[1, 128](x, out, 99, outputs=5)
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
    with pytest.raises(ValueError, match="blocks takes a list of blocks, each a number or .* but got 'a'"):
        kernel.trace[1, 8](x, x.clone(), 8).play("a")
    for order in ("forward", "reversed", 0, 12345, np.int64(3)):
        assert kernel.trace[2, 8](x, x.clone(), 8, order=order).problems == []
    empty = torch.zeros(0, device=backend)
    assert kernel.trace[1, 1](empty, empty, 0).args[0].shape == (0,)
    assert kernel.trace[1, 1](None, None, 0).args == [None, None, 0]


def test_a_traced_template_with_options(backend):
    source = "template <int n> __global__ void k(int* out) { out[threadIdx.x] = N + n; }"
    out = torch.zeros(3, dtype=torch.int32, device=backend)
    trace = compile_kernel(source, "k<4>", options="-DN=5").trace[1, 4](out)
    assert trace.args[0].tolist() == [9, 9, 9] and [p.kind for p in trace.problems] == ["out_of_bounds"]
