"""NVIDIA's verdict on every CUDA text that the engine compiles: what nvcc rejects is rejected here, in nvcc's words.

While the engine builds a text with the machine's C++ compiler, nvcc compiles its device code, which needs no GPU and
takes no longer. If a host function uses what only the device may, nvcc also reads the text for the host, as in a real
build: only then does it notice. A text that nvcc rejects is not built, so it never runs, not even in a trace. The
verdict is kept with the build: loading an earlier one asks no compiler.

nvcc gets the standard and the macros that the real build would get: for `compile_kernel` its own defaults (C++17), for
`load_cuda` what torch passes. Of a text with torch in it, nvcc gets the device code (gpu/split.py).

Without nvcc, NVRTC judges. It would let device code call any function of the source, so the reader (common/cxx.py)
first makes sure that these are device functions. Without NVRTC, that rule alone is left.
"""

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx, extension, gpus, options, special_functions, toolchain
from utils.cuda.common.cache import hashed
from utils.cuda.common.compilers import explained_limits, started
from utils.cuda.common.diagnostics import ACCEPTED, PTXAS, CompileError, refused
from utils.cuda.common.preprocessor import included, preprocessor_options
from utils.cuda.common.program import CUDA
from utils.cuda.common.targets import target, target_of_text
from utils.cuda.gpu.cubin import NO_HEADER, without_rtc
from utils.cuda.gpu.ptxas import with_source_lines
from utils.cuda.gpu.split import NotSplit, device_code
from utils.ground.errors import ToolchainError

__all__ = ["Judge", "Judged", "on_extension", "on_kernels", "on_program"]

# What torch's headers bring along besides torch, for a text that relies on it.
_WITH_TORCH = """algorithm array atomic cassert cfloat climits cmath cstdint cstdio cstdlib cstring functional iostream
limits map memory mutex numeric optional sstream stdexcept string tuple type_traits unordered_map utility vector
""".split()

# For a text whose kernels use torch's types of 16 bits (gpu/split.py).
_TORCH_NUMBERS = ("c10/util/BFloat16.h", "c10/util/Half.h")

# CUDA's built-in names that the host lacks, or has only with a header.
_OF_DEVICE = re.compile(r"__\w+|atomic[A-Z]\w*|threadIdx|blockIdx|blockDim|gridDim|warpSize|printf|assert")

_DEVICE = {"__device__", "__global__"}
_ONLY_DEVICE = {"__device__", "__constant__"}

# What NVIDIA's compilers say of a name that is not there.
_MISSING = re.compile(
    r'identifier "(?:\w+::)*(\w+)" is undefined|namespace "(\w+)" has no member'
    r'|"(\w+)" is not a (?:template|class)|name followed by "(::)" must be'
)


_OF_HOST = re.compile(r"^cpp_src[:(]", re.MULTILINE)  # a message about the text that nvcc does not see
_OF_LINKER = re.compile(r"ld returned \d|undefined (?:reference|symbol)|multiple definition|duplicate symbol")

# What nvcc printed about texts that it has accepted in this process: it is asked once about all kernels of a text.
_accepted = {}


