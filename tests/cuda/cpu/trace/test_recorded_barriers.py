"""Recordings of barriers in memory: what each holds after each step, phase by phase, and bulk copies in flight."""

import json

import pytest
import torch

from tests.cuda.cpu.asynchronous.test_tiles import HELPERS
from tests.cuda.cpu.trace.test_recorded import of
from utils import tensor_map
from utils.cuda.kernel import compile_kernels
from utils.cuda.player.moment import barriers_text, moment, sentence

pytest.importorskip("elftools")
pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = (
    r"""
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
"""
    + HELPERS
    + r"""
const int rows = 4, columns = 16;

// The sums of rows of x, in tiles of 16 columns: warp 0 copies into two stages, and warp 1 adds.
__global__ void staged(const __grid_constant__ CUtensorMap x, float* out, int tiles) {
    __shared__ alignas(128) float stage[2][rows][columns];
    __shared__ mbarrier full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++) {
            init(&full[s], 1);
            init(&empty[s], 32);
        }
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x > 0) return;
        for (int tile = 0; tile < tiles; tile++) {
            const int s = tile % 2, parity = tile / 2 % 2;
            wait(&empty[s], parity ^ 1);
            expect(&full[s], sizeof stage[s]);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%2, %3}], [%4];"
                         :: "r"(at(stage[s])), "l"(&x), "r"(tile * columns), "r"(0), "r"(at(&full[s])) : "memory");
        }
    } else {
        const int row = threadIdx.x % 32;
        float sum = 0;
        for (int tile = 0; tile < tiles; tile++) {
            const int s = tile % 2, parity = tile / 2 % 2;
            wait(&full[s], parity);
            for (int c = 0; row < rows && c < columns; c++) sum += stage[s][row][c];
            arrive(&empty[s]);
        }
        if (row < rows) out[row] = sum;
    }
}

__global__ void turned(const float* x, float* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> together;
    __shared__ float tile[64];
    if (threadIdx.x == 0) init(&together, blockDim.x);
    __syncthreads();
    for (int k = 0; k < 2; k++) {
        cuda::memcpy_async(&tile[threadIdx.x], &x[64 * k + threadIdx.x], cuda::aligned_size_t<4>(4), together);
        together.wait(together.arrive());
        out[64 * k + threadIdx.x] = tile[63 - threadIdx.x];
        together.arrive_and_wait();
    }
}

// Of each warp only half of the lanes copy.
__global__ void piped(const float* x, float* out) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float tile[2][64];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    for (int k = 0; k < 4; k++) {
        if (k < 3) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[k % 2], x + 64 * k, 256, pipe);
            pipe.producer_commit();
        }
        if (k > 0) {
            pipe.consumer_wait();
            out[64 * (k - 1) + threadIdx.x] = tile[(k - 1) % 2][63 - threadIdx.x];
            pipe.consumer_release();
        }
    }
}

__global__ void stored(const float* x, float* out) {
    __shared__ mbarrier both;
    __shared__ alignas(128) float tile[64];
    if (threadIdx.x == 0) init(&both, 2);
    __syncthreads();
    tile[threadIdx.x] = x[threadIdx.x];
    fence_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(&both);
    wait(&both, 0);
    if (threadIdx.x > 0) return;
    store(out, tile, 256);
    commit();
    wait_done<0>();
}
"""
)
NAMES = ["staged", "turned", "piped", "stored"]


@pytest.fixture(scope="module")
def kernels(unjudged):
    return dict(zip(NAMES, compile_kernels(SOURCE, NAMES), strict=True))


@pytest.fixture(scope="module")
def staged(kernels):
    x, out = torch.arange(256.0).view(4, 64), torch.zeros(4)
    trace = kernels["staged"].trace[1, 64](tensor_map(x, (16, 4)), out, 4, outputs=[out])
    assert trace.ok and torch.equal(trace.args[1], x.sum(1))
    return x, trace.recording()


@pytest.fixture(scope="module")
def played(kernels):
    def recording(name, n):
        x, out = torch.rand(n), torch.zeros(n)
        trace = kernels[name].trace[1, 64](x, out, outputs=[out])
        assert trace.ok, trace.problems
        return x, trace.args[1], trace.recording()

    return recording


