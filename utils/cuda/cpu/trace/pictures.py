"""Pictures of memory accesses, legible in a lecture hall: what the 32 threads of one warp touch at once, and which
elements of a tensor core's matrices they hold."""

from dataclasses import dataclass

import matplotlib.pyplot as plt

from utils.cuda.cpu.fragments import of_product
from utils.cuda.cpu.trace.drawing import GREEN, HEADING, LANES, LEFT, RED, RIGHT, TEXT, WIDTH, warp_text
from utils.cuda.cpu.trace.fragment_panels import Bytes, Matrices, Products
from utils.cuda.cpu.trace.panels import Banks, Sectors
from utils.cuda.cpu.trace.records import accesses
from utils.ground.alt import describe

__all__ = ["GREEN", "RED", "picture", "picture_of_fragments"]

MOST_PANELS = 6


@dataclass(frozen=True)
class Access:
    """One access of the source, with one warp's request as its example.

    `lanes` are pairs (lane, offset in bytes from the region's first byte), `base` is that byte's address modulo 512,
    `element` the bytes per element of the region, `warp` says which warp it is, `size` is the region's size in bytes if
    known, `cost` what this access costs over the whole launch, in sectors or wavefronts. If it is one end of an
    asynchronous copy, `cost_of_copy` is what this request costs, which depends on the other end as well, and
    `from_words` are the words of 4 bytes that the lanes' copies begin with, modulo 65,536.
    """

    line: int | None
    source: str
    space: str
    op: str
    bytes: int
    region: str | None
    element: int | None
    base: int
    lanes: list
    warp: str
    block: tuple = (0, 0, 0)
    size: int | None = None
    cost: int = 0
    cost_of_copy: int | None = None
    from_words: tuple | None = None
    matrices: str | None = None  # as in records.Example

    def is_outside(self, offset):
        return self.size is not None and (offset < 0 or offset + self.bytes > self.size)


def picture(kernel_name, recorded, line=None):
    """The figure of what was recorded; `Trace.plot` describes it."""
    sizes = {p.region: p.region_bytes for p in recorded.problems if p.region_bytes}
    drawn = [_drawn(same, sizes, recorded.problems) for same in accesses(recorded.sites, by_region=True)]
    drawn = [access for access in drawn if access]
    if line is None:
        panels = [panel for access in drawn for panel in _panels(access, recorded)[:1]]
        lines = sorted({product.line for product in recorded.products if product.line})
        return _figure(kernel_name, panels, [_fragments_note(lines)] if lines else [])
    panels = [panel for access in drawn if access.line == line for panel in _panels(access, recorded)]
    products = {(p.product, p.name): p for p in reversed(recorded.products) if p.line == line}
    panels += [Products(of_product(*key), _Product(p.line, p.source, warp_text(p))) for key, p in products.items()]
    if not panels:
        lines = [access.line for access in drawn] + [product.line for product in recorded.products]
        have = ", ".join(str(number) for number in sorted(set(filter(None, lines))))
        have = f"the lines with an access are {have}" if have else "no line of this kernel has one"
        raise ValueError(f"line {line} has no access to global or shared memory: {have}")
    return _figure(kernel_name, panels)


def picture_of_fragments(fragments):
    """The figure of the fragments of an instruction, without a launch."""
    return _figure("", [Products(fragments, _Product(None, "", "a warp"))])


@dataclass(frozen=True)
class _Product:
    """What the heading of a product says."""

    line: int | None
    source: str
    warp: str
    cost: int = 0


def _fragments_note(lines):
    listed = ", ".join(map(str, lines[:12]))
    return f"Tensor cores multiply in line {listed}. plot(line={lines[0]}) draws who holds which element."


