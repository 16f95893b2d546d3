"""A player where notebooks are shown: in a sandboxed frame, without scripts, as a page of its own."""

import html
import re

import pytest

from tests.browser.recordings import strided
from tests.cuda.player.recordings import by_hand
from utils.cuda.player.page import Player

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


@pytest.mark.parametrize("runs", [1, 3], ids=["one", "several"])
def test_it_works_in_a_sandboxed_frame_with_a_strict_policy(show, runs):
    """As in VS Code and Colab. What the policy forbids is an error in the console, which `show` does not allow."""
    player = Player([strided(k + 1) for k in range(runs)], {"stride": [1, 2, 3]} if runs > 1 else {})
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    inside = html.escape(f"<!DOCTYPE html><html><head>{policy}</head><body>{player.fragment()}</body></html>")
    outside = f'<body><iframe sandbox="allow-scripts" srcdoc="{inside}" width="1000" height="600"></iframe></body>'
    page = show(outside, reduced_motion="reduce")  # colours are there at once
    frame = page.frame_locator("iframe")
    stage = frame.locator(".stage[data-position='1']")
    stage.wait_for()
    assert not frame.locator("img").is_visible()
    stage.focus()
    page.keyboard.press("ArrowRight")
    frame.locator(".stage[data-position='2']").wait_for()
    assert frame.locator(".cell[data-does=write]").count() == 32
    painted = frame.locator(".cell[data-does=write]").first.evaluate("each => getComputedStyle(each).backgroundColor")
    assert painted == "rgb(253, 224, 201)"  # --write-paper: the styles are there
    if runs > 1:
        frame.locator(".chooser input").fill("1")
        assert frame.locator(".chooser output").inner_text() == "2"


def test_without_its_scripts_the_picture_remains(show):
    """As GitHub shows a notebook."""
    fragment = Player([by_hand()]).fragment()
    bare = re.sub(r"<script>.*?</script>", "", fragment, flags=re.S)
    assert "<script" not in bare and len(bare) < len(fragment)
    image = show(f"<!DOCTYPE html><body>{bare}</body>", 400, 800).locator(".cuda-player img")
    assert image.get_attribute("alt").startswith("square, as a player shows it. Step 5 of 8")
    assert image.evaluate("each => each.decode().then(() => each.naturalWidth)") == 1200
    assert image.bounding_box()["width"] <= 400


def test_keys_work_at_once_on_a_page_but_a_cells_output_does_not_take_the_focus(show):
    page = show(Player([by_hand()]).page())
    page.locator(".stage[data-position]").wait_for()
    page.keyboard.press("ArrowRight")
    assert page.locator(".stage").get_attribute("data-position") == "2"
    page = show(f"<!DOCTYPE html><body><input id=cell autofocus>{Player([by_hand()]).fragment()}</body>")
    page.locator(".stage[data-position]").wait_for()
    page.locator("#cell").press_sequentially("b p")
    assert page.locator("#cell").input_value() == "b p"
    assert page.locator(".stage").get_attribute("data-position") == "1"
