"""Puts steps into the order in which they are played, and drops those that show nothing new."""

from collections import deque

from utils.cuda.player.recording import Step

__all__ = ["passed_together", "without_repeated_lines"]


def without_repeated_lines(steps) -> list[Step]:
    """The steps without those "line" steps whose lanes stay in the same line in their warp's next step. That step takes
    over the changed variables."""
    found, ahead = [], {}
    for step in reversed(steps):
        after = ahead.get((step.block, step.warp))
        if step.kind == "line" and after and after.lanes == step.lanes and after.line == step.line:
            after.variables = step.variables | after.variables
            continue
        ahead[step.block, step.warp] = step
        found.append(step)
    return found[::-1]


def passed_together(steps) -> list[Step]:
    """The steps reordered so that all warps that wait at a barrier go on as soon as it opens."""
    to_come, found, moved = {}, [], set()
    for k, step in enumerate(steps):
        to_come.setdefault(step.block, {}).setdefault(step.warp, deque()).append(k)
    for k, step in enumerate(steps):
        if k in moved:
            continue
        found.append(step)
        warps = to_come[step.block]
        warps[step.warp].popleft()
        for other in warps.values() if step.kind == "passed" and step.phase is None else ():
            while other and steps[other[0]].kind == "passed" and steps[other[0]].barrier == step.barrier:
                moved.add(other[0])
                found.append(steps[other.popleft()])
    return found
