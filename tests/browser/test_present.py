"""`make present` in a browser: a cell in the middle of a lesson runs on its slide, with all that comes before it."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from tests.imports import ROOT
from utils.manage.lessons import lessons
from utils.manage.slides import slides_of

TOKEN, PORT, STARTS, RUNS = "presented", 8893, 120, 180  # seconds at most, for JupyterLab and for the cells
(LESSON,) = lessons(["02"])
CELL = "show_threads(6, 10, 16)"


@pytest.fixture
def address(browser, tmp_path):
    """Where JupyterLab shows the slides of a lesson, as `make present` starts it."""
    if importlib.util.find_spec("jupyterlab_rise") is None:
        pytest.skip("needs jupyterlab-rise: pip install --editable '.[present]'")
    (tmp_path / "notebooks").mkdir()
    shutil.copy(LESSON, tmp_path / "notebooks")
    code = (
        "import pathlib, sys; from utils.manage import present; present.main(sys.argv[2:], pathlib.Path(sys.argv[1]))"
    )
    options = [f"--IdentityProvider.token={TOKEN}", "--no-browser", f"--port={PORT}", "--ServerApp.port_retries=0"]
    environment = {name: value for name, value in os.environ.items() if name not in ("COURSE_HEADLESS", "MPLBACKEND")}
    folders = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    with (tmp_path / "server.log").open("wb") as log:
        command = [sys.executable, "-c", code, str(tmp_path), LESSON.stem, *options]
        server = subprocess.Popen(command, cwd=ROOT, env=environment | folders, stdout=log, stderr=log)
    try:
        until = time.monotonic() + STARTS
        while not answers():
            assert server.poll() is None and time.monotonic() < until, (tmp_path / "server.log").read_text()[-2000:]
            time.sleep(0.3)
        yield f"http://localhost:{PORT}/rise/build/present/{LESSON.name}?token={TOKEN}"
    finally:
        server.terminate()
        server.wait(60)


def answers():
    try:
        return urllib.request.urlopen(f"http://localhost:{PORT}/api?token={TOKEN}", timeout=5).status == 200
    except OSError:
        return False


def test_a_cell_runs_on_its_slide_with_what_comes_before_it(browser, address):
    slides = slides_of(nbformat.read(LESSON, as_version=4))
    number = next(k for k, cells in enumerate(slides) if any(CELL in cell.source for cell in cells))
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    tab = context.new_page()
    tab.set_default_timeout(STARTS * 1000)
    tab.goto(address)
    tab.locator(".reveal .slides section.present h1").wait_for()
    assert tab.locator(".reveal .slides > section").count() == len(slides)
    tab.evaluate(f"location.hash = '#/slide-{number}-0'")
    cell = tab.locator("section.present .jp-CodeCell", has_text=CELL)
    cell.wait_for()
    assert cell.locator(".jp-OutputArea-output").count() == 0  # the copy has no outputs
    cell.locator(".cm-content").click()
    tab.keyboard.press("Control+Enter")
    cell.locator(".jp-OutputArea-output img").wait_for(timeout=RUNS * 1000)
    assert cell.locator(".jp-OutputArea-output").count() == 1  # nothing of what ran before it
    context.close()
