"""One bar at a time, for long work only, never in tests or headless; it always goes away. A log has plain lines."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from utils.ground import progress as module
from utils.ground.progress import bar_hidden, progress, waiting

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def quick(monkeypatch):
    """Quick clocks, and no test environment."""
    names = SimpleNamespace(environ={}, get_terminal_size=os.get_terminal_size)
    monkeypatch.setattr(module, "os", names)  # pytest keeps putting its own names back
    monkeypatch.setattr(module, "DELAY", 0.2)
    monkeypatch.setattr(module, "TICK", 0.05)


@pytest.fixture
def shown(quick, monkeypatch):
    """What a person would see: a stream in place of the terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(module, "_find_screen", lambda: module._Terminal(stream))
    return stream


def drawings(stream):
    """Everything that was drawn on the one line, without repetitions; control characters other than \\r are wrong."""
    text = stream.getvalue()
    assert not re.search(r"[^\r -~█-▏]", text), text
    return [line for line in dict.fromkeys(part.strip() for part in text.split("\r")) if line]


def screen(text):
    """The lines that a terminal shows after this text."""
    lines = []
    for row in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in row.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def is_clean(stream):
    return screen(stream.getvalue()) == [""] and not module._tasks and module._screen is None


# ---------------------------------------------------------------- one bar


def test_short_work_leaves_nothing(shown):
    assert list(progress([3, 1, 2], "short")) == [3, 1, 2]
    assert list(progress((i for i in range(1000)), "generator")) == list(range(1000))
    assert list(progress([], "empty")) == []
    with waiting("short"):
        pass
    with waiting("short", expected=5):
        pass
    time.sleep(0.3)
    assert shown.getvalue() == ""


def test_two_seconds_is_the_limit():
    assert module.DELAY == 2.0


def test_long_work_shows_a_bar_that_goes_away(shown):
    seen = []
    for i in progress(range(8), "rows of the picture"):
        seen.append(i)
        time.sleep(0.06)
    assert seen == list(range(8))
    assert any(re.fullmatch(r"rows of the picture: [3-7] of 8, 0 s \|[█-▏]* *\|", line) for line in drawings(shown))
    assert is_clean(shown)


def test_without_a_length_steps_are_counted(shown):
    for _ in progress(iter(range(5000)), "numbers"):
        time.sleep(0.0001)
    assert any(re.fullmatch(r"numbers: \d,\d{3}, \d s", line) for line in drawings(shown))
    assert is_clean(shown)


def test_one_long_step_shows_a_bar_too(shown):
    for _ in progress(["one"], "one long step", name=str.upper):
        time.sleep(0.4)
    assert "one long step: 0 of 1, ONE, 0 s |" in shown.getvalue()
    assert is_clean(shown)


@pytest.mark.parametrize(
    ("expected", "shows"),
    [
        (None, "compiling: 1 s"),
        (0.3, "compiling: 1 s"),
        (60, "compiling: 1 of about 60 s"),
        (1, "2 s, usually about 1 s"),
    ],
)
def test_waiting_counts_the_seconds(shown, expected, shows):
    with waiting("compiling", expected=expected):
        time.sleep(1.8 if expected == 1 else 0.8)
    text = shown.getvalue()
    assert "compiling: 0" in text and "compiling: 1" in text and shows in text
    assert ("usually" in text) == (expected == 1)
    assert is_clean(shown)


def test_what_is_expected_may_change(shown):
    with waiting("compiling", expected=4):
        time.sleep(0.4)
        module.expect(60)
        time.sleep(0.4)
    assert "of about 4 s" in shown.getvalue() and "of about 60 s" in shown.getvalue()
    module.expect(60)  # nothing is under way: nothing happens
    assert is_clean(shown)


def test_a_line_is_no_wider_than_the_terminal(shown):
    with waiting("x" * 200):
        time.sleep(0.4)
    assert {len(line) for line in drawings(shown)} == {79}
    assert is_clean(shown)