class Judge(NamedTuple):
    """A text for NVIDIA's compiler to judge."""

    source: str  # the learner's text
    text: str  # what is judged of it
    names: tuple[str, ...]  # kernels; of templates, the instances that are needed
    where: str  # whose lines the names are, in messages
    flags: tuple[str, ...]
    architecture: str
    cut: frozenset[str] = frozenset()  # names that the text lacks because they are the host's or torch's
    headers: tuple[str, ...] = ()  # that the text needs besides those it includes

    @property
    def fingerprint(self) -> str:
        """What the verdict depends on besides the source and the names. Quick: no compiler is run."""
        return _fingerprint(self.flags, self.architecture)

    @property
    def for_host(self) -> bool:
        """Whether nvcc has to read the text for the host, too: it is a program, or a function of the host (or of both)
        uses what only the device may have.

        That takes 0.3 s more, and most functions of the host only launch kernels.
        """
        declared, functions = cxx.declarations(self.text), cxx.functions(self.text)
        texts = {name: {t.text for t in macro.body} for name, macro in cxx.macros(self.text).items()}
        device = _ONLY_DEVICE | {
            name for name, words in texts.items() if _ONLY_DEVICE & words and "__host__" not in words
        }
        # A class is the device's, too, if a method is; an operator is used without its name.
        marked = [d for d in declared if device & {t.text for t in d.tokens} and "__host__" not in d.words]
        of_device = {name for d in marked for name in d.names}
        on_host = [
            f for f in functions if f.defined and ("__host__" in f.words or not (_DEVICE | device) & set(f.words))
        ]
        others = [d for d in declared if d.parameters is None]
        methods = any("__host__" in {t.text for t in d.tokens} for d in others)
        operators = bool(on_host) and any(f.name == "operator" for f in functions if "__host__" not in f.words)
        called = any("__host__" in f.words and f.template for f in on_host)  # with what only the device may call
        lambdas = [d for d in others if {"[", "]", "{", "="} <= {t.text for t in d.tokens}]
        uses = any(t.text in of_device for f in [*on_host, *lambdas] for t in f.tokens)
        built_in = any(_OF_DEVICE.fullmatch(t.text) for f in on_host for t in f.tokens[f.head :])
        return uses or built_in or methods or operators or called or any(f.name == "main" for f in functions)

    def beside(self, build: Callable[[], str], place: Path, say) -> str:
        """The log of `build()`, with NVIDIA's compiler judging the text meanwhile, in `place`: its log if it rejects.

        If only the build fails, and nvcc saw the whole text, its log ends in a line that says so. `say` is called with
        the compiler's command.
        Raises CompileError for device code that calls a function of the host, if nvcc is not there to notice it.
        """
        __tracebackhide__ = True
        if toolchain.nvcc_candidates():
            judged = self._replace(names=tuple(name for name in self.names if "<" in name))
            own = included(self.source, options=preprocessor_options(self.flags))
            smaller = [] if own else special_functions.left_out("\n".join([self.text, *self.flags]))
            key = (judged, self.fingerprint, *own)
            judging = _nvcc_again(place, key) if key in _accepted else _nvcc(self, place / "nvcc", say, key, smaller)
        else:
            _check_calls(self.source)
            if not _has_nvrtc():
                return build()
            judging = _nvrtc(self, place / "nvrtc", say)
        with judging as rejection:
            try:
                log = build()
            except CompileError as error:
                if error.needs_gpu and (rejected := rejection()):  # no GPU of this kind could run it either
                    return PTXAS.sub(rf"cuda_src({error.line}): error: \1", rejected)
                raise
            rejected = rejection()
        if rejected is None:
            return log
        saw_all = not self.cut and not _OF_HOST.search(log) and not _OF_LINKER.search(log)
        return rejected or (f"{log}\n{ACCEPTED}\n" if log and saw_all else log)

    def by_rule(self, build: Callable[[], str]) -> str:
        """The log of `build()`, which asks NVRTC itself: only the rule that NVRTC leaves out is checked first.

        Raises CompileError as `beside` does.
        """
        __tracebackhide__ = True
        _check_calls(self.source)
        return build()


def on_kernels(source, names, given=()) -> Judge:
    """The judge of a text from which compile_kernel builds the kernels `names` with the options `given`."""
    standard = options.standard(given)
    flags = [f"-std={standard}"] if standard else []
    flags += ["-use_fast_math"] if {"--use_fast_math", "-use_fast_math"} & set(given) else []
    architecture = options.architecture(given) or target_of_text(_capability(), source, given)
    text, macro = without_rtc(source)
    flags += [macro, *preprocessor_options(given)]
    return Judge(source, text, tuple(names), "name", tuple(flags), architecture)


def on_extension(cuda_src) -> Judge | None:
    """The judge of load_cuda's `cuda_src`: without the host's code, if it uses torch. None if the kernels do."""
    flags, architecture = tuple(extension.NVCC_FLAGS), target_of_text(_capability(), cuda_src)
    if not (cxx.includes_torch(cuda_src) or cxx.uses_torch(cuda_src) or cxx.uses_python(cuda_src)):
        return Judge(cuda_src, cuda_src, (), "instances", flags, architecture)
    try:
        code = device_code(cuda_src)
    except NotSplit:
        return None
    headers = _TORCH_NUMBERS if code.numbers else ()
    if code.numbers:
        flags += tuple(f"-isystem={folder}" for folder in extension.torch_includes())
    return Judge(cuda_src, code.text, tuple(code.instances), "instances", flags, architecture, code.cut, headers)


