"""Sentences about boxes that a kernel moves through a tensor map."""

from utils.cuda.cpu.trace.words import at, counted, element, in_line, thread_of

__all__ = ["about_box", "about_map"]


def about_box(p):
    """A box that its shared array cannot hold, or that is at an address where the copy engine cannot put it."""
    moves = "loads" if p.op == "store" else "stores"
    what = f"{thread_of(p)} {moves} a box of {p.text} elements, {counted(p.bytes, 'byte')},"
    way = "to" if p.op == "store" else "from"
    begin = element(p, size=p.element)
    if p.kind == "misaligned":
        message = f"{what} {way} {begin}, which is not at a multiple of {p.needs} bytes of shared memory{at(p)}"
        return message, f"Declare {p.region} as `__shared__ alignas({p.needs})`, and begin each box at such a multiple."
    left = p.region_bytes - (p.offset or 0)
    message = f"{what} {way} {begin}, but {p.region} has only {counted(left, 'byte')} from there on{at(p)}"
    return message, f"A box is always as large as its map says: make {p.region} larger, or the map's box smaller."


def about_map(p):
    """A tensor map in memory that a kernel has written."""
    message = f"{thread_of(p)} uses the tensor map at {element(p, size=p.element)}{in_line(p)}, which "
    message += f"{thread_of(p.other)} writes{in_line(p.other)}: there is no `fence.proxy.tensormap` between the two"
    hint = "Behind the write, `fence.proxy.tensormap::generic.release.gpu;`; before the use, the thread that uses it "
    return message, f"{hint}executes `fence.proxy.tensormap::generic.acquire.gpu [map], 128;`."
