"""Guards around torch's tensors when kernels run on the CPU: a step outside a tensor becomes an exception.

guard/guard.cpp explains how. It needs torch's headers, and no kernel needs it, so it is built separately from the
runtime. If it cannot be built or loaded, everything works without it.
"""

import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from utils.cuda.common.cache import hashed, sole_builder
from utils.cuda.common.sealed import is_whole, make_folder, put
from utils.cuda.common.toolchain import cache_folder, on_gpu
from utils.cuda.cpu import library
from utils.ground.errors import ToolchainError
from utils.ground.system import cxx_compiler

__all__ = ["apart", "building", "can_guard", "guard_tensors", "needed"]

_SOURCES = [Path(__file__).parent / "guard" / name for name in ("guard.cpp", "guard.h", "guarded.h", "space.h")]
_loaded = None  # the library, once it serves torch
_failed = False  # whether building or loading it has failed


def guard_tensors(runtime=None) -> bool:
    """Guard the tensors made from now on; returns whether they are guarded. Calling it again costs nothing.

    Works only if the lessons run on the CPU and `building` has built the guard, now or earlier. `runtime` is a library
    linked to the engine's runtime (ctypes.CDLL): its launches name the tensor that a thread has left, and report writes
    just outside one. An error here is no reason to stop: then nothing is guarded.
    """
    global _loaded, _failed
    try:
        if _loaded is None:
            if not _wanted() or not is_whole(_path()):
                return False
            loaded = ctypes.CDLL(str(_path()))
            loaded.cuda_on_cpu_guard.restype = ctypes.c_void_p
            loaded.cuda_on_cpu_guard_install.restype = ctypes.c_bool
            loaded.cuda_on_cpu_guard_holds.restype = ctypes.c_bool
            loaded.cuda_on_cpu_guard_holds.argtypes = [ctypes.c_void_p]
            _loaded = loaded
        if runtime is not None:
            runtime.cuda_on_cpu_set_guard(ctypes.c_void_p(_loaded.cuda_on_cpu_guard()))
        return _loaded.cuda_on_cpu_guard_install()
    except (OSError, ToolchainError):
        _failed = True
        return False


def can_guard(address) -> bool:
    """Whether tensors are guarded now, but not the one with this address: it was made earlier, or elsewhere."""
    return _loaded is not None and not _loaded.cuda_on_cpu_guard_holds(address)


# How often how much is reserved on each side of a library with variables: first more than a 32-bit index reaches with
# elements of 16 bytes, then what it reaches with single bytes. Together 70 TB, of the 128 TB that a process has.
_RESERVED = ((500, 40 << 30), (3000, 5 << 30))
_HUGE_PAGE = 2 << 20
_sizes = itertools.chain.from_iterable(itertools.repeat(size, times) for times, size in _RESERVED)

# An overrun of a local array may change one half of a return address. Where that leads to begins at a multiple of 4 GB,
# and holds nothing but kernels: far from its ends, where small integers lead to, and from where common floats do.
_HALF = 1 << 32
_FOR_CODE = range(0x10000000, 0x30000000)
_code = range(0)  # of the current such place, the addresses where no library is yet


@contextlib.contextmanager
def apart(path, has_variables=True):
    """Load the library `path` in the `with` block: it will lie amid reserved space, as guard/space.h does for memory.
    Then an index far outside a `__device__` variable hits what is reserved, as does a jump to a damaged address.

    Reserved space takes no memory, but counts for `ulimit -v`: under such a limit nothing is reserved.
    """
    with contextlib.ExitStack() as loading:
        if _can_reserve():
            _load_engine(library.path())
            loading.enter_context(_amid_reserved(path, _gap_for_variables if has_variables else _gap_for_code))
        yield


def _can_reserve():
    if sys.platform != "linux" or on_gpu():
        return False
    import resource  # not on every system

    return resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


@functools.cache
def _load_engine(path):
    """The engine's library, which would otherwise get a part of the room that is for another."""
    with contextlib.suppress(OSError), _amid_reserved(path, _gap_for_code):
        ctypes.CDLL(str(path))


@contextlib.contextmanager
def _amid_reserved(path, gap_for):
    """Leave the library no other place than a gap amid reserved space. Linux may align a file to huge pages, so the gap
    has one page more than the library."""
    try:
        bytes_in_memory = _bytes_in_memory(path)
    except (OSError, struct.error, ValueError):
        bytes_in_memory = 0  # a missing or broken file: loading `path` says so
    room = bytes_in_memory + _HUGE_PAGE
    gap = bytes_in_memory and gap_for(room)
    if gap:
        _give_back(gap, room)
        # Linux takes the highest gap that is large enough. So every gap above this one is filled, and stays so.
        for piece in (1 << 30, 1 << 24, min(room, 1 << 20)):
            while (place := _reserve(piece)) >= gap + room:
                pass
            if place:
                _give_back(place, piece)
    yield
    if gap:
        for place in (gap, gap + bytes_in_memory):  # where the gap may begin now
            _reserve(_HUGE_PAGE, place)


