"""Code that runs when a kernel or an extension is loaded: what sets the host's global variables, and functions that are
marked as constructors.

A mistake in it would end Python, and a loop without end would hang it, before anything of the library is called. So
where a text has such code, another process loads the library first.
"""

import os
import re
import signal
import subprocess
import sys

from utils.cuda.common import cxx

__all__ = ["check", "global_with_code"]

#: Of processor time, for what runs while a library is loaded.
MOST_SECONDS = 10
_MOST_WAITING = 120  # seconds, if it waits instead
_OF_DEVICE = {"__device__", "__constant__", "__shared__", "__managed__", "__global__"}
_NO_VARIABLE = {"using", "typedef", "template", "static_assert", "extern", "constexpr", "enum", "friend", "namespace"}
_CONSTRUCTORS = {"constructor", "__constructor__"}
_TYPES = {"struct", "class", "union"}
_PLAIN = set(
    "unsigned signed short long int char bool float double void auto half const static volatile inline".split()
)
_PLAIN |= {"std", "::", ":", "*", "&", "size_t", "thread_local", "__restrict__"}
# In a value: what reads memory, or a member such as that of `threadIdx`.
_MAY_FAULT = {".", "->", "[", "*"}


def global_with_code(source) -> tuple[int, str] | None:
    """The first of the host's global variables whose value may take code to compute, or the first function marked
    `__attribute__((constructor))`: its line and name."""
    for declared in cxx.declarations(source):
        words = [token.text for token in declared.tokens]
        if declared.parameters is not None and _CONSTRUCTORS & set(words[: declared.head]):
            return declared.line, declared.name
        if declared.parameters is not None and (declared.defined or not any(map(_is_value, declared.parameters))):
            continue  # a function
        if not declared.names or {*_OF_DEVICE, *_NO_VARIABLE} & set(words):
            continue
        if words[0] in _TYPES and "{" in words and words[-2:-1] == ["}"]:
            continue  # a type and no variable of it
        at = words.index(declared.name) if declared.name in words else len(words)
        value = words[words.index("=", at) :] if "=" in words[at:] else []
        plain = all(word in _PLAIN or re.fullmatch(r"u?int\w*_t", word) for word in words[:at])
        if "(" in words[at:] or _MAY_FAULT & set(value) or not plain:
            return declared.line, declared.name
    return None


def _is_value(parameter) -> bool:
    """Whether it is a number or a string: `Table table(3);` looks like a function, and is a variable."""
    return len(parameter) == 1 and parameter[0].text[0] in "0123456789.'\""


# torch's own start, which may take longer than what the library runs, does not count.
_LOAD = """import ctypes, math, resource, sys, time
if sys.argv[3] == "extension": import torch
most = math.ceil(time.process_time()) + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
ctypes.CDLL(sys.argv[1])
"""


def check(source, library, kind):
    """Load `library`, if it has been built from the text `source`, in a process of its own: if code runs. `kind` is
    what it is, 'kernel' or 'extension'.

    Raises CompileError, on the line of the first such variable or function, if that process does not end well.
    """
    __tracebackhide__ = True
    if not library.exists() or not (found := global_with_code(source)):
        return
    line, name = found
    command = [sys.executable, "-c", _LOAD, str(library), str(MOST_SECONDS), kind]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_MOST_WAITING)
        status, said = done.returncode, done.stderr.strip()
    except subprocess.TimeoutExpired:
        status, said = -signal.SIGXCPU, ""
    if status == 0:
        return
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        ended = f"does not end (it was stopped after {MOST_SECONDS} s of processor time or {_MOST_WAITING} s in all)"
    elif status < 0:
        ended = f"ends the process: {signal.strsignal(-status)}"
    else:
        ended = f"ends the process with status {status}"
    last = f"; its last words: {said.splitlines()[-1]}" if said else ""
    message = f"code such as that of `{name}` runs when the {kind} is loaded, and {ended}{last}"
    from utils.cuda.common.diagnostics import refused  # here: only an error needs it

    raise refused("cuda_src", source, line, message)