def test_a_terminal_without_unicode(quick):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    terminal = module._Terminal(stream)
    terminal.show("naïve")
    assert stream.buffer.getvalue() == b"\rna?ve" and f"{module.Bar(0.5, 4, terminal.charset)}" == "##  "


def test_a_terminal_that_is_gone_ends_no_work(shown):
    shown.close()
    with waiting("compiling"):
        time.sleep(0.4)


# ---------------------------------------------------------------- bars inside bars


def test_three_deep_on_one_line(shown):
    for _ in progress(range(2), "outer"):
        for _ in progress(range(2), "middle"):
            with waiting("inner", 60):
                time.sleep(0.4)
    seen = drawings(shown)
    assert any(
        re.fullmatch(r"outer: 1 of 2, \d s \|[█-▏]* *\| middle: 1 of 2, \d s; inner: \d of about 60 s", x) for x in seen
    )
    assert all(line.startswith("outer: ") for line in seen)
    assert is_clean(shown)


def test_a_wait_gives_the_line_back(shown):
    for step in progress(range(2), "steps"):
        if step == 0:
            with waiting("compiling"):
                time.sleep(0.4)
            assert "compiling" in shown.getvalue()
        else:
            shown.seek(0), shown.truncate()
            time.sleep(0.3)
            assert "steps: 1 of 2" in shown.getvalue() and "compiling" not in shown.getvalue()
    assert is_clean(shown)


def test_a_short_wait_adds_nothing(shown):
    for _ in progress(range(15), "steps"):
        with waiting("compiling"):
            time.sleep(0.03)
    assert "steps" in shown.getvalue() and "compiling" not in shown.getvalue()
    assert is_clean(shown)


def test_another_threads_bar_takes_over(shown):
    def other():
        for _ in progress(range(4), "other"):
            time.sleep(0.2)

    thread = threading.Thread(target=other)
    with waiting("first"):
        thread.start()
        time.sleep(0.4)
    time.sleep(0.15)
    assert screen(shown.getvalue())[0].startswith("other: ")
    thread.join()
    assert any(re.match("first: 0 s other: ", line) for line in drawings(shown))
    assert is_clean(shown)


