"""The player in a browser: it shows what the recording says, to mouse and keyboard, on small and large screens."""

import math
import re

import pytest
import torch

from tests.browser.recordings import blocks, multiplied, pipelined, shuffles, strided, tiled
from tests.cuda.player.recordings import by_hand
from utils import compile_kernel
from utils.cuda.player.moment import elements, moment
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
            for lane, element, _ in elements(step):
                who.setdefault(element, []).append(lane)
        for element, text, lanes in cells:
            if text:
                assert agree(text, now.held[index][element - first]), (memory.name, element, text)
            told = who.get(element, [])
            assert lanes.lstrip("rwac") == ("" if not told else str(told[0]) if len(told) == 1 else f"×{len(told)}")
        if who and memory.shape != (1024,):
            assert who.keys() <= {element for element, _, _ in cells}
    return seen, now


RECORDINGS = {
    "race": by_hand(),
    "shuffle": shuffles(),
    "strided": strided(32),
    "product": multiplied(),
    "barriers": pipelined(),
}


@pytest.mark.parametrize("recording", RECORDINGS.values(), ids=RECORDINGS)
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
    assert not page.locator("[role=status]").inner_text().endswith("No later problem.")
    page.keyboard.press("p")
    assert position(page) == 5 and page.locator("[role=status]").inner_text().endswith(" No later problem.")
    page.keyboard.press("P")
    assert position(page) == 4 and "No " not in page.locator("[role=status]").inner_text()
    page.keyboard.press("P")
    assert page.locator("[role=status]").inner_text().endswith(" No earlier problem.")


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


def test_a_step_of_a_problem_says_the_problem_and_praises_no_cost(show):
    page = opened(show, by_hand())
    heads = page.locator(".access h3")
    page.locator(".timeline input").fill("2")
    assert "1 sector, the fewest possible" in page.locator("[role=status]").inner_text()
    assert heads.inner_text() == "global read of x: 1 sector, the fewest possible"
    page.keyboard.press("p")
    said = page.locator("[role=status]").inner_text()
    assert "; 1 pass. Problem: thread (0,0,0) writes tile[0] in line 5" in said
    assert heads.inner_text() == "shared write of tile: 1 pass"


def test_a_read_of_another_value_is_marked_and_explained(show):
    """In a race, a lane may read what memory does not hold if steps run in the order shown."""
    page = opened(show, by_hand())
    assert "≠" not in page.locator(".stage").inner_text()
    recording = by_hand()
    recording.steps[4].values = [7.0] * 5
    page = opened(show, recording)
    assert "≠ read with another value" in page.locator(".legend").inner_text().replace("\n", " ")
    page.locator(".timeline input").fill("5")
    assert page.locator(".memory .cell", has_text="≠").count() == 5


def test_the_legend_has_what_occurs(show):
    page = opened(show, shuffles())
    assert page.locator(".legend").inner_text().split() == [
        "w",
        "writes",
        "s",
        "shuffles",
        "!",
        "outside",
        "×",
        "exited",
    ]


def test_counts_say_why_a_trace_may_count_fewer(show):
    recording = strided(1)
    page = opened(show, recording)
    assert page.locator(".access").inner_text().count("which may merge accesses") == 1
    recording.language = "python"
    page = opened(show, recording)
    assert "merge" not in page.locator(".access").inner_text()


def test_a_note_is_at_the_top(show):
    recording = by_hand()
    recording.note = "x changed after the trace."
    page = opened(show, recording)
    assert page.locator(".note").inner_text() == recording.note
    assert page.locator(".note").bounding_box()["y"] < page.locator(".controls").bounding_box()["y"]
    assert opened(show, by_hand()).locator(".note").count() == 0


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


SHUFFLE = """
__global__ void fold(const float* x, float* out) {
    float sum = x[threadIdx.x];
    sum += __shfl_down_sync(0xffffffff, sum, 16);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    out[threadIdx.x] = __shfl_sync(0xffffffff, sum, 0);
}
"""


