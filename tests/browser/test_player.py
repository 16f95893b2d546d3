"""The player in a browser: it shows what the recording says, to mouse and keyboard, on small and large screens."""

import math
import re

import pytest
import torch

from tests.browser.recordings import blocks, shuffles, strided
from tests.cuda.player.recordings import by_hand
from utils import compile_kernel
from utils.cuda.player.moment import moment
from utils.cuda.player.page import Player

SCREENS = [(400, 800), (1280, 720)]


def opened(show, recording, *sizes, **options):
    """The page of a player, with the keyboard in it."""
    page = show(Player([recording]).page(), *sizes, **options)
    page.locator(".stage").focus()
    return page


def position(page):
    return int(page.locator(".stage").first.get_attribute("data-position"))


SHOWN = """stage => {
    const all = (node, selector) => [...node.querySelectorAll(selector)];
    const text = (node, selector) => node.querySelector(selector).textContent;
    const cell = (each) => [Number(each.dataset.element), text(each, '.value'), text(each, '.who')];
    return {
        said: text(stage, '[role=status]'),
        line: stage.querySelector('[aria-current=step]')?.dataset.line ?? null,
        threads: all(stage, '[role=gridcell]').filter((each) => !each.hidden).map((each) => each.dataset.does),
        cells: all(stage, '.memory:not([hidden])').map((memory) =>
            [Number(memory.dataset.memory), all(memory, '.cell').map(cell)]),
        variables: all(stage, '.variables tbody tr').map((row) => [...row.children].map((each) => each.textContent)),
        block: Number(stage.dataset.block),
    };
}"""


def shown(page):
    return page.locator(".stage").first.evaluate(SHOWN)


def agree(text, value):
    """Whether a cell of six letters shows a value."""
    if value is None:
        return text == "·"
    if isinstance(value, str) or not math.isfinite(value):
        return text == str(value)
    return math.isclose(float(text), value, rel_tol=0.05, abs_tol=1e-9)


def compare(page, recording):
    """What the page shows, with the recording after as many steps."""
    now, seen = moment(recording, position(page)), shown(page)
    step = now.step
    assert seen["line"] == (str(step.line) if step else None)
    if step:
        assert f"Step {now.position:,} of {len(recording.steps):,}" in seen["said"]
        assert f"warp {step.warp}, line {step.line}:" in seen["said"]
    block = seen["block"]
    for thread, does in enumerate(seen["threads"]):
        acts = step and step.block == block and step.warp == thread // 32 and thread % 32 in step.lanes
        if (block, thread) in now.exited:
            assert does == "exited"
        elif (block, thread) in now.waits:
            assert does == "waits"
        elif acts:
            outside = thread % 32 in {lane for lane, _ in step.outside}
            assert does == ("outside" if outside else step.kind)
        else:
            assert does == "idle"
    for index, cells in seen["cells"]:
        memory = recording.memories[index]
        first = memory.window[0] if memory.window else 0
        assert memory.block in (None, block) and cells
        who = {}
        if step and step.memory == index:
            for at, element in enumerate(step.elements):
                for k in range(step.width if element is not None else 0):
                    who.setdefault(element + k, []).append(step.lanes[at])
        for element, text, lanes in cells:
            if text:
                assert agree(text, now.held[index][element - first]), (memory.name, element, text)
            told = who.get(element, [])
            assert lanes.lstrip("rwac") == ("" if not told else str(told[0]) if len(told) == 1 else f"×{len(told)}")
        if who and memory.shape != (1024,):
            assert who.keys() <= {element for element, _, _ in cells}
    return seen, now


@pytest.mark.parametrize("recording", [by_hand(), shuffles(), strided(32)], ids=["race", "shuffle", "strided"])
def test_every_step_shows_what_the_recording_says(show, recording):
    page = opened(show, recording)
    page.keyboard.press("Home")
    for number in range(len(recording.steps) + 1):
        assert position(page) == number
        compare(page, recording)
        page.keyboard.press("ArrowRight")
    assert position(page) == len(recording.steps)


TURN = """
__global__ void turn(const float* x, float* out, int n) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += 64) {
        tile[i] = start + i < n ? x[start + i] : 0.0f;
        BARRIER
        sum += tile[63 - i];
        __syncthreads();
    }
    out[i] = sum;
}
"""


