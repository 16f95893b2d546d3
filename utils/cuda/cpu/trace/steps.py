"""Turns what the runtime recorded into a `Recording`: steps of warps, with values, variables, costs and problems."""

import ctypes
import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from utils.cuda.cpu.trace.barriers import Barriers
from utils.cuda.cpu.trace.marked import marked
from utils.cuda.cpu.trace.operands import Operands, matrices
from utils.cuda.cpu.trace.ordering import fair, with_exits_early
from utils.cuda.cpu.trace.places import Place
from utils.cuda.cpu.trace.source import line_of, lines_of_asm
from utils.cuda.cpu.trace.values import decoded, kind_of
from utils.cuda.player.ordering import passed_together, without_repeated_lines
from utils.cuda.player.recording import Block, Recording, Step, kept_sentence

__all__ = ["Made", "recording"]

# recorder.h: Did
_DID = ("read", "write", "atomic", "copy", "barrier", "passed", "shuffle", "exit", "line", "product", "arrive")
_MATRICES = (None, "rows", "transposed")  # requests.h: matrix_rows, matrix_columns
_UNSET = 0xFE  # a variable that has no value yet (recorder.cpp)


@dataclass
class Made:
    """What the runtime recorded: arrays of the structs of recorder.h, and the memories as dictionaries."""

    steps: np.ndarray
    order: np.ndarray
    seen: np.ndarray
    frames: np.ndarray
    bytes: np.ndarray
    memories: list[dict]
    products: np.ndarray  # a row of numbers for each, as of_product takes them
    operands: np.ndarray
    barriers: list[tuple]  # name, block and address of each
    changes: np.ndarray
    copies: np.ndarray
    runs: np.ndarray
    landed: np.ndarray
    cut: bool


def recording(recorder, made, debug) -> Recording:
    """The `Recording` of what a Recorder (recorder.py) made, with at most `recorder.steps` steps."""
    places = [Place(memory, recorder) for memory in made.memories]
    numbers = {number: k for k, number in enumerate(sorted(recorder.kept))}
    reader = _Reader(made, debug, places, numbers, recorder.trace.source)
    raws = fair(made.steps, 2 * recorder.steps, made.steps["block"])  # some show nothing new
    steps = [step for raw in raws for step in reader.steps(raw)]
    steps = reader.barriers.ordered(with_exits_early(steps, recorder.trace.source))
    steps = without_repeated_lines(passed_together(steps))
    kept = fair(steps, recorder.steps, [step.block for step in steps])
    cut = made.cut or len(raws) < len(made.steps) or len(kept) < len(steps)
    memories = _in_order(
        kept, [place.as_memory(kept, k) for k, place in enumerate(places)], recorder.trace.source, debug
    )
    threads = int(np.prod(recorder.block))
    indices = [recorder.kept[number] for number in numbers]
    found = Recording(
        kernel=recorder.kernel_name,
        language="cuda",
        source=recorder.trace.source.splitlines(),
        grid=recorder.grid,
        block=recorder.block,
        kept=kept_sentence(map(tuple, indices), recorder.grid, len(kept), cut),
        note=" ".join(recorder.notes),
        memories=memories,
        blocks=[Block(tuple(index), threads) for index in indices],
        steps=kept,
        products=reader.operands.products(),
        operands=reader.operands.lists,
        barriers=reader.barriers.listed,
        matrices=matrices(kept),
    )
    found.problems = marked(recorder.trace.problems, recorder.trace.recorded.problems, found)
    return found


def _in_order(steps, memories, source, debug):
    """The memories that steps touch: parameters in the signature's order, then the others in the source's. Renumbers
    the memories in `steps` to match."""
    kernels = [function for function in debug.functions if function.is_kernel]
    parameters = [v.name for kernel in kernels for v in kernel.variables if v.is_parameter]

    def place(k):
        name = memories[k].name
        declared = re.search(rf"__\w+__[^;{{}}]*\b{re.escape(name)}\b", source)
        is_parameter = name in parameters
        at = parameters.index(name) if is_parameter else declared.end() if declared else len(source)
        return not is_parameter, at, memories[k].block or 0

    touched = {step.memory for step in steps if step.memory is not None}
    order = {old: new for new, old in enumerate(sorted(touched, key=place))}
    for step in steps:
        step.memory = order.get(step.memory)
    return [memories[old] for old in order]