@pytest.mark.parametrize("size", SCREENS, ids=["phone", "projector"])
def test_recorded_shuffles_have_an_arrow_for_every_lane(show, size):
    trace = compile_kernel(SHUFFLE, "fold").trace[1, 32](torch.rand(32), torch.zeros(32))
    recording = trace.recording()
    page = opened(show, recording, *size)
    expected = [
        {(min(lane + 16, 31) if lane < 16 else lane, lane) for lane in range(32)},
        {(lane ^ 1, lane) for lane in range(32)},
        {(0, lane) for lane in range(32)},
    ]
    numbers = [k + 1 for k, step in enumerate(recording.steps) if step.kind == "shuffle"]
    assert len(numbers) == 3
    for number, pairs in zip(numbers, expected, strict=True):
        page.locator(".timeline input").fill(str(number))
        arrows = page.locator(".arrow")
        drawn = arrows.evaluate_all("all => all.map((each) => [Number(each.dataset.from), Number(each.dataset.to)])")
        assert {tuple(pair) for pair in drawn} == pairs and len(drawn) == 32
        inside = page.locator("svg.banks").bounding_box()
        for each in (0, 15, 31):
            box = arrows.nth(each).bounding_box()
            assert inside["x"] <= box["x"] and box["x"] + box["width"] <= inside["x"] + inside["width"] <= size[0]


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
@pytest.mark.parametrize("recording", [*RECORDINGS.values(), blocks()], ids=[*RECORDINGS, "blocks"])
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SCREENS, ids=["phone", "projector"])
def test_fragments_show_who_holds_what(show, size, scheme):
    recording = multiplied()
    page = opened(show, recording, *size, color_scheme=scheme)
    page.keyboard.press("End")
    assert "lanes 0-31 multiply on the tensor cores: mma.sync m8n8k4" in shown(page)["said"]
    assert page.locator(".access h3").inner_text() == "mma.sync m8n8k4: f64 × f64 + f64"
    figures = page.locator(".tile")
    assert figures.locator("figcaption").all_inner_texts() == ["A 8 × 4 f64", "B 4 × 8 f64", "C, D 8 × 8 f64"]
    for figure, tile in zip(figures.all(), [recording.products[0]["tiles"][k] for k in (0, 1, 3)], strict=True):
        lanes = figure.locator("g[data-lane]").evaluate_all("all => all.map((each) => Number(each.dataset.lane))")
        assert sorted(lanes) == list(range(32)), tile["name"]
        assert figure.locator("g rect").first.bounding_box()["width"] > 15
    own = figures.locator("g[data-own]")
    assert own.evaluate_all("all => all.map((each) => each.dataset.lane)") == ["0"] * 3
    page.locator("[data-thread='13']").click()
    assert own.evaluate_all("all => all.map((each) => each.dataset.lane)") == ["13"] * 3
    told, of = page.locator(".told"), lambda tile, lane: figures.nth(tile).locator(f"g[data-lane='{lane}']")
    of(0, 13).hover()
    assert told.inner_text() == "A[3][1] = 13.5: lane 13, register a0"
    of(1, 6).hover()
    assert told.inner_text() == "B[2][1] = -6: lane 6, register b0"
    of(2, 5).hover()
    assert told.inner_text() == "D[1][2], D[1][3] = 20, 22: lane 5, register d0; C was 0.25, 0.25"
    assert own.evaluate_all("all => all.map((each) => each.dataset.lane)") == ["5"] * 3


def test_rows_of_ldmatrix_show_who_gives_and_who_gets(show):
    page = opened(show, multiplied())
    page.locator(".timeline input").fill("3")
    (figure,) = page.locator(".tile").all()
    assert figure.locator("figcaption").inner_text() == "matrix 0"
    assert figure.locator(".axis").all_text_contents()[4:] == [f"T{lane}" for lane in range(8)]
    figure.locator("g[data-lane='14']").hover()
    told = page.locator(".told").inner_text()
    assert told == "s[3][4] = 28, s[3][5] = 29: to lane 14, register 0; row 3 is at the address of lane 3"


def test_a_copy_is_in_flight_until_it_arrives(show):
    page = opened(show, multiplied())
    page.keyboard.press("Home")
    cells, flying = page.locator(".memory .cell"), page.locator(".memory .flying")
    for position_, count, said in (
        (0, 0, "Before the first step"),
        (1, 64, "lanes 0-7 begin to copy into 64 elements"),
        (2, 0, "lanes 0-7 have their copies arrive in 64 elements"),
        (1, 64, "begin to copy"),
    ):
        page.locator(".timeline input").fill(str(position_))
        assert said in shown(page)["said"]
        assert page.locator(".memory .cell[data-flying]").count() == count
        assert flying.inner_text() == (f"{count} in flight" if count else "")
    cells.first.hover()
    assert "a copy that thread (0,0,0) began has not arrived" in cells.first.get_attribute("title")


def test_on_a_small_projector_the_tiles_are_in_sight_while_they_are_filled(show):
    page = opened(show, tiled(), 1280, 720)
    for number in range(1, 9):
        page.locator(".timeline input").fill(str(number))
        page.evaluate("scrollTo(0, 0)")
        for tile in (3, 4):
            box = page.locator(f"[data-memory='{tile}']").bounding_box()
            assert box["y"] + box["height"] <= 720, (number, tile)
        tops = [page.locator(f"[data-memory='{k}']").bounding_box()["y"] for k in range(5)]
        assert max(tops[3:]) < min(tops[:3]) and tops[0] == tops[1] < tops[2]


def test_a_memory_that_is_touched_moves_up_unless_it_is_beside_the_first(show):
    page = opened(show, strided(1), 1280, 720)
    tops = []
    for number in (1, 2):
        page.locator(".timeline input").fill(str(number))
        tops.append([page.locator(f"[data-memory='{k}']").bounding_box()["y"] for k in range(2)])
    assert tops[0][0] < tops[0][1] and tops[1][1] < tops[1][0]


def test_a_long_signature_is_wrapped_between_words(show):
    for width in (400, 1280):
        page = opened(show, tiled(), width, 800)
        lines = page.locator(".source li code").evaluate_all(
            "all => all.map((each) => Math.round(each.clientHeight / parseFloat(getComputedStyle(each).lineHeight)))"
        )
        assert max(lines) <= 3 and max(lines[1:]) <= 2, (width, lines)


def test_on_a_phone_all_banks_and_buttons_are_in_sight(show):
    page = opened(show, tiled(), 400, 800)
    page.locator(".timeline input").fill("2")
    banks = page.locator(".banks .axis")
    assert banks.all_text_contents() == [str(bank) for bank in range(32)]
    for each in (banks.nth(15), banks.nth(31), *page.locator(".controls > *").all()):
        box = each.bounding_box()
        assert 0 <= box["x"] and box["x"] + box["width"] <= 400
    assert page.locator(".request").evaluate("each => each.scrollWidth <= each.clientWidth")


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