@pytest.mark.parametrize("barrier", ["__syncthreads();", ""], ids=["right", "race"])
def test_a_recorded_launch_is_shown_as_it_ran(show, barrier):
    """Values and variables at every fifth step, and those of the run: the result, and a loop counter."""
    x, out = torch.arange(100.0), torch.zeros(64)
    trace = compile_kernel(TURN.replace("BARRIER", barrier), "turn").trace[1, 64](x, out, 100, outputs=[out])
    recording = trace.recording()
    page = opened(show, recording)
    page.locator("[data-thread='40']").click()
    for number in [*range(0, len(recording.steps), 5), len(recording.steps)]:
        page.locator("input[type=range]").fill(str(number))
        seen, now = compare(page, recording)
        rows = {row[0]: row[1] for row in seen["variables"]}
        for name, value in now.variables.get((0, 40), {}).items():
            assert agree(rows[name], value), (number, name)
    if barrier:
        assert now.held[[memory.name for memory in recording.memories].index("out")] == trace.args[1].tolist()
        assert [name for name in rows if name in ("i", "sum", "n")] == ["n", "i", "sum"]
    page.keyboard.press("P")
    assert page.locator(".missing").count() == (not barrier)


def test_variables_of_a_lane_follow_it(show):
    recording = by_hand()
    page = opened(show, recording)
    page.locator("[data-thread='3']").click()
    for number in (0, 1, 2, 8):
        page.locator("input[type=range]").fill(str(number))
        rows = {row[0]: row[1:] for row in compare(page, recording)[0]["variables"]}
        expected = moment(recording, number).variables.get((0, 3), {})
        assert rows["threadIdx"] == ["(3,0,0)"] and rows.get("i", ["–"]) == [str(expected.get("i", "–"))]
    page.locator("[data-thread='35']").hover()
    assert {row[0]: row[1:] for row in shown(page)["variables"]}["i"] == ["3", "35"]
    page.keyboard.press("Escape")
    page.mouse.move(2, 2)
    assert {row[0]: len(row) for row in shown(page)["variables"]}["threadIdx"] == 2


def test_the_slider_reaches_every_moment_in_any_order(show):
    recording = blocks()
    page = opened(show, recording)
    for number in (0, 599, 1, 256, 255, 257, 511, 512, 513, 20, 300, len(recording.steps)):
        page.locator("input[type=range]").fill(str(number))
        assert position(page) == min(number, len(recording.steps))
        compare(page, recording)


def test_moving_by_line_barrier_and_problem(show):
    page = opened(show, blocks())
    page.keyboard.press("Home")
    seen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "b", "b", "B", "B"):
        page.keyboard.press(key)
        seen.append(position(page))
    # Two warps: writes 1 2, arrive 3 4, pass 5 6, read 7 8. There is no barrier before 3.
    assert seen == [1, 3, 2, 3, 5, 3, 3]
    page = opened(show, by_hand())
    page.keyboard.press("p")
    assert position(page) == 4
    page.keyboard.press("p")
    assert position(page) == 5 and page.locator(".problems .chosen").count() == 1
    page.keyboard.press("p")
    assert position(page) == 5
    page.keyboard.press("P")
    assert position(page) == 4


def test_a_block_and_a_warp_can_be_followed(show):
    recording = blocks()
    page = opened(show, recording)
    page.locator("select[name=block]").select_option(index=2)
    page.locator("select[name=warp]").select_option(index=2)
    page.locator(".stage").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        step = recording.steps[position(page) - 1]
        assert (step.block, step.warp) == (1, 1)
    assert compare(page, recording)[0]["block"] == 1
    page.keyboard.press("]")
    assert page.locator("select[name=warp]").evaluate("each => each.value") == "all"


def test_play_runs_to_the_end_and_pauses(show):
    page = opened(show, by_hand())
    page.locator("select[name=speed]").select_option("fast")
    page.keyboard.press("Home")
    page.locator(".play").click()
    assert page.locator(".play").inner_text() == "Pause"
    assert page.locator("[role=status]").get_attribute("aria-live") == "off"
    page.wait_for_function(
        "document.querySelector('.cuda-player').shadowRoot.querySelector('.play').textContent == 'Play'"
    )
    assert position(page) == 8 and page.locator("[role=status]").get_attribute("aria-live") == "polite"


