"""Times the course's operations beside their peers, and fills the tables of README and lessons with what it found.

    python -m bench.measuring                    measure everything on this machine
    python -m bench.measuring --only matmul      measure that table alone
    python -m bench.measuring --only transpose   show how that operation of kernels/ and its peers do; write nothing
    python -m bench.measuring --fill h200.json   fill the tables from a file that was measured before

Every result is checked before its time is taken, and again afterwards, on inputs that were not seen before. On a GPU
the figures go to bench/, to a file named after the device. Without one the CPU engine is timed: its tables are printed,
and kept nowhere.
"""

import argparse
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import NamedTuple

import torch

import kernels
from utils.cuda.common.diagnostics import CompileError
from utils.cuda.common.toolchain import ToolchainError, cuda_home, device, nvcc_release, short_path
from utils.ground.progress import progress
from utils.ground.system import write
from utils.lesson.timing import Timing, format_seconds, measure

__all__ = ["GROUPS", "Refused", "WrongResult", "fill", "measured", "recorded", "table"]

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bench" / "recorded"
SAMPLES, LAUNCHES, REPLAYED = 30, 4, 20  # a sample is the mean of 4 launches from Python, or of 20 in a CUDA graph
LONG, BUDGET = 10e-3, 2.0  # seconds: from LONG on a launch is a sample; an operation's samples take about BUDGET
SHORT = 200e-6  # seconds: what takes less is launched by a CUDA graph, as a launch from Python would show in its time
ROWS = 2048  # that are checked at once: the reference takes eight bytes an element
LARGE = 2**28  # floats in an array that is read at the full speed of the memory


class WrongResult(AssertionError):
    """An operation computes something else than its reference: then no time is taken."""


class Refused(RuntimeError):
    """What stands in the way of measuring or filling, in a line that says what to do."""


class Operation(NamedTuple):
    """One line of a table."""

    name: str
    run: Callable  # of the inputs
    inputs: Callable  # gives fresh random ones, a tuple
    right: Callable  # of a slice and the inputs: what must stand in these rows of the result, and how far it may be off
    bytes: int  # read and written, at least
    flops: int = 0
    of: str = ""  # the operation of kernels/ whose line it is; a peer of all has none


class Group(NamedTuple):
    """One table."""

    operations: Callable  # yields those of a size; the first is what the others are compared with
    sizes: Callable  # gives those that are measured on this device
    heading: str  # with {0} for the size
    counts: str  # 'bytes' or 'flops': what the rate is of
    against: dict  # the columns that compare: name, and how the row begins that all are divided by; "" is the first


# ---- what is measured -----------------------------------------------------------------------------------------------


def floats(*shapes):
    return lambda: tuple(torch.randn(shape, device=device()) for shape in shapes)


def levels(*shape):
    return lambda: (torch.randint(0, 256, shape, dtype=torch.uint8, device=device()),)


def kernel(name, function, *more):
    """What runs a function of kernels/, which is built at the first call; `more` follows the inputs."""
    built = cache(lambda: getattr(kernels.load(name), function))
    return lambda *inputs: built()(*inputs, *more)


def tritons(name, title="Triton") -> list[tuple]:
    """An operation's line in Triton, of bench/triton_kernels.py; none without a GPU or without Triton."""
    if device().type == "cpu" or not find_spec("triton"):
        return []
    from bench import triton_kernels

    return [(name, title, getattr(triton_kernels, name))]


