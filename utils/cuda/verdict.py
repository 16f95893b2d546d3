"""NVIDIA's verdict on every CUDA text that the engine compiles: what nvcc rejects is rejected here, in nvcc's words.

While the engine builds a text with the machine's C++ compiler, nvcc compiles it to PTX, which needs no GPU and takes no
longer. A text that nvcc rejects is not built, so it never runs, not even in a trace. The verdict is kept with the
build: loading an earlier one asks no compiler.

nvcc gets the standard and the macros that the real build would get: for `compile_kernel` and whole programs its own
defaults (C++17), for `load_cuda` what torch passes.
"""

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx, extension, gpus, options, toolchain
from utils.cuda.common.cache import hashed
from utils.cuda.common.diagnostics import ACCEPTED
from utils.cuda.common.preprocessor import preprocessor_options
from utils.cuda.common.program import CUDA
from utils.cuda.gpu.split import NotSplit, split

__all__ = ["Judge", "Judged", "on_extension", "on_kernels", "on_program"]

# NVRTC defines __CUDACC_RTC__, and sources leave out their host code by it. nvcc's own headers would not compile with
# it, so nvcc reads this name instead.
_RTC, _RTC_FOR_NVCC = re.compile(r"\b__CUDACC_RTC__\b"), "CUDA_COURSE_RTC"

_INCOMPLETE = re.compile(r"fatal error: .*(?:No such file or directory|file not found)")
_UNDEFINED = re.compile(r'identifier "(?:\w+::)*(\w+)" is undefined')


def on_kernels(source, names, given=()) -> "Judge | None":
    """The judge of a text from which compile_kernel builds the kernels `names` with the options `given`.

    None if this machine has no compiler of NVIDIA's.
    """
    standard = options.standard(given)
    flags = [f"-std={standard}"] if standard else []
    flags += ["-use_fast_math"] if {"--use_fast_math", "-use_fast_math"} & set(given) else []
    text = _RTC.sub(_RTC_FOR_NVCC, source)
    return _judge(text, names, "name", [*flags, f"-D{_RTC_FOR_NVCC}", *preprocessor_options(given)], given)


def on_extension(cuda_src) -> "Judge | None":
    """The judge of load_cuda's `cuda_src`: of its kernels, without what uses torch. None also if they cannot be cut
    from it."""
    if not toolchain.nvcc_candidates():
        return None
    if not (cxx.uses_torch(cuda_src) or cxx.uses_python(cuda_src)):
        return _judge(cuda_src, [], "instances", extension.NVCC_FLAGS)
    try:
        parts = split(cuda_src)
    except NotSplit:
        return None
    return _judge(parts.device, [], "instances", extension.NVCC_FLAGS, cut=frozenset(parts.host_names))


def on_program(program) -> "list[Judge]":
    """The judges of a whole program's CUDA sources (common/program.py); none without a compiler of NVIDIA's."""
    if not toolchain.nvcc_candidates():
        return []
    flags = [f"-arch=compute_{_architecture()}", f"-std={program.standard}", *program.macros]
    flags += [f"-I{folder}" for folder in program.folders]
    return [
        Judge(f'#line 1 "{path}"\n{text}\n', (*flags, f"-I{path.parent}"), frozenset())
        for path, text in program.sources.items()
        if path.suffix in CUDA
    ]


def _judge(text, names, where, flags, given=(), cut=frozenset()):
    if not toolchain.nvcc_candidates():
        return None
    # Without a space before the name, a macro of that name would be a different one.
    # If something is missing at the end of the source, such as a `;`, nvcc reports it on the line after it.
    lines = ['#line 1 "cuda_src"', text, "namespace {}"]
    for number, name in enumerate(names, 1):
        if "<" in name:  # nvcc compiles an instance of a template only if something needs it
            lines.append(f'#line {number} "{where}"')
            lines.append(f"static void* const cuda_course_{number} __attribute__((used)) = (void*)&{name};")
    return Judge(
        "\n".join(lines) + "\n", (f"-arch=compute_{options.architecture(given) or _architecture()}", *flags), cut
    )


def _architecture():
    """The GPU's, or that of the GPU which the CPU engine behaves like."""
    return toolchain.gpu_architecture() if toolchain.device().type == "cuda" else gpus.chosen().capability


