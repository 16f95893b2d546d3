"""play: step through a kernel written in Python, thread by thread, in the player that also shows CUDA kernels."""

import ast
import inspect
import math
import sys
import textwrap
import threading

import torch

from utils.cuda.common.grid import block_indices, dim3, launch_sizes, whole_number
from utils.cuda.player.page import Player, output
from utils.cuda.player.recording import Block, Marked, Memory, Recording, kept_sentence, window
from utils.ground.progress import waiting
from utils.lesson.in_step import Event, PythonThread, in_step, interleaved
from utils.lesson.views import View, is_array, number_of

__all__ = ["play", "recording"]

_WARP, _LARGEST_BLOCK, _FIRST = 32, 1024, 2
_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long", "float16": "half"}


def play(run, f, *launch, blocks=None, steps=3000, save=None) -> Player:
    """Step through a kernel in Python: `play(blk_kernel2d, f, blocks, threads, *args)` makes the launch
    `blk_kernel2d(f, blocks, threads, *args)` on copies of the arrays among `args`, and shows what every thread does.

    `run` is `run_kernel`, `blk_kernel`, `blk_kernel2d`, `blk_kernel2d_shared`, or your own version of one. `blocks` are
    the blocks to keep, each a number or a tuple (x, y, z), by default the first two. At most `steps` steps of warps are
    kept. With `save`, a path, this also writes a page. A notebook shows the result.
    """
    __tracebackhide__ = True
    if save:
        output(save, ".html")  # before the recording, which takes longer
    player = Player([recording(run, f, *launch, blocks=blocks, steps=steps)])
    if save:
        player.save(save)
    return player


def recording(run, f, *launch, blocks=None, steps=3000) -> Recording:
    """What `play` shows: the launch `run(f, *launch)` as a `Recording`."""
    __tracebackhide__ = True
    watched = _Launch(run, f, launch, blocks, steps)
    with waiting(f"recording {f.__name__}"):
        watched.make()
    return watched.recording()


class _Cut(BaseException):
    """Ends a thread once enough of it is recorded."""


