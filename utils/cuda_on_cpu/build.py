"""Compile translated CUDA sources: into a Python extension (load_cuda), or into a library of one kernel."""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from utils.cache import hashed
from utils.cuda_on_cpu.translate import translate
from utils.toolchain import cache_folder, cxx_compiler

__all__ = ["build_extension", "build_kernel", "expected_seconds", "fingerprint", "kernel_fingerprint"]

_HERE = Path(__file__).parent

# _FORTIFY_SOURCE takes a longjmp onto another stack, which is how fibers switch, for an attack.
_COMMON_FLAGS = ["-std=c++20", "-fPIC", f"-I{_HERE / 'include'}"]
_RUNTIME_FLAGS = [*_COMMON_FLAGS, "-O2", "-pthread", "-U_FORTIFY_SOURCE"]
# Of device code. A function that may be replaced when the library is loaded would not be inlined; CUDA's mathematics
# never sets errno.
_DEVICE_FLAGS = ["-O3", "-fno-semantic-interposition", "-fno-math-errno"]
# Every access of the source shall be seen, as it was written: so the compiler calls a hook at each access and each
# step, and neither splits, merges nor moves them. The hooks are the runtime's (trace.cpp): no sanitizer is linked.
_TRACED_FLAGS = ["-O2", "-g1", "-gdwarf-4", "-DCUDA_ON_CPU_TRACE", "-fsanitize=thread", "-fsanitize=bounds,alignment"]
_TRACED_FLAGS += ["-fsanitize-coverage=trace-pc", "-fno-semantic-interposition", "-fno-unroll-loops"]
_TRACED_FLAGS_GCC = ["-fno-tree-sra", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-tree-sink"]
_TRACED_FLAGS_GCC += ["-fno-tree-tail-merge", "-fno-tree-loop-distribute-patterns", "-fno-crossjumping"]
_TRACED_FLAGS_GCC += ["-fno-thread-jumps", "-fno-reorder-blocks", "-fno-reorder-blocks-and-partition"]
_TRACED_FLAGS_CLANG = ["-fno-vectorize", "-fno-slp-vectorize"]
_TRACED_FLAGS_CLANG += ["-mllvm", "-tsan-instrument-read-before-write=1"]
_TRACED_FLAGS_CLANG += ["-mllvm", "-tsan-instrument-func-entry-exit=0"]
# clang++ copies structs by calls to memcpy, at which it calls no hook: then the runtime's own are called instead.
_TRACED_LINK_CLANG = ["-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset"] if sys.platform == "linux" else []

_SPEAKS_OF_TORCH = re.compile(r"\b(?:torch|at|c10)::|\bTORCH_\w+|\bAT_\w+|\bC10_\w+")
_SPEAKS_OF_PYTHON = re.compile(r"\b(?:py|pybind11)::|\bPYBIND11_\w+|\bPy\w+")


@functools.cache
def fingerprint() -> str:
    """What an extension depends on beside its sources: the engine's own files, the compiler, torch and Python."""
    import torch

    return hashed(kernel_fingerprint(), torch.__version__, sysconfig.get_config_var("SOABI"))


@functools.cache
def kernel_fingerprint(traced=False) -> str:
    """What the library of a kernel depends on beside its source: the engine's own files and the compiler."""
    own = [(_HERE / name).read_text() for name in ("build.py", "translate.py")]
    return hashed(_runtime_fingerprint(), own, _identity(_compiler(traced)))


@functools.cache
def _runtime_fingerprint() -> str:
    parts = [
        (str(p.relative_to(_HERE)), p.read_text())
        for p in sorted(_HERE.rglob("*"))
        if p.suffix in (".h", ".cuh", ".cpp")
    ]
    return hashed(parts, _RUNTIME_FLAGS, _identity(cxx_compiler()))


def _identity(program):
    """Changes when the program does. Asking a compiler for its version would take longer than loading a kernel."""
    path = os.path.realpath(program)
    found = os.stat(path)
    return path, found.st_size, found.st_mtime_ns


def _compiler(traced) -> str:
    """The compiler's path. Traced, g++ comes first: clang++ copies a struct in parts, or by a call to memcpy."""
    chosen = cxx_compiler()
    return shutil.which("g++") or chosen if traced else chosen


@functools.cache
def _is_clang(compiler) -> bool:
    """Asked of the compiler itself: on macOS, g++ is clang under another name."""
    if "clang" in os.path.basename(os.path.realpath(compiler)):
        return True
    asked = [compiler, "-dM", "-E", "-x", "c++", os.devnull]
    return "__clang__" in subprocess.run(asked, capture_output=True, text=True).stdout


def _device_flags(compiler, traced=False):
    """What device code is compiled with, traced or fast."""
    if traced:
        return _TRACED_FLAGS + (_TRACED_FLAGS_CLANG if _is_clang(compiler) else _TRACED_FLAGS_GCC)
    # Without the last, g++ merges what two libraries have under one name: two versions of a learner's kernel.
    return _DEVICE_FLAGS + ([] if _is_clang(compiler) else ["-fno-gnu-unique"])


def build_kernel(source, name, folder, traced=False, options=(), say=print) -> str:
    """Compile the kernel `name` of CUDA C++ text into `folder/kernel.so`; the compiler's log, empty if it worked.

    `name` may be an instance of a template. Traced, every access tells the runtime about itself, and the library is
    `folder/traced.so`. Host code under `#ifndef __CUDACC_RTC__` is left out, as NVRTC does. Of `options`, which are
    NVRTC's, those about macros and include folders count here. The library exports what
    include/cuda_on_cpu/kernel.h defines. Raises TranslationError for a source that cannot be brought to the CPU.
    """
    stem = "traced" if traced else "kernel"
    code = ["#include <cuda_runtime.h>", "#include <cuda_on_cpu/kernel.h>", '#line 1 "cuda_src"', translate(source)]
    code += ['#line 1 "name"', f"CUDA_ON_CPU_KERNEL({name})"]
    (folder / "cuda.cu").write_text(source)
    (folder / f"{stem}.cpp").write_text("\n".join(code) + "\n")
    compiler, library = _compiler(traced), folder / f"{stem}.so"
    flags = [*_COMMON_FLAGS, *_device_flags(compiler, traced), "-Werror=return-type", "-D__CUDACC_RTC__"]
    flags += _preprocessor_options(options)
    compiled = [compiler, *flags, "-c", str(folder / f"{stem}.cpp"), "-o", str(folder / f"{stem}.o")]
    whole = ["-Wl,-z,defs"] if sys.platform == "linux" else []  # what is defined nowhere is told now, not when loaded
    whole += _TRACED_LINK_CLANG if traced and _is_clang(compiler) else []
    link = [compiler, "-shared", *whole, str(folder / f"{stem}.o"), *_link_runtime(), "-o", str(library)]
    return _compile_and_link([compiled], link, say)


def _preprocessor_options(options):
    """NVRTC's options for macros and include folders, as g++ and clang++ write them."""
    long = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}
    kept, after = [], None
    for option in options:
        if after:
            kept.append(after + option)
            after = None
            continue
        name, _, value = option.partition("=")
        if name in long and value:
            kept.append(long[name] + value)
        elif option in long or option in ("-D", "-U", "-I"):
            after = long.get(option, option)
        elif option[:2] in ("-D", "-U", "-I"):
            kept.append(option)
    return kept


