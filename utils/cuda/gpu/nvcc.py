"""Builds extensions for a GPU: kernels by nvcc, without torch's headers, and in parallel the rest by the C++ compiler.

A source with both kernels and torch functions is first cut in two (split.py). What cannot be cut is built unchanged by
torch's load_inline, which takes ten times as long.
"""

import contextlib
import io
import os
import re
import subprocess
from pathlib import Path

from utils.cuda.common import cxx, extension, toolchain
from utils.cuda.common.cache import hashed
from utils.cuda.common.extension import identity
from utils.cuda.common.program import headers_of, is_device_code
from utils.cuda.common.targets import target_of_text
from utils.cuda.gpu.split import NotSplit, Split, split
from utils.cuda.gpu.stock import tools_for_load_inline

__all__ = ["Builder", "cudart_link"]


class Builder:
    """Builds modules for one GPU architecture, by default the current GPU's: 90 is sm_90, or sm_90a for a source that
    needs it.

    Raises ToolchainError if nvcc or the C++ compiler is missing.
    """

    device = "cuda"

    def __init__(self, architecture=None):
        __tracebackhide__ = True
        self.home = toolchain.cuda_home() or toolchain.cuda_toolkit()
        self.architecture = architecture or toolchain.gpu_architecture()

    def fingerprint(self):
        """What a module depends on besides its sources. Quick: nvcc is not asked which compiler it accepts."""
        own = [Path(__file__).with_name(name).read_text() for name in ("nvcc.py", "split.py", "stock.py")]
        own += [path.read_text() for path in cxx.FILES]
        programs = [
            identity(program) for program in (self.home / "bin" / "nvcc", toolchain.chosen_compiler()) if program
        ]
        return hashed(own, extension.fingerprint(), programs, self.architecture)

    def needs(self):
        """The libraries in the cache that a module is loaded with: none."""
        return []

    def expected_seconds(self, cuda_src):
        """About how long a build takes."""
        try:
            self._parts(cuda_src)
            return 5
        except NotSplit:
            return 40

    def __call__(self, name, cuda_src, cpp_src, funcs, folder, opt, say):
        """Build module `name` with the functions `funcs` into `folder`. Returns the compilers' log, empty on success.

        `say` is called with each command that is run, and with the reason if stock load_inline is needed.
        """
        __tracebackhide__ = True
        toolchain.cuda_toolkit()
        try:
            parts = self._parts(cuda_src)
            log = self.quick(name, parts, cpp_src, funcs, folder, opt, say)
            if not log or not (why := _cut_fault(log, parts, cuda_src)):
                return log
        except NotSplit as reason:
            why = str(reason)
        say(f"built by stock load_inline, because {why}")
        return self.stock(name, cuda_src, cpp_src, funcs, folder, opt, say)

    def _parts(self, cuda_src):
        """The texts for nvcc and for the C++ compiler. Raises NotSplit if the text cannot be cut."""
        if cxx.uses_torch(cuda_src) or cxx.uses_python(cuda_src):
            if any(map(is_device_code, headers_of(cuda_src).values())):
                raise NotSplit("a header that it includes has device code")
            return split(cuda_src)
        return Split(cuda_src, "", [], set())

    def quick(self, name, parts, cpp_src, funcs, folder, opt, say):
        """Run nvcc and the C++ compiler in parallel. Returns the log, empty if all succeed."""
        texts = {"cpp_src": cpp_src}
        if parts.host:
            texts = {"cuda_src": parts.host, **texts}
        (folder / "cuda.cu").write_text(f'#line 1 "cuda_src"\n{parts.device}\n')
        own = ["cuda_course/launch.h", *(["cuda_course/halves.h"] if re.search("half|bfloat16", parts.host) else [])]
        (folder / "main.cpp").write_text(extension.main_source(name, texts, funcs, own))
        compiler, real = toolchain.host_compiler(self.home), target_of_text(self.architecture, parts.device)
        device = [
            str(self.home / "bin" / "nvcc"),
            *extension.NVCC_FLAGS,
            f"-gencode=arch=compute_{real},code=sm_{real}",
        ]
        device += ["-ccbin", compiler, "-Xcompiler", "-fPIC", f"-I{os.curdir}"]
        device += ["-c", str(folder / "cuda.cu"), "-o", str(folder / "cuda.o")]
        # Most of the host's build time goes into headers: optimising code that runs once per launch only adds to it.
        host = [compiler, *extension.torch_flags(), "-O1" if opt else "-O0", "-Wno-attributes"]
        host += ["-Werror=return-type", "-iquote", os.curdir, "-isystem", str(self.home / "include")]
        link = [compiler, "-shared", str(folder / "cuda.o"), str(folder / "main.o")]
        link += [*extension.torch_libraries(compiler, "c10_cuda", "torch_cuda"), *cudart_link(folder, self.home)]
        link += ["-o", str(folder / f"{name}.so")]

        def build(more):
            compile_host = [*host, *more.get("main", []), "-c", str(folder / "main.cpp"), "-o", str(folder / "main.o")]
            log = extension.run([device, compile_host], say, folder / "warnings.log")
            return log or _join_instances(folder, parts.kernels, say) or extension.run([link], say)

        return extension.compiled(build, say, {"main": "\n".join(texts.values())})

    def stock(self, name, cuda_src, cpp_src, funcs, folder, opt, say):
        """Build with torch's load_inline. Returns the log, empty if it succeeds."""
        from torch.utils.cpp_extension import load_inline

        flags = ["-O2"] if opt else []
        cuda = ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]
        cuda += ['#line 1 "cuda_src"', cuda_src]
        cpp = ["#include <torch/extension.h>", '#line 1 "cpp_src"', cpp_src]
        kept = io.StringIO()
        try:
            with (
                tools_for_load_inline(target_of_text(self.architecture, cuda_src)),
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
                    extra_include_paths=[os.getcwd()],
                    extra_ldflags=cudart_link(folder, self.home),
                    build_directory=str(folder),
                    no_implicit_headers=True,
                )
        except (RuntimeError, ImportError) as error:
            return f"{error}\n{kept.getvalue()}"
        finally:  # ninja's output does not reach a notebook's cell, but afterwards ninja can list what it ran
            ran = subprocess.run(["ninja", "-t", "commands"], cwd=folder, capture_output=True, text=True)
            say(ran.stdout)
        (folder / "warnings.log").write_text(kept.getvalue())
        return ""


