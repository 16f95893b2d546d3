"""The GPU that the engine behaves like in this process: a row of utils/cuda/common/gpus.h, `profile` in the runtime."""

import contextlib

from utils.cuda.common import gpus

__all__ = ["behave_like_chosen", "behaving_like"]

_library = None  # any that is linked to the runtime


def behave_like_chosen(library):
    """From now on, behave like the chosen GPU (`gpus.chosen`). `library` is any that is linked to the runtime.

    The runtime reads $CUDA_COURSE_GPU when it is loaded; the variable may have changed since. Raises CourseError if it
    names no GPU of the table.
    """
    __tracebackhide__ = True
    global _library
    _library = library
    library.cuda_on_cpu_choose_gpu(gpus.chosen().name.encode())


@contextlib.contextmanager
def behaving_like(gpu):
    """In the `with` block, build and run for the GPU called `gpu`, or for the chosen one if it is None.

    Raises CourseError for a name that the table does not have.
    """
    __tracebackhide__ = True
    try:
        with gpus.choosing(gpu):
            if _library is not None:
                behave_like_chosen(_library)
            yield
    finally:
        if _library is not None:
            behave_like_chosen(_library)
