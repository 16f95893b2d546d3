"""Records what reads cost on each level of the memory, with a GPU:  python -m bench.recorded.memory

The launches read with strides, copy with narrow and wide loads, and turn pictures grey. Writes memory.json: the GPU,
the versions, and for each launch, as Nsight Compute counted it with cold caches, its requests and sectors of global
memory, the sectors that L2 was asked for, and the bytes that came from the memory behind it (DRAM); and its time,
measured without Nsight Compute. Needs ncu (of the CUDA Toolkit), permission to read the GPU's counters, 3 GB of the
GPU's memory, no network, and about a minute.
"""

import csv
import ctypes
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

import kernels
from bench.recorded.ncu import machine, number, under_ncu
from utils.ground.system import write
from utils.lesson.simulator import cdiv

RECORDING = Path(__file__).with_suffix(".json")
METRICS = {  # by what memory.json calls them
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l2_load_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_store_sectors": "lts__t_sectors_srcunit_tex_op_write.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
}

SOURCE = r"""
__global__ void strided(const float* x, float* out, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    float v = x[size_t(i) * stride];
    out[i] = v;
}

template <class T>
__global__ void copy(const T* x, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // guard
    T v = x[i];
    out[i] = v;
}

// A warp makes the same requests as copy<float>, but each thread asks for four numbers before it stores the first.
__global__ void copy_four(const float* x, float* out, int n) {
    int i = blockIdx.x * 4 * blockDim.x + threadIdx.x, step = blockDim.x;
    if (i + 3 * step >= n) return;  // guard: n is a multiple of 4 * step
    float a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step];
    out[i] = a;
    out[i + step] = b;
    out[i + 2 * step] = c;
    out[i + 3 * step] = d;
}
"""


class Case(NamedTuple):
    """A launch: where `granularity` is not 0, it is the most bytes that L2 should fetch at once from DRAM."""

    source: str
    kernel: str
    launch: tuple
    arguments: Callable[[], list]
    granularity: int = 0


READS, BYTES, SIDE = 2**24, 2**28, 16384  # numbers read with a stride, bytes copied, pixels along a picture's edge


def _strided(stride, granularity=0):
    def arguments():
        return [torch.rand(stride * READS, device="cuda"), torch.empty(READS, device="cuda"), READS, stride]

    return Case(SOURCE, "strided", (READS // 256, 256), arguments, granularity)


def _copied(kernel, size, dtype=torch.float32, offset=0):
    """`size` bytes per thread, `offset` bytes behind a multiple of 512."""

    def arguments():
        x = torch.randint(256, (BYTES + offset,), dtype=torch.uint8, device="cuda")[offset:].view(dtype)
        return [x, torch.empty_like(x), BYTES // (4 if kernel == "copy_four" else size)]

    return Case(SOURCE, kernel, (BYTES // size // 256, 256), arguments)


def _grey(kernel, blocks, threads, *sizes, shape=(3, SIDE, SIDE)):
    def arguments():
        x = torch.randint(256, shape, dtype=torch.uint8, device="cuda")
        return [x, torch.empty(SIDE, SIDE, dtype=torch.uint8, device="cuda"), *sizes]

    return Case(kernels.source("grayscale"), f"rgb_to_grayscale_{kernel}", (blocks, threads), arguments)


_PIXELS, _TILES = SIDE * SIDE, cdiv(SIDE, 16)
CASES = {
    **{f"stride {stride}": _strided(stride) for stride in (1, 2, 4, 8, 16, 17, 32)},
    **{f"stride 32, fetching {most}": _strided(32, most) for most in (32, 64, 128)},
    "copy unsigned char": _copied("copy<unsigned char>", 1, torch.uint8),
    "copy float": _copied("copy<float>", 4),
    "copy float, offset 1": _copied("copy<float>", 4, offset=4),
    "copy four floats": _copied("copy_four", 16),
    "copy float4": _copied("copy<float4>", 16),
    "planes": _grey("kernel", cdiv(_PIXELS, 256), 256, _PIXELS),
    "planes, 16 x 16": _grey("2d_kernel", (_TILES, _TILES), (16, 16), SIDE, SIDE),
    "pixels": _grey("hwc_kernel", cdiv(_PIXELS, 256), 256, _PIXELS, shape=(SIDE, SIDE, 3)),
    "planes, 16 bytes": _grey("vector_kernel<uint4>", cdiv(_PIXELS, 16 * 256), 256, _PIXELS),
}
_LAUNCHED = "strided|copy|copy_four|rgb_to_grayscale_.*kernel"  # torch's own kernels have other names


# ---- on the GPU -----------------------------------------------------------------------------------------------------


def granularity(most=0) -> int:
    """How many bytes L2 fetches at once from DRAM at most, a hint to the driver; set to `most` unless that is 0."""
    limit, driver, found = 5, ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()  # CU_LIMIT_MAX_L2_FETCH_GRANULARITY
    failed = driver.cuCtxSetLimit(limit, ctypes.c_size_t(most)) if most else 0
    failed = failed or driver.cuCtxGetLimit(ctypes.byref(found), limit)
    if failed:
        raise RuntimeError(f"the driver refuses a granularity of {most}: error {failed}")
    return found.value


def launch(run):
    """`run(launch, arguments)` for each case in turn."""
    from utils import compile_kernel

    torch.cuda.init()
    torch.empty(1, device="cuda")  # makes the context, which has the limit
    usual = granularity()
    for case in CASES.values():
        arguments = case.arguments()
        torch.cuda.synchronize()
        granularity(case.granularity or usual)
        yield run(compile_kernel(case.source, case.kernel)[case.launch], arguments)
        torch.cuda.synchronize()
    granularity(usual)


def counted(text) -> list[dict]:
    """For each launch, in their order, what METRICS names, from ncu's wide CSV ('raw' page)."""
    units, *rows = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    if units["ID"].strip() or {units[METRICS[name]] for name in METRICS if name.startswith("dram")} != {"byte"}:
        raise RuntimeError(f"ncu's units are not the expected ones: {units}")
    return [{name: round(number(row[metric])) for name, metric in METRICS.items()} for row in rows]


def record() -> dict:
    """What memory.json holds."""
    from utils.lesson.timing import measure

    seconds = list(launch(lambda kernel, arguments: measure(kernel, *arguments).seconds))
    usual = granularity()
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "bench.recorded.memory", "--launch"]
        chosen = ["--page", "raw", "--kernel-name", f"regex:^({_LAUNCHED})$", "--metrics", ",".join(METRICS.values())]
        rows = counted(under_ncu(program, *chosen, folder=folder))
    if len(rows) != len(CASES):
        raise RuntimeError(f"ncu saw {len(rows)} launches, not {len(CASES)}")
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "granularity": usual}
    entries = [row | {"seconds": took} for row, took in zip(rows, seconds, strict=True)]
    return machine() | versions | {"launches": dict(zip(CASES, entries, strict=True))}


if __name__ == "__main__":
    if "--launch" in sys.argv:
        list(launch(lambda kernel, arguments: kernel(*arguments)))
    else:
        write(RECORDING, json.dumps(record(), indent=1) + "\n")
        print(f"wrote {RECORDING.name}")
