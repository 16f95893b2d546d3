"""Recordings made by hand for what a trace on a machine without a GPU seldom shows."""

from utils.cuda.player.recording import Barrier, Block, Marked, Memory, Recording, Step


def shuffles() -> Recording:
    """A warp adds what the lane 16 further on has; then one lane steps outside."""
    lanes = list(range(32))
    out = Memory("out", "global", "float", 4, (30,), [0.0] * 30)
    steps = [
        Step(0, 0, 2, "line", lanes, variables={"sum": [1.0] * 32, "i": lanes}),
        Step(0, 0, 3, "shuffle", lanes, source_lanes=[lane ^ 16 for lane in lanes], variables={"sum": [2.0] * 32}),
        Step(0, 0, 4, "write", lanes, 0, [*range(30), None, None], values=[2.0] * 32, sectors=4, least_sectors=4,
             outside=[(30, "0 bytes past the end of out"), (31, "4 bytes past the end of out")]),
        Step(0, 0, 5, "exit", lanes),
    ]  # fmt: skip
    source = ["__global__ void add(float* out) {", "  float sum = 1;", "  sum += __shfl_xor_sync(~0u, sum, 16);"]
    return Recording(
        kernel="add",
        language="cuda",
        source=[*source, "  out[threadIdx.x] = sum;", "}"],
        grid=(1, 1, 1),
        block=(32, 1, 1),
        kept="block (0,0,0), the only one; 4 of 4 steps",
        memories=[out],
        blocks=[Block((0, 0, 0), 32)],
        steps=steps,
        problems=[Marked("out_of_bounds", "lane 30 is outside of out", 4, [2], [(0, 30)], [4])],
    )


