"""Panels of a picture of memory accesses: which sectors, or which banks, the lanes of a warp touch at once."""

import math

from matplotlib.patches import Polygon, Rectangle

from utils.cuda.cpu.trace.drawing import ACROSS, BANKS, CELL, EMPTY, GREEN, LANES, RED, TEXT, cell, label
from utils.ground.colours import COLOURS, PALE

SECTOR = 32  # bytes


def what(access):
    return f"{access.space} {access.op}" + (f" of {access.region}" if access.region else "")


class Sectors:
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
    def what(self):
        return what(self.access)

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
        label(ax, self.lanes_at + CELL / 2, "lanes")
        label(ax, self.sectors_at + CELL / 2, "sectors")
        for x in places.values():
            cell(ax, x, self.sectors_at, width, CELL, PALE, edgecolor="none")
        for lane in range(LANES):
            if lane not in active:
                cell(ax, lane, self.lanes_at, 1, CELL, EMPTY)
                continue
            offset = active[lane]
            outside = self.access.is_outside(offset)
            for sector, begin, end in self._pieces(offset):
                colour = RED if outside else colours[sector]
                left, right = (places[sector] + width * (byte / SECTOR) for byte in (begin, end))
                corners = [(lane + 0.06, CELL), (lane + 0.94, CELL), (right, self.sectors_at), (left, self.sectors_at)]
                ax.add_patch(Polygon(corners, facecolor=colour, edgecolor="none", alpha=0.45))
                cell(ax, left, self.sectors_at, right - left, CELL, colour, edgecolor="none")
            own = RED if outside else colours[next(self._pieces(offset))[0]]
            cell(ax, lane, self.lanes_at, 1, CELL, own, str(lane))
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
        label(ax, self.sectors_at + CELL + 0.2, "elements" if self.access.element else "bytes")

    @staticmethod
    def _lanes_wide(text):
        """About how wide a text is, in units of a lane's cell."""
        return len(text) * 0.6 * TEXT / 72 / (ACROSS / LANES)


class Banks:
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
        stacks = {end: self._stacked(lanes, shared=end == "banks") for end, lanes in ends.items()}
        self.label = max(stacks, key=lambda end: stacks[end][1])
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
    def what(self):
        return what(self.access)

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
            cell(ax, bank, y, 1, self.cell, RED if outside else colour, text, linewidth=1 if text else 0.5)
        label(ax, bottom / 2, "lanes")
        label(ax, bottom + 0.19, self.label)
        if not self.numbered:  # then colours must suffice
            for n in range(0, LANES, 8):
                cell(ax, n, bottom + 0.5, 1, 0.3, COLOURS[n // 8])
                ax.text(n + 1.2, bottom + 0.65, f"lanes {n}\N{EN DASH}{n + 7}", va="center", fontsize=TEXT)

    def _lanes_text(self, lanes):
        if len(lanes) == 1:
            return str(lanes[0])
        if len(lanes) > 2 and lanes[-1] - lanes[0] != len(lanes) - 1:
            return f"{len(lanes)}\N{MULTIPLICATION SIGN}"
        between = "\n" if len(lanes) == 2 else "-\n"
        return f"{lanes[0]}{between}{lanes[-1]}" if self.cell > 0.5 else f"{len(lanes)}\N{MULTIPLICATION SIGN}"
