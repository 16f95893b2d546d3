"""Source text in, something callable out: the same CUDA C++ for a GPU (nvcc) or for the CPU (utils/cuda_on_cpu)."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
from difflib import get_close_matches

from utils import toolchain
from utils.cache import build_once, hashed
from utils.diagnostics import CompileError, explained, functions, refused, shorten
from utils.toolchain import cache_folder, device

__all__ = ["CompileError", "load_cuda"]


def load_cuda(cuda_src, cpp_src, funcs, opt=True, verbose=False, check=False):
    """Compile CUDA C++ text into a module with the functions `funcs`: for the GPU if there is one, else the CPU.

    `cuda_src` holds the kernels and, as a rule, the torch functions that launch them; `cpp_src` their declarations,
    or whole functions where `cuda_src` holds none. Both are what `torch.utils.cpp_extension.load_inline` takes, and on
    a GPU that is what builds them. Without one they are built for the CPU, where CPU tensors pass for CUDA tensors.

    `opt=False` compiles the host code without optimisation. `verbose=True` prints the commands. What was built once,
    from the same text on the same machine, is loaded from the cache.

    `check=True` builds for the CPU engine on any machine, with every access of every launch looked at: what a kernel
    does wrong becomes a `KernelProblem`, whose `.problems` holds all that was met. Tensors of a GPU are copied over and
    back. It is some hundred times slower; sizes that show the mistake are enough.

    Raises CompileError for a source that does not compile, ValueError for a function that the source does not have,
    ToolchainError where no compiler is found.
    """
    __tracebackhide__ = True  # IPython leaves out our frames: the learner's cell and the message are what helps
    funcs = [funcs] if isinstance(funcs, str) else list(funcs)
    _check_names(cuda_src, cpp_src, funcs)
    build = _Gpu() if device().type == "cuda" and not check else _Cpu(traced=check)
    name = f"{funcs[0]}_{hashed(cuda_src, cpp_src, funcs, bool(opt), bool(check), build.fingerprint())}"
    folder = cache_folder() / build.device / name
    sources = {"cuda_src": cuda_src, "cpp_src": cpp_src}
    what = f"compiling {funcs[0]} for the {build.device}"
    if name not in sys.modules:
        build_once(
            folder,
            lambda: build(name, cuda_src, cpp_src, funcs, folder, opt),
            what,
            sources,
            build.expected_seconds,
            verbose,
        )
    module = sys.modules.get(name) or _import(name, folder, sources)
    if not check:
        return module
    from utils.cuda_on_cpu.check import CheckedModule

    return CheckedModule(module, funcs, cuda_src)


class _Cpu:
    """Builds with the machine's C++ compiler, against the headers of utils/cuda_on_cpu."""

    device, expected_seconds = "cpu", 7

    def __init__(self, traced=False):
        self.traced = traced

    def fingerprint(self):
        from utils.cuda_on_cpu.build import fingerprint

        return fingerprint()

    def __call__(self, name, cuda_src, cpp_src, funcs, folder, opt):
        __tracebackhide__ = True
        from utils.cuda_on_cpu import TranslationError, build_extension, translate

        for which, source in (("cuda_src", cuda_src), ("cpp_src", cpp_src)):
            try:
                translate(source, kernels=which == "cuda_src")
            except TranslationError as error:
                raise refused(which, source, error.line, str(error)) from None
        with open(folder / "commands.txt", "w") as commands:
            say = lambda text: print(shorten(text), file=commands)  # noqa: E731
            return build_extension(name, cuda_src, cpp_src, funcs, folder, opt, self.traced, say)


class _Gpu:
    """Builds with torch's load_inline: nvcc for the kernels, the C++ compiler for the binding."""

    device, expected_seconds = "cuda", 40

    def fingerprint(self):
        import torch

        home = toolchain.use_cuda_toolkit()
        compiler = subprocess.run([toolchain.cxx_compiler(), "--version"], capture_output=True, text=True).stdout
        return torch.__version__, sys.version, str(home), toolchain.nvcc_release(home), self._architecture(), compiler

    def _architecture(self):
        import torch

        return ".".join(map(str, torch.cuda.get_device_capability()))

    def __call__(self, name, cuda_src, cpp_src, funcs, folder, opt):
        from torch.utils.cpp_extension import load_inline

        toolchain.put_ninja_on_path()
        flags = ["-O2"] if opt else []
        # Our own sources say what they include; others count on the headers that load_inline puts before them.
        implicit = ["#include <torch/types.h>"] if re.search(r"\b(torch|at|c10)::|\bTORCH_|\bAT_", cuda_src) else []
        cuda = [*implicit, "#include <cuda.h>", "#include <cuda_runtime.h>", '#line 1 "cuda_src"', cuda_src]
        cpp = ["#include <torch/extension.h>", '#line 1 "cpp_src"', cpp_src]
        kept = io.StringIO()
        try:
            with (
                _environment(TORCH_CUDA_ARCH_LIST=self._architecture()),
                contextlib.redirect_stdout(kept),
                contextlib.redirect_stderr(kept),
            ):
                load_inline(
                    name,
                    ["\n".join(cpp)],
                    ["\n".join(cuda)],
                    functions=funcs,
                    extra_cflags=flags,
                    extra_cuda_cflags=flags,
                    extra_ldflags=_cudart_link(folder),
                    build_directory=str(folder),
                    no_implicit_headers=True,
                )
        except (RuntimeError, ImportError) as error:
            return f"{error}\n{kept.getvalue()}"
        finally:  # what ninja prints goes past a notebook's cell; it can be asked afterwards what it ran
            ran = subprocess.run(["ninja", "-t", "commands"], cwd=folder, capture_output=True, text=True)
            (folder / "commands.txt").write_text(shorten(ran.stdout))
        return ""


def _cudart_link(folder):
    """The pip wheel has libcudart.so.13 and no libcudart.so, which the linker asks for: give it one."""
    home = toolchain.cuda_home()
    libraries = [home / "lib64", home / "lib"]
    if any((lib / "libcudart.so").exists() for lib in libraries):
        return []
    versioned = next((so for lib in libraries for so in sorted(lib.glob("libcudart.so.*"))), None)
    if versioned is None:
        return []
    (folder / "libcudart.so").symlink_to(versioned)
    return [f"-L{folder}"]


@contextlib.contextmanager
def _environment(**values):
    """Set environment variables for a while."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)


def _import(name, folder, sources):
    """Load the built module from its folder."""
    __tracebackhide__ = True
    import torch  # noqa: F401  the module needs torch's libraries in the process

    path = str(folder / f"{name}.so")
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError as error:
        (folder / "complete").unlink()
        raise explained(str(error), sources, folder) from None
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def _check_names(cuda_src, cpp_src, funcs):
    """Every function must stand in the text; a misspelt one is met by the nearest name that does."""
    __tracebackhide__ = True
    for which, text in (("cuda_src", cuda_src), ("cpp_src", cpp_src)):
        if not isinstance(text, str):
            raise TypeError(f"{which} must be source text, but it is {type(text).__name__}: {text!r:.80}")
    if not funcs:
        raise ValueError("funcs is empty: name at least one function to call from Python")
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", f"{cuda_src}\n{cpp_src}", flags=re.DOTALL)
    declared = functions(code)
    for name in funcs:
        if not str(name).isidentifier():
            raise ValueError(f"{name!r} is no function name")
        if re.search(rf"\b{name}\s*\(", code):
            continue
        near = get_close_matches(name, declared, 1, cutoff=0.6)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        have = f" It has: {', '.join(declared)}." if declared else ""
        raise ValueError(f"the source has no function {name!r}.{meant}{have}")
