"""CUDA's model of blocks and threads in plain Python: the same loops, one thread after another.

A GPU runs the threads of a launch in any order and many at a time. Here they run in order, so a kernel can be
stopped, printed from and stepped through like any other Python function. Only threads that wait for each other need
more than a loop: see `blk_kernel2d_shared`.
"""

import ctypes
import linecache
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from math import nan
from threading import Lock, Thread
from typing import Any

import numpy as np

from utils.cuda.common.grid import dim3, launch_sizes, whole_number

MOST_SHARED = 48 * 1024 // 4  # numbers of 4 bytes: a block gets 48 KB without asking for more


def cdiv(a: int, b: int) -> int:
    """`a / b` rounded up: how many blocks of `b` threads it takes to cover `a` elements."""
    return (a + b - 1) // b


def run_kernel(f: Callable, times: int, *args: Any) -> None:
    """Call `f(i, *args)` for every `i` from 0 to `times - 1`. Zero `times` does nothing.

    Raises TypeError or ValueError for `times` that is not a whole number or is negative. An error inside `f` keeps its
    type and its traceback, and its message then says for which `i` it happened.
    """
    times = whole_number(times, "times")
    if times < 0:
        raise ValueError(f"times must not be negative, but it is {times}")
    try:
        for i in range(times):
            f(i, *args)
    except Exception as error:
        _add_place(error, f"in the call with i = {i}")
        raise


def blk_kernel(f: Callable, blocks: int, threads: int, *args: Any) -> None:
    """Call `f(blockidx, threadidx, blockdim, *args)` once for every thread of a one-dimensional grid.

    The three are plain ints, and `blockdim` is the number of threads in each block. Raises as `blk_kernel2d` does.
    """
    blocks, threads = launch_sizes(blocks, threads)
    if blocks[1:] + threads[1:] != (1, 1, 1, 1):
        raise ValueError(
            f"blk_kernel takes one number of blocks and one of threads, but got blocks={tuple(blocks)} and "
            f"threads={tuple(threads)}. Use blk_kernel2d for more dimensions."
        )
    try:
        for i in range(blocks.x):
            for j in range(threads.x):
                f(i, j, threads.x, *args)
    except Exception as error:
        _add_place(error, f"in thread {(j, 0, 0)} of block {(i, 0, 0)}")
        raise


def blk_kernel2d(f: Callable, blocks, threads, *args: Any) -> None:
    """Call `f(blockidx, threadidx, blockdim, *args)` once for every thread of a grid of up to three dimensions.

    `blocks` and `threads` are each an int, a tuple `(x, y, z)` with one to three numbers, or a `dim3`. The three
    that `f` gets have `.x .y .z`. As in CUDA, x runs fastest.

    Raises TypeError for a size that is not a whole number, and ValueError for a size that a GPU refuses too: below 1
    or above its limits. So zero blocks are an error here, as they are in CUDA: return early when there is nothing
    to do. An error inside `f` keeps its type and its traceback, and its message then names the thread and the block.
    """
    blocks, threads = launch_sizes(blocks, threads)
    try:
        for blockidx in _positions(blocks):
            for threadidx in _positions(threads):
                f(blockidx, threadidx, threads, *args)
    except Exception as error:
        _add_place(error, f"in thread {tuple(threadidx)} of block {tuple(blockidx)}")
        raise


def blk_kernel2d_shared(f: Callable, blocks, threads, shared_size: int, *args: Any) -> None:
    """Call `f(blockidx, threadidx, blockdim, syncthreads, shared, *args)` for threads that share memory and wait.

    As `blk_kernel2d`, and in addition: `shared` is a NumPy array of `shared_size` numbers that all threads of a block
    use together. Each block has its own, full of nan at first, since no GPU clears it. `syncthreads()` returns when
    every thread of the block has called it.

    Each thread of a block is a thread of Python. One of them runs at a time, from one barrier to the next, in an order
    that differs from block to block and is the same in every run. So what goes wrong without a barrier goes wrong
    every time.

    Raises as `blk_kernel2d` does, ValueError for more shared memory than CUDA's 48 KB, and RuntimeError, with
    the threads and the lines, when some threads wait at a barrier that the others can no longer reach.
    """
    blocks, threads = launch_sizes(blocks, threads)
    shared_size = whole_number(shared_size, "shared_size")
    if not 0 <= shared_size <= MOST_SHARED:
        raise ValueError(f"shared_size is 0 to {MOST_SHARED:,} floats, which are 48 KB, but it is {shared_size:,}")
    team = _Team(f, threads, args)
    try:
        for number, blockidx in enumerate(_positions(blocks)):
            team.run(blockidx, np.full(shared_size, nan), random.Random(number))
    finally:
        team.dismiss()


