"""A problem in words: for each kind, a function that turns a record into one sentence and a hint on what to try."""

import math
import re

from utils.cuda.common.cxx import code, written
from utils.cuda.cpu.differences import hint_of
from utils.cuda.cpu.trace.allocations import missing_sizeof, pitch_in_elements
from utils.cuda.cpu.trace.asynchronous import about_asynchronous
from utils.cuda.cpu.trace.boxes import about_box, about_map
from utils.cuda.cpu.trace.clusters import about_cluster
from utils.cuda.cpu.trace.host import HOST, about_host
from utils.cuda.cpu.trace.loops import reads_memory
from utils.cuda.cpu.trace.races import about_race
from utils.cuda.cpu.trace.source import LOOPS, array_dimensions
from utils.cuda.cpu.trace.unset import about_unset
from utils.cuda.cpu.trace.warpgroups import about_warpgroup
from utils.cuda.cpu.trace.words import (
    at,
    counted,
    does_to,
    element,
    in_line,
    limit_of,
    ordinal,
    quoted,
    thread_of,
    triple,
    unravel,
    wrapped,
)

__all__ = ["sentence"]

_PTX = ("mma.sync", "ldmatrix.sync", "stmatrix.sync", "movmatrix.sync")  # where the lanes of a warp meet


def sentence(p):
    """What went wrong according to a `Record`, and a hint or ""."""
    if p.ended:
        return _ended(p)
    if p.kind == "cluster":
        return about_cluster(p)
    if p.kind in HOST:
        return about_host(p)
    about_barrier = p.text and p.kind in ("race", "uninitialized") and not p.unset
    if p.kind == "asynchronous" or p.by or p.other.by or about_barrier:
        return about_asynchronous(p)
    return _SENTENCES.get(p.kind, _of_another_kind)(p)


# ---- each kind's sentence and its hint


