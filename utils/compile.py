"""Source text in, something callable out: the same CUDA C++ for a GPU (nvcc) or for the CPU (utils/cuda_on_cpu)."""

import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from difflib import get_close_matches
from pathlib import Path

from utils import toolchain
from utils.progress import waiting
from utils.toolchain import ToolchainError, cache_folder, device, short_path

__all__ = ["CompileError", "load_cuda"]


class CompileError(RuntimeError):
    """The source does not compile. The message shows the compiler's words beside the lines they are about.

    `.errors` holds them as (source, line, message), source being 'cuda_src' or 'cpp_src'; `.log` is the whole log.
    """

    def __init__(self, message, errors=(), log=""):
        super().__init__(message)
        self.errors = list(errors)
        self.log = log


def load_cuda(cuda_src, cpp_src, funcs, opt=True, verbose=False):
    """Compile CUDA C++ text into a module with the functions `funcs`: for the GPU if there is one, else the CPU.

    `cuda_src` holds the kernels and, as a rule, the torch functions that launch them; `cpp_src` their declarations,
    or whole functions where `cuda_src` holds none. Both are what `torch.utils.cpp_extension.load_inline` takes, and on
    a GPU that is what builds them. Without one they are built for the CPU, where CPU tensors pass for CUDA tensors.

    `opt=False` compiles the host code without optimisation. `verbose=True` prints the commands. What was built once,
    from the same text on the same machine, is loaded from the cache.

    Raises CompileError for a source that does not compile, ValueError for a function that the source does not have,
    ToolchainError where no compiler is found.
    """
    __tracebackhide__ = True  # IPython leaves out our frames: the learner's cell and the message are what helps
    funcs = [funcs] if isinstance(funcs, str) else list(funcs)
    _check_names(cuda_src, cpp_src, funcs)
    build = _Gpu() if device().type == "cuda" else _Cpu()
    fingerprint = repr((cuda_src, cpp_src, funcs, bool(opt), build.fingerprint()))
    name = f"{funcs[0]}_{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    folder = cache_folder() / build.device / name
    try:
        with _sole_builder(folder):
            if not (folder / "complete").exists():
                shutil.rmtree(folder, ignore_errors=True)  # what a killed build left
                folder.mkdir(parents=True)
                with waiting(f"compiling {funcs[0]} for the {build.device}", expected=build.expected_seconds):
                    log = build(name, cuda_src, cpp_src, funcs, folder, opt)
                if verbose:
                    print((folder / "commands.txt").read_text())
                if log:
                    raise _explained(log, {"cuda_src": cuda_src, "cpp_src": cpp_src}, folder)
                (folder / "complete").touch()
            elif verbose:
                print(f"already built in {short_path(folder)}, by these commands:")
                print((folder / "commands.txt").read_text())
        return _import(name, folder, {"cuda_src": cuda_src, "cpp_src": cpp_src})
    except OSError as error:
        if error.filename is None or not str(error.filename).startswith(str(cache_folder())):
            raise
        advice = "free some space, or set CUDA_COURSE_CACHE to a folder that you may write"
        raise ToolchainError(f"cannot write the build to {error.filename} ({error.strerror}): {advice}") from None


class _Cpu:
    """Builds with the machine's C++ compiler, against the headers of utils/cuda_on_cpu."""

    device, expected_seconds = "cpu", 7

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
                message = f"{which}, line {error.line}: {error}\n{_excerpt(source, error.line)}"
                raise CompileError(message, [(which, error.line, str(error))]) from None
        with open(folder / "commands.txt", "w") as commands:
            return build_extension(
                name, cuda_src, cpp_src, funcs, folder, opt, say=lambda text: print(_shorten(text), file=commands)
            )


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
            (folder / "commands.txt").write_text(_shorten(ran.stdout))
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


