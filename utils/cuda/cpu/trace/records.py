"""What the runtime recorded (report.cpp writes it as JSON), with the lines of the learner's source."""

import math
import re
from dataclasses import dataclass, field, fields, replace

from utils.cuda.common.lexer import lines_of
from utils.cuda.cpu.trace.allocations import counts_elements
from utils.cuda.cpu.trace.causes import is_fenced, polled, returned, set_by_one, uneven, where_they_meet, writes_own
from utils.cuda.cpu.trace.locks import Lock, lock_around, never_met
from utils.cuda.cpu.trace.loops import never_changes
from utils.cuda.cpu.trace.members import kind_of, members
from utils.cuda.cpu.trace.pointers import follows_list, overlapping_parts, own_pointer
from utils.cuda.cpu.trace.signals import is_signal
from utils.cuda.cpu.trace.source import (
    Branch,
    alternatives,
    array_dimensions,
    array_of_line,
    calls_itself,
    code_around,
    coordinates,
    copies_as_group,
    declared_shape,
    guard,
    line_of,
    lines_of_asm,
    loop_around,
    runs_over_all,
    takes_remainder,
    uses_result,
)
from utils.cuda.cpu.trace.waits import (
    breaks_out,
    counts_early,
    is_cooperative,
    is_of_some,
    may_come_again,
    skipped_wait,
    waits_between,
    waits_in_loop,
    where_to_wait,
)
from utils.cuda.cpu.unset_locals import unset_variable

