"""Compilers' messages, explained to a learner: CompileError and CompileWarning, with the lines they are about."""

import hashlib
import json
import linecache
import re
import sys
import sysconfig
import warnings
from itertools import groupby
from pathlib import Path

from utils.cuda.common import cxx, lineless
from utils.cuda.common.lexer import lines_of
from utils.ground.errors import CourseError
from utils.ground.system import short_path

__all__ = ["ACCEPTED", "PTXAS", "CompileError", "CompileWarning", "excerpt", "explained", "note_warnings", "refused"]
__all__ += ["shorten", "show_warnings", "warned_in_cell"]

#: In the log of a text that only the CPU engine rejects.
ACCEPTED = "NVIDIA's compiler accepts this device code: it is the CPU engine that does not compile it."


class CompileError(CourseError):
    """The source does not compile. `.wrong` shows the compiler's words beside the lines they are about, and `.hint`,
    if it is not empty, says what to do about the first of them.

    `.errors` holds the errors as (source, line, message), where source is 'cuda_src', 'cpp_src' or, for a mistake in
    the name given to compile_kernel, 'name'; `.line` is the first one's; `.log` is the whole log, `.log_file` its path.
    `.needs_gpu` is True if the source has something that only a GPU can run; a GPU's compiler may accept it.
    """

    needs_gpu = False

    def __init__(self, wrong, errors=(), log="", log_file=None, hint=""):
        super().__init__(wrong, line=errors[0][1] if errors else None)
        self.errors, self.log, self.log_file, self.hint = list(errors), log, log_file, hint

    def __str__(self):
        log = f"The whole log: {short_path(self.log_file)}" if self.log_file else ""
        return "\n".join(filter(None, [self.wrong, log, self.hint and f"Hint: {self.hint}"]))


class CompileWarning(UserWarning):
    """The source compiles, but a line of it hardly does what is meant.

    Shown when the source is built and whenever that build is loaded; `warnings.simplefilter` hides it or makes it an
    error, as for any warning.
    """


