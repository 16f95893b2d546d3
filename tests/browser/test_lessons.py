"""Every lesson in JupyterLab, as a learner opens it: all cells run, no error, nothing on stderr, no bar left behind.

The environment variable LESSON chooses lessons: 3, or "02 07". They run on copies, in a folder of their own.
"""

import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.imports import ROOT
from utils.manage.lessons import KERNELSPEC, handed_out, lessons, use_our_settings

LESSONS = [path.stem for path in lessons(os.environ.get("LESSON", "").split())]
STARTS, RUNS = 120, 1800  # seconds at most, for JupyterLab and for one lesson
BAR = re.compile(r"\|[█▏▎▍▌▋▊▉#\d\s]{10}\||, \d+ s$")  # what `utils.ground.progress` shows


@pytest.fixture(scope="session")
def jupyterlab(browser, tmp_path_factory):
    """The address of a JupyterLab whose folder has copies of the lessons, as `make lab` hands them out."""
    folder = tmp_path_factory.mktemp("lab")
    for path in lessons():
        (folder / path.name).write_text(handed_out(path.read_text(encoding="utf-8")), encoding="utf-8")
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({**KERNELSPEC, "argv": argv}))
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells are drawn, whether they are in sight or not.
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    token = secrets.token_hex(16)
    use_our_settings()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "JUPYTER_PATH": os.pathsep.join([str(folder / "jupyter"), os.environ["JUPYTER_PATH"]]),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }
    for name in ("COURSE_HEADLESS", "MPLBACKEND"):
        environment.pop(name, None)
    options = [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", "--ServerApp.port_retries=50"]
    options += ["--no-browser", "--expose-app-in-browser", "--allow-root", "--port=8890"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], env=environment, cwd=folder, stdout=log, stderr=log
        )
    try:
        yield _address(folder, server, token), token
    finally:
        server.terminate()
        server.wait(60)


def _address(folder, server, token):
    """Where the server answers; it writes its port into a file of the runtime folder."""
    until = time.monotonic() + STARTS
    while time.monotonic() < until and server.poll() is None:
        for path in (folder / "runtime").glob("jpserver-*.json"):
            try:
                address = json.loads(path.read_text())["url"]
                urllib.request.urlopen(f"{address}api?token={token}", timeout=5).read()
                return address
            except (OSError, ValueError):
                pass
        time.sleep(0.3)
    raise AssertionError("JupyterLab did not start:\n" + (folder / "server.log").read_text()[-2000:])


@pytest.fixture
def notebook(browser, jupyterlab):
    """Open a lesson in JupyterLab; returns the page, with the notebook ready to run."""
    address, token = jupyterlab
    contexts = []

    def opened(name):
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}))
        page = contexts[-1].new_page()
        page.set_default_timeout(STARTS * 1000)
        page.goto(f"{address}lab/tree/{name}.ipynb?token={token}&reset")
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
        )
        return page

    yield opened
    for context in contexts:
        context.close()


RUN_ALL = """async (seconds) => {
    const app = window.jupyterapp;
    const panel = app.shell.currentWidget;
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error('it takes too long')), 1000 * seconds));
    await Promise.race([app.commands.execute('notebook:run-all-cells'), late]);
    await panel.sessionContext.session.kernel.requestKernelInfo();
    await new Promise((done) => setTimeout(done, 500));
    return Array.from(panel.content.model.cells).filter((cell) => cell.type === 'code').map((cell) => cell.toJSON());
}"""


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_runs_and_leaves_nothing_behind(notebook, name):
    page = notebook(name)
    cells = page.evaluate(RUN_ALL, RUNS)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        where = f"{name}, cell {cell['execution_count']}"
        for output in cell["outputs"]:
            expected = "raises-exception" in cell["metadata"].get("tags", [])
            assert expected or output["output_type"] != "error", f"{where}: {output.get('evalue')}"
            assert output.get("name") != "stderr", f"{where} writes to stderr: {output.get('text')}"
            plain = "".join(output.get("data", {}).get("text/plain", output.get("text", "")))
            bars = [line for line in plain.splitlines() if BAR.search(line)]
            assert not (bars and output["output_type"] == "display_data"), f"{where} leaves a bar: {bars}"
    shown = page.locator("[data-mime-type='application/vnd.jupyter.stderr']")
    assert shown.count() == 0
    players = page.locator(".cuda-player")
    assert players.count() == sum("cuda-player" in "".join(texts) for texts in map(_html, cells))
    for player in players.all():
        player.locator(".stage[data-position]").wait_for()


