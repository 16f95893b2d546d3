"""Counts every launch of tests/nsight under Nsight Compute, with a GPU:  python -m bench.recorded.nsight

Builds one program of all launches with nvcc, runs it once under ncu, reads the memory instructions off the machine
code (SASS) with cuobjdump, and writes nsight.json and nsight.md. Needs torch, numpy, nvcc, ncu and cuobjdump, no
network, and about a minute. `--page` writes only nsight.md, from nsight.json and nsight_differences.json; the engine
runs the launches that differ, and no GPU is needed.

nsight_differences.json is written by hand: {"launch": {"counts": ["global_load_requests", ...], "reason": "..."}}, each
count in which the engine differs from Nsight Compute, and why, by the instructions of the machine code (LDG, LDS, ...).
"""

import argparse
import csv
import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from bench.recorded.ncu import machine, number, run, under_ncu
from tests.launches import build
from tests.nsight.cases import LAUNCHES
from utils.ground.system import write

HERE = Path(__file__).parent
RECORDING, DIFFERENCES, PAGE = HERE / "nsight.json", HERE / "nsight_differences.json", HERE / "nsight.md"


class Count(NamedTuple):
    """One figure of a launch, as Nsight Compute and as the engine call it."""

    metrics: tuple  # of ncu: added up
    rows: dict  # which of Trace.units, if it has the key 'unit', or of Trace.requests
    column: str  # of that table
    compared: bool = True  # whether the engine promises this figure
    less: tuple = ()  # metrics that are subtracted


_L1 = "l1tex__{}_pipe_lsu_mem_{}_op_{}.sum"
COUNTS = {
    f"global_{op}_{column}": Count(
        tuple(_L1.format(f"t_{column}", "global", part) for part in parts),
        {"space": "global", "op": op},
        column,
        op != "atomic",
    )
    for op, parts in {"load": ["ld"], "store": ["st"], "atomic": ["atom", "red"]}.items()
    for column in ("requests", "sectors")
}
for op, part in {"load": "ld", "store": "st", "atomic": "atom"}.items():
    promised = op != "atomic"
    instructions = (f"smsp__inst_executed_op_shared_{part}.sum",)
    if op == "load":  # ldmatrix is counted apart
        instructions += ("smsp__inst_executed_op_ldsm.sum",)
    if op == "atomic":  # counted apart by how the hardware does them
        instructions += tuple(f"smsp__inst_executed_op_shared_atom_dot_{how}.sum" for how in ("alu", "cas"))
    wavefronts = (f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{part}.sum",)
    conflicts = (f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{part}.sum",)
    if op == "store":  # asynchronous copies from global memory are counted apart; those of 16 bytes take no wavefronts
        instructions += ("smsp__inst_executed_op_ldgsts.sum",)
        wavefronts += ("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_access.sum",)
        conflicts += ("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts_cache_access.sum",)
    # ncu has executed instructions here, and counts those too in which no lane was active.
    rows = {"space": "shared", "op": op}
    COUNTS[f"shared_{op}_requests"] = Count(instructions, rows, "requests", False)
    COUNTS[f"shared_{op}_wavefronts"] = Count(wavefronts, rows, "wavefronts", promised)
    COUNTS[f"shared_{op}_bank_conflicts"] = Count(conflicts, rows, "bank_conflicts", False)
# HMMA, DMMA and IMMA with those of warpgroups, without HFMA2.MMA: ordinary code, which takes the same pipe.
COUNTS["tensor_instructions"] = Count(
    tuple(f"sm__inst_executed_pipe_tensor_op_{kind}.sum" for kind in ("hmma", "imma", "dmma")),
    {"unit": "tensor"},
    "instructions",
    less=("sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",),
)
COUNTS["copy_engine_instructions"] = Count(("sm__sass_inst_executed_op_tma.sum",), {"unit": "tma"}, "instructions")
COUNTS["copy_engine_sectors"] = Count(
    (
        "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
        *(f"l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_{op}.sum" for op in ("st", "red")),
    ),
    {"unit": "tma"},
    "sectors",
)
COMPARED = [name for name, count in COUNTS.items() if count.compared]


def engine_counts(launch):
    """The engine's figures for a launch, by the names of COUNTS, and the Trace that they come from."""
    trace = launch.trace()
    counts = {}
    for name, count in COUNTS.items():
        table = trace.units if "unit" in count.rows else trace.requests
        for column, value in count.rows.items():
            table = table[table[column] == value]
        counts[name] = int(table[count.column].fillna(0).sum())
    return counts, trace


def fingerprint(launch):
    """What a launch's figures depend on, hashed: its code without comments and the forms of its arguments."""
    forms = [
        f"{arg.dtype} {tuple(arg.shape)} {arg.storage_offset()}" if hasattr(arg, "dtype") else repr(arg)
        for arg in launch.args()
    ]
    code = " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", "", launch.source, flags=re.DOTALL).split())
    words = repr((code, launch.kernel, launch.grid, launch.block, launch.shared_bytes, forms))
    return hashlib.sha256(words.encode()).hexdigest()[:16]


