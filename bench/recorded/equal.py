"""Whether what the engine accepts runs on a GPU with equal results:  python -m bench.recorded.equal

Runs every launch of tests/nsight, and two of each snippet of tests/verdicts that nvcc accepts, on this machine's GPU
and on the engine, and writes equal.json: which results are equal bit for bit, and by how much the others differ. A
launch whose trace shows a problem is not compared. Needs a GPU, g++, no network, and some minutes.

`--check` needs no GPU: it runs the launches on the engine and compares the sums of their results with the recorded
ones.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from bench.recorded import verdicts
from tests.launches import Launch, floats, integers
from tests.nsight.cases import LAUNCHES
from tests.verdicts import SNIPPETS
from utils.cuda.common.tensor_map import TensorMap
from utils.cuda.kernel import compile_kernels
from utils.ground.errors import CourseError
from utils.ground.system import write

__all__ = ["CASES", "close", "on_this_machine", "read", "sums"]

RECORDED = Path(__file__).with_suffix(".json")
_N = 4096  # elements of each tensor that a snippet gets: more than any of them reaches
_TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "__half": torch.float16,
    "int": torch.int32,
    "unsigned int": torch.int32,
    "long": torch.int64,
    "long long": torch.int64,
    "short": torch.int16,
    "signed char": torch.int8,
    "unsigned char": torch.uint8,
}


class Case(NamedTuple):
    """A launch to compare. `args` is None for a snippet: its kernel's parameters say what it gets."""

    key: str  # 'nsight/copy_columns', 'verdicts/overloads/max_float_int/32', the latter with the number of threads
    source: str
    kernel: str
    launch: tuple  # blocks, threads, bytes of dynamic shared memory
    args: object
    names: tuple[str, ...]  # of the kernels that are built together, this one among them

    @property
    def hash(self) -> str:
        """8 hexadecimal digits that change when the launch does."""
        return hashlib.sha256(repr((self.source, self.kernel, self.launch)).encode()).hexdigest()[:8]


def _cases():
    accepted = verdicts.read()
    for launch in LAUNCHES:
        names = launch.together or (launch.kernel,)
        yield Case(f"nsight/{launch.name}", launch.source, launch.kernel, _launch(launch), launch.args, names)
    for snippet in SNIPPETS:
        if accepted[snippet.key]["accepted"]:
            for threads in (1, 32):  # in many, all threads write to the same place
                yield Case(f"verdicts/{snippet.key}/{threads}", snippet.text, "k", (1, threads, 256), None, ("k",))


def _launch(launch: Launch):
    return launch.grid, launch.block, launch.shared_bytes


CASES = list(_cases())


def read() -> dict[str, dict]:
    """What was recorded, by key: 'text', the hash of the launch, and either 'skipped', why it was not compared, or
    'equal', bit for bit, 'difference', the largest relative to the largest value of its tensor, and 'sums'."""
    return json.loads(RECORDED.read_text())["launches"]


# ---- one launch -----------------------------------------------------------------------------------------------------


def _arguments(case, kernel):
    if case.args:
        return case.args()
    made = []
    for i, parameter in enumerate(kernel.parameters):
        of = parameter.pointee
        if of is None and parameter.type in _TYPES:
            made.append(64)
        elif of is None:
            raise TypeError(f"a parameter of type {parameter.type}")
        elif (dtype := _TYPES.get(of, torch.float32)).is_floating_point:
            made.append(floats(_N, seed=i, dtype=dtype).abs() + 0.5)
        else:
            made.append(integers(_N, below=32, seed=i, dtype=dtype))
    return made


def _moved(args):
    """The arguments on the GPU; tensors that share memory still do, and begin at the same place in it."""
    storages = {}

    def moved(tensor):
        own = tensor.untyped_storage()
        there = storages.setdefault(own.data_ptr(), own.cuda())
        return torch.empty(0, dtype=tensor.dtype, device="cuda").set_(
            there, tensor.storage_offset(), tensor.shape, tensor.stride()
        )

    def of(arg):
        if isinstance(arg, TensorMap):
            return TensorMap(moved(arg.tensor), arg.sizes, arg.strides, arg.box, arg.swizzle)
        return moved(arg) if torch.is_tensor(arg) else arg

    return [of(arg) for arg in args]


def results(case, kernel) -> list[torch.Tensor]:
    """The tensors of a launch after it, on the kernel's device."""
    args = _arguments(case, kernel)
    if kernel.device == "cuda":
        args = _moved(args)
    kernel[case.launch](*args)
    if kernel.device == "cuda":
        torch.cuda.synchronize()
    return [tensor.cpu() for arg in args if torch.is_tensor(tensor := getattr(arg, "tensor", arg))]


def _problem(case, kernel):
    """What the engine's trace reports; None if nothing."""
    trace = kernel.trace[case.launch](*_arguments(case, kernel))
    return None if trace.ok else trace.problems[0].kind


def sums(tensors) -> list[list[float]]:
    """For each tensor a weighted sum of its elements, and that of their magnitudes."""
    made = []
    for tensor in tensors:
        x = tensor.flatten().to(torch.float64).nan_to_num(nan=-3.0, posinf=1e6, neginf=-1e6)
        weights = torch.arange(x.numel()) % 7 + 1.0
        made.append([float((x * weights).sum()), float((x * weights).abs().sum())])
    return made


