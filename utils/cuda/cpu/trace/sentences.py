"""What a traced kernel did, for people: what is wrong, what its memory accesses cost, and pictures of both.

The runtime (trace.cpp) hands over bare records. Here they become sentences, a table and, in picture.py, drawings.
"""

import html
import math
import re
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

__all__ = ["KernelProblem", "Problem", "Trace"]

_COLUMNS = ["line", "source", "space", "op", "bytes", "requests", "sectors"]
_COLUMNS += ["sectors_per_request", "wavefronts", "bank_conflicts"]
_COUNTED = ["requests", "sectors", "wavefronts", "bank_conflicts"]  # what the runtime counts
_WORDS = {"source", "space", "op"}  # columns of text; the others are numbers
_SHOWN_PROBLEMS = 5  # of the list, in a repr
_SHOWN_ROWS = 20  # of the table, in a repr
_LONGEST_QUOTE = 80  # characters of a source line within a sentence
_TOLD = re.compile(r" of the kernel (.+)")  # behind the thread in the text of what ended a launch
_ASSERTION = re.compile(r" of the kernel says that `(.*)` failed \(.*, line (\d+)\)")


@dataclass(frozen=True, repr=False)
class Problem:
    """One thing that a kernel does wrong, at one place of its source.

    `kind` is out_of_bounds, race, divergent_barrier, uninitialized, unwritten, misaligned, runaway, trap or, of an
    extension, refused_launch. `message`
    is one sentence; `hint`, where it is not empty, says what to try. `line` counts from 1 (None where it is not
    known) and `source` is its text. `block` and `thread` are (x, y, z). The `other_` fields tell of the second thread
    of a race or a barrier, else they are None. `count` says how often it was met; `unwritten` counts elements.
    """

    kind: str
    message: str
    line: int | None = None
    source: str = ""
    block: tuple | None = None
    thread: tuple | None = None
    other_block: tuple | None = None
    other_thread: tuple | None = None
    other_line: int | None = None
    count: int = 1
    hint: str = ""

    def __repr__(self):
        return f"{self.message}\n    hint: {self.hint}" if self.hint else self.message


class KernelProblem(RuntimeError):
    """A kernel did something wrong. The message is the first problem; `.problems` holds all of them."""

    def __init__(self, problems):
        super().__init__(problems)
        self.problems = list(problems)

    def __str__(self):
        more = len(self.problems) - 1
        return f"{self.problems[0]!r}" + (f"\n({_number(more, 'more problem')} in .problems)" if more else "")


