"""Draws one moment of a recording with Pillow: the static picture of a player, and the frames of a film.

Legible without colour: letters mark who reads (r) and writes (w), bars who waits, crosses who has exited.
"""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

from utils.cuda.player.moment import LANES, barriers_text, elements, moment, sentence, telling_position
from utils.cuda.player.recording import Memory, Recording

__all__ = ["film", "frame", "png", "sentence", "telling_position"]

WIDTH, MARGIN, GAP = 1200, 24, 16  # pixels
CODE, TEXT, SMALL = 17, 19, 14  # font sizes
INK, QUIET, LINE, FAINT, PAPER = "#1b1f24", "#555c66", "#8a8f98", "#d9dce1", "#ffffff"
CURRENT, BAD = "#fff3c4", "#b2182b"
FILLS = {
    "read": "#d6e6fb",
    "write": "#fde0c9",
    "atomic": "#eddcf5",
    "copy": "#fde0c9",
    "shuffle": "#eddcf5",
    "product": "#eddcf5",
    "arrive": "#eddcf5",
}
EDGES = {
    "read": "#1f5fbf",
    "write": "#a84300",
    "atomic": "#7b2fa0",
    "copy": "#a84300",
    "shuffle": "#7b2fa0",
    "product": "#7b2fa0",
    "arrive": "#7b2fa0",
}
LETTERS = {
    "read": "r",
    "write": "w",
    "atomic": "a",
    "copy": "c",
    "shuffle": "s",
    "product": "m",
    "line": "•",
    "arrive": "+",
}
MOST_LINES, MOST_WARPS, MOST_SIDE, PAGE = 16, 8, 16, 8


def png(recording: Recording, position: int) -> bytes:
    """The picture of the moment after `position` steps, as a PNG of few colours."""
    file = io.BytesIO()
    image = frame(recording, position)
    image.quantize(48, dither=0).save(file, "PNG", optimize=True)
    return file.getvalue()


def film(recording: Recording, path, *, most=80, milliseconds=1000) -> None:
    """Write an animated GIF of at most `most` evenly chosen steps, `milliseconds` each; the last one stays longer."""
    positions = range(1, len(recording.steps) + 1)
    if len(positions) > most:
        positions = sorted({round(1 + k * (len(positions) - 1) / (most - 1)) for k in range(most)})
    images = [frame(recording, position) for position in positions]
    height = max(image.height for image in images)
    shown = []
    for image in images:
        whole = _Image().new("RGB", (WIDTH, height), PAPER)
        whole.paste(image)
        shown.append(whole.quantize(64, dither=0))
    times = [milliseconds] * (len(shown) - 1) + [4 * milliseconds]
    shown[0].save(path, save_all=True, append_images=shown[1:], duration=times, loop=0, optimize=True)


