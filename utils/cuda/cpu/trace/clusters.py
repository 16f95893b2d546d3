"""Sentences about clusters: shared memory of a peer that has not begun or has ended, and threads that do not wait."""

from utils.cuda.cpu.trace.words import at, does_to, element, in_line, thread_of, triple

__all__ = ["about_cluster"]


def about_cluster(p):
    """The sentence and the hint for a `Record` of the kind `cluster`."""
    if p.text == "does not wait":
        message = f"{thread_of(p)} arrives at the cluster's barrier{in_line(p)} and ends without waiting there"
        return message, "Let every thread that arrives wait too: `barrier_wait` after `barrier_arrive`."
    does = f"the {p.by} that {thread_of(p)} begins" if p.by else thread_of(p)
    peer = triple(p.other.block) if p.other.block else ""
    if p.text == "may not have begun":
        message = f"{does} {does_to(p.op, element(p))}, but block {peer} may not have begun yet{at(p)}"
        hint = "The blocks of a cluster begin one after the other: put `cluster.sync();` before the first access to a "
        return message, hint + "peer's shared memory."
    ended = "has ended" if p.text == "has ended" else "may have ended by then"
    message = f"{does} {does_to(p.op, element(p))}, but block {peer} {ended}{at(p)}"
    hint = "A block's shared memory is gone when the block ends: put `cluster.sync();` at the end, so that no block "
    return message, hint + "leaves while others still use its memory."
