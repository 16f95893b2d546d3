"""A recording made by hand: `square` of five numbers by two warps, with a guard, and a shared array with a race."""

from utils.cuda.player.recording import Block, Marked, Memory, Recording, Step

SOURCE = """\
__global__ void square(const float* x, float* out, int n) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    if (i >= n) return;
    tile[i] = x[i] * x[i];
    out[i] = tile[n - 1 - i];
}"""


def by_hand() -> Recording:
    """What the kernel above does to five numbers with 64 threads; the barrier is missing, as the problem says."""
    lanes, x = [0, 1, 2, 3, 4], [0.5, -2.0, 0.1, 4.0, float("inf")]
    squares = [0.25, 4.0, 0.01, 16.0, float("inf")]
    memories = [
        Memory("x", "global", "float", 4, (5,), list(x)),
        Memory("out", "global", "float", 4, (5,), [float("nan")] * 5),
        Memory("tile", "shared", "float", 4, (64,), [None] * 64, block=0),
    ]
    cost, passes = {"sectors": 1, "least_sectors": 1}, {"wavefronts": 1, "least_wavefronts": 1}
    steps = [
        Step(0, 0, 4, "exit", list(range(5, 32)), variables={"i": list(range(5, 32))}),
        Step(0, 0, 5, "read", lanes, 0, list(lanes), values=list(x), variables={"i": list(lanes)}, **cost),
        Step(0, 0, 5, "read", lanes, 0, list(lanes), values=list(x), **cost),
        Step(0, 0, 5, "write", lanes, 2, list(lanes), values=squares, **passes),
        Step(0, 0, 6, "read", lanes, 2, lanes[::-1], values=squares[::-1], **passes),
        Step(0, 0, 6, "write", lanes, 1, list(lanes), values=squares[::-1], **cost),
        Step(0, 0, 7, "exit", lanes),
        Step(0, 1, 4, "exit", list(range(32)), variables={"i": list(range(32, 64))}),
    ]
    race = (
        "thread (0,0,0) writes tile[0] in line 5 and thread (4,0,0) reads it in line 6, with no barrier between them."
    )
    return Recording(
        kernel="square",
        language="cuda",
        source=SOURCE.splitlines(),
        grid=(1, 1, 1),
        block=(64, 1, 1),
        kept="Block (0,0,0), the only one; 8 of 8 steps.",
        memories=memories,
        blocks=[Block((0, 0, 0), 64)],
        steps=steps,
        problems=[Marked("race", race, 6, [3, 4], [(0, 0), (0, 4)], [5, 6])],
    )