class Trace:
    """What one launch of a kernel did, access by access.

    `problems` is a list of `Problem`, in the order they were met, and `ok` is True when it is empty. `requests` is a
    table of the memory accesses, `plot()` draws them, and `args` are the arguments after the run.

    The counts are of the source as written. nvcc may merge accesses (four loads of neighbours into one of 16 bytes),
    split them or keep a value in a register; then the counters of Nsight Compute differ. They are counted as it counts:
    a request is one access of one warp (32 threads), sectors are the distinct 32-byte pieces of memory that a request
    touches, and wavefronts are the passes through the 32 banks of shared memory that it takes.
    Source: NVIDIA, Nsight Compute documentation, Kernel Profiling Guide.
    """

    def __init__(self, kernel_name, source, report, lines, args=()):
        """`report` is what the runtime's trace_end returned, as a dictionary.

        `lines` is called once, with a list of code positions; it returns a line number of `source`, or None, for each.
        """
        self.kernel_name, self.source, self.args = kernel_name, source, args
        self._report = report
        self._source_lines = source.splitlines()
        found = [*report.get("sites", ()), *report.get("problems", ())]
        found += [p["other"] for p in report.get("problems", ()) if p.get("other")]
        positions = list(dict.fromkeys(_position(record) for record in found if _position(record)))
        self._line_at = dict(zip(positions, lines(positions), strict=True)) if positions else {}
        self.problems = self._merged_problems()

    @property
    def ok(self) -> bool:
        """Whether the run met no problem."""
        return not self.problems

    def raise_if_problems(self):
        """Raise KernelProblem if the run met a problem."""
        __tracebackhide__ = True
        if self.problems:
            raise KernelProblem(self.problems)

    @cached_property
    def requests(self) -> pd.DataFrame:
        """A row for each access of the source, sorted by line and, within a line, in the order they were first met.

        `bytes` is what one thread moves at once. `requests`, `sectors`, `wavefronts` and `bank_conflicts` (wavefronts
        beyond what an access without conflicts takes) are sums over the launch. Sectors are counted for global memory
        only and wavefronts for shared memory only, the other is 0. Accesses of one line that are alike in space, op and
        bytes are one row. `line` is 0 where the line is not known.
        """
        rows = []
        for site in self._sites():
            total = {key: sum(part.get(key, 0) for part in site) for key in _COUNTED}
            first, line = site[0], self._line(site[0])
            if first["space"] != "global":
                total["sectors"] = 0
            if first["space"] != "shared":
                total["wavefronts"] = total["bank_conflicts"] = 0
            each = total["sectors"] / total["requests"] if total["requests"] else 0.0
            same = {key: first[key] for key in ("space", "op", "bytes")}
            rows.append({"line": line or 0, "source": self._text(line), **same, **total, "sectors_per_request": each})
        table = pd.DataFrame(rows, columns=_COLUMNS)
        return table.astype({"line": int, "bytes": int, "sectors_per_request": float} | dict.fromkeys(_COUNTED, int))

    def plot(self, line=None):
        """Draw what one warp touches in each access of the source, or in those of `line` only; returns the Figure.

        Global memory: which lanes of the warp touch which 32-byte sectors. Shared memory: which lanes meet in which of
        the 32 banks. It is the launch's first block and its first warp that makes the access, at the costliest request
        it makes there. At most six accesses are drawn, the costliest. Constant memory is not drawn. A notebook shows
        the figure where `plot()` is a cell's last line.
        Raises ValueError for a line that has no access to draw.
        """
        from utils.cuda.cpu.trace.pictures import Access, draw  # matplotlib takes half a second to load

        sizes = {p["region"]: p["region_bytes"] for p in self._report.get("problems", ()) if p.get("region_bytes")}
        accesses = []
        for site in self._sites(by_region=True):
            drawable = [
                part for part in site if part["space"] != "constant" and (part.get("example") or {}).get("lanes")
            ]
            if drawable:
                worst = max(drawable, key=lambda part: _cost(part) / max(part["requests"], 1))
                cost, example, number = sum(map(_cost, site)), worst["example"], self._line(worst)
                same = {key: worst[key] for key in ("space", "op", "bytes")}
                outside_from = sizes.get(example.get("region"))
                lanes = _lanes(example)
                lanes["lanes"] += self._lanes_outside(worst)
                accesses.append(Access(number, self._text(number), **same, **lanes, size=outside_from, cost=cost))
        if line is not None:
            chosen = [access for access in accesses if access.line == line]
            if not chosen:
                have = ", ".join(str(number) for number in dict.fromkeys(a.line for a in accesses) if number)
                have = f"the lines with an access are {have}" if have else "no line of this kernel has one"
                raise ValueError(f"line {line} has no access to global or shared memory: {have}")
            accesses = chosen
        return draw(self.kernel_name, accesses)

    def _lanes_outside(self, site):
        """The lanes of a site's example that left the tensor there: the runtime stops them before they are counted."""
        example, found = site["example"], []
        for p in self._report.get("problems", ()):
            alike = all(p.get(key) == site[key] for key in ("pc", "op", "bytes"))
            if p["kind"] != "out_of_bounds" or not alike or p.get("region") != example.get("region"):
                continue
            x, y, z = p["thread"]
            known = {lane for lane, _ in example["lanes"]}
            if p["block"] == example["block"] and y == z == 0 and x // 32 == example["warp"] and x % 32 not in known:
                found.append((x % 32, p["offset"]))
        return found

    def __repr__(self):
        parts = [self._heading()]
        for n, problem in enumerate(self.problems[:_SHOWN_PROBLEMS], 1):
            parts.append(f"{n}. {problem!r}")
        parts += self._left_out_problems()
        if len(self.requests):
            rows = [_COLUMNS, *self._shown_rows(longest=40)]
            parts.append("")
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for row in rows:
                cells = [
                    text.ljust(width) if name in _WORDS else text.rjust(width)
                    for name, text, width in zip(_COLUMNS, row, widths, strict=True)
                ]
                parts.append("  ".join(cells).rstrip())
        return "\n".join(parts + self._left_out_rows())

    def _repr_html_(self):
        parts = [f"<p><b>{html.escape(self._heading())}</b></p>"]
        for problem in self.problems[:_SHOWN_PROBLEMS]:
            hint = f"<div><i>Hint:</i> {_html(problem.hint)}</div>" if problem.hint else ""
            body = f"<div>{_html(problem.message)}</div>{self._excerpt(problem)}{hint}"
            parts.append(f'<div style="border-left:5px solid #CC3311; padding-left:1em; margin:1em 0">{body}</div>')
        parts += [f"<p>{html.escape(text)}</p>" for text in self._left_out_problems()]
        if len(self.requests):
            places = [f"text-align:{'left' if name in _WORDS else 'right'}; padding:0.2em 0.4em" for name in _COLUMNS]
            titles = [name.replace("_", "_<wbr>") for name in _COLUMNS]  # <wbr>: a line may break here
            head = "".join(f'<th style="{p}">{title}</th>' for p, title in zip(places, titles, strict=True))
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
            for row in self._shown_rows(longest=40):
                texts = [html.escape(text) for text in row]
                texts[1] = f'<code style="white-space:pre">{texts[1]}</code>'
                cells = "".join(f'<td style="{p}">{text}</td>' for p, text in zip(places, texts, strict=True))
                parts.append(f"<tr>{cells}</tr>")
            parts.append("</tbody></table>")
        parts += [f"<p>{html.escape(text)}</p>" for text in self._left_out_rows()]
        return "\n".join(parts)

    def _shown_rows(self, longest):
        """The first rows of the table as texts, with a dash for what is not counted in that memory."""
        for row in self.requests.head(_SHOWN_ROWS).itertuples(index=False):
            sectors, passes = row.space == "global", row.space == "shared"
            yield [
                str(row.line) if row.line else "-",
                _shorten(row.source, longest),
                row.space,
                row.op,
                str(row.bytes),
                f"{row.requests:,}",
                f"{row.sectors:,}" if sectors else "-",
                f"{row.sectors_per_request:.4g}" if sectors else "-",
                f"{row.wavefronts:,}" if passes else "-",
                f"{row.bank_conflicts:,}" if passes else "-",
            ]

    def _left_out_rows(self):
        rest = len(self.requests) - _SHOWN_ROWS
        return [f"... and {_number(rest, 'more row')} in .requests"] if rest > 0 else []

    def _heading(self):
        threads = self._report.get("threads")
        found = _number(len(self.problems), "problem") if self.problems else "no problems"
        return f"{self.kernel_name}: {found}" + (f" in {_number(threads, 'thread')}" if threads else "")

    def _left_out_problems(self):
        """What a repr says of the problems that it does not list."""
        listed, texts = len(self.problems), []
        if listed > _SHOWN_PROBLEMS:
            texts.append(f"... and {_number(listed - _SHOWN_PROBLEMS, 'more problem')} in .problems")
        unlisted = self._report.get("total", 0) - sum(problem.count for problem in self.problems)
        if listed and unlisted > 0:
            texts.append(f"The run went wrong {_number(unlisted, 'more time')} after these; mend these first.")
        return texts

    def _excerpt(self, problem):
        """The lines about a problem, numbered, its own in bold."""
        own = {problem.line, problem.other_line} - {None}
        around = sorted({n for line in own for n in range(line - 1, line + 2) if 1 <= n <= len(self._source_lines)})
        rows, before = [], None
        for n in around:
            if before and n > before + 1:
                rows.append("      ...")
            text = html.escape(f"{'-->' if n in own else '   '} {n:4} | {_shorten(self._source_lines[n - 1], 120)}")
            rows.append(f"<b>{text}</b>" if n in own else text)
            before = n
        return f'<pre style="margin:0.4em 0; font-family:monospace">{"<br>".join(rows)}</pre>' if rows else ""

    def _line(self, record):
        failed = _ASSERTION.search(record.get("text") or "")
        return int(failed[2]) if failed else self._line_at.get(_position(record))

    def _text(self, line):
        known = line is not None and 1 <= line <= len(self._source_lines)
        return self._source_lines[line - 1].strip() if known else ""

    def _sites(self, by_region=False):
        """Lists of the sites that are one access of the source, by line and then as they were first met.

        With `by_region`, accesses of one line to different tensors or arrays are told apart.
        """
        together = {}
        for site in self._report.get("sites", ()):
            line = self._line(site)
            key = (line or math.inf, None if line else _position(site), site["space"], site["op"], site["bytes"])
            region = (site.get("example") or {}).get("region") if by_region else None
            together.setdefault((*key, region), []).append(site)
        return [together[key] for key in sorted(together, key=lambda key: key[0])]  # sorted keeps the order of equals

    def _merged_problems(self):
        """The problems, those of one kind at one place of the source taken together."""
        together = {}
        for record in self._report.get("problems", ()):
            other = record.get("other") or {}
            if record["kind"] == "divergent_barrier" and other and not (other.get("left") or record.get("stuck")):
                if self._line(record) == self._line(other) is not None:
                    continue  # one barrier of the source, which the compiler has written twice
            ends = frozenset(self._line(side) or _position(side) for side in (record, other))
            together.setdefault((record["kind"], record.get("region"), ends), []).append(record)
        return [self._problem(records[0], sum(r.get("count", 1) for r in records)) for records in together.values()]

    def _problem(self, record, count):
        kind, other = record["kind"], record.get("other") or {}
        say = getattr(self, f"_say_{kind}", self._say_text)
        if _TOLD.search(record.get("text") or ""):
            say = self._say_text
        sizes = {key: record.get(key) or 0 for key in ("bytes", "element", "region_bytes")}
        message, hint = say({**record, **sizes, "count": count, "other": other})
        line = self._line(record)
        places = [
            tuple(side[key]) if side.get(key) else None for side in (record, other) for key in ("block", "thread")
        ]
        return Problem(kind, message, line, self._text(line), *places, self._line(other), count, hint)

    # Each kind's sentence and its hint.

    def _say_out_of_bounds(self, p):
        region, who, at = p.get("region"), _who(p), self._at(p)
        if _dimensions(p.get("type") or "") and p.get("index") is not None:
            return self._say_outside_a_dimension(p)
        if region is None:
            address = p.get("offset")
            what = _number(p["bytes"], "byte") + (f" at address {address:#x}" if address is not None else "")
            hint = "Where does the pointer come from, and does its index fit into an int?"
            if address is not None and 0 <= address < 4096:
                hint = "That is next to a null pointer: what was the kernel given for it?"
            return f"{who} {_does(p.get('op'), what)}, outside every tensor and shared array{at}", hint
        name, has = self._name(p), p["region_bytes"] // (p["element"] or 1)
        below = p["offset"] < 0
        limit = f"{region} has {_number(has, 'element' if p['element'] else 'byte', '')}"
        if below and has:
            limit = f"the first element of {region} is {region}[0]"
        if not has:
            hint = f"{region} is empty: does this launch have anything to do?"
        elif p["element"] and _wrapped(p["offset"] // p["element"]):
            hint = _wrapped(p["offset"] // p["element"])
        elif p.get("space") == "shared":
            hint = f"Is {region} large enough for this block, and is the index meant for {region}?"
        elif below:
            hint = "Guard the line, as in `if (i > 0)`, or look at how the index is made: does it overflow?"
        else:
            hint = f"Guard the line, as in `if (i < n)`: only indexes below {has} are inside {region}."
        return f"{who} {_does(p.get('op'), name)}, but {limit}{at}", hint

    def _say_outside_a_dimension(self, p):
        """An index of a[..][..] that leaves its own dimension, be it within the array or not."""
        region, index, inner = p.get("region"), p["index"], _dimensions(p["type"])
        hint = _wrapped(index) or f"An index of {inner[0]} elements runs from 0 to {inner[0] - 1}."
        if region is None or not p["element"] or p.get("offset") is None:
            array, outer = self._array_of_line(p, inner)
            if array is None:
                array = f"an array {p['type']}" + (f" of {region}" if region else "")
                return f"{_who(p)} uses index {index} of {array}, whose last index is {inner[0] - 1}{self._at(p)}", hint
            name = f"{array}{'[..]' * outer}[{index}]{'[..]' * (len(inner) - 1)}"
            if outer or inner[1:]:
                ends = "begins at 0" if index < 0 else f"ends at {inner[0] - 1}"
                limit = f"the {_ordinal(outer)} index of {array} {ends}"
            else:
                limit = (
                    f"the first element of {array} is {array}[0]" if index < 0 else f"{array} has {inner[0]} elements"
                )
            return f"{_who(p)} uses {name}, but {limit}{self._at(p)}", hint
        elements, size = p["region_bytes"] // p["element"], math.prod(inner)
        outer = (self._shape(region) or [elements // size] * (elements > size) + inner)[: -len(inner)]
        # The indexes before and behind the one that is wrong follow from the address.
        before, behind = divmod(p["offset"] // p["element"] - index * (size // inner[0]), size)
        indexes = [*_unravel(before, outer), index, *_unravel(behind, inner[1:])]
        name = region + "".join(f"[{i}]" for i in indexes)
        if len(indexes) == 1:
            limit = (
                f"the first element of {region} is {region}[0]" if index < 0 else f"{region} has {elements} elements"
            )
        else:
            kind = p["type"].split("[")[0].strip(" '") + " " + "".join(f"[{n}]" for n in outer + inner)
            ends = "begins at 0" if index < 0 else f"ends at {inner[0] - 1}"
            limit = f"{region} is a {kind}, whose {_ordinal(len(outer))} index {ends}"
        return f"{_who(p)} {_does(p.get('op'), name)}, but {limit}{self._at(p)}", hint

    def _array_of_line(self, p, inner):
        """The array that is declared with the size of a failed index and is indexed in its line, if it is the only one.

        Its name and the number of its dimensions before the one that is left; None and 0 if the source does not tell.
        """
        code = re.sub(r"//.*", "", self.source)
        element = re.escape(p["type"].strip("'").split("[")[0].strip())
        found = []
        for name in dict.fromkeys(re.findall(r"\b([A-Za-z_]\w*)\s*\[", self._text(self._line(p)))):
            declared = re.search(rf"\b{element}\b[^;(){{}}=]*?\b{name}\s*((?:\[[^\]]*\]\s*)+)", code)
            if declared and declared[1].count("[") >= len(inner):
                found.append((name, declared[1].count("[") - len(inner)))
        return found[0] if len(found) == 1 else (None, 0)

    def _say_race(self, p):
        other, here, there = p["other"], self._line(p), self._line(p["other"])
        same_block = other.get("block") == p.get("block")
        if same_block:
            who = f"threads {_triple(p['thread'])} and {_triple(other['thread'])} of block {_triple(p['block'])}"
            why = "and no barrier stands between"
            if p.get("under_way"):
                why = "while that copy is under way: it may write at any time until `__pipeline_wait_prior`"
            elif p.get("copied"):
                why = "and no barrier stands between this and the wait for that copy"
        else:
            who, why = f"{_who(p)} and {_who(other)}", "and nothing orders blocks within a launch"
        name, ops = self._name(p), [p.get("op"), other.get("op")]
        one_line = here == there
        if ops == ["store", "store"]:
            each = self._in(p) if one_line else f": one{self._in(p)}, the other{self._in(other)}"
            what = f"both write {name}{each}"
        elif one_line:
            what = f"both touch {name}{self._in(p)}: one {_does(ops[0], 'it')}, the other {_does(ops[1], 'it')}"
        else:
            one, another = (
                f"one {_does(ops[0], 'it')}{self._in(p)}",
                f"the other {_does(ops[1], 'it')}{self._in(other)}",
            )
            what = f"both touch {name}: {one}, {another}"
        if (p.get("under_way") or p.get("copied")) and same_block:
            hint = "Let all wait for their copies, then `__syncthreads();`, before anybody touches what they fill."
        elif not same_block:
            hint = "Use an atomic such as `atomicAdd`, give each block its own elements, or make two launches."
        elif ops == ["store", "store"]:
            hint = "Let one thread write it, or use an atomic such as `atomicAdd`."
        elif one_line or None in (here, there):
            hint = (
                "If all of them add to it, use `atomicAdd`; else read into a variable, `__syncthreads();`, then write."
            )
        else:
            first, last = sorted((here, there))
            hint = f"Put `__syncthreads();` between lines {first} and {last}; in a loop, also one at its end."
            if any("__syncthreads" in self._text(line).partition("//")[0] for line in range(first + 1, last)):
                hint = f"A barrier stands between lines {first} and {last}. In a loop, put another at its end: "
                hint += "one thread may be in the next round already."
        return f"{who} {what}, {why}", hint

    def _say_divergent_barrier(self, p):
        other, barrier = p["other"], f"{p.get('text') or '__syncthreads'}()"
        where = self._in(p, unless=f"{barrier};")
        someone = f"thread {_triple(other['thread'])}" if other.get("thread") else "another thread"
        if other.get("left"):
            does = f"{someone} has left the kernel{self._in(other)}"
        elif other.get("thread") and _who(other) != _who(p):
            elsewhere = self._line(other) and self._line(other) != self._line(p)
            does = f"{someone} waits" + (self._in(other) if elsewhere else " elsewhere")
        else:
            does = "not every thread comes there"
        hint = f"Every thread must come to the same `{barrier}`: move it out of the `if`, let nobody return before it."
        return f"{_who(p)} waits at {barrier}{where}, but {does}", hint

    def _say_uninitialized(self, p):
        message = (
            f"{_who(p)} {_does(p.get('op'), self._name(p))} before any thread of its block has written it{self._at(p)}"
        )
        return message, "Shared memory does not begin with zeros: write it first, then `__syncthreads();`."

    def _say_unwritten(self, p):
        region, more = p["region"], p["count"] - 1
        rest = f" (and {_number(more, 'more element', '')} of {region})" if more else ""
        elements = p["region_bytes"] // (p["element"] or 1)
        hint = (
            f"Are there threads for all {elements} elements of {region}, and does the guard let each of them through?"
        )
        return f"{self._name(p)} was never written{rest}", hint

    def _say_misaligned(self, p):
        size, needs, region = p["bytes"], p["needs"], p.get("region")
        if region is None:
            where, within = f"at address {p.get('offset') or 0:#x}", True
        else:
            where, within = f"at byte {p['offset']} of {region}", p["offset"] % needs != 0
            if p["element"] and p["offset"] % p["element"] == 0:
                where = f"at {self._name({**p, 'bytes': p['element']})}, byte {p['offset']} of {region}"
        article = "this" if size != needs else "an" if size == 8 else "a"
        rule = f"{article} {size}-byte access needs an address that is a multiple of {needs}"
        rule += "" if within else f", and {region} itself begins at another"
        hint = ""
        if region is not None and p["element"] and needs > p["element"]:
            step = needs // p["element"]
            hint = f"Begin at an index that is a multiple of {step}, or read and write the elements one by one."
            if not within:
                hint = f"Is {region} a slice such as `t[1:]`? Pass a `.clone()` of it, or go element by element."
        return f"{_who(p)} {_does(p.get('op'), f'{size} bytes')} {where}: {rule}{self._at(p)}", hint

    def _say_runaway(self, p):
        line = self._line(p)
        quote = f" (`{_quote(self._text(line))}`)" if self._text(line) else ""
        where = f" in the loop at line {line}{quote}" if line else ""
        hint = "Does what the loop asks for ever change?"
        if not p.get("index"):
            return f"{_who(p)} goes round and round{where}, and does nothing there: does it ever end?", hint
        hint += " If the loop is right and only long, raise `max_steps`."
        return f"{_who(p)} has run {p['index']:,} steps{where}: does it ever end?", hint

    def _say_trap(self, p):
        return f"{_who(p)} stopped itself with __trap(){self._at(p)}", ""

    def _say_refused_launch(self, p):
        return p["text"], "A refused kernel does not run at all: check the numbers of blocks, threads and bytes."

    def _say_text(self, p):
        """What ended the launch: the runtime has told the thread's story already."""
        if failed := _ASSERTION.search(p.get("text") or ""):
            return f"{_who(p)} fails the assertion `{failed[1]}`{self._at(p)}", ""
        told = _TOLD.search(p.get("text") or "")
        return f"{_who(p)} {told[1] if told else 'met a problem of kind ' + p['kind']}{self._at(p)}", ""

    def _at(self, record):
        """' (line 7: `y[i] = x[i];`)', empty where the line is not known."""
        line = self._line(record)
        quote = f": `{_quote(self._text(line))}`" if self._text(line) else ""
        return f" (line {line}{quote})" if line else ""

    def _in(self, record, unless=None):
        """' in line 7 (`y[i] = x[i];`)', empty where the line is not known; no quote of what was just said."""
        line = self._line(record)
        text = self._text(line)
        return (f" in line {line}" + (f" (`{_quote(text)}`)" if text and text != unless else "")) if line else ""

    def _shape(self, region):
        """The dimensions of a shared array, where the runtime tells its type."""
        types = {shared["name"]: shared.get("type") for shared in self._report.get("shared", ())}
        return _dimensions(types.get(region) or "")

    def _name(self, p):
        """What is touched: 'x[3]', 'tile[0][3]', 'x[4] to x[7]', '2 bytes at byte 6 of x'."""
        region, element, offset, size = p.get("region"), p["element"], p.get("offset") or 0, p["bytes"]
        if region is None:
            return f"the memory at address {offset:#x}"
        if region == "a variable of the source":
            return region
        start = offset % element if element else offset
        if element and 0 < start <= element - size:  # a member of a struct
            whole = self._name({**p, "offset": offset - start, "bytes": element})
            return f"{_number(size, 'byte')} at byte {start} of {whole}"
        if start or not element:
            return f"{_number(size, 'byte')} at byte {offset} of {region}"
        if not region.isidentifier():  # a parameter without a name
            return f"element {offset // element} of {region}"
        shape = self._shape(region)
        ends = [offset // element] + ([(offset + size - 1) // element] if size > element else [])
        indexes = [_unravel(end, shape) if shape else [end] for end in ends]
        return " to ".join(region + "".join(f"[{i}]" for i in index) for index in indexes)


def _position(record):
    """The code position of a record as a number; 0 where it is not known."""
    position = record.get("pc") or 0
    return int(position, 16) if isinstance(position, str) else position


def _cost(site):
    """Sectors or wavefronts: both are a trip of 32 times a few bytes."""
    return site.get("sectors", 0) if site["space"] == "global" else site.get("wavefronts", 0)


def _lanes(example):
    """What a picture takes of a site's example."""
    base, lanes = example.get("base_alignment") or 0, [(lane, offset) for lane, offset in example["lanes"]]
    warp = f"warp {example.get('warp', 0)} of block {_triple(example.get('block') or (0, 0, 0))}"
    return {
        "region": example.get("region"),
        "element": example.get("element"),
        "base": base,
        "lanes": lanes,
        "warp": warp,
        "cost_of_copy": example.get("cost_of_copy"),
        "from_words": example.get("from_words"),
    }


def _triple(place):
    return f"({','.join(str(n) for n in place)})"


def _who(record):
    if not record.get("thread"):
        return "a thread"
    return f"thread {_triple(record['thread'])}" + (
        f" of block {_triple(record['block'])}" if record.get("block") else ""
    )


def _does(op, what):
    return {"load": f"reads {what}", "store": f"writes {what}", "atomic": f"updates {what} atomically"}.get(
        op, f"uses {what}"
    )


def _dimensions(type_name):
    """[16, 17] from 'float [16][17]'."""
    return [int(n) for n in re.findall(r"\[(\d+)\]", type_name)]


def _unravel(flat, shape):
    """The indexes of element `flat` of an array; the first one may leave its dimension."""
    if not shape:
        return []
    indexes = []
    for size in reversed(shape[1:]):
        flat, index = divmod(flat, size)
        indexes.append(index)
    return [flat, *reversed(indexes)]


def _number(n, what, commas=","):
    return f"{n:{commas}} {what}{'' if n == 1 else 's'}"


def _shorten(text, most=_LONGEST_QUOTE):
    return text if len(text) <= most else text[: most - 4].rstrip() + " ..."


def _quote(text):
    """A source line as it stands in a sentence: without its comment, and not too long."""
    return _shorten(re.sub(r"\s*//[^\"]*$", "", text) or text)


def _wrapped(index):
    """A hint, where an index is a number below 0 that was taken for an unsigned one."""
    if not 2**31 <= index < 2**32:
        return ""
    return f"{index} is what an unsigned number makes of {index - 2**32}: does a subtraction go below 0?"


def _ordinal(n):
    return ("first", "second", "third")[n] if n < 3 else f"{n + 1}th"


def _html(text):
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
