"""The GPUs that the course knows, and the limits of each compute capability: the table is gpus.h.

The CPU engine behaves like one of these GPUs: environment variable CUDA_COURSE_GPU, and `gpu=` of a trace.
"""

import ast
import contextlib
import functools
import os
import re
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from utils.ground.errors import CourseError

__all__ = ["TABLE", "Gpu", "Limits", "choosing", "chosen", "named"]

TABLE = Path(__file__).with_name("gpus.h")

# The same for every compute capability of the table (CUDA C++ Programming Guide, "Compute Capabilities";
# cuda_occupancy.h of the CUDA toolkit).
WARP = 32  # threads
BLOCK_THREADS = 1024
BLOCK_SHARED_BYTES = 48 * 1024  # unless a kernel opts in to more
REGISTERS_PER_THREAD = 255
REGISTER_UNIT = 256  # a warp's registers are allocated in multiples of it
WARP_UNIT = 4  # a multiprocessor has four parts, each with a quarter of the registers
# Cards of each compute capability (NVIDIA's page "CUDA GPU Compute Capability").
_CARDS = {
    75: "T4, GeForce RTX 20 and GTX 16",
    80: "A100, A30",
    86: "GeForce RTX 30, A10, A40",
    89: "GeForce RTX 40, L4, L40",
    90: "H100, H200",
    100: "B200",
    120: "GeForce RTX 50",
}


class Limits(NamedTuple):
    """What a multiprocessor of one compute capability holds, and what a block may take of it."""

    capability: int  # 75 for 7.5
    threads: int  # per multiprocessor, as are the next three
    blocks: int
    registers: int  # of 32 bits
    shared_kb: int
    block_shared_kb: int  # per block, after opting in
    reserved_bytes: int  # of shared memory, which the system takes for each block
    shared_unit: int  # bytes: a block's shared memory is rounded up to a multiple of it

    @property
    def warps(self) -> int:
        """Warps that a multiprocessor holds."""
        return self.threads // WARP

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per multiprocessor."""
        return self.shared_kb * 1024

    @property
    def block_shared_bytes(self) -> int:
        """Bytes of shared memory that a block may have after opting in (cudaFuncSetAttribute)."""
        return self.block_shared_kb * 1024


class Gpu(NamedTuple):
    """A GPU, or any GPU of one compute capability: then `multiprocessors` and what follows it are 0."""

    name: str  # 'T4', 'sm_86'; '' for what the CPU engine behaves like unless a GPU is chosen
    full_name: str  # as CUDA reports it
    capability: int  # 75 for 7.5
    multiprocessors: int = 0
    clock_khz: int = 0
    memory_clock_khz: int = 0
    memory_bus_bits: int = 0
    l2_bytes: int = 0

    @property
    def arch(self) -> str:
        """The name of its architecture for nvcc, as 'sm_75'."""
        return f"sm_{self.capability}"

    @property
    def limits(self) -> Limits:
        """The limits of its compute capability."""
        return _table()[0][self.capability]


def named(name) -> Gpu:
    """The GPU with a name such as 'T4', or any of an architecture such as 'sm_75'; upper and lower case are the same.

    Raises CourseError, with the names, for one that the table does not have.
    """
    __tracebackhide__ = True
    limits, gpus = _table()
    for gpu in (*gpus[1:], *(Gpu(f"sm_{number}", f"sm_{number}", number) for number in limits)):
        if str(name).lower() == gpu.name.lower():
            return gpu
    names = ", ".join(gpu.name for gpu in gpus[1:])
    architectures = ", ".join(f"sm_{number} ({_CARDS[number]})" for number in limits)
    raise CourseError(
        f"there is no GPU {name!r} in the course's table, which has {names}",
        f"name the card's architecture: {architectures}",
    )


_choice = ContextVar("gpu", default=None)  # a trace's `gpu`


@contextlib.contextmanager
def choosing(name=None):
    """In the `with` block, `chosen()` is the GPU called `name`, unless that is None. Raises CourseError."""
    __tracebackhide__ = True
    if name is not None:
        chosen(name)
    before = _choice.set(_choice.get() if name is None else name)
    try:
        yield
    finally:
        _choice.reset(before)


def chosen(name=None) -> Gpu:
    """The GPU that the CPU engine behaves like: the one called `name`, otherwise $CUDA_COURSE_GPU, otherwise the
    table's first. Raises CourseError, with the names, for one that the table does not have."""
    __tracebackhide__ = True
    default, *gpus = _table()[1]
    name = _choice.get() if name is None else name
    wanted = os.environ.get("CUDA_COURSE_GPU", "") if name is None else name
    if name is None and not wanted:
        return default
    for gpu in gpus:
        if str(wanted).lower() == gpu.name.lower():
            return gpu
    asked = f"CUDA_COURSE_GPU is {wanted!r}" if name is None else f"gpu is {wanted!r}"
    names = ", ".join(gpu.name for gpu in gpus)
    raise CourseError(f"{asked}, which is not one of the GPUs that the CPU engine can behave like: {names}")


@functools.cache
def _table() -> tuple[dict[int, Limits], list[Gpu]]:
    """The limits by compute capability, and the GPUs."""
    rows = re.findall(r"^(CAPABILITY|GPU)(\(.*\))$", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    limits = [Limits(*ast.literal_eval(row)) for kind, row in rows if kind == "CAPABILITY"]
    gpus = [Gpu(*ast.literal_eval(row)) for kind, row in rows if kind == "GPU"]
    return {each.capability: each for each in limits}, gpus