def _gap_for_variables(room) -> int:
    size = next(_sizes, 0)
    begin = size and _reserve(2 * size + room)
    return begin and _next_multiple(begin + size, _HUGE_PAGE)


def _gap_for_code(room) -> int:
    global _code
    wanted = _next_multiple(room, _HUGE_PAGE)
    if wanted > len(_code):
        if wanted > len(_FOR_CODE) or not (begin := _reserve(2 * _HALF)):
            return 0
        begin = _next_multiple(begin, _HALF)
        _code = range(begin + _FOR_CODE.start, begin + _FOR_CODE.stop)
    gap, _code = _code.start, _code[wanted:]
    return gap


def _next_multiple(number, unit):
    return number + -number % unit


def _bytes_in_memory(path):
    """How much address space a library takes, in bytes: up to the end of the last segment that is loaded (ELF-64).

    pyelftools could tell, but importing it takes longer, 32 ms, than a kernel does that is already built.
    """
    with open(path, "rb") as file:
        header = file.read(64)
        (first,), (size, count) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
        file.seek(first)
        segments = [struct.unpack("<IIQQQQQQ", file.read(size)) for _ in range(count)]
    to_load = 1
    end = max(place + extent for kind, _, _, place, _, _, extent, _ in segments if kind == to_load)
    return _next_multiple(end, mmap.PAGESIZE)


def _reserve(size, place=None) -> int:
    """Address space that no thread may touch, at `place` if it is free there; 0 where there is no room."""
    no_access, private_anonymous_noreserve, fixed_noreplace, failed = 0, 0x4022, 0x100000, 2**64 - 1
    flags = private_anonymous_noreserve | (fixed_noreplace if place else 0)
    begin = _libc().mmap(place, size, no_access, flags, -1, 0)
    return begin if begin != failed else 0


def _give_back(begin, size):
    _libc().munmap(begin, size)


@functools.cache
def _libc():
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


@contextlib.contextmanager
def building():
    """Build the guard if it is not built yet, in parallel with what the `with` block builds. If several processes want
    it, one builds it and the others wait."""
    build = None
    with contextlib.ExitStack() as at_end:
        with contextlib.suppress(OSError, ToolchainError):
            if _wanted() and not is_whole(_path()):
                make_folder(_path().parent)
                at_end.enter_context(sole_builder(_path()))
                build = None if is_whole(_path()) else _begin()
        try:
            yield
        finally:
            if build is not None:
                _end(*build)


def needed() -> list[Path]:
    """The guard's library if it has been built and this process has still to load it."""
    try:
        return [_path()] if _loaded is None and _wanted() and os.path.lexists(_path()) else []
    except (OSError, ToolchainError):
        return []


def _wanted() -> bool:
    return not _failed and not on_gpu()


def _path() -> Path:
    return cache_folder() / "runtime" / f"libcuda_on_cpu_guard-{_fingerprint()}.so"


@functools.cache
def _fingerprint() -> str:
    """What the guard depends on: its source, the compiler, torch and the ABI of torch's C++ libraries."""
    import torch

    compiler = os.path.realpath(cxx_compiler())
    found = os.stat(compiler)
    sources = [path.read_text() for path in _SOURCES]
    built_for = (torch.__version__, torch.compiled_with_cxx11_abi())
    return hashed(sources, compiler, found.st_size, found.st_mtime_ns, built_for)


def _begin():
    """Start the compiler; returns its process and the folder it writes to, which is beside the library's place."""
    import torch

    home = Path(torch.__file__).parent
    folder = tempfile.TemporaryDirectory(dir=_path().parent)
    command = [cxx_compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", str(_SOURCES[0])]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-isystem", str(home / "include")]
    command += [f"-L{home / 'lib'}", "-lc10", "-o", f"{folder.name}/guard.so"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, **quiet), folder


def _end(compiler, folder):
    """Wait for the compiler and move the complete library into place, so that no process ever loads half of it."""
    global _failed
    with folder:
        try:
            if compiler.wait() == 0:
                put(Path(folder.name, "guard.so"), _path())
            else:
                _failed = True  # do not try again for every kernel
                _path().unlink(missing_ok=True)
        except OSError:
            _failed = True
        finally:  # the learner may have interrupted
            compiler.kill()
            compiler.wait()
