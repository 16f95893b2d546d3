"""Makes slides of lessons:  python -m utils.manage.slides [LESSON ...]

Writes one file per lesson into build/slides/, with everything in it: reveal.js, the pictures, the players, and what to
say (key S). Nothing is executed. What is on a slide is in the metadata of the lesson's cells, `slideshow`, which
JupyterLab's property inspector shows as "Slide Type":

    slide_type: slide       begins a slide
                (none)      continues the slide; before the first slide, is on none
                fragment    continues the slide, one key later
                notes       what to say: only the speaker sees it
                skip        is on no slide

    shown:      [1, 3]      of a text, only these paragraphs are on the slide; the others are notes
                code        of a code cell, only the code
                output      of a code cell, only what it shows

A slide without a heading gets that of its section. What is folded in a text is a note. An output appears one key later
than its code, so that a class can predict it. `make present` reads the same metadata.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from pygments import highlight
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from utils.ground.errors import CourseError
from utils.ground.system import write
from utils.manage.highlighting import CudaInPython
from utils.manage.lessons import ROOT, exit_status, lessons, lessons_asked_for, title

REVEAL = Path(__file__).parent / "reveal"
KINDS = ("slide", "", "fragment", "notes", "skip")
HEADING = re.compile(r"#+ +(.+)")
FOLD = re.compile(r"<details\b[^>]*>\s*<summary>(.*?)</summary>(.*?)</details>", re.S)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{styles}</style>
</head>
<body>
<div class="reveal"><div class="slides">
{slides}
</div></div>
<script>{scripts}</script>
</body>
</html>
"""


def kind(cell) -> str:
    """A cell's slide type, "" if it has none."""
    return cell.metadata.get("slideshow", {}).get("slide_type", "").replace("-", "")


# ---------------------------------------------------------------- what is on a slide, and what is said


def paragraphs(text: str) -> list[str]:
    """What blank lines separate in a text; a fenced block is not cut."""
    found, fenced = [[]], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if line.strip() or fenced:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return ["\n".join(lines) for lines in found if lines]


def arranged(notebook) -> list:
    """The cells as slides need them, each with its slide type: texts cut into what is shown and what is said.

    Raises CourseError where the metadata means nothing.
    """
    found, section, begun = [], "", False
    for cell in notebook.cells:
        of, is_text = kind(cell), cell.cell_type == "markdown"
        if of not in KINDS:
            raise CourseError(f"cell {cell.id}: {of!r} is no slide type here", "use slide, -, fragment, notes or skip")
        if of in ("notes", "fragment") and not begun:
            raise CourseError(f"cell {cell.id}: {of} before the first slide", "begin a slide above it, or skip it")
        begun |= of == "slide"
        if of == "skip" or not begun:
            found.append(_typed(cell, "skip"))
        else:
            before, shown, said = _divided(cell) if is_text else ("", _as_shown(cell), "")
            if of == "slide" and not (is_text and shown and HEADING.match(shown.source)):
                found.append(_typed(_text(f"{cell.id}-heading", f"## {before or section}"), "slide"))
                of = ""
            found += [_typed(shown, of)] if shown else []
            found += [_typed(_text(f"{cell.id}-notes", said), "notes")] if said else []
        section = (_last_heading(cell.source) if is_text else "") or section
    return found


def _divided(cell):
    """A text cell as the last heading before what is shown, what is shown (a cell, or None), and what is said."""
    parts, chosen = paragraphs(FOLD.sub("", cell.source)), cell.metadata.get("slideshow", {}).get("shown")
    numbers = list(range(1, len(parts) + 1))
    if chosen is None:
        chosen = numbers
    if not (isinstance(chosen, list) and set(chosen) <= set(numbers)):
        raise CourseError(f"cell {cell.id}: there are no paragraphs {chosen}", f"choose from 1 to {len(parts)}")
    if kind(cell) == "notes":
        chosen = []
    shown, said = ([parts[k - 1] for k in numbers if (k in chosen) is wanted] for wanted in (True, False))
    said += [f"**{fold[1].strip()}**\n\n{fold[2].strip()}" for fold in FOLD.finditer(cell.source)]
    before = _last_heading("\n\n".join(parts[: min(chosen) - 1] if chosen else parts))
    return before, _with(cell, source="\n\n".join(shown)) if shown else None, "\n\n".join(said)


def _last_heading(text: str) -> str:
    """The last heading of a text, "" if it has none. What is folded does not count."""
    found = [HEADING.match(part) for part in paragraphs(FOLD.sub("", text))]
    return next((match[1] for match in reversed(found) if match), "")


