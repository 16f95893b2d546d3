"""utils/manage/slides.py: what the metadata of a lesson's cells says, and the slides of every lesson."""

import re

import nbformat
import pytest

from utils.ground.errors import CourseError
from utils.manage import slides
from utils.manage.lessons import lessons

FEWEST, MOST, MOST_WORDS = 10, 25, 85  # slides of a lesson; words on a slide, without headings, code and tables


def text(source, of=None, shown=None):
    return _marked(nbformat.v4.new_markdown_cell(source), of, shown)


def code(source, of=None, shown=None, output=""):
    outputs = [nbformat.v4.new_output("stream", text=output)] if output else []
    return _marked(nbformat.v4.new_code_cell(source, outputs=outputs), of, shown)


def _marked(cell, of, shown):
    marks = {"slide_type": of} if of is not None else {}
    marks |= {"shown": shown} if shown is not None else {}
    cell.metadata |= {"slideshow": marks} if marks else {}
    return cell


def made(*cells):
    """The slides of these cells, each as pairs: the slide type, and the text."""
    found = slides.slides_of(nbformat.v4.new_notebook(cells=list(cells)))
    return [[(slides.kind(cell), cell.source) for cell in each] for each in found]


def test_cells_continue_a_slide_until_the_next_one_begins():
    assert made(
        text("before"),
        text("# Title", "slide"),
        code("1"),
        text("left out", "skip"),
        text("then", "fragment"),
        text("said", "notes"),
        text("## Next", "slide"),
        text("more", "-"),
    ) == [
        [("slide", "# Title"), ("", "1"), ("fragment", "then"), ("notes", "said")],
        [("slide", "## Next"), ("", "more")],
    ]


def test_of_a_text_chosen_paragraphs_are_shown_and_the_others_are_said():
    whole = "## Heading\n\nfirst\n\n```sh\na\n\nb\n```\n\nlast"
    assert made(text(whole, "slide", [1, 3])) == [
        [("slide", "## Heading\n\n```sh\na\n\nb\n```"), ("notes", "first\n\nlast")]
    ]
    assert made(text(whole, "slide")) == [[("slide", whole)]]
    assert made(text("# T", "slide"), text("one\n\ntwo", "fragment", [2])) == [
        [("slide", "# T"), ("fragment", "two"), ("notes", "one")]
    ]


def test_what_is_folded_is_said_and_never_shown():
    folded = "Guess.\n\n<details><summary>Answer</summary>\n\n# 42\n</details>"
    assert made(text("# T", "slide"), text(folded)) == [
        [("slide", "# T"), ("", "Guess."), ("notes", "**Answer**\n\n# 42")]
    ]
    (slide,) = made(text("# T", "slide"), text(folded, "notes"), code("1", "skip"))
    assert slide[1:] == [("notes", "Guess.\n\n**Answer**\n\n# 42")]


def test_a_slide_without_a_heading_gets_that_of_its_section():
    section = text("# Title\n\n## Section\n\nwords", "notes")
    with pytest.raises(CourseError, match="notes before the first slide"):
        made(section)
    assert made(text("# Title\n\n## Section", "skip"), code("1", "slide")) == [[("slide", "## Section"), ("", "1")]]
    assert made(text("words", "slide"), text("## Later", "slide"), text("words", "slide", []), code("2"))[2] == [
        ("slide", "## Later"),
        ("notes", "words"),
        ("", "2"),
    ]
    before_and_after = text("end\n\n## B\n\nbegin", "slide", [3])
    assert made(text("## A", "skip"), before_and_after)[0][0] == ("slide", "## B")
    assert made(text("## A", "skip"), text("end\n\n## B\n\nbegin", "slide", [1]))[0][0] == ("slide", "## A")


