"""What both builders of extensions (gpu/nvcc.py, cpu/build.py) share: compiling and linking against torch and Python.

torch's own headers cost seconds each, so sources are compiled with small ones in their place, `torch_headers/`, and
compiled again with all of torch only if these do not suffice.
"""

import functools
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib import util
from itertools import pairwise
from pathlib import Path

from utils.cuda.common import cxx
from utils.cuda.common.cache import hashed
from utils.cuda.common.compilers import explained_limits, started
from utils.cuda.common.sealed import is_whole, make_folder, put
from utils.cuda.common.toolchain import cache_folder
from utils.ground.progress import expect

__all__ = ["ANY_ALIAS", "BINDING", "HEADERS", "NVCC_FLAGS", "compiled", "fingerprint", "identity", "main_source", "run"]
__all__ += ["torch_flags", "torch_includes", "torch_libraries", "torch_library"]

# As nvcc, a C++ compiler must not assume that memory is read only as the type that it was written as: kernels read
# halves as a `float4`.
ANY_ALIAS = "-fno-strict-aliasing"
HEADERS = Path(__file__).parent / "torch_headers"
#: What a module's binding includes first.
BINDING = ("cuda_course/extension.h", "cuda_runtime.h")
#: About how long one source takes to compile with all of torch's headers, or two side by side.
WHOLE_TORCH_SECONDS = 27

