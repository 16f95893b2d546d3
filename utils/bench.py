"""Times the course's operations beside their peers, and fills the tables of README and lessons with what it found.

    python -m utils.bench                    measure everything on this machine; `--only matmul`: that group
    python -m utils.bench --fill h200.json   fill the tables from a file that was measured before

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
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

import kernels
from utils.progress import progress
from utils.timing import Timing, format_seconds, measure
from utils.toolchain import device

__all__ = ["GROUPS", "WrongResult", "fill", "measured", "recorded", "table"]

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bench"
SAMPLES, LAUNCHES, REPLAYED = 30, 4, 20  # a sample is the mean of 4 launches from Python, or of 20 in a CUDA graph
LONG, BUDGET = 10e-3, 2.0  # seconds: from LONG on a launch is a sample; an operation's samples take about BUDGET
SHORT = 200e-6  # seconds: what takes less is launched by a CUDA graph: Python takes 11 µs a launch (utils/timing.py)
ROWS = 2048  # that are checked at once: the reference takes eight bytes an element
LARGE = 2**28  # floats in an array that is read at the full speed of the memory


class WrongResult(AssertionError):
    """An operation computes something else than its reference: then no time is taken."""


class Operation(NamedTuple):
    """One line of a table."""

    name: str
    run: Callable  # of the inputs
    inputs: Callable  # gives fresh random ones, a tuple
    right: Callable  # of a slice and the inputs: what must stand in these rows of the result, and how far it may be off
    bytes: int  # read and written, at least
    flops: int = 0


class Group(NamedTuple):
    """One table."""

    operations: Callable  # yields those of a size; the first is what the others are compared with
    sizes: Callable  # gives those that are measured on this device
    heading: str  # with {0} for the size
    counts: str  # 'bytes' or 'flops': what the rate is of
    against: str  # the name of the column that compares with the first row


# ---- what is measured -----------------------------------------------------------------------------------------------


def floats(*shapes):
    return lambda: tuple(torch.randn(shape, device=device()) for shape in shapes)


def levels(*shape):
    return lambda: (torch.randint(0, 256, shape, dtype=torch.uint8, device=device()),)


def bandwidth(side):
    """Copying, squaring, grayscale and transposing of squares: all they do is to move memory."""
    from torchvision.transforms.v2.functional import rgb_to_grayscale

    pixels, square, planes = side * side, floats((side, side)), levels(3, side, side)
    copy, gray, transpose = (kernels.load(name) for name in ("copy", "grayscale", "transpose"))
    target = torch.empty(side, side, device=device())
    yield Operation("copy: PyTorch, `out.copy_(x)`", target.copy_, square, same, 8 * pixels)
    yield Operation("copy: 4 bytes a thread", copy.copy, square, same, 8 * pixels)
    yield Operation("copy: 16 bytes a thread", copy.copy_vector, square, same, 8 * pixels)
    yield Operation("square: PyTorch, `torch.square(x)`", torch.square, square, squares, 8 * pixels)
    yield Operation("square: 4 bytes a thread", kernels.load("square").square, square, squares, 8 * pixels)
    for name, run, made in (
        ("torchvision", lambda x: rgb_to_grayscale(x)[0], planes),
        ("1 byte a thread", gray.rgb_to_grayscale, planes),
        ("1 byte a thread, blocks of 16 x 16", gray.rgb_to_grayscale_2d, planes),
        ("1 byte a thread, `(h, w, 3)`", gray.rgb_to_grayscale_hwc, levels(side, side, 3)),
        ("16 bytes a thread", gray.rgb_to_grayscale_vector, planes),
    ):
        yield Operation(f"grayscale: {name}", run, made, grey_levels, 4 * pixels)
    flips = {"PyTorch, `x.t().contiguous()`": lambda x: x.t().contiguous()}
    flips |= {how: getattr(transpose, f"transpose_{how}") for how in ("naive", "tiled", "padded", "swizzled", "fast")}
    for name, run in flips.items():
        yield Operation(f"transpose: {name}", run, square, flipped, 8 * pixels)


LADDER = [  # what each rung brings, its operation and function, and the width of its tiles where it takes one
    ("uncoalesced: a warp takes a column", "matmul_ladder", "matmul_uncoalesced"),
    ("coalesced: a thread an element", "matmul", "matmul"),
    ("tiles in shared memory, 16 wide", "matmul", "matmul_tiled"),
    ("tiles as wide as the launch says, 16", "matmul", "matmul_dynamic", 16),
    ("tiles as wide as the compiler knows, 32", "matmul", "matmul_template", 32),
    ("8 elements of a column a thread", "matmul_ladder", "matmul_column"),
    ("8 x 8 elements a thread", "matmul_ladder", "matmul_square"),
    ("16 bytes a load", "matmul_ladder", "matmul_vector"),
    ("no bank conflicts", "matmul_ladder", "matmul_banks"),
    ("64 x 32 elements a warp", "matmul_ladder", "matmul_warp"),
    ("the next tiles on their way meanwhile", "matmul_fast", "matmul_fast"),
]


def matmul(side):
    """Products of square float32 matrices, from the naive kernel to the fastest, beside PyTorch's and Triton's."""
    yield product("PyTorch, `m @ n`", torch.matmul, side, side, side)
    for title, name, function, *tile in LADDER:
        run = getattr(kernels.load(name), function)
        yield product(f"{title}, `{function}`", lambda m, n, r=run, t=tile: r(m, n, *t), side, side, side)
    if device().type == "cuda" and find_spec("triton"):
        from bench import triton_matmul

        yield product("Triton, `tl.dot`", triton_matmul.matmul, side, side, side)


def narrow(h, k=784, w=10):
    """A product of few columns, as of digits and weights: the time goes into reading m (h, k)."""
    yield Operation("reading m alone: PyTorch, `m.sum()`", torch.sum, floats((h, k)), total, 4 * h * k)
    if device().type == "cuda":
        yield Operation(f"reading {LARGE:,} floats: PyTorch, `x.sum()`", torch.sum, floats((LARGE,)), total, 4 * LARGE)
    yield product("PyTorch, `m @ n`", torch.matmul, h, k, w)
    for title, function in (
        ("coalesced: a thread an element", "matmul"),
        ("made for large products", "matmul_fast"),
        ("made for few columns", "matmul_narrow"),
    ):
        yield product(f"{title}, `{function}`", getattr(kernels.load(function), function), h, k, w)


def product(name, run, h, k, w) -> Operation:
    """An Operation that multiplies float32 m (h, k) and n (k, w)."""
    return Operation(name, run, floats((h, k), (k, w)), products, 4 * (h * k + k * w + h * w), 2 * h * k * w)


def sides(wanted, on_a_cpu) -> list[int]:
    """The sides of squares that the GPU has room for: 64 bytes an element hold all that is made of them."""
    if device().type == "cpu":
        return [on_a_cpu]
    room = torch.cuda.get_device_properties(device()).total_memory
    return [side for side in wanted if 64 * side * side < room]


GROUPS = {
    "bandwidth": Group(bandwidth, lambda: sides([4096, 8192, 16384], 2048)[-1:], "{0} x {0}", "bytes", "of the copy"),
    "matmul": Group(matmul, lambda: sides([4096, 8192], 256), "{0} x {0} @ {0} x {0}", "flops", "of `@`"),
    "narrow": Group(narrow, lambda: [50_000], "{0} x 784 @ 784 x 10", "bytes", "of `m.sum()`"),
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
    """Lesson 01's sum in float64, for either layout, before it is cut to whole levels."""
    red, green, blue = (x[rows][..., i] if x.shape[-1] == 3 else x[i, rows] for i in range(3))
    return 0.2989 * red.double() + 0.5870 * green.double() + 0.1140 * blue.double(), 1.0 + 1e-9