def strided(stride: int) -> Recording:
    """A warp reads every `stride`-th number, and writes them one after the other."""
    lanes, x = list(range(32)), [float(k) for k in range(32 * 32)]
    read = [lane * stride for lane in lanes]
    sectors = len({element // 8 for element in read})
    return Recording(
        kernel="strided",
        language="cuda",
        source=["out[i] = x[i * stride];"],
        grid=(1, 1, 1),
        block=(32, 1, 1),
        kept="block (0,0,0), the only one; 2 of 2 steps",
        memories=[
            Memory("x", "global", "float", 4, (1024,), x),
            Memory("out", "global", "float", 4, (32,), [0.0] * 32),
        ],
        blocks=[Block((0, 0, 0), 32)],
        steps=[
            Step(0, 0, 1, "read", lanes, 0, read, values=[x[k] for k in read], sectors=sectors, least_sectors=4),
            Step(0, 0, 1, "write", lanes, 1, lanes, values=[x[k] for k in read], sectors=4, least_sectors=4),
        ],
    )


def blocks(sides=(2, 64), steps_each=300) -> Recording:
    """Two blocks of two warps that fill a shared array, wait, and read it again, often: key frames are needed."""
    count, threads = sides
    memories = [Memory("tile", "shared", "int", 4, (8, 8), [None] * 64, block=block) for block in range(count)]
    steps = []
    for block in range(count):
        for round_ in range(steps_each // 8):
            for kind in ("write", "barrier", "passed", "read"):
                for warp in range(threads // 32):
                    lanes = list(range(32))
                    elements = [warp * 32 + lane for lane in lanes]
                    if kind == "read":
                        elements = [63 - element for element in elements]
                    step = Step(block, warp, {"write": 2, "read": 4}.get(kind, 3), kind, lanes)
                    if kind in ("write", "read"):
                        step.memory, step.elements, step.wavefronts, step.least_wavefronts = block, elements, 1, 1
                        step.values = [1000 * round_ + element for element in elements]
                        step.variables = {"round": [round_] * 32}
                    else:
                        step.barrier = "line 3"
                    steps.append(step)
    return Recording(
        kernel="turn",
        language="cuda",
        source=["for (int round = 0; ...) {", "  tile[i] = ...;", "  __syncthreads();", "  ... = tile[63 - i];", "}"],
        grid=(count, 1, 1),
        block=(threads, 1, 1),
        kept=f"all {count} blocks",
        memories=memories,
        blocks=[Block((block, 0, 0), threads) for block in range(count)],
        steps=steps,
    )


def tiled() -> Recording:
    """Two warps copy 8 x 8 elements of m, then of n, which are larger, into tiles in shared memory."""
    memories = [Memory(name, "global", "float", 4, (13, 22), [0.5] * (13 * 22)) for name in ("m", "n", "out")]
    memories += [Memory(f"{name}_tile", "shared", "float", 4, (8, 8), [None] * 64, block=0) for name in ("m", "n")]
    lanes, steps = list(range(32)), []
    for warp in range(2):
        for tensor in range(2):
            tile = [32 * warp + lane for lane in lanes]
            read = [22 * (k // 8) + k % 8 for k in tile]
            line, values = 7 + tensor, [0.5] * 32
            steps.append(Step(0, warp, line, "read", lanes, tensor, read, values=values, sectors=7, least_sectors=4))
            steps.append(Step(0, warp, line, "write", lanes, 3 + tensor, tile, values=values))
            steps[-1].wavefronts = steps[-1].least_wavefronts = 1
    indent = " " * 46
    source = ["__global__ void matmul_with_a_tile_of_each_matrix(const float* __restrict__ m,"]
    source += [f"{indent}{text}" for text in ("const float* __restrict__ n,", "float* __restrict__ out,")]
    source += [f"{indent}size_t h, size_t w, size_t k) {{", "    __shared__ float m_tile[8][8], n_tile[8][8];", ""]
    source += ["    m_tile[tr][tc] = m[r * k + tc];", "    n_tile[tr][tc] = n[tr * w + c];", "}"]
    return Recording(
        kernel="matmul_with_a_tile_of_each_matrix",
        language="cuda",
        source=source,
        grid=(1, 1, 1),
        block=(8, 8, 1),
        kept="all",
        memories=memories,
        blocks=[Block((0, 0, 0), 64)],
        steps=steps,
    )


def multiplied() -> Recording:
    """Rows of an 8 x 8 matrix are copied to shared memory, moved by ldmatrix, and multiplied as mma.m8n8k4 does."""
    lanes, x = list(range(32)), [float(k) for k in range(64)]
    pairs = [8 * (lane // 4) + 2 * (lane % 4) + e for lane in lanes for e in range(2)]
    row = {"name": "matrix", "type": "b16", "bits": 16, "rows": 8, "columns": 8, "together": (1, 2), "lanes": lanes}
    a = {"name": "A", "type": "f64", "bits": 64, "rows": 8, "columns": 4, "together": (1, 1), "lanes": lanes}
    b = {**a, "name": "B", "rows": 4, "columns": 8}
    d = {**a, "name": "D", "columns": 8, "together": (1, 2), "cells": pairs}
    a["cells"] = [4 * (lane // 4) + lane % 4 for lane in lanes]
    b["cells"] = [8 * (lane % 4) + lane // 4 for lane in lanes]
    product = {"name": "mma.sync", "shape": "m8n8k4", "quads": False, "tiles": [a, b, {**d, "name": "C"}, d]}
    copied = [8 * lane for lane in range(8)]
    steps = [
        Step(0, 0, 2, "copy", lanes[:8], 0, copied, 8),
        Step(0, 0, 3, "copy", lanes[:8], 0, copied, 8, x),
        Step(0, 0, 4, "read", lanes[:8], 0, copied, 8, x, wavefronts=1, least_wavefronts=1, matrices="rows"),
        Step(0, 0, 5, "product", lanes, product=0, operands=[0, 1, 2, 3]),
    ]
    return Recording(
        kernel="multiplied",
        language="cuda",
        source=[
            "__global__ void multiplied() {",
            "  copy(s, x);",
            "  wait();",
            "  ldmatrix(d, s);",
            "  mma(d, a, b, c);",
        ],
        grid=(1, 1, 1),
        block=(32, 1, 1),
        kept="all",
        memories=[Memory("s", "shared", "half", 2, (8, 8), [None] * 64, block=0)],
        blocks=[Block((0, 0, 0), 32)],
        steps=steps,
        products=[product],
        operands=[
            [lane + 0.5 for lane in lanes],
            [-1.0 * lane for lane in lanes],
            [0.25] * 64,
            [2.0 * k for k in range(64)],
        ],
        matrices={"rows": {**row, "cells": pairs}},
    )


def pipelined() -> Recording:
    """Lane 0 of warp 0 has a bulk copy fill two rows of a tile; warp 1 waits for it, reads, and hands the tile back."""
    lanes, x = list(range(32)), [k + 0.5 for k in range(64)]
    box, tile = [0, 16], [0]
    read = [lane % 16 for lane in lanes]
    steps = [
        Step(0, 0, 1, "arrive", [0], barrier="full", operation="init", barriers=[[0, 0, 0, 1, 0, 0, 0, 0]]),
        Step(0, 0, 1, "arrive", [0], barrier="empty", operation="init", barriers=[[1, 0, 0, 32, 0, 0, 0, 0]]),
        Step(0, 0, 2, "arrive", [0], barrier="full", bytes=64, barriers=[[0, 0, 1, 1, 64, 0, 0, 0]]),
        Step(0, 0, 3, "read", [0], 0, box, 8, bytes=64),
        Step(0, 0, 3, "copy", [0], 1, tile, 16, bytes=64, barriers=[[0, 0, 1, 1, 64, 0, 64, 0]]),
        Step(0, 0, 2, "barrier", [0], barrier="empty", phase=0, barriers=[[1, 0, 0, 32, 0, 0, 0, 0]]),
        Step(0, 1, 4, "barrier", lanes, barrier="full", phase=0, barriers=[[0, 0, 1, 1, 64, 0, 64, 0]]),
        Step(0, 0, 3, "copy", [0], 1, tile, 16, x[:8] + x[16:24], bytes=64, barriers=[[0, 0, 1, 1, 64, 64, 0, 1]]),
        Step(0, 1, 4, "passed", lanes, barrier="full", phase=0, barriers=[[0, 1, 0, 1, 0, 0, 0, 0]]),
        Step(0, 1, 5, "read", lanes, 1, read, values=[(x[:8] + x[16:24])[k] for k in read], wavefronts=1),
        Step(0, 1, 6, "arrive", lanes, barrier="empty", barriers=[[1, 0, 32, 32, 0, 0, 0, 32]]),
        Step(0, 0, 2, "passed", [0], barrier="empty", phase=0, barriers=[[1, 1, 0, 32, 0, 0, 0, 0]]),
    ]
    return Recording(
        kernel="pipelined",
        language="cuda",
        source=[
            "init(...);",
            "expect_tx(full);",
            "copy(tile, x, full);",
            "wait(full);",
            "... = tile;",
            "arrive(empty);",
        ],
        grid=(1, 1, 1),
        block=(64, 1, 1),
        kept="all",
        memories=[
            Memory("x", "global", "float", 4, (4, 16), x),
            Memory("tile", "shared", "float", 4, (2, 8), [None] * 16, block=0),
        ],
        blocks=[Block((0, 0, 0), 64)],
        steps=steps,
        barriers=[Barrier("full", 0), Barrier("empty", 0)],
    )
