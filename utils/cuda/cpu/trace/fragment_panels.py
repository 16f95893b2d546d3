"""Panels of tensor cores: which lane holds which element, what ldmatrix moves, and which bytes of shared memory hold
what."""

from dataclasses import dataclass

from matplotlib.colors import hsv_to_rgb
from matplotlib.patches import Rectangle

from utils.cuda.cpu.fragments import rows_of_matrices
from utils.cuda.cpu.trace.drawing import ACROSS, EMPTY, GREEN, LANES, RED, cell, label
from utils.ground.colours import COLOURS

INCH = LANES / ACROSS  # of the x axis
SMALL = 11  # the smallest text here, in points: 14 pixels of a picture that is 1280 wide
PIECE, LINE = 16, 128  # bytes: a row of a matrix, and one word of each bank
MOST_LINES = 32


def colour_of(lane):
    """A light colour for each of the 32 lanes: a hue for the four that are neighbours in a row of A."""
    return tuple(hsv_to_rgb((lane // 4 / 8, 0.14 + 0.13 * (lane % 4), 1.0 - 0.03 * (lane % 4))))


def elements_text(first, count, inches=1.0):
    """Rows, columns or elements of a fragment: `2`, `2,3`, `4–7`; `4–` where there is no room."""
    if count == 1:
        return str(first)
    text = f"{first},{first + 1}" if count == 2 else f"{first}\N{EN DASH}{first + count - 1}"
    return text if len(text) * 0.6 * SMALL / 72 <= inches else f"{first}\N{EN DASH}"


def fitting(text, width, most):
    """The size of a text, in points, that fits into so many inches; at least SMALL."""
    return max(SMALL, min(most, width * 72 / (0.68 * max(1, len(text)))))


@dataclass(frozen=True)
class Grid:
    """One tile on the page: its groups of elements as cells of `width` units and `height` inches."""

    tile: object
    title: str
    width: float
    height: float

    @property
    def across(self):
        return self.tile.columns // self.tile.together[1]

    @property
    def down(self):
        return self.tile.rows // self.tile.together[0]

    def draw(self, ax, x, y, with_rows=True):
        """Draw it with its title above; (x, y) is the corner of the first cell."""
        rows, columns = self.tile.together
        ax.text(x, y - 0.28, self.title, va="bottom", fontsize=14, fontweight="bold", parse_math=False)
        inches = self.width / INCH
        for column in range(self.across):
            text = elements_text(column * columns, columns, inches)
            ax.text(x + (column + 0.5) * self.width, y - 0.04, text, **_axis(text, inches), ha="center", va="bottom")
        for row in range(self.down if with_rows else 0):
            text = elements_text(row * rows, rows, 0.48)
            ax.text(x - 0.12, y + (row + 0.5) * self.height, text, **_axis(text, 0.36), ha="right", va="center")
        for row, column, lane, e in self.tile.groups:
            left, top = x + column // columns * self.width, y + row // rows * self.height
            cell(ax, left, top, self.width, self.height, colour_of(lane))
            middle, text = left + self.width / 2, f"T{lane}"
            size = fitting("T31", inches, 15)
            ax.text(middle, top + 0.31 * self.height, text, ha="center", va="center", fontsize=size)
            text = elements_text(e, max(rows, columns), inches)
            size = fitting(text, inches, 12)
            ax.text(middle, top + 0.74 * self.height, text, ha="center", va="center", fontsize=size, color="#333333")


def _axis(text, inches):
    return {"fontsize": fitting(text, inches, 12), "color": "#555555"}


class Products:
    """The matrices of a product side by side: every element with the lane that holds it."""

    MARGIN, ABOVE, BELOW = 1.3, 0.62, 0.15  # units of the row numbers; inches of the titles, and under a tile

    def __init__(self, fragments, access):
        self.fragments, self.access = fragments, access  # whose line and source are those of the heading
        f = self.fragments
        same = f.c.type == f.d.type
        tiles = [("A", f.a), ("B", f.b), ("C and D" if same else "C", f.c), *([] if same else [("D", f.d)])]
        names = [f"{name}: {t.rows} \N{MULTIPLICATION SIGN} {t.columns} {t.type}" for name, t in tiles]
        grids = [Grid(t, name, 1, 0.44) for (_, t), name in zip(tiles, names, strict=True)]
        self.rows, room = [[]], 34  # of tiles: as many as fit
        for grid in grids:
            if self.rows[-1] and sum(other.across for other in self.rows[-1]) + grid.across > room:
                self.rows.append([])
            self.rows[-1].append(grid)
        widest = max(sum(g.across for g in row) for row in self.rows)
        most = max(len(row) for row in self.rows)
        # A title is as wide as its tile, or wider: four short tiles must not come too close to each other.
        self.width = min((LANES - self.MARGIN * most) / widest, 2.4)
        self.rows = [[Grid(g.tile, g.title, self.width, g.height) for g in row] for row in self.rows]
        self.height = sum(self._height(row) for row in self.rows) + 0.35 * len(self.notes)

    def _height(self, row):
        return self.ABOVE + max(grid.down * grid.height for grid in row) + self.BELOW

    @property
    def what(self):
        f = self.fragments
        return f"{f.name} {f.shape}, {f.a.type} \N{MULTIPLICATION SIGN} {f.b.type} + {f.c.type}"

    @property
    def verdict(self):
        f, lane = self.fragments, 0
        text = f"a lane holds {len(f.a.held[lane])} of A, {len(f.b.held[lane])} of B, {len(f.d.held[lane])} of D"
        return text, "black"

    @property
    def alternative(self):
        """The picture in words: what two lanes hold."""

        def places(tile, lane):
            return " ".join(f"[{row}][{column}]" for row, column in tile.held[lane][:16])

        f = self.fragments
        parts = [f"lane {lane} holds {tile.name} {places(tile, lane)}" for lane in (0, 1) for tile in (f.a, f.b, f.d)]
        return "; ".join(parts)

    @property
    def notes(self):
        order = (
            "x[0], x[1], ... of its fragment"
            if "wmma::" in self.fragments.name
            else "its registers, as PTX counts them"
        )
        found = [f"T5 is lane 5. Below it: which elements of {order}."]
        if self.fragments.quads:
            found.append(
                "The first of four products: lanes 4 to 7 and 20 to 23 hold the second in the same way, and so on."
            )
        return found

    def draw(self, ax):
        y = 0.0
        for row in self.rows:
            x = self.MARGIN - 1.3
            for grid in row:
                x += 1.0
                grid.draw(ax, x, y + self.ABOVE)
                x += grid.across * grid.width + self.MARGIN - 1.0
            y += self._height(row)
        for n, note in enumerate(self.notes):
            ax.text(0, y + 0.35 * n, note, va="top", fontsize=13, color="#555555", parse_math=False)


class Matrices:
    """What ldmatrix or stmatrix moves: 8 x 8 matrices, with the lane that gives each row's address, and the lanes that
    hold the elements."""

    MARGIN, ABOVE = 1.5, 0.65

    def __init__(self, access):
        self.access = access
        self.tile = rows_of_matrices(access.matrices == "transposed")
        self.count = max(lane for lane, _ in access.lanes) // 8 + 1
        self.width = min((LANES - self.MARGIN * self.count) / (self.count * self._across), 1.6)
        self.height = self.ABOVE + 8 // self.tile.together[0] * self._cell + 0.4

    @property
    def _across(self):
        return 8 // self.tile.together[1]

    @property
    def _cell(self):
        return 0.44 * self.tile.together[0] if self.tile.together[0] > 1 else 0.42

    @property
    def what(self):
        name = "ldmatrix" if self.access.op == "load" else "stmatrix"
        trans = ".trans" if self.access.matrices == "transposed" else ""
        return f"{name}{trans}, {self.count} matri{'ces' if self.count > 1 else 'x'} of {self.access.region}"

    @property
    def verdict(self):
        return f"each row from one lane's address, each pair {self._way} one lane", "black"

    @property
    def _way(self):
        return "to" if self.access.op == "load" else "from"

    @property
    def alternative(self):
        tile, verb = self.tile, "gets" if self.access.op == "load" else "gives"
        first = ", ".join(f"lane {lane} {verb} " + " ".join(map(str, tile.held[lane])) for lane in (0, 1, 4))
        return f"of each matrix {first}"

    def draw(self, ax):
        rows = 8 // self.tile.together[0]
        for matrix in range(self.count):
            x = 1.2 + matrix * (self._across * self.width + self.MARGIN)
            title = f"matrix {matrix}: register {matrix}"
            grid = Grid(self.tile, title, self.width, self._cell)
            grid.draw(ax, x, self.ABOVE, with_rows=False)  # instead: who gives their addresses
            each = rows * self._cell / 8
            for row in range(8):
                text = f"T{8 * matrix + row} \N{RIGHTWARDS ARROW}"
                place = (x - 0.1, self.ABOVE + (row + 0.5) * each)
                ax.text(*place, text, ha="right", va="center", fontsize=12, color=COLOURS_DARK[matrix])


COLOURS_DARK = ["#2B5C8A", "#A63A14", "#6B5E00", "#9B2C5E"]  # as COLOURS[:4], with a contrast for text


class Bytes:
    """Shared memory as its banks see it, 128 bytes to a line: what each piece of 16 bytes holds, and who wants it.

    `pieces` are those that asynchronous copies filled, from `sources`: {offset: where from}. `own` names any other
    piece by its offset.
    """

    ROW = 0.32

    def __init__(self, access, pieces, sources, own):
        self.access, self.pieces, self.sources, self.own = access, pieces, sources, own
        self.wanted, self.passes = {}, [0] * 4  # line and column -> lane, its pass; passes by eight lanes
        for group in range(4):
            stacks = {}
            for lane, offset in access.lanes:
                if lane // 8 != group:
                    continue
                line, column = self._place(offset)
                stack = stacks.setdefault(column, [])
                if line not in stack:
                    stack.append(line)
                self.wanted.setdefault((line, column), (lane, stack.index(line) + 1))
            self.passes[group] = max(map(len, stacks.values()), default=0)
        touched = {line for line, _ in self.wanted}
        near = {self._place(at)[0] for at in pieces} - touched
        more = sorted(near, key=lambda line: (min(abs(line - other) for other in touched), line))
        self.all_lines = len(touched)
        self.lines = sorted([*sorted(touched)[:MOST_LINES], *more[: max(0, 8 - len(touched))]])
        self.is_copy = access.cost_of_copy is not None
        self.height = 0.35 + self.ROW * len(self.lines) + 0.55 + 0.32

    def _place(self, offset):
        at = self.access.base + offset
        return at // LINE, at % LINE // PIECE

    @property
    def what(self):
        return f"shared {self.access.op} of {self.access.region}"

    @property
    def verdict(self):
        if self.is_copy:
            return "an asynchronous copy past the cache: no pass is counted", GREEN
        passes, least = sum(self.passes), sum(map(bool, self.passes))
        if passes > least:
            return f"{max(self.passes)}-way bank conflict, {passes} passes instead of {least}", RED
        return f"no bank conflict, {passes} pass{'es' if passes > 1 else ''}", GREEN

    @property
    def alternative(self):
        lanes = sorted((lane, place) for place, (lane, _) in self.wanted.items())
        parts = [
            f"lane {lane}: {self._text(*place)} in banks {4 * place[1]} to {4 * place[1] + 3}"
            for lane, place in lanes[:8]
        ]
        return "; ".join(parts)

    def _text(self, line, column):
        offset = line * LINE + column * PIECE - self.access.base
        piece = self.pieces.get(offset)
        return piece if piece is not None else self.own(offset)

    def draw(self, ax):
        top, width = 0.35, LANES / 8
        for column in range(8):
            text = f"{4 * column}\N{EN DASH}{4 * column + 3}"
            ax.text((column + 0.5) * width, top - 0.05, text, ha="center", va="bottom", fontsize=13, color="#555555")
        label(ax, top - 0.15, "banks")
        for row, line in enumerate(self.lines):
            y = top + row * self.ROW
            if not row or line != self.lines[row - 1] + 1 or not row % 4:
                at = max(0, line * LINE - self.access.base)
                ax.text(-0.3, y + self.ROW / 2, f"byte {at}", ha="right", va="center", fontsize=12)
            for column in range(8):
                self._draw_piece(ax, line, column, column * width, y, width)
        bottom = top + self.ROW * len(self.lines)
        for group, passes in enumerate(self.passes):
            if passes or any(lane // 8 == group for lane, _ in self.wanted.values()):
                x = group * LANES / 4
                cell(ax, x, bottom + 0.12, 0.6, 0.28, COLOURS[group])
                text = f"lanes {8 * group}\N{EN DASH}{8 * group + 7}"
                if not self.is_copy:
                    text += f": {passes} pass{'es' if passes > 1 else ''}"
                bad = passes > 1 and not self.is_copy
                ax.text(x + 0.8, bottom + 0.26, text, va="center", fontsize=13, color=RED if bad else "black")
        ax.text(0, bottom + 0.5, self._note(), va="top", fontsize=13, color="#555555", parse_math=False)

    def _note(self):
        of = f"its first element of {self.access.region}"
        if self.pieces:
            of = f"the first element of {' or '.join(self.sources)} that was copied there"
        does = "copies" if self.is_copy else "reads" if self.access.op == "load" else "writes"
        text = f"A cell is 16 bytes: the lane that {does} it, and {of}."
        if any(passes > 1 for passes in self.passes) and not self.is_copy:
            text += " p3: in the third pass."
        if self.all_lines > MOST_LINES:
            text += f" {self.all_lines - MOST_LINES} more lines are not drawn."
        return text

    def _draw_piece(self, ax, line, column, x, y, width):
        lane, nth = self.wanted.get((line, column), (None, 1))
        offset = line * LINE + column * PIECE - self.access.base
        known = offset in self.pieces or lane is not None
        conflict = lane is not None and nth > 1 and not self.is_copy
        fill = EMPTY if lane is None else COLOURS[lane // 8]
        cell(ax, x, y, width, self.ROW, fill, edgecolor="white")
        if conflict:
            edge = {"fill": False, "edgecolor": RED, "linewidth": 2}
            ax.add_patch(Rectangle((x + 0.05, y + 0.02), width - 0.1, self.ROW - 0.04, **edge))
        if lane is not None:
            text = f"T{lane}" + (f" p{nth}" if conflict else "")
            ax.text(x + 0.12, y + self.ROW / 2, text, ha="left", va="center", fontsize=SMALL, fontweight="bold")
        if known:
            style = {"fontsize": SMALL, "color": "black" if lane is not None else "#666666", "parse_math": False}
            ax.text(x + width - 0.12, y + self.ROW / 2, self._text(line, column), ha="right", va="center", **style)