def _panels(access, recorded):
    """The panels of an access, the one that shows its cost first."""
    if access.space != "shared":
        return [Sectors(access)]
    past_cache = access.cost_of_copy == 0 and access.bytes == 16
    if not access.matrices and not past_cache:
        return [Banks(access)]
    pieces = recorded.pieces if access.block == recorded.pieces_of else ()
    pieces = [piece for piece in pieces if piece[0] == access.region and piece[1] % 16 == 0]
    sources = list(dict.fromkeys(source for *_, source, _ in pieces if source))
    places = {at: _place_in(source, offset, recorded) for _, at, _, source, offset in pieces}
    if len(sources) > 1:
        places = {at: f"{source}{places[at]}" for _, at, _, source, _ in pieces}
    shared, _ = recorded.tensors.get(access.region, ((), 0))

    def own(offset):
        return _indexed(shared, offset // (access.element or 1))

    shown = Bytes(access, places, sources, own)
    return [shown, Matrices(access)] if access.matrices else [shown]


def _place_in(tensor, offset, recorded):
    """Where a copied piece comes from: `[3][8]` of its tensor."""
    if not tensor:
        return "zeros"
    shape, size = recorded.tensors.get(tensor, ((), 0))
    return _indexed(shape, offset // size) if size else f"{tensor} + {offset} B"


def _indexed(shape, element):
    indices = []
    for side in reversed(shape[1:]):
        indices.append(element % side if side else 0)
        element = element // side if side else element
    return "".join(f"[{index}]" for index in (element, *reversed(indices)))


def _drawn(sites, sizes, problems):
    """The `Access` of the sites that are one access of the source, None if there is nothing to draw."""
    drawable = [site for site in sites if site.space != "constant" and site.example.lanes]
    if not drawable:
        return None
    worst = max(drawable, key=lambda site: _cost(site) / max(site.requests, 1))
    example = worst.example
    return Access(
        line=worst.line,
        source=worst.source,
        space=worst.space,
        op=worst.op,
        bytes=worst.bytes,
        region=example.region,
        element=example.element,
        base=example.base_alignment,
        lanes=[*map(tuple, example.lanes), *_lanes_outside(worst, problems)],
        warp=warp_text(example),
        block=example.block,
        size=sizes.get(example.region),
        cost=sum(map(_cost, sites)),
        cost_of_copy=example.cost_of_copy,
        from_words=example.from_words,
        matrices=example.matrices,
    )


def _lanes_outside(site, problems):
    """The lanes of a site's example that left the tensor: the runtime stops them before they are counted."""
    example, found = site.example, []
    known = {lane for lane, _ in example.lanes}
    for p in problems:
        alike = (p.position, p.op, p.bytes, p.region) == (site.position, site.op, site.bytes, example.region)
        if p.kind != "out_of_bounds" or not alike:
            continue
        x, y, z = p.thread
        if p.block == example.block and y == z == 0 and x // 32 == example.warp and x % 32 not in known:
            found.append((x % 32, p.offset))
    return found


def _cost(site):
    """Sectors (of 32 bytes) in global memory, wavefronts (over 32 banks) in shared memory."""
    return site.sectors if site.space == "global" else site.wavefronts


def _figure(title, panels, more=()):
    """A figure of these panels; if there are more than six, of the costliest, in the order given."""
    costliest = sorted(range(len(panels)), key=lambda i: -panels[i].access.cost)[:MOST_PANELS]
    every, panels = panels, [panels[i] for i in sorted(costliest)]
    notes = [*_notes(every, panels), *more]
    top, bottom = 0.75, 0.1 + 0.3 * len(notes)
    height = top + sum(panel.height + HEADING for panel in panels) + bottom
    fig = plt.figure(figsize=(WIDTH, height))
    warps = {panel.access.warp for panel in panels}
    what = "holds" if panels and all(isinstance(panel, Products) for panel in panels) else "touches"
    who = warps.pop() if len(warps) == 1 else "one warp"
    title = f"{title}: what {who} {what}" if title else f"What {who} {what}"
    size = min(20, 20 * 72 / len(title))  # at 20 points, 72 letters fit
    fig.text(LEFT / WIDTH, 1 - 0.15 / height, title, va="top", fontsize=size, parse_math=False)
    y = height - top
    for panel in panels:
        y -= panel.height + HEADING
        place = (LEFT / WIDTH, y / height, (WIDTH - LEFT - RIGHT) / WIDTH, (panel.height + HEADING) / height)
        ax = fig.add_axes(place)
        ax.set_xlim(-0.05, LANES + 0.05)
        ax.set_ylim(panel.height, -HEADING)  # in inches, downwards from the heading's end
        ax.axis("off")
        _heading(ax, panel)
        panel.draw(ax)
    for n, note in enumerate(notes):
        place = (LEFT / WIDTH, (bottom - 0.05 - 0.3 * n) / height)
        fig.text(*place, note, va="top", fontsize=TEXT, parse_math=False)
    described = [_described(panel) for panel in panels]
    describe("; ".join([title, *described]), fig)
    if getattr(fig.canvas, "required_interactive_framework", None) is None:
        plt.close(fig)  # a notebook shows what a cell returns: an open figure would be shown twice
    return fig


def _described(panel):
    where = f"line {panel.access.line}, " if panel.access.line else ""
    more = getattr(panel, "alternative", "")
    return f"{where}{panel.what}: {panel.verdict[0]}" + (f" ({more})" if more else "")


def _notes(panels, shown):
    if not panels:
        return ["no access to global or shared memory"]
    rest = list(dict.fromkeys(p.access.line for p in panels if p not in shown and p.access.line))
    if len(rest) > 12:
        rest = [*rest[:11], "...", rest[-1]]
    if not rest:
        return []
    return [f"Not drawn, less costly: line {', '.join(map(str, rest))}. plot(line={rest[0]}) draws that line."]


def _heading(ax, panel):
    access = panel.access
    line = f"line {access.line}   " if access.line else ""
    text = access.source if len(access.source) <= 72 else access.source[:68].rstrip() + " ..."
    ax.text(0, -HEADING + 0.15, line + text, va="top", fontsize=16, family="monospace", parse_math=False)
    verdict, colour = panel.verdict
    # One text after the other: the second starts where the first ends.
    first = ax.text(0, -0.17, f"{panel.what}:  ", va="bottom", fontsize=16, parse_math=False)
    place = {"xycoords": first, "xy": (1, 0), "va": "bottom", "fontsize": 16, "fontweight": "bold"}
    ax.annotate(verdict, color=colour, parse_math=False, **place)
