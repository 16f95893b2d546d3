"""How fast CUDA on the CPU is, beside Numba's CUDA simulator, the lessons' Python and plain C:  python -m bench.engine

Prints a table and exits with status 1 if a target is missed. Everything is measured in this one run.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import kernels
from bench.targets import Row, print_table
from utils import compile_kernel, tensor_map
from utils.ground.progress import waiting
from utils.ground.system import cxx_compiler
from utils.lesson.simulator import blk_kernel, cdiv
from utils.lesson.timing import Timing, format_seconds, measure

HERE = Path(__file__).parent

TENSOR_KERNELS = ["matmul_wmma", "matmul_mma", "matmul_wgmma"]
# The targets: "faster than" is a minimum factor, all others are upper limits. Times in seconds, memory in bytes.
TARGETS = {
    "faster than Numba": 5_000,
    "faster than Python": 1_000,
    "tiled": 1.0,
    "cold": 0.45,
    "cooperative": 2.5,
    "warm": 0.020,
    "trace": 1.0,
    "tensor cores": 1.5,
    "traced tile": 5.0,
    "memory": 10**6,
}


def at_most(name, timing, target) -> Row:
    """The row of a time with a target, a key of TARGETS."""
    limit = TARGETS[target]
    verdict = "met" if timing.seconds <= limit else "missed"
    return Row(name, str(timing), f"at most {format_seconds(limit)}", verdict)


def times_faster(name, engine, peer, target) -> Row:
    """The row that compares two `Timing`s: by their best and, in brackets, by the quartiles that are farthest apart."""
    (engine_low, engine_high), (peer_low, peer_high) = engine.spread, peer.spread
    measured = f"{peer.seconds / engine.seconds:,.0f} times (quartiles {peer_low / engine_high:,.0f} "
    measured += f"and {peer_high / engine_low:,.0f})"
    verdict = "met" if peer.seconds / engine.seconds >= TARGETS[target] else "missed"
    return Row(name, measured, f"at least {TARGETS[target]:,} times", verdict)


# ---------------------------------------------------------------- grayscale


def rgb2grey_bk(blockidx, threadidx, blockdim, x, out, n):
    """Lesson 02's kernel in Python."""
    i = blockidx * blockdim + threadidx
    if i < n:  # guard
        out[i] = 0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140 * x[i + 2 * n]


def random_image(height, width):
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def per_pixel(timing, size) -> Timing:
    """The time per pixel for a picture of this size."""
    return Timing(tuple(sample / (size[0] * size[1]) for sample in timing.samples))


def numba_run(height, width) -> dict:
    """What bench/numba_simulator.py prints, run in a new process."""
    command = [sys.executable, "-m", "bench.numba_simulator", str(height), str(width)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, cwd=HERE.parent, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def grayscale(size=(1066, 1600), peers_size=(150, 225)) -> list[Row]:
    """Times per pixel for the engine and the two simulators, which get a smaller picture because they are slow."""
    small, big, of = random_image(*peers_size), random_image(*size), "grayscale, per pixel: "
    to_grayscale = kernels.load("grayscale").rgb_to_grayscale
    n, threads = small[0].numel(), 256
    out = torch.zeros(n, dtype=torch.uint8)
    python = per_pixel(measure(blk_kernel, rgb2grey_bk, cdiv(n, threads), threads, small.flatten(), out, n), peers_size)
    torch.testing.assert_close(to_grayscale(small).flatten(), out, rtol=0, atol=1)  # they may round differently
    engine = per_pixel(measure(to_grayscale, big), size)
    numba = numba_run(*peers_size)

    rows = [Row(f"{of}the engine, {size[0]} x {size[1]}", str(engine))]
    rows.append(Row(f"{of}plain Python, {peers_size[0]} x {peers_size[1]}", str(python)))
    name = f"{of}Numba's simulator, {peers_size[0]} x {peers_size[1]}"
    if "lacking" in numba:
        reason = f"not run, Numba cannot be imported: {numba['lacking']}"
        rows.append(Row(name, reason, f"{TARGETS['faster than Numba']:,} times slower", "skipped"))
    else:
        peer = per_pixel(Timing((numba["seconds"],)), peers_size)
        rows.append(Row(name, str(peer)))
        rows.append(times_faster("the engine beside Numba's simulator", engine, peer, "faster than Numba"))
    return [*rows, times_faster("the engine beside plain Python", engine, python, "faster than Python")]


# ---------------------------------------------------------------- matmul


def matrices(size):
    """Two random float32 matrices and a third, of NaN, for their product."""
    random = torch.Generator().manual_seed(0)
    m, n = (torch.randn(size, size, generator=random) for _ in range(2))
    return m, n, torch.full((size, size), float("nan"))


def tiled():
    return compile_kernel(kernels.source("matmul_tiled"), "matmul_tiled_kernel")


def naive():
    return compile_kernel(kernels.source("matmul"), "matmul_kernel")


def plain_c(folder):
    """The function of matmul.c, compiled into `folder`: it takes three addresses and three sizes."""
    library = Path(folder) / "matmul.so"
    command = [cxx_compiler(), "-x", "c", "-O3", "-fno-math-errno", "-shared", "-fPIC", HERE / "matmul.c"]
    subprocess.run([*command, "-o", library], check=True)
    function = ctypes.CDLL(str(library)).matmul
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] * 3, None
    return function


