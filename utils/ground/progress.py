"""The progress of long work, on one line, however deeply it is nested. Nothing is shown for the first two seconds.

In a notebook or on a terminal the line is a bar that disappears at the end. Work that begins while a bar is shown draws
no bar of its own: it adds its words to that bar's line and removes them again. Anywhere else, as in a log, the
outermost work prints a line as a step ends, without control characters. Tests and headless runs show nothing.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tqdm.std import Bar, tqdm

DELAY = 2.0  # seconds before anything is shown, and between two lines of a log
TICK = 0.5  # seconds between two drawings of a bar
CELLS = 10  # characters of a bar; the words beside it should fit into 80 columns


def progress(iterable: Iterable, description: str, name: Callable[[object], str] | None = None) -> Iterator:
    """Iterate over `iterable`; a bar counts the finished items. With `name`, it also shows name(item)."""
    return iter(iterable) if _silent() else _counted(iterable, description, name)


@contextmanager
def waiting(description: str, expected: float | None = None):
    """Show how long the body has been running. For work without countable steps, such as a compile.

    With `expected`, in seconds, a bar fills up to that time; the seconds keep counting if the work takes longer.
    """
    if _silent():
        yield
        return
    with _under_way(_Task(description, expected, counted=False)) as task:
        yield
        _log(task)


def expect(seconds: float) -> None:
    """What `waiting` shows in this thread takes that many seconds from now."""
    with _lock:
        mine = [task for task in _tasks if not task.counted and task.thread == threading.get_ident()]
        if mine:
            mine[-1].total = time.monotonic() - mine[-1].begun + seconds


@contextmanager
def bar_hidden():
    """The body may print: the bar disappears to make room, and comes back later."""
    with _lock:
        if _screen:
            _screen.show("")
        yield


# ---------------------------------------------------------------- what is under way


@dataclass(eq=False)
class _Task:
    """Work under way, and the words that say how far it has come."""

    description: str
    total: float | None  # steps or, if these are not counted, the seconds expected; None if not known
    counted: bool = True
    done: int = 0
    name: str = ""  # of the step
    begun: float = field(default_factory=time.monotonic)
    logged: float = field(default_factory=time.monotonic)
    thread: int = field(default_factory=threading.get_ident)

    def words(self) -> str:
        seconds = time.monotonic() - self.begun
        if not self.counted:
            usual = round(self.total or 0)
            if usual and round(seconds) <= usual:
                return f"{self.description}: {seconds:.0f} of about {usual} s"
            return f"{self.description}: {seconds:.0f} s" + (f", usually about {usual} s" if usual else "")
        of_all = f" of {self.total:,}" if self.total is not None else ""
        name = f", {self.name}" if self.name else ""
        return f"{self.description}: {self.done:,}{of_all}{name}, {seconds:.0f} s"

    def bar(self, charset: str) -> str:
        if not self.total:
            return ""
        done = self.done if self.counted else time.monotonic() - self.begun
        return f" |{Bar(min(1, done / self.total), CELLS, charset)}|"


_lock = threading.RLock()  # for all variables below, and for drawing
_tasks: list[_Task] = []  # the one that began first has the bar
_screen = None  # where it is drawn; None if lines are logged, or nothing is under way
_ended = threading.Event()  # stops the thread that draws


@contextmanager
def _under_way(task: _Task):
    try:
        _begin(task)
        yield task
    finally:
        _end([task])


def _counted(iterable: Iterable, description: str, name: Callable | None) -> Iterator:
    total = len(iterable) if hasattr(iterable, "__len__") else None
    with _under_way(_Task(description, total)) as task:
        for item in iterable:
            task.name = name(item) if name else ""
            yield item
            task.done += 1
            _log(task)


def _begin(task: _Task) -> None:
    global _screen, _ended
    with _lock:
        _tasks.append(task)
        if len(_tasks) == 1 and (_screen := _find_screen()):
            _ended = threading.Event()  # the previous thread may not have noticed yet that it should stop
            threading.Thread(target=_draw_until, args=[_ended], name="progress", daemon=True).start()


def _end(tasks: Iterable[_Task]) -> None:
    """Remove what `tasks` show. A task that has already ended changes nothing."""
    global _screen
    with _lock:
        _tasks[:] = [task for task in _tasks if task not in tasks]
        if _tasks:
            _draw()
        elif _screen:
            _ended.set()
            _screen.show("")
            _screen = None


def _draw_until(ended: threading.Event) -> None:
    while not ended.wait(TICK):
        with _lock:
            if not ended.is_set():
                _draw()


def _draw() -> None:
    now = time.monotonic()
    seen = [task for task in _tasks if now - task.begun >= DELAY]
    if _screen:
        inner = "; ".join(task.words() for task in seen[1:])
        _screen.show(f"{seen[0].words()}{seen[0].bar(_screen.charset)} {inner}".rstrip() if seen else "")


def _log(task: _Task) -> None:
    """A line about a step that has ended, if there is no screen: at most one every two seconds."""
    now = time.monotonic()
    if _screen is None and _tasks[:1] == [task] and now - task.logged >= DELAY:
        task.logged = now
        print(task.words(), file=sys.stderr, flush=True)


def _end_what_is_left() -> None:
    """End what this thread's cell left under way: an interrupted loop that a traceback still refers to."""
    _end([task for task in _tasks if task.thread == threading.get_ident()])