def test_a_race_shows_both_threads_both_lines_and_the_missing_barrier(show):
    page = opened(show, by_hand())
    page.locator(".mark").first.click()
    assert position(page) == 4
    assert page.locator(".missing").inner_text() == "no barrier from line 5 to line 6"
    after = page.locator(".missing").evaluate("each => each.previousElementSibling.dataset.line")
    assert after == "5"
    assert [page.locator(f"[data-involved='{k}']").get_attribute("data-thread") for k in (1, 2)] == ["0", "4"]
    page.locator(".sides button").nth(1).click()
    assert position(page) == 5 and page.locator(".variables thead").inner_text().count("pinned") == 2


def test_out_of_bounds_shows_where_the_address_points(show):
    page = opened(show, shuffles())
    page.keyboard.press("p")
    assert "lane 31: 4 bytes past the end of out" in page.locator(".request").inner_text()
    strip = page.locator(".outside").nth(1).locator(".strip")
    assert [cell.inner_text() for cell in strip.locator(".word").all()] == ["28", "29", "", "31"]
    assert page.locator("[role=gridcell][data-does=outside]").count() == 2


def test_a_shuffle_draws_an_arrow_to_every_lane(show):
    page = opened(show, shuffles())
    page.locator("input[type=range]").fill("2")
    assert page.locator(".arrow").count() == 32
    assert "lane 0 from 16" in page.locator("svg.banks").get_attribute("aria-label")


def test_sectors_and_their_cost(show):
    recordings = [strided(stride) for stride in (1, 2, 8)]
    page = show(Player(recordings, {"stride": [1, 2, 8]}).page())
    chooser = page.locator(".chooser input")
    for at, expected in enumerate([4, 8, 32]):
        chooser.fill(str(at))
        assert page.locator(".strip").count() == expected
        assert f"{expected} sectors" in page.locator("[role=status]").inner_text()
        assert page.locator(".chooser output").inner_text() == str([1, 2, 8][at])
    assert position(page) == 1


# ---------------------------------------------------------------- keyboard, screens, colours, company


def test_keyboard_alone_reaches_everything(show):
    page = show(Player([by_hand()]).page())
    reached, thread = set(), None
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.evaluate("""() => {
            const at = document.querySelector('.cuda-player').shadowRoot.activeElement;
            return at && [at.getAttribute('aria-label') ?? at.textContent, at.className]; }""")
        if focused:
            reached.add(focused[0])
            if focused[1] == "thread" and thread is None:
                thread = focused
                for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
                    page.keyboard.press(key)
    assert {"Play", "next access", "previous line", "next problem", "step", "keyboard", "Source", "Overview"} <= reached
    assert "lane 2 of warp 1" in page.locator(".variables thead").inner_text()
    page.locator(".stage").focus()
    assert page.locator(".help").is_hidden()
    page.keyboard.press("?")
    assert page.locator(".help").is_visible() and "pin" in page.locator(".help").inner_text()


@pytest.mark.parametrize("size", SCREENS, ids=["phone", "projector"])
@pytest.mark.parametrize(
    "recording", [by_hand(), shuffles(), strided(32), blocks()], ids=["race", "shuffle", "strided", "blocks"]
)
def test_nothing_overflows(show, recording, size):
    page = opened(show, recording, *size)
    for key in ("Home", "p", "ArrowRight", "o"):
        page.keyboard.press(key)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    beyond = page.locator(".stage").evaluate(
        """(stage, width) => [...stage.querySelectorAll('.panel, .controls > *, h3, p, header > *')]
            .filter((each) => each.getClientRects().length && each.getBoundingClientRect().right > width)
            .map((each) => each.className)""",
        size[0],
    )
    assert beyond == []
    smallest = page.locator(".stage").evaluate("stage => parseFloat(getComputedStyle(stage).fontSize)")
    assert smallest >= (13 if size[0] == 400 else 16)


