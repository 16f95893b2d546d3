"""The GPU that the engine behaves like in this process: a row of utils/cuda/common/gpus.h, `profile` in the runtime."""

import contextlib

from utils.cuda.common import gpus

__all__ = ["behave_like_chosen", "behaving_like"]


def behave_like_chosen(library):
    """From now on, behave like the GPU that $CUDA_COURSE_GPU names. `library` is any that is linked to the runtime.

    Raises CourseError if it names none. The runtime reads the variable itself when it is loaded; this is for a variable
    that was set, or changed, since.
    """
    __tracebackhide__ = True
    library.cuda_on_cpu_choose_gpu(gpus.chosen().name.encode())


@contextlib.contextmanager
def behaving_like(library, gpu=None):
    """Behave like the GPU `gpu` in the `with` block, by default like the chosen one. Raises CourseError."""
    __tracebackhide__ = True
    library.cuda_on_cpu_choose_gpu(gpus.chosen(gpu).name.encode())
    try:
        yield
    finally:
        library.cuda_on_cpu_choose_gpu(gpus.chosen().name.encode())