def _out_of_bounds(p):
    if array_dimensions(p.type) and p.index is not None:
        return _outside_a_dimension(p)
    region = p.region
    if region is None and p.space == "local":
        hint = "Compare the index with the size of the local variable that the pointer belongs to. Or has the function "
        hint += "returned whose variable it is?"
        return (
            f"{thread_of(p)} {does_to(p.op, 'memory')} outside the local variable that its pointer belongs to{at(p)}",
            hint,
        )
    if region is None:
        what = counted(p.bytes, "byte") + (f" at address {p.offset:#x}" if p.offset is not None else "")
        hint = "Where does the pointer come from, and does its index fit into an int?"
        if p.offset is not None and 0 <= p.offset < 4096:
            why = "what was passed to the kernel for it?"
            if p.full_heap:
                why = "`malloc` or `new` has returned one in this launch. Check what they return: all kernels together "
                why += f"get at most {p.full_heap:,} bytes (cudaLimitMallocHeapSize)."
            elif p.list_ends:
                why = "does the list end here? Check the pointer before it is followed, as in `while (p)`."
            elif p.own_pointer:
                why = f"where does `{p.own_pointer}` get its value?"
            hint = f"That is next to a null pointer: {why}"
        return f"{thread_of(p)} {does_to(p.op, what)}, outside every tensor and shared array{at(p)}", hint
    if p.gone:
        message = f"{thread_of(p)} {does_to(p.op, element(p))}, but {region} is gone: {p.gone}{at(p)}"
        if "function" in p.gone:
            return message, f"Let the caller declare {region} and pass it on, or return a struct that holds the array."
        return message, f"Declare {region} before the braces, where the pointer to it is declared."
    has, below = p.region_bytes // (p.element or 1), p.offset < 0
    limit = f"{_again(region)} has {counted(has, 'element' if p.element else 'byte', '')}"
    if below and has and (p.element or p.space != "local"):
        limit = f"the first element of {region} is {region}[0]"
    if p.space == "local" and len(p.shape) > 1:
        limit = f"the first index of {region} {'begins at 0' if below else f'ends at {p.shape[0] - 1}'}"
    if p.text == "box":
        hint = f"The map describes more than {region}: compare the address, sizes and strides that it was made with "
        hint += "(the strides are in bytes). A box itself may leave the map's tensor."
    elif not p.region_bytes and p.space == "shared":  # only dynamic shared memory may have no bytes
        hint = f"This launch has no dynamic shared memory: the third number gives {region} its bytes, as in "
        hint += "`kernel[blocks, threads, bytes]`, or in C++ `kernel<<<blocks, threads, bytes>>>`."
    elif not has:
        hint = f"{region} is empty: does this launch have anything to do?"
    elif p.element and wrapped(p.offset // p.element):
        hint = wrapped(p.offset // p.element)
    elif p.space == "local" and not p.element:
        hint = (
            f"{region} is a local variable, and its last byte is number {has - 1}: is it too small, or an array in it?"
        )
    elif p.space == "local":
        runs = f"indexes run from 0 to {has - 1}"
        runs = f"first index runs from 0 to {p.shape[0] - 1}" if len(p.shape) > 1 else runs
        hint = f"{region} is a local array: its {runs}, in every function that it is passed to."
    elif p.space == "shared":
        hint = f"Is {region} large enough for this block, and is the index meant for {region}?"
    elif below and p.remainder:
        hint = "In C++, unlike in Python, `%` of a negative number is negative: write `(i + n) % n` where i may be -1."
    elif below:
        hint = "Guard the line: no index may be below 0. Or look at how the index is computed: does it overflow?"
    else:
        hint = missing_sizeof(p) or pitch_in_elements(p) or _guarded(p, has)
    return f"{thread_of(p)} {does_to(p.op, element(p))}, but {limit}{at(p)}", hint


def _again(region):
    """How a sentence speaks of it a second time: 'x', but 'it' where its name is 'memory from malloc'."""
    return region if region.isidentifier() else "it"


def _guarded(p, limit):
    """What to do about an index that is too large; `limit` is what the array has."""
    only = f"nly {'indexes' if p.element else 'bytes'} below {limit} are inside {_again(p.region)}"
    look = "and at how the index is computed."
    if p.guard is None:
        far = p.element and p.offset // p.element > max(1000 * limit, 1 << 24)
        return f"Guard the line, as in `if (i < n)`: o{only}.{' Or does the index overflow an `int`?' if far else ''}"
    if p.guard.word in ("for", "while", "do"):
        early = "Or should this thread have returned before?"
        return f"O{only}: look at where the loop of line {p.guard.line} ends, {look} {early}"
    name = f"the `{p.guard.word}` of line {p.guard.line}"
    if p.guard.line == p.line and re.search(r"\bif\s*\((?:[^()]|\([^()]*\))*\)\s*;", p.source):
        return f"O{only}, but the `;` behind {name} ends it: remove that `;`."
    name = f"the condition before `?` in line {p.guard.line}" if p.guard.word == "?" else name
    return f"O{only}, but {name} lets this one through: look at it, {look}"


def _outside_a_dimension(p):
    """An index of a[..][..] that leaves its own dimension, whether or not it stays within the array."""
    region, index, inner = p.region, p.index, array_dimensions(p.type)
    hint = wrapped(index) or f"With {counted(inner[0], 'element')}, an index runs from 0 to {inner[0] - 1}."
    ends = "begins at 0" if index < 0 else f"ends at {inner[0] - 1}"
    if region is None or not p.element or p.offset is None:
        if p.array is None:
            array = f"an array {p.type}" + (f" of {region}" if region else "")
            return f"{thread_of(p)} uses index {index} of {array}, whose last index is {inner[0] - 1}{at(p)}", hint
        name = f"{p.array}{'[..]' * p.outer}[{index}]{'[..]' * (len(inner) - 1)}"
        if p.outer or inner[1:]:
            limit = f"the {ordinal(p.outer)} index of {p.array} {ends}"
        else:
            limit = limit_of(p.array, inner[0], index)
        return f"{thread_of(p)} uses {name}, but {limit}{at(p)}", hint
    elements, size = p.region_bytes // p.element, math.prod(inner)
    outer = (p.shape or (elements // size,) * (elements > size) + inner)[: -len(inner)]
    # The indexes before and after the wrong one follow from the address.
    before, behind = divmod(p.offset // p.element - index * (size // inner[0]), size)
    indexes = [*unravel(before, outer), index, *unravel(behind, inner[1:])]
    name = region + "".join(f"[{i}]" for i in indexes)
    if len(indexes) == 1:
        limit = limit_of(region, elements, index)
    else:
        array = p.type.split("[")[0].strip(" '") + " " + "".join(f"[{n}]" for n in outer + inner)
        limit = f"{region} is a {array}, whose {ordinal(len(outer))} index {ends}"
    return f"{thread_of(p)} {does_to(p.op, name)}, but {limit}{at(p)}", hint


def _is_instruction(barrier):
    return barrier in _PTX or (barrier or "").startswith(("bar.", "barrier.", "wmma."))


def _called(barrier):
    return barrier if _is_instruction(barrier) else f"{barrier or '__syncthreads'}()"


def _divergent_barrier(p):
    other, barrier, plain = p.other, _called(p.text), _is_instruction(p.text)
    of_cluster = "cluster" in barrier
    of_warp = p.text in _PTX or (p.text or "").startswith(("wmma::", "wmma."))
    if of_warp and p.index is not None:
        message = f"{thread_of(p)} calls {barrier}, but its warp has only {counted(p.index, 'lane')}{at(p)}"
        return message, "It takes all 32 lanes: launch blocks whose number of threads is a multiple of 32."
    where = in_line(p, unless=f"{barrier};")
    someone = f"thread {triple(other.thread)}" if other.thread else "another thread"
    if other.thread and other.block != p.block:
        someone = thread_of(other)
    if other.left:
        does = f"{someone} has left the kernel{in_line(other)}"
    elif other.thread and thread_of(other) != thread_of(p):
        at_another = f" at {_called(other.text)}" if other.text != p.text else ""
        line = in_line(other) if other.line and other.line != p.line else ""
        does = f"{someone} waits{at_another}{line}" if at_another or line else f"{someone} waits elsewhere"
    else:
        does = "not every thread reaches it"
    everyone = "All 32 lanes of a warp" if of_warp else "Every thread"
    everyone += " of every block of the cluster" if of_cluster else ""
    leave = "break out of the loop" if p.loop_left else "return"
    hint = f"{everyone} must reach the same `{barrier}`: move it out of the `if`, and let no thread {leave} before it."
    if p.uneven and p.uneven.word in LOOPS:
        loop = f"the loop of line {p.uneven.line}"
        hint = f"{everyone} must reach the same `{barrier}`: let all of them run {loop} equally often."
    if plain and p.text.startswith(("bar.sync", "bar.arrive", "bar.red", "bar.cta")):
        hint = f"All lanes of a warp must reach the same `{barrier}`, and of all warps as many as its count says."
    return f"{thread_of(p)} waits at {barrier}{where}, but {does}", hint


def _uninitialized(p):
    if p.unset:
        return about_unset(p)
    if p.under_way:
        does = does_to(p.op, element(p))
        message = f"{thread_of(p)} {does} before the asynchronous copy to it{in_line(p.other)} is done{at(p)}"
        if p.as_group:
            hint = "Let the group that copies wait with `cg::wait(block);` (`cooperative_groups::wait`): "
            return message, hint + "`sync()` alone does not wait for copies."
        hint = "Commit the copies, wait for them, as with `cp.async.wait_group 0` or `__pipeline_wait_prior(0)`, then "
        return message, hint + "`__syncthreads();`. A number above 0 leaves out that many of the newest commits."
    if p.space == "global":
        message = f"{thread_of(p)} {does_to(p.op, element(p))} before anything has been written to it{at(p)}"
        if p.origin:
            hint = f"{p.origin.removeprefix('memory from ')} leaves memory as it was: write all of it first."
            hint += " cudaMemcpy and cudaMemset count in bytes." if "cuda" in p.origin else ""
            return message, missing_sizeof(p) or hint
        return message, f"torch.empty leaves memory as it was: make {p.region} with torch.zeros, or write it first."
    message = f"{thread_of(p)} {does_to(p.op, element(p))} before any thread of its block has written it{at(p)}"
    if p.owner and p.owner != p.block:
        message = f"{thread_of(p)} {does_to(p.op, element(p))} before any thread has written it{at(p)}"
        hint = "Shared memory does not begin with zeros: let that block write it first, then `cluster.sync();`."
        return message, hint
    return message, "Shared memory does not begin with zeros: write it first, then `__syncthreads();`."


def _undefined_shuffle(p):
    message = f"{thread_of(p)} {p.text}{at(p)}"
    if p.index is None:
        return message, "Divide the warp into 1, 2, 4, 8, 16 or 32 lanes."
    return message, "That value is undefined: let all lanes of the mask come, or leave out what this one has read."


def _stale(p):
    wrote = f"{thread_of(p.other)} {does_to(p.other.op, 'it')}{in_line(p.other)} of the same launch"
    how, plain = ("ld.global.nc", "leave out `.nc`") if ".nc" in p.source else ("__ldg", "use `x[i]`")
    hint = f"`{how}` may return an older value, since its cache hears of no store before the next launch: {plain}."
    return f"{thread_of(p)} reads {element(p)} with `{how}`{in_line(p)}, and {wrote}", hint


def _unwritten(p):
    region, more = p.region, p.count - 1
    rest = f" (and {counted(more, 'more element', '')} of {region})" if more else ""
    elements, left = divmod(p.region_bytes, p.element or 1)
    if left and (p.offset or 0) >= elements * p.element:
        last = f"The last {counted(left, 'byte')} of {region} are not written"
        whole = f"{region} has {p.region_bytes:,} bytes, which is not a multiple of {p.element}"
        return f"{last}{rest}", f"{whole}: write the rest element by element."
    every = f"each of the {elements} elements of {region}" if elements > 1 else f"the element of {region}"
    hint = f"Is there a thread for {every}, and does every `if` on its way let it write?"
    if not more and not p.offset and elements > 1:
        hint = f"Is the index one too large? {hint}"
    return f"{element(p)} was never written{rest}", hint


def _misaligned(p):
    if p.text:
        if p.text.startswith(("calls wmma::", "calls wmma.")):
            hint = "Give the rows that much padding in memory, or copy the tile to such rows."
            return f"{thread_of(p)} {p.text}{at(p)}", hint
        return about_box(p)
    size, needs, region = p.bytes, p.needs, p.region
    if region is None:
        where, within = f"at address {p.offset or 0:#x}", True
    else:
        where, within = f"at byte {p.offset} of {region}", p.offset % needs != 0
        if p.element and p.offset % p.element == 0:
            where = f"at {element(p, size=p.element)}, byte {p.offset} of {region}"
    article = "this" if size != needs else "an" if size == 8 else "a"
    rule = f"{article} {size}-byte access needs an address that is a multiple of {needs}"
    rule += "" if within else f", but {region} itself does not begin at one"
    hint = ""
    if region is not None and p.element and needs > p.element:
        step = needs // p.element
        hint = f"Begin at an index that is a multiple of {step}, or read and write the elements one by one."
        row = p.shape[-1] * p.element if len(p.shape) > 1 else needs
        if row % needs:
            hint = f"The rows of {region} have {row} bytes, so only some begin at a multiple of {needs}: make their "
            hint += f"length a multiple of {step} elements."
        if not within:
            hint = f"Is {region} a slice such as `t[1:]`? Pass a `.clone()` of it, or go element by element."
    return f"{thread_of(p)} {does_to(p.op, f'{size} bytes')} {where}: {rule}{at(p)}", hint


def _undefined(p):
    return f"{thread_of(p)} {p.text}{at(p)}", hint_of(p.text)


def _runaway(p):
    quote = f" (`{quoted(p.source)}`)" if p.source else ""
    loop = f"the loop at line {p.line}{quote}" if p.line else ""
    hint, long = "Does the loop's condition ever change?", " If the loop is correct and just long, raise `max_steps`."
    waits = p.loop and reads_memory(p.loop.condition)
    if p.unchanging:
        condition = written(p.loop.condition).removeprefix("(").removesuffix(")")
        otherwise = "did you mean `if`? Otherwise " if p.loop.word == "while" else ""
        then = "does another thread?" if waits else f"{otherwise}count in it, as with `i += gridDim.x * blockDim.x`."
        hint, long = f"Nothing in the loop changes `{condition}`: {then}", ""
    if not p.index:
        loop = f"{loop}, which does nothing" if loop else "a loop that does nothing"
        return f"{thread_of(p)} keeps running {loop}: does it ever end?", hint
    if waits and (p.unchanging or p.text != "together"):
        long += " If it waits for another block: that one may not have begun; only a cooperative launch runs all "
        long += "blocks at once."
    if p.text == "together":
        together = f"the threads of block {triple(p.block)} have run {p.index:,} steps between them"
        if p.never_met:
            hint = f"Can the condition to leave the loop ever be met: {p.never_met}"
        elif not p.unchanging:
            hint = "Does each thread do the work of all? Its share may be one element."
        return f"{together}{loop and f', one of them in {loop}'}: is that intended?", hint + long
    return f"{thread_of(p)} has run {p.index:,} steps{loop and f' in {loop}'}: does it ever end?", hint + long


def _ended(p):
    """What ended the launch, whatever its kind."""
    hint = ""
    if "pointer that was never set" in p.ended:
        hint = "The pointer has no value on every path to this line: set it where it is declared, or use it only where "
        hint += "it is set."
    elif "local variable atomically" in p.ended:
        hint = "A GPU stops here. Only its own thread uses a local variable, so `n += 1;` will do; what threads share "
        hint += "is a `__shared__` variable or an element of a tensor."
    elif "local variable of another thread" in p.ended:
        hint = (
            "Only its own thread can use a local variable: share a `__shared__` one, or pass the value with a shuffle."
        )
    elif p.ended.endswith(" bytes") and " for -" in p.ended:
        hint = "A size is never negative: what was it computed from?"
    elif "memory of the host" in p.ended:
        hint = "A kernel needs memory from cudaMalloc; this also holds for pointers in structs and arrays."
    elif "frees an address" in p.ended:
        hint = "Keep the pointer that malloc or new returned, and free that one."
    elif "which is not from malloc" in p.ended:
        hint = "Nothing has to free it: leave the line out."
    elif "frees memory" in p.ended:
        hint = "Free each allocation once, and nothing else: do several threads, or several rounds of a loop, free "
        hint += "this one?"
    elif "memory that was freed" in p.ended:
        hint = "Read what you still need, such as `next`, before you free it. On the host, free memory after the last "
        hint += "kernel that uses it."
    elif "whole number by zero" in p.ended:
        divisors = set(re.findall(r"[/%]=?\s*([A-Za-z_]\w*\b(?:\[[^][]*\])?)(?![.([]|->|::)", code(p.source or "")))
        guard = f": `if ({divisors.pop()} != 0) ...`" if len(divisors) == 1 else ""
        hint = f"Why is the divisor 0? Guard the line{guard}."
    elif "for its local variables" in p.ended:
        hint = "Does the recursion end?" if p.recursive else "Large arrays belong in shared or global memory."
    elif "where expect_tx says" in p.ended:
        hint = "In each phase, `expect_tx` announces exactly the bytes that the copies of that phase bring, once."
    elif "arrivals have come" in p.ended:
        hint = "The number given to `init` is how many arrivals end a phase: let as many threads arrive in each."
        if "parity" in p.ended:
            hint += " Is it the parity of the phase that this thread waits for?"
    elif "threads have come" in p.ended:
        hint = "A warp comes to a barrier as a whole, once in each phase, and counts as 32 threads: "
        hint += "let as many warps come as the instruction's count says."
    elif "that the host has constructed" in p.ended:
        hint = (
            "It points to functions of the host, which a GPU cannot call: construct it in a kernel, `new (p) T(...)`."
        )
    elif "but its cluster has" in p.ended:
        hint = "Ranks count from 0: for the next block, is it `(rank + 1) % cluster.num_blocks()`?"
    return f"{thread_of(p)} {p.ended}{at(p)}", hint


def _of_another_kind(p):
    return f"{thread_of(p)} has a problem of kind {p.kind}{at(p)}", ""


_SENTENCES = {
    "out_of_bounds": _out_of_bounds,
    "race": about_race,
    "divergent_barrier": _divergent_barrier,
    "uninitialized": _uninitialized,
    "undefined_shuffle": _undefined_shuffle,
    "stale": _stale,
    "unwritten": _unwritten,
    "misaligned": _misaligned,
    "undefined": _undefined,
    "runaway": _runaway,
    "box": about_box,
    "map_fence": about_map,
    "warpgroup": about_warpgroup,
}
