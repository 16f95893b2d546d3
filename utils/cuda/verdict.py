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
import re
import shlex
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx, extension, gpus, options, toolchain
from utils.cuda.common.cache import hashed
from utils.cuda.common.preprocessor import preprocessor_options
from utils.cuda.common.program import CUDA
from utils.cuda.common.targets import target, target_of_text
from utils.cuda.gpu.cubin import NO_HEADER, without_rtc
from utils.ground.errors import ToolchainError

# What judges is loaded where a text is judged: loading an earlier build must be quick.

__all__ = ["Judge", "Judged", "on_extension", "on_kernels", "on_program"]


# CUDA's built-in names that the host lacks, or has only with a header.
_OF_DEVICE = re.compile(r"__\w+|atomic[A-Z]\w*|threadIdx|blockIdx|blockDim|gridDim|warpSize|printf|assert")

_DEVICE = {"__device__", "__global__"}
_ONLY_DEVICE = {"__device__", "__constant__"}
_BUILT_IN = {"printf": "cstdio", "assert": "cassert"}


_LACKING = "the CPU engine does not have"  # missing.py says so
_OF_HOST = re.compile(r"^cpp_src[:(]", re.MULTILINE)  # a message about the text that nvcc does not see
# A kernel's name that nvcc, which compiles all of them, is not asked about.
_OF_NAME = re.compile(r"^name:\d+:\d+: error: (?:'.*' was not declared|.*overloaded function)", re.MULTILINE)
# What nvcc leaves to the linker, and to the host's compiler, to which `extern __device__` is a definition.
_OF_OTHERS = re.compile(
    r"ld returned \d|undefined (?:reference|symbol)|(?:multiple |re)definition|duplicate symbol|in a template that"
)

# What nvcc says of a launch that passes a lambda, or an object of another type which a function of the host declares.
_OF_HOST_FUNCTION = (
    'A type defined inside a __host__ function ("{}") cannot be used in the template argument type of a __global__ '
    "function template instantiation"
)


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
    unread: frozenset[str] = frozenset()  # template kernels whose instances only a build shows
    lines: tuple[str, ...] = ()  # C++ that needs the instances which a build has shown
    is_program: bool = False  # nobody else includes anything for it
    whole: bool = False  # whether it is read for the host in any case

    @property
    def fingerprint(self) -> str:
        """What the verdict depends on besides the source and the names. Quick: no compiler is run."""
        return _fingerprint(self.flags, self.architecture)

    @property
    def for_host(self) -> bool:
        """Whether nvcc has to read the text for the host, too: it is a program, a function of the host (or of both)
        uses what only the device may have, or an `#if` asks which of the two it is for.

        That takes 0.3 s more, and most functions of the host only launch kernels.
        """
        if self.whole:
            return True
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
        lines = ([t.text for t in line] for line in cxx.directives(self.text))
        asks = any("__CUDA_ARCH__" in line and "define" not in line for line in lines)
        return asks or uses or built_in or methods or operators or called or any(f.name == "main" for f in functions)

    @property
    def for_kernels(self) -> list[str]:
        """nvcc's flags for what a kernel may use without a header, unless the host uses it, too: NVRTC has it built in,
        and so has nvcc where it reads a text for the device."""
        if self.is_program:
            return []
        host = [f for f in cxx.functions(self.text) if not _DEVICE & {*f.words}]
        used = {token.text for function in host for token in function.tokens}
        return [f"-include={header}" for name, header in _BUILT_IN.items() if name not in used]

    def beside(self, build: Callable[[], str], place: Path, say) -> str:
        """The log of `build()`, with NVIDIA's compiler judging the text meanwhile, in `place`: its log if it rejects.

        If only the build fails, and nvcc saw the whole text, its log ends in a line that says so. `say` is called with
        the compiler's command.
        Raises CompileError for device code that calls a function of the host, if nvcc is not there to notice it.
        """
        __tracebackhide__ = True
        from utils.cuda.common import calls
        from utils.cuda.common.diagnostics import ACCEPTED, PTXAS, CompileError
        from utils.cuda.gpu.judging import nvcc_as_judge

        if toolchain.nvcc_candidates():
            judging = nvcc_as_judge(self, place, say)
        else:
            calls.check_device(self.source)
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
            # What the engine lacks is said at once: nvcc takes 10 s to read Thrust.
            rejected = None if _LACKING in log else rejection()
        if rejected is None:
            return log
        saw_all = not self.cut and not any(words.search(log) for words in (_OF_HOST, _OF_OTHERS, _OF_NAME))
        if log and not rejected and saw_all and not self.for_host and toolchain.nvcc_candidates():
            with nvcc_as_judge(self._replace(whole=True), place, say) as rejection:
                rejected = rejection()
        return rejected or (f"{log}\n{ACCEPTED}\n" if log and saw_all else log)

    def again(self, library: Path, place: Path, say) -> str:
        """The log of nvcc if it rejects an instance of a kernel in `unread` that a built library has, otherwise ""."""
        from utils.cuda.cpu.instances import instances
        from utils.cuda.gpu.judging import nvcc_as_judge

        found = instances(library, self.unread) if self.unread and toolchain.nvcc_candidates() else []
        for each in found:
            if each.local:
                line = next((at.line for at in cxx.launches(self.source) if at.kernel == each.kernel), 1)
                return f"cuda_src({line}): error: {_OF_HOST_FUNCTION.format(each.local)}\n"
        if not found:
            return ""
        shown = self._replace(names=(), lines=tuple(each.line for each in found))
        with nvcc_as_judge(shown, place, say) as rejection:
            return rejection() or ""

    def by_rule(self, build: Callable[[], str]) -> str:
        """The log of `build()`, which asks NVRTC itself: only the rule that NVRTC leaves out is checked first.

        Raises CompileError as `beside` does.
        """
        __tracebackhide__ = True
        from utils.cuda.common import calls

        calls.check_device(self.source)
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
    """The judge of load_cuda's `cuda_src`: without the host's code, if it uses torch. None if the kernels do.

    Raises CompileError for what nvcc would refuse in the host's code, as far as `calls.check_host` notices it.
    """
    __tracebackhide__ = True
    from utils.cuda.common import calls
    from utils.cuda.gpu.split import NotSplit, device_code

    flags, architecture = tuple(extension.NVCC_FLAGS), target_of_text(_capability(), cuda_src)
    if not (cxx.includes_torch(cuda_src) or cxx.uses_torch(cuda_src) or cxx.uses_python(cuda_src)):
        return Judge(cuda_src, cuda_src, (), "instances", flags, architecture)
    calls.check_host(cuda_src)
    try:
        code = device_code(cuda_src)
    except NotSplit:
        return None
    if code.headers:
        flags += tuple(f"-isystem={folder}" for folder in extension.torch_includes())
    return Judge(
        cuda_src,
        code.text,
        tuple(code.instances),
        "instances",
        flags,
        architecture,
        code.cut,
        code.headers,
        code.unread,
    )


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
        Judge(
            text, f'#line 1 "{path}"\n{text}', (), "name", (*flags, f"-I{path.parent}"), architecture, is_program=True
        )
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
        if not judge:
            return build()
        return judge.beside(build, folder, say) or judge.again(folder / f"{name}.so", folder, say)