def total(rows, x):
    return x.sum(dtype=torch.float64)[None][rows], 1e-6 * x.abs().sum()


def products(rows, m, n):
    """In float64. Roundings of a float32 sum go up and down by chance, so the error grows with the root of the sum of
    squares, and with that of the number of steps. TF32, which keeps 10 bits of the 23, is beyond the bound."""
    bound = 1e-6 * (m.shape[1] + 1) ** 0.5 * (m[rows].square() @ n.square()).sqrt() + 1e-12
    return m[rows].double() @ n.double(), bound


# ---- measuring ------------------------------------------------------------------------------------------------------


def check(operation, inputs) -> None:
    """Run the operation on memory that held something else, and compare with its reference. Raises WrongResult."""
    poisoned = operation.run(*inputs)
    poisoned.fill_(float("nan") if poisoned.is_floating_point() else 173)
    del poisoned  # the allocator gives the same memory to the next result
    out = torch.atleast_1d(operation.run(*inputs))
    for first in range(0, len(out) + 1, ROWS):
        part = out[first : first + ROWS]
        exact, bound = operation.right(slice(first, first + ROWS), *inputs)
        if part.shape != exact.shape:
            raise WrongResult(f"{operation.name} gives {list(part.shape)} and not {list(exact.shape)} elements")
        off = (part.double() - exact).abs()
        if not (off <= bound).all():
            where = f"rows {first} to {first + len(part) - 1}"
            raise WrongResult(f"{operation.name} is wrong by up to {off.max():g} in {where}")


