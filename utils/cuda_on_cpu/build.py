"""Compile translated CUDA sources into a Python extension."""

import functools
import hashlib
import os
import re
import shlex
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

from utils.cuda_on_cpu.translate import translate
from utils.toolchain import cache_folder, cxx_compiler

__all__ = ["build_extension", "fingerprint"]

_HERE = Path(__file__).parent

# _FORTIFY_SOURCE takes a longjmp onto another stack, which is how fibers switch, for an attack.
_RUNTIME_FLAGS = ["-O2", "-std=c++20", "-fPIC", "-pthread", "-U_FORTIFY_SOURCE", f"-I{_HERE / 'include'}"]
_SPEAKS_OF_TORCH = re.compile(r"\b(?:torch|at|c10)::|\bTORCH_\w+|\bAT_\w+|\bC10_\w+")
_INCLUDES_TORCH = re.compile(r"^\s*#\s*include\s*<(?:torch|ATen|c10)/", re.MULTILINE)
_SPEAKS_OF_PYTHON = re.compile(r"\b(?:py|pybind11)::|\bPYBIND11_\w+|\bPy\w+")


@functools.cache
def fingerprint() -> str:
    """What a build depends on beside its sources: the engine's own files, the compiler, torch and Python."""
    import torch

    digest = hashlib.sha256()
    for path in sorted(p for p in _HERE.rglob("*") if p.suffix in (".h", ".cpp", ".py")):
        digest.update(path.read_bytes())
    compiler = cxx_compiler()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    digest.update(repr((compiler, version, torch.__version__, sysconfig.get_config_var("SOABI"))).encode())
    return digest.hexdigest()


def build_extension(name, cuda_src, cpp_src, funcs, folder, opt=True, say=print) -> str:
    """Compile into `folder` the module `name` with the functions `funcs`; the compilers' log, empty if it worked.

    The folder receives the sources as given (`cuda.cu`), translated (`cuda.cpp`) and with the binding (`main.cpp`).
    The module is `folder/name.so`. `say` is called with each command that is run. Both sources are compiled at once, on
    torch's smaller headers; only where these prove too small are they compiled again with all of torch.
    Raises TranslationError for a source that cannot be brought to the CPU.
    """
    (folder / "cuda.cu").write_text(cuda_src)
    device_code = ["#include <cuda_runtime.h>"]
    if _SPEAKS_OF_PYTHON.search(cuda_src):
        device_code.append("#include <cuda_on_cpu/binding.h>")
    if _SPEAKS_OF_TORCH.search(cuda_src):
        device_code.append("#include <torch/types.h>")
    (folder / "cuda.cpp").write_text("\n".join([*device_code, '#line 1 "cuda_src"', translate(cuda_src)]) + "\n")
    binding = ["#include <cuda_on_cpu/binding.h>", "#include <cuda_runtime.h>"]
    if "{" in cpp_src and not _INCLUDES_TORCH.search(cpp_src):  # more than declarations
        binding.append("#include <torch/types.h>")
    functions = [f'    m.def("{f}", torch::wrap_pybind_function({f}), "{f}");' for f in funcs]
    module = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *functions, "}"]
    host_code = [*binding, '#line 1 "cpp_src"', translate(cpp_src, kernels=False), *module]
    (folder / "main.cpp").write_text("\n".join(host_code) + "\n")

    log = _compile(name, folder, opt, say, [])
    if _asks_for_more_of_torch(log):
        say("the smaller torch headers do not suffice: once more with all of torch")
        log = _compile(name, folder, opt, say, ["-DCUDA_ON_CPU_WHOLE_TORCH"])
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
    places += (headers / "torch/csrc/api/include").rglob("*.h")
    known = {word for path in places for word in re.findall(r"\w+", path.read_text(errors="ignore"))}
    return bool(missed & known)


def _compile(name, folder, opt, say, extra):
    import torch

    compiler, torch_home = cxx_compiler(), Path(torch.__file__).parent
    headers = torch_home / "include"
    flags = [
        "-std=c++20",
        "-fPIC",
        "-Werror=return-type",
        f"-DTORCH_EXTENSION_NAME={name}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
    ]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *extra, f"-I{_HERE / 'include'}"]
    for path in (headers, headers / "torch/csrc/api/include", sysconfig.get_path("include")):
        flags += ["-isystem", str(path)]
    parts = {"cuda": "-O3", "main": "-O1"} if opt else {"cuda": "-O0", "main": "-O0"}
    commands = [
        [compiler, *flags, level, "-c", str(folder / f"{part}.cpp"), "-o", str(folder / f"{part}.o")]
        for part, level in parts.items()
    ]
    runtime = _runtime_command(compiler)
    log = _run(commands + ([runtime] if runtime else []), say)
    if log:
        return log
    if runtime:
        os.replace(runtime[-1], _runtime_path())
    link = [compiler, "-shared", str(folder / "cuda.o"), str(folder / "main.o"), str(_runtime_path())]
    link += [f"-Wl,-rpath,{_runtime_path().parent}", f"-L{torch_home / 'lib'}"]
    link += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", "-pthread", "-o", str(folder / f"{name}.so")]
    return _run([link], say)


def _runtime_path() -> Path:
    """The runtime's library, which all modules share."""
    return cache_folder() / "runtime" / f"libcuda_on_cpu-{fingerprint()[:16]}.so"


def _runtime_command(compiler):
    """The command that builds the runtime, None if it is there. It writes beside its place, to be moved there whole."""
    path = _runtime_path()
    if path.exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    soname = f"-Wl,-soname,{path.name}"
    return [compiler, *_RUNTIME_FLAGS, "-shared", soname, str(_HERE / "runtime.cpp"), "-o", beside]


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