def _cut_fault(log, parts, cuda_src):
    """Why errors may come from cutting the source rather than from the source; empty if it is certainly the source."""
    if not parts.host:
        return ""
    if re.search(r"^(?:instances|.*[/\\]instances)[:(]", log, re.MULTILINE):
        return "a template kernel's arguments mean something only where it is launched"
    if found := re.search(r"undefined (?:reference|symbol).*|(?:multiple definition|duplicate symbol).*", log):
        return f"the two parts do not fit: {found[0]}"
    for name in re.findall(r'identifier "(?:\w+::)*(\w+)" is undefined', log):
        if name in parts.host_names:
            return f"a kernel needs {name}, which is a function of the host"
    of_cuda = {token.line for token in cxx.tokens(cuda_src) if re.fullmatch(r"<<<|cuda[A-Z]\w*|__\w+__", token.text)}
    for number, message in re.findall(r"^cuda_src:(\d+):\d+: error: (.*)", log, re.MULTILINE):
        misspelt = re.search(r"['‘](?!cuda|__)\w+['’] was not declared", message)
        if not misspelt and int(number) in of_cuda:
            return f"a C++ compiler reads line {number} otherwise than nvcc"
    return ""


def _join_instances(folder, kernels, say):
    """Let the linker see the instances of template kernels that the host calls: current versions of nvcc hide them.

    Returns the log, empty unless nvcc did not make one of them.
    """
    if not kernels:
        return ""
    called = _symbols(folder / "main.o", "U")
    named = re.compile("|".join(f"{len(name)}{name}I" for name in kernels))
    instances = sorted(symbol for symbol in called if named.search(symbol))
    if not instances:
        return ""
    if missing := [symbol for symbol in instances if symbol not in _symbols(folder / "cuda.o", "tTwWvV")]:
        return f"undefined symbol: {missing[0]}"
    seen = [f"--globalize-symbol={symbol}" for symbol in instances]
    return extension.run([["objcopy", *seen, str(folder / "cuda.o")]], say)


def _symbols(path, kinds):
    """The names in an object file whose kind, a letter that nm's manual explains, is one of `kinds`."""
    listed = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(rf"^[0-9a-f ]*[{kinds}] (\S+)$", listed, re.MULTILINE))


def cudart_link(folder, home):
    """How the linker finds the toolkit's runtime. The pip wheel has only libcudart.so.13: a symlink makes it found."""
    library = toolchain.cudart(home)
    if library is None:
        return ["-lcudart"]
    if library.name != "libcudart.so":
        (folder / "libcudart.so").unlink(missing_ok=True)
        (folder / "libcudart.so").symlink_to(library)
        return [f"-L{folder}", "-lcudart"]
    return [f"-L{library.parent}", "-lcudart"]