def states(recording, name):
    """The different states of a barrier, in order, as `Step.barriers` has them."""
    (number,) = [k for k, barrier in enumerate(recording.barriers) if barrier.name == name]
    found = []
    for step in recording.steps:
        found += [state for other, *state in step.barriers if other == number and state not in found[-1:]]
    return found


def agrees(recording):
    """Every lane reads what memory holds if the steps are played in this order."""
    for k, step in enumerate(recording.steps):
        if step.kind == "read" and step.values is not None:
            held = moment(recording, k).held[step.memory]
            if step.values != [held[element + i] for element in step.elements for i in range(step.width)]:
                return False
    return True


def position(recording, chosen):
    """The moment after the first step that is chosen."""
    return next(k + 1 for k, step in enumerate(recording.steps) if chosen(step))


def test_each_phase_of_two_stages(staged):
    _, recording = staged
    assert [(b.name, b.block) for b in recording.barriers] == [
        (f"{n}[{s}]", 0) for n in ("full", "empty") for s in (0, 1)
    ]
    for s in (0, 1):
        full = [[0, 0, 1, 0, 0, 0, 0]]
        for phase in (0, 1):
            full.append([phase, 1, 1, 256, 0, 0, 0])  # the producer arrives and announces
            full.append([phase, 1, 1, 256, 0, 256, 0])  # the copy begins
            full.append([phase, 1, 1, 256, 256, 0, 1])  # it lands, so the phase is over
            full.append([phase + 1, 0, 1, 0, 0, 0, 0])  # threads go on
        assert states(recording, f"full[{s}]") == full
        empty = states(recording, f"empty[{s}]")
        # In phase 0 the producer waits before it fills the stage again. Nobody waits for the end of phase 1.
        assert empty == [
            [0, 0, 32, 0, 0, 0, 0],
            [0, 32, 32, 0, 0, 0, 32],
            [1, 0, 32, 0, 0, 0, 0],
            [1, 32, 32, 0, 0, 0, 32],
        ]


