"""What a build takes in beside its source: macros from options, and the files that the source includes."""

import hashlib
import os
import re
import stat

__all__ = ["include_folders", "included", "own_macros", "preprocessor_options"]

_LONG = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}
_DIRECTIVE = re.compile(rb"^.*\b(?:include|include_next|__has_include|define|embed)\b.*$", re.MULTILINE)
_NAME = re.compile(rb'["<]([^"<>\n]+)[">]')


def preprocessor_options(options) -> list[str]:
    """NVRTC's options for macros and include folders, as g++, clang++ and nvcc write them: ['-DN=5', '-Ifolder']."""
    kept, after = [], None
    for option in options:
        if after:
            kept.append(after + option)
            after = None
            continue
        name, _, value = option.partition("=")
        if name in _LONG and value:
            kept.append(_LONG[name] + value)
        elif option in _LONG or option in ("-D", "-U", "-I"):
            after = _LONG.get(option, option)
        elif option[:2] in ("-D", "-U", "-I"):
            kept.append(option)
    return kept


def own_macros(options) -> tuple[list[str], list[str]]:
    """The source's own macros among `options` (as from preprocessor_options), as lines to put before it, and the other
    options: `-DA=1` must not reach a header that comes before the source and uses a name A.

    NDEBUG and names that begin with `_`, which a header may test, stay options.
    """
    lines, others = [], []
    for option in options:
        name, _, value = option[2:].partition("=")
        if option[:2] == "-I" or re.match(r"_|NDEBUG\b", name):
            others.append(option)
        else:
            value = value if "=" in option else "1"
            lines.append(f"#define {name} {value}" if option[:2] == "-D" else f"#undef {name}")
    return lines, others


def include_folders(options=()) -> list[str]:
    """The folders of `options` (-I) and of $CPATH and $CPLUS_INCLUDE_PATH, in a compiler's order."""
    folders = [option[2:] for option in preprocessor_options(options) if option.startswith("-I")]
    for name in ("CPATH", "CPLUS_INCLUDE_PATH"):
        folders += os.environ.get(name, "").split(os.pathsep) if os.environ.get(name) else []
    return folders


def included(*sources, options=()) -> list[tuple[str, str]]:
    """Path and hash of every file that the sources may include, directly or through others, for a build's name.

    Looks in the folders of `options` (-I) and $CPATH, in the current one, as NVRTC does, and beside each file. What the
    preprocessor would leave out is listed too: a build is at worst made once too often. The toolkit's and the engine's
    own headers are not found here; a build's name contains their version.

    Raises CompileError for an `#include` of a device or a pipe, which compilers read without end.
    """
    __tracebackhide__ = True
    if not options and not any("include" in source for source in sources):
        return []
    folders = list(dict.fromkeys([os.curdir, *include_folders(options)]))
    from_options = [option.partition("=")[2] or option for option in options]  # --pre-include=x.h, -DHEADER="x.h"
    named = "\n".join('include "{}"'.format(option.strip('"<>')) for option in from_options)
    waiting = [(text.encode(errors="replace"), folders) for text in (named, *sources)]
    found = {}
    while waiting:
        text, places = waiting.pop()
        directives = b"\n".join(_DIRECTIVE.findall(text.replace(b"\\\n", b" ")))
        for name in set(_NAME.findall(directives)):
            for path in dict.fromkeys(os.path.join(place, os.fsdecode(name)) for place in places):
                real = os.path.realpath(path) if _is_file(path, name, directives) else None
                if real is None or real in found:
                    continue
                contents = _contents(real)
                found[real] = hashlib.sha256(contents).hexdigest()
                waiting.append((contents, [os.path.dirname(path), *folders]))
    return sorted(found.items())


def _is_file(path, name, directives) -> bool:
    __tracebackhide__ = True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    endless = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and path != os.devnull
    if endless and re.search(rb"\binclude(?:_next)?\s*[\"<]" + re.escape(name) + rb"[\">]", directives):
        from utils.cuda.common.diagnostics import CompileError  # here: only an error needs it

        raise CompileError(f"the source includes {path}, which is a device or a pipe: a header is a file")
    return stat.S_ISREG(mode)


def _contents(path) -> bytes:
    """Of a header; nothing for one that the compiler cannot read either."""
    try:
        with open(path, "rb") as header:
            return header.read()
    except OSError:
        return b""