def bandwidth(side):
    """Copying, squaring, grayscale and transposing of squares: all they do is to move memory."""
    from torchvision.transforms.v2.functional import rgb_to_grayscale

    square, planes = floats((side, side)), levels(3, side, side)
    target = cache(lambda: torch.empty(side, side, device=device()))
    kinds = {  # inputs, what is right, and bytes an element
        "copy": (square, same, 8),
        "square": (square, squares, 8),
        "grayscale": (planes, grey_levels, 4),
        "transpose": (square, flipped, 8),
    }
    for name, title, run, *others in (
        ("copy", "PyTorch, `out.copy_(x)`", lambda x: target().copy_(x)),
        ("copy", "4 bytes a thread", kernel("copy", "copy")),
        ("copy", "16 bytes a thread", kernel("copy", "copy_vector")),
        *tritons("copy"),
        ("square", "PyTorch, `torch.square(x)`", torch.square),
        ("square", "4 bytes a thread", kernel("square", "square")),
        *tritons("square"),
        ("grayscale", "torchvision", lambda x: rgb_to_grayscale(x)[0]),
        ("grayscale", "1 byte a thread", kernel("grayscale", "rgb_to_grayscale")),
        ("grayscale", "1 byte a thread, blocks of 16 x 16", kernel("grayscale", "rgb_to_grayscale_2d")),
        (
            "grayscale",
            "1 byte a thread, `(h, w, 3)`",
            kernel("grayscale", "rgb_to_grayscale_hwc"),
            levels(side, side, 3),
        ),
        ("grayscale", "16 bytes a thread", kernel("grayscale", "rgb_to_grayscale_vector")),
        *tritons("grayscale"),
        ("transpose", "PyTorch, `x.t().contiguous()`", lambda x: x.t().contiguous()),
        *(("transpose", way, kernel("transpose", f"transpose_{way}")) for way in TRANSPOSES),
        *tritons("transpose"),
    ):
        inputs, right, size = kinds[name]
        yield Operation(f"{name}: {title}", run, *(others or [inputs]), right, size * side * side, of=name)


TRANSPOSES = ("naive", "tiled", "padded", "swizzled", "fast")
LADDER = [  # what each rung brings, its operation and function, and the width of its tiles where it takes one
    ("uncoalesced: a warp takes a column", "matmul", "matmul_uncoalesced"),
    ("coalesced: a thread an element", "matmul", "matmul"),
    ("tiles in shared memory, 16 wide", "matmul_tiled", "matmul_tiled"),
    ("tiles as wide as the launch says, 16", "matmul_tiled", "matmul_dynamic", 16),
    ("tiles as wide as the compiler knows, 8", "matmul_tiled", "matmul_template", 8),
    ("tiles as wide as the compiler knows, 16", "matmul_tiled", "matmul_template", 16),
    ("tiles as wide as the compiler knows, 32", "matmul_tiled", "matmul_template", 32),
    ("8 elements of a column a thread", "matmul_registers", "matmul_column"),
    ("8 x 8 elements a thread", "matmul_registers", "matmul_square"),
    ("16 bytes a load", "matmul_registers", "matmul_vector"),
    ("no bank conflicts", "matmul_registers", "matmul_banks"),
    ("64 x 32 elements a warp", "matmul_registers", "matmul_warp"),
    ("the next tiles on their way meanwhile", "matmul_fast", "matmul_fast"),
]


def matmul(side):
    """Products of square float32 matrices, from the naive kernel to the fastest, beside PyTorch's and Triton's."""
    yield product("PyTorch, `m @ n`", torch.matmul, side, side, side)
    for title, name, function, *tile in LADDER:
        yield product(f"{title}, `{function}`", kernel(name, function, *tile), side, side, side, name)
    for _, title, run in tritons("matmul", "Triton, `tl.dot`"):
        yield product(title, run, side, side, side)


def narrow(h, k=784, w=10):
    """A product of few columns, as of digits and weights: the time goes into reading m (h, k)."""
    yield Operation("reading m alone: PyTorch, `m.sum()`", torch.sum, floats((h, k)), total, 4 * h * k)
    if device().type == "cuda" and room() > 6 * 4 * LARGE:
        yield Operation(f"reading {LARGE:,} floats: PyTorch, `x.sum()`", torch.sum, floats((LARGE,)), total, 4 * LARGE)
    yield product("PyTorch, `m @ n`", torch.matmul, h, k, w)
    for title, name in (
        ("coalesced: a thread an element", "matmul"),
        ("made for large products", "matmul_fast"),
        ("made for few columns", "matmul_narrow"),
    ):
        yield product(f"{title}, `{name}`", kernel(name, name), h, k, w, name)


def product(name, run, h, k, w, of="") -> Operation:
    """An Operation that multiplies float32 m (h, k) and n (k, w)."""
    return Operation(name, run, floats((h, k), (k, w)), products, 4 * (h * k + k * w + h * w), 2 * h * k * w, of)


