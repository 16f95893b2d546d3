"""Who finds which bug of tests/corpus, with a GPU:  python -m bench.recorded.corpus

Traces every case on the engine, builds one program of all cases with nvcc, and runs each case, the fixed ones too,
under compute-sanitizer's memcheck, racecheck, initcheck and synccheck, one process per case and tool. Writes
corpus.json and corpus.md. Needs torch, pandas, g++, nvcc and compute-sanitizer, no network, and some minutes. `--new`
runs only the cases that corpus.json does not have yet. After `--minutes 8` it starts nothing more; the table says what
was not run. `--page` writes only corpus.md, from corpus.json, without a GPU.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.corpus.cases import CASES, KINDS, MAX_STEPS, ORDERS, answer, false_alarms
from tests.launches import build
from utils.ground.system import write

HERE = Path(__file__).parent
FOUND, PAGE = HERE / "corpus.json", HERE / "corpus.md"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT = 30  # seconds, after which a program counts as hanging; others take a few
AT_ONCE = os.cpu_count() or 8
_MAY_HANG = ("runaway", "divergent_barrier")
_START = time.monotonic()


def main():
    options = argparse.ArgumentParser(prog="python -m bench.recorded.corpus", description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=8.0, help="start nothing more after so many minutes")
    options.add_argument("--new", action="store_true", help=f"only the cases that {FOUND.name} does not have")
    options.add_argument("--page", action="store_true", help=f"only write {PAGE.name}, from what was recorded")
    options = options.parse_args()
    if options.page:
        write(PAGE, page(json.loads(FOUND.read_text())))
        return
    deadline = _START + 60 * options.minutes
    known = json.loads(FOUND.read_text())["cases"] if options.new else {}
    cases = [case for case in CASES if case.name not in known]
    made = {}
    for case in cases:
        made[case.name] = {
            "kind": case.kind,
            "file": case.file,
            "lines": list(case.lines),
            "marked": case.marked_lines,
        }
    with tempfile.TemporaryDirectory() as folder:
        program = on_nvcc(cases, folder)
        on_engine(cases, made)
        under_sanitizer(cases, made, program, deadline)
    found = {"machine": machine(), "cases": {case.name: (known | made)[case.name] for case in CASES}}
    write(FOUND, json.dumps(found, indent=1) + "\n")
    write(PAGE, page(found))
    print(f"wrote {FOUND.name} and {PAGE.name}")


def say(text):
    print(f"{time.monotonic() - _START:6.1f} s  {text}", flush=True)


def machine():
    """What this was run on, in words."""
    import torch

    def last_word(command, pattern):
        text = subprocess.run(command, capture_output=True, text=True).stdout
        return (re.search(pattern, text) or ["?", "?"])[1]

    return {
        "gpu": torch.cuda.get_device_name(),
        "nvcc": last_word(["nvcc", "--version"], r"release ([\d.]+)"),
        "compute-sanitizer": last_word(["compute-sanitizer", "--version"], r"Version ([\d.]+)"),
    }


# ---- the engine -----------------------------------------------------------------------------------------------------


def on_engine(cases, found):
    """Fill in each case's 'engine': what the trace reports in every order of threads and blocks."""
    import torch

    import utils.cuda.kernel
    from utils.cuda.cpu.module import modules

    utils.cuda.kernel.device = lambda: torch.device("cpu")  # the GPU's answers are nvcc's program's, not NVRTC's
    launches = [launch for case in cases for launch in (case.launch, case.twin) if launch]

    def build_both(source, names):
        utils.cuda.kernel.compile_kernels(source, names)
        modules(source, names, traced=True)

    builds = dict.fromkeys((launch.source, launch.together or (launch.kernel,)) for launch in launches)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(build_both, source, list(names)) for source, names in builds]
        failed = [future for future in running if future.exception()]
    say(f"built {len(builds)} sources of {len(launches)} traced kernels, {len(failed)} failed")
    for case in cases:
        entry = found[case.name].setdefault("engine", {})
        if case.twin:
            entry["bug"] = traced(case.launch, lambda runs, case=case: judged(case, runs))
        entry["sound"] = traced(case.twin or case.launch, any_alarm)
    right = sum(entry["engine"].get("bug", {}).get("result") == "found" for entry in found.values())
    alarms = sum(entry["engine"]["sound"]["result"] != "nothing" for entry in found.values())
    say(f"traced them in {len(ORDERS)} orders: {right} bugs found, {alarms} alarms or failures on sound kernels")


