"""nvcc as a judge of device code, while something else is built: what it prints if it rejects a text (verdict.py).

What its kernels take is kept in `resources.txt`, from which the engine's host functions answer.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal

from utils.cuda.common import special_functions, toolchain
from utils.cuda.common.compilers import explained_limits, started
from utils.cuda.common.diagnostics import PTXAS
from utils.cuda.common.preprocessor import included, preprocessor_options
from utils.cuda.gpu.cubin import NO_HEADER
from utils.cuda.gpu.host_pass import and_for_host, with_own_lines
from utils.cuda.gpu.ptxas import most_threads, usages, with_source_lines, without_usages

__all__ = ["missing", "nvcc_as_judge"]

# What torch's headers bring along besides torch, for a text that relies on it.
_WITH_TORCH = """algorithm array atomic cassert cfloat climits cmath cstdint cstdio cstdlib cstring functional iostream
limits map memory mutex numeric optional sstream stdexcept string tuple type_traits unordered_map utility vector
""".split()

# What NVIDIA's compilers say of a name that is not there.
_MISSING = re.compile(
    r'identifier "(?:\w+::)*(\w+)" is undefined|namespace "(\w+)" has no member'
    r'|"(\w+)" is not a (?:template|class)|name followed by "(::)" must be'
)

_NO_SUCH_HEADER = re.compile(r"fatal error: ((?:cuda|cub|thrust|cooperative_groups)/)\S+: No such file")

# What nvcc printed about texts that it has accepted in this process, and what their kernels take: it is asked once
# about all kernels of a text.
_accepted = {}


def nvcc_as_judge(judge, place, say):
    """A context in which nvcc judges a text (`Judge` of verdict.py) in `place`, in the background.

    It yields a function that waits for nvcc and returns its log if it rejects the text, '' if it accepts it, None if
    there is no verdict. `say` is called with the command. Leaving early, because the learner interrupts for instance,
    ends nvcc.
    """
    judged = judge._replace(names=tuple(name for name in judge.names if "<" in name), unread=frozenset())
    own = included(judge.source, options=preprocessor_options(judge.flags))
    smaller = [] if own else special_functions.left_out("\n".join([judge.text, *judge.flags]))
    key = (judged, judge.fingerprint, *own)
    return _nvcc_again(place, key) if key in _accepted else _nvcc(judge, place / "nvcc", say, key, smaller)


@contextlib.contextmanager
def _nvcc(judge, folder, say, key, smaller):
    """Run nvcc in `folder` with the judge's flags and `smaller`."""
    folder.mkdir()
    with contextlib.ExitStack() as at_end:
        at_end.callback(shutil.rmtree, folder, ignore_errors=True)

        def start(text, made=()):
            source = folder / "judged.cu"
            source.write_text(text, encoding="utf-8", errors="surrogateescape")
            if not made:  # for the host, nvcc only writes C++
                made = ["-cuda", *judge.for_kernels] if judge.for_host else ["-cubin"]
            process = _started(source, [*made, *judge.flags, *smaller, "-I."], judge.architecture, folder)
            at_end.callback(_end, process)
            return process

        process = start(_for_nvcc(judge))
        say(shlex.join(process.args))
        yield lambda: _nvcc_rejection(process, judge, folder, start, key)


@contextlib.contextmanager
def _nvcc_again(place, key):
    """The same for a text that nvcc has accepted before."""
    yield lambda: _noted(place, *_accepted[key])


