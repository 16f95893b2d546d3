"""Compile translated CUDA sources into a Python extension (load_cuda) or a library of one kernel."""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from utils.cuda.common import cxx, extension, gpus, preprocessor
from utils.cuda.common.cache import contents, hashed, hashed_files
from utils.cuda.common.extension import identity
from utils.cuda.common.options import standard
from utils.cuda.common.program import CUDA, headers_of, is_device_code
from utils.cuda.common.toolchain import is_clang
from utils.cuda.cpu import constructors, guard, launch_bounds, library, torch_places
from utils.cuda.cpu.placed import INCLUDE, inside, place, placed_headers, shared_in, translated
from utils.cuda.cpu.plain_macros import with_plain_macros
from utils.cuda.cpu.precompiled import KERNEL, TORCH, binding_headers, kernel_headers, missed_by, torch_headers
from utils.cuda.cpu.ptx.headers import last_headers
from utils.cuda.cpu.recorded import recorded_flags
from utils.ground.system import cxx_compiler

__all__ = [
    "Builder",
    "build_kernels",
    "build_program",
    "expected_seconds",
    "kernel_fingerprint",
    "needs",
]

_HERE = Path(__file__).parent

_HEADERS_OF = [Path(preprocessor.__file__), Path(headers_of.__code__.co_filename)]  # which headers a source includes
# nvcc judges every text, so here a compiler only has to accept what nvcc accepts. A function may end without its
# `return`: what g++ and clang++ then make of it must not run on into the function behind it.
_AS_NVCC = ["-Wno-narrowing", "-fno-finite-loops"]  # nor may a compiler leave out a loop because it might not end
_AS_NVCC_GCC = ["-fpermissive", "-fsanitize=unreachable"]  # of the two, nothing but a `return` that is missing
_AS_NVCC_GCC += ["-fno-builtin-malloc", "-fno-allocation-dce"]  # unused memory counts too, until there is none left
# Otherwise a kernel of which nothing is left but an access through a null pointer would not be called at all.
_AS_NVCC_GCC += ["-fno-ipa-modref"]
_AS_NVCC_GCC += ["-fno-ipa-icf"]  # of two kernels with the same body, each has its own address, lines and limits
_AS_NVCC_CLANG = ["-fno-strict-return", "-Wno-c++11-narrowing"]
# An overrun of a local array ends the kernel: where its function returns, or in the pages around the stack. With
# _FORTIFY_SOURCE, which Ubuntu's compilers define by themselves, an overrun by `memcpy` would end Python.
_CHECKED_STACK = ["-fstack-protector-strong", "-fstack-clash-protection", "-U_FORTIFY_SOURCE"]
# For device code. A function that may be replaced when the library is loaded would not be inlined; CUDA's math
# functions never set errno. What is used before it has a value becomes a CompileWarning (diagnostics.py).
_DEVICE_FLAGS = ["-O3", "-fno-semantic-interposition", "-fno-math-errno"]
_DEVICE_FLAGS += ["-Wuninitialized", "-Wno-maybe-uninitialized"]  # the latter is often wrong
# So does the use of a temporary, or a variable of an inner scope, that has ended. g++ 11 has no such warning.
_DANGLING = '#if __GNUC__ >= 12 && !defined(__clang__)\n#pragma GCC diagnostic warning "-Wdangling-pointer"\n#endif'
# Every access in the source must be seen as written: so the compiler calls a hook at each access and each step, and
# neither splits, merges nor moves them. The hooks are ours (trace/hooks.cpp): no sanitizer is linked.
_HOOKS = ["-fsanitize=thread", "-fsanitize-coverage=trace-pc", "-fno-semantic-interposition", "-fno-unroll-loops"]
_HOOKS += ["-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"]  # include/cuda_on_cpu/traced_copies.h
_HOOKS_GCC = ["-fno-tree-sra", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-tree-sink"]
_HOOKS_GCC += ["-fno-tree-tail-merge", "-fno-tree-loop-distribute-patterns", "-fno-crossjumping"]
_HOOKS_GCC += ["-fno-thread-jumps", "-fno-reorder-blocks", "-fno-reorder-blocks-and-partition"]
# Otherwise `while (i < n) out[i] = 1;` becomes a loop without a step, which calls no hook and cannot be stopped.
_HOOKS_GCC += ["-fno-tree-loop-im"]
# A local array has its place in the frame for itself: a pointer to one whose `{ }` has ended leads to nothing else.
_HOOKS_GCC += ["-fstack-reuse=none"]
_HOOKS_GCC += ["-fno-schedule-insns2"]  # an instruction that is moved may get the line of its new neighbours
# g++ checks a type's last array only if told to.
_STRICT_GCC = "-fsanitize=bounds-strict"
_HOOKS_CLANG = ["-fno-vectorize", "-fno-slp-vectorize", "-mllvm", "-tsan-instrument-read-before-write=1"]
_HOOKS_CLANG += ["-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-no-stack-coloring"]
# A local variable without a value holds a pattern: most declarations get one by themselves (unset_locals.py), and the
# compiler's is for the others. A trace recognises both where they are stored (trace/unset.cpp).
# g++ 13's propagation of constants would still treat it as undefined: `found ? sum : 0` would always be 0.
# Nor may g++ drop what was stored in a variable before its constructor runs: members that this does not set keep it.
_SET_LOCALS, _SET_LOCALS_GCC = "-ftrivial-auto-var-init=pattern", ["-fno-tree-ccp", "-fno-lifetime-dse"]
_TRACED_FLAGS = ["-O2", "-g1", "-gdwarf-4", "-DCUDA_ON_CPU_TRACE", "-fsanitize=bounds,alignment,object-size"]
# Numbers that C++ leaves undefined (runtime/numbers.cpp). A recording has none of the checks, which would be steps of
# their own.
_NUMBERS = ["-fsanitize=float-cast-overflow,shift-exponent"]
# Where a source says `volatile`: the lanes of a warp make such accesses in step (runtime/in_step.cpp).
_IN_STEP_GCC = ["-DCUDA_ON_CPU_IN_STEP", "--param=tsan-distinguish-volatile=1"]
_IN_STEP_CLANG = ["-DCUDA_ON_CPU_IN_STEP", "-mllvm", "-tsan-distinguish-volatile=1"]


def kernel_fingerprint(traced=False) -> str:
    """What the library of a kernel depends on besides its source: the engine's own files, the compiler, and the
    architecture of the GPU that the engine behaves like."""
    return hashed(_engine_fingerprint(traced), gpus.chosen().capability)


@functools.cache
def _engine_fingerprint(traced) -> str:
    own = [hashlib.sha256(contents(path)).digest() for path in (*sorted(_HERE.glob("*.py")), *_HEADERS_OF, *cxx.FILES)]
    return hashed(library.fingerprint(), hashed_files(_HERE / "ptx", (".py",)), own, identity(_compiler(traced)))


def _compiler(traced) -> str:
    """The path of $CXX. Without it, g++ comes first for traces: clang++ copies a struct in parts, or calls memcpy."""
    chosen = cxx_compiler()
    return chosen if os.environ.get("CXX") or not traced else shutil.which("g++") or chosen


def _traced_link(compiler) -> list[str]:
    """What to tell the linker. clang++ copies structs by calls to memcpy, which it does not instrument: the runtime's
    own are called instead."""
    wraps = is_clang(compiler) and sys.platform == "linux"
    return ["-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset"] if wraps else []


@functools.cache
def _sets_locals(compiler) -> bool:
    """Whether the compiler has the option that fills local variables which have no value: g++ 11 lacks it."""
    asked = [compiler, _SET_LOCALS, "-E", "-x", "c++", os.devnull]
    return subprocess.run(asked, capture_output=True).returncode == 0


def _device_flags(compiler, sources, traced=False, optimized=True, recorded=False):
    """The flags for device code in these texts: recorded (and traced), traced, fast, or quickly compiled."""
    clang, in_step = is_clang(compiler), any(map(cxx.uses_volatile, sources))
    flags = _AS_NVCC + (_AS_NVCC_CLANG if clang else _AS_NVCC_GCC) + _CHECKED_STACK
    from utils.cuda.cpu.array_members import may_be_longer
    from utils.cuda.cpu.casts import casts_pointers
    from utils.cuda.cpu.local_arrays import has_local_arrays

    if not traced and any(map(has_local_arrays, sources)):
        flags.append("-DCUDA_ON_CPU_LOCAL_ARRAYS")
    if not traced and any(map(casts_pointers, sources)):
        flags.append("-fsanitize=alignment")
    level = _TRACED_FLAGS if traced else _DEVICE_FLAGS if optimized else ["-O0"]
    flags += recorded_flags(level) if recorded else [*level, *_NUMBERS]
    if traced or in_step:
        flags += _HOOKS + (_HOOKS_CLANG if clang else _HOOKS_GCC)
    if in_step:
        flags += ["-O2" if (traced or optimized) and not recorded else "-O0"]
        flags += _IN_STEP_CLANG if clang else _IN_STEP_GCC
    if traced and _sets_locals(compiler):
        flags += [_SET_LOCALS] if clang else [_SET_LOCALS, *_SET_LOCALS_GCC]
    if traced and not clang and not any(map(may_be_longer, sources)):
        flags.append(_STRICT_GCC)
    # Without the last, g++ merges what has the same name in two libraries: two versions of a learner's kernel.
    return flags if clang else [*flags, "-fno-gnu-unique"]


def _preamble():
    """Lines behind the engine's headers: warnings, what __CUDA_ARCH__ is in device code, and the GPUs built for."""
    arch = 10 * gpus.chosen().capability
    architecture = ["#undef CUDA_ON_CPU_ARCH", f"#define CUDA_ON_CPU_ARCH {arch}"]
    return [_DANGLING, *architecture, f"#define __CUDA_ARCH_LIST__ {arch}"]


def build_kernels(source, names, folder, traced=False, options=(), say=print, recorded=False) -> str:
    """Compile the kernels `names` of CUDA C++ text into `folder/kernel.so`; the compiler's log, empty on success.

    A name may be an instance of a template. If `traced`, every access is reported to the runtime, and the library is
    `folder/traced.so`; if it is `recorded` too (recorded.py), `folder/recorded.so`. Host code under `#ifndef
    __CUDACC_RTC__` is left out, as by NVRTC. Of `options`, which are NVRTC's, those for macros and include folders
    apply here. The library exports what include/cuda_on_cpu/kernel.h defines. Raises CompileError for a source that
    cannot be translated for the CPU.
    """
    __tracebackhide__ = True
    stem = "recorded" if recorded else "traced" if traced else "kernel"
    macros, others = preprocessor.own_macros(preprocessor.preprocessor_options(options))
    own, places = placed_headers([source], folder, options, traced, host=False)
    headers = (*KERNEL, *last_headers([source, *own]))
    code = [*(f"#include <{header}>" for header in headers), *_preamble(), *macros]
    code += ["#define __CUDA_ARCH__ CUDA_ON_CPU_ARCH", '#line 1 "cuda_src"']
    code.append(translated("cuda_src", source, traced, host=False, elsewhere=shared_in(own)))
    # If something is missing at the end of the source, such as a `;`, a compiler reports it on the line after it.
    code += ["namespace {}", '#line 1 "name"']
    bounded = launch_bounds.bounded(cxx.declared_kernels(with_plain_macros(source)))
    for number, name in enumerate(names):
        bounds = launch_bounds.argument(name, bounded) or "nullptr"
        code.append(f"CUDA_ON_CPU_KERNEL({number}, ({cxx.address(source, name)}), {bounds}, {name})")
    (folder / "cuda.cu").write_text(source)
    (folder / f"{stem}.cpp").write_text("\n".join(code) + "\n")
    compiler, built = _compiler(traced), folder / f"{stem}.so"
    gnu = (standard(options) or "c++17").replace("c++", "gnu++")  # C++17 is nvcc's own default
    flags = [
        *library.COMMON_FLAGS,
        f"-std={gnu}",
        *places,
        *_device_flags(compiler, [source, *own], traced, recorded=recorded),
    ]
    flags += ["-D__CUDACC_RTC__", *others, "-iquote", os.curdir]  # as NVRTC
    whole = ["-Wl,-z,defs"] if sys.platform == "linux" else []  # report undefined names now, not on loading
    whole += _traced_link(compiler) if traced else []
    link = [compiler, "-shared", *whole, str(folder / f"{stem}.o"), *library.link_flags(recorded), "-o", str(built)]

    def build(first):
        compiled = [compiler, *flags, *first, "-c", str(folder / f"{stem}.cpp"), "-o", str(folder / f"{stem}.o")]
        return library.compile_and_link([compiled], link, folder, say)

    usual = not (is_clang(compiler) or options or places or recorded or any(map(cxx.uses_volatile, [source, *own])))
    first = kernel_headers(compiler, flags) if usual else []
    log = build(first)
    log = build([]) if first and missed_by(log) else log
    constructors.check(source, built, "kernel")
    return log


class Builder:
    """Builds extensions for the CPU engine; if `traced`, every access of their kernels is reported to the runtime, and
    if `recorded` too, they can be played (recorded.py).

    utils/cuda/gpu/nvcc.py has the counterpart for a GPU.
    """

    device = "cpu"

    def __init__(self, traced=False, recorded=False):
        self.traced, self.recorded = traced, recorded

    def fingerprint(self):
        """What a module depends on besides its sources: the engine's own files, the compiler, torch and Python."""
        return hashed(kernel_fingerprint(self.traced), self.traced, self.recorded, extension.fingerprint())

    def needs(self):
        """The libraries in the cache that a module is loaded with."""
        return needs()

    def expected_seconds(self, cuda_src):
        """About how long a build takes."""
        return 2 + expected_seconds()

    def __call__(self, name, cuda_src, cpp_src, funcs, folder, opt, say):
        """Build module `name` with the functions `funcs` into `folder`; returns the compilers' log, empty on success.

        `say` is called with each command that is run. Raises CompileError for a source that cannot be translated for
        the CPU.
        """
        __tracebackhide__ = True
        with guard.building():
            log = _build_extension(name, cuda_src, cpp_src, funcs, folder, opt, self.traced, self.recorded, say)
        constructors.check(cuda_src, folder / f"{name}.so", "extension")
        return log


def _build_extension(name, cuda_src, cpp_src, funcs, folder, opt, traced, recorded, say):
    """The folder receives the sources as given (`cuda.cu`), translated (`cuda.cpp`) and with the binding (`main.cpp`).

    The module is `folder/name.so`; if `traced`, torch's allocations are reported to the runtime too, on request
    (trace/extension.py). Both sources are compiled in parallel.
    """
    __tracebackhide__ = True
    (folder / "cuda.cu").write_text(cuda_src)
    own, places = placed_headers([cuda_src, cpp_src], folder, traced=traced)
    uses_python, uses_torch = cxx.uses_python(cuda_src), cxx.uses_torch(cuda_src) or cxx.includes_torch(cuda_src)
    headers = [*["cuda_course/binding.h"] * uses_python, *(TORCH if uses_torch else TORCH[:1])]
    headers += last_headers([cuda_src, *own])
    code = translated("cuda_src", cuda_src, traced, elsewhere=shared_in(own))
    binding = translated("cpp_src", cpp_src, kernels=False)
    headers += [torch_places.HEADER] * torch_places.has_places(code)
    device_code = [*(f"#include <{header}>" for header in headers), *_preamble()]
    device_code += [f"#define TORCH_EXTENSION_NAME {name}", '#line 1 "cuda_src"', code]
    (folder / "cuda.cpp").write_text("\n".join(device_code) + "\n")
    includes = ["cuda_on_cpu/traced_allocator.h"] if traced else []
    includes += [torch_places.HEADER] * torch_places.has_places(binding)
    host_code = extension.main_source(name, {"cpp_src": binding}, funcs, includes)
    (folder / "main.cpp").write_text(host_code)

    compiler = _compiler(traced)
    device_flags = _device_flags(compiler, [cuda_src, *own], traced, opt, recorded)
    device_flags += [flag for flag in extension.NVCC_FLAGS if flag.startswith("-D")]
    parts = {"cuda": device_flags, "main": ["-O1" if opt else "-O0", "-DCUDA_ON_CPU_WITHOUT_DEVICE"]}
    # The engine's headers come first. A host function that forgets to return its tensor would end Python.
    flags = [f"-I{INCLUDE}", *places, "-iquote", os.curdir, *extension.torch_flags(), "-Werror=return-type"]
    link = [compiler, "-shared", str(folder / "cuda.o"), str(folder / "main.o"), *library.link_flags(recorded)]
    link += _traced_link(compiler) if traced else []
    link += [*extension.torch_libraries(compiler), "-o", str(folder / f"{name}.so")]

    usual = opt and not (is_clang(compiler) or places)
    kept = {"main": binding_headers} if usual and not cxx.uses_python(cpp_src) else {}
    if usual and uses_torch and not (uses_python or recorded or cxx.uses_volatile(cuda_src)):
        kept["cuda"] = torch_headers

    def build(more, kept=kept):
        commands, kept = [], {part: headers for part, headers in kept.items() if part not in more}
        for part, level in parts.items():
            first = kept[part](compiler, [*flags, *level]) if part in kept else more.get(part, [])
            command = [compiler, *flags, *level, *first, "-c", str(folder / f"{part}.cpp")]
            commands.append([*command, "-o", str(folder / f"{part}.o")])
        log = library.compile_and_link(commands, link, folder, say)
        return build(more, kept={}) if kept and missed_by(log) else log

    return extension.compiled(build, say, {"cuda": cuda_src, "main": cpp_src})


# NVIDIA's libraries whose functions the engine's runtime provides, as far as it has them.
_IN_RUNTIME = re.compile(r"cuda|cudart(_static)?|cudadevrt|cublas|cublasLt|nvToolsExt")
# A program's own start: before its `main`, the runtime prepares for a process that is not Python.
_START = """extern "C" void cuda_on_cpu_program_begins(const char*);
__attribute__((constructor)) static void begin() { cuda_on_cpu_program_begins("%s"); }
"""


def build_program(program, folder, traced=False, say=print) -> str:
    """Compile a whole program (common/program.py) into `folder/program`; the compilers' log, empty on success.

    `folder/source` receives its files under their own paths, translated where they are CUDA, so they find each other
    as before. Raises CompileError for a source that cannot be translated for the CPU.
    """
    root, compiler = folder / "source", _compiler(traced)
    (folder / "start.cpp").write_text(_START % extension.torch_library())
    texts, elsewhere = program.headers | program.sources, shared_in(program.headers.values())
    for path, text in texts.items():
        is_cuda = path.suffix in CUDA or is_device_code(text)
        place(root, path, text, is_cuda, traced, whole=len(program.sources) == 1, elsewhere=elsewhere)
    standard = program.standard.replace("c++", "gnu++") if program.standard.startswith("c++") else program.standard
    macros, others = preprocessor.own_macros(program.macros)
    (folder / "macros.h").write_text("\n".join([*_preamble(), *macros]) + "\n")
    flags = [f"-std={standard}", *library.COMMON_FLAGS, *others, *program.host_flags]
    flags += [f"-I{place}" for original in program.folders for place in (inside(root, original), original)]
    levels = {"cuda": _device_flags(compiler, texts.values(), traced), "host": ["-O2"]}
    commands = [[compiler, "-c", str(folder / "start.cpp"), "-o", str(folder / "start.o")]]
    for number, path in enumerate(program.sources):
        kind = "cuda" if path.suffix in CUDA else "host"
        language = ["-x", "c"] if path.suffix == ".c" else ["-x", "c++"]
        given = flags[1:] if path.suffix == ".c" else flags
        included = ["cuda_runtime.h", *last_headers(texts.values())] if kind == "cuda" else []
        for header in (*included, str(folder / "macros.h")):
            given = [*given, "-include", header]
        placed = str(inside(root, path))
        commands.append([compiler, *given, *levels[kind], "-iquote", str(path.parent), *language, "-c", placed])
        commands[-1] += ["-o", str(folder / f"{number}.o")]
    objects = [command[-1] for command in commands]
    libraries = [f"-l{name}" for name in program.libraries if not _IN_RUNTIME.fullmatch(name)]
    link = [compiler, "-no-pie", *program.host_flags, *objects, *library.link_flags(), *libraries, "-ldl"]
    link += ["-o", str(folder / "program")]
    return library.compile_and_link(commands, link, folder, say)


def needs() -> list[Path]:
    """The libraries that every build is loaded with in Python."""
    return [library.path(), *guard.needed()]


def expected_seconds() -> int:
    """About how long a kernel takes to build; the first one on a machine waits for the runtime too."""
    return 2 if library.path().exists() else 2 + 28 // min(os.cpu_count() or 1, 4)
