"""Sentences about races between two threads."""

import re

from utils.cuda.cpu.trace.words import does_to, element, in_line, thread_of, triple

__all__ = ["about_race"]


def about_race(p):
    """The sentence and the hint for a `Record` of a race."""
    other, name, ops = p.other, element(p), [p.op, p.other.op]
    same_block, one_line = other.block == p.block, p.line == other.line
    copied = p.copied and (p.space == "shared" or _overwritten(p))
    if same_block:
        who = f"threads {triple(p.thread)} and {triple(other.thread)} of block {triple(p.block)}"
        why = "with no barrier between them"
        if p.in_step:
            why = "with no `__syncwarp()` between them"
        elif p.under_way:
            why = "while that copy is under way: it may write at any time until its thread has waited for it"
        elif copied:
            why = "with no barrier between this access and the wait for that copy"
    else:
        who, why = f"{thread_of(p)} and {thread_of(other)}", "and nothing orders blocks within a launch"
        if p.of_block:
            why = "but not among the threads of both blocks"
        elif p.space == "shared":
            why = "with no barrier of the cluster between them"
    if ops == ["store", "store"]:
        each = in_line(p) if one_line else f": one{in_line(p)}, the other{in_line(other)}"
        what = f"both write {name}{each}"
    elif one_line:
        what = f"both touch {name}{in_line(p)}: one {does_to(p.op, 'it')}, the other {does_to(other.op, 'it')}"
    else:
        one, another = f"one {does_to(p.op, 'it')}{in_line(p)}", f"the other {does_to(other.op, 'it')}{in_line(other)}"
        what = f"both touch {name}: {one}, {another}"
    also = "; in a loop, also one at its end" if p.may_come_again else ""
    same_number = ops == ["store", "store"] and one_line and _stores_one_number(p.source or "")
    if (p.under_way or copied) and same_block:
        does = "uses what they copy" if p.space == "shared" else "writes what they read"
        hint = f"Let every thread wait for its copies, then `__syncthreads();`, before any thread {does}."
        if p.may_come_again and p.space == "shared":
            hint += " Or does a thread still read here when another begins the next copy to the same place? Then put "
            hint += "`__syncthreads();` at the end of the loop."
    elif p.in_step:
        hint = (
            "They are lanes of one warp. `volatile` keeps those in step here, and nearly always on a GPU, but since "
            "Volta CUDA does not promise it: read into a variable, `__syncwarp();`, write, `__syncwarp();`."
        )
    elif p.of_block:
        hint = "An atomic such as `atomicAdd_block` is one for the threads of its block only. Where several blocks use "
        hint += "the element, take `atomicAdd`, or `cuda::thread_scope_device`."
    elif p.space == "shared" and not same_block:
        hint = "Put `cluster.sync();` between the two: `__syncthreads();` waits for the threads of one block only."
        if "load" not in ops:
            hint = f"Use an atomic such as `{_atomic(p)}`, or put `cluster.sync();` between the two."
    elif missing := _missing_coordinate(p):
        hint = missing
    elif p.all_elements and ops == ["store", "store"]:
        begin, step = ("threadIdx.x", "blockDim.x") if p.space == "shared" else (_NUMBER, "gridDim.x * blockDim.x")
        hint = f"In the loop of line {p.loop.line}, every thread writes every element: the index of {p.region} does "
        hint += f"not depend on the thread. Let each thread write its own, or begin at `{begin}` and step by `{step}`."
    elif p.returned:
        hint = "Another thread may count in between: use what the atomic returns, the number before, as in "
        hint += f"`int at = {p.returned};`."
    elif p.space == "global" and not p.one_block and p.polled:
        hint = f"Does one thread wait here for the other? Then declare it {p.polled}."
    elif p.space == "global" and not p.one_block and _in_place(p):
        hint = "Each thread reads elements that others write: write the results to a second array"
        hint += f", with one launch for each round of the loop of line {p.loop.line}." if p.loop else "."
    elif p.space == "global" and (of_lock := _of_lock(p)):
        hint = of_lock
    elif not p.one_block and p.space == "global":
        hint = "Are both meant to touch this element? If not, check the index; otherwise use an atomic such as "
        hint += f"`{_atomic(p)}`, give each block its own elements, or make two launches."
        if same_block:
            hint = f"Threads of different blocks do this, too, and no barrier orders those. {hint}"
        if p.cooperative:
            hint = f"Put `grid.sync();` between the two, where every thread of the grid reaches it{also}."
        elif "load" in ops and p.block_fence:
            hint = "`__threadfence_block();` is for the threads of one block: in front of a flag that another block "
            hint += "reads, put `__threadfence();`."
        elif "load" in ops and p.fence_of_one:
            hint = "The counter that announces it is raised too early: `__threadfence();` is only for what its own "
            hint += "thread writes. Put `__syncthreads();` in front of the line where one thread counts."
        elif "load" in ops and not one_line:
            hint += " Does a flag or counter say that it is written? Then "
            fence = (
                "make that `volatile` or use atomics, with `__threadfence();` before it is set and after it is read."
            )
            hint += fence if p.fenced else "put `__threadfence();` in front of that."
        elif same_number:
            hint = f"All write the same, so a GPU stores it, but C++ promises nothing. {hint}"
    elif ops == ["store", "store"]:
        hint = f"Let one thread write it, or use an atomic such as `{_atomic(p)}`."
        if same_number:
            hint = "All write the same, so a GPU stores it, but C++ promises nothing: let one thread write it, or use "
            hint += "`atomicOr` or `atomicExch`."
        if p.coordinates and other.coordinates:
            hint = f"Are both meant to have the same index? {hint}"
        if not (one_line or p.loop or p.parts or p.parted or None in (p.line, other.line)):
            hint = f"{_between(p, also)} Or is only one of the lines meant to write it?"
        if p.loop and not p.loop_of_some:
            hint += f" Are these two rounds of the loop of line {p.loop.line}? Then put `__syncthreads();` at its end."
    elif one_line and p.loop and _neighbours(p, p.region):
        hint = _of_neighbours(p)
    elif not (_neighbours(p, p.region) or _neighbours(other, p.region)) and (
        (one_line and _updates(p)) or _atomic(p) != "atomicAdd"
    ):
        hint = _in_one_step(p)
    elif one_line or None in (p.line, other.line):
        hint = "If all add to it, use `atomicAdd`; otherwise read into a variable, `__syncthreads();`, then write."
        hint += f" {p.where_to_wait}" if p.where_to_wait else ""
    elif p.space == "global" and _updates(p):
        hint = _in_one_step(p)
    else:
        hint = _between(p, also)
    if p.parts:
        names = _listed([f"`{name}`" for name in p.parts])
        hint = f"{names} overlap in {p.region}: is that intended? If not, check where each begins and ends. {hint}"
    if overlap := _overlap(p):
        hint = overlap
    elif len(p.same_tensor) > 1 and "load" in ops:
        names = _listed([f"`{name}`" for name in p.same_tensor])
        hint = f"{names} are one tensor in this launch: pass two, unless the kernel is to work in place. {hint}"
    return f"{who} {what}, {why}", hint


