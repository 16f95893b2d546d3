"""What the trace of a whole program found: every launch is traced, and the program writes a report when it ends."""

import json
import os

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.doubts import holds_floats, plausible
from utils.cuda.cpu.trace.lines import source_places
from utils.cuda.cpu.trace.problems import MANY_PROBLEMS, MAX_STEPS, Problem, problems_of
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.source import kernel_parameter, parameter_type

__all__ = ["environment", "problems"]


def environment(report, max_steps=None) -> dict[str, str]:
    """The environment for a traced program (build.py), with which it writes its report to the file `report`."""
    return {**os.environ, "CUDA_COURSE_TRACE": f"{MANY_PROBLEMS}:{max_steps or MAX_STEPS}:{report}"}


def problems(report, executable, texts) -> list[tuple[str, Problem]]:
    """The problems in the file `report`, each with the path of the source that it is in.

    `texts` are the program's sources and headers by their paths. Empty if the program ended without a report.
    """
    found = json.loads(report.read_text(errors="replace") or "{}")
    names = {str(path): text for path, text in texts.items()}
    kernels = {name: kernel for text in names.values() for name, kernel in cxx.kernels(text).items()}
    by_file = {}

    def in_floats(region):
        return any(holds_floats(parameter_type(region, text)) for text in names.values())

    for record in plausible(found.get("problems", ()), in_floats):
        record["region"] = kernel_parameter(record["region"], kernels)
        sides = [int(side["pc"], 16) for side in (record, record.get("other") or record)]
        places = [place for places in source_places(executable, 0, sides, names.keys()) for place in places[:1]]
        by_file.setdefault(places[0][0] if places else next(iter(names)), []).append(record)
    return [
        (name, problem)
        for name, records in by_file.items()
        for problem in problems_of(_recorded(records, found, executable, name, names[name]).problems)
    ]


def _recorded(records, report, executable, name, text):
    """The records of one source, with its lines."""

    def lines(positions):
        return [[line for _, line in places] for places in source_places(executable, 0, positions, {name})]

    return read({"problems": records, "shared": report.get("shared", ())}, text, lines)