def close(found, recorded) -> bool:
    """Whether sums are the same but for rounding."""
    return len(found) == len(recorded) and all(
        abs(a - b) <= 1e-4 * max(size, 1e-30) for (a, _), (b, size) in zip(found, recorded, strict=True)
    )


# ---- all of them ----------------------------------------------------------------------------------------------------


def on_this_machine(cases, run=results) -> dict[str, object]:
    """`run(case, kernel)` of each, by key; an error is its text. What is built together is built once, on all cores."""
    groups = {}
    for case in cases:
        groups.setdefault((case.source, case.names), []).append(case)
    found = {}

    def said(error):
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"

    def all_of(group):
        try:
            kernels = dict(zip(group[1], compile_kernels(*group), strict=True))
        except CourseError as error:
            found.update({case.key: said(error) for case in groups[group]})
            return
        for case in groups[group]:
            try:
                found[case.key] = run(case, kernels[case.kernel])
            except (RuntimeError, TypeError, ValueError) as error:
                found[case.key] = said(error)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, _ in enumerate(pool.map(all_of, groups), 1):
            print(f"\r{number} of {len(groups)} sources", end="", file=sys.stderr)
    print(file=sys.stderr)
    return found


def _difference(gpu, engine):
    """The largest, relative to the largest value; 0.0 if all bits are the same."""
    if all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(gpu, engine, strict=True)):
        return 0.0
    largest = 0.0
    for a, b in zip(gpu, engine, strict=True):
        a, b = a.to(torch.float64), b.to(torch.float64)
        if not torch.equal(a.isnan(), b.isnan()):
            return float("inf")
        a, b = a.nan_to_num(), b.nan_to_num()
        if a.numel():
            largest = max(largest, float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)))
    return largest


def _record():
    engine = _apart("", [case.key for case in CASES])
    todo, gpu = [case.key for case in CASES if not isinstance(engine[case.key], str)], {}
    while todo:  # an error on the GPU ends all that its process can do there
        gpu |= _apart(os.environ.get("CUDA_VISIBLE_DEVICES", "0"), todo)
        todo = [key for key in todo if gpu[key] == _NOT_RUN]
    made = {}
    for case in CASES:
        there, here = gpu.get(case.key), engine[case.key]
        entry = made[case.key] = {"text": case.hash}
        if isinstance(here, str):
            entry["skipped"] = here
        elif isinstance(there, str):
            entry["skipped"] = f"on the GPU: {there}"
        else:
            difference = _difference(there, here)
            entry.update(equal=difference == 0, difference=difference, sums=sums(there))
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "launches": made}
    write(RECORDED, json.dumps(found, indent=1) + "\n")
    print(summary(found))


_NOT_RUN = "not run"


def _apart(devices, keys):
    """What `on_this_machine` finds in a process of its own that sees these GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        todo, done = Path(folder) / "keys.json", Path(folder) / "results.pt"
        todo.write_text(json.dumps(keys))
        command = [sys.executable, "-m", "bench.recorded.equal", "--run", str(todo), str(done)]
        subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": devices}, check=True)
        return torch.load(done)


def _works():
    """Whether this process can still use the GPU."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _run(todo, done):
    """Run the launches whose keys are in a file: on the engine where their traces show no problem, or on a GPU."""
    keys = set(json.loads(Path(todo).read_text()))
    one_at_a_time, failed = threading.Lock(), []

    def on_engine(case, kernel):
        problem = _problem(case, kernel)
        return f"its trace shows: {problem}" if problem else results(case, kernel)

    def on_gpu(case, kernel):
        with one_at_a_time:
            if failed:
                return _NOT_RUN
            try:
                return results(case, kernel)
            finally:
                if not _works():
                    failed.append(case.key)

    run = on_gpu if torch.cuda.is_available() else on_engine
    torch.save(on_this_machine([case for case in CASES if case.key in keys], run), done)


def summary(found) -> str:
    """How many are equal, and the largest differences."""
    entries = found["launches"]
    compared = {key: entry for key, entry in entries.items() if "skipped" not in entry}
    others = sorted((entry["difference"], key) for key, entry in compared.items() if not entry["equal"])
    lines = [f"{found['gpu']}: of {len(compared)} launches {len(compared) - len(others)} are equal bit for bit"]
    lines += [f"  {difference:.1e}  {key}" for difference, key in reversed(others)]
    lines += [f"  not compared: {key}: {entry['skipped']}" for key, entry in entries.items() if "skipped" in entry]
    return "\n".join(lines)


def main() -> int:
    """Record, or check; 1 if a result differs from the recorded one."""
    parser = argparse.ArgumentParser(prog="python -m bench.recorded.equal", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the engine's results with what is recorded")
    parser.add_argument("--run", nargs=2, metavar=("TODO", "DONE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        _run(*options.run)
    elif options.check:
        known = read()
        found = on_this_machine([case for case in CASES if "skipped" not in known[case.key]])
        wrong = [
            key for key, made in found.items() if isinstance(made, str) or not close(sums(made), known[key]["sums"])
        ]
        print("\n".join(wrong) or f"all {len(found)} are as recorded")
        return 1 if wrong else 0
    else:
        _record()
    return 0


if __name__ == "__main__":
    sys.exit(main())
