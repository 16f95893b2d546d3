"""Compiles kernels with nvcc if NVRTC rejects the source: NVRTC has neither the C++ library nor host functions.

nvcc takes some five times as long. So NVRTC tries first, and what nvcc accepts runs on a GPU either way.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from utils.cuda.common import cxx, extension, options, toolchain
from utils.cuda.common.cache import hashed
from utils.cuda.common.preprocessor import preprocessor_options
from utils.cuda.gpu import facts

__all__ = ["NO_HEADER", "build", "fingerprint", "without_rtc"]

#: pip's wheels do not have all of CUDA's headers, and NVRTC has none of the C++ library's.
NO_HEADER = re.compile(r"(?:could not|cannot) open source file|fatal error: .*(?:No such file|file not found)")

# NVRTC's options that nvcc has under the same name, and those that are handled elsewhere.
_SHARED = re.compile(
    r"-lineinfo|--generate-line-info|-G|--device-debug|-w|--disable-warnings|--?(?:use_fast_math|restrict)"
    r"|--?extra-device-vectorization|--?(?:ftz|prec-sqrt|prec-div|fmad|maxrregcount)=\w+|--ptxas-options=.*"
)
_ELSEWHERE = re.compile(
    r"-(?:D|U|I).*|--?(?:std|gpu-architecture|arch|no-cache|define-macro|undefine-macro|include-path)\b.*"
)
# Those whose value may be an option of its own: `-I folder`.
_TAKES_NEXT = {"-D", "-U", "-I", "--define-macro", "--undefine-macro", "--include-path", "-arch", "--gpu-architecture"}

# Each kernel is a template argument of one more kernel, whose mangled name gives the kernel's name.
_NAMED = """#line {line} "name"
template __global__ void {signature}();
template __global__ void cuda_course_name<{address}, {number}>();
"""


def without_rtc(source) -> tuple[str, str]:
    """The source for nvcc, without what it leaves out for NVRTC, and the macro to define.

    NVRTC defines __CUDACC_RTC__, which sources use to leave out host code. nvcc's own headers do not compile with it,
    so nvcc gets the source with another name.
    """
    return re.sub(r"\b__CUDACC_RTC__\b", "CUDA_COURSE_RTC", source), "-DCUDA_COURSE_RTC"


def fingerprint() -> str:
    """What a kernel that nvcc compiled depends on besides its source, names and options."""
    programs = [*toolchain.nvcc_candidates(), toolchain.chosen_compiler()]
    own = [path.read_text() for path in (Path(__file__), Path(facts.__file__))]
    return hashed(own, [extension.identity(program) for program in programs if program])


def build(source, names, folder, given, refusal) -> str:
    """Compile the kernels `names` into `folder`, as nvrtc.build does with the same options `given`.

    `refusal` is NVRTC's log. Returns nvcc's log, empty on success; or `refusal`, if nvcc is missing, does not
    find a header, or lacks an option.
    """
    home = toolchain.cuda_home()
    if not home or not toolchain.nvcc_candidates() or not _known(given):
        return refusal
    work = folder / "nvcc"
    work.mkdir()
    try:
        command, log = _compiled(home, source, names, work, given)
        with open(folder / "commands.txt", "a") as commands:
            print(*command, file=commands)
        if log is not None:
            return refusal if NO_HEADER.search(log) else log
        ptx = (work / "cuda.ptx").read_bytes()
        symbols = re.findall(rb"\.entry (\w+)", ptx)
        _write_facts([symbol.decode() for symbol in symbols], len(names), folder)
        (folder / "kernel.ptx").write_bytes(ptx)
        cubin = work / "cuda.cubin"
        (folder / "kernel.bin").write_bytes(cubin.read_bytes() if cubin.exists() else ptx)
        (folder / "warnings.log").write_text((work / "log").read_text(errors="replace"))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ""


def _known(given):
    left = iter(given)
    for option in left:
        if option in _TAKES_NEXT:
            next(left, None)
        elif not (_SHARED.fullmatch(option) or _ELSEWHERE.fullmatch(option)):
            return False
    return True


def _compiled(home, source, names, work, given):
    """nvcc's command and its log, None if it accepts the source; leaves `cuda.ptx` and `cuda.cubin` in `work`."""
    text, macro = without_rtc(source)
    lines = ['#line 1 "cuda_src"', text, facts.AFTER, "template <auto, int> __global__ void cuda_course_name() {}"]
    for number, name in enumerate(names):
        address = cxx.address(source, name)
        signature = facts.SIGNATURE.format(address=address, number=number)
        lines.append(_NAMED.format(line=number + 1, signature=signature, address=address, number=number))
    (work / "cuda.cu").write_text("\n".join(lines), errors="surrogateescape")
    architecture = options.architecture(given)
    virtual = f"compute_{architecture}" in " ".join(given)
    flags = [option for option in given if _SHARED.fullmatch(option)]
    if standard := options.standard(given):
        flags.append(f"-std={standard}")
    flags += preprocessor_options(given)
    compiler = toolchain.chosen_compiler()
    command = [str(home / "bin" / "nvcc"), *(["-ptx"] if virtual else ["-cubin"])]
    command += [f"-arch={'compute' if virtual else 'sm'}_{architecture}", macro, *flags]
    command += [*(["-ccbin", compiler] if compiler else []), "-allow-unsupported-compiler"]
    command += [] if virtual else ["-keep", "-keep-dir", str(work)]
    command += [str(work / "cuda.cu"), "-o", str(work / ("cuda.ptx" if virtual else "cuda.cubin"))]
    with open(work / "log", "w") as log:
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(work)}
        failed = subprocess.run(command, stdout=log, stderr=log, env=environment).returncode
    return command, (work / "log").read_text(errors="replace") if failed else None


def _write_facts(symbols, count, folder):
    """Write the facts about the learner's `count` kernels, given the mangled names of all compiled kernels."""
    readable = {facts.demangled(symbol): symbol for symbol in symbols}

    def argument(template, number):
        """The demangled name of the instance for kernel `number`, and its first argument."""
        form = re.compile(rf"void {template}<(.*), {number}>\(\)")
        return next(found for found in map(form.fullmatch, readable) if found)

    for number in range(count):
        # '&(void scaled<3>(float*))'; '&outer::inner', without parameters, if it is not overloaded; '&(plain(int))' for
        # extern "C", where the kernel's own name has no parameters.
        name = re.fullmatch(r"&\(?(.*?)\)?", argument("cuda_course_name", number)[1])[1]
        forms = {name, name.partition("(")[0]}
        symbol = next(s for text, s in readable.items() if text in forms or text.startswith(f"{name}("))
        facts.write_facts(folder, number, symbol, readable[argument("cuda_course_signature", number)[0]])