# ---- on the GPU -----------------------------------------------------------------------------------------------------

# Memory instructions, and those of tensor cores. Of constant memory only the program's own, c[0x3]: a kernel's
# parameters are there as well, in another bank.
_MEMORY = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?"
    r"((?:LDG|STG|LDS|LDSM|STS|STSM|LDL|STL|LD|ST|ATOM|ATOMG|ATOMS|RED|REDG|LDGSTS|[HIDB]MMA|[HIQB]GMMA|UTMALDG|UTMASTG|UTMAREDG|UBLKCP|UBLKRED)\b[\w.]*|\S+(?=.*c\[0x3\]))"
)


def memory_instructions(sass):
    """{mangled kernel: {instruction: how many of them its code has}} from the text of `cuobjdump -sass`."""
    found, kernel = {}, None
    for line in sass.splitlines():
        if name := re.match(r"\s*Function : (\S+)", line):
            kernel = found.setdefault(name[1], Counter())
        elif kernel is not None and (instruction := _MEMORY.match(line)):
            constant = " c[0x3]" if "c[0x3]" in line else ""
            kernel[instruction[1] + constant] += 1
    return {name: dict(sorted(counts.items())) for name, counts in found.items()}


def profiled(text):
    """One dictionary per launch, in their order, from ncu's wide CSV ('raw' page): its columns, without the units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    return [row for row in rows if row["ID"].strip()]  # the row of units has no ID


def record():
    """Count every launch and write both files."""
    began = time.perf_counter()

    def step(text):
        print(f"{time.perf_counter() - began:6.1f} s  {text}", flush=True)

    found = machine() | {"nvcc": re.search(r"V([\d.]+)", run("nvcc", "--version", timeout=30))[1]}
    step(f"{found['gpu']}: building {len(LAUNCHES)} launches")
    with tempfile.TemporaryDirectory() as folder:
        program = build(LAUNCHES, folder, arch=f"sm_{found['compute_capability'].replace('.', '')}")
        step("running them once without ncu")
        run(program, "all", timeout=60)
        step("asking ncu which metrics it has")
        known = set(re.findall(r"^(\w+__\w+)", run("ncu", "--query-metrics", timeout=60), re.MULTILINE))
        metrics = [(metric, c.compared) for c in COUNTS.values() for metric in (*c.metrics, *c.less)]
        missing = [metric for metric, needed in metrics if not needed and metric.removesuffix(".sum") not in known]
        if missing:
            step(f"it does not have {', '.join(missing)}")
        step("running them under ncu")
        asked = ",".join(metric for metric, _ in metrics if metric not in missing)
        options = ["--cache-control", "none", "--page", "raw", "--print-kernel-base", "mangled", "--metrics", asked]
        log = under_ncu([program, "all"], *options, folder=folder)
        rows = profiled(log)
        if len(rows) != len(LAUNCHES):
            raise RuntimeError(f"ncu saw {len(rows)} kernels, not {len(LAUNCHES)}:\n{log[-4000:]}")
        step("reading the machine code")
        instructions = memory_instructions(run("cuobjdump", "-sass", program, timeout=60))
    launches = {}
    for launch, row in zip(LAUNCHES, rows, strict=True):
        counters = {}
        for name, count in COUNTS.items():
            if there := [metric for metric in count.metrics if metric not in missing]:
                total = sum(round(number(row[metric])) for metric in there)
                counters[name] = total - sum(round(number(row[metric])) for metric in count.less)
        launches[launch.name] = {
            "fingerprint": fingerprint(launch),
            "counters": counters,
            "sass": instructions[row["Kernel Name"]],
        }
    write(RECORDING, as_text(found | {"launches": launches}))
    write(PAGE, page())
    step(f"wrote {RECORDING.name} and {PAGE.name}")


def as_text(content):
    """JSON with the counters of a launch on one line, so that a change is easy to see."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\{[^{}]*\}", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text) + "\n"


