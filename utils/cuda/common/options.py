"""What the options of compile_kernel, which are NVRTC's, ask for besides macros (preprocessor.py)."""

import re
from collections.abc import Iterable

__all__ = ["architecture", "standard"]


def architecture(options: Iterable[str]) -> str | None:
    """The architecture that `options` name, without the word in front: '90' of '--gpu-architecture=sm_90'."""
    return _value(options, "--gpu-architecture", "-arch", r"(?:sm|compute)_(\w+)")


def standard(options: Iterable[str]) -> str | None:
    """The language standard that `options` name: 'c++20' of '--std=c++20'."""
    return _value(options, "--std", "-std", r"(c\+\+\d+)")


def _value(options, long, short, form):
    """The value of the last option with one of two names, as `--name=value` or `--name value`; None without one."""
    found = re.findall(rf"(?<!\S)(?:{long}|{short})[= ]{form}(?!\S)", " ".join(options))
    return found[-1] if found else None