def matmul(size=512) -> list[Row]:
    """Products of square matrices by the naive kernel, the tiled one, and the naive one's loops in C."""
    m, n, out = matrices(size)
    reference = m.double() @ n.double()

    def timed(f, *args):
        out.fill_(float("nan"))
        f(*args)
        torch.testing.assert_close(out.double(), reference, rtol=1e-4, atol=1e-4)
        return measure(f, *args, repeat=5)

    launch, args = (cdiv(size, 16),) * 2, (m, n, out, size, size, size)
    of = f"matmul of {size} x {size} x {size}: "
    rows = [Row(f"{of}naive kernel", str(timed(naive()[launch, (16, 16)], *args)))]
    rows.append(at_most(f"{of}tiled kernel, with barriers", timed(tiled()[launch, (16, 16)], *args), "tiled"))
    with tempfile.TemporaryDirectory() as folder:
        addresses = [tensor.data_ptr() for tensor in (m, n, out)]
        c = timed(plain_c(folder), *addresses, size, size, size)
    return [*rows, Row(f"{of}the same loops in C, one thread", str(c))]


# ---------------------------------------------------------------- compile_kernel


COMPILE = """
import sys, time
from utils import compile_kernel, tensor_map
source, name = sys.stdin.read(), sys.argv[1]
start = time.perf_counter()
compile_kernel(source, name)
print(time.perf_counter() - start)
"""


def compile_seconds(source, name, cache) -> float:
    """How long one call of compile_kernel takes in a new process that keeps its builds in the folder `cache`.

    Python keeps our modules compiled, as it does for a learner, even if that is switched off here.
    """
    environment = {**os.environ, "CUDA_COURSE_CACHE": str(cache), "COURSE_HEADLESS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", COMPILE, name]
    done = subprocess.run(
        command, cwd=HERE.parent, env=environment, input=source, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)


def compiling(repeat=3) -> list[Row]:
    """compile_kernel in new processes: with no runtime library yet, cold (a source never built before), and warm.

    Cold includes nvcc's verdict, for a kernel alone and for one with cooperative groups, whose headers take longer.
    """
    first, source = kernels.source("square"), kernels.source("matmul")
    groups = (HERE / "cooperative_sum.cu").read_text()
    with tempfile.TemporaryDirectory() as cache:
        runtime = Timing((compile_seconds(first, "square_kernel", cache),))
        cold, warm, cooperative = [], [], []
        for number in range(repeat):
            new = f"{source}// {number}\n"
            cold.append(compile_seconds(new, "matmul_kernel", cache))
            warm.append(compile_seconds(new, "matmul_kernel", cache))
            cooperative.append(compile_seconds(f"{groups}// {number}\n", "cooperative_sum", cache))
    return [
        Row("compile_kernel: the first on a machine, with the engine's own library", str(runtime)),
        at_most("compile_kernel: cold, in a new process", Timing(tuple(cold)), "cold"),
        at_most("compile_kernel: warm, in a new process", Timing(tuple(warm)), "warm"),
        at_most("compile_kernel: cold, with cooperative groups", Timing(tuple(cooperative)), "cooperative"),
    ]


# ---------------------------------------------------------------- traces and launches