# g++ and clang++: cuda_src:7:12: error: message    nvcc and NVRTC: cuda_src(7): error: message
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc_line>\d+)\)): "
    r"(?:fatal |catastrophic )?[Ee]rror(?: #[\w-]+)?: (?P<message>.*)$",
    re.MULTILINE,
)
# g++ and clang++: cuda_src:7:12: warning: message [-Wname]    nvcc and NVRTC: cuda_src(7): warning #174-D: message
_WARNING = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc_line>\d+)\)): "
    r"warning(?: #(?P<number>\d+)(?:-D)?)?: (?P<message>.*?)(?: \[-W(?P<name>[\w-]+)=?\])?$",
    re.MULTILINE,
)
# The compilers' warnings that nearly always mean a mistake, by NVIDIA's number or by g++'s and clang++'s option.
_SHOWN = {
    "174",  # expression has no effect
    "39",  # division by zero
    "61",  # integer operation result is out of range
    "63",  # shift count is too large
    "69",  # integer conversion resulted in truncation
    "181",  # argument is incompatible with corresponding format string conversion
    "224",  # the format string requires additional arguments
    "225",  # the format string ends before this argument
    "186",  # pointless comparison of unsigned integer with zero
    "187",  # use of "=" where "==" may have been intended
    "549",  # variable is used before its value is set
    "940",  # missing return statement at end of non-void function
    "1056",  # returning pointer to local variable
    "1422",  # multicharacter character literal
    "20170",  # extra characters in the unroll pragma
    "20199",  # unrecognized #pragma in device code
    "1835",  # attribute "__shared__" does not apply here
    "20011",  # calling a __host__ function from a __host__ __device__ function is not allowed
    "20014",  # the same, of a function without a mark
    "20054",  # dynamic initialization is not supported for a function-scope static __shared__ variable
    "20091",  # a __device__ variable cannot be directly read in a host function
    "20092",  # a __device__ variable cannot be directly written in a host function
    "20208",  # 'long double' is treated as 'double' in device code
    "uninitialized",
    "dangling-pointer",
}
# g++'s, with the variable that has ended, or about a temporary.
_DANGLING = re.compile(r"(?:using a )?dangling pointer .*?to (?:('\w+')|an unnamed temporary)")
# Where the template or macro that contains an error was used. g++ says so before the error, the others after it.
_USED_BEFORE = re.compile(r"^(\S[^:\n]*):(\d+):\d+:   (?:recursively )?required (?:from|by)", re.MULTILINE)
_USED_AFTER = re.compile(
    r"^(\S[^:\n]*):(\d+):\d+: note: (?:in instantiation of .* requested here|in expansion of macro)", re.MULTILINE
)
# One of the engine's names that a compiler suggests for an unknown one.
_OUR_NAME = re.compile(r"[;,]? ?did you mean ['‘](?:::)?cuda_on_cpu::[^'’]*['’]\?")
_USED_NVCC = re.compile(r"instantiation of .* at line (\d+)(?: of (\S+))?")
# Why the only function of that name does not fit: clang++, then g++.
_NO_FIT = re.compile(r"note: candidate .*not viable: (.*)|note:   ((?:no known conversion|candidate expects) .*)")
# nvcc: the types that no function or operator takes; where a name is declared in CUDA's headers.
_TYPES = re.compile(r"(?:argument|operand) types are: .*")
_JUMPED = re.compile(r'variable ("\w+" \(declared at line \d+\))')
_CONTINUED = re.compile(r"\n(?: {12}\S.*\n(?!\s*\^))+")
_PLACE = re.compile(r" \((?:declared|previous definition) at line \d+ of [^)]*\)")
_LONG_NAME = re.compile(r'("[^"]{60})[^"]{20,}"')
# The engine's launch, called with other arguments than the kernel's.
_LAUNCH = re.compile(r"no match for call to '\(cuda_on_cpu::StartOf<.*<lambda\([^)]*\)>, (.*)>\) \((.*)\)'")
_BRACES = re.compile(r"^no match for call to '\(cuda_on_cpu::Start<.*<brace-enclosed initializer list>.*")
_SYNTAX = re.compile(r"^expected |^stray |not expected here|^missing ")
_NO_SEMICOLON = re.compile(r"^expected (?:a )?[\"'‘];")
_IN_DEVICE_CODE = "is undefined in device code"
_OPEN_END = re.compile(r'^At end of source: (error: .*)\n(\S+\(\d+\)): note.*?: (to match this "."$)', re.MULTILINE)
_ASSERTION = re.compile(
    r"^static assertion failed(?:: | with (?=\"))|^static_assert failed due to requirement .* (?=\"[^\"]*\"$)"
)
_LACKS = re.compile(r"^call to \S*cuda_on_cpu_lacks\S* declared with (?:attribute error|'error' attribute): ")
_NOT_CONSTANT = re.compile(r"variably modified|variable length array|constant value|constant expression")
#: An error of ptxas; it names no line of the source.
PTXAS = re.compile(r"^ptxas .*?(?:error|fatal)\s*: (.*)$", re.MULTILINE)


def explained(log, sources, folder):
    """A CompileError from the compilers' log, which is kept in the build folder. `sources` maps names to texts."""
    kept = folder / "build.log"
    kept.write_text(log)
    errors = _errors(log, sources)
    own = _cause_first([e for e in errors if e[0] in sources and e[0] != "name"])
    own = own or _misnamed(errors, sources) or lineless.errors(log, sources)
    parts, first = [], _first(own)
    for (which, line), of_line in groupby(first, lambda error: error[:2]):
        short = (_LONG_NAME.sub(r'\1..."', text) for _, _, text in of_line)  # of the C++ library's templates
        parts += [*(f"{which}, line {line}: {text}" for text in short), excerpt(sources[which], line)]
    if more := len(own) - len(first):
        parts.append(f"... and {more} more error{'s' * (more > 1)}.")
    parts = parts or lineless.sentences(log)
    if not parts:
        parts = [f"{file}, line {line}: {text}" for file, line, text in errors[:3]]
    if not parts:
        refusals = [said for said in PTXAS.findall(log) if "aborted" not in said]
        parts = [f"ptxas, which makes machine code of what nvcc compiled: {said}" for said in dict.fromkeys(refusals)]
    parts = parts or log.replace(ACCEPTED, "").strip().splitlines()[-5:]
    parts += [ACCEPTED] if ACCEPTED in log else []
    return CompileError("\n".join(parts), own, log, kept, lineless.advice(log, sources) or _hint(own, sources))