def _html(cell):
    return ["".join(output.get("data", {}).get("text/html", "")) for output in cell["outputs"]]


LOOKS = """(start) => Array.from(document.querySelectorAll('.cm-line'))
    .filter((line) => line.textContent.startsWith(start))
    .map((line) => {
        const texts = document.createTreeWalker(line, NodeFilter.SHOW_TEXT), looks = [];
        while (texts.nextNode()) {
            const style = getComputedStyle(texts.currentNode.parentElement);
            const look = `${style.color} ${style.fontWeight} ${style.fontStyle}`;
            looks.push(...Array.from(texts.currentNode.data, (letter) => [letter, look]));
        }
        return looks;
    })"""


def test_cuda_is_highlighted_as_cpp(notebook):
    """A %%cuda cell and a string with a kernel have C++'s keywords, numbers and comments; other strings do not."""
    page = notebook(LESSONS[0])
    kernel = "__global__ void k(float* x) { if (x) x[0] = 1.5f; }  // it's one\n"
    cells = [f"%%cuda\n{kernel}", f'src = r"""\n{kernel}"""\nother = "if 1.5f is no kernel"']
    page.evaluate(
        """(sources) => {
            const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
            while (cells.cells.length) cells.deleteCell(0);
            cells.insertCells(0, sources.map((source) => ({cell_type: 'code', source, metadata: {}, outputs: []})));
        }""",
        cells,
    )
    page.wait_for_function("() => document.querySelectorAll('.cm-content .cuda-course-cpp').length > 20")
    cell, string = page.evaluate(LOOKS, "__global__")
    assert cell == string and "".join(letter for letter, _ in cell) == kernel.strip()
    look = {word: {cell[kernel.index(word) + k][1] for k in range(len(word))} for word in ("if", "float", "1.5f", "x)")}
    look["comment"] = {found for _, found in cell[kernel.index("//") :]}
    look["__global__"] = {found for _, found in cell[:10]}
    assert all(len(found) == 1 for found in look.values()), look
    assert look["__global__"] == look["if"] and len({*map(frozenset, look.values())}) >= 4, look


def test_a_player_has_the_keyboard_to_itself(notebook):
    """JupyterLab's own shortcuts, of which x and d d delete cells, do not see what is typed into a player."""
    page = notebook(LESSONS[0])
    imports = ["from tests.cuda.player.recordings import by_hand", "from utils.cuda.player.page import Player"]
    code = "\n".join([*imports, "Player([by_hand()])"])
    count = page.evaluate(
        """async (code) => {
            const { commands, shell } = window.jupyterapp;
            const cells = shell.currentWidget.content.model.cells;
            await commands.execute('notebook:insert-cell-above');
            shell.currentWidget.content.activeCell.model.sharedModel.setSource(code);
            await commands.execute('notebook:run-cell');
            return cells.length;
        }""",
        code,
    )
    stage = page.locator(".cuda-player .stage")
    stage.wait_for()
    assert stage.get_attribute("data-position") == "1"
    page.locator(".cuda-player h2").click()
    for key in ("ArrowRight", "x", "d", "d", "a", "b", "p", "ArrowDown"):
        page.keyboard.press(key)
    assert stage.get_attribute("data-position") == "5"
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.model.cells.length") == count
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.mode") == "command"
