"""A learner's source as the compilers get it, whatever editor or program it comes from."""

import codecs
import locale
import os
import re

from utils.ground.errors import ToolchainError

__all__ = ["check_options", "plain"]

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def plain(which, source) -> str:
    """`source` without a byte order mark, and with lines that end in a newline alone. `which` names it in messages.

    Raises TypeError for something else than text, CompileError for a character that no file can hold, and
    ToolchainError where Python itself can write nothing but ASCII or the current folder is gone.
    """
    __tracebackhide__ = True
    if not isinstance(source, str):
        raise TypeError(f"{which} must be text, but it is {type(source).__name__}: {source!r:.80}")
    if codecs.lookup(locale.getpreferredencoding(False)).name == "ascii":
        raise ToolchainError("this Python reads and writes ASCII only, by its locale", "export PYTHONUTF8=1")
    try:
        os.getcwd()
    except FileNotFoundError:
        wrong = "the current folder, in which compilers are started, was deleted or moved"
        raise ToolchainError(wrong, "go to one that exists, by `cd` in a terminal or `os.chdir` in Python") from None
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if found := _NOT_TEXT.search(source):
        from utils.cuda.common.diagnostics import refused  # here: only an error needs it

        line = source.count("\n", 0, found.start()) + 1
        if found[0] == "\0":
            said = "there is a NUL character in this line, at which some compilers stop reading: remove it"
        else:
            said = f"{found[0]!a} in this line is only half a character: read the source's file as UTF-8"
        raise refused(which, _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", source), line, said)
    return source


def check_options(options):
    """Raise TypeError or ValueError for an option that no compiler can be given."""
    __tracebackhide__ = True
    for option in options:
        if not isinstance(option, str):
            raise TypeError(f"an option is text, as in '-DTILE=32', but got {option!r:.80}")
        if _NOT_TEXT.search(option):
            raise ValueError(f"the option {option!a} has a character that cannot be passed to a compiler")
