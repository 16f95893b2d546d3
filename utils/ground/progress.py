"""Progress bars for long work. Nothing is shown during the first two seconds, in tests or in headless runs."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tqdm.std import tqdm  # the text bar: it needs no widgets, and nothing of it is saved in a notebook's metadata

DELAY = 2.0  # seconds before anything is shown
TICK = 0.5  # seconds between two looks at the clock


def progress(iterable: Iterable, description: str) -> Iterator:
    """Go through `iterable` and show a bar when that takes more than two seconds. The bar goes away at the end."""
    return iter(iterable) if _silent() else _with_bar(iterable, description)


@contextmanager
def waiting(description: str, expected: float | None = None):
    """Show how long the body has been running, once that is more than two seconds.

    For work without steps that could be counted, such as a compile. With `expected`, in seconds, a bar fills up to
    that time; the seconds go on counting when the work takes longer.
    """
    if _silent():
        yield
        return
    start = time.monotonic()
    bar: tqdm | None = None

    def tick():
        nonlocal bar
        seconds = time.monotonic() - start
        if bar is None:
            bar_format = "{desc} |{bar}|" if expected else "{desc}"
            bar = tqdm(total=expected, desc=description, bar_format=bar_format, leave=False, file=_file())
        bar.n = min(seconds, expected or seconds)
        usual = f" of about {expected:.0f} s" if expected else " s"
        bar.set_description_str(f"{description}: {seconds:.0f}{usual}")

    try:
        with _ticking(tick):
            yield
    finally:
        if bar is not None:
            bar.close()


def _with_bar(iterable: Iterable, description: str) -> Iterator:
    with tqdm(iterable, desc=description, delay=DELAY, leave=False, file=_file()) as bar:

        def tick():
            bar.delay = 0  # from now on the bar is seen, so closing it must wipe it away
            bar.refresh()

        with _ticking(tick):  # so that the clock runs on inside a long step
            yield from bar


@contextmanager
def _ticking(tick: Callable[[], object]):
    """Call `tick` from another thread, again and again, from two seconds after the start to the end of the body."""
    ended = threading.Event()

    def run():
        pause = DELAY
        while not ended.wait(pause):
            tick()
            pause = TICK

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _silent() -> bool:
    in_a_test = "PYTEST_VERSION" in os.environ or "PYTEST_CURRENT_TEST" in os.environ
    return in_a_test or os.environ.get("COURSE_HEADLESS", "0") not in ("", "0")


def _file():
    """A notebook colours what comes from stderr as if it were an error; a terminal keeps stdout for results."""
    return sys.stdout if "ipykernel" in sys.modules else sys.stderr