def on_program(program) -> list[Judge]:
    """The judges of a whole program's CUDA sources (common/program.py)."""
    flags = [
        f"-std={program.standard}",
        *program.nvcc_flags,
        *program.macros,
        *(f"-I{folder}" for folder in program.folders),
    ]
    if len(program.sources) > 1:
        flags.append("-rdc=true")  # device code of one file may call that of another
    architecture = target(_capability(), *program.sources.values(), *program.headers.values())
    return [
        Judge(text, f'#line 1 "{path}"\n{text}', (), "name", (*flags, f"-I{path.parent}"), architecture)
        for path, text in program.sources.items()
        if path.suffix in CUDA
    ]


class Judged:
    """A builder of extensions, with every text that it builds judged by NVIDIA's compiler."""

    def __init__(self, builder):
        self._builder = builder

    def __getattr__(self, name):
        return getattr(self._builder, name)

    def fingerprint(self):
        """What a module depends on besides its sources, NVIDIA's compiler included."""
        return hashed(self._builder.fingerprint(), _fingerprint(extension.NVCC_FLAGS, _capability()))

    def __call__(self, name, cuda_src, cpp_src, funcs, folder, opt, say):
        """Build as the builder does; returns the compilers' log, nvcc's if it rejects the source."""
        __tracebackhide__ = True

        def build():
            __tracebackhide__ = True
            return self._builder(name, cuda_src, cpp_src, funcs, folder, opt, say)

        judge = on_extension(cuda_src)
        return judge.beside(build, folder, say) if judge else build()


def _capability() -> int:
    """The GPU's, or that of the GPU which the CPU engine behaves like: 90."""
    return toolchain.gpu_architecture() if toolchain.device().type == "cuda" else gpus.chosen().capability


def _fingerprint(flags, architecture) -> str:
    programs = [extension.identity(nvcc) for nvcc in toolchain.nvcc_candidates()]
    return hashed(
        _own_texts(), flags, architecture, programs or _has_nvrtc(), toolchain.torch_cuda(), toolchain.chosen_compiler()
    )


@functools.cache
def _own_texts():
    own = [Path(__file__), Path(device_code.__code__.co_filename), *cxx.FILES]
    return [path.read_text() for path in own]


# ---- nvcc -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _nvcc(judge, folder, say, key, smaller):
    """Run nvcc in `folder`, in the background, with the judge's flags and `smaller`. Yields a function that waits for
    it and returns its log if it rejects the text, '' if it accepts it, None if there is no verdict. Leaving early,
    because the learner interrupts for instance, ends nvcc."""
    folder.mkdir()
    with contextlib.ExitStack() as at_end:
        at_end.callback(shutil.rmtree, folder, ignore_errors=True)

        def start(text, made=()):
            source = folder / "judged.cu"
            source.write_text(text, errors="surrogateescape")
            made = made or ["-cuda" if judge.for_host else "-cubin"]  # for the host, it only writes C++
            process = _started(source, [*made, *judge.flags, *smaller, "-I."], judge.architecture, folder)
            at_end.callback(_end, process)
            return process

        process = start(_for_nvcc(judge))
        say(shlex.join(process.args))
        yield lambda: _nvcc_rejection(process, judge, folder, start, key)


@contextlib.contextmanager
def _nvcc_again(place, key):
    """The same for a text that nvcc has accepted before."""
    yield lambda: _noted(place, _accepted[key])


def _for_nvcc(judge, headers=()) -> str:
    lines = special_functions.ALSO.splitlines()
    lines += [f"#include <{header}>" for header in (*judge.headers, *headers)]
    lines += ["namespace at { using namespace c10; }"] if judge.headers else []  # as in torch's own headers
    # If something is missing at the end of the source, such as a `;`, nvcc reports it on the line after it.
    lines += ['#line 1 "cuda_src"', judge.text, "namespace {}"]
    for number, name in enumerate(judge.names, 1):
        if "<" in name:  # nvcc compiles an instance of a template only if something needs it
            lines.append(f'#line {number} "{judge.where}"')
            lines.append(f"static void* const cuda_course_{number} __attribute__((used)) = (void*)&{name};")
    return "\n".join(lines) + "\n"


