"""The benchmark's tables: how figures become Markdown, and how tables get into README and lessons."""

import json
import shutil
import textwrap
from math import ceil
from pathlib import Path

from bench.operations import GROUPS
from utils.ground.system import write
from utils.lesson.timing import SHORT, format_seconds

__all__ = ["fill", "parts_of", "table"]

ROOT = Path(__file__).parents[1]
UNITS = {  # what a rate counts: its unit, how many of these per second that is, and the words for a table's footer
    "bytes": ("GB/s", 1e9, "what must be read and written"),
    "flops": ("TFLOP/s", 1e12, "2 n³ operations, in float32 without TF32"),
}


def table(group, found, aligned=False) -> str:
    """The figures of a group as a Markdown table; `found` is the content of a GPU's file. Several sizes are side by
    side, without times; a cell is empty where a size has no such row. `aligned` is for a terminal: cells are padded,
    and the footer is as wide as the terminal."""
    kind, parts = GROUPS[group], parts_of(found[group])
    alone, (unit, scale, _) = len(parts) == 1, UNITS[kind.counts]
    heading = kind.heading.format(_size(parts[0]["size"]) if alone else _unknown(parts[0]["size"]))
    names = _names(parts)
    columns = [[heading, *names]]
    if alone:
        columns.append(["time", *map(_time, parts[0]["rows"])])
    for part in parts:
        rates = {row["name"]: row[kind.counts] / row["seconds"] for row in part["rows"]}
        title = unit if alone else f"{_named(part['size'])}: {unit}"
        columns.append([title, *(_number(rates[name] / scale) if name in rates else "" for name in names)])
        peers = {
            title: next((rates[name] for name in rates if name.startswith(peer)), None)
            for title, peer in kind.against.items()
        }
        if "peak" in (part.get("roof") or {}):
            peers["of the roof"] = min(roofs_of(part))
        for title, of in peers.items():
            if of:
                columns.append([title, *(_ratio(rates[name] / of) if name in rates else "" for name in names)])
    footer, rule = _footer(kind, parts, found), ["---"] * len(columns)
    if aligned:
        columns = [_padded(column, str.rjust if i else str.ljust) for i, column in enumerate(columns)]
        rule = ["-" * (len(column[0]) + 2) for column in columns]
        footer = textwrap.fill(footer, shutil.get_terminal_size().columns)
    first, *others = ("| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True))
    return "\n".join([first, f"|{'|'.join(rule)}|", *others, "", footer])


def _names(parts) -> list[str]:
    """The names of all rows. One that only some sizes have follows the row that it follows there."""
    names = []
    for part in parts:
        before = None
        for row in part["rows"]:
            if row["name"] not in names:
                names.insert(names.index(before) + 1 if before else 0, row["name"])
            before = row["name"]
    return names


def _size(size) -> str:
    """A side, or the sides of a matrix: '8,192' or '8,192 x 1,024'."""
    return f"{size:,}" if isinstance(size, int) else " x ".join(f"{side:,}" for side in size)


def _unknown(size) -> str:
    """What stands for a size where there are several."""
    return "n" if isinstance(size, int) else "h x w"


def _named(size) -> str:
    """The size at the head of its columns."""
    return f"n = {_size(size)}" if isinstance(size, int) else _size(size)


def _padded(column, pad) -> list[str]:
    return [pad(cell, max(map(len, column))) for cell in column]


def _footer(kind, parts, found) -> str:
    """The text below a table: the device, how it was measured, and what was counted."""
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
        text += "since the time of a launch from Python would show."
    limits = parts[0].get("roof") or {}
    if "unknown" in limits:
        text += f" The roof is not known: {limits['unknown']}."
    elif limits:
        dense = " and ".join(f"{part['rows'][0]['flops'] / part['rows'][0]['bytes']:,.0f}" for part in parts)
        text += f" The roof is the lower of two: {limits['peak'] / 1e12:.1f} TFLOP/s ({limits['peak_is']}), and "
        text += f"{dense} FLOP per byte x {limits['copied'] / 1e9:,.0f} GB/s, as a copy reached in the same run."
    return text


def parts_of(figures) -> list[dict]:
    """A part for each measured size: a file has a list of them, or a single one."""
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
    """Put the tables between their markers, `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`; returns changed files."""
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
