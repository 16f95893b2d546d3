"""A compiled kernel as Python sees it on the CPU: three functions of a library (include/cuda_on_cpu/kernel.h).

utils/cuda/gpu/nvrtc.py offers the same for a GPU.
"""

import ctypes
import functools
import re
import shutil

from utils.cuda.common import cache
from utils.cuda.common.arguments import tensor_of
from utils.cuda.common.options import problem_of_options
from utils.cuda.common.preprocessor import included
from utils.cuda.common.toolchain import cache_folder
from utils.cuda.cpu import guard
from utils.cuda.cpu.build import build_kernels, expected_seconds, kernel_fingerprint, needs
from utils.cuda.cpu.guarded_copies import guarded_copies
from utils.cuda.cpu.placed import header_texts
from utils.cuda.cpu.profile import behave_like_chosen
from utils.ground.errors import ToolchainError

__all__ = ["Module", "module", "modules"]


def module(source, name, options=(), traced=False, verbose=False, judge=None, recorded=False, together=()) -> "Module":
    """The kernel `name` of CUDA C++ text, built now or earlier, with those of `together`, of which it is one. Raises
    CompileError, ToolchainError."""
    __tracebackhide__ = True
    names = list(together) or [name]
    return modules(source, names, options, traced, verbose, judge, recorded)[names.index(name)]


def modules(source, names, options=(), traced=False, verbose=False, judge=None, recorded=False) -> "list[Module]":
    """The kernels `names` of one text, built together: compiled once, and sharing what is global in the text.
    `traced` and `recorded` are those of build_kernels.

    `judge` (verdict.py) has NVIDIA's compiler judge the text beside the build, and what it rejects is not built.
    """
    __tracebackhide__ = True
    if problem := problem_of_options(options):
        from utils.cuda.common.diagnostics import CompileError  # here: only an error needs it

        raise CompileError(problem)
    headers, judged_by = included(source, options=options), judge and judge.fingerprint

    def folder_of(traced, recorded=False):
        key = cache.hashed(source, names, options, headers, [traced, recorded], kernel_fingerprint(traced), judged_by)
        return cache_folder() / "cpu" / f"{cache.file_name(names[0])}_{key}"

    folder = folder_of(traced, recorded)
    if (traced and (folder_of(False) / "complete").exists()) or recorded:
        judge = None  # it has already accepted the text
    library = str(folder / ("recorded.so" if recorded else "traced.so" if traced else "kernel.so"))
    sources, what = {"cuda_src": source, "name": "\n".join(names)}, f"compiling {', '.join(names)} for the CPU"

    def build(place):
        __tracebackhide__ = True
        sources.update(header_texts(source, options=options) | sources)
        with open(place / "commands.txt", "w") as commands, guard.building():

            def say(command):
                from utils.cuda.common.diagnostics import shorten

                print(shorten(command), file=commands)

            if (known := folder_of(False) / "resources.txt").exists() and not judge:
                shutil.copy(known, place)
            compiled = functools.partial(build_kernels, source, names, place, traced, options, say, recorded)
            return judge.beside(compiled, place, say) if judge else compiled()

    cache.build_once(folder, build, what, sources, expected_seconds(), verbose, needs())
    if library not in _loaded:
        with guard.apart(library, has_variables=bool(_HAS_VARIABLES.search(source))):
            _loaded[library] = [Module(library, number) for number in range(len(names))]
    behave_like_chosen(_loaded[library][0].library)
    return _loaded[library]


def _loaded_library(path) -> ctypes.CDLL:
    __tracebackhide__ = True
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        fix = "if that folder may not hold programs (noexec), name another one with CUDA_COURSE_CACHE"
        raise ToolchainError(f"the compiled kernel cannot be loaded: {error}", fix) from None


# A `__device__` or `__constant__` variable, or what looks like one: only these are in the library itself.
_HAS_VARIABLES = re.compile(r"__(?:device|constant|managed)__[^(){}]*[;=\[]")
_loaded = {}  # lists of modules by the path of their library
_MAP_BYTES = _MAP_ALIGNMENT = 128  # of a CUtensorMap


class Module:
    """The kernel `number` of a loaded library.

    `.signature` is the type of a pointer to the kernel, as 'void (*)(float const*, int)'. `.sizes` has for each
    parameter its size and, if it is a pointer, the alignment and size of what it points to (otherwise 0), in bytes.
    """

    def __init__(self, path, number):
        self.path = path
        self.library = _loaded_library(path)
        guard.guard_tensors(self.library)
        names = [f"cuda_on_cpu_{what}_{number}" for what in ("signature", "parameters", "launch")]
        signature, parameters, self._launch = (getattr(self.library, name) for name in names)
        for function in (signature, parameters, self._launch):
            function.restype = ctypes.c_char_p
        self.signature = signature().decode()
        sizes = parameters().decode().split(";")
        self.sizes = [tuple(map(int, entry.split(":"))) for entry in sizes if entry]
        self._dims = ctypes.c_uint * 3
        self._differences = ctypes.c_int.in_dll(self.library, "cuda_on_cpu_differences")
        self._launch.argtypes = [
            self._dims,
            self._dims,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_void_p),
        ]

    def encoded(self, tensor_map, address) -> bytes:
        """CUDA's own map, 128 bytes, for a tensor at `address`."""
        __tracebackhide__ = True
        place = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGNMENT)
        at = -ctypes.addressof(place) % _MAP_ALIGNMENT
        rank = len(tensor_map.sizes)
        sizes, strides = (ctypes.c_uint64 * rank)(*tensor_map.sizes), (ctypes.c_uint64 * rank)(*tensor_map.strides)
        box, steps = (ctypes.c_uint32 * rank)(*tensor_map.box), (ctypes.c_uint32 * rank)(*[1] * rank)
        to, tensor = ctypes.c_void_p(ctypes.addressof(place) + at), ctypes.c_void_p(address)
        encode = self.library.cuTensorMapEncodeTiled
        error = encode(
            to, tensor_map.type, rank, tensor, sizes, strides, box, steps, 0, tensor_map.swizzle_number, 0, 0
        )
        if error:
            raise RuntimeError(f"CUDA error: invalid argument: {tensor_map!r}")
        return place.raw[at : at + _MAP_BYTES]

    def reachable(self, args):
        """A context for a launch with these arguments, which have been checked. It gives, by number, the addresses of
        copies of the tensors that have no guard (guarded_copies.py)."""
        return guarded_copies({i: tensor for i, arg in enumerate(args) if (tensor := tensor_of(arg)) is not None})

    def launch(self, blocks, threads, shared_bytes, cooperative, args, device=None):
        """Run the grid and wait for it. `args` is a ctypes array of pointers to the arguments' values.

        Raises RuntimeError for a launch that CUDA would refuse, and for a kernel that faults.
        """
        __tracebackhide__ = True
        error = self._launch(self._dims(*blocks), self._dims(*threads), shared_bytes, cooperative, args)
        if error is not None:
            raise RuntimeError(error.decode(errors="replace"))
        if self._differences.value:
            self._show_differences()

    def _show_differences(self):
        __tracebackhide__ = True
        from utils.cuda.cpu import differences

        take = self.library.cuda_on_cpu_take_difference
        take.restype = ctypes.c_char_p
        while (noted := take()) is not None:
            differences.show(noted)
