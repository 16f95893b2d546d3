"""The sources of this folder's kernels, with copies of each kernel that have one mistake."""

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BENCH = Path(__file__).parents[5] / "bench"


class Mistake(NamedTuple):
    """What a copy of a kernel has instead of a part of its text, and the problem that a trace finds: its kind, part of
    its message or hint, and part of the line that it names."""

    right: str
    wrong: str
    problem: tuple


class Kernel(NamedTuple):
    name: str
    file: Path
    mistakes: dict


def _kernel(file, name, **mistakes):
    return Kernel(name, HERE / file, {f"{name}_{mistake}": Mistake(*how) for mistake, how in mistakes.items()})


PRODUCT = _kernel(
    BENCH / "hopper.cu",
    "matmul_wgmma",
    never_empty=(
        "if (step > 0) mbarrier_wait(&empty[next % stages], (step - 1) / stages % 2);",
        "",
        ("race", "may still read", "tma_load(stage[s]"),
    ),
    no_wait=("wgmma_wait<0>();", "", ("warpgroup", "reads an accumulator", "make_float2(sums")),
)
PERSISTENT = _kernel(
    "persistent.cu",
    "persistent",
    no_fence=("fence_async();", "", ("race", "with no `fence.proxy.async` after that", "tma_store(&c")),
    wrong_parity=("parity ^ 1);", "parity);", ("divergent_barrier", "the end of phase 0", "mbarrier_wait(&")),
)
MULTICAST = _kernel(
    "clusters.cu",
    "multicast",
    no_last_barrier=(
        "cluster_sync();  // without it, a block",
        "// Without it, a block",
        ("cluster", "ended", "mbarrier_arrive_in(&empty[s]"),
    ),
    own_barrier=(
        "mbarrier_arrive_in(&empty[s], t)",
        "mbarrier_arrive_in(&empty[s], rank)",
        ("race", "of block (1,0,0), which the", "tma_load_multicast(stage[s]"),
    ),
)
HALVES = _kernel(
    "clusters.cu",
    "halves",
    too_few_bytes=(
        "sizeof others);",
        "sizeof others / 2);",
        ("asynchronous", "phase 0 of complete ends after 2048 bytes", "add_in(&others"),
    ),
    no_first_barrier=(
        "cluster_sync();  // without it, the peer",
        "__syncthreads();  // without a cluster's, the peer",
        ("cluster", "may not have begun yet", "add_in(&others"),
    ),
)
SPLIT = _kernel(
    "splits.cu",
    "split",
    no_fence=("fence_async();", "", ("race", "with no `fence.proxy.async` after that", "bulk_add(&c")),
    no_wait=(
        "bulk_wait_read<0>();",
        "",
        ("asynchronous", "may still read shared memory", "bulk_add(&c"),
    ),
)
ATTENTION = _kernel(
    "attention.cu",
    "attention",
    early=(
        "mbarrier_wait(&full_v[s], parity);",
        "",
        ("race", "Wait for the phase of the mbarrier", "weights[i]"),
    ),
    never_empty=("mbarrier_wait(&empty_v[s], parity);", "", ("race", "may still", "tma_load(shared.v[s]")),
)


def names(kernel):
    """Of the kernel and of its copies; those of a template are instances."""
    return [name + "<true>" * (kernel is ATTENTION) for name in (kernel.name, *kernel.mistakes)]


def source(*kernels):
    """The text of kernels that are in one file, and of their copies."""
    (file,) = {kernel.file for kernel in kernels}
    text = (BENCH / "hopper.cuh").read_text() + file.read_text()
    for kernel in kernels:
        name = text.index(f" {kernel.name}(")
        begin, end = text.rindex("\n\n", 0, name), text.index("\n}\n", name) + 3
        original = text[begin:end]
        for new, mistake in kernel.mistakes.items():
            assert original.count(mistake.right) == 1, new
            text += original.replace(mistake.right, mistake.wrong).replace(f" {kernel.name}(", f" {new}(")
    return text
