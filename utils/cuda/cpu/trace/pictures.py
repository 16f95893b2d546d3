"""Pictures of memory accesses, legible in a lecture hall: what the 32 threads of one warp touch at once."""

import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.patches import Polygon, Rectangle

from utils.cuda.cpu.trace.records import accesses
from utils.ground.alt import describe
from utils.ground.colours import COLOURS, PALE

LANES = BANKS = 32
SECTOR = 32  # bytes
MOST_PANELS = 6
TEXT = 15  # the smallest text, in points
EMPTY = "#F4F4F4"
RED, GREEN = "#B2182B", "#1B6B3A"  # distinct even for the colour-blind: one is much darker, and words say the same
WIDTH, LEFT, RIGHT = 13.7, 1.2, 0.25  # of the figure and its margins, in inches
HEADING, CELL = 0.95, 0.38  # heights in inches


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
    size: int | None = None
    cost: int = 0
    cost_of_copy: int | None = None
    from_words: tuple | None = None

    def is_outside(self, offset):
        return self.size is not None and (offset < 0 or offset + self.bytes > self.size)


def picture(kernel_name, recorded, line=None):
    """The figure of what was recorded; `Trace.plot` describes it."""
    sizes = {p.region: p.region_bytes for p in recorded.problems if p.region_bytes}
    drawn = [_drawn(same, sizes, recorded.problems) for same in accesses(recorded.sites, by_region=True)]
    drawn = [access for access in drawn if access]
    if line is None:
        return _figure(kernel_name, drawn)
    chosen = [access for access in drawn if access.line == line]
    if not chosen:
        have = ", ".join(str(number) for number in dict.fromkeys(access.line for access in drawn) if number)
        have = f"the lines with an access are {have}" if have else "no line of this kernel has one"
        raise ValueError(f"line {line} has no access to global or shared memory: {have}")
    return _figure(kernel_name, chosen)


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
        warp=f"warp {example.warp} of block ({','.join(map(str, example.block))})",
        size=sizes.get(example.region),
        cost=sum(map(_cost, sites)),
        cost_of_copy=example.cost_of_copy,
        from_words=example.from_words,
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


def _figure(title, accesses):
    """A figure with a panel for each access; if there are more than six, the costliest, in the order given."""
    costliest = sorted(range(len(accesses)), key=lambda i: -accesses[i].cost)[:MOST_PANELS]
    shown = [accesses[i] for i in sorted(costliest)]
    panels = [_Banks(access) if access.space == "shared" else _Sectors(access) for access in shown]
    notes = _notes(accesses, shown)
    top, bottom = 0.75, 0.1 + 0.3 * len(notes)
    height = top + sum(panel.height + HEADING for panel in panels) + bottom
    fig = plt.figure(figsize=(WIDTH, height))
    warps = {access.warp for access in shown}
    title = f"{title}: what {warps.pop() if len(warps) == 1 else 'one warp'} touches"
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
    described = [f"line {panel.access.line}, {_what(panel.access)}: {panel.verdict[0]}" for panel in panels]
    describe("; ".join([title, *described]), fig)
    if getattr(fig.canvas, "required_interactive_framework", None) is None:
        plt.close(fig)  # a notebook shows what a cell returns: an open figure would be shown twice
    return fig


def _notes(accesses, shown):
    if not accesses:
        return ["no access to global or shared memory"]
    rest = list(dict.fromkeys(access.line for access in accesses if access not in shown and access.line))
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
    first = ax.text(0, -0.17, f"{_what(access)}:  ", va="bottom", fontsize=16, parse_math=False)
    place = {"xycoords": first, "xy": (1, 0), "va": "bottom", "fontsize": 16, "fontweight": "bold"}
    ax.annotate(verdict, color=colour, parse_math=False, **place)


def _what(access):
    return f"{access.space} {access.op}" + (f" of {access.region}" if access.region else "")


def _cell(ax, x, y, width, height, colour, text="", edgecolor="white", linewidth=1.0):
    ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=edgecolor, linewidth=linewidth))
    style = {"ha": "center", "va": "center_baseline", "fontsize": TEXT, "color": "white" if colour == RED else "black"}
    if text:
        ax.text(x + width / 2, y + height / 2, text, **style)


def _label(ax, y, text):
    ax.text(-0.3, y, text, ha="right", va="center", fontsize=TEXT)