def _as_shown(cell):
    """A code cell without what a slide does not show of it."""
    shown = cell.metadata.get("slideshow", {}).get("shown")
    if shown not in (None, "code", "output"):
        raise CourseError(f"cell {cell.id}: code has no {shown!r}", "choose code or output, or leave it out")
    if shown == "code":
        return _with(cell, outputs=[])
    if shown == "output":
        hidden = cell.metadata.get("jupyter", {}) | {"source_hidden": True}
        return _with(cell, metadata=cell.metadata | {"jupyter": hidden})
    return cell


def _typed(cell, of: str):
    """The cell with this slide type, and none of our own keys."""
    return _with(cell, metadata=cell.metadata | {"slideshow": {"slide_type": of or "-"}})


def _with(cell, **changed):
    return nbformat.from_dict(cell | changed)


def _text(name: str, source: str):
    return nbformat.v4.new_markdown_cell(source, id=name)


def slides_of(notebook) -> list[list]:
    """The cells of each slide, its notes included."""
    found = []
    for cell in arranged(notebook):
        if kind(cell) == "slide":
            found.append([cell])
        elif kind(cell) != "skip":
            found[-1].append(cell)
    return found


# ---------------------------------------------------------------- as a page


def _converter():
    """A function that turns a cell into HTML as nbconvert does, with CUDA C++ highlighted."""
    formatter = HtmlFormatter()
    left_out = ("exclude_input_prompt", "exclude_output_prompt", "exclude_anchor_links")
    exporter = HTMLExporter(
        template_name="basic",
        filters={"highlight_code": lambda source, **_: highlight(source, CudaInPython(), formatter)},
        config=Config({"HTMLExporter": dict.fromkeys(left_out, True)}),
    )
    return lambda cell: exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0]


def _section(cells, to_html) -> str:
    """A slide as reveal.js's element."""
    parts, notes = [], []
    for cell in cells:
        if kind(cell) == "notes":
            notes.append(to_html(cell))
        elif cell.cell_type == "code":
            if not cell.metadata.get("jupyter", {}).get("source_hidden"):
                source = re.sub(r"\n{3,}", "\n\n", cell.source)
                parts.append(_block("program", kind(cell), to_html(nbformat.v4.new_code_cell(source, id=cell.id))))
            if cell.outputs:
                alone = {"source": "", "metadata": {"transient": {"remove_source": True}}, "id": f"{cell.id}-output"}
                parts.append(_block("result", "fragment", to_html(_with(cell, **alone))))
        else:
            parts.append(_block("said", kind(cell), to_html(cell)))
    aside = f'<aside class="notes">{"".join(notes)}</aside>' if notes else ""
    return f'<section><div class="fitted">{"".join(parts)}</div>{aside}</section>'


def _block(what: str, of: str, text: str) -> str:
    return f'<div class="{what}{" fragment" if of == "fragment" else ""}">{text}</div>'


def page(path: Path) -> str:
    """The slides of a lesson as one HTML file. Raises CourseError if it has none."""
    found = slides_of(nbformat.read(path, as_version=4))
    if not found:
        raise CourseError(f"{path.name} has no slides", 'mark cells in JupyterLab as "Slide"')
    to_html = _converter()
    text = "\n".join(_section(cells, to_html) for cells in found)
    styles = [_ours("reveal.css"), HtmlFormatter(style="default").get_style_defs(".highlight"), _ours("slides.css")]
    return _PAGE.format(
        title=html.escape(title(path)),
        styles="\n".join(styles),
        slides=re.sub(r'href="(\d\d_\w+)\.ipynb', r'href="\1.html', text),
        scripts=";\n".join(map(_ours, ("reveal.js", "notes.js", "slides.js"))).replace("</script", "<\\/script"),
    )


def _ours(name: str) -> str:
    return (REVEAL / name).read_text(encoding="utf-8")


def slides(wanted: Iterable[str], root: Path = ROOT) -> int:
    folder = root / "build" / "slides"
    folder.mkdir(parents=True, exist_ok=True)
    for path in lessons(wanted, root):
        out, text = folder / f"{path.stem}.html", page(path)
        write(out, text)
        print(f"{text.count('<section>'):3} slides  {out.relative_to(root)}")
    return 0


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    return exit_status(slides, lessons_asked_for(arguments, "python -m utils.manage.slides", __doc__), root)


if __name__ == "__main__":
    sys.exit(main())
