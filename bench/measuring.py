"""How the benchmark times: each result is compared with its reference before and after, each time on new inputs.

`measured` returns what a table is made of, as JSON: size, versions, and a row per operation.
"""

from contextlib import closing

import torch

from bench.operations import GROUPS, bandwidth
from utils.cuda.common.toolchain import device
from utils.ground.errors import CourseError
from utils.ground.progress import progress
from utils.lesson.figures import nvidia_smi, versions
from utils.lesson.timing import GraphError, Timing, input_sets, measure_by_turns

__all__ = ["Refused", "WrongResult", "measured", "row", "verify"]

ROWS = 2048  # compared at once: the reference takes eight bytes per element


class WrongResult(CourseError):
    """An operation's result differs from its reference: then no time is reported."""


class Refused(CourseError):
    """What prevents measuring or filling, and what to do."""


def verify(operation, inputs) -> None:
    """Compare what an operation returns for these inputs with its reference. Raises WrongResult."""
    kept = copies(inputs)
    compare(operation, lambda: (inputs, kept, operation.run(*inputs)))


def copies(inputs) -> tuple:
    return tuple(x.clone() for x in inputs)


def compare(operation, launch) -> None:
    """Launch an operation on memory that held something else, and compare with its reference. `launch` returns the
    inputs, earlier copies of them, and the result. Raises WrongResult."""
    for out in tensors(launch()[-1]):
        out.fill_(float("nan") if out.is_floating_point() else 173)
    del out  # the allocator gives the same memory to the next result
    inputs, kept, out = launch()
    if not all(map(torch.equal, inputs, kept)):
        raise WrongResult(f"{operation.name} changes its inputs")
    rights = operation.right if isinstance(operation.right, tuple) else (operation.right,)
    outs = tensors(out)
    if len(outs) != len(rights):
        raise WrongResult(f"{operation.name} returns {len(outs)} and not {len(rights)} tensors")
    for number, (out, right) in enumerate(zip(outs, rights, strict=True), 1):
        name = operation.name + (f", output {number} of {len(outs)}," if len(outs) > 1 else "")
        compare_rows(name, torch.atleast_1d(out), lambda rows, right=right: right(rows, *kept))


def tensors(result) -> tuple:
    """What an operation returned, as a tuple of tensors."""
    return result if isinstance(result, tuple) else (result,)


def compare_rows(name, out, right) -> None:
    """Compare a tensor with its reference, some rows at a time. Raises WrongResult."""
    for first in range(0, len(out) + 1, ROWS):
        part = out[first : first + ROWS]
        exact, bound = right(slice(first, first + ROWS))
        if part.shape != exact.shape:
            raise WrongResult(f"{name} returns {list(part.shape)} and not {list(exact.shape)} elements")
        off = (part.double() - exact).abs()
        if not (off <= bound).all():
            where = f"rows {first} to {first + len(part) - 1}"
            raise WrongResult(f"{name} is wrong by up to {off.max():g} in {where}")


def row(operation) -> dict:
    """The figures of an operation: name, bytes, flops, seconds (the median), quartiles, number of samples. Raises
    WrongResult, and Refused if the GPU has no room for it or a CUDA graph cannot launch it."""
    try:
        sets = input_sets(operation.inputs)
        verify(operation, sets[0])
        timing = timed(operation, sets)
        del sets
        verify(operation, operation.inputs())
    except GraphError as error:
        raise Refused(f"{operation.name}: {error.wrong}") from None
    except torch.OutOfMemoryError:
        fix = "end what else runs on it"
        raise Refused(f"{operation.name} needs more memory than the GPU has free", fix) from None
    found = {"name": operation.name, "bytes": operation.bytes}
    found |= {"flops": operation.flops} if operation.flops else {}
    found |= {"seconds": timing.median, "quartiles": list(timing.spread), "samples": len(timing.samples)}
    return found | ({"graph": True} if timing.graph else {})


def timed(operation, sets) -> Timing:
    """Times of one run, with the inputs in turn. What a CUDA graph launched is compared, too. Raises WrongResult."""

    def compare_replayed(replay):
        def launch():
            (inputs, kept), out = replay()
            return inputs, kept, out

        compare(operation, launch)

    pairs = [(inputs, copies(inputs)) for inputs in sets]
    return measure_by_turns(lambda inputs, kept: operation.run(*inputs), pairs, compare_replayed)


def measured(group, size, of="") -> dict:
    """The figures of a group on this machine: its size, the versions, a row per operation and, for products on a GPU,
    the roof. With `of`, an operation in kernels/: only its rows, its peers' and the first."""
    chosen = [each for i, each in enumerate(GROUPS[group].operations(size)) if not of or not i or each.of in (of, "")]
    tf32, precision = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        with closing(each for each in progress(chosen, group)) as operations:  # an error ends the bar
            rows = [row(operation) for operation in operations]
        limits = {"roof": roof()} if GROUPS[group].counts == "flops" and device().type == "cuda" else {}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_float32_matmul_precision(precision)
    return {"size": size, "versions": versions(), "rows": rows, **limits}


# Float32 results per SM and clock, by compute capability: CUDA C++ Programming Guide, "Arithmetic Instructions"; for
# 8.7 and from 10.0 on, _ConvertSMVer2Cores in Common/helper_cuda.h of https://github.com/NVIDIA/cuda-samples
LANES = {(7, 5): 64, (8, 0): 64} | dict.fromkeys([(8, 6), (8, 7), (8, 9), (9, 0)], 128)
LANES |= dict.fromkeys([(10, 0), (10, 3), (11, 0), (12, 0), (12, 1)], 128)


def roof() -> dict:
    """What limits float32 on this GPU: FLOP/s of all lanes, and bytes/s of a copy; or why that is `unknown`."""
    gpu = torch.cuda.get_device_properties(device())
    sms, lanes, (clock, source) = gpu.multi_processor_count, LANES.get((gpu.major, gpu.minor)), max_clock(gpu)
    if not lanes:
        return {"unknown": f"the bench has no number of lanes for compute capability {gpu.major}.{gpu.minor}"}
    if not clock:
        return {"unknown": "neither torch nor nvidia-smi reports the highest clock"}
    copied = row(next(bandwidth(GROUPS["bandwidth"].sizes()[0])))
    words = f"{sms} SMs x {lanes} lanes x 2 x {clock / 1e6:,.0f} MHz, the highest clock by {source}"
    return {"peak": sms * lanes * 2 * clock, "peak_is": words, "copied": copied["bytes"] / copied["seconds"]}


def max_clock(gpu) -> tuple[float, str]:
    """The highest clock of the SMs in Hz, and what reports it; 0 if nothing does."""
    if getattr(gpu, "clock_rate", 0):
        return gpu.clock_rate * 1e3, "torch"
    clock = nvidia_smi(gpu, "clocks.max.sm")
    return (float(clock) * 1e6, "nvidia-smi") if clock.isdecimal() else (0.0, "")
