"""`Recording`: what the kept blocks of one launch did, step by step, in the order in which a player shows it."""

import json
import math
from dataclasses import dataclass, field, fields

__all__ = ["KINDS", "Barrier", "Block", "Marked", "Memory", "Recording", "Step", "kept_sentence", "window"]

#: The kinds of steps. "line": only variables change. "passed": lanes that waited at a barrier go on. "product": tensor
#: cores multiply. A "copy" without values begins, one with values arrives. "arrive": a barrier in memory changes.
KINDS = ("read", "write", "atomic", "copy", "barrier", "passed", "shuffle", "exit", "line", "product", "arrive")

Number = int | float
Value = Number | str | None


@dataclass
class Memory:
    """A tensor, or an array in shared memory.

    `values` are those before the launch, flat; None: never written. With `window` (first, count), they are only that
    part. `block` is the number of the kept block that a shared array belongs to. `offset` is where element 0 begins, in
    bytes: in global memory after a multiple of 512, in shared memory after the start of the block's. So element i
    is in sector (offset + i * itemsize) // 32, and in bank (offset + i * itemsize) // 4 % 32.
    """

    name: str
    space: str  # "global", "shared" or "constant"
    type: str  # of an element, as in the source: "float"
    itemsize: int
    shape: tuple[int, ...]
    values: list[Value]
    block: int | None = None
    window: tuple[int, int] | None = None
    offset: int = 0


@dataclass
class Block:
    """A kept block: its index in the grid, and how many threads it has."""

    index: tuple[int, int, int]
    threads: int


@dataclass
class Barrier:
    """A barrier in memory: `full[1]`, of a kept block."""

    name: str
    block: int


@dataclass
class Step:
    """What one warp of a kept block does at once: one access of one line, or one event.

    Lists have one item per active lane, in the order of `lanes`; `values` has `width` per lane, for adjacent elements.
    `elements` are flat indices; None: the lane is outside. A bulk copy has several of them per lane. An atomic's values
    are those in memory afterwards.
    `variables` are those that have changed in any of the lanes since its last step; None: the lane has no such variable
    now. `barriers` are those in memory that change, or for which lanes wait, as they are after the step: number in
    `Recording.barriers`, phase, arrivals, expected arrivals, bytes announced, come and in flight, and, if the phase is
    over, the arrivals that the next one expects, otherwise 0.
    """

    block: int
    warp: int
    line: int
    kind: str
    lanes: list[int]
    memory: int | None = None
    elements: list[int | None] | None = None
    width: int = 1
    values: list[Value] | None = None
    sectors: int | None = None  # of a request to global memory; then the fewest for so many bytes
    least_sectors: int | None = None
    wavefronts: int | None = None  # of a request to shared memory; then those without a bank conflict
    least_wavefronts: int | None = None
    variables: dict[str, list[Value]] = field(default_factory=dict)
    outside: list[tuple[int, str]] = field(default_factory=list)  # lane, and where its address points
    source_lanes: list[int | None] | None = None  # of a shuffle: the lane that each active lane reads
    barrier: str | None = None  # of "barrier" and "passed": what the lanes wait at
    matrices: str | None = None  # "rows" or "transposed": rows of 8 x 8 matrices that ldmatrix or stmatrix moves
    product: int | None = None  # its number in `Recording.products`,
    operands: list[int] | None = None  # and those of A's, B's, C's and D's values in `Recording.operands`
    bytes: int | None = None  # of a bulk copy; announced to a barrier in memory
    phase: int | None = None  # of "barrier" and "passed" at a barrier in memory: the phase whose end lanes wait for
    operation: str | None = None  # of "arrive", if lanes do not arrive: init, expect_tx, complete_tx or inval
    barriers: list[list[int]] = field(default_factory=list)


