"""Errors about what a learner wrote end in the learner's line: the course's own lines below it say nothing more."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
# What is raised on purpose. Any other error in the course's own code is a mistake of ours, and shown in full.
_MEANT = (RuntimeError, TypeError, ValueError)


def shorten(shell) -> None:
    """From now on, IPython's `shell` shows such errors without the course's own lines."""
    show = shell.showtraceback
    if hasattr(show, "shortens"):  # the set-up cell has run before
        return

    def showtraceback(exc_tuple=None, *args, **options):
        kind, error, trace = exc_tuple or sys.exc_info()
        if isinstance(error, _MEANT):
            exc_tuple = kind, error, until_ours(trace)
        show(exc_tuple, *args, **options)

    showtraceback.shortens = True
    shell.showtraceback = showtraceback


def until_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without its last frames, if these are the course's own; as it is if all are."""
    frames = []
    while trace:
        frames.append(trace)
        trace = trace.tb_next
    kept = len(frames)
    while kept and frames[kept - 1].tb_frame.f_code.co_filename.startswith(_OURS):
        kept -= 1
    shown = None
    for one in reversed(frames[: kept or len(frames)]):
        shown = TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return shown