def test_many_threads(shown):
    def build(n):
        with waiting(f"build {n}"):
            time.sleep(0.3)

    threads = [threading.Thread(target=build, args=[n]) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_clean(shown)


def test_what_is_printed_in_between(shown):
    for step in progress(range(2), "steps"):
        time.sleep(0.4)
        with bar_hidden():
            shown.write(f"printed {step}\n")
    lines = screen(shown.getvalue())
    assert lines == ["printed 0", "printed 1", ""]
    with bar_hidden():
        pass  # where there is no bar


# ---------------------------------------------------------------- unhappy ends


def test_errors_pass_and_no_thread_stays(shown):
    with pytest.raises(ValueError, match="inside"), waiting("fails"):
        time.sleep(0.3)
        raise ValueError("inside")
    assert is_clean(shown)
    with pytest.raises(ValueError, match="inside"):
        for _ in progress(range(3), "fails"):
            with waiting("inner"):
                time.sleep(0.3)
                raise ValueError("inside")
    assert is_clean(shown)
    for _ in progress(range(3), "left early"):
        time.sleep(0.3)
        break
    assert is_clean(shown)
    time.sleep(0.2)
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_the_iterables_own_error_passes(shown):
    def two():
        yield 1
        time.sleep(0.3)
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        list(progress(two(), "fails"))
    assert is_clean(shown)


def test_an_interrupt_inside_a_bar_inside_a_bar(shown):
    with pytest.raises(KeyboardInterrupt):
        for _ in progress(range(3), "outer"):
            with waiting("inner"):
                time.sleep(0.3)
                raise KeyboardInterrupt
    assert is_clean(shown)


def test_a_loop_that_was_left_ends_with_its_cell(shown):
    steps = progress(range(3), "left early, but still referred to")
    for _ in steps:
        time.sleep(0.3)
        break
    assert not is_clean(shown)
    module._end_what_is_left()
    assert is_clean(shown)
    assert list(steps) == [1, 2]  # and may be gone on with, unseen
    assert is_clean(shown)


def test_the_end_of_a_cell_leaves_other_threads_alone(shown):
    go_on = threading.Event()

    def other():
        with waiting("in the background"):
            go_on.wait()

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(0.3)
    module._end_what_is_left()
    time.sleep(0.1)
    assert "in the background" in screen(shown.getvalue())[0]
    go_on.set()
    thread.join()
    assert is_clean(shown)


# ---------------------------------------------------------------- where nothing is shown


@pytest.mark.parametrize(
    "name, value", [("PYTEST_VERSION", "9"), ("PYTEST_CURRENT_TEST", "x"), ("COURSE_HEADLESS", "1")]
)
def test_silent_in_tests_and_headless(shown, name, value):
    module.os.environ[name] = value
    for _ in progress(range(4), "silent"):
        time.sleep(0.08)
    with waiting("silent", expected=1):
        time.sleep(0.3)
    assert shown.getvalue() == ""


def test_silent_here_without_any_help(capsys, monkeypatch):
    monkeypatch.setattr(module, "DELAY", 0.05)
    with waiting("silent"):
        time.sleep(0.2)
    list(progress(range(3), "silent"))
    assert capsys.readouterr() == ("", "")


def test_headless_zero_means_no(shown):
    module.os.environ["COURSE_HEADLESS"] = "0"
    with waiting("seen"):
        time.sleep(0.4)
    assert "seen" in shown.getvalue()


# ---------------------------------------------------------------- real terminals, logs and notebooks


BEGIN = """
import os, sys, threading, time
from utils.ground import progress as module
from utils.ground.progress import bar_hidden, progress, waiting
module.DELAY, module.TICK = 0.2, 0.05
"""
NESTED = """
for i in progress(range(3), "steps"):
    with waiting("compiling", 4):
        time.sleep(0.5)
print("done")
"""


def seen_environment():
    """This process's environment, in which bars are shown."""
    hidden = ("PYTEST", "COURSE_HEADLESS")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | {"PYTHONPATH": path}


def logged(code):
    """(exit status, everything that a program writes into a pipe)."""
    command = [sys.executable, "-c", BEGIN + code]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, env=seen_environment(), timeout=900, **both)
    return done.returncode, done.stdout.decode()