class Judge(NamedTuple):
    """nvcc, ready to judge a text."""

    text: str
    flags: tuple[str, ...]
    cut: frozenset[str]  # names that were cut from the text with the host's code: without them there is no verdict

    @property
    def fingerprint(self) -> str:
        """What the verdict depends on besides the source: nvcc is one of these programs. Quick: none of them is run."""
        return _fingerprint(self.flags)

    def beside(self, build: Callable[[], str], place: Path, say) -> str:
        """The log of `build()`, with nvcc judging the text meanwhile, in `place`: nvcc's log if it rejects the text.

        If only the build fails, and nvcc saw the whole text, its log ends in a line that says so. `say` is called with
        nvcc's command.
        """
        __tracebackhide__ = True
        with _running(self, place / "nvcc", say) as rejection:
            log = build()
            rejected = rejection()
        return rejected or (f"{log}\n{ACCEPTED}\n" if log and not self.cut else log)


class Judged:
    """A builder of extensions, with every text that it builds judged by NVIDIA's compiler."""

    def __init__(self, builder):
        self._builder = builder

    def __getattr__(self, name):
        return getattr(self._builder, name)

    def fingerprint(self):
        """What a module depends on besides its sources, NVIDIA's compiler included."""
        return hashed(self._builder.fingerprint(), _fingerprint(extension.NVCC_FLAGS), _architecture())

    def __call__(self, name, cuda_src, cpp_src, funcs, folder, opt, say):
        """Build as the builder does; returns the compilers' log, nvcc's if it rejects the source."""
        __tracebackhide__ = True

        def build():
            __tracebackhide__ = True
            return self._builder(name, cuda_src, cpp_src, funcs, folder, opt, say)

        judge = on_extension(cuda_src)
        return judge.beside(build, folder, say) if judge else build()


def _fingerprint(flags):
    programs = [extension.identity(nvcc) for nvcc in toolchain.nvcc_candidates()]
    return hashed(_own_texts(), flags, programs, toolchain.torch_cuda(), _compiler())


@functools.cache
def _own_texts():
    own = [Path(__file__), Path(split.__code__.co_filename), *cxx.FILES]
    return [path.read_text() for path in own]


def _compiler():
    """The C++ compiler whose headers nvcc reads. It only preprocesses, so nearly any version will do."""
    chosen = os.environ.get("NVCC_CCBIN"), os.environ.get("CXX"), "g++", "clang++"
    return next(filter(None, map(shutil.which, filter(None, chosen))), None)


@contextlib.contextmanager
def _running(judge, folder, say):
    """Run nvcc in `folder`, in the background. Yields a function that waits for it and returns its log if it rejects
    the text, otherwise ''. Leaving early, because the learner interrupts for instance, ends nvcc."""
    folder.mkdir()
    process = _started(judge.text, judge.flags, folder)
    say(shlex.join(process.args))
    try:
        yield lambda: _rejection(process, judge, folder)
    finally:
        _end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _started(text, flags, folder):
    source = folder / "judged.cu"
    source.write_text(text, errors="surrogateescape")
    compiler, home = _compiler(), toolchain.cuda_home()
    command = [str(home / "bin" / "nvcc"), "-ptx", *flags, *(["-ccbin", compiler] if compiler else [])]
    command += ["-allow-unsupported-compiler", str(source), "-o", str(folder / "judged.ptx")]
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    with open(folder / "log", "w") as log:
        # Its own session: nvcc starts further programs, and all of them must end with it.
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def _rejection(process, judge, folder) -> str:
    """Wait for nvcc; its log if it rejects the text. A compiler that rejects an empty text too is no judge.

    What it prints although it accepts the text goes where `cache.build_once` looks for warnings.
    """
    accepted, log = process.wait() == 0, (folder / "log").read_text(errors="replace")
    if accepted:
        with open(folder.parent / "warnings.log", "a") as kept:
            kept.write(log)
        return ""
    if _INCOMPLETE.search(log):  # pip's wheels do not have all of CUDA's headers: the engine's compiler decides
        return ""
    if judge.cut & set(_UNDEFINED.findall(log)) or judge.cut and re.search(r"^instances[(]", log, re.MULTILINE):
        return ""
    if not re.search(r"^(?:cuda_src|name|instances)[(:]", log, re.MULTILINE):
        empty = _started("", judge.flags, folder)
        try:
            if empty.wait():
                return ""
        finally:
            _end(empty)
    return log


def _end(process):
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