def build_extension(name, cuda_src, cpp_src, funcs, folder, opt=True, traced=False, say=print) -> str:
    """Compile into `folder` the module `name` with the functions `funcs`; the compilers' log, empty if it worked.

    The folder receives the sources as given (`cuda.cu`), translated (`cuda.cpp`) and with the binding (`main.cpp`).
    The module is `folder/name.so`; traced, every access of its kernels tells the runtime about itself, and so do
    torch's allocations where they are asked to (check.py). `say` is called with each command that is run. Both sources
    are compiled at once, on torch's smaller headers; only where these prove too small are they compiled again with all
    of torch.
    Raises TranslationError for a source that cannot be brought to the CPU.
    """
    (folder / "cuda.cu").write_text(cuda_src)
    device_code = ["#include <cuda_runtime.h>"]
    if _SPEAKS_OF_PYTHON.search(cuda_src):
        device_code.append("#include <cuda_on_cpu/binding.h>")
    if _SPEAKS_OF_TORCH.search(cuda_src):
        device_code.append("#include <torch/types.h>")
    (folder / "cuda.cpp").write_text("\n".join([*device_code, '#line 1 "cuda_src"', translate(cuda_src)]) + "\n")
    binding = ["#include <cuda_on_cpu/extension.h>", "#include <cuda_runtime.h>"]
    if _SPEAKS_OF_PYTHON.search(cpp_src):
        binding.insert(0, "#include <cuda_on_cpu/binding.h>")
    if traced:
        binding.append("#include <cuda_on_cpu/checked.h>")
    # The first line is there for a declaration that lacks its semicolon: the compiler misses it here.
    module = [
        "namespace cuda_on_cpu {}",
        f"CUDA_ON_CPU_MODULE({', '.join(f'CUDA_ON_CPU_FUNCTION({f})' for f in funcs)})",
    ]
    host_code = [*binding, '#line 1 "cpp_src"', translate(cpp_src, kernels=False), *module]
    (folder / "main.cpp").write_text("\n".join(host_code) + "\n")

    log = _compile(name, folder, opt, traced, say, [])
    if "cuda_on_cpu: pybind11 is needed" in log:
        say("a type that only pybind11 brings to Python: once more with it")
        log = _compile(name, folder, opt, traced, say, ["-DCUDA_ON_CPU_PYBIND"])
    if _asks_for_more_of_torch(log):
        say("the smaller torch headers do not suffice: once more with all of torch")
        log = _compile(name, folder, opt, traced, say, ["-DCUDA_ON_CPU_WHOLE_TORCH"])
    return log