def test_threads_go_on_once_their_phase_is_over(staged):
    _, recording = staged
    over = {}
    for step in recording.steps:
        names = [recording.barriers[number].name for number, *_ in step.barriers]
        if step.kind == "passed" and step.phase is not None:
            assert names == [step.barrier] and step.phase < over.get(step.barrier, 0)
        over |= {name: state[0] + 1 for name, (_, *state) in zip(names, step.barriers, strict=True) if state[6]}
    assert over == {f"{name}[{s}]": 2 for name in ("full", "empty") for s in (0, 1)}
    waits = of(recording, "barrier", warp=1)
    assert [(step.barrier, step.phase) for step in waits if step.phase is not None] == [
        (f"full[{tile % 2}]", tile // 2) for tile in range(4)
    ]
    assert agrees(recording)


def test_a_bulk_copy_is_in_flight_until_it_lands(staged):
    x, recording = staged
    (stage,) = [k for k, memory in enumerate(recording.memories) if memory.name == "stage"]
    begun = [
        k for k, step in enumerate(recording.steps) if step.memory == stage and step.kind == "copy" and not step.values
    ]
    landed = [
        k for k, step in enumerate(recording.steps) if step.memory == stage and step.kind == "copy" and step.values
    ]
    assert len(begun) == len(landed) == 4
    for tile, (begins, lands) in enumerate(zip(begun, landed, strict=True)):
        read, box = recording.steps[begins - 1], x[:, 16 * tile : 16 * tile + 16]
        assert read.kind == "read" and read.elements == [64 * row + 16 * tile for row in range(4)] and read.width == 16
        step = recording.steps[lands]
        assert begins < lands and step.lanes == [0] and step.bytes == 256
        assert step.elements == recording.steps[begins].elements == [64 * (tile % 2)]
        assert torch.equal(torch.tensor(step.values).view(4, 16), box)
    assert moment(recording, landed[0]).held[stage][0] is None and moment(recording, landed[0] + 1).held[stage][1] == 1


def test_what_is_said_of_barriers(staged):
    _, recording = staged
    arrives = position(recording, lambda step: step.bytes == 256)
    assert sentence(recording, arrives).endswith(
        "lane 0 arrives at full[0] and announces 256 bytes: phase 0, 1 of 1 arrived, 256 of 256 bytes pending."
    )
    lands = position(recording, lambda step: step.kind == "copy" and step.values)
    assert sentence(recording, lands).endswith("; full[0]: phase 0 is over, 1 of 1 arrived, 0 of 256 bytes pending.")
    waits = position(recording, lambda step: step.kind == "barrier" and step.barrier == "full[0]")
    assert sentence(recording, waits).endswith(
        "lanes 0-31 wait for the end of phase 0 of full[0]: phase 0, 1 of 1 arrived, 256 of 256 bytes pending, "
        "256 in flight."
    )
    assert barriers_text(recording, lands) == [
        "full[0]: phase 0 is over, 1 of 1 arrived, 0 of 256 bytes pending",
        "full[1]: phase 0, 1 of 1 arrived, 256 of 256 bytes pending, 256 in flight",
        "empty[0]: phase 0, 0 of 32 arrived",
        "empty[1]: phase 0, 0 of 32 arrived",
    ]
    assert barriers_text(recording, lands + 1)[0] == "full[0]: phase 1, 0 of 1 arrived"
    assert {(0, 0), (0, 40)} <= moment(recording, lands).waits.keys() and (0, 40) not in moment(
        recording, lands + 1
    ).waits


def test_only_changes_are_written(staged):
    _, recording = staged
    written = json.loads(recording.to_json())
    column = written["step_fields"].index("barriers")
    assert written["barriers"][1] == {"name": "full[1]", "block": 0}
    rows = [row[column] for row in written["steps"] if len(row) > column]
    # Of four barriers: init. Of four tiles: two waits, one of which may be seen twice, expect_tx, copy, arrive.
    assert len(rows) == 4 + 4 * (2 + 1 + 2 + 1) + 4 + 2 and all(len(row) == 1 for row in rows)
    assert len(recording.to_json()) < 40_000


def test_a_barrier_of_the_library(played):
    x, out, recording = played("turned", 128)
    assert torch.equal(out.view(2, 64), x.view(2, 64).flip(1)) and agrees(recording)
    ends = [state for state in states(recording, "together") if state[6]]
    assert ends == [[phase, 64, 64, 0, 0, 0, 64] for phase in range(4)]
    for phase in (0, 2):  # not before all copies have landed
        last = position(recording, lambda step, phase=phase: [0, phase, 64, 64, 0, 0, 0, 64] in step.barriers)
        copies = [step for step in recording.steps[:last] if step.kind == "copy"]
        assert sum(len(s.lanes) * (1 if s.values else -1) for s in copies) == 0


def test_a_pipeline_has_two_barriers_per_stage(played):
    x, out, recording = played("piped", 192)
    assert torch.equal(out.view(3, 64), x.view(3, 64).flip(1)) and agrees(recording)
    names = [f"state.{what}[{s}]" for what in ("produced", "consumed") for s in (0, 1)]
    assert [barrier.name for barrier in recording.barriers] == names
    for name in names:
        phases = [state for state in states(recording, name) if state[6]]
        assert phases == [[phase, 64, 64, 0, 0, 0, 64] for phase in range(2 if "[0]" in name else 1)]


def test_an_mbarrier_without_bytes_and_a_bulk_store(played):
    x, out, recording = played("stored", 64)
    assert states(recording, "both") == [
        *([0, k, 2, 0, 0, 0, 0] for k in (0, 1)),
        [0, 2, 2, 0, 0, 0, 2],
        [1, 0, 2, 0, 0, 0, 0],
    ]
    begins, lands = of(recording, "copy")
    name = recording.memories[lands.memory].name
    assert name == "out" and begins.elements == lands.elements == [0] and begins.values is None and begins.width == 64
    assert torch.equal(torch.tensor(lands.values), x) and torch.equal(out, x) and not begins.barriers
