"""How long it takes from a source's text to something to call, beside stock load_inline:  python -m bench.build

Prints a table and ends with status 1 where a target is missed. All of it is measured in this one run, and every build
is cold: it is the first of its source. Without a GPU nvcc and NVRTC compile and link the same for sm_90, and the
module is loaded, but not run.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch

import kernels
from bench.report import report
from utils.cuda.common import cxx, toolchain
from utils.cuda.compile import load_with
from utils.cuda.cpu.build import Builder as EngineBuilder
from utils.cuda.gpu.nvcc import Builder, cudart_link
from utils.cuda.kernel import compile_kernel
from utils.ground.progress import progress
from utils.lesson.timing import Timing, format_seconds

HERE = Path(__file__).parent
LECTURES = sorted(path.stem for path in (HERE / "lecture").glob("*.cu"))  # operations that stock load_inline builds
ARCHITECTURE = 90  # compiled for where there is no GPU to ask

# Seconds at most, or times faster at least.
TARGETS = {
    "lecture": 4,
    "kernels, times": 15,
    "kernels": 4.0,
    "engine": 3.0,
    "nvrtc": 0.3,
    "nvrtc, cooperative groups": 1.2,
    "warm": 0.050,
}


class Row(NamedTuple):
    """A line of the table. `times` is how many times faster than stock load_inline; `verdict` 'met', 'missed' or ''."""

    name: str
    measured: str
    times: str = ""
    target: str = ""
    verdict: str = ""


def row(name, timing, at_most=None, stock=None, at_least=None) -> Row:
    """A row with the targets that it has: seconds at most, times faster than `stock` at least."""
    times = stock.seconds / timing.seconds if stock else 0.0
    wanted, met = [], True
    if at_most:
        wanted.append(f"at most {format_seconds(at_most)}")
        met &= timing.seconds <= at_most
    if at_least:
        wanted.append(f"at least {at_least} times")
        met &= times >= at_least
    verdict = ("met" if met else "missed") if wanted else ""
    return Row(name, str(timing), f"{times:.1f} times" if stock else "", ", ".join(wanted), verdict)


class Source(NamedTuple):
    """What load_inline takes."""

    cuda_src: str
    cpp_src: str
    functions: list[str]


def lecture(name) -> Source:
    """An operation as a lesson writes it, in one text."""
    text = (HERE / "lecture" / f"{name}.cu").read_text()
    declared = [function for function in cxx.functions(text) if function.returns == "torch::Tensor"]
    return Source(text, "".join(f"{function.signature};\n" for function in declared), [f.name for f in declared])


def shared(name) -> Source:
    """An operation of kernels/, in two files."""
    return Source(kernels.source(name), kernels.host(name), kernels.functions(name))


def fresh(source, number) -> Source:
    """The same source under another hash."""
    return source._replace(cuda_src=f"{source.cuda_src}// {number}\n")


def architecture() -> int:
    return toolchain.gpu_architecture() if torch.cuda.is_available() else ARCHITECTURE


def cold(builder, source, repeat=3) -> Timing:
    """Builds that nothing of was kept, in this process."""
    samples = []
    for number in range(repeat):
        start = time.perf_counter()
        module = load_with(builder, *fresh(source, number))
        samples.append(time.perf_counter() - start)
        assert all(hasattr(module, name) for name in source.functions)
    return Timing(tuple(samples))


def stock(source) -> Timing:
    """One build by torch's load_inline, as its manual writes it, for one architecture."""
    from torch.utils.cpp_extension import load_inline

    home = toolchain.use_cuda_toolkit()
    toolchain.put_ninja_on_path()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{architecture() / 10:.1f}"
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        load_inline(
            f"stock_{source.functions[0]}",
            cpp_sources=source.cpp_src,
            cuda_sources=source.cuda_src,
            functions=source.functions,
            extra_cuda_cflags=["-O2"],
            extra_ldflags=cudart_link(Path(folder), home),
            build_directory=folder,
        )
        return Timing((time.perf_counter() - start,))


# ---- compile_kernel -------------------------------------------------------------------------------------------------


