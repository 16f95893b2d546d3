"""A trace as printed and as shown in a notebook: its problems, and below them the tables of its requests and units."""

import html
import re

import pandas as pd

from utils.cuda.common.lexer import lines_of
from utils.cuda.cpu.fragments import TYPES
from utils.cuda.cpu.trace.records import accesses
from utils.cuda.cpu.trace.words import counted, shorten

__all__ = ["as_html", "as_text", "requests", "units"]

_COLUMNS = ["line", "source", "space", "op", "bytes", "requests", "sectors"]
_COLUMNS += ["sectors_per_request", "wavefronts", "bank_conflicts"]
_COUNTED = ["requests", "sectors", "wavefronts", "bank_conflicts"]  # what the runtime counts
_OF_UNITS = ["line", "source", "unit", "instruction", "instructions", "sectors"]
_WORDS = {"source", "space", "op", "unit", "instruction"}  # columns of text; the others are numbers
_SHOWN_PROBLEMS = 5  # of the list
_SHOWN_ROWS = 20  # of the table
_LONGEST_SOURCE = 40  # characters of a line in the table


def requests(sites) -> pd.DataFrame:
    """The table of a list of `Site`; `Trace.requests` describes it."""
    rows = []
    for same in accesses(sites):
        total = {key: sum(getattr(site, key) for site in same) for key in _COUNTED}
        first = same[0]
        if first.space != "global":
            total["sectors"] = 0
        if first.space != "shared":
            total["wavefronts"] = total["bank_conflicts"] = 0
        each = total["sectors"] / total["requests"] if total["requests"] else 0.0
        access = {"line": first.line or 0, **{key: getattr(first, key) for key in ("source", "space", "op", "bytes")}}
        rows.append({**access, **total, "sectors_per_request": each})
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.astype({"line": int, "bytes": int, "sectors_per_request": float} | dict.fromkeys(_COUNTED, int))


def units(recorded) -> pd.DataFrame:
    """The table of a `Recorded`; `Trace.units` describes it."""
    rows = {}
    for use in [*recorded.products, *recorded.units]:
        name = use.name
        if use.product:
            m, n, k, *types = use.product[:7]
            name += f" m{m}n{n}k{k} " + " ".join(TYPES[number] for number in types)
        key = (use.line or 0, use.source, getattr(use, "unit", "tensor"), name)
        instructions, sectors = rows.get(key, (0, 0))
        rows[key] = instructions + use.instructions, sectors + getattr(use, "sectors", 0)
    rows = sorted(((*key, *counts) for key, counts in rows.items()), key=lambda row: row[0])
    table = pd.DataFrame(rows, columns=_OF_UNITS)
    return table.astype(dict.fromkeys(["line", "instructions", "sectors"], int))


def as_text(trace) -> str:
    """The problems of a trace as a numbered list, and its table."""
    parts = [_heading(trace)]
    for n, problem in enumerate(trace.problems[:_SHOWN_PROBLEMS], 1):
        parts.append(f"{n}. {problem!r}")
    parts += _unlisted_problems(trace)
    for columns, shown, rest in _shown_tables(trace):
        rows = [columns, *shown]
        parts.append("")
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [
                text.ljust(width) if name in _WORDS else text.rjust(width)
                for name, text, width in zip(columns, row, widths, strict=True)
            ]
            parts.append("  ".join(cells).rstrip())
        parts += rest
    return "\n".join(parts)