def room() -> int:
    """Bytes of the GPU's memory."""
    return torch.cuda.get_device_properties(device()).total_memory


def sides(wanted, on_a_cpu) -> list[int]:
    """The sides of squares that the GPU has room for: 64 bytes an element hold all that is made of them. Where it has
    too little for any, the smallest is tried."""
    if device().type == "cpu":
        return [on_a_cpu]
    return [side for side in wanted if 64 * side * side < room()] or wanted[:1]


GROUPS = {
    "bandwidth": Group(
        bandwidth, lambda: sides([4096, 8192, 16384], 2048)[-1:], "{0} x {0}", "bytes", {"of the copy": ""}
    ),
    "matmul": Group(matmul, lambda: sides([4096, 8192], 256), "{0} x {0} @ {0} x {0}", "flops", {"of `@`": ""}),
    "narrow": Group(
        narrow, lambda: [50_000], "{0} x 784 @ 784 x 10", "bytes", {"of `m.sum()`": "", "of `@`": "PyTorch"}
    ),
}


# ---- what is right --------------------------------------------------------------------------------------------------


def same(rows, x):
    return x[rows], 0.0


def flipped(rows, x):
    return x[:, rows].t(), 0.0


def squares(rows, x):
    exact = x[rows].double().square()
    return exact, 1e-7 * exact  # half a unit in the last place of a float32 is 6e-8 of it


def grey_levels(rows, x):
    """Lesson 01's sum, for either layout, cut to a whole level: up to 1 below what float64 says. torchvision and the
    kernels sum in float32, whose roundings come to less than 1e-4 of a level."""
    red, green, blue = (x[rows][..., i] if x.shape[-1] == 3 else x[i, rows] for i in range(3))
    exact = 0.2989 * red.double() + 0.5870 * green.double() + 0.1140 * blue.double()
    return exact - 0.5, 0.5 + 1e-4


def total(rows, x):
    """In float64. x is random about 0, so that the sum stays small, and a single element that is left out shows. In a
    float32 sum by parts, 256 roundings may follow each other, by up to 2^-24 each: by chance they come to 16 times
    that of the norm of x. Four times as much is allowed."""
    return x.sum(dtype=torch.float64)[None][rows], 4 * 16 * 2.0**-24 * x.norm()


def products(rows, m, n):
    """In float64. Roundings of a float32 sum go up and down by chance, so the error grows with the root of the sum of
    squares, and with that of the number of steps. TF32, which keeps 10 bits of the 23, is beyond the bound."""
    bound = 1e-6 * (m.shape[1] + 1) ** 0.5 * (m[rows].square() @ n.square()).sqrt() + 1e-12
    return m[rows].double() @ n.double(), bound


# ---- measuring ------------------------------------------------------------------------------------------------------


def check(operation, inputs) -> None:
    """Compare with its reference what an operation makes of inputs. Raises WrongResult."""
    kept = copies(inputs)
    compare(operation, lambda: (inputs, kept, operation.run(*inputs)))


def copies(inputs) -> tuple:
    return tuple(x.clone() for x in inputs)


def compare(operation, launch) -> None:
    """Launch an operation on memory that held something else, and compare with its reference. `launch` gives the
    inputs, copies of them from before, and the result. Raises WrongResult."""
    out = launch()[-1]
    out.fill_(float("nan") if out.is_floating_point() else 173)
    del out  # the allocator gives the same memory to the next result
    inputs, kept, out = launch()
    if not all(map(torch.equal, inputs, kept)):
        raise WrongResult(f"{operation.name} changes its inputs")
    out = torch.atleast_1d(out)
    for first in range(0, len(out) + 1, ROWS):
        part = out[first : first + ROWS]
        exact, bound = operation.right(slice(first, first + ROWS), *kept)
        if part.shape != exact.shape:
            raise WrongResult(f"{operation.name} gives {list(part.shape)} and not {list(exact.shape)} elements")
        off = (part.double() - exact).abs()
        if not (off <= bound).all():
            where = f"rows {first} to {first + len(part) - 1}"
            raise WrongResult(f"{operation.name} is wrong by up to {off.max():g} in {where}")