# Contrast as WCAG 2 defines it: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
CONTRAST = """stage => {
    const parsed = (text) => text.match(/[\\d.]+/g).map(Number);
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const ratio = (a, b) => {
        const [dark, bright] = [light(a), light(b)].sort((p, q) => p - q);
        return (bright + 0.05) / (dark + 0.05);
    };
    const paper = (node) => {
        const colour = parsed(getComputedStyle(node).backgroundColor);
        return colour[3] === 0 ? paper(node.parentElement) : colour;
    };
    const found = [];
    for (const node of stage.querySelectorAll('*')) {
        if (node instanceof SVGElement || !node.getClientRects().length) continue;
        const style = getComputedStyle(node);
        if ([...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
            found.push(['text', node.className, ratio(parsed(style.color), paper(node)), 4.5]);
        if (node.matches('.thread, button, select, [data-does]'))
            found.push(['line', node.className, ratio(parsed(style.borderTopColor), paper(node.parentElement)), 3]);
        if (!node.matches('[data-sector]')) continue;
        found.push(['sector', node.className, ratio(parsed(style.borderBottomColor), paper(node.parentElement)), 3]);
    }
    return found.filter(([, , is, least]) => is < least);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_can_be_read(show, scheme):
    for recording, key in ((by_hand(), "p"), (shuffles(), "p"), (strided(8), "End"), (blocks(), "b")):
        page = opened(show, recording, color_scheme=scheme, reduced_motion="reduce")
        page.keyboard.press(key)
        page.keyboard.press("?")
        assert page.locator(".stage").evaluate(CONTRAST) == []
        dark = page.locator(".player").evaluate("each => getComputedStyle(each).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 200) == (scheme == "dark")


def test_jupyters_theme_counts_more_than_the_systems(show):
    page = opened(show, by_hand(), color_scheme="light")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_function(
        "document.querySelector('.cuda-player').shadowRoot.querySelector('.player').dataset.theme == 'dark'"
    )


def test_reduced_motion_is_respected(show):
    for motion, expected in (("reduce", 0), ("no-preference", 1)):
        page = opened(show, by_hand(), reduced_motion=motion)
        seconds = page.locator(".thread").first.evaluate(
            "each => parseFloat(getComputedStyle(each).transitionDuration)"
        )
        assert (seconds > 0) == expected


def test_two_players_and_the_page_around_them_do_not_disturb_each_other(show):
    one, two = Player([by_hand()]).fragment(), Player([strided(2)]).fragment()
    page = show(f"<!DOCTYPE html><body><h3 id=h>A heading</h3><button id=b>A button</button>{one}{two}{one}</body>")
    page.wait_for_function(
        "[...document.querySelectorAll('.cuda-player')].every((each) => each.shadowRoot?.querySelector('.stage'))"
    )
    stages = page.locator(".stage")
    assert stages.count() == 3
    stages.nth(1).focus()
    page.keyboard.press("End")
    assert [each.get_attribute("data-position") for each in stages.all()] == ["1", "2", "1"]
    alone = show("<!DOCTYPE html><body><h3 id=h>A heading</h3><button id=b>A button</button></body>")
    look = """() => ['h', 'b'].map((id) => {
        const style = getComputedStyle(document.getElementById(id));
        return ['fontSize', 'fontFamily', 'color', 'backgroundColor', 'margin', 'padding'].map((name) => style[name]);
    })"""
    assert page.evaluate(look) == alone.evaluate(look)
    names = "() => Object.keys(window).filter((name) => /player|mount|decoded|state/i.test(name))"
    assert page.evaluate(names) == alone.evaluate(names)


def test_without_scripts_there_is_the_picture(show):
    page = show(Player([by_hand()]).page(), java_script_enabled=False)
    image = page.locator(".cuda-player img")
    assert image.is_visible() and image.get_attribute("alt").startswith("square, as a player shows it.")


def test_it_opens_in_under_a_second(show, summary):
    recording = blocks(steps_each=3000)
    drawn = []
    for _ in range(3):
        page = opened(show, recording)
        page.wait_for_function("performance.getEntriesByName('cuda-player drawn').length")
        drawn.append(page.evaluate("performance.getEntriesByName('cuda-player drawn')[0].startTime"))
    summary.setdefault("Opening a player", []).append(f"{len(recording.steps):,} steps: {min(drawn):.0f} ms")
    assert min(drawn) < 1000