class _Launch:
    def __init__(self, run, f, launch, blocks, steps):
        self.run, self.f, self.steps = run, f, steps
        self.lines, self.first = inspect.getsourcelines(f)
        self.loops = _loops(self.lines, self.first)
        self.names = list(inspect.signature(f).parameters)
        self.current, self.threads, self.problems = threading.local(), {}, []
        self.memories, self.before, self.shared = [], [], {}
        self.last_barrier = {}  # by block, once no thread's events are kept any more
        self._size(launch)
        indices = block_indices(range(min(_FIRST, math.prod(self.grid))) if blocks is None else blocks, self.grid)
        self.kept = {number: k for k, number in enumerate(indices)}
        sizes = [min(self.block_threads, self.threads_in_all - k * self.block_threads) for k in self.kept]
        self.to_come = sum(sizes)  # kept threads that have not ended
        self.launch = [
            *launch[: self.given],
            *map(self._watched, launch[self.given :], self.names[self.given - len(launch) :]),
        ]
        self.share = max(20, steps // max(1, len(self.kept) * math.ceil(self.block_threads / _WARP)))

    def _size(self, launch):
        """Set the sizes of the grid and of a block. A launch without blocks gets blocks of 1024 threads."""
        more = len(self.names) - len(launch)  # run_kernel: 0; blk_kernel: 1; blk_kernel2d_shared: 2
        if more not in (0, 1, 2):
            raise TypeError(
                f"{self.f.__name__} takes {len(self.names)} arguments ({', '.join(self.names)}), and the launch gives "
                f"{len(launch)} beside the kernel: pass what {self.run.__name__} takes, in its order"
            )
        self.given = more + 1  # arguments of the launch that the kernel does not get
        if more == 0:
            times = whole_number(launch[0], "times")
            self.grid = dim3(max(1, math.ceil(times / _LARGEST_BLOCK)))
            self.block = dim3(max(1, min(times, _LARGEST_BLOCK)))
        else:
            self.grid, self.block = launch_sizes(launch[0], launch[1])
        self.block_threads = math.prod(self.block)
        self.threads_in_all = times if more == 0 else math.prod(self.grid) * self.block_threads
        self.axes = "xyz" if self.grid.z * self.block.z > 1 else "xy" if self.grid.y * self.block.y > 1 else "x"

    def _watched(self, value, name):
        """An argument as the kernel gets it: an array as a View of a copy."""
        if not is_array(value):
            return value
        copy = _copy(value)
        if isinstance(copy, list):
            kind, size = "float" if any(isinstance(item, float) for item in copy) else "int", 4
        else:
            kind = str(copy.dtype).removeprefix("torch.")
            kind, size = _TYPES.get(kind, kind), copy.element_size() if torch.is_tensor(copy) else copy.itemsize
        self.memories.append(Memory(name, "global", kind, size, _shape(copy), []))
        self.before.append(value if isinstance(value, list) else value.reshape(-1))
        return View(copy, len(self.memories) - 1, self._report)

    # ---- while it runs ----------------------------------------------------------------------------------------------

    def make(self):
        """Make the launch. What a thread raises becomes a problem."""
        self.caller = threading.current_thread()
        try:
            self.run(self._thread, *self.launch)
        except _Cut:
            pass
        except Exception as error:
            if not self.problems:
                raise
            self.problems[0].text = str(error)

    def _thread(self, *args):
        """What the launch calls for each thread, in place of the kernel."""
        if self.given == 1:  # run_kernel
            block, number = divmod(args[0], _LARGEST_BLOCK)
        else:
            block, number = _number(_as_dim3(args[0]), self.grid), _number(_as_dim3(args[1]), _as_dim3(args[2]))
        if block not in self.kept:
            if self.to_come == 0 and threading.current_thread() is self.caller:
                raise _Cut  # everything to keep is recorded
            if self.to_come and block < max(self.kept):
                self.f(*args)
            return
        thread = self.threads.setdefault((self.kept[block], number), PythonThread())
        if self.given == 3:
            args = [*args[:4], self._shared(self.kept[block], args[4]), *args[5:]]
            self.current.waits = getattr(args[3], "__func__", args[3]).__code__
        self.current.thread, self.current.place = thread, (self.kept[block], number)
        before = sys.gettrace()
        sys.settrace(self._calls)
        try:
            self.f(*args)
            self._add(thread, "exit")
        except _Cut:
            pass
        except Exception as error:
            self._failed(thread, error)
            self._add(thread, "exit")
            raise
        finally:
            sys.settrace(before)
            self.to_come -= 1
            self.current.thread = thread.frame = None

    def _shared(self, block, array):
        if block not in self.shared:
            name = self.names[4]
            self.memories.append(Memory(name, "shared", "float", 4, (len(array),), [None] * len(array), block))
            self.shared[block] = array, len(self.memories) - 1
        return View(array, self.shared[block][1], self._report)

    def _calls(self, frame, event, _):
        """For sys.settrace, when a function is called."""
        thread = self.current.thread
        if thread is None:
            return None
        if frame.f_code is self.f.__code__ and thread.frame is None:
            thread.frame = frame
            return self._lines
        if frame.f_code is getattr(self.current, "waits", None):
            self._add(thread, "barrier")
            return self._passes
        return None

    def _lines(self, frame, event, _):
        """For sys.settrace, when the kernel begins a line."""
        thread = self.current.thread
        if event == "line" and thread is not None and not thread.cut:
            thread.line, thread.times = frame.f_lineno, 0
            for first, _ in self.loops:
                if frame.f_lineno == first:
                    around = self._key(thread, first)
                    entered, count = thread.loops.get(first, (None, 0))
                    thread.loops[first] = around, count + 1 if entered == around else 0
            self._add(thread, "line")
        return self._lines

    def _passes(self, frame, event, _):
        """For sys.settrace, when a barrier returns."""
        thread = self.current.thread
        if event == "return" and thread is not None:
            thread.barriers += 1
            if thread.barriers == self.last_barrier.get(self.current.place[0]):
                raise _Cut
            self._add(thread, "passed")
        return self._passes

    def _key(self, thread, line, inside=False):
        """The loops around a line, each with the thread's iteration."""
        key = []
        for first, last in self.loops:
            if first < line <= last or (inside and first == line):
                key += [first, thread.loops.get(first, (None, 0))[1]]
        return tuple(key)

    def _numbers(self, variables):
        """The variables that are numbers, by name; sizes and indices with as many of .x .y .z as the launch has."""
        found = {}
        for name, value in variables.items():
            if isinstance(value, dim3):
                found |= {f"{name}.{axis}": number for axis, number in zip(self.axes, value, strict=False)}
            elif (number := number_of(value)) is not None:
                found[name] = number
        return found

    def _add(self, thread, kind, **more):
        if len(thread.events) >= self.share and not thread.cut:
            thread.cut = True
            self._end_block(thread)
        if thread.cut:
            if self.given < 3:
                raise _Cut
            return
        key = (*self._key(thread, thread.line, inside=True), thread.line, thread.times)
        thread.times += 1
        variables = self._numbers(thread.frame.f_locals) if thread.frame is not None else {}
        thread.events.append(Event(key, thread.line, kind, variables=variables, **more))

    def _end_block(self, thread):
        """If all threads of a block are cut, the next barrier is their last: they all end there."""
        block = self.current.place[0]
        own = [other for (number, _), other in self.threads.items() if number == block]
        if len(own) == self.block_threads and all(other.cut for other in own):
            self.last_barrier[block] = thread.barriers + 1

    def _report(self, kind, memory, elements, values):
        thread = getattr(self.current, "thread", None)
        if thread is None:
            return
        tracer = sys.gettrace()
        sys.settrace(None)  # do not trace the following
        try:
            self._accessed(thread, kind, memory, elements, values)
        finally:
            sys.settrace(tracer)

    def _accessed(self, thread, kind, memory, elements, values):
        if values is None:
            held, index = self.memories[memory], elements
            text = f"{held.name}[{index}], but {held.name} has {math.prod(held.shape):,} elements"
            return self._add(thread, kind, memory=memory, elements=[None], values=[None], outside=text)
        for element, value in zip(elements, values, strict=True):
            self._add(thread, kind, memory=memory, elements=[element], values=[number_of(value)])

    def _failed(self, thread, error):
        place = self.current.place
        self.problems.append(Marked("error", str(error), thread.line, [], [place], [thread.line]))

    # ---- afterwards -------------------------------------------------------------------------------------------------

    def recording(self) -> Recording:
        """The `Recording`: the steps of all warps, ordered by barriers."""
        steps, cut = [], False
        for block in range(len(self.kept)):
            warps = []
            for warp in range(math.ceil(self.block_threads / _WARP)):
                lanes = {k: self.threads.get((block, warp * _WARP + k)) for k in range(_WARP)}
                merged, whole = in_step(block, warp, {k: t for k, t in lanes.items() if t}, self.memories)
                cut = cut or not whole
                warps.append(merged)
            steps += interleaved(warps)
        cut, steps = cut or len(steps) > self.steps, steps[: self.steps]
        for problem in self.problems:
            ((block, number),) = problem.threads
            warp, lane = divmod(number, _WARP)
            own = [k for k, s in enumerate(steps) if (s.block, s.warp) == (block, warp) and lane in s.lanes]
            outside = [k for k in own if any(place == lane for place, _ in steps[k].outside)]
            problem.steps = (outside or own)[-1:]
        for number, (memory, before) in enumerate(zip(self.memories, self.before, strict=False)):  # none is shared
            memory.window = window(steps, number, math.prod(memory.shape))
            first, count = memory.window or (0, len(before))
            memory.values = [number_of(item) for item in before[first : first + count]]
        indices = list(block_indices(self.kept, self.grid).values())
        source = textwrap.dedent("".join(self.lines)).splitlines()
        return Recording(
            kernel=self.f.__name__,
            language="python",
            source=source,
            first_line=self.first,
            grid=tuple(self.grid),
            block=tuple(self.block),
            kept=kept_sentence(map(tuple, indices), self.grid, len(steps), cut),
            memories=self.memories,
            blocks=[Block(tuple(index), self.block_threads) for index in indices],
            steps=steps,
            problems=self.problems,
        )


def _loops(lines, first):
    """The first and last line of each loop in a function, outer loops first."""
    tree = ast.parse(textwrap.dedent("".join(lines)))
    found = [
        (node.lineno + first - 1, node.end_lineno + first - 1)
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.While))
    ]
    return sorted(found)


def _as_dim3(value):
    return value if isinstance(value, dim3) else dim3(value)


def _number(index, size) -> int:
    """The number of a block or a thread, x first. An axis that the launch does not have may be left out."""
    return index[0] + size[0] * (index[1] % size[1] + size[1] * (index[2] % size[2]))


def _copy(array):
    return array.detach().clone() if torch.is_tensor(array) else array.copy()


def _shape(array):
    return (len(array),) if isinstance(array, list) else tuple(array.shape)
