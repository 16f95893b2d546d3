"""Compile a CUDA program and run it:  python -m utils.cuda.run program.cu [more.cu|.cpp ...] [arguments] [options]

The files before the first word that does not end in .cu, .cpp, .cc, .cxx or .c are compiled together; everything after
them is passed to the program, except these options, which may be anywhere:

  --trace     record every access of every launch, on the CPU, and report what the kernels do wrong
  --max-steps=N
              how many steps a thread may take in a trace before it counts as a loop without end
  -I FOLDER   search this folder for headers, too
  -DNAME[=VALUE], -UNAME
              define or undefine a macro
  -std=c++20  the language, C++17 if not given, as for nvcc
  -lNAME      link with this library; CUDA's own need no naming (before the program's arguments only)
  -Xcompiler FLAG
              a flag for the C++ compiler, such as -fopenmp
  --expt-relaxed-constexpr, --extended-lambda, --use_fast_math
              as for nvcc; in front of the files, its -O3, -lineinfo, -g, -w and -arch=... are accepted, too, and
              change nothing
  --verbose   print the commands that compile it
  --          what follows belongs to the program, even if it looks like an option

With a GPU nvcc builds the program for it. Without one the CPU engine does. What the program prints and reads, and its
exit code, are passed on. The engine reports a kernel's fault, and every problem that a trace finds, on stderr, and the
exit code is not 0. After a fault CUDA's functions return the error that they return on a GPU. A program that was built
before starts at once.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from utils.cuda import verdict
from utils.cuda.common.cache import build_once, file_name, hashed
from utils.cuda.common.program import SUFFIXES, program
from utils.cuda.common.toolchain import cache_folder, on_gpu
from utils.ground.errors import CourseError

__all__ = ["main"]

_FOR_NVCC = re.compile(r"--?(?:expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|use_fast_math)")
_OF_NO_USE = re.compile(r"-O\d?|-lineinfo|-g|-G|-w|-arch=\S+|-gencode=\S+")  # this machine's GPU decides


class Command(NamedTuple):
    """What the command line asks for."""

    files: list[str]
    arguments: list[str]
    folders: list[str]
    macros: list[str]
    standard: str
    libraries: list[str]
    host_flags: list[str]
    nvcc_flags: list[str]
    max_steps: int | None
    trace: bool
    verbose: bool


def main(words) -> int:
    """Run the command; returns the program's exit code, 128 plus the signal's number if a signal ended it."""
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if words else 2
    try:
        command = _command(words)
        whole = program(*command[:1], *command[2:8])
        return _run(command, _built(command, whole), whole)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
    except (CourseError, ValueError) as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 2


def _command(words) -> Command:
    """The command line, sorted. Raises ValueError if it names no source."""
    files, arguments, folders, macros, standard, flags = [], [], [], [], "c++17", set()
    libraries, host_flags, nvcc_flags, max_steps = [], [], [], None
    ahead = list(words)
    while ahead:
        word = ahead.pop(0)
        if word == "--":
            arguments += ahead
            break
        if word in ("--trace", "--verbose"):
            flags.add(word)
        elif word in ("-I", "-D", "-U") and ahead:
            ahead.insert(0, word + ahead.pop(0))
        elif word[:2] == "-I" and word[2:]:
            folders.append(word[2:])
        elif word[:2] in ("-D", "-U") and word[2:]:
            macros.append(word)
        elif number := re.fullmatch(r"--max-steps=(\d+)", word):
            max_steps = int(number[1])
        elif word.startswith("-std="):
            standard = word[5:]
        elif word == "-Xcompiler" and ahead:
            host_flags.append(ahead.pop(0))
        elif _FOR_NVCC.fullmatch(word) and not arguments:
            nvcc_flags.append(word)
        elif _OF_NO_USE.fullmatch(word) and not files:
            continue
        elif word[:2] == "-l" and word[2:] and not arguments:
            libraries.append(word[2:])
        elif word.endswith(SUFFIXES) and not arguments:
            files.append(word)
        elif files:
            arguments.append(word)
        else:
            raise ValueError(f"{word!r} is neither an option nor a source: name a .cu file first, or ask for --help")
    if not files:
        raise ValueError("name the program's source, as in `python -m utils.cuda.run program.cu`")
    compiling = (folders, macros, standard, libraries, host_flags, nvcc_flags)
    return Command(files, arguments, *compiling, max_steps, "--trace" in flags, "--verbose" in flags)


def _built(command, whole):
    """The folder of the built program, made now or earlier."""
    if not command.trace and on_gpu():
        from utils.cuda.gpu.program import build, expected_seconds, fingerprint

        where, seconds, key, judges, needed = "cuda", expected_seconds(), fingerprint(), [], ()
    else:
        from utils.cuda.cpu import library
        from utils.cuda.cpu.build import build_program, expected_seconds, kernel_fingerprint

        def build(whole, place, say):
            return build_program(whole, place, command.trace, say)

        where, seconds, key = "cpu", 2 + expected_seconds(), kernel_fingerprint(command.trace)
        judges, needed = verdict.on_program(whole), [library.path()]
    first = os.path.basename(command.files[0])
    judged = [judge.fingerprint for judge in judges]
    folder = cache_folder() / where / f"{file_name(first)}_{hashed(whole.fingerprint(), key, judged, command.trace)}"

    def filled(place):
        with open(place / "commands.txt", "w") as commands:
            say = partial(print, file=commands)
            return _judged(judges, lambda: build(whole, place, say), place, say)

    what = f"compiling {first} for the {'CPU' if where == 'cpu' else 'GPU'}"
    build_once(folder, filled, what, whole.texts, seconds, command.verbose, needed)
    return folder


def _judged(judges, build, place, say):
    """The log of `build()` while all `judges` are at work; that of a judge who rejects the program. What they warn of
    is put where `build_once` looks for it."""
    rooms = [place / f"judge_{number}" for number in range(len(judges))]
    for room, judge in zip(rooms, judges, strict=True):
        build = partial(judge.beside, build, room, say)
        room.mkdir()
    log = build()
    with open(place / "warnings.log", "a") as kept:
        kept.writelines(told.read_text() for room in rooms if (told := room / "warnings.log").exists())
    return log


def _run(command, folder, whole) -> int:
    """Run the program, with our own stdin, stdout and stderr; report what a trace finds."""
    if not command.trace:
        return _finished(command, folder, None)
    from utils.cuda.cpu.trace.program import environment, problems

    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        report.touch()
        code = _finished(command, folder, environment(report, command.max_steps))
        found = problems(report, str(folder / "program"), whole.sources | whole.headers)
        is_whole = report.stat().st_size > 0  # the program has not died in between
    for path, problem in found:
        print(f"{os.path.basename(path)}: {problem!r}", file=sys.stderr)
    if not found and is_whole:
        print(f"{os.path.basename(command.files[0])}: the trace has found no problem", file=sys.stderr)
    return code or int(bool(found))


def _finished(command, folder, environment):
    """The exit code of the program, which is run with this environment."""
    sys.stdout.flush()
    running, came = None, []

    def pass_on(number, _):
        came.append(number)
        if running:
            running.send_signal(number)

    # By `kill` or a closed terminal: the program is to end with us, unless both ignore it (`nohup`).
    ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = [signal.signal(each, pass_on) for each in ends]
    running = subprocess.Popen([str(folder / "program"), *command.arguments], env=environment)
    for number in came:  # before it was there
        running.send_signal(number)
    while True:
        try:
            code = running.wait()
            break
        except KeyboardInterrupt:  # the terminal sends it to the program, too
            continue
    for each, handler in zip(ends, before, strict=True):
        signal.signal(each, handler)
    if code >= 0:
        return code
    print(f"{command.files[0]} was ended by {signal.Signals(-code).name}", file=sys.stderr)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
