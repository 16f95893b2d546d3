"""The player's panel of barriers in memory: phases, arrivals and bytes at each step, also where it is narrow."""

from tests.browser.recordings import pipelined
from tests.browser.test_player import SCREENS, opened, position, shown
from utils.cuda.player.moment import sentence

BARRIERS = """panel => panel.hidden ? [] : [...panel.querySelectorAll("tbody tr:not([hidden])")].map((row) => ({
    cells: [...row.children].map((cell) => cell.textContent), now: row.dataset.now ?? null,
    done: [...row.querySelectorAll(".done")].map((each) => each.style.width),
    flying: row.querySelectorAll(".ahead")[1].style.width,
}))"""


def test_barriers_show_their_phase_and_bytes(show):
    page = opened(show, pipelined())

    def barriers(number):
        page.locator("input[type=range]").fill(str(number))
        return page.locator(".barriers").evaluate(BARRIERS)

    assert barriers(0) == []
    full, empty = barriers(3)
    assert full["cells"] == ["full", "0parity 0", "1 of 1", "64 of 64 pending", "–"] and full["now"] == "changed"
    assert empty["cells"] == ["empty", "0parity 0", "0 of 32", "none", "–"] and empty["now"] is None
    full, empty = barriers(7)
    assert full["cells"][3:] == ["64 of 64 pending", "warp 1"] and full["flying"] == "100%" and full["now"] == "waits"
    assert empty["cells"][4] == "warp 0 lane 0" and page.locator(".flying").all_inner_texts().count("16 in flight") == 1
    assert page.locator("[data-thread='0']").get_attribute("data-does") == "waits"
    full, _ = barriers(8)
    assert full["cells"][1:4] == ["0parity 0over ✓", "1 of 1", "0 of 64 pending"] and full["done"] == ["100%", "100%"]
    assert (
        page.locator("[data-thread='0']").get_attribute("data-does") == "waits"
    )  # the copy engine acts, not the thread
    full, empty = barriers(10)
    assert full["cells"][1:] == ["1parity 1", "0 of 1", "none", "–"] and full["done"][0] == "0%"
    assert barriers(11)[1]["cells"][1:3] == ["0parity 0over ✓", "32 of 32"]
    page.keyboard.press("Home")
    stops = []
    for _ in range(9):
        page.keyboard.press("b")
        stops.append(position(page))
    assert stops == [1, 2, 3, 5, 6, 7, 8, 9, 11]


def test_what_a_barrier_does_is_said_as_in_the_picture(show):
    recording = pipelined()
    page = opened(show, recording)
    for number, step in enumerate(recording.steps, 1):
        page.locator("input[type=range]").fill(str(number))
        if step.memory is None:
            assert shown(page)["said"] == sentence(recording, number)
    assert shown(page)["said"].endswith("lane 0 goes on: phase 0 of empty is over.")
    page = opened(show, recording, *SCREENS[0])
    page.locator("input[type=range]").fill("7")
    panel = page.locator(".barriers").bounding_box()
    for row in page.locator(".barriers tbody tr").all():
        assert row.bounding_box()["x"] + row.bounding_box()["width"] <= panel["x"] + panel["width"]
    assert page.locator(".barriers").evaluate("panel => panel.scrollWidth <= panel.clientWidth")