def _cause_first(errors):
    """The errors, in the compiler's order but for a missing `;` in a line above the error before it. Without its `;`,
    `return` goes on into the next line: nvcc says first what is wrong there."""
    k = next((k for k, (_, _, message) in enumerate(errors) if _SYNTAX.search(message)), 0)
    before, cause = errors[k - 1 : k + 1] if k else ((), ())
    if cause and _NO_SEMICOLON.search(cause[2]) and cause[0] == before[0] and cause[1] < before[1]:
        return [cause, *errors[:k], *errors[k + 1 :]]
    return errors


def _first(errors):
    """The errors to show: three at most, and none after one of syntax, from which the others often follow."""
    syntax = (number for number, (_, _, message) in enumerate(errors, 1) if _SYNTAX.search(message))
    return errors[: min(3, next(syntax, 3))]


def _hint(errors, sources):
    """The hint about the first error that has one."""
    from utils.cuda.common.hints import hint  # here: loading an earlier build needs none of it

    found = (hint(sources[which], line, message) for which, line, message in errors if which != "name")
    return next(filter(None, found), "")


def _errors(log, sources):
    """Every error as (source or file, line, message), without duplicates.

    An error in a file that is not the learner's is reported at the learner's line that led there.
    """
    from utils.cuda.common.missing import line_at_fault

    log = _OPEN_END.sub(r"\2: \1 \3", log)
    found = list(_DIAGNOSTIC.finditer(log))
    ends, starts = [0, *(f.end() for f in found)], [*(f.start() for f in found[1:]), len(log)]
    errors, settled = [], set()
    for error, above, below in zip(found, ends, starts, strict=False):
        before, behind = log[above : error.start()], log[error.end() : below]
        which, line, message = (
            Path(error["file"]).name,
            int(error["line"] or error["nvcc_line"]),
            _LACKS.sub("", _OUR_NAME.sub("", error["message"])).strip(),
        )
        used = _USED_BEFORE.findall(before) + _USED_AFTER.findall(behind)
        used += [(file or error["file"], at) for at, file in _USED_NVCC.findall(behind)]
        used = [(Path(file).name, int(at)) for file, at in used if Path(file).name in sources]
        if reason := _NO_FIT.search(behind):
            message += f": {reason[1] or reason[2]}"
        if types := _TYPES.search(behind.split(" error", 1)[0]):
            message = f"{message.rstrip(':')}: {types[0].strip()}"
        if message.endswith(" of:") and (jumped := _JUMPED.findall(behind)):
            message = f"{message} {', '.join(jumped)}"
        if message.endswith(":") and (continued := _CONTINUED.match(behind)):
            first, *others = (said.strip() for said in continued[0].strip().splitlines())
            message = f"{message} {first}{f' and {len(others)} more' if others else ''}"
        message = _LAUNCH.sub(r"the kernel takes (\1), but this launch passes (\2)", _PLACE.sub("", message))
        message = _BRACES.sub("this launch of a template passes braces without a type", message)
        if which not in sources and used:
            (which, line), message = used[0], _ASSERTION.sub("", message).strip('"')
            if any(e[:2] == (which, line) for e in errors):
                continue  # follows from an error that is already reported
        elif used and used[0] != (which, line):
            message += f" (used in line {used[0][1]})"
        if which in sources:
            line = line_at_fault(sources[which], line, message)
            lines = lines_of(sources[which].rstrip())
            if line > len(lines):  # what is missing at the end is reported on a line after it
                line = len(lines)
                message += " (found after the last line: look for a `}`, `)` or `;` that is missing)"
            if "__shared__" in lines[line - 1] and _NOT_CONSTANT.search(message):
                settled.add((which, line))
                errors = [e for e in errors if e[:2] != (which, line)]
                found = re.search(r"__shared__\s+(\w+)\s+(\w+)\s*\[", lines[line - 1])
                declared = f"{found[1]} {found[2]}[]" if found else "float s[]"
                message = (
                    "the size of a __shared__ array must be known to the compiler: a number, a constexpr, a macro or a "
                    f"template parameter. To choose it at launch, declare `extern __shared__ {declared};` ({message})"
                )
            elif (which, line) in settled:
                continue
        if message.endswith(_IN_DEVICE_CODE) and any(e[:2] == (which, line) and "__host__" in e[2] for e in errors):
            continue  # the same, said again
        if (which, line, message) not in errors:
            errors.append((which, line, message))
    return errors