@contextlib.contextmanager
def _sole_builder(folder):
    """Of several processes that want one build, one works and the others wait. A dead process holds no lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
        raise _explained(str(error), sources, folder) from None
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def _demangled(symbol):
    tool = shutil.which("c++filt")
    return subprocess.run([tool, symbol], capture_output=True, text=True).stdout.strip() if tool else symbol


def _check_names(cuda_src, cpp_src, funcs):
    """Every function must stand in the text; a misspelt one is met by the nearest name that does."""
    __tracebackhide__ = True
    for which, text in (("cuda_src", cuda_src), ("cpp_src", cpp_src)):
        if not isinstance(text, str):
            raise TypeError(f"{which} must be source text, but it is {type(text).__name__}: {text!r:.80}")
    if not funcs:
        raise ValueError("funcs is empty: name at least one function to call from Python")
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", f"{cuda_src}\n{cpp_src}", flags=re.DOTALL)
    declared = _functions(code)
    for name in funcs:
        if not str(name).isidentifier():
            raise ValueError(f"{name!r} is no function name")
        if re.search(rf"\b{name}\s*\(", code):
            continue
        near = get_close_matches(name, declared, 1, cutoff=0.6)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        have = f" It has: {', '.join(declared)}." if declared else ""
        raise ValueError(f"the source has no function {name!r}.{meant}{have}")


def _functions(code, ends=";{"):
    """The functions that C++ text declares or defines for others to call: none of its kernels or helpers."""
    private = r"(?!.*(?:__global__|__device__|\binline\b|\bstatic\b|\btemplate\b|\breturn\b))"
    found = re.findall(rf"^{private}[A-Za-z_][\w:<>,&* \t]*?[ \t&*](\w+)[ \t]*\([^;{{}}()]*\)\s*[{ends}]", code, re.M)
    return list(dict.fromkeys(found))


# ---- errors ---------------------------------------------------------------------------------------------------------

# g++ and clang++: cuda_src:7:12: error: message    nvcc: cuda_src(7): error: message
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc_line>\d+)\)): "
    r"(?:fatal |catastrophic )?error(?: #[\w-]+)?: (?P<message>.*)$",
    re.MULTILINE,
)
_UNDEFINED = re.compile(r"undefined reference to [`'](.*)'|undefined symbol: (\w+)")


def _explained(log, sources, folder):
    """A CompileError from the compilers' log, which is kept in the build folder."""
    kept = folder / "build.log"
    kept.write_text(log)
    errors = []
    for found in _DIAGNOSTIC.finditer(log):
        which, line = Path(found["file"]).name, int(found["line"] or found["nvcc_line"])
        if which in sources:  # what is missing at the end is missed on a line behind it
            line = min(line, len(sources[which].rstrip().splitlines()) or 1)
        error = (which, line, found["message"].strip())
        if error not in errors:
            errors.append(error)
    own = [e for e in errors if e[0] in sources]
    parts = [f"{which}, line {line}: {text}\n{_excerpt(sources[which], line)}" for which, line, text in own[:3]]
    if len(own) > 3:
        parts.append(f"... and {len(own) - 3} more errors.")
    if not own:
        undefined = dict.fromkeys(name or _demangled(symbol) for name, symbol in _UNDEFINED.findall(log))
        defined = [name for text in sources.values() for name in _functions(text, ends="{")]
        have = f". They define: {', '.join(defined)}" if defined else ""
        parts = [f"`{name}` is declared and called, but no source defines it{have}" for name in undefined]
    if not parts:
        parts = [f"{file}, line {line}: {text}" for file, line, text in errors[:3]] or log.strip().splitlines()[-5:]
    return CompileError("\n".join([*parts, f"The whole log: {short_path(kept)}"]), own, log)


def _excerpt(source, line, around=2):
    """The lines about `line`, numbered, with an arrow at it."""
    lines = source.splitlines()
    first, last = max(1, line - around), min(len(lines), line + around)
    shown = [f"{'-->' if n == line else '   '} {n:4} | {lines[n - 1]}" for n in range(first, last + 1)]
    return "\n".join(shown)


def _shorten(text):
    """Long folders by short names: what matters in a compile command stands at its ends."""
    import torch

    folders = {
        Path(torch.__file__).parent: "<torch>",
        Path(__file__).parents[1]: "<course>",
        Path(sysconfig.get_path("include")): "<python headers>",
        Path(sys.prefix): "<environment>",
        Path.home(): "~",
    }
    for folder, name in folders.items():
        text = text.replace(str(folder), name)
    return text