#: What torch's own builder passes to nvcc, apart from folders (COMMON_NVCC_FLAGS and the standard in
#: torch.utils.cpp_extension, whose import would ask for CUDA aloud).
NVCC_FLAGS = ["-std=c++20", "--expt-relaxed-constexpr"]
NVCC_FLAGS += [f"-D__CUDA_NO_{what}__" for what in ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_CONVERSIONS")]
NVCC_FLAGS += ["-D__CUDA_NO_HALF2_OPERATORS__"]


@functools.cache
def fingerprint() -> str:
    """What every module depends on besides its sources: the small headers, torch and Python."""
    import torch

    headers = [(str(p.relative_to(HEADERS)), p.read_text()) for p in sorted(HEADERS.rglob("*.h"))]
    return hashed(headers, Path(__file__).read_text(), torch.__version__, sysconfig.get_config_var("SOABI"))


def identity(program):
    """A value that changes when the program does. Asking a compiler its version takes longer than loading a kernel."""
    path = os.path.realpath(program)
    found = os.stat(path)
    return path, found.st_size, found.st_mtime_ns


def main_source(name, texts, funcs, includes=()) -> str:
    """The C++ file of the module `name` with the functions `funcs`. `texts` are its sources, by their name in messages.

    It includes `BINDING` first, unless a source needs Python's own C++ interface.
    """
    python = ["cuda_course/binding.h"] if any(map(cxx.uses_python, texts.values())) else []
    lines = [f"#include <{header}>" for header in (*python, *BINDING, *includes)]
    lines.append(f"#define TORCH_EXTENSION_NAME {name}")
    for name, text in texts.items():
        lines += [f'#line 1 "{name}"', text]
    # The first line catches a declaration without its semicolon: the compiler reports it here.
    lines.append("namespace cuda_course {}")
    lines.append(f"CUDA_COURSE_MODULE({', '.join(f'CUDA_COURSE_FUNCTION({f})' for f in funcs)})")
    return "\n".join(lines) + "\n"


def torch_flags() -> list[str]:
    """The C++ compiler's flags for torch and Python; our small headers come first."""
    import torch

    flags = ["-std=c++20", "-fPIC", ANY_ALIAS, "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{HEADERS}"]
    for path in (*torch_includes(), sysconfig.get_path("include")):
        flags += ["-isystem", str(path)]
    return flags


def torch_includes() -> list[Path]:
    """The folders of torch's headers."""
    import torch

    headers = Path(torch.__file__).parent / "include"
    return [headers, headers / "torch/csrc/api/include"]


def torch_library() -> Path:
    """The library of torch that holds its functions for the CPU, and a BLAS."""
    torch = util.find_spec("torch")
    return Path(torch.origin).parent / "lib" / "libtorch_cpu.so"


def torch_libraries(compiler, *more) -> list[str]:
    """The linker's flags for torch; `more` are further torch libraries."""
    import torch

    names = ["c10", "torch_cpu", "torch", "torch_python", *more]
    options = [f"-L{Path(torch.__file__).parent / 'lib'}"]
    if sys.platform == "linux" and (empty := _empty_libraries(names, compiler)):
        options = [f"-L{empty}", "-Wl,--no-as-needed"]
    return [*options, *(f"-l{name}" for name in names)]


def _empty_libraries(names, compiler) -> Path | None:
    """A folder with empty libraries of these names; None if the compiler cannot make them.

    The linker only records that a module needs them: reading torch's own, which are present when the module is loaded,
    would take a third of a second each time.
    """
    folder = cache_folder() / "runtime" / f"names-{hashed(names)}"
    if not all(is_whole(folder / f"lib{name}.so") for name in names):
        make_folder(folder)
        with tempfile.TemporaryDirectory(dir=folder) as apart:  # another thread or process may be making them, too
            for name in names:
                place = Path(apart) / name
                made = [compiler, "-shared", "-x", "c++", os.devnull, f"-Wl,-soname,lib{name}.so", "-o", str(place)]
                if run([made], lambda command: None):
                    return None
                put(place, folder / f"lib{name}.so")
    return folder


def compiled(build, say, texts) -> str:
    """Call `build(extra flags of each part)`, which returns the compilers' log, with as few headers as needed; the last
    log.

    `texts` are the sources, by the part of the build that compiles them: parts that name what only all of torch has are
    not tried without it.
    """
    named = {part: name for part, text in texts.items() if (name := _beyond_small_headers(text))}
    if named:
        say(f"the smaller torch headers do not have {', '.join(dict.fromkeys(named.values()))}: with all of torch")
    more = _with_all_of_torch(named)
    log = build(more)
    if "cuda_course: pybind11 is needed" in log:
        say("a type that only pybind11 brings to Python: once more with it")
        more = dict.fromkeys(texts, ["-DCUDA_COURSE_PYBIND"]) | more
        log = build(more)
    if named.keys() != texts.keys() and _needs_all_of_torch(log, texts.values()):
        say("the smaller torch headers do not suffice: once more with all of torch")
        log = build(_with_all_of_torch(texts))
    return log


def _with_all_of_torch(parts) -> dict[str, list[str]]:
    """The extra flags of these parts of a build; the progress bar is told how long that takes."""
    if parts:
        expect(WHOLE_TORCH_SECONDS * (len(parts) if os.cpu_count() == 1 else 1))
    return dict.fromkeys(parts, ["-DCUDA_COURSE_WHOLE_TORCH"])


def _beyond_small_headers(text) -> str:
    """What the source names that only torch's full headers have: an operation ('torch::relu') or a part of torch's C++
    library ('torch::nn'), each of which has a header of its own; empty if the small headers may suffice."""
    import torch

    torch_headers = Path(torch.__file__).parent / "include"
    part = cxx.tokens(text)
    for k, token in enumerate(part[:-2]):
        namespace, name = token.text, part[k + 2].text
        if namespace in ("torch", "at") and part[k + 1].text == "::" and name not in _small_words():
            places = [torch_headers / f"ATen/ops/{name}.h", torch_headers / f"torch/csrc/api/include/torch/{name}.h"]
            if any(place.exists() for place in places):
                return f"{namespace}::{name}"
    return ""


@functools.cache
def _small_words() -> frozenset[str]:
    texts = [path.read_text() for path in HEADERS.rglob("*.h")]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def _needs_all_of_torch(log, texts) -> bool:
    """Whether a compiler lacks a name that only torch's full headers have (a misspelt name is in none of them).

    `max(a, b)` of two c10::Half is no function of torch's, though torch has one of that name.
    """
    import torch

    headers = Path(torch.__file__).parent / "include"
    members = [headers / "ATen/core/TensorBody.h", headers / "ATen/core/TensorBase.h"]
    missed = set()
    for message in re.findall(r"error: (.*)", log):
        message = message.split("did you mean")[0]
        if re.search(r"['‘](?:c10|at)::cuda['’]|::\*?\)\(|non-static member function", message):
            continue  # torch includes no headers of these; a member function without its call
        if member := re.search(r"Tensor\W* has no member named ['‘](\w+)", message):
            if any(re.search(rf"\b{member[1]}\(", path.read_text()) for path in members):
                return True
            continue
        called = re.match(r"(?:no matching function for )?call (?:to|of overloaded) ['‘](\w+)\(", message)
        if called and "Tensor" not in message and not any(_is_member(called[1], text) for text in texts):
            continue
        if re.search(r"torch|\bat\b|c10|Tensor", message):
            missed |= set(re.findall(r"['‘](?:\w+::)*(\w+)", message)) - {"torch", "at", "c10", "Tensor"}
    if not missed:
        return False
    places = [headers / "ATen/Functions.h", headers / "torch/csrc/autograd/generated/variable_factories.h"]
    places += [headers / "ATen/Context.h", headers / "c10/util/logging_common.h"]  # for TORCH_CHECK_EQ
    places += (headers / "torch/csrc/api/include").rglob("*.h")
    known = {word for path in places for word in re.findall(r"\w+", path.read_text(errors="ignore"))}
    return bool(missed & known)


def _is_member(name, text) -> bool:
    """Whether the source names something in a namespace, or a member of an object, that is called so."""
    return any(after.text == name and token.text in ("::", ".", "->") for token, after in pairwise(cxx.tokens(text)))


def run(commands, say, warnings=None) -> str:
    """Run the commands, one per core at a time. The first to fail stops the others; returns what it printed, '' if all
    succeed.

    What those that succeed print is added to the file `warnings`.
    """
    environment = {**os.environ, "LC_ALL": "C"}  # messages that diagnostics.py can read
    ahead, running = list(commands), {}
    try:
        while ahead or running:
            while ahead and len(running) < max(2, os.cpu_count() or 2):  # more would only take memory
                say(shlex.join(command := ahead.pop(0)))
                output = tempfile.TemporaryFile("w+", errors="replace")
                running[started(command, stdout=output, stderr=subprocess.STDOUT, env=environment)] = output
            for process in [p for p in running if p.poll() is not None]:
                with running.pop(process) as output:
                    output.seek(0)
                    if process.returncode:
                        log = output.read() or f"{shlex.join(process.args)} ended with {process.returncode}"
                        return explained_limits(log, process.returncode)
                    if warnings and (text := output.read()):
                        with open(warnings, "a") as kept:
                            kept.write(text)
            time.sleep(0.01)
        return ""
    finally:  # also if the learner interrupts: leave no compiler running
        for process, output in running.items():
            process.kill()
            process.wait()
            output.close()