def tracing(size=128) -> list[Row]:
    """A trace of the naive kernel; `size` is a multiple of 16, so that all 32 threads take part in each request."""
    m, n, out = matrices(size)
    trace = naive().trace[(size // 16,) * 2, (16, 16)]
    found = trace(m, n, out, size, size, size, outputs=out)
    found.raise_if_problems()
    accesses = 32 * int(found.requests["requests"].sum())
    timing = measure(trace, m, n, out, size, size, size, repeat=5, outputs=out)
    of = f"trace of the naive matmul, {size} x {size} x {size}: "
    return [
        at_most(f"{of}time", timing, "trace"),
        Row(f"{of}speed", f"{accesses / timing.seconds / 1e6:.1f} million accesses per second, of {accesses:,}"),
    ]


def tensor_kernel(name):
    """One of TENSOR_KERNELS, compiled."""
    if name == "matmul_wgmma":
        return compile_kernel((HERE / "hopper.cuh").read_text() + (HERE / "hopper.cu").read_text(), name)
    return compile_kernel((HERE / "tensor_cores.cu").read_text(), name)


def tensor_launch(name, kernel, a, b, c):
    """How to launch such a kernel, or its trace, and the arguments, of which the third is `c`."""
    (n, depth), (m, _) = b.T.shape, a.shape
    if name == "matmul_wgmma":
        maps = (tensor_map(x, (64, 64), "128B") for x in (a, b))
        return kernel[(cdiv(n, 128), cdiv(m, 128)), 256, 4 * 32768], (*maps, c, m, n, depth)
    return kernel[(n // 64, m // 64), 128], (a, b, c, n, depth)


def tensor_cores(size=512, traced=(128, 64)) -> list[Row]:
    """Products of bfloat16 matrices by the kernels of tensor_cores.cu and hopper.cu, and traces of smaller ones."""
    random, rows = torch.Generator().manual_seed(0), []

    def checked(name, kernel, n, depth, timed):
        a, b = (torch.randn(*shape, generator=random).bfloat16() for shape in ((n, depth), (depth, n)))
        c = torch.full((n, n), float("nan"))
        run, args = tensor_launch(name, kernel, a, b, c)
        found = run(*args)
        c = c if found is None else found.args[2]  # a trace leaves its arguments as they were
        torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-4)
        return measure(run, *args, repeat=timed)

    for name in TENSOR_KERNELS:
        kernel = tensor_kernel(name)
        of = f"{name}, bfloat16 by tensor cores, "
        timing = checked(name, kernel, size, size, 5)
        rows.append(at_most(f"{of}{size} x {size} x {size}", timing, "tensor cores"))
        timing = checked(name, kernel.trace, *traced, 3)
        rows.append(at_most(f"{of}a trace of {traced[0]} x {traced[0]} x {traced[1]}", timing, "traced tile"))
    return rows


def memory() -> int:
    """This process's resident memory in bytes (VmRSS). Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def launches(count=10_000, warm_up=1000, size=32) -> list[Row]:
    """Many launches of the tiled kernel, whose barriers need a stack for every thread of a block."""
    m, n, out = matrices(size)
    launch, args = tiled()[(cdiv(size, 16),) * 2, (16, 16)], (m, n, out, size, size, size)

    def tenth():
        for _ in range(count // 10):
            launch(*args)

    for _ in range(warm_up):
        launch(*args)
    before = memory()
    tenths = measure(tenth, repeat=9)  # and one more, to warm up
    growth = memory() - before
    verdict = "met" if growth < TARGETS["memory"] else "missed"
    target = f"less than {TARGETS['memory'] / 1e6:g} MB"
    one = Timing(tuple(sample / (count // 10) for sample in tenths.samples))
    return [
        Row(f"{count:,} launches of {cdiv(size, 16) ** 2} blocks: one launch", str(one)),
        Row(f"{count:,} launches: growth of memory", f"{growth / 1e6:.3f} MB", target, verdict),
    ]


# ---------------------------------------------------------------- all of it


SECTIONS = [grayscale, matmul, tensor_cores, compiling, tracing, launches]


def main() -> int:
    """Run all sections and print the table; 1 if a target is missed, otherwise 0."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # this is about the CPU, even where there is a GPU
    rows, load = [], os.getloadavg()[0]
    for number, section in enumerate(SECTIONS, 1):
        with waiting(f"{number} of {len(SECTIONS)}: {section.__name__}"):
            rows += section()
    return print_table(rows, load)


if __name__ == "__main__":
    sys.exit(main())