def on_a_terminal(code, interrupted_at=None):
    """(exit status, everything that a program writes to a terminal). Ctrl-C comes when that text is first there."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", BEGIN + code]
    run = subprocess.Popen(command, env=seen_environment(), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text, sent = b"", False
    try:
        while True:
            try:
                text += os.read(ours, 4096)
            except OSError:  # the program has ended
                break
            if interrupted_at and not sent and interrupted_at in text.decode(errors="ignore"):
                run.send_signal(signal.SIGINT)
                sent = True
        return run.wait(600), text.decode()
    finally:
        run.kill()
        os.close(ours)


def test_a_terminal_shows_one_line_and_then_none():
    status, text = on_a_terminal(NESTED)
    assert status == 0 and "\x1b" not in text
    assert re.search(r"steps: 1 of 3, \d s \|[█-▏]* *\| compiling: \d of about 4 s", text)
    assert screen(text) == ["done", ""]


@pytest.mark.parametrize("inner", ["compiling", "steps: 2 of 3"])
def test_ctrl_c_on_a_terminal(inner):
    status, text = on_a_terminal(
        "try:" + NESTED.replace("\n", "\n  ") + "\nexcept KeyboardInterrupt: print('ended')", inner
    )
    assert status == 0 and screen(text) == ["ended", ""]


def test_a_traceback_stands_alone_on_a_terminal():
    status, text = on_a_terminal("[(time.sleep(0.4), 1 / (1 - i)) for i in progress(range(3), 'dividing')]")
    assert status == 1 and "dividing: 1 of 3" in text
    lines = screen(text)
    assert lines[0] == "Traceback (most recent call last):" and lines[-2].startswith("ZeroDivisionError")
    assert not any("of 3" in line for line in lines)


def test_a_program_that_ends_inside_a_bar():
    status, text = on_a_terminal("steps = progress(range(3), 'steps')\nnext(steps)\ntime.sleep(0.5)\nsys.exit(3)")
    assert status == 3 and "steps: 0 of 3" in text and screen(text) == [""]


def test_a_log_has_a_line_as_a_long_step_ends():
    status, text = logged(NESTED)
    assert status == 0 and not re.search(r"[^\n -~]", text)
    assert [re.sub(r"\d s", "_ s", line) for line in text.splitlines()] == [
        *(f"steps: {n} of 3, _ s" for n in (1, 2, 3)),
        "done",
    ]


def test_a_log_of_named_steps():
    _, text = logged("for _ in progress(['a', 'b'], 'files', name=str.upper): time.sleep(0.3)")
    assert re.fullmatch(r"files: 1 of 2, A, \d s\nfiles: 2 of 2, B, \d s\n", text)


def test_a_log_of_waiting():
    _, text = logged("with waiting('1 of 5: matmul'): time.sleep(0.3)")
    assert re.fullmatch(r"1 of 5: matmul: \d s\n", text)


def test_a_log_of_short_work_is_empty():
    assert logged("list(progress(range(1000), 'short'))\nwith waiting('short'): pass") == (0, "")


def test_a_log_of_many_short_steps_is_short():
    start = time.monotonic()
    _, text = logged("for _ in progress(range(200), 'steps'): time.sleep(0.005)")
    assert 2 <= len(text.splitlines()) <= (time.monotonic() - start) / 0.2


def test_a_log_of_what_failed():
    status, text = logged("for i in progress(range(2), 'dividing'): time.sleep(0.3); 1 / (1 - i)")
    assert status == 1
    assert text.startswith("dividing: 1 of 2, ") and text.splitlines()[1] == "Traceback (most recent call last):"


def test_a_forked_process_begins_anew():
    status, text = on_a_terminal("""
import warnings
warnings.simplefilter("ignore")  # from Python 3.12 on, about a fork beside threads
hold, held = threading.Event(), threading.Event()
def holder():
    with bar_hidden():
        held.set(), hold.wait()
with waiting("the parent's"):
    threading.Thread(target=holder).start()
    held.wait()
    child = os.fork()
    if child == 0:
        with waiting("the child's"):
            os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    hold.set()
""")
    assert status == 0 and screen(text) == ["7", ""]


def test_a_notebook_keeps_nothing_of_a_bar(monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    left = "left = progress(range(3), 'left early')\nnext(left)\ntime.sleep(0.5)"
    printing = NESTED.replace("with waiting", "print('step', i)\n    with waiting")
    failing = "[(time.sleep(0.4), 1 / (1 - i)) for i in progress(range(3), 'dividing')]"
    cells = [nbformat.v4.new_code_cell(code) for code in (BEGIN, NESTED, left, printing, failing, "module._tasks")]
    nb = nbformat.v4.new_notebook(cells=cells)
    drawn = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            drawn.extend([msg["content"]["data"].get("text/plain")] if "display" in msg["msg_type"] else [])
            return super().process_message(msg, cell, cell_index)

    Client(nb, allow_errors=True, kernel_name="python3").execute(env=seen_environment(), cwd=str(ROOT))
    _, nested, early, printed, failed, tasks = [cell.outputs for cell in nb.cells]
    assert any(re.fullmatch(r"steps: 1 of 3, \d s \|[█-▏]* *\| compiling: \d of about 4 s", text) for text in drawn)
    bars = [out for cell in nb.cells for out in cell.outputs if out.output_type == "display_data"]
    assert len(bars) == 4 and all(bar["data"] == {"text/plain": ""} for bar in bars)
    assert [out.get("text") for out in nested] == [None, "done\n"] and len(early) == 1
    assert "".join(out.get("text", "") for out in printed) == "step 0\nstep 1\nstep 2\ndone\n"
    assert [out.output_type for out in failed] == ["display_data", "error"]
    assert tasks[0]["data"]["text/plain"] == "[]"
