"""How long it takes to get from source text to something callable, beside stock load_inline:  python -m bench.build

Prints a table and exits with status 1 if a target is missed. Each target is a ratio: to stock load_inline in this run,
or to what recorded/build.json has, in units of one compile of unit.cpp. `--record` writes that file. Seconds are shown
for information. Every build is cold: the first one of its source. Without a GPU, nvcc and NVRTC compile and link for
sm_90 all the same, and the module is loaded, but not run.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import torch

import kernels
from bench.targets import Row, print_table
from utils.cuda.common import cxx, toolchain
from utils.cuda.compile import load_with
from utils.cuda.cpu.build import Builder as EngineBuilder
from utils.cuda.gpu.nvcc import Builder, cudart_link
from utils.cuda.kernel import compile_kernel
from utils.ground import system
from utils.ground.progress import progress
from utils.lesson.timing import Timing

HERE = Path(__file__).parent
LECTURES = sorted(path.stem for path in (HERE / "lecture").glob("*.cu"))  # operations that stock load_inline builds
ARCHITECTURE = 90  # the target if there is no GPU

UNIT = HERE / "unit.cpp"  # the time to compile this file is the unit of all times
BASELINE = HERE / "recorded" / "build.json"

# The targets: at least this many times faster than stock load_inline, and at most this many times the recorded units.
FASTER = {"lecture": 4, "kernels": 15}
MORE = 2


class Build(NamedTuple):
    """One figure: how long a build took, how long stock load_inline took for it, and the target for that."""

    name: str
    timing: Timing
    stock: Timing | None = None
    at_least: int | None = None  # times faster than stock
    ours: bool = True  # otherwise a peer, which has no target


def row(build, unit, recorded=None) -> Row:
    """The row of a Build, when one unit took `unit` seconds. `recorded` is how many units it took when recorded; no
    target is in seconds, which depend on the machine and its load."""
    units, targets, met = build.timing.seconds / unit, [], True
    measured = f"{units:.3g} units"
    if recorded:
        measured += f" ({units / recorded:.2f} of the recorded)"
        targets.append(f"at most {MORE} times the recorded {recorded:.3g} units")
        met &= units <= MORE * recorded
    if build.stock:
        faster = build.stock.seconds / build.timing.seconds
        measured += f", {faster:.1f} times faster than stock"
        if build.at_least:
            targets.append(f"at least {build.at_least} times faster")
            met &= faster >= build.at_least
    verdict = ("met" if met else "missed") if targets else ""
    return Row(build.name, f"{measured}: {build.timing}", ", ".join(targets), verdict)


def unit_seconds() -> float:
    """How long one unit takes now: the machine and its load affect it as they do the builds measured beside it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [system.cxx_compiler(), "-std=c++17", "-O2", "-c", UNIT, "-o", Path(folder, "unit.o")]
        start = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - start


class Source(NamedTuple):
    """What load_inline takes."""

    cuda_src: str
    cpp_src: str
    functions: list[str]


def lecture(name) -> Source:
    """An operation as in a lesson, in one text."""
    text = (HERE / "lecture" / f"{name}.cu").read_text()
    declared = [function for function in cxx.functions(text) if function.returns == "torch::Tensor"]
    return Source(text, "".join(f"{function.signature};\n" for function in declared), [f.name for f in declared])


def shared(name) -> Source:
    """An operation of kernels/, in two files."""
    return Source(kernels.source(name), kernels.host(name), kernels.functions(name))


def fresh(source, number) -> Source:
    """The same source with a different hash."""
    return source._replace(cuda_src=f"{source.cuda_src}// {number}\n")


def architecture() -> int:
    return toolchain.gpu_architecture() if torch.cuda.is_available() else ARCHITECTURE


def cold(builder, source, repeat=3) -> Timing:
    """Builds in this process without anything cached."""
    samples = []
    for number in range(repeat):
        start = time.perf_counter()
        module = load_with(builder, *fresh(source, number))
        samples.append(time.perf_counter() - start)
        assert all(hasattr(module, name) for name in source.functions)
    return Timing(tuple(samples))


