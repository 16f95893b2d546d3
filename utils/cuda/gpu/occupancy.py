"""How many blocks of a kernel a multiprocessor holds at once, and why not more."""

import math
from typing import NamedTuple

from utils.cuda.common import gpus
from utils.cuda.common.gpus import Limits

__all__ = ["Occupancy", "occupancy"]


class Occupancy(NamedTuple):
    """`blocks` that a multiprocessor holds at once, and `share`, the part of its warps that they fill (0 to 1).

    `limited_by` names what a further block would lack: 'threads', 'registers', 'shared memory' or 'blocks', or several
    of them. With 0 blocks, the kernel cannot be launched.
    """

    blocks: int
    share: float
    limited_by: str


def occupancy(limits: Limits, threads, registers, shared_bytes) -> Occupancy:
    """The occupancy of blocks with `threads` threads, each with so many `registers`, and with `shared_bytes` bytes of
    shared memory, static and dynamic together.

    Source: cuda_occupancy.h of the CUDA toolkit, NVIDIA's occupancy calculator. The largest carveout is assumed, which
    the driver chooses by itself where a kernel needs it.
    """
    warps = -(-threads // gpus.WARP)
    fitting = {
        "threads": limits.warps // warps if threads <= gpus.BLOCK_THREADS else 0,
        "registers": _by_registers(limits, warps, registers),
        "shared memory": _by_shared_memory(limits, shared_bytes),
        "blocks": limits.blocks,
    }
    blocks = min(fitting.values())
    return Occupancy(
        blocks, blocks * warps / limits.warps, ", ".join(what for what, number in fitting.items() if number == blocks)
    )


def _by_registers(limits, warps, registers):
    """A warp's registers are allocated as a whole, and all warps that share a quarter of the multiprocessor share a
    quarter of its registers."""
    per_warp = _rounded_up(registers * gpus.WARP, gpus.REGISTER_UNIT)
    if per_warp == 0:
        return math.inf
    if per_warp * _rounded_up(warps, gpus.WARP_UNIT) > limits.registers or registers > gpus.REGISTERS_PER_THREAD:
        return 0
    return limits.registers // gpus.WARP_UNIT // per_warp * gpus.WARP_UNIT // warps


def _by_shared_memory(limits, shared_bytes):
    if shared_bytes > limits.block_shared_bytes:
        return 0
    each = _rounded_up(shared_bytes + limits.reserved_bytes, limits.shared_unit)
    return limits.shared_bytes // each if each else math.inf


def _rounded_up(number, unit):
    return -(-number // unit) * unit
