"""Which tile sizes are best for matmul_fast and matmul_narrow in kernels/ on this GPU:  python -m bench.search

Compiles and times those choices of the template's sizes that a block has room for, beside PyTorch's `@` in the same
run, and prints the best for each size of product. The launchers use what is best on an H200. Every product is compared
with one in float64 before its time counts. Takes many minutes and needs a GPU.
"""

import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

import kernels
from bench.measuring import row
from bench.operations import product
from utils.cuda.kernel import compile_kernel
from utils.ground.progress import progress
from utils.lesson.simulator import cdiv

SHARED = 48 * 1024  # bytes of static shared memory that a block may have
REGISTERS = 65536  # per SM
AHEAD = 16 * 1024  # minimum bytes that a block copies ahead: fewer do not keep the memory busy
SHOWN = 8  # how many of the best
PRODUCTS = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 512)]
NARROW = [(50_000, 784, 10), (1_000_000, 256, 4), (100_000, 1024, 16)]


def tiles():
    """Every (BH, BW, BK, TH, TW, STAGES) of matmul_pipelined_kernel that is consistent and fits into a block."""
    sides, parts = (64, 128, 256), ((4, 8), (8, 8), (8, 16), (16, 8))
    for bh, bw, bk, (th, tw), stages in itertools.product(sides, sides, (8, 16), parts, (2, 3, 4)):
        threads = bh // th * (bw // tw)
        whole_warps = bh % (8 * th) == 0 and bw % (4 * tw) == 0
        m_rows, n_rows = threads // bk, 4 * threads // bw
        whole_copies = threads % bk == 0 and bh % m_rows == 0 and 4 * threads % bw == 0 and bk % n_rows == 0
        if whole_warps and whole_copies and 64 <= threads <= 512 and 4 * stages * bk * (bh + 4 + bw) <= SHARED:
            yield bh, bw, bk, th, tw, stages


def pipelined(sizes):
    """The kernel with these sizes, and its launch for a product of h x w, with w a multiple of 4."""
    bh, bw, _, th, tw, _ = sizes
    name = f"matmul_pipelined_kernel<{', '.join(map(str, sizes))}, true>"
    return compile_kernel(kernels.source("matmul_fast"), name), lambda h, w: (
        cdiv(h, bh) * cdiv(w, bw),
        bh // th * (bw // tw),
    )


def queues(w):
    """Every (WIDTH, ROWS, STAGES, THREADS, STEPS, SPAN) of matmul_narrow_kernel that an SM has room for, and whose
    blocks have enough of m in flight."""
    room = torch.cuda.get_device_properties("cuda").shared_memory_per_block_optin
    for rows, stages, threads, span, steps in itertools.product(
        (2, 3, 4, 6), (2, 3), (128, 256, 384, 512), (32, 64, 128), (384, 896)
    ):
        sizes = w, rows, stages, threads, cdiv(steps, span * stages) * span * stages, span
        registers, ahead = threads * (rows * (w + 4) + 32), threads // 32 * (stages - 1) * 4 * rows * span * 4
        if narrow_bytes(*sizes) <= room and registers <= REGISTERS and ahead >= AHEAD:
            yield sizes


def narrow_bytes(width, rows, stages, threads, steps, span):
    """Bytes of shared memory that matmul_narrow_kernel needs."""
    return threads // 32 * stages * 4 * rows * span * 4 + steps // 4 * (width | 1) * 16


def narrow(sizes):
    """The kernel with these sizes, and its launch for a k that is a multiple of 4."""
    _, rows, _, threads, *_ = sizes
    name = f"matmul_narrow_kernel<{', '.join(map(str, sizes))}, true>"
    return compile_kernel(kernels.source("matmul_narrow"), name), lambda h, w: (
        cdiv(h, threads // 8 * rows),
        threads,
        narrow_bytes(*sizes),
    )


def build(made, sizes):
    made(sizes)  # the build stays in the cache


def best(chosen, made, h, k, w):
    """Seconds for each choice for a product of (h, k) by (k, w), the fastest first, and those for `@`."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as others:
        for built in progress([others.submit(build, made, sizes) for sizes in chosen], "compiling"):
            built.result()

    def seconds(name, run):
        return row(product(name, run, h, k, w))["seconds"]

    def of(sizes):
        kernel, launch = made(sizes)

        def run(m, n):
            out = torch.empty(h, w, device="cuda")
            kernel[launch(h, w)](m, n, out, h, w, k)
            return out

        return seconds(str(sizes), run)

    found = {sizes: of(sizes) for sizes in progress(chosen, f"{h} x {k} @ {k} x {w}")}
    return dict(sorted(found.items(), key=lambda item: item[1])), seconds("@", torch.matmul)


def main() -> int:
    if not torch.cuda.is_available():
        print("There is no GPU here, and what is best on a CPU says nothing about one.", file=sys.stderr)
        return 1
    torch.backends.cuda.matmul.allow_tf32 = False
    for h, k, w in PRODUCTS + NARROW:
        found, peer = best(list(tiles() if w > 16 else queues(w)), pipelined if w > 16 else narrow, h, k, w)
        rate, unit = (2 * h * w * k / 1e12, "TFLOP/s") if w > 16 else (4 * h * k / 1e9, "GB/s of m")
        print(f"{h} x {k} @ {k} x {w}: {torch.cuda.get_device_name()}, `@` {rate / peer:,.1f} {unit}")
        for sizes, seconds in itertools.islice(found.items(), SHOWN):
            print(f"    {rate / seconds:8,.1f} {unit}  {peer / seconds:5.2f} of `@`  {sizes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