def _asks_for_more_of_torch(log) -> bool:
    """Whether a compiler misses a name that torch has beyond the smaller headers (a misspelt one it has nowhere)."""
    import torch

    missed = set()
    for message in re.findall(r"error: (.*)", log):
        message = message.split("did you mean")[0]
        if re.search(r"torch|\bat\b|c10|Tensor", message):
            missed |= set(re.findall(r"['‘](?:\w+::)*(\w+)", message)) - {"torch", "at", "c10", "Tensor"}
    if not missed:
        return False
    headers = Path(torch.__file__).parent / "include"
    places = [headers / "ATen/Functions.h", headers / "torch/csrc/autograd/generated/variable_factories.h"]
    places.append(headers / "ATen/Context.h")
    places += (headers / "torch/csrc/api/include").rglob("*.h")
    known = {word for path in places for word in re.findall(r"\w+", path.read_text(errors="ignore"))}
    return bool(missed & known)


def _compile(name, folder, opt, traced, say, extra):
    import torch

    compiler, torch_home = _compiler(traced), Path(torch.__file__).parent
    headers = torch_home / "include"
    flags = [*_COMMON_FLAGS, "-Werror=return-type", f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *extra]
    for path in (headers, headers / "torch/csrc/api/include", sysconfig.get_path("include")):
        flags += ["-isystem", str(path)]
    device_flags = _device_flags(compiler, traced) if opt or traced else ["-O0"]
    parts = {"cuda": device_flags, "main": ["-O1" if opt else "-O0"]}
    commands = [
        [compiler, *flags, *level, "-c", str(folder / f"{part}.cpp"), "-o", str(folder / f"{part}.o")]
        for part, level in parts.items()
    ]
    link = [compiler, "-shared", str(folder / "cuda.o"), str(folder / "main.o"), *_link_runtime()]
    link += [f"-L{torch_home / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    return _compile_and_link(commands, [*link, "-o", str(folder / f"{name}.so")], say)


def _runtime_path() -> Path:
    """The runtime's library, which all modules share."""
    return cache_folder() / "runtime" / f"libcuda_on_cpu-{_runtime_fingerprint()}.so"


def expected_seconds() -> int:
    """About how long a kernel takes to build; the first of a machine waits for the runtime too."""
    return 2 if _runtime_path().exists() else 12


def _link_runtime():
    return [str(_runtime_path()), f"-Wl,-rpath,{_runtime_path().parent}", "-pthread"]


def _compile_and_link(commands, link, say) -> str:
    """Compile side by side, the runtime too where it is not built yet, then link. The log, empty if all succeed.

    The runtime is built beside its place and moved there whole, so no process ever loads half of it.
    """
    runtime = _runtime_path()
    if runtime.exists():
        return _run(commands, say) or _run([link], say)
    runtime.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runtime.parent) as beside:
        compiler, objects = cxx_compiler(), []
        for part in sorted(_HERE.glob("*.cpp")):
            objects.append(f"{beside}/{part.stem}.o")
            commands = [*commands, [compiler, *_RUNTIME_FLAGS, "-c", str(part), "-o", objects[-1]]]
        built = f"{beside}/{runtime.name}"
        linked = [compiler, "-shared", f"-Wl,-soname,{runtime.name}", *objects, "-pthread", "-o", built]
        log = _run(commands, say) or _run([linked], say)
        if log:
            return log
        os.replace(built, runtime)
    return _run([link], say)


def _run(commands, say) -> str:
    """Run the commands side by side. The first that fails stops the others; what it printed, empty if all succeed."""
    environment = {**os.environ, "LC_ALL": "C"}  # messages that compile.py can read
    running = {}
    try:
        for command in commands:
            say(shlex.join(command))
            output = tempfile.TemporaryFile("w+", errors="replace")
            running[subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)] = output
        while running:
            for process in [p for p in running if p.poll() is not None]:
                output = running.pop(process)
                output.seek(0)
                if process.returncode:
                    return output.read() or f"{shlex.join(process.args)} ended with {process.returncode}"
            time.sleep(0.01)
        return ""
    finally:  # also where the learner interrupts: leave no compiler behind
        for process in running:
            process.kill()
            process.wait()