def _misnamed(errors, sources):
    """The errors about the names that compile_kernel was given, one each, in terms of the source's template."""
    found = {}
    for which, line, message in errors:
        if which == "name" and which in sources:
            name = lines_of(sources[which])[line - 1]
            meant = cxx.instance(name)
            kernel = meant and cxx.kernels(sources["cuda_src"]).get(meant[0])
            if kernel and kernel.template:
                message = f"`{name}` is no instance of `{kernel.template}`, which precedes `{kernel.name}`"
            found.setdefault(line, (which, line, message))
    return list(found.values())


# ---- warnings -------------------------------------------------------------------------------------------------------


def note_warnings(folder, sources):
    """Note in a build's folder what `show_warnings` will show.

    `folder/warnings.log`, if it exists, is what the compilers printed although they succeeded.
    """
    from utils.cuda.common.suspects import suspects

    log = folder / "warnings.log"
    found = {
        (which, line): f"{text}."
        for which in sources.keys() - {"name"}
        for line, text in suspects(sources[which]).items()
    }
    for warning in _WARNING.finditer(log.read_text(errors="replace")) if log.exists() else ():
        which, line = Path(warning["file"]).name, int(warning["line"] or warning["nvcc_line"])
        if which in sources and which != "name" and (warning["number"] or warning["name"]) in _SHOWN:
            shown = _explained_warning(warning["message"], excerpt(sources[which], line, 0))
            found.setdefault((which, line), shown)  # one for each line
    if found:
        texts = {which: hashlib.sha256(text.encode()).hexdigest() for which, text in sources.items()}
        noted = [
            (which, line, text, excerpt(sources[which], line, 0), texts[which])
            for (which, line), text in sorted(found.items())
        ]
        (folder / "warnings.json").write_text(json.dumps(noted))


def _explained_warning(message, line):
    if "expression has no effect" in message and "==" in line:
        return f"{message}: `==` compares, `=` assigns"
    if dangling := _DANGLING.match(message):
        scope = f"the `{{ }}` of {dangling[1]}" if dangling[1] else "the temporary's statement"
        return f"{message}: {scope} has ended"
    return message


def show_warnings(folder):
    """Issue a CompileWarning for each that was noted when `folder` was built: the same one once in a cell, and only for
    the first build of a text, which may be built again for a trace."""
    registry = warned_in_cell()
    cell = _cell()
    for which, line, message, shown, *text in json.loads((folder / "warnings.json").read_text()):
        first, *cells = told = _told.setdefault((*text, which, line, message), [folder])
        if first != folder or (cell is not None and cell in cells):
            continue  # the registry forgets it whenever anyone leaves `warnings.catch_warnings()`
        told.append(cell)
        linecache.cache.setdefault(which, (0, None, [], which))  # Python would show the line again
        warnings.warn_explicit(f"{message}\n{shown}", CompileWarning, which, line, registry=registry)


def warned_in_cell(*about) -> dict:
    """Python's registry of the warnings about this in the cell that is running, or in the whole program."""
    return _shown.setdefault((_cell(), *about), {})


def _cell() -> int | None:
    """The number of the cell that is running; None outside a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "execution_count", None)


_shown = {}  # registries by the number of their cell, and what they are about
_told = {}  # the build that has shown a compile warning, and the numbers of the cells; by the text, line and message


# ---- errors that no compiler reports --------------------------------------------------------------------------------


def refused(which, source, line, message, needs_gpu=False):
    """A CompileError about a line that we refuse before any compiler sees it."""
    wrong = f"{which}, line {line}: {message}\n{excerpt(source, line)}"
    error = CompileError(wrong, [(which, line, message)], hint=_hint([(which, line, message)], {which: source}))
    error.needs_gpu = needs_gpu
    return error


def excerpt(source, line, around=2):
    """The lines around `line`, numbered, with an arrow at it."""
    lines = lines_of(source)
    first, last = max(1, line - around), min(len(lines), line + around)
    shown = [f"{'-->' if n == line else '   '} {n:4} | {_cut(lines[n - 1])}" for n in range(first, last + 1)]
    return "\n".join(shown)


def _cut(line, most=400):
    return line if len(line) <= most else f"{line[:most]} ..."


def shorten(text):
    """Shorten long folders: what matters in a compile command is at its ends."""
    import torch

    folders = {
        Path(torch.__file__).parent: "<torch>",
        Path(__file__).parents[3]: "<course>",
        Path(sysconfig.get_path("include")): "<python headers>",
        Path(sys.prefix): "<environment>",
        Path.home(): "~",
    }
    for folder, name in folders.items():
        text = text.replace(str(folder), name)
    return text
