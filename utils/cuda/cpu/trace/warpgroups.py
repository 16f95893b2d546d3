"""Sentences about products of warpgroups (wgmma), beyond those about the tiles that they read."""

from utils.cuda.cpu.trace.words import at, does_to, in_line, thread_of

__all__ = ["about_warpgroup"]

_BY_ITSELF = "ptxas may notice, insert the {} and say so in warning {}: the products then run one after the other."


def about_warpgroup(p):
    """The sentence and the hint for a `Record` of kind warpgroup."""
    if p.text == "no wgmma.fence":
        return _unfenced(p)
    if p.text == "waits for nothing":
        message = f"{thread_of(p)} waits with wgmma.wait_group{in_line(p)}, but has not committed the wgmma that it "
        message += f"begins{in_line(p.other)}: there is nothing to wait for"
        return message, "Put `wgmma.commit_group.sync.aligned;` behind the last wgmma of each group."
    if p.text.startswith("misaligned"):
        _, which, width = p.text.split()
        message = (
            f"{thread_of(p)} begins a wgmma whose tile {which} starts {p.index} bytes into the {8 * int(width):,} "
        )
        message += f"bytes of its swizzle's pattern{at(p)}"
        hint = f"With a swizzle of {width} bytes a tile starts at a multiple of {8 * int(width):,} bytes, as in "
        hint += f"`alignas({8 * int(width)})`; within it, only the first {width} bytes are start addresses along k."
        return message, hint
    if p.text.startswith("strays"):
        _, which, _, home, _, other = p.text.split(" ", 5)
        message = f"{thread_of(p)} begins a wgmma whose descriptor of {which} starts in {home} and reads {other}{at(p)}"
        return message, "Compare its stride and leading byte offsets, each divided by 16, with how the tile is stored."
    return _touched(p)


def _unfenced(p):
    message = f"{thread_of(p)} begins a wgmma{in_line(p)} with registers that it "
    message += f"touched{in_line(p.other)}" if p.other.line else "may have written"
    message += ", and no wgmma.fence comes between"
    hint = "Put `wgmma.fence.sync.aligned;` in front of the first wgmma that uses registers which the threads have "
    return message, hint + "touched." + ("" if p.other.line else " " + _BY_ITSELF.format("fence", "C7519"))


def _touched(p):
    message = f"{thread_of(p)} {does_to(p.op, 'an accumulator')}{in_line(p)} while the wgmma that it "
    message += f"begins{in_line(p.other)} may still write it"
    hint = {
        "not committed": "Commit it with `wgmma.commit_group.sync.aligned;`, then wait: `wgmma.wait_group` waits for "
        "committed groups only.",
        "left out": f"`wgmma.wait_group {p.index}` leaves out the newest groups: wait with a smaller number first.",
    }.get(p.text, "Wait first, with `wgmma.wait_group.sync.aligned 0;`.")
    return message, hint if p.text == "not committed" else f"{hint} {_BY_ITSELF.format('wait', 'C7517')}"
