"""Times the course's operations beside their peers, and fills the tables of README and lessons with what it found.

    python -m utils.bench                    measure everything on this machine; `--only bandwidth`: that group
    python -m utils.bench --fill h200.json   fill the tables from a file that was measured before

Every result is checked before its time is taken, and again afterwards, on inputs that were not seen before. On a GPU
the figures go to bench/, to a file named after the device. Without one the CPU engine is timed: that table is printed,
and kept nowhere.
"""

import argparse
import json
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

import kernels
from utils.progress import progress
from utils.timing import Timing, format_seconds, measure
from utils.toolchain import device

__all__ = ["GROUPS", "WrongResult", "fill", "measured", "table"]

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bench"
SAMPLES, LAUNCHES = 30, 4  # a sample is the mean of so many launches, so that Python's own time is hidden


class WrongResult(AssertionError):
    """An operation computes something else than its reference: then no time is taken."""


class Operation(NamedTuple):
    """One line of a table: `run(x)` gives the result, and `right(x)` what it must be, within `tolerance`."""

    name: str
    run: Callable
    input: Callable  # a fresh random input
    right: Callable
    bytes: int  # read and written, at least
    tolerance: float = 0.0


# ---- what is measured -----------------------------------------------------------------------------------------------


def bandwidth(size):
    """Copying, grayscale and transposing: all they do is to move memory. `size` is the side of the square."""
    on, pixels = device(), size * size
    copy, gray, transpose = (kernels.load(name) for name in ("copy", "grayscale", "transpose"))

    def floats():
        return torch.randn(size, size, device=on)

    def planes():
        return torch.randint(0, 256, (3, size, size), dtype=torch.uint8, device=on)

    def interleaved():
        return torch.randint(0, 256, (size, size, 3), dtype=torch.uint8, device=on)

    def torchvision_gray(x):
        from torchvision.transforms.v2.functional import rgb_to_grayscale

        return rgb_to_grayscale(x)[0]

    target = torch.empty(size, size, device=on)
    yield Operation("copy: PyTorch, `out.copy_(x)`", target.copy_, floats, torch.clone, 8 * pixels)
    yield Operation("copy: 4 bytes a thread", copy.copy, floats, torch.clone, 8 * pixels)
    yield Operation("copy: 16 bytes a thread", copy.copy_vector, floats, torch.clone, 8 * pixels)
    for name, run, made in (
        ("torchvision", torchvision_gray, planes),
        ("1 byte a thread", gray.rgb_to_grayscale, planes),
        ("1 byte a thread, `(h, w, 3)`", gray.rgb_to_grayscale_hwc, interleaved),
        ("16 bytes a thread", gray.rgb_to_grayscale_vector, planes),
    ):
        yield Operation(f"grayscale: {name}", run, made, grey_levels, 4 * pixels, tolerance=1.0)
    flips = {"PyTorch, `x.t().contiguous()`": lambda x: x.t().contiguous()}
    flips |= {how: getattr(transpose, f"transpose_{how}") for how in ("naive", "tiled", "padded", "swizzled", "fast")}
    for name, run in flips.items():
        yield Operation(f"transpose: {name}", run, floats, torch.t, 8 * pixels)


def grey_levels(x):
    """Lesson 01's sum in float64, for either layout, before it is cut to whole levels."""
    red, green, blue = (x[..., i] if x.shape[-1] == 3 else x[i] for i in range(3))
    return 0.2989 * red.double() + 0.5870 * green.double() + 0.1140 * blue.double()


GROUPS = {"bandwidth": bandwidth}


def size_of(group) -> int:
    """The side of the square: 16,384 where the GPU has room for it, else less; 2,048 on a CPU."""
    if device().type == "cpu":
        return 2048
    room = torch.cuda.get_device_properties(device()).total_memory
    return next(side for side in (16384, 8192, 4096) if 64 * side * side < room)  # 64 bytes an element hold all of it


# ---- measuring ------------------------------------------------------------------------------------------------------