def _end_all_and_show(*error) -> None:
    """An error that ends the process is printed where the bar was, not after it."""
    _end(list(_tasks))
    sys.__excepthook__(*error)


def _forget() -> None:
    """In a forked process the lock may be held, and the bar belongs to the parent."""
    global _lock, _screen
    _lock, _screen = threading.RLock(), None
    _tasks.clear()


atexit.register(lambda: _end(list(_tasks)))
os.register_at_fork(after_in_child=_forget)


# ---------------------------------------------------------------- where it is shown


class _Terminal:
    """A line of a terminal that is overwritten."""

    def __init__(self, stream):
        self.stream, self.draw, self.is_drawn = stream, tqdm.status_printer(stream), False
        self.charset = Bar.UTF if _can_write(stream, Bar.UTF) else Bar.ASCII
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = _end_all_and_show

    def show(self, text: str) -> None:
        if not text and not self.is_drawn:
            return
        text = text if _can_write(self.stream, text) else text.encode("ascii", "replace").decode()
        with suppress(OSError, ValueError):  # a closed terminal must not end the work
            self.draw(text[: self._columns() - 1])  # a longer line would wrap, and its rest would not be overwritten
            if not text:
                self.stream.write("\r")
        self.is_drawn = bool(text)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


def _can_write(stream, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


class _Output:
    """An output of a notebook's cell, whose text is replaced. What the cell prints has separate outputs."""

    charset = Bar.UTF

    def __init__(self):
        self.id, self.drawn = os.urandom(8).hex(), None

    def show(self, text: str) -> None:
        from IPython.display import display

        if text != (self.drawn or ""):
            display({"text/plain": text}, raw=True, display_id=self.id, update=self.drawn is not None)
            self.drawn = text


def _silent() -> bool:
    in_a_test = "PYTEST_VERSION" in os.environ or "PYTEST_CURRENT_TEST" in os.environ
    return in_a_test or os.environ.get("COURSE_HEADLESS", "0") not in ("", "0")


def _find_screen():
    """A notebook's cell, a terminal, or None. Results go to stdout, so a terminal's bar goes to stderr."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell:
        shell.events.register("post_execute", _end_what_is_left)  # once: IPython ignores duplicates
    if hasattr(shell, "kernel"):
        return _Output()
    try:
        return _Terminal(sys.stderr) if sys.stderr and sys.stderr.isatty() else None
    except (AttributeError, ValueError):  # it is closed, or no file
        return None