def _overwritten(p):
    """Whether the line that writes comes after the one that reads."""
    lines = {side.op == "load": side.line or 0 for side in (p, p.other)}
    return lines.get(True, 0) < lines.get(False, 0)


def _stores_one_number(line):
    """Whether a line stores a number that is the same in all threads, `found = 1;`, and sets no second element."""
    return _CONSTANT.search(line) and len(_SETS_ELEMENT.findall(line)) < 2


_SETS_ELEMENT = re.compile(r"\]\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)")
_CONSTANT = re.compile(r"[^=!<>+\-*/%&|^]=\s*(?:true|false|-?\d[\w.]*)\s*;\s*}*\s*$")


def _neighbours(side, region):
    """Whether its line names two elements of one array: `part[t] += part[t + step];`"""
    return len(set(re.findall(rf"\b{re.escape(region or '')}\s*\[([^\[\]]*)\]", side.source or ""))) > 1


def _overlap(p):
    """A hint, if the two lines name arguments that overlap there."""
    words = {*re.findall(r"\w+", f"{p.source} {p.other.source}")}
    others = [name for name in p.overlapping if name in words]
    if not others or p.region not in words:
        return ""
    names = _listed([f"`{name}`" for name in (p.region, *others)])
    also = _listed([p.overlapping[name] for name in others])
    return f"{names} share memory in this launch: {element(p)} is also {also}. Pass tensors that do not overlap."