def _capability() -> int:
    """The GPU's, or that of the GPU which the CPU engine behaves like: 90."""
    return toolchain.gpu_architecture() if toolchain.on_gpu() else gpus.chosen().capability


def _fingerprint(flags, architecture) -> str:
    programs = [extension.identity(nvcc) for nvcc in toolchain.nvcc_candidates()]
    return hashed(
        _own_texts(), flags, architecture, programs or _has_nvrtc(), toolchain.torch_cuda(), toolchain.chosen_compiler()
    )


@functools.cache
def _own_texts():
    judges = ("common/calls", "gpu/split", "gpu/judging", "gpu/host_pass", "gpu/ptxas", "cpu/instances")
    ours = [__file__, *(Path(__file__).parent / f"{judge}.py" for judge in judges)]
    return [Path(file).read_text() for file in (*ours, *cxx.FILES)]


# ---- without nvcc ---------------------------------------------------------------------------------------------------


def _has_nvrtc() -> bool:
    try:
        return util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False


@contextlib.contextmanager
def _nvrtc(judge, folder, say):
    """The same as `nvcc_as_judge` with NVRTC, which is a library: leaving early waits for it."""
    with ThreadPoolExecutor(1) as pool:
        judged = pool.submit(_nvrtc_rejection, judge, folder, say)
        yield judged.result


def _nvrtc_rejection(judge, folder, say) -> str | None:
    """NVRTC's log if it rejects the text, '' if it accepts it, None if there is no verdict."""
    from utils.cuda.gpu.judging import missing
    from utils.cuda.gpu.split import NotSplit, device_code

    try:
        from utils.cuda.gpu.nvrtc import build, include_folders

        code = device_code(judge.source)
        if code.headers:
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
    return None if NO_HEADER.search(log) or (code.cut | {"std"}) & missing(log) else log
