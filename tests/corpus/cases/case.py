"""The corpus: kernels with a planted bug, each with its mended twin, and kernels without a bug that look like one.

`CASES` lists them all. A file `<kind>_<what>.cu` holds both twins; the mended one is compiled with MENDED defined. In a
file `clean_<what>.cu` there is nothing to mend. Where the bug must be reported is marked in the source, by a comment at
the end of the line:

    out[i] = x[i];  // BUG: out_of_bounds       this line is the answer, or one of the answers
    tile[t] = x[i];  // BUG: the other          the other thread of a race, or of a divergent barrier, is here
    out[i] = 1.0f;  // BUG: race as well        a second bug that comes with the first; it may be reported
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from tests.launches import Launch, bytes_, empty, floats, integers

__all__ = ["CASES", "KINDS", "MAX_STEPS", "ORDERS", "Case", "answer", "false_alarms"]

KINDS = (
    "out_of_bounds",
    "race",
    "divergent_barrier",
    "uninitialized",
    "unwritten",
    "misaligned",
    "runaway",
)

ORDERS = ("forward", "reversed", 1, 2)  # of blocks and threads; a bug is a bug in any of them
MAX_STEPS = 20_000  # a thread of a sound kernel runs some thousand basic blocks at most

_FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Case:
    """A bug and its mended twin, or a clean kernel, with its launch.

    `who(block, thread)` says whether a thread does what it is accused of; both are (x, y, z).
    """

    launch: Launch
    twin: Launch | None  # the mended one; None for a clean kernel
    who: Callable = field(default=lambda block, thread: True)

    @property
    def name(self):
        return self.launch.name

    @property
    def kind(self):
        """The kind of problem; None for a clean kernel."""
        return next((kind for kind in KINDS if self.name.startswith(kind)), None)

    @property
    def lines(self):
        """The lines, counted from 1, on one of which the problem must be reported. None is marked for `unwritten`."""
        marked = _marks(self.launch.source, self.kind)
        if self.kind == "runaway":  # a loop is left anywhere between its head and its end
            marked = [line for head in marked for line in _loop(self.launch.source, head)]
        return marked

    @property
    def other_lines(self):
        """Where the other thread of a race or of a divergent barrier may be."""
        return _marks(self.launch.source, "the other")

    @property
    def marked_lines(self):
        """All lines that have to do with the bug."""
        return sorted({*_marks(self.launch.source, ""), *self.lines})


def answer(case, problems):
    """The first of `problems` that is the planted bug: kind, lines, block and thread are right. None if none is."""
    for p in problems:
        if p.kind != case.kind or not _right_lines(case, p):
            continue
        accused = [(p.block, p.thread)] if p.block else []
        if p.kind == "race":
            accused.append((p.other_block, p.other_thread))
        if (accused or p.kind == "unwritten") and all(case.who(*thread) for thread in accused):
            return p
    return None


def false_alarms(case, problems):
    """Those of `problems` that have nothing to do with the planted bug: all that touch no marked line."""
    marked = {*case.marked_lines}
    return [p for p in problems if not marked & {p.line, p.other_line} and not p.kind == case.kind == "unwritten"]


def _right_lines(case, problem):
    if case.kind == "unwritten":  # what nobody wrote has no line
        return problem.line is None
    if case.kind == "race" or case.other_lines:
        others = case.other_lines or case.lines
        ways = [(problem.line, problem.other_line), (problem.other_line, problem.line)]
        return any(one in case.lines and other in others for one, other in ways)
    return problem.line in case.lines


def _marks(source, text):
    lines = enumerate(source.splitlines(), 1)
    return [number for number, line in lines if (mark := re.search(r"// BUG: (.*)$", line)) and text in ("", mark[1])]


def _loop(source, head):
    """The lines of the loop that begins at line `head`: those that are indented deeper, and its closing brace."""
    lines = source.splitlines()
    depth = len(lines[head - 1]) - len(lines[head - 1].lstrip())
    last = head
    for number in range(head + 1, len(lines) + 1):
        line = lines[number - 1]
        if line.startswith("#"):
            continue
        if len(line) - len(line.lstrip()) <= depth:
            closes = line.rstrip() == " " * depth + "}"
            return range(head, (number if closes else last) + 1)
        last = number
    return range(head, last + 1)


def _case(name, kernel, grid, block, args, shared_bytes=0, outputs=(), who=None, mended_shared_bytes=None):
    """A case from its file. `outputs` is asked of the mended twin; of the bug only where it is left unwritten."""
    source = (_FOLDER / f"{name}.cu").read_text()
    complete = Launch(name, source, kernel, grid, block, args, shared_bytes, tuple(outputs))
    if name.startswith("clean"):
        return Case(complete, None)
    bug = complete if name.startswith("unwritten") else replace(complete, outputs=())
    shared = shared_bytes if mended_shared_bytes is None else mended_shared_bytes
    twin = replace(complete, name=f"{name}.mended", source=f"#define MENDED\n{source}", shared_bytes=shared)
    return Case(bug, twin, who or (lambda block, thread: True))


def _flat(threads):
    """For a 1-D launch: a check of i = block * threads + thread from a check of block and thread."""
    return lambda good: lambda block, thread: good(block[0] * threads + thread[0])


def zeros(*shape, dtype=torch.int32):
    """A tensor of zeros, for a kernel that counts or adds up."""
    return torch.zeros(*shape, dtype=dtype)


def _from_zero_to_one(n):
    """Values in [0, 1], the last of them 1."""
    x = floats(n).abs().remainder(1)
    x[-1] = 1.0
    return x


def _view(n):
    """n floats that begin 4 bytes behind a multiple of 16."""
    return floats(n + 1)[1:]


def _sorted(n):
    return floats(n).sort().values


CASES = [
    # ---- out_of_bounds ----
    _case(
        "out_of_bounds_guard_le",
        "twice",
        4,
        256,
        lambda: [floats(1000), empty(1000), 1000],
        outputs=[1],
        who=_flat(256)(lambda i: i == 1000),
    ),
    _case(
        "out_of_bounds_no_guard",
        "ramp",
        4,
        64,
        lambda: [empty(200), 200],
        outputs=[0],
        who=_flat(64)(lambda i: i >= 200),
    ),
    _case(
        "out_of_bounds_swapped_indices",
        "invert",
        (3, 2),
        (16, 16),
        lambda: [bytes_(20, 45), empty(20, 45, dtype=torch.uint8), 20, 45],
        outputs=[1],
        who=lambda b, t: (b[0] * 16 + t[0]) * 45 + b[1] * 16 + t[1] >= 20 * 45,
    ),
    _case(
        "out_of_bounds_row_stride",
        "add_row",
        (2, 3),
        (16, 16),
        lambda: [floats(40, 24), floats(24, seed=1), 40, 24],
        who=lambda b, t: (b[1] * 16 + t[1]) * 40 + b[0] * 16 + t[0] >= 40 * 24,
    ),
    _case(
        "out_of_bounds_negative_stencil",
        "difference",
        3,
        100,
        lambda: [floats(300), empty(300), 300],
        outputs=[1],
        who=_flat(100)(lambda i: i == 0),
    ),
    _case(
        "out_of_bounds_halo_forgotten",
        "mean3",
        3,
        64,
        lambda: [floats(150), empty(150), 150],
        outputs=[1],
        who=lambda b, t: t[0] >= 62,
    ),
    _case(
        "out_of_bounds_inner_dimension",
        "roll",
        1,
        (16, 16),
        lambda: [floats(16, 16), empty(16, 16)],
        outputs=[1],
        who=lambda b, t: t[0] == 15,
    ),
    _case("out_of_bounds_constant_index", "blur", 2, 64, lambda: [floats(100), empty(100), 100], outputs=[1]),
    _case(
        "out_of_bounds_dynamic_shared",
        "reverse_each_block",
        2,
        96,
        lambda: [integers(192, below=1000), empty(192, dtype=torch.int32)],
        shared_bytes=96 * 4,
        outputs=[1],
        who=lambda b, t: t[0] == 0,
    ),
    _case(
        "out_of_bounds_dynamic_too_short",
        "moments",
        3,
        64,
        lambda: [floats(192), empty(3), empty(3)],
        shared_bytes=64 * 4,
        mended_shared_bytes=2 * 64 * 4,
        outputs=[1, 2],
    ),
    _case(
        "out_of_bounds_half_pair",
        "halve",
        1,
        128,
        lambda: [floats(201, dtype=torch.float16), empty(201, dtype=torch.float16), 201],
        outputs=[1],
        who=lambda b, t: t[0] == 100,
    ),
    _case(
        "out_of_bounds_struct_neighbour",
        "pull",
        2,
        64,
        lambda: [floats(100, 3), empty(100), 100],
        outputs=[1],
        who=_flat(64)(lambda i: i == 99),
    ),
    _case(
        "out_of_bounds_scan_negative",
        "running_sums",
        2,
        128,
        lambda: [integers(256, below=10), empty(256, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] < 64,
    ),
    _case(
        "out_of_bounds_scan_one_behind",
        "row_starts",
        2,
        64,
        lambda: [integers(100, below=10).cumsum(0).int(), empty(100, dtype=torch.int32), 100],
        outputs=[1],
        who=_flat(64)(lambda i: i == 99),
    ),
    _case(
        "out_of_bounds_index_overflow",
        "fill",
        157,
        256,
        lambda: [empty(40000), 40000, 0.5],
        outputs=[0],
        who=_flat(256)(lambda i: i >= 32768),
    ),
    _case(
        "out_of_bounds_rgb_planes",
        "grayscale",
        5,
        64,
        lambda: [bytes_(3, 16, 20), empty(16, 20, dtype=torch.uint8), 320],
        outputs=[1],
    ),
    _case(
        "out_of_bounds_volume_depth",
        "scale_volume",
        (2, 2, 2),
        (8, 4, 4),
        lambda: [floats(5, 6, 10), 5, 6, 10],
        who=lambda b, t: b[2] == 1 and t[2] >= 1,
    ),
    _case(
        "out_of_bounds_histogram_bin",
        "histogram",
        3,
        128,
        lambda: [_from_zero_to_one(300), zeros(10), 300],
        who=_flat(128)(lambda i: i == 299),
    ),
    _case(
        "out_of_bounds_matmul_tile",
        "matmul<16>",
        (2, 2),
        (16, 16),
        lambda: [floats(20, 25), floats(25, 18, seed=1), empty(20, 18), 20, 18, 25],
        outputs=[2],
    ),
    _case(
        "out_of_bounds_warp_slots",
        "block_sum",
        2,
        256,
        lambda: [floats(500), empty(2), 500],
        outputs=[1],
        who=lambda b, t: t[0] in (0, 128, 160, 192, 224),
    ),
    # ---- race ----
    _case(
        "race_tile_no_barrier_before",
        "reverse_each_block",
        2,
        128,
        lambda: [floats(256), empty(256)],
        outputs=[1],
    ),
    _case(
        "race_tile_no_barrier_after",
        "matmul<8>",
        (3, 2),
        (8, 8),
        lambda: [floats(13, 20), floats(20, 17, seed=1), empty(13, 17), 13, 17, 20],
        outputs=[2],
    ),
    _case("race_reduction_barrier_outside", "block_sum", 2, 256, lambda: [floats(512), empty(2)], outputs=[1]),
    _case(
        "race_reduction_last_warp",
        "block_sum",
        2,
        256,
        lambda: [floats(512), empty(2)],
        outputs=[1],
        who=lambda b, t: t[0] < 32,
    ),
    _case("race_histogram_global", "histogram", 4, 128, lambda: [bytes_(500), zeros(256), 500]),
    _case("race_histogram_shared", "histogram", 2, 128, lambda: [integers(1000, below=64), zeros(64), 1000]),
    _case("race_atomic_on_one_side", "count_positive", 4, 64, lambda: [floats(250), zeros(1), 250]),
    _case(
        "race_last_block_no_fence",
        "grid_sum",
        6,
        64,
        lambda: [floats(384), empty(6), zeros(1), empty(1)],
        outputs=[1, 3],
        who=lambda b, t: t[0] == 0,
    ),
    _case("race_stencil_in_place", "smooth", 4, 64, lambda: [floats(250), zeros(250, dtype=torch.float32), 250]),
    _case("race_transpose_in_place", "transpose", (3, 3), (8, 8), lambda: [floats(20, 20), 20]),
    _case(
        "race_blocks_write_one_element",
        "largest",
        4,
        128,
        lambda: [integers(512, below=10000), zeros(1)],
        who=lambda b, t: t[0] == 0,
    ),
    _case("race_grid_stride", "twice", 3, 64, lambda: [floats(400), 400]),
    _case(
        "race_neighbour_block",
        "two_steps",
        4,
        32,
        lambda: [floats(128), empty(128), empty(128), 128],
        outputs=[1, 2],
        who=lambda b, t: t[0] in (0, 31),
    ),
    _case("race_double_buffer", "sum_of_rows", 1, 64, lambda: [floats(7, 64), empty(64), 7], outputs=[1]),
    _case("race_flag_broadcast", "process", 2, 64, lambda: [torch.tensor([1, 0], dtype=torch.int32), floats(128)]),
    _case("race_broadcast_reused", "subtract_first", 1, 64, lambda: [floats(5, 64), 5]),
    _case(
        "race_scan_in_place",
        "running_sums",
        1,
        128,
        lambda: [integers(128, below=10), empty(128, dtype=torch.int32)],
        outputs=[1],
    ),
    _case(
        "race_overlapping_arrays",
        "swap_ends",
        1,
        64,
        lambda: [integers(64, below=99), floats(64), empty(64, dtype=torch.int32), empty(64)],
        shared_bytes=64 * 8,
        outputs=[2, 3],
    ),
    _case("race_tile_sync_too_small", "reverse", 1, 64, lambda: [floats(64), empty(64)], outputs=[1]),
    _case(
        "race_bits_of_a_byte",
        "signs",
        2,
        64,
        lambda: [floats(100), zeros(13, dtype=torch.uint8), 100],
        outputs=[1],
    ),
    _case(
        "race_check_then_write",
        "smallest",
        3,
        64,
        lambda: [integers(150, below=10000), torch.full((1,), 20000, dtype=torch.int32), 150],
    ),
    _case(
        "race_blocks_overlap",
        "difference",
        4,
        32,
        lambda: [floats(100), zeros(99, dtype=torch.float32), 100],
        outputs=[1],
        who=lambda b, t: t[0] in (0, 31),
    ),
    # ---- divergent_barrier ----
    _case(
        "divergent_barrier_in_branch",
        "repeat_half",
        2,
        128,
        lambda: [floats(128), zeros(256, dtype=torch.float32)],
        shared_bytes=64 * 4,
    ),
    _case("divergent_barrier_early_return", "smooth", 3, 128, lambda: [floats(300), empty(300), 300], outputs=[1]),
    _case(
        "divergent_barrier_if_else",
        "exchange",
        1,
        64,
        lambda: [integers(64, below=99), empty(64, dtype=torch.int32)],
        outputs=[1],
    ),
    _case("divergent_barrier_loop_counts", "total", 1, 32, lambda: [floats(40), empty(32), 40], outputs=[1]),
    _case(
        "divergent_barrier_shuffle_mask",
        "half_warp_sum",
        2,
        32,
        lambda: [integers(64, below=99), empty(2, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] < 16,
    ),
    _case("divergent_barrier_group_part", "first_tile_fills", 2, 64, lambda: [empty(64)], outputs=[0]),
    _case(
        "divergent_barrier_syncwarp",
        "even_lanes",
        1,
        32,
        lambda: [integers(32, below=99), empty(16, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] % 2 == 0,
    ),
    _case(
        "divergent_barrier_grid_sync",
        "two_steps",
        2,
        64,
        lambda: [floats(100), empty(100), empty(100), 100],
        outputs=[1, 2],
    ),
    _case("divergent_barrier_break", "settle", 2, 64, lambda: [8 * floats(128).abs(), zeros(128)], outputs=[1]),
    # ---- uninitialized ----
    _case(
        "uninitialized_accumulator",
        "count_positive",
        3,
        64,
        lambda: [floats(180), empty(3, dtype=torch.int32), 180],
        outputs=[1],
    ),
    _case(
        "uninitialized_last_rows",
        "matmul<8>",
        (3, 2),
        (8, 8),
        lambda: [floats(13, 20), floats(20, 17, seed=1), empty(13, 17), 13, 17, 20],
        outputs=[2],
    ),
    _case(
        "uninitialized_halo",
        "mean3",
        3,
        64,
        lambda: [floats(192), empty(192), 192],
        outputs=[1],
        who=lambda b, t: (b[0], t[0]) in ((0, 0), (2, 63)),
    ),
    _case("uninitialized_read_before_fill", "sum_of_rows", 1, 32, lambda: [floats(6, 32), empty(32), 6], outputs=[1]),
    _case("uninitialized_async_copy", "reverse", 2, 64, lambda: [floats(128), empty(128)], outputs=[1]),
    _case(
        "uninitialized_warp_slots",
        "block_sum",
        2,
        128,
        lambda: [floats(250), empty(2), 250],
        outputs=[1],
        who=lambda b, t: 4 <= t[0] < 32,
    ),
    _case("uninitialized_bins_half_cleared", "histogram", 2, 128, lambda: [bytes_(2000), zeros(256), 2000]),
    _case(
        "uninitialized_struct_member",
        "largest",
        2,
        64,
        lambda: [floats(128), empty(2), empty(2, dtype=torch.int32)],
        shared_bytes=64 * 8,
        outputs=[1, 2],
    ),
    # ---- unwritten ----
    _case("unwritten_vector_tail", "twice", 1, 64, lambda: [floats(103), empty(103), 103], outputs=[1]),
    _case("unwritten_capped_grid", "cosine", 2, 64, lambda: [floats(300), empty(300), 300], outputs=[1]),
    _case(
        "unwritten_rounded_down", "clamp_positive<float>", 2, 32, lambda: [floats(200), empty(200), 200], outputs=[1]
    ),
    _case(
        "unwritten_border", "mean3x3", (2, 2), (16, 16), lambda: [floats(20, 30), empty(20, 30), 20, 30], outputs=[1]
    ),
    _case(
        "unwritten_block_row",
        "row_numbers",
        (2, 3),
        (8, 8),
        lambda: [empty(20, 12, dtype=torch.int32), 20, 12],
        outputs=[0],
    ),
    # ---- misaligned ----
    _case("misaligned_view", "sum4", 1, 64, lambda: [_view(256), empty(64), 256], outputs=[1]),
    _case(
        "misaligned_rows",
        "negate",
        1,
        (4, 8),
        lambda: [floats(6, 10), 6, 10],
        who=lambda b, t: t[1] % 2 == 1,
    ),
    _case(
        "misaligned_shared_arrays",
        "weigh",
        1,
        33,
        lambda: [bytes_(33), floats(33, dtype=torch.float64), empty(33, dtype=torch.float64)],
        shared_bytes=40 + 33 * 8,
        outputs=[2],
    ),
    _case(
        "misaligned_records",
        "numbers",
        1,
        64,
        lambda: [bytes_(250), empty(50, dtype=torch.int32), 50],
        outputs=[1],
        who=lambda b, t: (5 * t[0] + 1) % 4 != 0,
    ),
    # ---- runaway ----
    _case("runaway_counter", "partial_sums", 1, 32, lambda: [floats(100), empty(32), 100], outputs=[1]),
    _case(
        "runaway_bisection",
        "places",
        1,
        64,
        lambda: [torch.linspace(-8, 8, 33), 33, floats(50), zeros(50), 50],
        outputs=[3],
        who=lambda b, t: t[0] < 50,
    ),
    _case(
        "runaway_unsigned_down",
        "powers",
        1,
        32,
        lambda: [empty(20, dtype=torch.int32), 20],
        outputs=[0],
        who=lambda b, t: t[0] == 0,
    ),
    _case("runaway_zero_stride", "halve", 1, 32, lambda: [floats(100), 100]),
    # ---- clean ----
    _case(
        "clean_last_block",
        "grid_sum",
        5,
        128,
        lambda: [floats(1000), empty(5), zeros(1), empty(1), 1000],
        outputs=[1, 3],
    ),
    _case("clean_warp_shuffles", "warp_sums", 2, 96, lambda: [floats(180), empty(6), 180], outputs=[1]),
    _case(
        "clean_warp_slots",
        "reverse_each_warp",
        2,
        128,
        lambda: [integers(256, below=99), empty(256, dtype=torch.int32), 3],
        outputs=[1],
    ),
    _case("clean_double_buffer", "diffuse", 2, 64, lambda: [floats(128), empty(128), 9], outputs=[1]),
    _case(
        "clean_atomics_on_one_word",
        "statistics",
        3,
        64,
        lambda: [integers(180, below=1000), zeros(1), zeros(1), zeros(1), 180],
        outputs=[1, 2, 3],
    ),
    _case(
        "clean_broadcast_reads",
        "normalise",
        3,
        64,
        lambda: [floats(180), floats(1, seed=1), empty(180), 180],
        outputs=[2],
    ),
    _case(
        "clean_bytes_of_a_word",
        "threshold",
        3,
        50,
        lambda: [floats(145), empty(145, dtype=torch.uint8), 145],
        outputs=[1],
    ),
    _case("clean_early_return", "square_roots", 3, 64, lambda: [floats(180), empty(180), 180], outputs=[1]),
    _case(
        "clean_block_leaves_together",
        "reverse_some",
        6,
        64,
        lambda: [
            torch.tensor([64, 10, 0, 33], dtype=torch.int32),
            integers(4, 64, below=99),
            empty(4, 64, dtype=torch.int32),
            4,
        ],
        outputs=[2],
    ),
    _case("clean_odd_block", "block_sum", 3, 100, lambda: [floats(290), empty(3), 290], shared_bytes=400, outputs=[1]),
    _case(
        "clean_spin_lock",
        "largest",
        3,
        64,
        lambda: [floats(180), torch.full((1,), -1e30), zeros(1), zeros(1), 180],
        outputs=[1, 2, 3],
    ),
    _case(
        "clean_grid_sync",
        "reverse_twice",
        3,
        64,
        lambda: [floats(500), empty(500), empty(500), 500],
        outputs=[1, 2],
    ),
    _case("clean_async_copies", "sum_of_rows", 1, 64, lambda: [floats(7, 64), empty(64), 7], outputs=[1]),
    _case(
        "clean_shared_memory_reused",
        "ranks",
        1,
        96,
        lambda: [integers(96, below=50), empty(96, dtype=torch.float64)],
        shared_bytes=96 * 8,
        outputs=[1],
    ),
    _case(
        "clean_part_of_a_warp",
        "two_sums",
        2,
        32,
        lambda: [integers(64, below=99), empty(64, dtype=torch.int32)],
        outputs=[1],
    ),
    _case("clean_vote_loop", "bubble", 2, 96, lambda: [integers(192, below=1000)]),
]
