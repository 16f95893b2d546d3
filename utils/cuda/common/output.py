"""What C, C++ and kernels print appears where Python's own output appears, in order.

Python and C each buffer what they print, and a notebook shows only what goes through Python. `show_c_output` fixes
both. In a notebook, while a cell runs, C's stdout and stderr go to a file, and whenever Python writes something, what
is new in that file is written first; the rest follows at the cell's end. ipykernel has its own pipes for this, but not
under pytest (nbval), and they lose the order; besides, a function that holds Python's lock and prints more than a pipe
holds, 64 KB, would wait forever. In a program both write line by line, as in a terminal.

A GPU delivers what its kernels print when the process waits for it, so a cell's end waits, too.
"""

import atexit
import codecs
import ctypes
import os
import sys
import tempfile
import threading

__all__ = ["show_c_output"]

LIVE = 0.2  # seconds between checks for what a running cell's C code has printed, as in ipykernel


def show_c_output(shell, settle, explain) -> None:
    """Show C's output from now on: in the cells of IPython's `shell`, or in a program if that is None.

    `settle()` waits for what was launched, and raises RuntimeError if that went wrong; `explain(error)` explains such
    an error to the learner.
    """
    cells = _Cells(shell, settle)
    if shell is not None:
        shell.events.register("post_run_cell", cells.end)
    if hasattr(shell, "kernel"):
        shell.events.register("pre_run_cell", cells.begin)
        cells.begin()  # the cell that is running now
    elif sys.__stdout__ is not None:
        sys.__stdout__.reconfigure(line_buffering=True)
        _libc.setvbuf(_c_stdout, None, _LINE_BY_LINE, 0)
    atexit.register(_settle_at_exit, settle, explain)


def _settle_at_exit(settle, explain):
    try:
        settle()
    except RuntimeError as error:
        explain(error)
        print(f"{type(error).__name__}: {error}", file=sys.stderr)


class _Cells:
    """What happens when IPython begins to run a cell, and when the cell has run."""

    def __init__(self, shell, settle):
        self.shell, self.settle, self.capture = shell, settle, None

    def begin(self, info=None):
        ours = all(hasattr(stream, "set_parent") for stream in (sys.stdout, sys.stderr))  # not under %%capture
        if ours and self.capture is None:
            self.capture = _Capture()

    def end(self, result):
        try:
            self.settle()
        except RuntimeError as error:  # a launch of this cell went wrong, so the cell fails
            result.error_in_exec = error
            self.shell.showtraceback((type(error), error, None))  # without lines: they would be ours
        finally:
            if self.capture is not None:
                self.capture.close()
                self.capture = None


class _Capture:
    """Forwards the process's stdout and stderr to the notebook's, until it is closed."""

    def __init__(self):
        _libc.fflush(_c_stdout)
        self.lock = threading.RLock()
        self.redirected = [_Redirected(1, sys.stdout), _Redirected(2, sys.stderr)]
        for one in self.redirected:
            one.stream.write, one.stream.flush = self._after(one.write), self._after(one.stream.flush)
        self.closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _after(self, method):
        """The stream's method, which first writes what C has printed up to then."""

        def call(*args):
            self.bring()
            return method(*args)

        return call

    def bring(self):
        with self.lock:
            if not self.closed.is_set():
                _libc.fflush(_c_stdout)
                for one in self.redirected:
                    one.bring()

    def _watch(self):
        while not self.closed.wait(LIVE):
            self.bring()

    def close(self):
        with self.lock:
            self.bring()
            self.closed.set()
            for one in self.redirected:
                one.close()


class _Redirected:
    """A file in place of the process's stdout (1) or stderr (2), and the notebook's stream for it."""

    def __init__(self, number, stream):
        self.number, self.stream, self.write = number, stream, stream.write
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # Opened twice, for two positions in it, one for writers and one for the reader, that forked processes share.
        writing, path = tempfile.mkstemp()
        self.reading = os.open(path, os.O_RDONLY)
        os.unlink(path)
        self.before = os.dup(number)
        os.dup2(writing, number)
        os.close(writing)

    def bring(self):
        while new := os.read(self.reading, 1 << 16):
            self.write(self.decode(new))

    def close(self):
        os.dup2(self.before, self.number)
        os.close(self.before)
        os.close(self.reading)
        del self.stream.write, self.stream.flush


_libc = ctypes.CDLL(None)
_libc.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
_libc.fflush.argtypes = [ctypes.c_void_p]
_c_stdout = ctypes.c_void_p.in_dll(_libc, "__stdoutp" if sys.platform == "darwin" else "stdout")
_LINE_BY_LINE = 1  # _IOLBF of stdio.h, on Linux and macOS