def _listed(names):
    """'a, b and c'."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _of_neighbours(p):
    """A hint, if two threads touch the same element in such a line of a loop, in one round or in two."""
    if p.one_warp and (p.waits_in_loop == "__syncwarp" or p.loop_of_some):
        hint = "Both threads are of one warp: read into a variable, `__syncwarp();`, write, then `__syncwarp();`"
        return f"{hint}, where every lane of its mask reaches it."
    if p.waits_in_loop == "__syncthreads":
        hint = f"Both are in one round of the loop of line {p.loop.line}: read into a variable, `__syncthreads();`, "
        return f"{hint}then write. {p.where_to_wait}".rstrip()
    if p.skipped_wait:
        return _skipped(*p.skipped_wait)
    hint = f"Is one of them already in the next round of the loop of line {p.loop.line}? Then put `__syncthreads();` "
    hint += "at the end of its body, where every thread of the block reaches it."
    named, written = _elements(p.source, p.region)
    return hint if named <= written else f"{hint} Otherwise read into a variable, `__syncthreads();`, then write."


def _elements(line, region):
    """The indexes of `region[...]` in a line: all of them, and those of the elements that it sets."""
    name = rf"\b{re.escape(region or '')}((?:\s*\[[^\[\]]*\])+)"
    set_here = rf"{name}(?:\s*\.\s*\w+)*\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)"
    return {*re.findall(name, line)}, {*re.findall(set_here, line)}


def _in_place(p):
    """Whether threads compute elements from those that others write: `u[i] = u[i - 1] + u[i + 1];`"""
    sides = {side.op: side for side in (p, p.other)}
    if sides.keys() != {"load", "store"} or p.fenced or p.cooperative or _atomic(p) != "atomicAdd":
        return False
    read, written = _elements(sides["load"].source, p.region)[0], _elements(sides["store"].source, p.region)[1]
    after = 0 <= (sides["store"].line or -1) - (sides["load"].line or 0)
    return after and p.writes_own and not read <= written


def _of_lock(p):
    """A hint, if a lock protects the two accesses, or is what they touch, but lacks a fence or a release."""
    if not p.lock:
        return ""
    if p.lock.name.lstrip("&*").partition("[")[0] == p.region:
        release = f"Release the lock with an atomic, as it is taken: `atomicExch({p.lock.name}, {p.lock.free});`."
        return release if p.lock.stored else ""
    missing = [] if p.lock.behind else ["after the line that takes it"]
    missing += [] if p.lock.before else ["before the line that releases it"]
    then = [f"put `__threadfence();` {', and '.join(missing)}"] if missing else []
    then += [f"release it with `atomicExch({p.lock.name}, {p.lock.free});`"] if p.lock.stored else []
    return f"Does the lock that `atomicCAS` takes protect it? Then {', and '.join(then)}." if then else ""


def _between(p, also):
    """A hint: a barrier between two lines, or what is the matter with the one that is there."""
    if p.called:
        called = [f"the call that comes to line {line}" for line in p.called]
        called += [f"line {line}" for line in p.lines if line not in p.called]
        return f"Put `__syncthreads();` between {_listed(called)}{also or '; in a loop, also one at its end'}."
    if p.waits_between and (p.one_warp or p.waits_between != "__syncwarp"):
        return _wait_again(p)
    if p.skipped_wait:
        return _skipped(*p.skipped_wait)
    first, last = p.lines
    return p.where_to_wait or f"Put `__syncthreads();` between lines {first} and {last}{also}."


def _skipped(line, branch):
    """A hint, if the barrier of a line is not always reached."""
    name = f"the `{branch.word}` of line {branch.line}" if branch.line != line else f"an `{branch.word}`"
    return f"The barrier of line {line} is in {name}, which skips it at times: let every thread always reach it."


_NUMBER = "blockIdx.x * blockDim.x + threadIdx.x"
_ATOMICS = {"|": "atomicOr", "&": "atomicAnd", "^": "atomicXor", "max": "atomicMax", "min": "atomicMin"}
_MEMBERS = r"(?:\w+(?:\[[^\[\]]*\])*(?:->|\.))*\w+\[[^\[\]]*\](?:\.\w+)*"  # 'node->child[c]', 'table[s].key'
_DOES = {"atomicAdd": "reads and adds", "atomicCAS": "compares and writes"}


def _atomic(p):
    """The atomic that does what the line that writes does: `mask[i] |= bit;`, `best = max(best, x);`. One that writes
    only where it has read a certain value compares and writes: `if (level[v] < 0) level[v] = 1;`"""
    line, name = _writing(p), re.escape(p.region or "")
    changed = rf"\b{name}\b[^;=<>]*"
    if found := re.search(rf"{changed}([|&^])=|{changed}=\s*(?:\w*::)?(f?)(max|min)f?\s*\(", line):
        return "atomicCAS" if found[2] else _ATOMICS[found[1] or found[3]]  # none takes the larger of two floats
    asked = next((side for side in (p, p.other) if side.op == "load"), None)
    writes = next(side for side in (p, p.other) if side.op != "load")
    if asked and 0 <= (writes.line or -9) - (asked.line or 0) <= 1 and not _updates(p):
        if found := re.search(rf"\bif\s*\(.*([<>])=?\s*\*?{name}\b", asked.source or ""):
            return "atomicMax" if found[1] == ">" else "atomicMin"
        if found := re.search(rf"\bif\s*\(.*\b{name}\b[^;=<>]*([<>])=?\s*([^;&|]+?)\)\s*(?:\W|$)", asked.source or ""):
            if re.search(rf"{changed}=\s*{re.escape(found[2])}\s*;", line):
                return "atomicMax" if found[1] == "<" else "atomicMin"
        if re.search(rf"\bif\s*\(.*(?:!\s*{name}\b|{changed}(?:[<>]|==|!=))", asked.source or ""):
            return "atomicCAS"
        for element in map(re.escape, re.findall(rf"({_MEMBERS})\s*=(?!=)", line)):
            if re.search(rf"\b(?:if|while)\s*\(.*(?:{element}\s*[!=]=|!\s*{element})", asked.source):
                return "atomicCAS"
    return "atomicAdd"


def _in_one_step(p):
    atomic = _atomic(p)
    if atomic in ("atomicMax", "atomicMin"):
        return f"Use `{atomic}`, which reads and writes in one step. It takes integers; floats need `atomicCAS`."
    does = _DOES.get(atomic, "reads and writes")
    return f"Use `{atomic}`, which {does} in one step, and returns what was there before."


def _writing(p):
    return next(side for side in (p, p.other) if side.op != "load").source or ""


def _updates(p):
    """Whether the line that writes changes what is there: `*count += 1;`"""
    line, name = _writing(p), re.escape(p.region or "")
    return bool(re.search(rf"\b{name}\b[^;=<>&|]*(?:[+\-|&^]=|\+\+|--)|(?:\+\+|--)[(*]*{name}\b", line))


def _wait_again(p):
    """A hint, if the threads wait between the two lines, but not before the first of them comes again."""
    first, last = p.lines
    barrier = "a `__syncwarp();`" if p.waits_between == "__syncwarp" else "a barrier"
    there_is = f"There is {barrier} between lines {first} and {last}."
    again, there = "In a loop", "in the next round"
    if not p.loop:
        again, there = "If the function is called again", "in the next call"
    return f"{there_is} {again}, put another at its end: one thread may already be {there}."


def _missing_coordinate(p):
    """A hint, if two threads touch the same element because the index leaves out what they differ in."""
    other, used = p.other, {*p.coordinates, *p.other.coordinates}
    if not (p.coordinates and other.coordinates and p.thread and other.thread and p.block and other.block):
        return ""
    inside = p.space == "shared" or p.one_block
    if inside and p.line != other.line:
        return ""  # a barrier lets one of the lines wait for the other
    which, one, two = ("threadIdx", p.thread, other.thread)
    if p.block != other.block:
        which, one, two = ("blockIdx", p.block, other.block)
    differ = [f"{which}.{axis}" for axis, a, b in zip("xyz", one, two, strict=True) if a != b]
    if used & set(differ) or not any(name.startswith("threadIdx") for name in used):
        return ""
    what = f"The index of {p.region} does not depend on `{differ[0]}`, in which the two threads differ"
    axis = differ[0][-1]
    like = f"is it meant to be `blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis}`?"
    if p.space == "shared":
        like = f"is it meant to be `{differ[0]}`, or to use both?"
    if axis != "x" and not any(name.endswith(f".{axis}") for name in used):
        like += f" Or should the launch have no {axis}?"
    return f"{what}: {like} If they should share elements, use an atomic such as `atomicAdd`."