class _Team:
    """Python threads that run one block after another. One runs at a time; at a barrier it is the next one's turn.

    `turns[i]` is locked unless it is the turn of thread i. The last lock is for the caller, whose turn it is when every
    thread has reached a barrier or its end.
    """

    def __init__(self, f, blockdim, args):
        self.f, self.blockdim, self.args = f, blockdim, args
        self.order = list(_positions(blockdim))
        size = len(self.order)
        self.turns = [Lock() for _ in range(size + 1)]
        for turn in self.turns:
            turn.acquire()
        self.waits_in = [None] * size  # file and line of the barrier; None for a thread that has left the kernel
        self.errors = [None] * size
        self.running, self.dismissed, self.members = None, False, []

    def run(self, blockidx, shared, generator):
        self.blockidx, self.shared, self.barriers = blockidx, shared, 0
        generator.shuffle(self.order)
        while len(self.members) < len(self.order):
            self.members.append(Thread(target=self._run_blocks, args=(len(self.members),), daemon=True))
            self.members[-1].start()
        while True:
            self._give_turn_to(0)
            self.turns[-1].acquire()
            self._raise_what_went_wrong()
            if not any(self.waits_in):
                return
            self.barriers += 1

    def dismiss(self):
        """End all threads, the running one in the middle of its work."""
        self.dismissed = True
        if self.running is not None and self.running < len(self.members):
            thread = ctypes.c_ulong(self.members[self.running].ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(SystemExit))
        for turn in self.turns:
            if turn.locked():
                turn.release()
        for member in self.members:
            member.join(timeout=1)  # a thread in the middle of a long call into C ends after that call

    def _give_turn_to(self, i):
        self.running = i
        self.turns[i].release()

    def _wait_for_turn(self, i):
        self.turns[i].acquire()
        if self.dismissed:
            raise SystemExit

    def _run_blocks(self, i):
        def syncthreads():
            caller = sys._getframe(1)
            self.waits_in[i] = (caller.f_code.co_filename, caller.f_lineno)
            self._give_turn_to(i + 1)
            self._wait_for_turn(i)

        with suppress(SystemExit):
            while True:
                self._wait_for_turn(i)
                try:
                    self.f(self.blockidx, self.order[i], self.blockdim, syncthreads, self.shared, *self.args)
                except BaseException as error:
                    if self.dismissed:
                        return
                    self.errors[i] = error
                self.waits_in[i] = None
                self._give_turn_to(i + 1)

    def _raise_what_went_wrong(self):
        """Raise what a thread raised, or an error unless all wait at one barrier or all have left."""
        in_order = sorted(range(len(self.order)), key=lambda i: self.order[i][::-1])  # x fastest
        waiting = [i for i in in_order if self.waits_in[i]]
        wait = "1 thread waits" if len(waiting) == 1 else f"{len(waiting)} threads wait"
        for i in in_order:
            if self.errors[i]:
                others = f", while {wait} at {self._barrier(waiting[0])}" if waiting else ""
                if isinstance(self.errors[i], Exception):
                    _add_place(self.errors[i], f"in {self._name(i)}{others}")
                raise self.errors[i]
        rule = "Every thread of a block must reach the same barriers"
        left = [i for i in in_order if not self.waits_in[i]]
        if waiting and left:
            raise RuntimeError(
                f"{self._name(left[0])} has left the kernel, while {self._name(waiting[0])} waits at "
                f"{self._barrier(waiting[0])}. {len(left)} left, {wait} forever. "
                f"{rule}: no thread may return before one, or skip one in an `if`."
            )
        for i in waiting:
            if self.waits_in[i] != self.waits_in[waiting[0]]:
                raise RuntimeError(
                    f"{self._name(waiting[0])} waits at {self._barrier(waiting[0])}, but {self._name(i)} at "
                    f"{self._barrier(i)}. {rule}: move it out of the `if`."
                )

    def _name(self, i):
        return f"thread {tuple(self.order[i])} of block {tuple(self.blockidx)}"

    def _barrier(self, i):
        """The barrier at which a thread waits: its line, and how many the block has passed before it."""
        file, line = self.waits_in[i]
        text = linecache.getline(file, line).strip()
        return f"barrier {self.barriers + 1} (line {line}{f': `{text}`' if text else ''})"


def _positions(size: dim3):
    """Every position in a box of this size, x fastest."""
    for z in range(size.z):
        for y in range(size.y):
            for x in range(size.x):
                yield dim3(x, y, z)


def _add_place(error: Exception, place: str) -> None:
    """Add `place` to the message of `error`, whose traceback stays as it is."""
    error.args = (f"{error} {place}" if str(error) else place,)
    if place not in str(error):  # a type that does not make its message from its arguments
        raise RuntimeError(f"{type(error).__name__} {place}") from error