def stock(source) -> Timing:
    """One build by torch's load_inline, as in its manual, for one architecture."""
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
    """Run `nvrtc_main` in a new process: how long each kernel took, by name, and 'first' for the first."""
    command = [sys.executable, "-m", "bench.build", "--nvrtc"]
    done = subprocess.run(command, cwd=HERE.parent, input=json.dumps(sources), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"compiling with NVRTC failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def nvrtc_main():
    """Compile each (source, kernel) from standard input with NVRTC, the first one twice; print seconds as JSON."""
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
    """load_cuda of a source that was built before, each time in a new process. The clock starts once torch is imported
    and has looked for a GPU, as the set-up cell of every lesson does.

    `module` has the Builder, which takes `arguments`.
    """
    asked, samples = json.dumps([module, arguments, source]), []
    for _ in range(repeat):
        command = [sys.executable, "-c", WARM]
        done = subprocess.run(command, cwd=HERE.parent, input=asked, stdout=subprocess.PIPE, text=True, check=True)
        samples.append(float(done.stdout))
    return Timing(tuple(samples))


# ---- all of it ------------------------------------------------------------------------------------------------------


def steps():
    """What is measured, in order: pairs of a name and a function that returns Builds."""
    stocks = {}

    def stock_builds(name):
        stocks[name] = stock(lecture(name))
        return [Build(f"{name}, a lesson's text: stock load_inline", stocks[name], ours=False)]

    def lecture_builds(name):
        built = cold(Builder(architecture()), lecture(name))
        return [Build(f"{name}, the same text: load_cuda", built, stocks[name], FASTER["lecture"])]

    def kernels_builds(name):
        built, at_least = cold(Builder(architecture()), shared(name)), FASTER["kernels"]
        return [Build(f"{name} of kernels/: load_cuda", built, stocks.get(name), at_least)]

    def engine_builds(name):
        return [Build(f"{name} of kernels/: load_cuda, CPU engine", cold(EngineBuilder(), shared(name)))]

    def nvrtc_builds():
        asked = [(kernels.source(name), kernel) for name in kernels.names() for kernel in kernels.launched(name)]
        asked.append(((HERE / "cooperative_sum.cu").read_text(), "cooperative_sum"))
        found = nvrtc_seconds(asked)
        first = Build("compile_kernel, NVRTC: the first of a process", Timing((found.pop("first"),)))
        return [first, *(Build(f"compile_kernel, NVRTC: {name}", Timing(tuple(took))) for name, took in found.items())]

    def warm_builds():
        builds = []
        for of, module, arguments in (
            ("", "utils.cuda.gpu.nvcc", [architecture()]),
            (", CPU engine", "utils.cuda.cpu.build", []),
        ):
            for text, source in (("of kernels/", shared("grayscale")), ("a lesson's text", lecture("grayscale"))):
                timing = warm(module, arguments, fresh(source, 0))
                builds.append(Build(f"grayscale, {text}: load_cuda again, in a new process{of}", timing))
        return builds

    for name in LECTURES:
        yield f"{name} by stock load_inline", lambda name=name: stock_builds(name)
        yield f"{name} by load_cuda", lambda name=name: lecture_builds(name)
    for name in kernels.names():
        yield f"{name} of kernels/", lambda name=name: kernels_builds(name)
        yield f"{name} on the CPU engine", lambda name=name: engine_builds(name)
    yield "compile_kernel with NVRTC", nvrtc_builds
    yield "load_cuda again", warm_builds


def measure() -> list[tuple[Build, float]]:
    """All Builds, each with the seconds of a unit measured beside it."""
    found = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CUDA_COURSE_CACHE"] = cache
        load_with(EngineBuilder(), *fresh(shared("square"), "first"))  # the engine's own library
        before = unit_seconds()
        for _, build in progress(list(steps()), "builds", name=itemgetter(0)):
            builds, after = build(), unit_seconds()
            found += [(one, (before + after) / 2) for one in builds]
            before = after
    return found


def machine() -> str:
    """The processor and the GPU, in words."""
    cpus = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"^model name\s*: (.+)", cpus, re.MULTILINE)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else f"no GPU, compiled for sm_{ARCHITECTURE}"
    return f"{model[1] if model else platform.machine()}, {gpu}"


def main(record=False) -> int:
    """Measure and print the table; 1 if a target is missed, otherwise 0. `record` makes the units the baseline."""
    load, recorded = os.getloadavg()[0], json.loads(BASELINE.read_text())["units"] if BASELINE.exists() else {}
    found, nvcc = measure(), toolchain.nvcc_release(toolchain.cuda_home())
    rows = [row(build, unit, recorded.get(build.name)) for build, unit in found]
    status = print_table(rows, load, f"{machine()}. nvcc {nvcc}, torch {torch.__version__}, ")
    if record:
        units = {build.name: float(f"{build.timing.seconds / unit:.3g}") for build, unit in found if build.ours}
        head = {
            "machine": f"{machine()}, {os.cpu_count()} cores",
            "load": round(load, 1),
            "nvcc": nvcc,
            "torch": torch.__version__,
        }
        system.write(BASELINE, json.dumps(head | {"units": units}, indent=1) + "\n")
        print(f"wrote {BASELINE.name}")
    return status


if __name__ == "__main__":
    if "--nvrtc" in sys.argv:
        nvrtc_main()
    else:
        parser = argparse.ArgumentParser(prog="python -m bench.build", description=__doc__.splitlines()[0])
        parser.add_argument("--record", action="store_true", help="keep what is measured as the baseline")
        sys.exit(main(parser.parse_args().record))
