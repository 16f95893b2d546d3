"""Where the lanes of a recording exit, and which steps of each block are kept."""

from collections import Counter

from utils.cuda.player.recording import Step

__all__ = ["fair", "with_exits_early"]


def with_exits_early(steps, source):
    """Lanes that return early exit right after their last step: they do not wait for the others of their warp."""
    lines, last, found = source.splitlines(), {}, []
    for k, step in enumerate(steps):
        if step.kind != "exit":
            for lane in step.lanes:
                last[step.block, step.warp, lane] = k
    after = {}
    for step in steps:
        if step.kind != "exit":
            continue
        before = {lane: last.get((step.block, step.warp, lane), -1) for lane in step.lanes}
        latest = max(before.values())
        if not step.line and latest >= 0:
            step.line = steps[latest].line  # the trace ended these
        early = {}
        for lane, at in before.items():
            if at < latest and at >= 0:
                early.setdefault(at, []).append(lane)
        for at, left in early.items():
            line = steps[at].line
            follows = next((n for n in (line, line + 1) if n <= len(lines) and "return" in lines[n - 1]), None)
            after.setdefault(at, []).append(Step(step.block, step.warp, follows or step.line, "exit", left))
        gone = {lane for left in early.values() for lane in left}
        if gone:
            kept = [i for i, lane in enumerate(step.lanes) if lane not in gone]
            step.variables = {name: [values[i] for i in kept] for name, values in step.variables.items()}
            step.lanes = [step.lanes[i] for i in kept]
    for k, step in enumerate(steps):
        found += [step] if step.lanes else []
        found += after.get(k, [])
    return found


def fair(steps, most, blocks):
    """At most `most` steps, shared fairly among the blocks, each of which keeps its first ones. `blocks` has the block
    of each step."""
    counts = Counter(map(int, blocks))
    left, allowed = most, {}
    for place, block in enumerate(sorted(counts, key=counts.get)):
        allowed[block] = min(counts[block], left // (len(counts) - place))
        left -= allowed[block]
    found = []
    for step, block in zip(steps, map(int, blocks), strict=True):
        if allowed[block] > 0:
            allowed[block] -= 1
            found.append(step)
    return found
