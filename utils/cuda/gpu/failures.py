"""What to say when a kernel fails on a GPU: that the process has lost the GPU, which launch it was, and what to do.

A GPU works asynchronously. It reports a bad access at some later call, often one of torch's, and from then on it
answers every call of the process with an error. So the last launches are kept here, and a message about them replaces
the error's own text wherever that surfaces: in a cell or at the end of a script. On the CPU none of this is needed.
"""

import functools
import os
import re
import sys
from collections import deque

__all__ = ["explain", "launched", "message", "remembered", "settle", "show_explained"]

# The errors after which a process must be restarted, in CUDA's own words, as torch and Triton pass them on (CUDA
# Runtime API, Data types used by CUDA Runtime: cudaErrorIllegalAddress and the others documented that way).
LOST = (
    "an illegal memory access was encountered",
    "the launch timed out and was terminated",
    "device-side assert triggered",
    "hardware stack error",
    "an illegal instruction was encountered",
    "misaligned address",
    "operation not supported on global/shared address space",
    "invalid program counter",
    "unspecified launch failure",
)
# These words end their line. The CPU engine, whose errors leave the process usable, adds the thread after them.
_LOST = re.compile(rf"({'|'.join(LOST)})\W*$", re.MULTILINE)
_AFTER = re.compile("CUDA error|CUDA_ERROR|CUDA driver error|Triton Error|CUBLAS_STATUS|CUDNN_STATUS|cuDNN error")

# CUDA reads the variable when the process first uses a GPU. If set, it makes every launch wait for its kernel, so the
# error comes from the launch that caused it: then no other is worth naming.
_launches = deque(maxlen=1 if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0" else 8)
_message = ""  # the message about the first such error


def launched(name, args, launch=None, parameters=()) -> None:
    """Remember a launch on a GPU: the kernel's name, the arguments, (blocks, threads, shared_bytes) and
    `utils.cuda.common.arguments.Parameter`s; without the last two, a call of an extension's function.

    Every launch pays for this, so the text is made only when needed. Of a tensor only the shape is kept, not the
    memory.
    """
    _launches.append((name, [getattr(arg, "shape", arg) for arg in args], launch, parameters))


def remembered(function):
    """An extension's function, wrapped so that each call is remembered as a launch."""

    @functools.wraps(function)
    def call(*args, **named):
        __tracebackhide__ = True
        launched(function.__name__, (*args, *named.values()))
        try:
            return function(*args, **named)
        except RuntimeError as error:
            explain(error)
            raise

    return call


def settle() -> None:
    """Wait for the GPU if anything was launched on it. Afterwards all launches are known to have succeeded, and what
    the kernels printed has arrived. Raises RuntimeError if one failed and no error has reported it yet.
    """
    if _launches and not _message:
        import torch

        torch.cuda.synchronize()
        _launches.clear()


def message(text) -> str:
    """The message for an error with this `text`, empty if the GPU can still be used."""
    global _message
    found = _LOST.search(text)
    if found and not _message:
        _message = _written(found[1])
    return _message if found or _AFTER.search(text) else ""


def explain(error) -> None:
    """If the GPU is lost, give an error, and those that caused it, the message as their text."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, Exception) and (explanation := message(str(error))):
            error.args = (explanation,)
        error = error.__cause__ or error.__context__


def show_explained(shell=None) -> None:
    """From now on, explain errors that reach IPython's `shell` or, without one, the end of the program."""
    if shell is None:
        before = sys.excepthook

        def excepthook(kind, error, trace):
            explain(error)
            before(kind, error, trace)

        sys.excepthook = excepthook
    else:
        # Not set_custom_exc: it does not see what is raised while the value of a cell's last line is displayed.
        show = shell.showtraceback

        def showtraceback(exc_tuple=None, *args, **options):
            explain((exc_tuple or sys.exc_info())[1])
            show(exc_tuple, *args, **options)

        shell.showtraceback = showtraceback


def _written(what):
    calls = list(dict.fromkeys(_call(*launch) for launch in _launches))
    traces = [f"{name}.trace{_sizes(launch)}(...)" for name, _, launch, _ in _launches if launch]
    how = traces[-1:] + ["the function of load_cuda(..., trace=True)"] * (len(traces) < len(_launches))
    if not calls:
        which = "Nothing from compile_kernel or load_cuda was running: a kernel of another library did it."
    elif len(calls) == 1:
        which = f"The last launch of compile_kernel or load_cuda was\n    {calls[0]}"
    else:
        which = "The last launches of compile_kernel and load_cuda, the latest at the end, were\n    "
        which += "\n    ".join(calls)
    if how:
        then = f"make the same call with {' or '.join(how)}: it runs on the CPU and names the thread and the line."
    else:
        then = "set the environment variable CUDA_LAUNCH_BLOCKING=1 before Python starts: the error names the call."
    return (
        f"CUDA error: {what}. This process can no longer use the GPU, and what was in its memory is lost: not even a "
        f"trace can copy it.\n{which}\n"
        f"Restart (in Jupyter: Kernel > Restart Kernel; otherwise start the program again). Then {then}"
    )


def _call(name, args, launch, parameters):
    """'square[4, 256](float[1000], 1000)', or an extension's 'grayscale(tensor[3, 150, 225])'."""
    kinds = [parameter.pointee or "map" for parameter in parameters] or ["tensor"] * len(args)
    pairs = zip(args, kinds, strict=True)
    shown = [f"{kind}{list(arg)}" if isinstance(arg, tuple) else f"{arg!r:.40}" for arg, kind in pairs]
    return f"{name}{_sizes(launch)}({', '.join(shown)})"


def _sizes(launch):
    """What is in the brackets of a launch, as it would be written: [4, 256], or [(2, 3), (16, 16), 1024]."""
    if not launch:
        return ""
    *grid, shared_bytes = launch
    shown = [f"({x}, {y}, {z})" if z > 1 else f"({x}, {y})" if y > 1 else str(x) for x, y, z in grid]
    return f"[{', '.join(shown + [str(shared_bytes)] * bool(shared_bytes))}]"
