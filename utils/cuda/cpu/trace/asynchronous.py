"""Sentences about what is done asynchronously: bulk copies, products that read shared memory, and their barriers."""

from utils.cuda.cpu.trace.words import at, does_to, element, in_line, thread_of

__all__ = ["about_asynchronous"]

_FENCES = ("fence.proxy.async", "fence.mbarrier_init")


def about_asynchronous(p):
    """The sentence and the hint for a `Record` of which at least one side is asynchronous, or is about a barrier."""
    if p.by and p.text in _FENCES:
        return _unfenced(p)
    if p.text or p.kind == "asynchronous":
        return _misused(p)
    if p.kind == "uninitialized" and not p.other.by:
        message = f"the {p.by} of {thread_of(p)} reads {element(p)} before any thread has written it{at(p)}"
        return message, "Write all that it reads first, then `fence.proxy.async`, then a barrier."
    if p.by:
        return _begun_too_early(p)
    return _touched_too_early(p)


def _begun(side):
    """'the bulk copy that thread (0,0,0) of block (0,0,0) begins in line 7 (`...`)'."""
    return f"the {side.by} that {thread_of(side)} begins{in_line(side)}"


def _touched_too_early(p):
    """A thread touches what an agent touches, and has not waited for it."""
    writes = p.other.op != "load"
    if p.other.by not in ("bulk copy", "st.async", "red.async"):
        message = f"{thread_of(p)} {does_to(p.op, element(p))}{in_line(p)}, which {_begun(p.other)} may still read"
        wait = f"`{p.other.by}.wait_group`"
        if p.other.by == "asynchronous copy":
            wait = "`cg::wait(block);`" if p.as_group else "`cp.async.wait_group 0` or `__pipeline_wait_prior(0)`"
        return message, f"Wait for it, as with {wait}, then a barrier, before that memory is written."
    if not writes:
        message = f"{thread_of(p)} {does_to(p.op, element(p))}{in_line(p)}, which {_begun(p.other)} may still read"
        hint = (
            "Let the thread that began it wait with `cp.async.bulk.wait_group.read 0` behind its commit_group, then a "
        )
        return message, hint + "barrier, before that memory is written."
    if p.space == "global":
        message = f"{thread_of(p)} {does_to(p.op, element(p))}{in_line(p)}, which {_begun(p.other)} may still write"
        hint = "Let the thread that began it commit and wait with `cp.async.bulk.wait_group 0`: `.read` waits for the "
        return message, hint + "source only. Then a barrier."
    state = "is still on its way" if p.under_way else "has come, but this thread has not waited for it"
    message = (
        f"{thread_of(p)} {does_to(p.op, element(p))}{in_line(p)}, while {_begun(p.other)} writes there: it {state}"
    )
    hint = (
        "Every thread that uses these bytes waits for the phase of the mbarrier which counts the copy, or meets one at "
    )
    return message, hint + "a barrier that has. Is it this stage's barrier, and the parity of this phase?"


def _begun_too_early(p):
    """An agent is set to work on what others still touch."""
    what, other = f"{_begun(p)} {does_to(p.op, element(p))}", p.other
    if other.by:
        message = f"{what}, which {_begun(other)} may still {'read' if other.op == 'load' else 'write'}"
    else:
        message = f"{what}, and {thread_of(other)} {does_to(other.op, 'it')}{in_line(other)}: nothing orders the two"
    if p.by in ("st.async", "red.async"):
        hint = "Put `cluster.sync();` between the two, or an mbarrier at which the other thread has arrived."
    elif p.op == "load" and other.by and p.space == "shared":
        hint = "Wait for the phase of the mbarrier that counts the copy first. Is it this stage's barrier, and the "
        hint += "parity of this phase?"
    elif p.op == "load" and other.by:
        hint = "Let the thread that began the one that writes wait for it with `cp.async.bulk.wait_group 0`, then a "
        hint += "barrier."
    elif p.op == "load":
        hint = "Between them come a `fence.proxy.async` by the thread that writes, and a barrier."
    elif other.by and other.op == "load":
        hint = "Wait for the one that reads before the copy begins: with its wait_group, then a barrier."
    else:
        hint = "Let each reader arrive at an mbarrier when it has read the stage, and wait for that phase before the "
        hint += "copy begins. Does its count include every reader?"
    return message, hint


def _unfenced(p):
    message = f"{_begun(p)} reads {element(p)} through the async proxy, and {thread_of(p.other)} has written it"
    message += f"{in_line(p.other)} with no `{p.text}` after that"
    space = "global" if p.space == "global" else "shared::cta"
    hint = "Between the writes and the barrier that follows them, every thread that writes executes "
    return message, f"{hint}`fence.proxy.async.{space};`."


def _misused(p):
    text, other = p.text, p.other
    if p.under_way and not text:
        message = f"{thread_of(p)} leaves the kernel while its asynchronous copy to {element(p)} is under way{at(p)}"
        wait = "cg::wait(block);" if p.as_group else "cp.async.wait_all"
        hint = f"Wait for all copies before the end, as with `{wait}`, or do not begin what nobody uses."
        return message, hint
    if text.startswith("ends before"):
        message = f"{thread_of(p)} ends while the {p.by} that it begins{in_line(p)} may still read shared memory"
        return message, "Commit it and wait with `cp.async.bulk.wait_group.read 0` before the thread ends."
    if text.startswith("nobody waits for"):
        hint = "Its bytes may go to the next block's shared memory: wait for the last phase of each barrier."
        return f"{_begun(p)} is still on its way when the block ends: {text}", hint
    if text.startswith("begins a copy"):
        hint = "Let one `expect_tx` per phase announce all bytes of the copies that belong to it."
        return f"{thread_of(p)} {text}{at(p)}", hint
    initialised = f"{thread_of(other)} initialises{in_line(other)}"
    if text.startswith("no fence after init"):
        hint = "After init, the same thread executes `fence.mbarrier_init.release.cluster;` or `fence.proxy.async;`, "
        hint += "then `__syncthreads();`: the copy engine sees the barrier only then."
        return f"{_begun(p)} completes at a barrier that {initialised}, with {text}", hint
    if text.startswith("calls") and not other.thread:
        return f"{thread_of(p)} {text}{at(p)}", "Let one thread initialise it, then all meet at `__syncthreads();`."
    if text.startswith("calls"):
        message = f"{thread_of(p)} {text}{in_line(p)}, which {initialised}, with no barrier between them"
        meet = "`cluster.sync();`" if other.block != p.block else "`__syncthreads();`"
        return message, f"Let all threads meet at {meet} after init, before they use the barrier."
    hint = "Only mbarrier instructions may touch it until `mbarrier.inval`: give it memory of its own."
    return f"{thread_of(p)} {text}{at(p)}, a barrier in use that {initialised}", hint
