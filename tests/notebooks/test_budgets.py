"""A lesson is one sitting: how many words, how much code and how many exercises it has, and alt text for pictures."""

import json
import re
from pathlib import Path
from statistics import median

import pytest

import kernels

ROOT = Path(kernels.__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXEMPT = ("00", "90", "91")  # they need no exercises, and may explain more per line of code

MOST_WORDS, MOST_WORDS_IN_A_CELL, MOST_WORDS_PER_LINE = 2500, 120, 7
MOST_LINES, MOST_LINES_OF_A_KERNEL, MOST_LINES_IN_THE_MIDDLE = 25, 40, 5
MOST_COLUMNS, MOST_BULLETS, FEWEST_CHECKS = 100, 4, 4


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell):
    return "".join(cell["source"])


def is_set_up(cell):
    return "REPO, REF =" in source(cell)


def words(cell) -> int:
    """The words of a text cell that a reader sees without opening a fold."""
    return len(re.sub(r"<details>.*?</details>", "", source(cell), flags=re.DOTALL).split())


def is_cuda(text):
    return "__global__" in text or text.startswith("%%cuda")


def cuda_texts(cell):
    """The CUDA of a cell: all of a code cell that has any, and what is fenced in a text."""
    texts = [source(cell)] if cell["cell_type"] == "code" else re.findall(r"```\w*\n(.*?)```", source(cell), re.DOTALL)
    return filter(is_cuda, texts)


def over_budget(cells, number) -> list[str]:
    """What a lesson has too much of, or too little, each with the id of its cell where there is one."""
    return [
        *_texts(cells),
        *_code(cells),
        *(_exercises_and_ratio(cells) if number not in EXEMPT else []),
        *_pictures(cells),
    ]


def _texts(cells):
    texts = [cell for cell in cells if cell["cell_type"] == "markdown"]
    total = sum(map(words, texts))
    if total > MOST_WORDS:
        yield f"{total} words outside folds"
    for cell in texts:
        if words(cell) > MOST_WORDS_IN_A_CELL:
            yield f"{cell['id']}: {words(cell)} words"
    bullets = re.search(r"^\*\*You will learn\*\*\n+((?:[-*] .*\n?|  .*\n?)+)", source(cells[0]), re.MULTILINE)
    count = len(re.findall(r"^[-*] ", bullets[1], re.MULTILINE)) if bullets else 0
    if not 1 <= count <= MOST_BULLETS:
        yield f"{count} bullets under **You will learn**"
    if not source(cells[-1]).strip():
        yield "the last cell is empty"


def _code(cells):
    set_up, *code = [cell for cell in cells if cell["cell_type"] == "code"]
    if not (is_set_up(set_up) and set_up["metadata"].get("jupyter", {}).get("source_hidden")):
        yield "the first code cell is not the set-up cell, folded"
    lengths = [len(source(cell).splitlines()) for cell in code]
    if median(lengths) > MOST_LINES_IN_THE_MIDDLE:
        yield f"half of the code cells have {median(lengths)} lines or more"
    for cell, length in zip(code, lengths, strict=True):
        if length > (MOST_LINES_OF_A_KERNEL if is_cuda(source(cell)) else MOST_LINES):
            yield f"{cell['id']}: {length} lines"
    for cell in cells:
        for wide in [line for text in cuda_texts(cell) for line in text.splitlines() if len(line) > MOST_COLUMNS]:
            yield f"{cell['id']}: a line of CUDA has {len(wide)} columns: {wide.strip()[:40]}"


def _exercises_and_ratio(cells):
    code = [source(cell) for cell in cells if cell["cell_type"] == "code" and not is_set_up(cell)]
    lines = sum(bool(line.strip()) for text in code for line in text.splitlines())
    total = sum(words(cell) for cell in cells if cell["cell_type"] == "markdown")
    if total > MOST_WORDS_PER_LINE * lines:
        yield f"{total / lines:.1f} words per line of code"
    checks = sum(len(re.findall(r"^check\(", text, re.MULTILINE)) for text in code)
    if checks < FEWEST_CHECKS:
        yield f"{checks} exercises"