def frame(recording: Recording, position: int):
    """The moment after `position` steps, as a PIL image."""
    now = moment(recording, position)
    canvas = _Canvas()
    canvas.text(MARGIN, MARGIN, recording.kernel, _font(CODE + 5, "mono"))
    shape = " x ".join(str(side) for side in recording.block if side > 1) or "1"
    how = "as written (-O0)" if recording.language == "cuda" else "simulated in Python"
    canvas.text(WIDTH - MARGIN, MARGIN + 4, f"blocks of {shape} threads · {how}", _font(SMALL), QUIET, anchor="ra")
    top = MARGIN + 38
    if recording.note:
        top = canvas.paragraph(MARGIN, top, recording.note, _font(SMALL + 1), WIDTH - 2 * MARGIN, BAD)
    top = canvas.paragraph(MARGIN, top, sentence(recording, position), _font(TEXT), WIDTH - 2 * MARGIN) + GAP
    below = _threads(canvas, recording, now, top)
    problem = next((p for p in recording.problems if position - 1 in p.steps), None)
    if problem:  # where there is always room, so that nothing moves in a film
        text = "! " + problem.text.split("\n")[0]
        below = canvas.paragraph(WIDTH // 2, below + 8, text, _font(TEXT - 3), WIDTH // 2 - MARGIN, BAD)
    below = max(below, _source(canvas, recording, now, top)) + GAP
    for text in barriers_text(recording, position):
        changed = now.step and any(text.startswith(f"{recording.barriers[b].name}:") for b, *_ in now.step.barriers)
        below = canvas.paragraph(MARGIN, below, text, _font(TEXT - 3), WIDTH - 2 * MARGIN, INK if changed else QUIET)
    bottom = _memories(canvas, recording, now, below + GAP * bool(now.barriers))
    return canvas.image.crop((0, 0, WIDTH, bottom + MARGIN))


# ---------------------------------------------------------------- parts


def _source(canvas, recording, now, top):
    """Draw the lines around the current one in the left half; returns where they end."""
    lines, height = recording.source, 24
    at = (now.step.line if now.step else recording.first_line) - recording.first_line
    first = max(0, min(at - MOST_LINES // 2, len(lines) - MOST_LINES))
    letters = 58
    for row, text in enumerate(lines[first : first + MOST_LINES]):
        y = top + row * height
        if first + row == at and now.step:
            canvas.draw.rectangle((MARGIN, y - 1, WIDTH // 2 - GAP, y + height - 3), fill=CURRENT, outline="#9a6b00")
        canvas.text(MARGIN + 34, y, str(recording.first_line + first + row), _font(SMALL, "mono"), QUIET, anchor="ra")
        text = text if len(text) <= letters else text[: letters - 1] + "…"
        canvas.text(MARGIN + 44, y, text, _font(CODE - 2, "mono"))
    return top + height * min(len(lines), MOST_LINES)


def _threads(canvas, recording, now, top):
    """Draw the warps and lanes of the step's block in the right half; returns where they end."""
    block = now.step.block if now.step else 0
    threads = recording.blocks[block].threads
    warps = -(-threads // LANES)
    active = now.step.warp if now.step else 0
    first = max(0, min(active - MOST_WARPS // 2, warps - MOST_WARPS))
    left, cell = WIDTH // 2 + 62, 16
    index = ",".join(map(str, recording.blocks[block].index))
    canvas.text(WIDTH // 2, top, f"block ({index})", _font(SMALL + 1), QUIET)
    involved = [t for p in recording.problems if now.position - 1 in p.steps for t in map(tuple, p.threads)]
    for row, warp in enumerate(range(first, min(first + MOST_WARPS, warps))):
        y = top + 26 + row * (cell + 5)
        mark = "▶ " if warp == active and now.step else ""
        canvas.text(left - 8, y, f"{mark}warp {warp}", _font(SMALL - 1), INK if mark else QUIET, anchor="ra")
        for lane in range(min(LANES, threads - warp * LANES)):
            thread, kind = (block, warp * LANES + lane), None
            if now.step and warp == now.step.warp and lane in now.step.lanes:
                kind = now.step.kind
            fill, edge, text = FILLS.get(kind, PAPER), EDGES.get(kind, LINE), LETTERS.get(kind, "")
            if thread in now.exited:
                fill, text = "#e7e9ec", "×"
            elif thread in now.waits:
                fill, edge, text = "#ecedbf", "#5c5f00", "‖"
            if thread in involved:
                fill, edge, text = BAD, BAD, "!"
            canvas.cell(left + lane * cell, y, cell, cell, fill, edge, text, SMALL - 2, PAPER if fill == BAD else INK)
    return top + 26 + min(warps, MOST_WARPS) * (cell + 5)


def _memories(canvas, recording, now, top):
    """Draw the memories of the step's block as cells, side by side; returns where they end."""
    block = now.step.block if now.step else 0
    shown = [k for k, memory in enumerate(recording.memories) if memory.block in (None, block)]
    x, y, bottom = MARGIN, top, top
    for index in shown:
        rows, columns = _window(recording, index, block, now)
        values = len(rows) * len(columns) <= 144
        width, height = (39, 28) if values else (18, 18)
        _, kind, from_left = _heading(recording.memories[index])
        across = max(46 + width * len(columns), from_left + int(_font(SMALL).getlength(kind)))
        if x > MARGIN and x + across > WIDTH - MARGIN:
            x, y = MARGIN, bottom + GAP
        if y > 1400:
            canvas.text(MARGIN, y, "and more memories", _font(SMALL), QUIET)
            return y + 20
        bottom = max(bottom, _memory(canvas, recording, now, index, rows, columns, (x, y, width, height)))
        x += across + 2 * GAP
    return bottom


def _heading(memory: Memory) -> tuple[str, str, int]:
    """A memory's name, what it is, and where that begins, in pixels from the left of the name."""
    kind = f"{memory.space} {memory.type} {' x '.join(map(str, memory.shape))}"
    return memory.name, kind, 10 + 11 * len(memory.name)


def _memory(canvas, recording, now, index, rows, columns, place):
    memory, held = recording.memories[index], now.held[index]
    x, y, width, height = place
    step = now.step if now.step and now.step.memory == index else None
    who = {}
    for lane, element, _ in elements(step) if step else []:
        who.setdefault(element, []).append(lane)
    name, kind, from_left = _heading(memory)
    canvas.text(x, y, name, _font(CODE, "mono"))
    canvas.text(x + from_left, y + 2, kind, _font(SMALL), QUIET)
    first = memory.window[0] if memory.window else 0
    across = _columns(memory)
    for i, row in enumerate(rows):
        top = y + 28 + i * height
        canvas.text(
            x + 40,
            top + height // 2,
            str(row if len(memory.shape) > 1 else row * across),
            _font(SMALL - 3),
            QUIET,
            "rm",
        )
        for j, column in enumerate(columns):
            element = row * across + column
            if element >= _size(memory):
                continue
            at = element - first
            value = held[at] if 0 <= at < len(held) else ""
            lanes = who.get(element)
            kind = step.kind if lanes else None
            text = ("·" if value is None else _short(value)) if width > 20 else ""
            fill = FILLS.get(kind, "#f1f2f4" if value is None else PAPER)
            left = x + 46 + j * width
            canvas.cell(left, top, width, height, fill, EDGES.get(kind, FAINT))
            place = (left + width / 2, top + height / 2 + (5 if lanes else 0))
            canvas.text(*place, text, _font(SMALL - 2), anchor="mm")
            if lanes:
                canvas.draw.rectangle((left + 1, top + 1, left + width - 1, top + height - 1), outline=EDGES[kind])
                label = str(lanes[0]) if len(lanes) == 1 else "×" + str(len(lanes)) if width > 20 else LETTERS[kind]
                spot = (left + width - 3, top + 2, "ra") if width > 20 else (left + width // 2, top + height // 2, "mm")
                canvas.text(*spot[:2], (LETTERS[kind] if width > 20 else "") + label, _font(10), INK, spot[2])
    return y + 28 + height * len(rows)


def _window(recording, index, block, now):
    """The rows and columns to draw: all, or those around the last elements touched."""
    memory = recording.memories[index]
    across = _columns(memory)
    down = -(-_size(memory) // across)
    last = next((s for s in reversed(recording.steps[: now.position]) if s.memory == index and s.block == block), None)
    touched = [element for _, element, _ in elements(last)] if last else []

    def pick(side, split):
        if side <= MOST_SIDE:
            return range(side)
        wanted = sorted({split(element) for element in touched if 0 <= element < _size(memory)}) or [0]
        if wanted[-1] - wanted[0] >= MOST_SIDE:
            return wanted[:MOST_SIDE]
        begin = wanted[0] // PAGE * PAGE
        begin = begin if wanted[-1] < begin + MOST_SIDE else wanted[0]
        return range(begin, min(side, max(begin + PAGE, wanted[-1] + 1)))

    return pick(down, lambda element: element // across), pick(across, lambda element: element % across)


def _columns(memory: Memory) -> int:
    return max(1, memory.shape[-1] if len(memory.shape) > 1 else min(16, _size(memory)))


def _size(memory: Memory) -> int:
    size = 1
    for side in memory.shape:
        size *= side
    return size


def _short(value) -> str:
    """A value in about six characters."""
    if not isinstance(value, float) or value != value or abs(value) == float("inf"):
        return str(value)
    return next((text for text in (f"{value:.3g}", f"{value:.2g}") if len(text) <= 5), f"{value:.1g}")


# ---------------------------------------------------------------- Pillow


def _Image():
    from PIL import Image  # takes a tenth of a second, so only drawing imports it

    return Image


@lru_cache
def _font(size, kind="sans"):
    """DejaVu, which comes with matplotlib: the same letters on every machine."""
    import matplotlib
    from PIL import ImageFont

    name = {"sans": "DejaVuSans.ttf", "mono": "DejaVuSansMono.ttf"}[kind]
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)


class _Canvas:
    def __init__(self):
        from PIL import ImageDraw

        self.image = _Image().new("RGB", (WIDTH, 1600), PAPER)
        self.draw = ImageDraw.Draw(self.image)

    def text(self, x, y, text, font, fill=INK, anchor="la"):
        self.draw.text((x, y), text, font=font, fill=fill, anchor=anchor)

    def paragraph(self, x, y, text, font, width, fill=INK):
        """Draw text in lines that fit; returns where it ends."""
        line = ""
        for word in text.split(" "):
            longer = f"{line} {word}".strip()
            if line and self.draw.textlength(longer, font=font) > width:
                self.text(x, y, line, font, fill)
                y, longer = y + int(font.size * 1.4), word
            line = longer
        self.text(x, y, line, font, fill)
        return y + int(font.size * 1.4)

    def cell(self, x, y, width, height, fill, edge, text="", size=SMALL, ink=INK):
        self.draw.rectangle((x, y, x + width, y + height), fill=fill, outline=edge)
        if text:
            self.text(x + width / 2, y + height / 2, text, _font(size), ink, "mm")
