"""The slides of every lesson in a browser: everything fits 1280 x 720, nothing is small, and no network is needed.

The environment variable LESSON chooses lessons: 3, or "02 07".
"""

import os
import re

import nbformat
import pytest

from utils.manage.lessons import lessons
from utils.manage.slides import page, slides_of

LESSONS = lessons(os.environ.get("LESSON", "").split())
SMALLEST_TEXT, SMALLEST_PICTURE = 0.75, 0.5  # of 26 pixels, or 20 for code; of a picture's own size

LAID_OUT = """() => [...document.querySelectorAll('.fitted')].map((content) => {
    const section = content.parentElement, style = section.getAttribute('style') || '';
    section.style.cssText = 'display: block !important; visibility: hidden';
    const frame = section.getBoundingClientRect();
    const texts = document.createTreeWalker(content, NodeFilter.SHOW_TEXT), outside = [];
    const inside = (box) => box.left >= frame.left - 1 && box.top >= frame.top - 1
        && box.right <= frame.right + 1 && box.bottom <= frame.bottom + 1;
    for (const picture of content.querySelectorAll('img'))
        if (!picture.closest('.cuda-player') && !inside(picture.getBoundingClientRect())) outside.push('a picture');
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(text);
        if (!text.data.trim() || text.parentElement.closest('.cuda-player, style, script')) continue;
        if (![...range.getClientRects()].every(inside)) outside.push(text.data.slice(0, 60));
    }
    const blocks = [...content.children].map((each) => each.getBoundingClientRect()).filter((box) => box.height > 0);
    const over = blocks.some((a, k) => blocks.slice(k + 1).some((b) =>
        a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
    section.setAttribute('style', style);
    const { text, code, picture } = content.dataset;
    return { title: content.querySelector('h1, h2, h3, h4')?.textContent, outside, over,
        text: Number(text), code: Number(code), picture: Number(picture) };
})"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The slides of a lesson, in a file."""
    folder = tmp_path_factory.mktemp("slides")

    def made(path):
        out = folder / f"{path.stem}.html"
        if not out.exists():
            out.write_text(page(path), encoding="utf-8")
        return out

    return made


@pytest.fixture
def opened(browser):
    """Open a file of slides; fails at the end if a script failed or asked for anything on the network."""
    contexts, errors = [], []

    def opened(path, width=1280, height=720):
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, offline=True))
        tab = contexts[-1].new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("request", lambda request: errors.append(request.url) if request.url.startswith("http") else None)
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_everything_fits_and_can_be_read(path, made, opened):
    found = opened(made(path)).evaluate(LAID_OUT)
    assert len(found) == len(slides_of(nbformat.read(path, as_version=4)))
    for number, slide in enumerate(found, 1):
        assert slide["title"] and slide["outside"] == [] and not slide["over"], (number, slide)
        assert min(slide["text"], slide["code"]) >= SMALLEST_TEXT and slide["picture"] >= SMALLEST_PICTURE, (
            number,
            slide,
        )


def test_what_does_not_fit_is_found(opened, tmp_path):
    """The test above can fail: a line too long, a text too long, a block over another."""
    cells = [nbformat.v4.new_markdown_cell(f"## {name}\n\n{text}") for name, text in
             (("high", "words and more words " * 900), ("wide", "x" * 4000), ("fine", "words"))]  # fmt: skip
    for cell in cells:
        cell.metadata["slideshow"] = {"slide_type": "slide"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "00_made.ipynb")
    out = tmp_path / "00_made.html"
    out.write_text(page(tmp_path / "00_made.ipynb"), encoding="utf-8")
    tab = opened(out)
    high, wide, fine = tab.evaluate(LAID_OUT)
    assert high["outside"] and wide["outside"] and fine["outside"] == []
    tab.evaluate("document.querySelectorAll('.fitted')[2].children[0].insertAdjacentHTML('afterend',"
                 " '<div style=\"margin-top: -60px\">over</div>')")  # fmt: skip
    assert tab.evaluate(LAID_OUT)[2]["over"]


def a_lesson_with(pattern):
    return next((path for path in LESSONS if re.search(pattern, page(path))), None)


def test_an_output_appears_one_key_after_its_code(made, opened):
    tab = opened(made(LESSONS[0]))
    first = tab.evaluate(
        "[...document.querySelectorAll('.slides > section')].findIndex((s) => s.querySelector('.fragment'))"
    )
    tab.evaluate(f"Reveal.slide({first})")
    output = tab.locator("section.present .fragment").first
    assert output.evaluate("each => getComputedStyle(each).visibility") == "hidden"
    tab.keyboard.press("Space")
    tab.wait_for_function(
        "getComputedStyle(document.querySelector('section.present .fragment')).visibility === 'visible'"
    )
    assert tab.evaluate("Reveal.getIndices().h") == first


def test_a_player_plays_on_a_slide_and_its_keys_do_not_turn_the_page(made, opened):
    path = a_lesson_with('class="cuda-player')
    if path is None:
        pytest.skip("none of these lessons has a player on a slide")
    tab = opened(made(path))
    tab.evaluate("""Reveal.slide([...document.querySelectorAll('.slides > section')]
        .findIndex((section) => section.querySelector('.cuda-player')), 0, 0)""")
    stage = tab.locator("section.present .cuda-player .stage[data-position]").first
    stage.wait_for(state="attached")
    before, slide = stage.get_attribute("data-position"), tab.evaluate("Reveal.getIndices().h")
    stage.focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(300)
    assert stage.get_attribute("data-position") != before and tab.evaluate("Reveal.getIndices().h") == slide


def test_notes_open_in_a_window_of_their_own(made, opened):
    tab = opened(made(LESSONS[0]))
    number = tab.evaluate(
        "[...document.querySelectorAll('.slides > section')].findIndex((s) => s.querySelector('aside'))"
    )
    tab.evaluate(f"Reveal.slide({number})")
    said = tab.evaluate("document.querySelector('section.present aside').textContent").split()
    with tab.expect_popup() as popup:
        tab.keyboard.press("s")
    notes = popup.value.locator(".speaker-controls-notes .value")
    popup.value.wait_for_function("document.querySelector('.speaker-controls-notes .value')?.textContent.trim()")
    assert notes.text_content().split() == said