@pytest.mark.parametrize(
    "cell, said",
    [
        (text("x", "subslide"), "'subslide' is no slide type here"),
        (text("x", "slide", [2]), r"no paragraphs \[2\].*choose from 1 to 1"),
        (text("x", "slide", "code"), "no paragraphs code"),
        (code("x", "slide", [1]), r"code has no \[1\]"),
        (code("x", "fragment"), "fragment before the first slide"),
    ],
)
def test_what_means_nothing_is_refused_and_its_cell_is_named(cell, said):
    with pytest.raises(CourseError, match=rf"(?s)cell {cell.id}.*{said}"):
        made(cell)


def page(tmp_path, *cells):
    path = tmp_path / "00_made.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return slides.page(path)


def body(html):
    return re.search(r'<div class="slides">(.*?)</div></div>\n<script>', html, re.S)[1]


def test_an_output_appears_after_its_code_and_either_can_be_left_out(tmp_path):
    found = body(
        page(
            tmp_path,
            text("# Title", "slide"),
            code("both()", output="1"),
            code("only_code()", shown="code", output="2"),
            code("only_output()", shown="output", output="3"),
            text("said & <b>written</b>", "notes"),
        )
    )
    assert found.count("<section>") == 1
    blocks = re.findall(r'<div class="(program|result)( fragment)?">', found)
    assert blocks == [("program", ""), ("result", " fragment"), ("program", ""), ("result", " fragment")]
    assert "only_code" in found and "only_output" not in found
    assert '<aside class="notes">' in found and "<b>written</b>" in found.split("<aside")[1]


def test_cuda_is_highlighted_and_links_lead_to_other_slides(tmp_path):
    link = text("# [Next](01_next.ipynb)", "slide")
    found = body(page(tmp_path, link, code("%%cuda\n__global__ void f() {}\n")))
    assert '<span class="kt">void</span>' in found and 'href="01_next.html"' in found


def test_a_page_needs_nothing_beside_it(tmp_path):
    whole = page(tmp_path, text("# Title", "slide"))
    outside_scripts = re.sub(r"<script>.*?</script>", "", whole, flags=re.S)
    assert not re.search(r'(src|href)="(?!data:)', outside_scripts)
    assert not re.search(r"url\([\"']?(?!data:)\w", outside_scripts)
    assert whole.count("</script>") == 1 and "Reveal.initialize" in whole and "<title>Title</title>" in whole


def test_command_line(tmp_path, capsys):
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks" / "03_made.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[text("# Title", "slide"), text("## Two", "slide")]), path)
    assert slides.main(["3"], tmp_path) == 0
    assert capsys.readouterr().out == "  2 slides  build/slides/03_made.html\n"
    assert "<section>" in (tmp_path / "build" / "slides" / "03_made.html").read_text()
    nbformat.write(nbformat.v4.new_notebook(cells=[text("# Title")]), path)
    assert slides.main(["3"], tmp_path) == 2 and "03_made.ipynb has no slides" in capsys.readouterr().err


# ---------------------------------------------------------------- the lessons' own


def shown_words(cells):
    texts = [cell.source for cell in cells if cell.cell_type == "markdown" and slides.kind(cell) != "notes"]
    prose = re.sub(r"```.*?```|^\|.*?$|^#.*?$", "", "\n".join(texts), flags=re.S | re.M)
    return len(re.findall(r"\S*\w\S*", prose))


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_every_lesson_has_slides(path):
    found = slides.slides_of(nbformat.read(path, as_version=4))
    assert FEWEST <= len(found) <= MOST
    long = {cells[0].id: words for cells in found if (words := shown_words(cells)) > MOST_WORDS}
    assert long == {}, "too many words on a slide: choose paragraphs, or mark cells as notes or skip"
    bare = [cells[0].id for cells in found if sum(slides.kind(cell) != "notes" for cell in cells) < 2]
    bare = [each for each in bare if each.endswith("-heading")]
    assert bare == [], "slides with nothing but a heading"


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_no_slide_gives_an_answer_away(path):
    """A fold's text is in the notes; what only a click shows in the lesson is not on the slide."""
    html = re.sub(r'<aside class="notes">.*?</aside>', "", body(slides.page(path)), flags=re.S)
    assert "<details" not in html and "not yet" not in html
