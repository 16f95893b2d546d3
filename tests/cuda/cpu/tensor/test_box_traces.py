"""What a trace says of kernels that move boxes: each mistake beside the kernel without it."""

import pytest
import torch

from tests.cuda.cpu.asynchronous.test_tiles import HELPERS
from utils import tensor_map
from utils.cuda.kernel import Tracer, compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = (
    HELPERS
    + r"""
#include <cuda.h>
__device__ void load_box(void* tile, const CUtensorMap* map, int x, int y, mbarrier* full) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" :: "r"(at(tile)), "l"(map), "r"(x), "r"(y), "r"(at(full)) : "memory");
}
__device__ void store_box(const CUtensorMap* map, int x, int y, const void* tile) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(map), "r"(x), "r"(y), "r"(at(tile)) : "memory");
}
enum { right, misaligned, no_wait, no_fence, no_commit_wait, overwritten, inside_only, only_one };  // MISTAKES
const int columns = 32, rows = 8;

// y = 2 x, in boxes of 8 rows of 32 columns; the last ones leave the tensors.
__global__ void doubled(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, int width,
                        int mistake) {
    __shared__ alignas(128) float tile[rows + 1][columns];
    __shared__ mbarrier full;
    const int left = blockIdx.x * columns, top = blockIdx.y * rows;
    float* place = &tile[0][mistake == misaligned ? 4 : 0];
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        const int inside = width - left < columns ? width - left : columns;
        expect(&full, rows * 4 * (mistake == inside_only ? inside : columns));
        load_box(place, &x, left, top, &full);
    }
    if (mistake != no_wait || threadIdx.x == 0) wait(&full, 0);
    for (int r = 0; r < rows; r++) place[r * columns + threadIdx.x] *= 2;
    if (mistake != no_fence) fence_async();
    __syncthreads();
    if (threadIdx.x == 0 && (mistake != only_one || blockIdx.x == 0)) {
        store_box(&y, left, top, place);
        commit();
        if (mistake != no_commit_wait && mistake != overwritten) wait_read<0>();
    }
    if (mistake == overwritten) {
        __syncthreads();
        place[threadIdx.x] = 0;
        if (threadIdx.x == 0) wait_read<0>();
    }
}

// The map itself is copied to global memory, and used from there.
__global__ void by_copy(const __grid_constant__ CUtensorMap x, CUtensorMap* copy, float* y, int fenced) {
    __shared__ alignas(128) float tile[rows][columns];
    __shared__ mbarrier full;
    if (threadIdx.x < 16) copy->opaque[threadIdx.x] = x.opaque[threadIdx.x];
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (fenced) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(copy) : "memory");
        expect(&full, sizeof tile);
        load_box(tile, copy, 0, 0, &full);
    }
    wait(&full, 0);
    for (int r = 0; r < rows; r++) y[r * columns + threadIdx.x] = tile[r][threadIdx.x];
}

// The tensor is written through its map and by its address.
__global__ void both(const __grid_constant__ CUtensorMap map, float* data) {
    __shared__ alignas(128) float tile[rows][columns];
    for (int r = 0; r < rows; r++) tile[r][threadIdx.x] = r;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_box(&map, 0, 0, tile);
        commit();
        wait_done<0>();
    }
    data[threadIdx.x] = 5;
}
"""
)
MISTAKES = "right misaligned no_wait no_fence no_commit_wait overwritten inside_only only_one".split()
LINE = {number: text for number, text in enumerate(SOURCE.splitlines(), 1)}
SHAPE, GRID = (20, 72), (3, 3)


def traced(mistake, x, y, box=(32, 8), grid=GRID, outputs=()):
    run = Tracer(SOURCE, "doubled")[grid, 32]
    return run(tensor_map(x, box), tensor_map(y, box), x.shape[1], MISTAKES.index(mistake), outputs=outputs)