# ---- steps ----------------------------------------------------------------------------------------------------------


class _Reader:
    """Turns the runtime's steps into those of a Recording."""

    def __init__(self, made, debug, places, numbers, source):
        self.made, self.debug, self.places, self.numbers = made, debug, places, numbers
        self.operands = Operands(made)
        self.asm = lines_of_asm(source)
        self.barriers = Barriers(made, numbers, places, source)
        if not len(made.frames):
            made.frames = np.zeros(1, made.frames.dtype)
        places_in_code = np.where(
            made.seen["frames"] > 0, made.frames["pc"][np.minimum(made.seen["frame"], len(made.frames) - 1)], 0
        )
        memories = made.seen["memory"].astype("u8") << 8 | np.minimum(made.seen["size"], 1)
        self._keys = memories << 32 | places_in_code  # what lanes in one group of `_alike` have in common
        self.known = {}  # by block and warp: the last values of its lanes' variables
        for place in places:
            place.block_number = numbers.get(place.block)

    def steps(self, raw):
        """The step, or several if its lanes touch several memories or are in several lines."""
        lanes = _lanes_of(int(raw["lanes"]))
        events = self.made.order[raw["first"] : raw["first"] + len(lanes)]
        seen, kind, groups = self.made.seen[events], _DID[raw["did"]], {}
        is_bulk = kind in ("read", "copy") and not seen[0]["size"]
        for one, members in self._alike(seen, events):
            key = int(one["memory"]) if one["size"] else None, self._line(one)
            for k in members if is_bulk else ():
                shape = (*key, self.barriers.shape(seen[k], kind == "read"))
                groups.setdefault(shape, []).append([k])
            if not is_bulk:
                groups.setdefault(key, []).append(members)
        if kind == "line" and not self._is_own(seen[0]):
            return
        first = True
        for (memory, line, *_), members in groups.items():
            members = members[0] if len(members) == 1 else np.sort(np.concatenate(members))
            part = seen if len(members) == len(seen) else seen[members]
            here = lanes[members]
            step = Step(self.numbers[int(raw["block"])], int(raw["warp"]), line or 0, kind, here.tolist())
            if is_bulk:
                self.barriers.bulk(step, part)
            elif memory is not None:
                self._access(step, part, memory, raw, first)
            elif step.kind in ("barrier", "passed"):
                step.barrier = f"line {line}" if line else self._function(part[0])
            elif step.kind == "product":
                step.product, step.operands = self.operands.of(step.lanes, part)
            elif step.kind == "shuffle":
                step.source_lanes = [int(one["source"]) for one in part]
                step.values = self._exchanged(part)
            if not self.barriers.waited_for(events[members]):
                step.variables = self._variables(raw, here, part)
            first = False
            self.barriers.take(step, events[members], int(raw["epoch"]))
            yield step

    def _alike(self, seen, events):
        """Groups of lanes that touch the same memory from the same place: of each, one lane and all their numbers."""
        keys = self._keys[events]
        if (keys == keys[0]).all():
            return [(seen[0], np.arange(len(seen)))]
        found = {key: np.flatnonzero(keys == key) for key in keys.tolist()}
        return [(seen[members[0]], members) for members in found.values()]

    def _function(self, one):
        return ctypes.string_at(int(one["function"])).decode() if one["function"] else ""

    def _exchanged(self, part):
        """What lanes get from a shuffle; None if its type is unknown or larger than one exchange."""
        place = self._innermost(part[0])
        _, kind, count = kind_of(self.debug.exchanged(*place)) if place else ("", "", 0)
        if not kind or count > 1:
            return None
        size = 2 if kind == "bf16" else int(kind[1:])
        return [decoded(one["value"][:size], kind, size)[0] if one["has_value"] else None for one in part]

    def _innermost(self, one):
        frame = self.made.frames[one["frame"]] if one["frames"] else None
        return frame is not None and (self.debug.functions[frame["function"]], int(frame["pc"])) or None

    def _is_own(self, one):
        place = self._innermost(one)
        return one["function"] or place and self.debug.is_own(*place)

    def _line(self, one):
        """The line that a step names: as in a trace, a function that only wraps an instruction is named where it is
        called."""
        lines = []
        for frame in self.made.frames[one["frame"] : int(one["frame"]) + int(one["frames"])]:
            lines += self.debug.lines(self.debug.functions[frame["function"]], int(frame["pc"]))
            if not self.asm.issuperset(lines):
                break
        return line_of(lines, self.asm)

    def _access(self, step, part, memory, raw, counts):
        place = self.places[memory]
        size = int(part[0]["size"])
        step.memory, step.width = memory, max(1, size // place.itemsize)
        offsets = part["address"].astype(np.int64) - place.begin
        inside = (offsets >= 0) & (offsets + size <= place.size)
        elements = (offsets // place.itemsize).tolist()
        step.elements = [e if ok else None for e, ok in zip(elements, inside.tolist(), strict=True)]
        step.outside = [(step.lanes[k], place.where(int(part[k]["address"]), size)) for k in np.flatnonzero(~inside)]
        if step.kind == "copy" and not part["has_value"].any():  # it only starts here
            step.values = None
        else:
            step.values = self._values(part, place, size, step.width)
        step.matrices = _MATRICES[raw["matrices"]]
        if not counts:
            return
        if place.space == "global" and raw["sectors"]:
            step.sectors = int(raw["sectors"])
            step.least_sectors = min(step.sectors, -(-_distinct(part["address"], size) // 32))
        elif raw["wavefronts"]:
            step.wavefronts, step.least_wavefronts = int(raw["wavefronts"]), int(raw["least_wavefronts"])

    def _values(self, part, place, size, width):
        values = []
        readable = size % place.itemsize == 0 and size <= 16
        if readable and part["has_value"].all():
            return place.values(part["value"][:, :size])
        for one in part:
            known = one["has_value"] and readable
            values += place.values(one["value"][:size]) if known else [None] * width
        return values

    def _variables(self, raw, lanes, part):
        known = self.known.setdefault((int(raw["block"]), int(raw["warp"])), {})
        changed = {}
        for stack, members in self._stacks(part):
            if not stack:
                continue
            here, innermost, visible = lanes[members], part["frame"][members], set()
            for depth, (function, pc) in enumerate(stack):
                whole = self.debug.functions[function]
                starts = self.made.frames["bytes"][innermost + depth].astype(np.int64)
                copied = self.made.bytes[starts[:, None] + np.arange(whole.bytes)]
                prefix = "" if whole.is_kernel else f"{whole.name}(): "
                for scalar in self.debug.visible(whole, pc):
                    own = _own_name(scalar.name)
                    if own is None:
                        continue
                    name = prefix + own
                    if scalar.reference is None:
                        now = copied[:, scalar.at : scalar.at + scalar.size]
                    else:
                        scalar, now = self._referred(scalar, copied, stack, innermost)
                    visible.add(name)
                    if name not in known or known[name][0].shape[1] != scalar.size:
                        known[name] = [np.zeros((32, scalar.size), np.uint8), np.zeros(32, bool), scalar]
                    last, valid, _ = known[name]
                    known[name][2] = scalar
                    is_new = now != last[here]
                    if valid[here].all() and not is_new.any():
                        continue
                    is_set = (now != _UNSET).any(axis=1)
                    if (is_set != valid[here]).any() or (is_set[:, None] & is_new).any():
                        changed[name] = True
                    last[here], valid[here] = now, is_set
            for name in known.keys() - visible:
                if known[name][1][here].any():
                    known[name][1][here] = False
                    changed[name] = True
        found = {name: self._shown(known[name], lanes, name) for name in changed}
        return {name: values for name, values in found.items() if values is not None}

    def _referred(self, scalar, copied, stack, innermost):
        """What a reference refers to, by lane: the scalar and its bytes; a pointer unless it is a variable of the lane.

        `copied` are the bytes of the variables of the reference's function, `innermost` the lanes' innermost frames.
        """
        raw = np.ascontiguousarray(copied[:, scalar.reference : scalar.reference + 8])
        addresses = raw.view("<i8")[:, 0] + scalar.at
        now, found = np.zeros((len(raw), scalar.size), np.uint8), np.zeros(len(raw), bool)
        for depth, (function, _) in enumerate(stack):
            frames = self.made.frames[innermost + depth]
            offsets = addresses - frames["address"].astype("i8")
            for variable in self.debug.functions[function].variables:
                inside = offsets - variable.offset
                at = np.flatnonzero((inside >= 0) & (inside + scalar.size <= variable.size))
                starts = frames["bytes"][at].astype("i8") + variable.at + inside[at]
                now[at], found[at] = self.made.bytes[starts[:, None] + np.arange(scalar.size)], True
        if found.all():
            return scalar, now
        pointer = replace(scalar, at=0, size=8, kind="pointer")
        return pointer, addresses[:, None].view(np.uint8)

    def _stacks(self, part):
        """Groups of lanes with the same call stack: (function, pc) from the innermost out, and the lanes' numbers."""
        counts = part["frames"]
        if (counts == counts[0]).all():
            rows = part["frame"][:, None] + np.arange(counts[0])
            places = self.made.frames["pc"][rows]
            if (places == places[0]).all():
                stack = tuple(zip(self.made.frames["function"][rows[0]].tolist(), places[0].tolist(), strict=True))
                return [(stack, np.arange(len(part)))]
        groups = {}
        for k, one in enumerate(part):
            rows = self.made.frames[one["frame"] : one["frame"] + one["frames"]]
            groups.setdefault(tuple(zip(rows["function"].tolist(), rows["pc"].tolist(), strict=True)), []).append(k)
        return [(stack, np.array(members)) for stack, members in groups.items()]

    def _shown(self, known, lanes, name):
        raw, valid, scalar = known
        if scalar.kind == "pointer":
            addresses = np.ascontiguousarray(raw[lanes]).view("<u8")[:, 0]
            values = [self._pointer(int(address), name, scalar.reference is not None) for address in addresses]
            if not any(values):
                return None
        elif scalar.kind == "…":
            values = ["…"] * len(lanes)
        else:
            values = decoded(raw[lanes], scalar.kind, scalar.size)
        return [value if ok else None for value, ok in zip(values, valid[lanes], strict=True)]

    def _pointer(self, address, name, is_reference):
        """Where a pointer points; None for an unknown address, for the start of the memory with its own name, and, as a
        shared variable is a reference for the engine, for all of it."""
        if address == 0:
            return "nullptr"
        for place in self.places:
            if place.begin <= address <= place.begin + place.size:
                offset = (address - place.begin) // place.itemsize
                if place.name == name.partition(".")[0] and (offset == 0 or is_reference):
                    return None
                return f"{place.name} + {offset}"
        return None


@cache
def _lanes_of(mask) -> np.ndarray:
    """The lanes whose bits are set."""
    return np.flatnonzero(np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little"))


@cache
def _own_name(name) -> str | None:
    """A variable's name in the source; None for one of the engine's own. A local array has a room (locals.h)."""
    if not name.startswith("cuda_on_cpu_"):
        return name
    found = re.fullmatch(r"cuda_on_cpu_room_of_(\w+)\.value(.*)", name)
    return found and found[1] + found[2]


def _distinct(addresses, size) -> int:
    """How many distinct bytes a request touches."""
    starts = np.unique(addresses)
    gaps = np.diff(starts)
    return int(np.minimum(gaps, size).sum()) + size if len(starts) else 0
