"""The options of compile_kernel, which are NVRTC's: which there are, and what they ask for besides macros.

Macros and include folders are preprocessor.py's. Source of the names and values: NVIDIA, NVRTC documentation,
Supported Compile Options; tried on NVRTC 13.2, whose words the messages are.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["architecture", "problem_of_options", "standard"]

_FLAGS = """--device-c -dc --device-w -dw --extensible-whole-program -ewp --device-debug -G --generate-line-info
-lineinfo --use_fast_math -use_fast_math --extra-device-vectorization -extra-device-vectorization --dlink-time-opt -dlto
--gen-opt-lto -gen-opt-lto --optix-ir -optix-ir --no-source-include -no-source-include --pch -pch --disable-warnings -w
--Wreorder -Wreorder --restrict -restrict --device-as-default-execution-space -default-device --device-int128
-device-int128 --device-float128 -device-float128 --display-error-number -err-no --no-display-error-number -no-err-no
--fdevice-syntax-only -fdevice-syntax-only --minimal -minimal --no-cache -no-cache""".split()
_SWITCHES = """--relocatable-device-code -rdc --ftz -ftz --prec-sqrt -prec-sqrt --prec-div -prec-div --fmad -fmad
--modify-stack-limit -modify-stack-limit --device-stack-protector -device-stack-protector --builtin-move-forward
-builtin-move-forward --builtin-initializer-list -builtin-initializer-list --pch-verbose -pch-verbose --pch-messages
-pch-messages --instantiate-templates-in-pch -instantiate-templates-in-pch --brief-diagnostics -brief-diag""".split()
_NUMBERS = """--maxrregcount -maxrregcount --jump-table-density -jtd --split-compile -split-compile --diag-error
-diag-error --diag-suppress -diag-suppress --diag-warn -diag-warn""".split()
_TEXTS = """--gpu-architecture -arch --ptxas-options -Xptxas --define-macro -D --undefine-macro -U --include-path -I
--pre-include -include --dopt -dopt --Ofast-compile -Ofc --warning-as-error -Werror""".split()
_TEXTS_AFTER_EQUALS = """--std -std --create-pch -create-pch --use-pch -use-pch --pch-dir -pch-dir --time -time
--frandom-seed -frandom-seed --fdevice-time-trace -fdevice-time-trace --optimization-info -opt-info""".split()
_ALL = [*_FLAGS, *_SWITCHES, *_NUMBERS, *_TEXTS, *_TEXTS_AFTER_EQUALS]
# The architectures of CUDA 12 and 13 ("NVIDIA CUDA Compiler Driver", GPU Feature List).
_ARCHITECTURES = "5[023]|6[012]|7[025]|8[06789]|90a?|(?:10[013]|110|12[01])[af]?"
# Values that NVRTC checks before it compiles, as regular expressions.
_VALUES = {
    **dict.fromkeys(["--std", "-std"], r"c\+\+(?:03|11|14|17|20)"),
    **dict.fromkeys(["--gpu-architecture", "-arch"], rf"(?:sm|compute|lto)_(?:{_ARCHITECTURES})"),
    **dict.fromkeys(["--dopt", "-dopt"], "on"),
    **dict.fromkeys(["--Ofast-compile", "-Ofc"], "0|min|mid|max"),
}


def problem_of_options(options) -> str:
    """What NVRTC says about options that it does not accept; empty if it accepts them all."""
    at = 0
    while at < len(options):
        option = options[at]
        if not isinstance(option, str):
            return f"an option is text, such as '-DTILE=32', but got {type(option).__name__} {option!r:.60}"
        name, equals, value = option.partition("=")
        at += 1
        if option[:2] in ("-D", "-U", "-I"):
            at += len(option) == 2  # the next one is the macro or the folder
            continue
        if name not in _ALL or name in _TEXTS_AFTER_EQUALS and not equals:
            return _unknown(option)
        if name in _FLAGS:
            if equals and name.lstrip("-") != "no-cache":
                return f"nvrtc: error: {name} does not accept any argument"
            continue
        if not equals and at < len(options):
            value, at = options[at], at + 1
        if name in _SWITCHES and value not in ("true", "false"):
            return f"nvrtc: error: {name} expects true or false"
        if name in _NUMBERS and not str(value).isdigit():
            return f"nvrtc: error: {name} expects an integer value"
        if name in _VALUES and not re.fullmatch(_VALUES[name], str(value)):
            return f"nvrtc: error: invalid value for {name}: {value!r:.60}"
    return ""


def _unknown(option):
    hint = ""
    if re.fullmatch(r"-O\d?", option):
        hint = ": NVRTC always optimises, unless -G is given"
    elif "fast" in option:
        hint = ": did you mean '--use_fast_math'?"
    elif near := get_close_matches(option.partition("=")[0], _ALL, 1, cutoff=0.7):
        hint = f": did you mean {near[0]!r}?"
    return f"nvrtc: error: unrecognized option {option} found{hint}"


def architecture(options: Iterable[str]) -> str | None:
    """The architecture that `options` name, without the word in front: '90' of '--gpu-architecture=sm_90'."""
    return _value(options, "--gpu-architecture", "-arch", r"(?:sm|compute)_(\w+)")


def standard(options: Iterable[str]) -> str | None:
    """The language standard that `options` name: 'c++20' of '--std=c++20'."""
    return _value(options, "--std", "-std", r"(c\+\+\d+)")


def _value(options, long, short, form):
    """The value of the last option with one of two names, as `--name=value` or `--name value`; None without one."""
    if not options:
        return None
    found = re.findall(rf"(?<!\S)(?:{long}|{short})[= ]{form}(?!\S)", " ".join(options))
    return found[-1] if found else None
