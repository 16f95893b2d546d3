"""What ptxas and linkers reject: they name no line, so the sources are searched for the one it comes from."""

import math
import re
import shutil
import subprocess

from utils.cuda.common import cxx

__all__ = ["advice", "errors", "sentences"]

_TOO_MUCH_SHARED = re.compile(r"Entry function '(\w+)' uses too much shared data \((\w+) bytes, (\w+) max\)")
_TOO_MUCH_CONSTANT = re.compile(r"uses too much global constant data \((\w+) bytes, (\w+) max\)")
_BOUND_TWICE = re.compile(r"(?:multiple definition of|duplicate symbol:?) ?\W?PyInit_")
_DEVICE_RUNTIME = re.compile(r"Unresolved extern function '?__cudaCDP2(\w+)")
_UNDEFINED = re.compile(
    r"undefined reference to [`'](.*)'|"
    r"(?:undefined symbol:|Undefined reference to|Unresolved extern (?:function|variable)) '?(\w+)"
)
_NO_FLOAT = "unsupported float variant"
_TOO_FAR = re.compile("relocation truncated to fit")
_LACKING = "`{}` is declared and {}, but no source defines it"


def errors(log, sources) -> list[tuple[str, int, str]]:
    """The errors of such a log as (source, line, message)."""
    own = {which: text for which, text in sources.items() if which != "name"}
    found = _too_large(log, own) or _too_much_constant(log, own) or _bound_twice(log, own) or _of_16_bits(log, own)
    return found or _of_device_runtime(log, own) or _undefined(log, own)


def sentences(log) -> list[str]:
    """The same about what no source mentions."""
    no_main = "there is no `main`, where a program begins"
    if _TOO_FAR.search(log):
        return ["the variables outside of functions need more than 2 GB together: ask cudaMalloc for such arrays"]
    return [no_main if name == "main" else _LACKING.format(name, "called") for name in _names(log)]


def advice(log, sources) -> str:
    """What to do about a function that is defined with other parameters than those it is called with."""
    functions = [function for text in sources.values() for function in cxx.functions(text)]
    for function in (f for f in functions if f.defined):
        if any(re.match(rf"(?:\w+::)*{function.name}\(", name) for name in _names(log)):
            defines = f"Line {function.line} defines `{' '.join(function.signature.split())}`"
            return f"{defines}: the types of the parameters must be the same in both places."
    return ""


def _names(log):
    return dict.fromkeys(name or _demangled(symbol) for name, symbol in _UNDEFINED.findall(log))


def _undefined(log, sources):
    """The functions and variables that no source defines, where they are used."""
    functions = [function for text in sources.values() for function in cxx.functions(text)]
    defined = dict.fromkeys(function.name for function in functions if function.exported and function.defined)
    have = f". They define: {', '.join(defined)}" if defined else ""
    found = []
    for name in _names(log):
        words = re.findall(r"\w+", re.split(r"[(<]", name)[0])  # of 'n::f<int>(float)'
        if name != "main" and (place := _use(words[-1:], sources)):
            which, line, called = place
            called = called or "(" in name
            found.append((which, line, _LACKING.format(name, "called" if called else "used") + have * called))
    return found


def _use(words, sources):
    """Where a name is used, or else mentioned, first: (source, line, whether it is called)."""
    found = []
    for which, text in sources.items():
        bodies = [(f.tokens[f.head].start, f.tokens[-1].end) for f in cxx.functions(text) if f.defined]
        part = cxx.tokens(text)
        for k, token in enumerate(part):
            if token.text in words and not token.directive:
                inside = any(start < token.start < end for start, end in bodies)
                found.append((not inside, which, token.line, cxx.text_at(part, k + 1) == "("))
    return min(found, key=lambda each: each[0])[1:] if found else None


def _too_much_constant(log, sources):
    """The largest of the variables that need more constant memory than there is, as far as their sizes are numbers."""
    declared = [
        (math.prod(map(int, re.findall(r"\[(\d+)\]", cxx.written(d.tokens)))), which, d.tokens[0].line)
        for which, text in sources.items()
        for d in cxx.declarations(text)
        if "__constant__" in d.words
    ]
    found = _TOO_MUCH_CONSTANT.search(log)
    if not (found and declared):
        return []
    needed, most = (int(number, 16) for number in found.groups())
    message = (
        f"the __constant__ variables have {needed:,} bytes, but there are {most:,}: mark what is larger with "
        "`__device__`, or pass a pointer"
    )
    return [(*max(declared, key=lambda each: each[0])[1:], message)]


def _too_large(log, sources):
    """The kernels that need more static shared memory than a block may have. ptxas names them but gives no line."""
    found = {}
    for symbol, needed, most in _TOO_MUCH_SHARED.findall(log):
        name = _demangled(symbol)
        base = re.match(r"(?:void )?([\w:]*)", name)[1].split("::")[-1]
        for which, text in sources.items():
            if kernel := cxx.kernels(text).get(base):
                message = (
                    f"`{name}` has {int(needed, 16):,} bytes of __shared__ variables, but a block has "
                    f"{int(most, 16):,}: make them smaller, or ask for more at the launch, with `extern __shared__`"
                )
                found[name] = (which, kernel.line, message)
    return list(found.values())


def _bound_twice(log, sources):
    """The text that binds functions to Python, as load_cuda does, too. The linker finds both, and gives no line."""
    texts = ((which, token) for which in sources for token in cxx.tokens(sources[which]))
    message = "load_cuda makes the bindings of `funcs` itself: leave out PYBIND11_MODULE"
    found = [(which, token.line, message) for which, token in texts if token.text == "PYBIND11_MODULE"]
    return found if _BOUND_TWICE.search(log) else []


def _of_16_bits(log, sources):
    """The host's types of 16 bits, at which nvcc breaks off."""
    texts = ((which, token) for which in sources for token in cxx.tokens(sources[which]))
    found = [
        (which, token.line, token.text) for which, token in texts if token.text in ("_Float16", "__bf16", "__fp16")
    ]
    message = "nvcc does not compile `{}` in device code"
    return [(which, line, message.format(name)) for which, line, name in found[:1]] if _NO_FLOAT in log else []


def _of_device_runtime(log, sources):
    """The calls of the runtime that kernels can make only in a program that is linked with CUDA's device runtime."""
    calls = {f"cuda{name}" for name in _DEVICE_RUNTIME.findall(log)}
    message = "a kernel can call `{}` only where the source is built with -rdc=true and linked with cudadevrt"
    texts = ((which, token) for which in sources for token in cxx.tokens(sources[which]))
    return [(which, token.line, message.format(token.text)) for which, token in texts if token.text in calls]


def _demangled(symbol):
    tool = shutil.which("c++filt")
    return subprocess.run([tool, symbol], capture_output=True, text=True).stdout.strip() if tool else symbol