def _for_nvcc(judge, headers=()) -> str:
    lines = special_functions.ALSO.splitlines()
    lines += [f"#include <{header}>" for header in (*judge.headers, *headers)]
    if judge.headers:  # as in torch's own
        lines.append("namespace at { using namespace c10; }\nnamespace torch { using namespace at; }")
    # If something is missing at the end of the source, such as a `;`, nvcc reports it on the line after it.
    lines += ['#line 1 "cuda_src"', judge.text, "namespace {}"]
    for number, name in enumerate(judge.names, 1):
        if "<" in name:  # nvcc compiles an instance of a template only if something needs it
            lines.append(f'#line {number} "{judge.where}"')
            lines.append(f"static void* const cuda_course_{number} __attribute__((used)) = (void*)&{name};")
    for number, line in enumerate(judge.lines, 1):
        lines += [f'#line {number} "{judge.where}"', line]
    return "\n".join(lines) + "\n"


def _started(source, flags, architecture, folder):
    compiler, home = toolchain.chosen_compiler(), toolchain.cuda_home()
    # With `-cuda`, `-arch=sm_90a` would mean sm_90.
    command = [str(home / "bin" / "nvcc"), f"-gencode=arch=compute_{architecture},code=sm_{architecture}", *flags]
    command += [*(["-ccbin", compiler] if compiler else []), "-allow-unsupported-compiler"]
    command += ["-Xptxas", "-v", "-keep", "-keep-dir", str(folder)]  # what the kernels take, and their launch bounds
    command += [str(source), "-o", str(folder / "judged.out")]
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    with open(folder / "log", "w") as log:
        # Its own session: nvcc starts further programs, and all of them must end with it.
        return started(
            and_for_host(command, flags, compiler, folder / "judged.out") if "-cuda" in flags else command,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _end(process):
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _noted(place, log, taken) -> str:
    """Keep what nvcc prints although it accepts a text, where `cache.build_once` looks for warnings, and what its
    kernels take, where host/resources.cpp looks."""
    with open(place / "warnings.log", "a") as kept:
        kept.write(log)
    with open(place / "resources.txt", "a") as kept:
        kept.write(taken)
    return ""


def _nvcc_rejection(process, judge, folder, start, key) -> str | None:
    """Wait for nvcc; see `nvcc_as_judge`."""

    def answer(process):
        status = process.wait()
        log = (folder / "log").read_text(errors="replace")
        printed = without_usages(log)
        if status:
            return False, with_own_lines(explained_limits(printed, status), judge.text), ""
        return True, printed, taken(log)

    def taken(log):
        bounds = most_threads("".join(ptx.read_text(errors="replace") for ptx in folder.glob("*.ptx")))
        rows = ((symbol, *usage[:3], bounds.get(symbol, 0)) for (symbol, _), usage in usages(log).items())
        return "".join(" ".join(map(str, row)) + "\n" for row in rows)

    accepted, log, rows = answer(process)
    if not accepted and judge.cut and missing(log):
        accepted, log, rows = answer(start(_for_nvcc(judge, _WITH_TORCH)))
    if accepted:
        return _noted(folder.parent, *_accepted.setdefault(key, (log, rows)))
    not_found = missing(log)
    if NO_HEADER.search(log) and not _should_be_there(log):
        return None
    if judge.cut & not_found or re.search(r"^instances[(]", log, re.MULTILINE):
        return None
    if not_found and "using" in judge.cut:
        return None
    if PTXAS.search(log):
        again = answer(start(_for_nvcc(judge), ["-cubin", "-lineinfo"]))[1]
        log = with_source_lines(again, judge.text.splitlines())
    if not re.search(r"^(?:cuda_src|name)[(:]", log, re.MULTILINE) and not answer(start(""))[0]:
        return None  # a compiler that rejects an empty text, too, is no judge
    return log


def _should_be_there(log) -> bool:
    """Whether the header that nvcc did not find is of a library that its toolkit has, so that the name is wrong."""
    folder = _NO_SUCH_HEADER.search(log)
    include = toolchain.cuda_home() / "include"
    return bool(folder) and any((place / folder[1]).is_dir() for place in (include, include / "cccl"))


def missing(log) -> set[str]:
    """The names that NVIDIA's compilers did not find."""
    return {name for names in _MISSING.findall(log) for name in names if name}