def input_sets(operation) -> list[tuple]:
    """Different inputs: at least two, and together four times as large as the GPU's L2 cache."""
    sets = [operation.inputs(), operation.inputs()]
    if device().type == "cuda":
        size = sum(x.nbytes for x in sets[0])
        l2 = torch.cuda.get_device_properties(device()).L2_cache_size
        sets += [operation.inputs() for _ in range(ceil(4 * l2 / size) - 2)]
    return sets


def timed(operation, sets) -> tuple[Timing, bool]:
    """Times of one run, inputs by turns so that none is still in the cache; and whether a CUDA graph launched them,
    whose last result was compared, too. Raises WrongResult."""
    turns = itertools.cycle([(inputs, copies(inputs)) for inputs in sets])

    def run(launches=1):
        for _ in range(launches):
            inputs, kept = next(turns)
            out = operation.run(*inputs)
        return inputs, kept, out

    launches, repeat, replay = 1, 5, None
    if device().type == "cuda":
        once = measure(run, repeat=len(sets)).seconds
        at_once = REPLAYED if once < SHORT else LAUNCHES
        launches = 1 if once > LONG else -(-at_once // len(sets)) * len(sets)
        repeat = max(5, min(SAMPLES, int(BUDGET / (launches * once))))
        replay = captured(lambda: run(launches)) if once < SHORT else None
    timing = measure(replay or (lambda: run(launches)), repeat=repeat)
    if replay:
        compare(operation, replay)
    return Timing(tuple(seconds / launches for seconds in timing.samples), device().type), replay is not None


def captured(run):
    """What replays the launches of `run` as a CUDA graph, without Python, and gives what `run` gave. The result lies
    where it lay: each replay writes it anew. Raises Refused where they cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            last = run()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # PyTorch's generator and allocator are not to be used after this
        raise Refused(f"no CUDA graph can launch it: {str(error).splitlines()[0]}") from None
    return lambda: graph.replay() or last  # its tensors tell `measure` that the time is a GPU's


def row(operation) -> dict:
    """The figures of an operation: name, bytes, flops, seconds (the median), quartiles, number of samples. Raises
    WrongResult, and Refused where the GPU has no room for it."""
    try:
        sets = input_sets(operation)
        check(operation, sets[0])
        timing, graph = timed(operation, sets)
        del sets
        check(operation, operation.inputs())
    except Refused as why:
        raise Refused(f"{operation.name}: {why}") from None
    except torch.OutOfMemoryError:
        raise Refused(f"{operation.name} needs more memory than the GPU has free: end what else runs on it") from None
    found = {"name": operation.name, "bytes": operation.bytes}
    found |= {"flops": operation.flops} if operation.flops else {}
    found |= {"seconds": timing.median, "quartiles": list(timing.spread), "samples": len(timing.samples)}
    return found | ({"graph": True} if graph else {})


def measured(group, size, of="") -> dict:
    """The figures of a group on this machine: its size, the versions, a row an operation and, of products on a GPU, the
    roof. With `of`, an operation of kernels/: its rows, the peers', and the first."""
    chosen = [each for i, each in enumerate(GROUPS[group].operations(size)) if not of or not i or each.of in (of, "")]
    tf32, precision = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        with closing(each for each in progress(chosen, group)) as operations:  # so that an error finds no bar
            rows = [row(operation) for operation in operations]
        limits = {"roof": roof()} if GROUPS[group].counts == "flops" and device().type == "cuda" else {}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_float32_matmul_precision(precision)
    return {"size": size, "versions": versions(), "rows": rows, **limits}


# Float32 results of a clock in an SM, by compute capability: CUDA C++ Programming Guide, "Arithmetic Instructions"; for
# 8.7 and from 10.0 on, _ConvertSMVer2Cores in Common/helper_cuda.h of https://github.com/NVIDIA/cuda-samples
LANES = {(7, 5): 64, (8, 0): 64} | dict.fromkeys([(8, 6), (8, 7), (8, 9), (9, 0)], 128)
LANES |= dict.fromkeys([(10, 0), (10, 3), (11, 0), (12, 0), (12, 1)], 128)


def roof() -> dict:
    """What limits float32 on this GPU: FLOP/s of all lanes, and bytes/s of a copy; or why that is `unknown`."""
    gpu = torch.cuda.get_device_properties(device())
    sms, lanes, (clock, source) = gpu.multi_processor_count, LANES.get((gpu.major, gpu.minor)), max_clock(gpu)
    if not lanes:
        return {"unknown": f"the bench has no number of lanes for compute capability {gpu.major}.{gpu.minor}"}
    if not clock:
        return {"unknown": "neither torch nor nvidia-smi tells the highest clock"}
    copied = row(next(bandwidth(GROUPS["bandwidth"].sizes()[0])))
    words = f"{sms} SMs x {lanes} lanes x 2 x {clock / 1e6:,.0f} MHz, the highest clock by {source}"
    return {"peak": sms * lanes * 2 * clock, "peak_is": words, "copied": copied["bytes"] / copied["seconds"]}


def max_clock(gpu) -> tuple[float, str]:
    """The highest clock of the SMs in Hz, and who says so; 0 where nobody does."""
    if getattr(gpu, "clock_rate", 0):
        return gpu.clock_rate * 1e3, "torch"
    clock = nvidia_smi(gpu, "clocks.max.sm")
    return (float(clock) * 1e6, "nvidia-smi") if clock.isdecimal() else (0.0, "")


def nvidia_smi(gpu, field) -> str:
    """What nvidia-smi says of a GPU; '' where it does not run."""
    query = ["nvidia-smi", f"--id=GPU-{gpu.uuid}", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# ---- telling --------------------------------------------------------------------------------------------------------


def where() -> dict:
    """The device that the figures belong to."""
    return {"device": torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {platform.machine()}"}


def versions() -> dict:
    """The versions that the figures belong to, as far as they are known."""
    found = {"torch": torch.__version__}
    if device().type == "cuda":
        gpu, home = torch.cuda.get_device_properties(device()), cuda_home()
        found |= {"cuda": torch.version.cuda, "driver": nvidia_smi(gpu, "driver_version")}
        found |= {"nvcc": nvcc_release(home) if home else ""}
    for name in ("triton", "torchvision"):
        found[name] = next((package.version for package in metadata.distributions(name=name)), "")
    return {name: version for name, version in found.items() if version}


UNITS = {  # of a rate, how many a second it is, and what it counts
    "bytes": ("GB/s", 1e9, "what must be read and written"),
    "flops": ("TFLOP/s", 1e12, "2 n³ operations, in float32 without TF32"),
}


def table(group, found, aligned=False) -> str:
    """The figures of a group as a Markdown table; `found` is what `main` writes to a file. Several sizes stand side by
    side, without times. `aligned` is for a terminal: its cells are padded, and the foot is as wide as the terminal."""
    kind, parts = GROUPS[group], parts_of(found[group])
    alone, (unit, scale, _) = len(parts) == 1, UNITS[kind.counts]
    heading = kind.heading.format(f"{parts[0]['size']:,}" if alone else "n")
    columns = [[heading, *(row["name"] for row in parts[0]["rows"])]]
    if alone:
        columns.append(["time", *map(_time, parts[0]["rows"])])
    for part in parts:
        rates = {row["name"]: row[kind.counts] / row["seconds"] for row in part["rows"]}
        title = unit if alone else f"n = {part['size']:,}: {unit}"
        columns.append([title, *(_number(rate / scale) for rate in rates.values())])
        beside = {
            title: next((rates[name] for name in rates if name.startswith(peer)), None)
            for title, peer in kind.against.items()
        }
        if "peak" in (part.get("roof") or {}):
            beside["of the roof"] = min(roofs_of(part))
        columns += [[title, *(_ratio(rate / of) for rate in rates.values())] for title, of in beside.items() if of]
    foot, rule = _foot(kind, parts, found), ["---"] * len(columns)
    if aligned:
        columns = [_padded(column, str.rjust if i else str.ljust) for i, column in enumerate(columns)]
        rule = ["-" * (len(column[0]) + 2) for column in columns]
        foot = textwrap.fill(foot, shutil.get_terminal_size().columns)
    first, *others = ("| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True))
    return "\n".join([first, f"|{'|'.join(rule)}|", *others, "", foot])


def _padded(column, pad) -> list[str]:
    return [pad(cell, max(map(len, column))) for cell in column]


def _foot(kind, parts, found) -> str:
    """What stands below a table: the device, how it was measured, and what was counted."""
    rows = [row for part in parts for row in part["rows"]]
    samples, (unit, _, counted) = [row["samples"] for row in rows], UNITS[kind.counts]
    made = {**found, **parts[0].get("versions", {})}
    text = f"{made['device']}, torch {made['torch']}" + (f", CUDA {made['cuda']}. " if "cuda" in made else ". ")
    text += f"Median of {' to '.join(map(str, sorted({min(samples), max(samples)})))} samples"
    text += f"{' and, in brackets, the quartiles' if len(parts) == 1 else ''}. {unit} counts {counted}."
    if len(parts) > 1:
        off = max(abs(quartile / row["seconds"] - 1) for row in rows for quartile in row["quartiles"])
        text += f" Half of the samples of each row lie within {ceil(1000 * off) / 10:.1f} % of its median."
    if any(row.get("graph") for row in rows):
        text += f" What takes less than {format_seconds(SHORT)} was launched by a CUDA graph, "
        text += "as a launch from Python would show."
    limits = parts[0].get("roof") or {}
    if "unknown" in limits:
        text += f" The roof is not known: {limits['unknown']}."
    elif limits:
        dense = " and ".join(f"{part['rows'][0]['flops'] / part['rows'][0]['bytes']:,.0f}" for part in parts)
        text += f" The roof is the lower of two: {limits['peak'] / 1e12:.1f} TFLOP/s ({limits['peak_is']}), and "
        text += f"{dense} FLOP a byte x {limits['copied'] / 1e9:,.0f} GB/s, as a copy had in the same run."
    return text


def parts_of(figures) -> list[dict]:
    """A part for each size that was measured: a file has a list of them, or one alone."""
    return figures if isinstance(figures, list) else [figures]


def roofs_of(part) -> tuple[float, float]:
    """What limits a part's products, in FLOP/s: the lanes, and the memory, with every element read or written once."""
    row = part["rows"][0]
    return part["roof"]["peak"], row["flops"] / row["bytes"] * part["roof"]["copied"]


def _time(row) -> str:
    return "{} ({} to {})".format(*map(format_seconds, (row["seconds"], *row["quartiles"])))


def _number(value) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def _ratio(value) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:#.2g}"


def fill(found) -> list[Path]:
    """Put the tables between their markers, `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`; the files changed."""
    changed = []
    for path in [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]:
        text = path.read_text()
        if "<!-- bench:" not in text:
            continue
        if path.suffix == ".md":
            new = _filled(text, found)
        else:
            notebook = json.loads(text)
            for cell in notebook["cells"]:
                cell["source"] = _filled("".join(cell["source"]), found).splitlines(keepends=True)
            new = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        if new != text:
            write(path, new)
            changed.append(path)
    return changed


def _filled(text, found) -> str:
    for group in GROUPS.keys() & found.keys():
        begin, end = f"<!-- bench:{group} -->", f"<!-- /bench:{group} -->"
        before, marked, rest = text.partition(begin)
        if marked and end in rest:
            text = f"{before}{begin}\n{table(group, found)}\n{end}{rest.partition(end)[2]}"
    return text


def file_of(name) -> Path:
    """Where a device's figures are kept: 'NVIDIA H200' in h200.json, 'Tesla T4' in t4.json."""
    words = re.sub(r"NVIDIA|Tesla|GeForce", "", name).split()
    return FOLDER / f"{'-'.join(words).lower()}.json"


def read(path) -> dict:
    """The figures in a file of bench/. Raises Refused where they cannot be read."""
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or "device" not in found:
            raise ValueError("it names no device")
    except ValueError as error:
        cure = f"`git checkout {short_path(path)}` brings back a committed one, or remove it and measure anew"
        raise Refused(f"{short_path(path)} is damaged ({error}): {cure}") from None
    return found


def recorded(name, measure) -> tuple[object, str]:
    """What `measure()` returns on a GPU, and the GPU's name. Without one: what it returned where the lessons'
    outputs were made, and that GPU's name.

    The figures must fit into JSON. `make outputs` keeps them in bench/, in the device's file, under 'lessons'. Raises
    LookupError where there is no GPU and no GPU ever measured them.
    """
    if device().type == "cuda":
        figures, gpu = measure(), torch.cuda.get_device_name()
        if os.environ.get("COURSE_RECORD"):
            path = file_of(gpu)
            kept = read(path) if path.exists() else where()
            kept.setdefault("lessons", {})[name] = figures
            kept.setdefault("versions of lessons", {})[name] = versions()
            write(path, json.dumps(kept, indent=1) + "\n")
        return figures, gpu
    for path in sorted(FOLDER.glob("*.json")):
        kept = read(path)
        if name in kept.get("lessons", {}):
            return kept["lessons"][name], kept["device"]
    raise LookupError(f"no GPU has measured {name!r} yet: run the lesson's `make outputs` on a machine with one")


def measure_and_print(only) -> None:
    """Measure all groups, the one that is named, or what concerns an operation of kernels/. Whole groups from a GPU are
    written at once, and filled in also where a later one fails."""
    groups, of = ([only], "") if only in GROUPS else (list(GROUPS), only)
    rows = {group: kind.operations(kind.sizes()[0]) for group, kind in GROUPS.items()}
    groups = [group for group in groups if not of or any(operation.of == of for operation in rows[group])]
    if not groups:
        raise Refused(f"--only takes {', '.join(dict.fromkeys([*GROUPS, *kernels.names()]))}, and not {only!r}")
    found, written = where(), False
    path, kept = file_of(found["device"]), device().type == "cuda" and not of
    if kept:
        writable(FOLDER)
        found = {**(read(path) if path.exists() else {}), **found}  # other groups keep what they have
    if device().type == "cpu":
        print("There is no GPU here: what is timed is the CPU engine, and the figures are kept nowhere.\n", flush=True)
    try:
        for group in groups:
            parts = [measured(group, size, of) for size in GROUPS[group].sizes()]
            found[group] = parts if len(parts) > 1 else parts[0]
            print(f"{group}{', for ' if of else ''}{of}\n\n{table(group, found, aligned=True)}\n", flush=True)
            if kept:
                write(path, json.dumps(found, indent=1) + "\n")
                written = True
    finally:
        if written:
            print(f"written to {path.relative_to(ROOT)}")
            fill_and_print(path, found)


def fill_and_print(path, found) -> None:
    for changed in fill(found):
        print(f"filled in {changed.relative_to(ROOT)}")
    for lesson in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if path.name in lesson.read_text():
            print(f"{lesson.relative_to(ROOT)} prints figures of {path.name}: run it again by `make outputs`")


def writable(*folders) -> None:
    """Raise Refused where the figures or the pages could not be written."""
    for folder in (*folders, ROOT, ROOT / "notebooks"):
        if not os.access(folder, os.W_OK):
            raise Refused(f"nothing can be written to {folder}: run this in a copy of the course that is yours")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.measuring", description=__doc__.splitlines()[0])
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--only", metavar="NAME", help=f"a table ({', '.join(GROUPS)}), or an operation of kernels/")
    asked.add_argument("--fill", metavar="FILE", help="measure nothing: fill the tables from this file of bench/")
    asked = parser.parse_args()
    try:
        if asked.fill is None:
            measure_and_print(asked.only or "")
        elif (path := FOLDER / asked.fill).is_file():
            writable()
            fill_and_print(path, read(path))
        else:
            raise Refused(
                f"there is no {asked.fill} in bench/, only {', '.join(p.name for p in FOLDER.glob('*.json'))}"
            )
    except WrongResult as wrong:
        print(f"No time is told of a wrong result: {wrong}", file=sys.stderr)
    except (CompileError, OSError, Refused, ToolchainError) as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped: what was not printed is not measured.", file=sys.stderr)
        return 130
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