def traced(launch, judge):
    """What `judge` makes of the problems of a launch, a list for each order."""
    try:
        return judge([launch.trace(order=order, max_steps=MAX_STEPS).problems for order in ORDERS])
    except Exception as error:  # the table shows it; the other cases go on
        return {"result": "fails", "line": None, "says": f"{type(error).__name__}: {error}"}


def judged(case, runs):
    answers = [answer(case, problems) for problems in runs]
    alarms = [p.message for problems in runs for p in false_alarms(case, problems)]
    if all(answers) and not alarms:
        return {"result": "found", "line": answers[0].line, "says": answers[0].message}
    says = alarms or [problems[0].message for problems, one in zip(runs, answers, strict=True) if problems and not one]
    return {"result": "missed", "line": None, "says": (says or [""])[0]}


def any_alarm(runs):
    alarms = [p for problems in runs for p in problems]
    if not alarms:
        return {"result": "nothing", "line": None, "says": ""}
    return {"result": "found", "line": alarms[0].line, "says": alarms[0].message}


# ---- compute-sanitizer ----------------------------------------------------------------------------------------------


def on_nvcc(cases, folder):
    launches = [launch for case in cases for launch in (case.launch, case.twin) if launch]
    program = build(launches, folder)
    say(f"nvcc built the program of {len(launches)} launches")
    return program


def under_sanitizer(cases, found, program, deadline):
    """Fill in each case's four tools. What may hang comes last, so that it does not hold up the others."""
    jobs = [(case, "bug", case.launch) for case in cases if case.twin]
    jobs += [(case, "sound", case.twin or case.launch) for case in cases]
    jobs = [(case, which, launch, tool) for case, which, launch in jobs for tool in TOOLS]
    jobs.sort(key=lambda job: job[1] == "bug" and job[0].kind in _MAY_HANG)
    done = 0
    files = {}  # what the tools call the sources: by the first launch of each
    for case in cases:
        for launch in (case.launch, case.twin):
            if launch:
                files.setdefault(launch.source, launch.name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            pool.submit(sanitized, program, launch.name, files[launch.source], tool, deadline): (
                case,
                which,
                launch,
                tool,
            )
            for case, which, launch, tool in jobs
        }
        for future in as_completed(running):
            case, which, _, tool = running[future]
            found[case.name].setdefault(tool, {})[which] = future.result()
            done += 1
            if done % 40 == 0 or done == len(jobs):
                say(f"{done} of {len(jobs)} runs under compute-sanitizer")


def sanitized(program, name, file, tool, deadline):
    """One launch, of the source that the program calls `file`.cu, under one tool: {'result', 'line', 'says'}.

    The result is 'found' (the tool reported something, `says` is its first words and `line` the first place of the
    source it names), 'nothing', 'fails' (the tool reported nothing, and CUDA an error), 'hangs' or 'not run'.
    """
    if time.monotonic() > deadline:
        return {"result": "not run", "line": None, "says": ""}
    command = ["compute-sanitizer", "--tool", tool, "--print-limit", "20", str(program), name]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    try:
        output, hung = process.communicate(timeout=TIMEOUT)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session of this one process: the tool and the program under it
        output, hung = process.communicate()[0], True
    return read(output, file, hung)


# ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)    ========= ERROR SUMMARY: 3 errors
_SUMMARY = re.compile(r"^=+ (?:RACECHECK|ERROR) SUMMARY: (\d+)", re.MULTILINE)
# How a tool begins to report a problem. Errors of the CUDA calls are memcheck's too, but name no place in a kernel.
_REPORT = re.compile(
    r"^=+ ((?:Error: |Warning: )?(?:Invalid|Uninitialized|Barrier|Divergent|Potential|Race)\b.*)$", re.MULTILINE
)