def _pictures(cells):
    for cell in cells:
        for output in cell.get("outputs", []):
            data, alt = output.get("data", {}), output.get("metadata", {}).get("image/png", {}).get("alt", "")
            described = alt.strip() or "alt=" in "".join(data.get("text/html", ""))  # a player's picture is in its HTML
            if "image/png" in data and not described:
                yield f"{cell['id']}: a picture without alt text"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_keeps_to_its_budgets(path):
    found = over_budget(cells_of(path), path.name[:2])
    assert found == []


# ---------------------------------------------------------------- the budgets themselves, on a small lesson


def text(words, id="text"):
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": [words]}


def code(lines, id="code", metadata=None, outputs=()):
    return {"cell_type": "code", "id": id, "metadata": metadata or {}, "source": [lines], "outputs": list(outputs)}


HEAD = text("# 01 A lesson\n\n**You will learn**\n- one thing,\n  on two lines;\n- another.\n\n**Needs** nothing.")
SET_UP = code('REPO, REF = "", ""' + "\n1" * 90, metadata={"jupyter": {"source_hidden": True}})
EXERCISES = [code('x = 1\n\ncheck("01-x", x)')] * 4
LESSON = [HEAD, SET_UP, *EXERCISES]


def picture(alt):
    return {"data": {"image/png": "..."}, "metadata": {"image/png": {"alt": alt}} if alt is not None else {}}


def test_what_is_within_the_budgets():
    kernel = code("__global__ void f() {\n" + "1;\n" * 38 + "}")
    folded = text("<details><summary>More</summary>\n" + "word " * 5000 + "</details>")
    assert (
        over_budget([*LESSON, kernel, folded, text("word " * 120), code("f()", outputs=[picture("A cat.")])], "01")
        == []
    )
    assert over_budget([HEAD, SET_UP, code("f()"), text("word " * 100)], "00") == []


@pytest.mark.parametrize(
    "cells, said",
    [
        ([*LESSON, code("1\n" * 25), *[text("word " * 100) for _ in range(25)], code("f()")], "25"),
        ([*LESSON, code("1\n" * 25), text("word " * 121)], "text: 121 words"),
        ([*LESSON, text("word " * 50)], "8.4 words per line of code"),
        ([HEAD, SET_UP, *EXERCISES[1:]], "3 exercises"),
        ([*LESSON, code("1\n" * 26)], "code: 26 lines"),
        ([*LESSON, code("__global__ void f() {\n" + "1;\n" * 40)], "code: 41 lines"),
        ([*LESSON, *[code("1\n" * 6)] * 5], "half of the code cells have 6 lines or more"),
        (
            [*LESSON, code("__global__ void f();" + " " * 81)],
            "code: a line of CUDA has 101 columns: __global__ void f();",
        ),
        (
            [*LESSON, text("```python\n__global__ void f();" + " " * 81 + "\n```")],
            "text: a line of CUDA has 101 columns",
        ),
        ([HEAD, *EXERCISES, SET_UP], "the first code cell is not the set-up cell, folded"),
        ([HEAD, SET_UP | {"metadata": {}}, *EXERCISES], "the first code cell is not the set-up cell, folded"),
        (
            [text("# 01\n\n**You will learn**\n" + "- a\n" * 5), SET_UP, *EXERCISES],
            "5 bullets under **You will learn**",
        ),
        ([text("# 01"), SET_UP, *EXERCISES], "0 bullets under **You will learn**"),
        ([*LESSON, code("")], "the last cell is empty"),
        ([*LESSON, code("f()", outputs=[picture(None)])], "code: a picture without alt text"),
        ([*LESSON, code("f()", outputs=[picture(" ")])], "code: a picture without alt text"),
    ],
)
def test_what_is_over_budget_is_found(cells, said):
    assert any(sentence.startswith(said) for sentence in over_budget(cells, "01")), over_budget(cells, "01")
