"""A compiled kernel as Python finds it on the CPU: a library with three functions in C (include/cuda_on_cpu/kernel.h).

utils/nvrtc.py offers the same for a GPU.
"""

import ctypes

from utils import cache
from utils.cuda_on_cpu.build import build_kernel, kernel_fingerprint
from utils.cuda_on_cpu.translate import TranslationError
from utils.diagnostics import refused, shorten
from utils.toolchain import cache_folder

__all__ = ["Module", "module"]


def module(source, name, options=(), traced=False, verbose=False) -> "Module":
    """The kernel `name` of CUDA C++ text, built now or before. Raises CompileError, ToolchainError."""
    __tracebackhide__ = True
    key = cache.hashed(source, name, options, traced, kernel_fingerprint(traced))
    folder = cache_folder() / "cpu" / f"{cache.file_name(name)}_{key}"
    library = str(folder / ("traced.so" if traced else "kernel.so"))
    sources, what = {"cuda_src": source, "name": name}, f"compiling {name} for the CPU"

    def build():
        __tracebackhide__ = True
        with open(folder / "commands.txt", "w") as commands:

            def say(command):
                print(shorten(command), file=commands)

            try:
                return build_kernel(source, name, folder, traced, options, say)
            except TranslationError as error:
                raise refused("cuda_src", source, error.line, str(error)) from None

    cache.build_once(folder, build, what, sources, 2, verbose)
    if library not in _loaded:
        try:
            _loaded[library] = Module(library)
        except OSError:  # the runtime's library was removed, or the file is damaged
            (folder / "complete").unlink()
            cache.build_once(folder, build, what, sources, 2)
            _loaded[library] = Module(library)
    return _loaded[library]


_loaded = {}  # modules by the path of their library


class Module:
    """The loaded library of one kernel.

    `.signature` is the type of a pointer to the kernel, as 'void (*)(float const*, int)'. `.sizes` has for each
    parameter its size and, where it is a pointer, alignment and size of what it points at (else 0), all in bytes.
    """

    def __init__(self, path):
        self.path = path
        self.library = ctypes.CDLL(path)
        exported = self.library
        for function in (exported.cuda_on_cpu_signature, exported.cuda_on_cpu_parameters, exported.cuda_on_cpu_launch):
            function.restype = ctypes.c_char_p
        self.signature = exported.cuda_on_cpu_signature().decode()
        sizes = exported.cuda_on_cpu_parameters().decode().split(";")
        self.sizes = [tuple(map(int, entry.split(":"))) for entry in sizes if entry]
        self._dims = ctypes.c_uint * 3
        exported.cuda_on_cpu_launch.argtypes = [
            self._dims,
            self._dims,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_void_p),
        ]

    def launch(self, blocks, threads, shared_bytes, cooperative, args, device=None):
        """Run the grid and wait for it. `args` is a ctypes array of pointers to the arguments' values.

        Raises RuntimeError for a launch that CUDA would refuse, and for a kernel that faults.
        """
        __tracebackhide__ = True
        launch = self.library.cuda_on_cpu_launch
        error = launch(self._dims(*blocks), self._dims(*threads), shared_bytes, cooperative, args)
        if error is not None:
            raise RuntimeError(error.decode(errors="replace"))
