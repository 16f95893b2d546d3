"""Reports as the runtime makes them, and the traces made of them, for the tests of this folder."""

import json

import numpy as np

from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.trace import Trace


def in_device_code(rewrite, before, text):
    """What `rewrite` makes of a kernel with this text, and of the same text in a function of the host; None if nothing.
    It keeps the lines, and `before`, which comes first."""
    source = f"{before}__global__ void k(float* x, int n) {{\n{text}\n}}\nvoid host() {{ {text} }}\n"
    changed, first = rewrite(source), rewrite(before)
    assert changed.count("\n") == source.count("\n") and changed.startswith(first)
    own = changed.removeprefix(first)
    return own if own != source.removeprefix(before) else None


SOURCE = """\
__global__ void kernel(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = x[i];
    while (s[0] == 0) i++;
    s[threadIdx.x] += s[threadIdx.x + 1];
}
"""


def at(line, n=0):
    """A code position of `line`, as the runtime writes it."""
    return hex(100 * line + n)


def lines(positions):
    """The line of each position from `at`; those below 100 have none."""
    assert len(set(positions)) == len(positions) and all(type(position) is int for position in positions)
    return [[position // 100] if position >= 100 else [] for position in positions]


def traced(*problems, sites=(), source=SOURCE, kernel="kernel", **report):
    total = sum(problem.get("count", 1) for problem in problems)
    report = {"sites": sites, "problems": problems, "total": total, "threads": 1024, "shared": [], **report}
    return Trace(kernel, source, read(json.loads(json.dumps(report)), source, lines))


def problem(kind, line, **fields):
    """A record such as the runtime makes; a float tensor x of 1024 elements unless told otherwise."""
    common = {"pc": at(line), "op": "load", "bytes": 4, "block": [3, 0, 0], "thread": [31, 0, 0], "space": "global"}
    region = {"region": "x", "region_bytes": 4096, "element": 4, "offset": 4096, "count": 1}
    return {"kind": kind, **common, **region, **fields}


def shared(kind, line, **fields):
    """The same of a shared array s of 256 floats."""
    return problem(kind, line, **{"space": "shared", "region": "s", "region_bytes": 1024, "offset": 12, **fields})


def message(*problems, **report):
    (found,) = traced(*problems, **report).problems
    return found.message


def hint(record, source):
    (found,) = traced(record, source=source).problems
    return found.hint


def site(line, space, op, size, offsets, region="x", element=4, base=0, requests=1, n=0, block=(0, 0, 0), **counts):
    """A site whose example is these lanes' offsets (None: the lane is not active), counted by a model of a warp."""
    lanes = [[lane, offset] for lane, offset in enumerate(offsets) if offset is not None]
    sectors = {(base + offset + byte) // 32 for _, offset in lanes for byte in range(size)}
    words = {(base + offset + byte) // 4 for _, offset in lanes for byte in range(size)}
    wavefronts = max(np.bincount([word % 32 for word in words]))
    counts = {"sectors": len(sectors) * requests, "wavefronts": int(wavefronts) * requests, **counts}
    counts.setdefault("bank_conflicts", counts["wavefronts"] - requests)
    example = {"block": list(block), "warp": 0, "region": region, "element": element, "lanes": lanes}
    example["base_alignment"] = base
    start = {"pc": at(line, n), "space": space, "op": op, "bytes": size, "accesses": len(lanes) * requests}
    return {**start, "requests": requests, **counts, "example": example}


LANES = range(32)