@dataclass
class Marked:
    """A problem, with the steps that show it: one, or two for a race. A thread is (kept block, number in the block)."""

    kind: str
    text: str
    line: int | None
    steps: list[int] = field(default_factory=list)
    threads: list[tuple[int, int]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


@dataclass
class Recording:
    """What the kept blocks of one launch did. `kept` is a sentence that says which blocks and steps.

    `products` are the different products of tensor cores: name, shape, and four tiles. Of a tile, `cells` lists for
    each of `lanes` and each element of its fragment the place, row * columns + column; `operands` are lists of values
    in the same order. `together` are the rows and columns whose elements are neighbours everywhere.

    Floating-point numbers are the shortest decimals for the same number of their type: a float32 is 0.1, not
    0.10000000149.
    """

    kernel: str
    language: str  # "cuda" or "python"
    source: list[str]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    kept: str
    memories: list[Memory]
    blocks: list[Block]
    steps: list[Step]
    problems: list[Marked] = field(default_factory=list)
    first_line: int = 1
    note: str = ""  # what the reader must know first; may be empty
    products: list[dict] = field(default_factory=list)
    operands: list[list[Value]] = field(default_factory=list)
    matrices: dict[str, dict] = field(default_factory=dict)  # such a tile for each value of `Step.matrices` that occurs
    barriers: list[Barrier] = field(default_factory=list)

    def to_json(self) -> str:
        """The recording as compact JSON.

        Memories, blocks and problems are objects. A step is a row: `step_fields` names its columns, and columns left
        out at its end are null. `kind` is an index into `kinds`, and `lanes` a mask, bit i for lane i. In lists,
        [first, stride, count] stands for `count` items. Special values are "nan", "inf" and "-inf"; a whole number
        that a double cannot hold is text. A read's values are null if memory holds them according to the steps before
        it.
        """
        names = [each.name for each in fields(Step)]
        replayed = _Replay(self.memories)
        rows = []
        for step in self.steps:
            row = [getattr(step, name) for name in names]
            row[names.index("kind")] = KINDS.index(step.kind)
            row[names.index("lanes")] = sum(1 << lane for lane in step.lanes)
            row[names.index("width")] = None if step.width == 1 else step.width
            row[names.index("values")] = None if replayed.knows(step) else runs(step.values)
            row[names.index("elements")] = runs(step.elements)
            row[names.index("source_lanes")] = runs(step.source_lanes)
            row[names.index("variables")] = {name: runs(of_lanes) for name, of_lanes in step.variables.items()}
            replayed.do(step)
            row = [None if item in ({}, []) else item for item in row]
            while row[-1] is None:
                row.pop()
            rows.append(row)
        whole = {"version": 1, **{each.name: getattr(self, each.name) for each in fields(self)}}
        whole["memories"] = [{**vars(memory), "values": runs(memory.values)} for memory in self.memories]
        whole |= {name: [*map(vars, getattr(self, name))] for name in ("blocks", "problems", "barriers")}
        whole["products"] = [
            {**product, "tiles": [{**tile, "cells": runs(tile["cells"])} for tile in product.get("tiles", ())]}
            for product in self.products
        ]
        whole["matrices"] = {name: {**tile, "cells": runs(tile["cells"])} for name, tile in self.matrices.items()}
        whole["operands"] = [runs(values) for values in self.operands]
        whole |= {"kinds": KINDS, "step_fields": names, "steps": rows}
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_SMALL = 4096  # elements; a tensor of at most so many is kept whole
_LARGEST_WINDOW = 2**18  # elements


def window(steps, memory, count) -> tuple[int, int] | None:
    """The part (first, count) of a memory of `count` elements that the steps touch; None if it is small enough to keep
    whole. `memory` is its number in the steps."""
    if count <= _SMALL:
        return None
    own = [step for step in steps if step.memory == memory]
    first = min((e for step in own for e in step.elements if e is not None), default=0)
    last = max((e + step.width - 1 for step in own for e in step.elements if e is not None), default=first - 1)
    return first, min(last + 1, count, first + _LARGEST_WINDOW) - first


def kept_sentence(indices, grid, steps, cut) -> str:
    """A sentence on what a recording keeps: these blocks, and so many steps; `cut` says that there were more."""
    names = ["(" + ",".join(map(str, index)) + ")" for index in indices]
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
    count = f"the first {steps:,}" if cut else f"all {steps:,}"
    return f"Block{'s' if len(names) > 1 else ''} {listed} of {math.prod(grid):,}; {count} steps."


class _Replay:
    """What memories hold while steps are played, so that the JSON can leave out what the page can work out."""

    def __init__(self, memories):
        self.first = [memory.window[0] if memory.window else 0 for memory in memories]
        self.held = [list(memory.values) for memory in memories]

    def _each(self, step):
        """(values, index, number in step.values) of each element of a step that is not outside."""
        held, first = self.held[step.memory], self.first[step.memory]
        for number, element in enumerate(step.elements):
            for k in range(step.width if element is not None else 0):
                if 0 <= element + k - first < len(held):
                    yield held, element + k - first, number * step.width + k

    def knows(self, step):
        """Whether a step is a read of exactly what the memory holds."""
        if step.kind != "read" or step.memory is None or None in step.elements:
            return False
        if step.values is None:
            return True
        same = [_same(held[index], step.values[number]) for held, index, number in self._each(step)]
        return len(same) == len(step.values) and all(same)

    def do(self, step):
        """Write what a step writes."""
        if step.kind in ("write", "atomic", "copy") and step.memory is not None and step.values is not None:
            for held, index, number in self._each(step):
                held[index] = step.values[number]


def _same(a, b):
    return a is b or (type(a) is type(b) and (a == b or (a != a and b != b)))


def runs(items) -> list | None:
    """`items` for JSON, with [first, stride, count] for three or more whole numbers at equal distances, and
    [value, 0, count] for three or more equal items."""
    if items is None:
        return None
    written, packed, k = [_written(item) for item in items], [], 0
    while k < len(written):
        end, stride = k + 1, 0
        if end < len(written) and type(written[k]) is type(written[end]) is int:
            stride = written[end] - written[k]
            while end < len(written) and type(written[end]) is int and written[end] - written[end - 1] == stride:
                end += 1
        else:
            while end < len(written) and type(written[end]) is type(written[k]) and written[end] == written[k]:
                end += 1
        if end - k < 3:
            end = k + 1
        packed.append(written[k] if end - k < 3 else [written[k], stride, end - k])
        k = end
    return packed


def _written(item):
    """A value as JSON can hold it, whole numbers without a fraction. True and False become 1 and 0."""
    if item is None or isinstance(item, str):
        return item
    if isinstance(item, int):
        return int(item) if abs(item) <= 2**53 else str(item)
    if math.isnan(item):
        return "nan"
    if math.isinf(item):
        return "inf" if item > 0 else "-inf"
    is_negative_zero = item == 0 and math.copysign(1, item) < 0
    return int(item) if item.is_integer() and abs(item) <= 2**53 and not is_negative_zero else item