def as_html(trace) -> str:
    """The same for a notebook, with the source lines around each problem."""
    parts = [f"<p><b>{html.escape(_heading(trace))}</b></p>"]
    for problem in trace.problems[:_SHOWN_PROBLEMS]:
        hint = f"<div><i>Hint:</i> {_with_code(problem.hint)}</div>" if problem.hint else ""
        body = f"<div>{_with_code(problem.message)}</div>{_excerpt(problem, trace.source)}{hint}"
        parts.append(f'<div style="border-left:5px solid #CC3311; padding-left:1em; margin:1em 0">{body}</div>')
    parts += [f"<p>{html.escape(text)}</p>" for text in _unlisted_problems(trace)]
    for columns, shown, rest in _shown_tables(trace):
        places = [f"text-align:{'left' if name in _WORDS else 'right'}; padding:0.2em 0.4em" for name in columns]
        titles = [name.replace("_", "_<wbr>") for name in columns]  # <wbr>: a line may break here
        head = "".join(f'<th style="{p}">{title}</th>' for p, title in zip(places, titles, strict=True))
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        for row in shown:
            texts = [html.escape(text) for text in row]
            texts[1] = f'<code style="white-space:pre-wrap">{texts[1]}</code>'
            cells = "".join(f'<td style="{p}">{text}</td>' for p, text in zip(places, texts, strict=True))
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</tbody></table>")
        parts += [f"<p>{html.escape(text)}</p>" for text in rest]
    return "\n".join(parts)


def _heading(trace):
    found = counted(len(trace.problems), "problem") if trace.problems else "no problems"
    threads = trace.recorded.threads
    return f"{trace.kernel_name}: {found}" + (f" in {counted(threads, 'thread')}" if threads else "")


def _unlisted_problems(trace):
    """Sentences about the problems that are not listed."""
    found, texts = len(trace.problems), []
    if found > _SHOWN_PROBLEMS:
        texts.append(f"... and {counted(found - _SHOWN_PROBLEMS, 'more problem')} in .problems")
    unlisted = trace.recorded.total - sum(problem.count for problem in trace.problems)
    if found and unlisted > 0:
        texts.append(f"The run went wrong {counted(unlisted, 'more time')} after these: fix these first.")
    return texts


def _shown_tables(trace):
    """For each table that is not empty: its columns, its first rows as texts, and a sentence about the others."""
    if len(trace.requests):
        yield _COLUMNS, list(_shown_rows(trace.requests)), _unlisted_rows(trace.requests, "requests")
    if len(trace.units):
        yield _OF_UNITS, list(_shown_units(trace.units)), _unlisted_rows(trace.units, "units")


def _shown_units(table):
    for row in table.head(_SHOWN_ROWS).itertuples(index=False):
        sectors = f"{row.sectors:,}" if row.unit == "tma" else "-"
        source = shorten(row.source, _LONGEST_SOURCE)
        yield [str(row.line) if row.line else "-", source, row.unit, row.instruction, f"{row.instructions:,}", sectors]


def _shown_rows(table):
    """The first rows of the table as texts, with a dash for what is not counted for that kind of memory."""
    for row in table.head(_SHOWN_ROWS).itertuples(index=False):
        sectors, passes = row.space == "global", row.space == "shared"
        yield [
            str(row.line) if row.line else "-",
            shorten(row.source, _LONGEST_SOURCE),
            row.space,
            row.op,
            str(row.bytes),
            f"{row.requests:,}",
            f"{row.sectors:,}" if sectors else "-",
            f"{row.sectors_per_request:.4g}" if sectors else "-",
            f"{row.wavefronts:,}" if passes else "-",
            f"{row.bank_conflicts:,}" if passes else "-",
        ]


def _unlisted_rows(table, name):
    rest = len(table) - _SHOWN_ROWS
    return [f"... and {counted(rest, 'more row')} in .{name}"] if rest > 0 else []


def _excerpt(problem, source):
    """The lines around a problem as HTML, numbered, its own in bold."""
    lines = lines_of(source)
    own = {problem.line, problem.other_line} - {None}
    around = sorted({n for line in own for n in range(line - 1, line + 2) if 1 <= n <= len(lines)})
    rows, before = [], None
    for n in around:
        if before and n > before + 1:
            rows.append("      ...")
        text = html.escape(f"{'-->' if n in own else '   '} {n:4} | {shorten(lines[n - 1], 120)}")
        rows.append(f"<b>{text}</b>" if n in own else text)
        before = n
    return f'<pre style="margin:0.4em 0; font-family:monospace">{"<br>".join(rows)}</pre>' if rows else ""


def _with_code(text):
    """A sentence as HTML, with what is between `...` as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
