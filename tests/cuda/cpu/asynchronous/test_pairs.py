"""Pairs of a bug and its clean twin: the bug is found where it is marked, and nothing is said of the twin.

They are in pairs.cu (mbarriers and the bulk copy engine) and named.cu (named barriers). The marks are those of
tests/corpus. Each case begins with a heading, `// ---- <kind>_<what>: ...`, and those of a file share one build with
MENDED and one without.
"""

import re
from pathlib import Path

import pytest
import torch

from tests.cuda.cpu.asynchronous.kernels import built_together
from tests.launches import empty, floats, integers
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCES = [(Path(__file__).parent / name).read_text() for name in ("pairs.cu", "named.cu")]
HEADINGS = [re.findall(r"^// ---- (\w+):", source, re.MULTILINE) for source in SOURCES]


def _tile(threads=64, blocks=1):
    return blocks, threads, lambda: [floats(threads * blocks), empty(threads * blocks)]


def _tiles(threads, tiles=5, width=64, more=0):
    return 1, threads, lambda: [floats(tiles + more, width), empty(width), tiles]


#: By name: the kernel, its blocks, its threads, and the arguments, of which the last tensor is the output.
CASES = {
    "uninitialized_parity_of_the_phase_before": ("reverse_tile", *_tile(128, 2)),
    "race_parity_never_flips": ("sum_of_tiles", *_tiles(128, width=128)),
    "divergent_barrier_more_bytes_announced": (
        "doubled",
        *(1, 128, lambda: [integers(128, below=99).short(), empty(128, dtype=torch.int16)]),
    ),
    "asynchronous_second_copy_not_announced": (
        "product_of_tiles",
        *(1, 64, lambda: [floats(64), floats(64, seed=1), empty(64)]),
    ),
    "asynchronous_no_fence_after_init": ("scaled", *_tile()),
    "uninitialized_no_barrier_after_init": ("shifted", *_tile()),
    "race_one_thread_waits": ("centred", *_tile()),
    "race_stage_filled_while_read": ("sums_by_stages", *_tiles(65)),
    "race_count_of_one_reader": ("sums_by_warps", *_tiles(96)),
    "divergent_barrier_count_of_threads": ("sums_by_lanes", *_tiles(65)),
    "uninitialized_waits_for_other_stage": ("differences", *_tiles(64, tiles=2)),
    "race_relaxed_arrival": ("relaxed_sums", *_tiles(65)),
    "race_no_proxy_fence": ("squares", *_tile(blocks=2)),
    "race_proxy_fence_by_one_thread": ("cubes", *_tile()),
    "race_source_overwritten": ("running_sums", 1, 64, lambda: [floats(4, 64), empty(4, 64), 4]),
    "asynchronous_ends_before_store_has_read": ("halves", *_tile(blocks=2)),
    "asynchronous_group_not_committed": ("thirds", *_tile()),
    "uninitialized_result_read_after_wait_read": (
        "total",
        *(1, 64, lambda: [floats(64), floats(64, seed=1), empty(1)]),
    ),
    "asynchronous_barrier_overwritten": ("counted", *_tile()),
    "asynchronous_nobody_waits_for_the_last_copy": ("prefetched", *_tiles(64, more=1)),
    "race_consumer_does_not_wait": ("handed_over", 1, 64, lambda: [floats(32), empty(32)]),
    "race_arrives_before_it_writes": ("announced", 1, 128, lambda: [floats(64), empty(64)]),
    "race_stage_is_not_handed_back": ("summed", *_tiles(64, width=32, tiles=2)),
    "race_barrier_of_one_group": ("exchanged", *_tile(128)),
    "race_two_groups_use_one_number": ("split", 1, 128, lambda: [floats(128), empty(64)]),
    "divergent_barrier_counts_the_whole_block": ("normalized", 1, 96, lambda: [floats(64), empty(64)]),
    "divergent_barrier_producer_leaves_early": ("last_of_tiles", *_tiles(64, width=32, tiles=4)),
}


@pytest.fixture(scope="module", autouse=True)
def together():
    with built_together(*([CASES[name][0] for name in names] for names in HEADINGS)):
        yield


def _source(name):
    return next(source for source, names in zip(SOURCES, HEADINGS, strict=True) if name in names)


def _marks(name):
    """The marked lines of a case, by what the mark says."""
    found, inside = {}, False
    for number, line in enumerate(_source(name).splitlines(), 1):
        heading = re.match(r"// ---- (\w+):", line)
        inside = heading[1] == name if heading else inside
        if inside and (mark := re.search(r"// BUG: (.*)$", line)):
            found.setdefault(mark[1], set()).add(number)
    return found


def _traced(name, order, mended):
    kernel, blocks, threads, args = CASES[name]
    given, source = args(), "#define MENDED\n" * mended + _source(name)
    outputs = [[arg for arg in given if torch.is_tensor(arg)][-1]] if mended else ()
    return Tracer(source, kernel)[blocks, threads](*given, order=order, max_steps=20_000, outputs=outputs).problems


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_the_bug_is_found_and_its_twin_is_clean(name, order):
    assert _traced(name, order, mended=True) == []
    problems, marks = _traced(name, order, mended=False), _marks(name)
    every = set().union(*marks.values())
    assert all({p.line, p.other_line} & every for p in problems), problems
    kind = next(p.kind for p in problems if name.startswith(p.kind))
    lines = set().union(*(lines for mark, lines in marks.items() if kind in mark and "as well" not in mark))
    assert any(p.kind == kind and p.line in lines for p in problems), (problems, marks)


def test_every_case_has_its_place():
    assert sum(HEADINGS, []) == list(CASES)
