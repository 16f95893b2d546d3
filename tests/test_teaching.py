"""docs/TEACHING.md: the lessons, sections and exercises that it names are there, and so are its own links."""

import json
import re
from pathlib import Path

import pytest

from utils.exercises.lessons import find

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "TEACHING.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]


def sections(lesson):
    (path,) = (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return {heading for text in texts for heading in re.findall(r"^##+ (.+)$", text, re.M)}


def test_every_section_that_a_route_names_exists():
    named = [(row[1][:2], section) for row in ROWS for section in re.findall(r"\*([^*]+)\*", row[1])]
    assert len(named) > 20
    assert [(lesson, section) for lesson, section in named if section not in sections(lesson)] == []


def test_every_exercise_that_is_named_exists():
    names = re.findall(r"(?<![#\w-])\d\d-[a-z]\w*", TEXT)
    assert len(names) > 5 and [name for name in names if find(name) is None] == []


def test_every_question_is_about_a_lesson_that_exists():
    lessons = {path.name[:2] for path in (ROOT / "notebooks").glob("*.ipynb")}
    asked = [row[0] for row in ROWS if re.match(r"\d\d: ", row[0])]
    assert len(asked) > 10 and {question[:2] for question in asked} <= lessons


@pytest.mark.parametrize("route", ["60 minutes", "90 minutes"])
def test_the_minutes_of_a_route_follow_each_other(route):
    part = re.search(rf"^## {route}.*?(?=^## )", TEXT, re.M | re.S)[0]
    spans = [tuple(map(int, pair)) for pair in re.findall(r"^\| (\d+) to (\d+) \|", part, re.M)]
    assert spans[0][0] == 0 and spans[-1][1] == int(route.split()[0])
    assert all(before[1] == after[0] for before, after in zip(spans, spans[1:], strict=False))


def test_links_within_the_page_lead_somewhere():
    headings = re.findall(r"^## (.+)$", TEXT, re.M)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\(#([\w-]+)\)", TEXT)) <= anchors