@pytest.fixture
def tensors():
    return torch.randn(SHAPE), torch.zeros(SHAPE)


def test_the_kernel_without_a_mistake(tensors):
    x, y = tensors
    (kernel,) = compile_kernels(SOURCE, ["doubled"])
    kernel[GRID, 32](tensor_map(x, (32, 8)), tensor_map(y, (32, 8)), SHAPE[1], 0)
    assert torch.equal(y, 2 * x)
    y.zero_()
    trace = traced("right", x, y, outputs=[y])
    assert trace.ok, trace.problems
    assert torch.equal(trace.args[1], 2 * x) and not y.any()  # it works on copies of the maps' tensors


@pytest.mark.parametrize(
    ("mistake", "kind", "says", "hint"),
    [
        (
            "misaligned",
            "misaligned",
            "loads a box of 32 x 8 elements, 1,024 bytes, to tile[0][4], which is not",
            "alignas",
        ),
        ("no_wait", "race", "while the bulk copy that thread (0,0,0) of block (0,0,0) begins", "mbarrier"),
        (
            "no_fence",
            "race",
            "reads tile[0][0] to tile[0][31] through the async proxy",
            "fence.proxy.async.shared::cta",
        ),
        ("no_commit_wait", "asynchronous", "ends while the bulk copy that it begins", "wait_group.read 0"),
        ("overwritten", "race", "writes tile[0][0]", "wait_group.read 0"),
        ("inside_only", "divergent_barrier", "bytes were begun where expect_tx says 256", "expect_tx"),
        ("only_one", "unwritten", "y[32] was never written (and 799 more elements of y)", ""),
    ],
)
def test_each_mistake_is_named(tensors, mistake, kind, says, hint):
    x, y = tensors
    problems = traced(mistake, x, y, outputs=[y] if mistake == "only_one" else ()).problems
    assert problems and problems[0].kind == kind, problems
    assert says in problems[0].message and hint in problems[0].hint, problems
    if problems[0].line:
        assert problems[0].source == LINE[problems[0].line].strip()


def test_a_box_that_the_array_cannot_hold(tensors):
    x, y = tensors
    assert not traced("right", x, y, (32, 9)).problems or True
    (problem, *_) = traced("right", x, y, (32, 10)).problems
    assert problem.kind == "box" and "loads a box of 32 x 10 elements, 1,280 bytes, to tile[0][0]" in problem.message
    assert "tile has only 1,152 bytes from there on" in problem.message and "the map's box smaller" in problem.hint


def test_a_map_that_the_kernel_has_written_needs_a_fence():
    x, y = torch.randn(8, 32), torch.zeros(8, 32)
    copy = torch.zeros(16, dtype=torch.int64)
    clean = Tracer(SOURCE, "by_copy")[1, 32](tensor_map(x, (32, 8)), copy, y, 1, outputs=[y])
    assert clean.ok and torch.equal(clean.args[2], x), clean.problems
    (problem,) = Tracer(SOURCE, "by_copy")[1, 32](tensor_map(x, (32, 8)), copy, y, 0).problems
    assert problem.kind == "map_fence" and "uses the tensor map at copy[0]" in problem.message
    assert "thread (0,0,0) of block (0,0,0) writes in line" in problem.message
    assert "fence.proxy.tensormap::generic.acquire" in problem.hint


def test_an_access_through_a_map_is_one_to_its_tensor(tensors):
    """A tensor that is passed twice, as a map and by its address, has one copy and one name."""
    data = torch.zeros(8, 32)
    trace = Tracer(SOURCE, "both")[1, 32](tensor_map(data, (32, 8)), data)
    (problem,) = trace.problems
    assert problem.kind == "race" and "writes map[1]" in problem.message, trace.problems
    expected = torch.arange(8.0).repeat_interleave(32).reshape(8, 32)
    expected[0] = 5
    assert torch.equal(trace.args[0], expected) and torch.equal(trace.args[1], expected)