def _started(source, flags, architecture, folder):
    compiler, home = toolchain.chosen_compiler(), toolchain.cuda_home()
    # With `-cuda`, `-arch=sm_90a` would mean sm_90.
    command = [str(home / "bin" / "nvcc"), f"-gencode=arch=compute_{architecture},code=sm_{architecture}", *flags]
    command += [*(["-ccbin", compiler] if compiler else []), "-allow-unsupported-compiler"]
    command += ["-Xptxas", "-O0"]  # the machine code is not used
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    with open(folder / "log", "w") as log:
        # Its own session: nvcc starts further programs, and all of them must end with it.
        return started(
            [*command, str(source), "-o", str(folder / "judged.out")],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _end(process):
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _noted(place, log) -> str:
    """Keep what nvcc prints although it accepts a text, where `cache.build_once` looks for warnings."""
    with open(place / "warnings.log", "a") as kept:
        kept.write(log)
    return ""


def _nvcc_rejection(process, judge, folder, start, key) -> str | None:
    """Wait for nvcc; see `_nvcc`."""

    def answer(process):
        status = process.wait()
        log = (folder / "log").read_text(errors="replace")
        return status == 0, explained_limits(log, status) if status else log

    accepted, log = answer(process)
    if not accepted and judge.cut and _missing(log):
        accepted, log = answer(start(_for_nvcc(judge, _WITH_TORCH)))
    if accepted:
        return _noted(folder.parent, _accepted.setdefault(key, log))
    if NO_HEADER.search(log) or judge.cut & _missing(log) or re.search(r"^instances[(]", log, re.MULTILINE):
        return None
    if PTXAS.search(log):
        again = answer(start(_for_nvcc(judge), ["-cubin", "-lineinfo", "-keep", "-keep-dir", str(folder)]))[1]
        log = with_source_lines(again, judge.text.splitlines())
    if not re.search(r"^(?:cuda_src|name)[(:]", log, re.MULTILINE) and not answer(start(""))[0]:
        return None  # a compiler that rejects an empty text, too, is no judge
    return log


def _missing(log) -> set[str]:
    return {name for names in _MISSING.findall(log) for name in names if name}


# ---- without nvcc ---------------------------------------------------------------------------------------------------


def _has_nvrtc() -> bool:
    try:
        return util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False


@contextlib.contextmanager
def _nvrtc(judge, folder, say):
    """The same as `_nvcc` with NVRTC, which is a library: leaving early waits for it."""
    with ThreadPoolExecutor(1) as pool:
        judged = pool.submit(_nvrtc_rejection, judge, folder, say)
        yield judged.result


def _nvrtc_rejection(judge, folder, say) -> str | None:
    """NVRTC's log if it rejects the text, '' if it accepts it, None if there is no verdict."""
    try:
        from utils.cuda.gpu.nvrtc import build, include_folders

        code = device_code(judge.source)
        if code.numbers:
            return None
        given = ["-default-device", f"--gpu-architecture=compute_{judge.architecture}"]
        given += [flag for flag in judge.flags if not flag.startswith("--expt")]
        given += [f"-I{place}" for place in include_folders()]
        folder.mkdir()
        try:
            log = build(code.text, judge.names, folder, given)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        say(f"nvrtc {shlex.join(given)}")
    except (NotSplit, ToolchainError, RuntimeError):  # there is no such library
        return None
    return None if NO_HEADER.search(log) or (code.cut | {"std"}) & _missing(log) else log


def _check_calls(source):
    """Device code calls device functions only. Raises CompileError for a call of another one of the source."""
    __tracebackhide__ = True
    functions = cxx.functions(source)
    marked = [f for f in functions if {"__device__", "__global__"} & set(f.words)]
    unmarked = {f.name for f in functions if "constexpr" not in f.words} - {f.name for f in marked}
    for function in marked:
        if "__host__" in function.words:  # nvcc only warns
            continue
        body = function.tokens[function.head :]
        for before, token, after in zip(body, body[1:], body[2:], strict=False):
            if token.text in unmarked and after.text in ("(", "<") and before.text not in (".", "->"):
                what = f"`{function.name}` runs on the GPU and calls `{token.text}`, a function of the host: mark it "
                raise refused("cuda_src", source, token.line, f"{what}__device__")