def read(output, file, hung=False):
    """The result of one run from its output; `file` is what the tools call its source, without '.cu'."""
    reports = _REPORT.findall(output)
    lines = re.findall(rf"\b{re.escape(file)}\.cu:(\d+)", output)
    if reports or (lines and not hung):
        return {"result": "found", "line": int(lines[0]) if lines else None, "says": (reports or [""])[0].strip()}
    if hung:
        return {"result": "hangs", "line": None, "says": ""}
    errors = re.search(r"CUDA error: (.*)", output)
    summary = _SUMMARY.search(output)
    if errors or not summary or int(summary[1]):
        says = errors[1] if errors else " / ".join(output.strip().splitlines()[-2:])
        return {"result": "fails", "line": None, "says": says}
    return {"result": "nothing", "line": None, "says": ""}


# ---- the page -------------------------------------------------------------------------------------------------------

_HEAD = """# Who finds which bug

Each case is a small kernel with a planted bug, as learners write it, and its fixed twin, both in one file;
[cases](../../tests/corpus/cases) has the launches. The engine is `kernel.trace` on a CPU, in {orders} orders of
blocks and threads; a bug counts as found by it only if kind and line (of a race both lines), block and thread are right
in every order. The others are NVIDIA's compute-sanitizer {sanitizer} on an {gpu}; nvcc {nvcc} built the kernels with
`-O3 -lineinfo`. This page is written by [corpus.py](corpus.py); [corpus.json](corpus.json) has the full answers.

A number is the line that was named. *elsewhere* means a line that has nothing to do with the bug, *found* a report that
names no line of the kernel; both count as found. *fails* means that the tool reported nothing, but CUDA stopped the
kernel with an error, and *hangs* that there was no result after {timeout} s. The tools have different aims: initcheck
is about global memory that the host never wrote and racecheck about shared memory, and none looks for what a kernel
forgot to write.
"""


def page(found):
    """The text of corpus.md, from what is in corpus.json."""
    cases, where = found["cases"], found["machine"]
    columns = ("engine", *TOOLS)
    head = _HEAD.format(
        orders=len(ORDERS),
        sanitizer=where["compute-sanitizer"],
        gpu=where["gpu"],
        nvcc=where["nvcc"],
        timeout=TIMEOUT,
    )
    parts = [head, "## Bugs\n", _row("case", "kind", "line", *columns), _row(*["---"] * (3 + len(columns)))]
    bugs = {name: entry for name, entry in cases.items() if entry["kind"]}
    for name, entry in bugs.items():
        cells = [_cell(entry[column]["bug"], entry["marked"]) for column in columns]
        parts.append(_row(_link(name, entry), entry["kind"].replace("_", " "), _lines(entry["lines"]), *cells))
    parts += ["", "## How many of each kind were found\n", _row("kind", "cases", *columns)]
    parts.append(_row(*["---"] * (2 + len(columns))))
    for kind in (*KINDS, "all"):
        chosen = [entry for entry in bugs.values() if kind in (entry["kind"], "all")]
        hits = [sum(entry[column]["bug"]["result"] == "found" for entry in chosen) for column in columns]
        parts.append(_row(kind.replace("_", " "), len(chosen), *hits))
    parts += ["", "## Alarms on sound kernels\n"]
    parts.append(f"{len(bugs)} fixed twins, and {len(cases) - len(bugs)} kernels that only look wrong.\n")
    parts += [_row("case", *columns), _row(*["---"] * (1 + len(columns)))]
    for name, entry in cases.items():
        cells = [_cell(entry[column]["sound"], []) for column in columns]
        if any(cell != "-" for cell in cells):
            parts.append(_row(_link(name, entry) + (", fixed" if entry["kind"] else ""), *cells))
    alarms = [sum(entry[column]["sound"]["result"] == "found" for entry in cases.values()) for column in columns]
    parts.append(_row("all alarms", *alarms))
    return "\n".join(parts) + "\n"


def _link(name, entry):
    return f"[{name}](../../tests/corpus/{entry.get('file', name)}.cu)"


def _lines(lines):
    return (", ".join(map(str, lines)) if len(lines) < 4 else _range(lines)) or "-"


def _row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


def _range(lines):
    return f"{min(lines)} to {max(lines)}"


def _cell(run, marked):
    if run["result"] == "nothing":
        return "-"
    if run["result"] != "found" or not run.get("line"):
        return run["result"]
    return str(run["line"]) if run["line"] in marked or not marked else f"elsewhere ({run['line']})"


if __name__ == "__main__":
    main()