def check(operation, x) -> None:
    """Run the operation on memory that held something else, and compare with its reference. Raises WrongResult."""
    for _ in range(2):  # where the allocator takes a result's memory from: poison it
        torch.full_like(operation.run(x), 173 if x.dtype == torch.uint8 else float("nan"))
    out, rows = operation.run(x), 2048
    for first in range(0, out.shape[0], rows):  # in parts: the reference takes eight bytes an element
        part = slice(first, first + rows)
        if operation.right is torch.t:
            expected = x[:, part].t()
        elif operation.right is grey_levels:
            expected = grey_levels(x[part] if x.shape[-1] == 3 else x[:, part])
        else:
            expected = x[part]
        worst = (out[part].double() - expected).abs().max().item()
        if not worst <= operation.tolerance + 1e-9:
            raise WrongResult(f"{operation.name} is wrong by up to {worst:g} in rows {first} to {first + rows - 1}")


def timed(operation, inputs) -> Timing:
    """Times of one run, `inputs` by turns so that none is still in the cache."""
    if device().type == "cpu":
        return measure(operation.run, inputs[0], repeat=5)
    for x in inputs:
        operation.run(x)
    pairs = []
    for sample in range(SAMPLES):
        pairs.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
        pairs[-1][0].record()
        for launch in range(LAUNCHES):
            operation.run(inputs[(sample + launch) % len(inputs)])
        pairs[-1][1].record()
    torch.cuda.synchronize()
    return Timing(tuple(start.elapsed_time(end) / 1e3 / LAUNCHES for start, end in pairs), "cuda")


def measured(group, size=None) -> dict:
    """The figures of a group on this machine: its size, and for each operation name, bytes, seconds and quartiles."""
    size, rows = size or size_of(group), []
    for operation in progress(list(GROUPS[group](size)), group):
        inputs = [operation.input() for _ in range(2)]
        check(operation, inputs[0])
        timing = timed(operation, inputs)
        check(operation, operation.input())
        low, high = timing.spread
        rows.append(
            {
                "name": operation.name,
                "bytes": operation.bytes,
                "seconds": timing.seconds,
                "quartiles": [low, high],
                "samples": len(timing.samples),
            }
        )
    return {"size": size, "rows": rows}


# ---- telling --------------------------------------------------------------------------------------------------------


def where() -> dict:
    """The device and the versions that the figures belong to."""
    if device().type == "cpu":
        return {"device": f"CPU, {platform.machine()}", "torch": torch.__version__}
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}


def table(group, found) -> str:
    """The figures of a group as a Markdown table; `found` is what `main` writes to a file."""
    figures = found[group]
    copied = figures["rows"][0]
    speed = copied["bytes"] / copied["seconds"]
    lines = [f"| {figures['size']:,} x {figures['size']:,} | time | GB/s | of the copy |", "|---|---|---|---|"]
    for row in figures["rows"]:
        low, high = row["quartiles"]
        spread = f"{format_seconds(row['seconds'])} ({format_seconds(low)} to {format_seconds(high)})"
        rate = row["bytes"] / row["seconds"]
        lines.append(f"| {row['name']} | {spread} | {rate / 1e9:,.0f} | {rate / speed:.2f} |")
    most = max(row["samples"] for row in figures["rows"])
    lines += ["", f"{found['device']}, torch {found['torch']}"]
    lines[-1] += f", CUDA {found['cuda']}. " if "cuda" in found else ". "
    lines[-1] += f"{'Median' if 'cuda' in found else 'Best'} of {most} samples and, in brackets, the quartiles. "
    lines[-1] += "GB/s counts what must be read and written."
    return "\n".join(lines)


def fill(found) -> list[Path]:
    """Put the tables between their markers, `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`; the files changed."""
    changed = []
    for path in [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]:
        text = path.read_text()
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m utils.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=GROUPS, help="measure this group alone")
    parser.add_argument("--fill", metavar="FILE", help="measure nothing: fill the tables from this file of bench/")
    asked = parser.parse_args()
    if asked.fill:
        found = json.loads((FOLDER / asked.fill).read_text())
    else:
        groups = [asked.only] if asked.only else list(GROUPS)
        found = where()
        path = file_of(found["device"])
        if device().type == "cuda" and path.exists():
            found = {**json.loads(path.read_text()), **found}  # other groups keep what they have
        try:
            for group in groups:
                found[group] = measured(group)
                print(f"{group}\n\n{table(group, found)}\n")
        except WrongResult as wrong:
            print(f"No time is told of a wrong result: {wrong}", file=sys.stderr)
            return 1
        if device().type == "cpu":
            print("There is no GPU here: the times are the CPU engine's, and are kept nowhere.")
            return 0
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"written to {path.relative_to(ROOT)}")
    for changed in fill(found):
        print(f"filled in {changed.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