# ---- the page -------------------------------------------------------------------------------------------------------

_COLUMNS = {
    "loads": "global_load_requests",
    "load sectors": "global_load_sectors",
    "stores": "global_store_requests",
    "store sectors": "global_store_sectors",
    "shared loads": "shared_load_requests",
    "wavefronts of loads": "shared_load_wavefronts",
    "shared stores": "shared_store_requests",
    "wavefronts of stores": "shared_store_wavefronts",
    "atomics": "global_atomic_requests",
    "tensor cores": "tensor_instructions",
    "copy engine": "copy_engine_instructions",
    "its sectors": "copy_engine_sectors",
}

_PAGE = """\
# The engine's counts beside Nsight Compute's

Written by [nsight.py](nsight.py); change that, not this page.

The {launches} launches of [tests/nsight](../../tests/nsight/cases) ran on an {gpu} (compute capability
{compute_capability}, driver {driver}), built by nvcc {nvcc} and counted by Nsight Compute {ncu}.
`tests/nsight/test_nsight.py` runs each of them on the CPU engine and adds up `Trace.requests` and `Trace.units`.
Compared, to the last digit, are the requests and sectors of loads and stores in global memory, the wavefronts of loads
and stores in shared memory, the instructions of tensor cores, and the instructions and sectors of the bulk copy engine.
{verdict}

A *request* is one instruction of one warp, a *sector* 32 bytes of global memory that a request touches, a *wavefront*
one pass over the 32 banks of shared memory. The engine counts the source as it is written; nvcc may merge, split, move
or drop accesses, and where it does the figures differ. [nsight.json](nsight.json) also holds the memory instructions of
each kernel's machine code (SASS), and what is recorded and not compared: atomics and bank conflicts.

To repeat it, on a machine with an NVIDIA GPU, nvcc, ncu and cuobjdump, and permission to read the GPU's counters:

    python -m bench.recorded.nsight

## Nsight Compute's counts

A column that names no memory is about global memory; "tensor cores" and "copy engine" are their instructions. Bold is
what the engine counts differently, as explained below.

{table}

## Where the engine differs

{differences}
"""


def page():
    """The text of nsight.md, from nsight.json, nsight_differences.json and the engine's counts of what differs."""
    recorded = json.loads(RECORDING.read_text())
    differences = json.loads(DIFFERENCES.read_text()) if DIFFERENCES.exists() else {}
    table = ["| launch | " + " | ".join(_COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    for name, entry in recorded["launches"].items():
        differing = differences.get(name, {}).get("counts", ())
        cells = [
            f"**{entry['counters'][count]}**" if count in differing else str(entry["counters"].get(count, ""))
            for count in _COLUMNS.values()
        ]
        table.append(f"| {name} | " + " | ".join(cells) + " |")
    listed = []
    by_name = {launch.name: launch for launch in LAUNCHES}
    for name, difference in differences.items():
        counts, _ = engine_counts(by_name[name])
        measured = recorded["launches"][name]["counters"]
        figures = ", ".join(f"{c.replace('_', ' ')} {measured[c]} and {counts[c]}" for c in difference["counts"])
        sass = ", ".join(f"{n} {i}" for i, n in recorded["launches"][name]["sass"].items())
        listed.append(
            f"- `{name}`: Nsight Compute and the engine count {figures}. {difference['reason']} (SASS: {sass})"
        )
    equal = len(recorded["launches"]) - len(differences)
    elsewhere = sum(not any(count.startswith("global") for count in entry["counts"]) for entry in differences.values())
    verdict = f"{equal} launches are equal in all of them, {len(differences)} differ in some and are listed below; "
    verdict += f"in global memory, {equal + elsewhere} are equal."
    return _PAGE.format(
        **{**recorded, "launches": len(recorded["launches"])},
        verdict=verdict,
        table="\n".join(table),
        differences="\n".join(listed) or "Nowhere.",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.recorded.nsight", description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help=f"only write {PAGE.name}, from what was recorded")
    if parser.parse_args().page:
        write(PAGE, page())
    else:
        record()
