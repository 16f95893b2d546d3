"""What the sentences about a problem are made of: threads, lines, elements and numbers in words."""

from utils.cuda.cpu.trace.source import without_comment

__all__ = [
    "at",
    "counted",
    "does_to",
    "element",
    "in_line",
    "limit_of",
    "ordinal",
    "quoted",
    "shorten",
    "thread_of",
    "triple",
    "unravel",
    "wrapped",
]

_UNSET = {0x7E41D287, 0x6D3BA59C, 0x7FFB7FFB, 0xFEFEFEFE}  # 32 bits of a local variable without a value (unset.h)
_LONGEST_QUOTE = 80  # characters of a source line within a sentence


def at(place):
    """' (line 7: `y[i] = x[i];`)', empty if the line is unknown."""
    quote = f": `{quoted(place.source)}`" if place.source else ""
    return f" (line {place.line}{quote})" if place.line else f" ({place.elsewhere})" if place.elsewhere else ""


def in_line(place, unless=None):
    """' in line 7 (`y[i] = x[i];`)', empty if the line is unknown; without the quote if it was just given."""
    quote = f" (`{quoted(place.source)}`)" if place.source and place.source != unless else ""
    return f" in line {place.line}{quote}" if place.line else f" in {place.elsewhere}" if place.elsewhere else ""


def element(p, size=None):
    """What is touched: 'x[3]', 'tile[0][3]', 'x[4] to x[7]', '2 bytes at byte 6 of x', 's[3] of block (1,0,0)'.

    `size` takes the place of the record's own.
    """
    blocks = {p.block, p.other.block or p.block, p.owner or p.block}
    return _element(p, size=size) + (f" of block {triple(p.owner)}" if p.owner and len(blocks) > 1 else "")


def _element(p, offset=None, size=None):
    region, width = p.region, p.element
    offset = p.offset or 0 if offset is None else offset
    size = p.bytes if size is None else size
    if region is None:
        return f"the memory at address {offset:#x}"
    if region == "a variable of the source":
        return region
    start = offset % width if width else offset
    if member := p.members.get((start, size)):
        return _element(p, offset - start, width) + member
    if width and 0 < start <= width - size:  # a member of a struct
        return f"{counted(size, 'byte')} at byte {start} of {_element(p, offset - start, width)}"
    if start or not width:
        return f"{counted(size, 'byte')} at byte {offset} of {region}"
    if not region.isidentifier():  # a parameter without a name
        return f"element {offset // width} of {region}"
    ends = [offset // width] + ([(offset + size - 1) // width] if size > width else [])
    indexes = [unravel(end, p.shape) if p.shape else [end] for end in ends]
    return " to ".join(region + "".join(f"[{i}]" for i in index) for index in indexes)


def limit_of(array, elements, index):
    """The limit that an index below or beyond a one-dimensional array violates."""
    return f"the first element of {array} is {array}[0]" if index < 0 else f"{array} has {elements} elements"


def triple(place):
    return f"({','.join(str(n) for n in place)})"


def thread_of(side):
    if not side.thread:
        return "a thread"
    return f"thread {triple(side.thread)}" + (f" of block {triple(side.block)}" if side.block else "")


def does_to(op, what):
    does = {"load": f"reads {what}", "store": f"writes {what}", "atomic": f"updates {what} atomically"}
    return does.get(op, f"uses {what}")


def unravel(flat, shape):
    """The indexes of element `flat` of an array; the first one may leave its dimension."""
    if not shape:
        return []
    indexes = []
    for size in reversed(shape[1:]):
        flat, index = divmod(flat, size)
        indexes.append(index)
    return [flat, *reversed(indexes)]


def quoted(line):
    """A source line as quoted in a sentence: without its comment, and not too long."""
    return shorten(without_comment(line), _LONGEST_QUOTE)


def wrapped(index):
    """A hint, if an index is a negative number that was taken for an unsigned one."""
    if index & 0xFFFFFFFF in _UNSET:
        return f"{index} is what a trace fills local variables with: was the index ever set?"
    if not 2**31 <= index < 2**32:
        return ""
    return f"{index} is {index - 2**32} as an unsigned number: does a subtraction go below 0?"


def ordinal(n):
    return ("first", "second", "third")[n] if n < 3 else f"{n + 1}th"


def counted(n, what, commas=","):
    """'1 more row', '1,240 more rows'."""
    return f"{n:{commas}} {what}{'' if n == 1 else 's'}"


def shorten(text, most):
    """The beginning of a text, at most `most` characters."""
    return text if len(text) <= most else text[: most - 4].rstrip() + " ..."