class _Sectors:
    """Lanes above, the sectors they touch below, and a ribbon from each lane to its bytes."""

    height = 2.25
    lanes_at, sectors_at = 0.0, 1.15  # the upper edges, in inches

    def __init__(self, access):
        self.access = access
        self.touched = {}  # sector -> the offsets within it, in bytes from the region's first byte
        self.used = set()
        for _, offset in access.lanes:
            self.used.update(range(offset, offset + access.bytes))
        for byte in sorted(self.used):
            self.touched.setdefault((access.base + byte) // SECTOR, []).append(byte)
        self.outside = [lane for lane, offset in access.lanes if access.is_outside(offset)]

    @property
    def verdict(self):
        sectors, least = self.access.cost_of_copy or len(self.touched), math.ceil(len(self.used) / SECTOR)
        text = f"{sectors} sector{'s' if sectors > 1 else ''} for 1 request, "
        if self.outside:
            lanes = f"{len(self.outside)} lanes" if len(self.outside) > 1 else f"lane {self.outside[0]}"
            return text + f"{lanes} outside {self.access.region}", RED
        if sectors <= least:
            return text + "the best there is", GREEN
        return text + f"{sectors / least:.3g} times the least", RED if sectors >= 2 * least else "black"

    def draw(self, ax):
        places, width = self._places()
        colours = {sector: COLOURS[i % 6] for i, sector in enumerate(self.touched)}
        active = dict(self.access.lanes)
        _label(ax, self.lanes_at + CELL / 2, "lanes")
        _label(ax, self.sectors_at + CELL / 2, "sectors")
        for x in places.values():
            _cell(ax, x, self.sectors_at, width, CELL, PALE, edgecolor="none")
        for lane in range(LANES):
            if lane not in active:
                _cell(ax, lane, self.lanes_at, 1, CELL, EMPTY)
                continue
            offset = active[lane]
            outside = self.access.is_outside(offset)
            for sector, begin, end in self._pieces(offset):
                colour = RED if outside else colours[sector]
                left, right = (places[sector] + width * (byte / SECTOR) for byte in (begin, end))
                corners = [(lane + 0.06, CELL), (lane + 0.94, CELL), (right, self.sectors_at), (left, self.sectors_at)]
                ax.add_patch(Polygon(corners, facecolor=colour, edgecolor="none", alpha=0.45))
                _cell(ax, left, self.sectors_at, right - left, CELL, colour, edgecolor="none")
            own = RED if outside else colours[next(self._pieces(offset))[0]]
            _cell(ax, lane, self.lanes_at, 1, CELL, own, str(lane))
        for x in places.values():
            ax.add_patch(Rectangle((x, self.sectors_at), width, CELL, fill=False, edgecolor="black", linewidth=1.2))
        self._name_elements(ax, places, width)

    def _places(self):
        """Where each sector begins, and how wide they are: neighbours touch, others keep a gap."""
        sectors = list(self.touched)
        steps = [0.0]
        for before, sector in zip(sectors, sectors[1:], strict=False):
            steps.append(steps[-1] + (1 if sector == before + 1 else 1.25))
        width = min(8.0, LANES / (steps[-1] + 1))
        left = (LANES - width * (steps[-1] + 1)) / 2
        return {sector: left + width * step for sector, step in zip(sectors, steps, strict=True)}, width

    def _pieces(self, offset):
        """The sectors of one lane's access, with the bytes of each: from, to."""
        at, end = self.access.base + offset, self.access.base + offset + self.access.bytes
        while at < end:
            sector = at // SECTOR
            until = min(end, (sector + 1) * SECTOR)
            yield sector, at - sector * SECTOR, until - sector * SECTOR
            at = until

    def _name_elements(self, ax, places, width):
        """Label each sector with its elements, below it; if there are many, only every second, third, ... one."""
        element, region = self.access.element or 1, self.access.region
        names = []
        for touched in self.touched.values():
            first, last = touched[0] // element, touched[-1] // element
            names.append(str(first) if first == last else f"{first}\N{EN DASH}{last}")
        if region and max(self._lanes_wide(f"{region}[{name}]") for name in names) < width:
            names = [f"{region}[{name}]" for name in names]
        step = math.ceil((max(map(self._lanes_wide, names)) + 0.2) / width)
        y = self.sectors_at + CELL + 0.08
        for x, name in list(zip(places.values(), names, strict=True))[::step]:
            ax.text(x + width / 2, y, name, ha="center", va="top", fontsize=TEXT, parse_math=False)
        _label(ax, self.sectors_at + CELL + 0.2, "elements" if self.access.element else "bytes")

    @staticmethod
    def _lanes_wide(text):
        """About how wide a text is, in units of a lane's cell."""
        return len(text) * 0.6 * TEXT / 72 / ((WIDTH - LEFT - RIGHT) / LANES)


class _Banks:
    """The 32 banks as columns; what one pass cannot serve is stacked in the next row.

    For an asynchronous copy, the banks where more lanes meet are drawn: those it loads from, or those it stores to.
    """

    def __init__(self, access):
        self.access = access
        begins = [(lane, access.base + offset) for lane, offset in access.lanes]
        if access.cost_of_copy:
            words = zip(access.lanes, access.from_words, strict=True)
            ends = {"go to": begins, "come from": [(lane, 4 * word) for (lane, _), word in words]}
        else:
            ends = {"banks": begins}
        stacks = {label: self._stacked(lanes, shared=label == "banks") for label, lanes in ends.items()}
        self.label = max(stacks, key=lambda label: stacks[label][1])
        self.cells, self.passes, self.ways, self.least = stacks[self.label]
        # Tall enough for two numbers where lanes share a cell, short enough for 32 passes.
        shared = any(len(lanes) > 1 for lanes in self.cells.values())
        self.cell = min(CELL * (1.6 if shared else 1), 3.2 / self.passes)
        self.numbered = self.cell >= 0.26
        self.height = self.cell * self.passes + (0.75 if self.numbered else 1.15)

    def _stacked(self, begins, shared):
        """For lanes with their first bytes: the cells, (pass, bank) -> lanes; the passes, the most in a bank, and the
        fewest possible passes. A word that several lanes want is one cell if words are `shared`."""
        cells, passes, ways, least = {}, 0, 1, 0
        # Eight-byte accesses are served half a warp at a time, sixteen-byte accesses a quarter.
        size = {8: 16, 16: 8}.get(self.access.bytes, LANES)
        for first in range(0, LANES, size):
            words = [{} for _ in range(BANKS)]  # for each bank: word -> lanes
            for lane, begin in begins:
                if first <= lane < first + size:
                    for word in range(begin // 4, (begin + self.access.bytes - 1) // 4 + 1):
                        words[word % BANKS].setdefault(word if shared else (word, lane), []).append(lane)
            for bank, lanes_of in enumerate(words):
                for n, lanes in enumerate(lanes_of.values()):
                    cells[passes + n, bank] = lanes
            most = max(map(len, words))
            passes, ways, least = passes + most, max(ways, most), least + (most > 0)
        return cells, passes, ways, least

    @property
    def verdict(self):
        passes = f"{self.passes} pass{'es' if self.passes > 1 else ''}"
        copy = self.access.cost_of_copy
        if copy == 0:
            return "an asynchronous copy past the cache: no pass is counted", GREEN
        if copy and copy > self.least:
            return f"{copy} passes instead of {self.least}: lanes {self.label} the same banks", RED
        if self.ways > 1:
            return f"{self.ways}-way bank conflict, {passes} instead of {self.least}", RED
        shared = ", lanes share a word" if any(len(lanes) > 1 for lanes in self.cells.values()) else ""
        return f"no bank conflict, {passes}{shared}", GREEN

    def draw(self, ax):
        bottom = self.cell * self.passes
        for bank in range(BANKS):
            ax.add_patch(Rectangle((bank, 0), 1, bottom, facecolor=EMPTY, edgecolor="white"))
            ax.text(bank + 0.5, bottom + 0.07, str(bank), ha="center", va="top", fontsize=TEXT, color="#555555")
        for (level, bank), lanes in self.cells.items():
            y = bottom - self.cell * (level + 1)  # stacked from the bottom, next to the banks' numbers
            colour = COLOURS[lanes[0] // 8]
            outside = any(lane in lanes and self.access.is_outside(offset) for lane, offset in self.access.lanes)
            text = self._lanes_text(lanes) if self.numbered else ""
            _cell(ax, bank, y, 1, self.cell, RED if outside else colour, text, linewidth=1 if text else 0.5)
        _label(ax, bottom / 2, "lanes")
        _label(ax, bottom + 0.19, self.label)
        if not self.numbered:  # then colours must suffice
            for n in range(0, LANES, 8):
                _cell(ax, n, bottom + 0.5, 1, 0.3, COLOURS[n // 8])
                ax.text(n + 1.2, bottom + 0.65, f"lanes {n}\N{EN DASH}{n + 7}", va="center", fontsize=TEXT)

    def _lanes_text(self, lanes):
        if len(lanes) == 1:
            return str(lanes[0])
        if len(lanes) > 2 and lanes[-1] - lanes[0] != len(lanes) - 1:
            return f"{len(lanes)}\N{MULTIPLICATION SIGN}"
        between = "\n" if len(lanes) == 2 else "-\n"
        return f"{lanes[0]}{between}{lanes[-1]}" if self.cell > 0.5 else f"{len(lanes)}\N{MULTIPLICATION SIGN}"