def input_sets(operation) -> list[tuple]:
    """Different inputs: at least two, and together four times as large as the GPU's L2 cache."""
    sets = [operation.inputs()]
    if device().type == "cuda":
        size = sum(x.nbytes for x in sets[0])
        cache = torch.cuda.get_device_properties(device()).L2_cache_size
        sets += [operation.inputs() for _ in range(max(1, -(-4 * cache // size) - 1))]
    return sets


def timed(operation, sets) -> tuple[Timing, bool]:
    """Times of one run, inputs by turns so that none is still in the cache; and whether a CUDA graph launched them."""
    if device().type == "cpu":
        return measure(operation.run, *sets[0], repeat=5), False
    turns = itertools.cycle(sets)

    def run(launches=1):
        for _ in range(launches):
            out = operation.run(*next(turns))
        return out

    once = measure(run, repeat=len(sets)).seconds
    at_once = REPLAYED if once < SHORT else LAUNCHES
    launches = 1 if once > LONG else -(-at_once // len(sets)) * len(sets)
    replay = captured(lambda: run(launches)) if once < SHORT else None
    repeat = max(5, min(SAMPLES, int(BUDGET / (launches * once))))
    timing = measure(replay or (lambda: run(launches)), repeat=repeat)
    return Timing(tuple(seconds / launches for seconds in timing.samples), "cuda"), replay is not None


def captured(run):
    """What replays the launches of `run` as a CUDA graph, without Python, or None where they cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = run()
    except RuntimeError:
        return None
    return lambda: graph.replay() or out  # out tells `measure` that the time is a GPU's


def row(operation) -> dict:
    """The figures of an operation: name, bytes, flops, seconds, quartiles, number of samples. Raises WrongResult."""
    sets = input_sets(operation)
    check(operation, sets[0])
    timing, graph = timed(operation, sets)
    del sets
    check(operation, operation.inputs())
    found = {"name": operation.name, "bytes": operation.bytes}
    found |= {"flops": operation.flops} if operation.flops else {}
    found |= {"seconds": timing.seconds, "quartiles": list(timing.spread), "samples": len(timing.samples)}
    return found | ({"graph": True} if graph else {})


def measured(group, size) -> dict:
    """The figures of a group on this machine: its size, a row an operation and, of products on a GPU, the roof."""
    tf32, precision = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        rows = [row(operation) for operation in progress(list(GROUPS[group].operations(size)), group)]
        limits = {"roof": roof()} if GROUPS[group].counts == "flops" and device().type == "cuda" else {}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_float32_matmul_precision(precision)
    return {"size": size, "rows": rows, **limits}


# Float32 results of a clock in an SM, by compute capability: CUDA C++ Programming Guide, "Arithmetic Instructions".
LANES = {(7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 9): 128, (9, 0): 128}


def roof() -> dict | None:
    """What limits float32 on this GPU: FLOP/s of all lanes, and bytes/s of a copy. None where no clock is known."""
    gpu = torch.cuda.get_device_properties(device())
    sms, lanes, (clock, source) = gpu.multi_processor_count, LANES.get((gpu.major, gpu.minor)), max_clock(gpu)
    if not lanes or not clock:
        return None
    copied = row(next(bandwidth(GROUPS["bandwidth"].sizes()[0])))
    words = f"{sms} SMs x {lanes} lanes x 2 x {clock / 1e6:,.0f} MHz, the highest clock by {source}"
    return {"peak": sms * lanes * 2 * clock, "peak_is": words, "copied": copied["bytes"] / copied["seconds"]}


def max_clock(gpu) -> tuple[float, str]:
    """The highest clock of the SMs in Hz, and who says so; 0 where nobody does."""
    if getattr(gpu, "clock_rate", 0):
        return gpu.clock_rate * 1e3, "torch"
    query = ["nvidia-smi", f"--id=GPU-{gpu.uuid}", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    try:
        return float(subprocess.run(query, capture_output=True, text=True, check=True).stdout) * 1e6, "nvidia-smi"
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 0.0, ""


# ---- telling --------------------------------------------------------------------------------------------------------


def where() -> dict:
    """The device and the versions that the figures belong to."""
    if device().type == "cpu":
        return {"device": f"CPU, {platform.machine()}", "torch": torch.__version__}
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}


UNITS = {  # of a rate, how many a second it is, and what it counts
    "bytes": ("GB/s", 1e9, "what must be read and written"),
    "flops": ("TFLOP/s", 1e12, "2 n³ operations, in float32 without TF32"),
}


def table(group, found) -> str:
    """The figures of a group as a Markdown table; `found` is what `main` writes to a file. Several sizes stand side by
    side, without times."""
    kind, parts = GROUPS[group], parts_of(found[group])
    alone, (unit, scale, _) = len(parts) == 1, UNITS[kind.counts]
    heading = kind.heading.format(f"{parts[0]['size']:,}" if alone else "n")
    columns = [[heading, *(row["name"] for row in parts[0]["rows"])]]
    if alone:
        columns.append(["time", *map(_time, parts[0]["rows"])])
    for part in parts:
        rates = [row[kind.counts] / row["seconds"] for row in part["rows"]]
        columns.append([unit if alone else f"n = {part['size']:,}: {unit}", *(_number(rate / scale) for rate in rates)])
        columns.append([kind.against, *(f"{rate / rates[0]:.2f}" for rate in rates)])
        if part.get("roof"):
            columns.append(["of the roof", *(f"{rate / min(roofs_of(part)):.2f}" for rate in rates)])
    first, *others = ("| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True))
    return "\n".join([first, "|" + "---|" * len(columns), *others, "", _foot(kind, parts, found)])


def _foot(kind, parts, found) -> str:
    """What stands below a table: the device, how it was measured, and what was counted."""
    rows = [row for part in parts for row in part["rows"]]
    samples, (unit, _, counted) = [row["samples"] for row in rows], UNITS[kind.counts]
    text = f"{found['device']}, torch {found['torch']}" + (f", CUDA {found['cuda']}. " if "cuda" in found else ". ")
    text += "Median of " if "cuda" in found else "Best of "
    text += " to ".join(str(number) for number in sorted({min(samples), max(samples)})) + " samples"
    text += f"{' and, in brackets, the quartiles' if len(parts) == 1 else ''}. {unit} counts {counted}."
    if any(row.get("graph") for row in rows):
        without = dict.fromkeys(row["name"] for row in rows if not row.get("graph") and row["seconds"] < SHORT)
        but = f" (but for {'; '.join(without)})" if without else ""
        text += f" What takes less than {format_seconds(SHORT)} was launched by a CUDA graph{but}, "
        text += "as a launch from Python would show."
    if limits := parts[0].get("roof"):
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
            path.write_text(new)
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
            kept = json.loads(path.read_text()) if path.exists() else where()
            kept.setdefault("lessons", {})[name] = figures
            path.write_text(json.dumps(kept, indent=1) + "\n")
        return figures, gpu
    for path in sorted(FOLDER.glob("*.json")):
        kept = json.loads(path.read_text())
        if name in kept.get("lessons", {}):
            return kept["lessons"][name], kept["device"]
    raise LookupError(f"no GPU has measured {name!r} yet: run the lesson's `make outputs` on a machine with one")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m utils.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=GROUPS, help="measure this group alone")
    parser.add_argument("--fill", metavar="FILE", help="measure nothing: fill the tables from this file of bench/")
    asked = parser.parse_args()
    if asked.fill:
        if not (FOLDER / asked.fill).is_file():
            parser.error(f"there is no {asked.fill} in bench/, only {', '.join(p.name for p in FOLDER.glob('*.json'))}")
        path = FOLDER / asked.fill
        found = json.loads(path.read_text())
    else:
        groups = [asked.only] if asked.only else list(GROUPS)
        found = where()
        path = file_of(found["device"])
        if device().type == "cuda" and path.exists():
            found = {**json.loads(path.read_text()), **found}  # other groups keep what they have
        try:
            for group in groups:
                parts = [measured(group, size) for size in GROUPS[group].sizes()]
                found[group] = parts if len(parts) > 1 else parts[0]
                on_engine = ", on the CPU engine" if device().type == "cpu" else ""
                print(f"{group}{on_engine}\n\n{table(group, found)}\n")
                if device().type == "cuda":  # at once: a later group may fail
                    path.write_text(json.dumps(found, indent=1) + "\n")
        except WrongResult as wrong:
            print(f"No time is told of a wrong result: {wrong}", file=sys.stderr)
            return 1
        if device().type == "cpu":
            print("There is no GPU here: the times are the CPU engine's, and are kept nowhere.")
            return 0
        print(f"written to {path.relative_to(ROOT)}")
    for changed in fill(found):
        print(f"filled in {changed.relative_to(ROOT)}")
    for lesson in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if path.name in lesson.read_text():
            print(f"{lesson.relative_to(ROOT)} prints figures of {path.name}: run it again by `make outputs`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