def nvrtc_seconds(sources) -> dict:
    """Run `nvrtc_main` in a new process: how long each kernel took, its name as the key, and 'first' for the first."""
    command = [sys.executable, "-m", "bench.build", "--nvrtc"]
    done = subprocess.run(command, cwd=HERE.parent, input=json.dumps(sources), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"compiling with NVRTC failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def nvrtc_main():
    """Compile each (source, kernel) of standard input with NVRTC, the first one twice; print seconds as JSON."""
    sources, found = json.load(sys.stdin), {}
    real = architecture()

    def seconds(source, name, number):
        start = time.perf_counter()
        if torch.cuda.is_available():
            compile_kernel(f"{source}// {number}", name)
        else:
            from utils.cuda.gpu import nvrtc

            nvrtc.built(f"{source}// {number}", name, (), real)
        return time.perf_counter() - start

    found["first"] = seconds(*sources[0], "first")
    for source, name in sources:
        found[name] = [seconds(source, name, number) for number in range(3)]
    print(json.dumps(found))


# ---- warm -----------------------------------------------------------------------------------------------------------


WARM = """
import importlib, json, sys, time
import torch
torch.cuda.is_available()
module, arguments, source = json.load(sys.stdin)
start = time.perf_counter()
from utils.cuda.compile import load_with
load_with(importlib.import_module(module).Builder(*arguments), *source)
print(time.perf_counter() - start)
"""


def warm(module, arguments, source, repeat=3) -> Timing:
    """load_cuda of a source that was built before, each time in a new process. The clock starts when torch is there
    and has looked for a GPU, as the set-up cell of every lesson does.

    `module` has the Builder, which gets `arguments`.
    """
    asked, samples = json.dumps([module, arguments, source]), []
    for _ in range(repeat):
        command = [sys.executable, "-c", WARM]
        done = subprocess.run(command, cwd=HERE.parent, input=asked, stdout=subprocess.PIPE, text=True, check=True)
        samples.append(float(done.stdout))
    return Timing(tuple(samples))


# ---- all of it ------------------------------------------------------------------------------------------------------


def steps():
    """What is measured, in order: functions that give rows."""
    peers = {}

    def stock_rows(name):
        peers[name] = stock(lecture(name))
        return [row(f"{name}, a lesson's text: stock load_inline", peers[name])]

    def lecture_rows(name):
        built = cold(Builder(architecture()), lecture(name))
        return [row(f"{name}, the same text: load_cuda", built, stock=peers[name], at_least=TARGETS["lecture"])]

    def kernels_rows(name):
        built = cold(Builder(architecture()), shared(name))
        at_least = TARGETS["kernels, times"] if name in peers else None
        return [row(f"{name} of kernels/: load_cuda", built, TARGETS["kernels"], peers.get(name), at_least)]

    def engine_rows(name):
        built = cold(EngineBuilder(), shared(name))
        return [row(f"{name} of kernels/: load_cuda, CPU engine", built, TARGETS["engine"])]

    def nvrtc_rows():
        asked = [(kernels.source(name), kernel) for name in kernels.names() for kernel in kernels.launched(name)]
        asked.append(((HERE / "cooperative_sum.cu").read_text(), "cooperative_sum"))
        found = nvrtc_seconds(asked)
        rows = [row("compile_kernel, NVRTC: the first of a process", Timing((found.pop("first"),)))]
        for name, samples in found.items():
            target = "nvrtc, cooperative groups" if name == "cooperative_sum" else "nvrtc"
            rows.append(row(f"compile_kernel, NVRTC: {name}", Timing(tuple(samples)), TARGETS[target]))
        return rows

    def warm_rows():
        rows = []
        for of, module, arguments in (
            ("", "utils.cuda.gpu.nvcc", [architecture()]),
            (", CPU engine", "utils.cuda.cpu.build", []),
        ):
            for text, source in (("of kernels/", shared("grayscale")), ("a lesson's text", lecture("grayscale"))):
                timing = warm(module, arguments, fresh(source, 0))
                rows.append(row(f"grayscale, {text}: load_cuda again, in a new process{of}", timing, TARGETS["warm"]))
        return rows

    for name in LECTURES:
        yield lambda name=name: stock_rows(name)
        yield lambda name=name: lecture_rows(name)
    for name in kernels.names():
        yield lambda name=name: kernels_rows(name)
        yield lambda name=name: engine_rows(name)
    yield nvrtc_rows
    yield warm_rows


def main() -> int:
    """Measure and print the table; 1 where a target is missed, else 0."""
    rows, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CUDA_COURSE_CACHE"] = cache
        load_with(EngineBuilder(), *fresh(shared("square"), "first"))  # the engine's own library
        for measured in progress(list(steps()), "builds"):
            new = measured()
            rows += new
            print(*(f"{line.name}: {line.measured}" for line in new), sep="\n", file=sys.stderr, flush=True)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else f"none, compiled for sm_{ARCHITECTURE}"
    nvcc = toolchain.nvcc_release(toolchain.cuda_home())
    return report(rows, load, f"GPU: {gpu}. nvcc {nvcc}, torch {torch.__version__}, ")


if __name__ == "__main__":
    sys.exit(nvrtc_main() if "--nvrtc" in sys.argv else main())