__all__ = ["Example", "Product", "Record", "Recorded", "Side", "Site", "accesses", "read"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place in the source, and what is done there."""

    position: int = 0  # in the compiled code, 0 if unknown
    line: int | None = None  # counts from 1, None if unknown
    source: str = ""  # the line's text
    elsewhere: str = ""  # the line of a header, in words, if it is in none of the source
    op: str | None = None  # load, store or atomic

    @property
    def where(self):
        """What identifies a place: the line, or the position if the line is unknown."""
        return self.line or self.elsewhere or self.position


@dataclass(frozen=True, kw_only=True)
class Side(Place):
    """What one thread did at a place: a problem has one side, a race or a barrier has two."""

    block: tuple | None = None  # (x, y, z)
    thread: tuple | None = None
    left: bool = False  # the thread has left the kernel
    text: str = ""  # the function at which it waits; of a refused launch, the whole sentence
    by: str = ""  # what acts for it asynchronously: 'bulk copy', 'wgmma'
    coordinates: tuple = ()  # what its index is computed from, ('blockIdx.x', 'threadIdx.x'); empty if not known


@dataclass(frozen=True, kw_only=True)
class Record(Side):
    """A problem as the runtime found it."""

    kind: str
    count: int = 1
    other: Side = Side()  # the second side of a race or of a barrier
    ended: str = ""  # what the thread did that ended the launch, as in "divides a whole number by zero"
    bytes: int = 0  # of the access
    needs: int = 0  # the alignment it needs, in bytes
    space: str | None = None  # global, shared or constant
    region: str | None = None  # the tensor or the array
    origin: str = ""  # what it was before a kernel named it: 'memory from cudaMalloc'; empty if it is a tensor
    allocated: Place = Place()  # where the host has allocated it, if that is known
    counts_elements: bool = False  # the size there does not look like bytes
    same_tensor: tuple = ()  # the names of all arguments that are this one tensor
    overlapping: dict = field(default_factory=dict)  # what other arguments call its element: {'c': 'c[0]'}
    parts: tuple = ()  # pointers of the two lines, if they point to different places in it
    list_ends: bool = False  # of no region: the line follows a list, which may end there
    own_pointer: str = ""  # of no region: the pointer, if the kernel sets it itself
    full_heap: int = 0  # the bytes of the kernels' heap, if `malloc` or `new` has returned null in this launch
    region_bytes: int = 0
    element: int = 0  # bytes per element of the region
    owner: tuple | None = None  # the block whose shared memory it is, in a cluster
    shape: tuple = ()  # of the region, if it is an array with dimensions
    offset: int | None = None  # in bytes from the region's first byte; from address 0 if there is no region
    type: str = ""  # 'float [16]': the array that an index has left, here a row of `float tile[16][16]`
    index: int | None = None  # that index; for a thread that does not end, its steps
    array: str | None = None  # the name of that array in the source,
    outer: int = 0  # and how many dimensions it has before those of `type`
    stuck: bool = False  # no thread of the block could continue
    apart: bool = False  # two threads wait at two calls, though it may be one line
    under_way: bool = False  # an asynchronous copy was in flight
    copied: bool = False  # one side of a race is an asynchronous copy
    one_block: bool = False  # whatever two threads race at these places, they are of one block
    one_warp: bool = False  # and of one warp
    of_block: bool = False  # both accesses of a race are atomic, one of them for the threads of its block only
    both_volatile: bool = False  # both accesses of a race
    signal: bool = False  # the race is meant (signals.py)
    checked: bool = False  # the source uses what the call that fails returns
    gone: str = ""  # why the region no longer exists: 'its function has returned' of a local array
    unset: bool = False  # the value is that of a variable which was never set,
    depends: bool = False  # what the launch does depends on one,
    name: str = ""  # its name; it is declared in the line of `other`
    set_by_one: bool = False  # the variable, in an `if` that one thread takes
    as_group: bool = False  # the asynchronous copies of the source are those of cooperative groups
    all_elements: bool = False  # the loop counts the index, alike in all threads
    remainder: bool = False  # the index is computed with `%`
    cooperative: bool = False  # the source has a barrier of the whole grid
    block_fence: bool = False  # the function that writes has a `__threadfence_block`
    fence_of_one: bool = False  # one thread counts for its block, behind a fence, but not behind a barrier
    fenced: bool = False  # there is a `__threadfence` behind the line that writes
    lock: Lock | None = None  # which the thread has there
    returned: str = ""  # the atomic of which a race reads the result from memory: 'atomicAdd(count, 1)'
    polled: str = ""  # how the flag is to be read that a line of a race waits for
    writes_own: bool = False  # each thread its own element
    lines: list = field(default_factory=list)  # of a race, in order; of the call, if one is in a function of its own
    called: list = field(default_factory=list)  # those of them of which the call is not known
    parted: bool = False  # the two lines of a race are in an `if` and its `else`
    recursive: bool = False  # the function that the line is in calls itself
    waits_between: str = ""  # '__syncthreads' or '__syncwarp', if the source has one between the two lines of a race,
    waits_in_loop: str = ""  # or in the loop around its one line
    members: dict = field(default_factory=dict)  # of the struct that an element is: (offset, bytes) to '.value'
    skipped_wait: tuple | None = None  # the line of one that an `if` may skip, and that `if`
    where_to_wait: str = ""  # where one would be reached by every thread, if not simply between them
    guard: Branch | None = None  # the condition or the loop that the line depends on
    loop: Branch | None = None  # the innermost one around the line, or around both lines
    may_come_again: bool = False  # a thread, to the two lines of a race
    loop_of_some: bool = False  # it is in an `if` or `else` that not all threads may enter
    uneven: Branch | None = None  # where a block's threads part in front of a barrier
    never_met: str = ""  # a question, if the loop of a thread that does not end has `atomicCAS`
    loop_left: bool = False  # by `break`, and nothing in the kernel returns
    unchanging: bool = False  # nothing in the loop changes what its condition reads

    @property
    def in_step(self):
        """Whether a race is between volatile accesses by one warp."""
        return self.both_volatile and self.one_warp


@dataclass(frozen=True, kw_only=True)
class Example:
    """One request of a site: the costliest by the first warp, in the first block, that makes the access."""

    block: tuple = (0, 0, 0)
    warp: int = 0
    region: str | None = None
    element: int | None = None
    base_alignment: int = 0  # the address of the region's first byte, modulo 512
    lanes: tuple = ()  # pairs of a lane and its offset in bytes from the region's first byte
    cost_of_copy: int | None = None  # as in pictures.Access
    from_words: tuple | None = None
    matrices: str | None = None  # of rows that ldmatrix or stmatrix moves: "rows", or "transposed"


@dataclass(frozen=True, kw_only=True)
class Site(Place):
    """A memory access in the compiled code, with its cost over the whole launch."""

    space: str
    bytes: int  # per thread
    requests: int
    sectors: int = 0
    wavefronts: int = 0
    bank_conflicts: int = 0
    example: Example = Example()


@dataclass(frozen=True, kw_only=True)
class Product(Place):
    """A product of tensor cores in the compiled code, and the warp that computed it first."""

    name: str  # mma.sync, wmma::mma_sync, wmma.mma.sync
    product: tuple  # as `utils.cuda.cpu.fragments.of_product` takes it
    count: int  # how often warps did it
    instructions: int = 0  # of the tensor cores, in all these products, on the trace's GPU
    block: tuple = (0, 0, 0)
    warp: int = 0


@dataclass(frozen=True, kw_only=True)
class UnitUse(Place):
    """Instructions that work for a whole warp or warpgroup, or begin a copy, and are no `Product`."""

    unit: str  # as in `Trace.units`
    name: str
    instructions: int
    sectors: int = 0
    product: tuple = ()  # m, n, k and the types of d, a, b and c, numbered as in `utils.cuda.cpu.fragments`


@dataclass(frozen=True)
class Recorded:
    """All that the runtime recorded: `problems` in the order found; `total` also counts those not listed.

    `pieces` are the asynchronous copies of the block `pieces_of` to its shared memory, the first one to each place:
    (shared variable, offset, bytes, tensor or "" for zeros, offset in it), offsets in bytes. `tensors` has the shape
    and the bytes per element of each tensor of the launch, if they are known, and the shapes of shared arrays.
    """

    problems: list[Record]
    sites: list[Site]
    threads: int
    total: int
    products: list[Product] = field(default_factory=list)
    units: list[UnitUse] = field(default_factory=list)
    pieces: list[tuple] = field(default_factory=list)
    pieces_of: tuple | None = None
    tensors: dict[str, tuple] = field(default_factory=dict)


def read(report, source, lines, headers=None) -> Recorded:
    """What `report` says, the dictionary from the runtime's JSON.

    `lines` is called once, with a list of code positions; for each it returns the line numbers of `source`, the
    innermost first where functions were inlined into one another. `headers` gives, for positions that have none, the
    lines of headers in words.
    """
    problems, sites = report.get("problems", ()), report.get("sites", ())
    products, units, copied = report.get("products", ()), report.get("units", ()), report.get("copied") or {}
    sides = [p[side] for p in problems for side in ("other", "allocated") if p.get(side)]
    places = [*sites, *products, *units, *problems, *sides]
    positions = list(dict.fromkeys(filter(None, map(_position, places))))
    asm = lines_of_asm(source)
    found = lines(positions) if positions else ()
    line_at = {position: line_of(at, asm) for position, at in zip(positions, found, strict=True)}
    others = [position for position, line in line_at.items() if not line] if headers else []
    elsewhere = dict(zip(others, headers(others), strict=True)) if others else {}
    texts = dict(enumerate((text.strip() for text in lines_of(source)), 1))
    shapes = {shared["name"]: array_dimensions(shared.get("type") or "") for shared in report.get("shared", ())}
    kinds = {
        shared["name"]: (shared.get("type") or "").partition("[")[0].strip() for shared in report.get("shared", ())
    }

    def place(record):
        line = record.get("line") or line_at.get(_position(record))
        position = _position(record)
        other = "" if line else elsewhere.get(position, "")
        return {"position": position, "line": line, "source": texts.get(line, ""), "elsewhere": other}

    def problem(record):
        more, second, array = place(record), record.get("other") or {}, record.get("region")
        other = _made(Side, second, **place(second))
        if record.get("under_way"):
            more["as_group"] = copies_as_group(source)
        if record.get("type"):
            more["array"], more["outer"] = array_of_line(source, more["source"], record["type"])
        if declared := record.get("declared"):
            line, more["name"] = unset_variable(source, declared)
            if line:
                other = Side(line=line, source=texts[line])
                more["set_by_one"] = set_by_one(source, line, more["name"])
                more["line"], more["source"] = more["line"] or line, more["source"] or texts[line]
        if record.get("allocated"):
            more["allocated"] = _made(Place, {}, **place(record["allocated"]))
            more["counts_elements"] = counts_elements(source, more["allocated"].line)
        if (array or "").startswith("memory from "):
            more["element"] = _element_of_allocation(record, more["source"])
        if more["line"]:
            more["guard"] = guard(source, more["line"], array)
            if not array:
                more["list_ends"] = follows_list(source, more["line"])
                more["own_pointer"] = own_pointer(source, more["line"])
            more["remainder"] = takes_remainder(source, more["line"], array)
            more["checked"] = record["kind"] == "failed_call" and uses_result(source, more["line"])
            more["recursive"] = calls_itself(source, more["line"])
            more["loop"] = loop_around(source, *sorted((more["line"], other.line or more["line"])))
            more["loop_left"] = breaks_out(source, more["loop"])
            if record["kind"] == "divergent_barrier" and not record.get("ended"):
                more["uneven"] = uneven(source, more["line"])
            if record["kind"] == "runaway" and more["loop"]:
                more["unchanging"] = never_changes(source, more["loop"])
                more["never_met"] = never_met(source, more["loop"])
        if more["line"] and other.line:
            more["signal"] = record["kind"] == "race" and is_signal(source, array, record, more["line"], other)
            more["coordinates"] = coordinates(source, more["line"], array)
            more["all_elements"] = runs_over_all(source, more["line"], array, more["loop"])
            other = replace(other, coordinates=coordinates(source, other.line, array))
            both, more["called"] = where_they_meet(source, *sorted((more["line"], other.line)))
            more["loop"], more["lines"] = loop_around(source, *both), both
            if array and record.get("space") == "shared":
                more["parts"] = overlapping_parts(source, array, more["line"], other.line)
            more["cooperative"] = is_cooperative(source, more["line"])
            writes = other.line if record["op"] == "load" else more["line"]
            around = code_around(source, writes)
            more["block_fence"] = "__threadfence_block" in around
            more["fence_of_one"] = counts_early(source, writes)
            more["fenced"] = is_fenced(source, writes)
            more["lock"] = lock_around(source, writes, array)
            more["writes_own"] = writes_own(source, writes, array)
            more["parted"] = alternatives(source, *both) is not None
            if array and {record["op"], other.op} == {"load", "atomic"}:
                more["returned"] = returned(source, array, more["line"], other.line)
            if array and "load" in (record["op"], other.op):
                reads = more["line"] if record["op"] == "load" else other.line
                more["polled"] = polled(source, array, reads)
            more["where_to_wait"] = where_to_wait(source, *both, record.get("one_warp", False))
            more["waits_between"] = waits_between(source, *both)
            more["waits_in_loop"] = waits_in_loop(source, both[0]) if both[0] == both[1] else ""
            more["may_come_again"] = may_come_again(source, *both)
            more["loop_of_some"] = bool(more["loop"]) and is_of_some(source, more["loop"])
            more["skipped_wait"] = skipped_wait(source, *both, record.get("one_warp", False))
        kind = kinds.get(array) or (kind_of(source, array, more["line"]) if array and more["line"] else "")
        more["members"] = members(source, kind, record.get("element")) if kind else {}
        shape = shapes.get(array, ())
        if record.get("space") == "local" and record.get("element"):
            shape = declared_shape(source, array, record["region_bytes"] // record["element"])
        return _made(Record, record, other=other, shape=shape, **more)

    def site(record):
        return _made(Site, record, **place(record), example=_made(Example, record.get("example") or {}))

    return Recorded(
        [*map(problem, problems)],
        [*map(site, sites)],
        report.get("threads", 0),
        report.get("total", 0),
        [_made(Product, record, **place(record)) for record in products],
        [_made(UnitUse, record, **place(record)) for record in units],
        [*map(tuple, copied.get("pieces", ()))],
        tuple(copied["block"]) if copied else None,
        {name: (shape, 0) for name, shape in shapes.items()}
        | {name: (tuple(shape), size) for name, (shape, size) in report.get("tensors", {}).items()},
    )


def accesses(sites, by_region=False) -> list[list[Site]]:
    """The sites grouped by access of the source, by line and then in the order first seen.

    With `by_region`, accesses in one line to different tensors or arrays are kept apart.
    """
    together = {}
    for site in sites:
        key = (site.line or math.inf, site.where, site.space, site.op, site.bytes)
        together.setdefault((*key, site.example.region if by_region else None), []).append(site)
    return [together[key] for key in sorted(together, key=lambda key: key[0])]  # sorted keeps the order of equals


def _element_of_allocation(record, line_text) -> int:
    """The bytes per element of memory that no kernel has named, judging by the access; 0 if that does not show it.

    An access to a member of a struct, `p[i].x` or `p->x`, is smaller than an element.
    """
    size, at, total = record["bytes"], record["offset"], record["region_bytes"]
    whole = size in (1, 2, 4, 8, 16) and at % size == 0 and total % size == 0
    return size if whole and not re.search(r"->|\]\s*\.\s*[a-zA-Z_]", line_text) else 0


def _made(kind, record, **more):
    """A dataclass from a record's fields, without those that are null; lists of numbers become tuples."""
    names = {each.name for each in fields(kind)} - set(more)
    given = {name: value for name, value in record.items() if name in names and value is not None}
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}, **more)


def _position(record) -> int:
    """The code position of a record; 0 if unknown."""
    return int(record.get("pc") or "0", 16)
