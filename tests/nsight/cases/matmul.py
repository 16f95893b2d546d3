"""Matrix products."""

from functools import partial

import kernels
from tests.launches import empty, floats
from tests.nsight.cases.adding import add_to

LAUNCHES = []
add = partial(add_to, LAUNCHES)


MATMUL = kernels.source("matmul")


def matrices(h, w, k):
    return lambda: [floats(h, k), floats(k, w, seed=1), empty(h, w), h, w, k]


add("matmul", MATMUL, "matmul_kernel", (4, 4), (16, 16), matrices(64, 64, 64), [2])
add("matmul_edges", MATMUL, "matmul_kernel", (5, 5), (16, 16), matrices(65, 70, 100), [2])

MATMUL_SWAPPED = r"""
__global__ void matmul_swapped(const float* m, const float* n, float* out, int h, int w, int k) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;
    float o = 0.0f;
    for (int i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}
"""
add("matmul_swapped", MATMUL_SWAPPED, "matmul_swapped", (4, 4), (16, 16), matrices(64, 64, 64), [2])

MATMUL_TILED = r"""
template <int TILE>
__global__ void matmul_tiled(const float* m, const float* n, float* out, int h, int w, int k) {
    __shared__ float ms[TILE][TILE], ns[TILE][TILE];
    int tr = threadIdx.y, tc = threadIdx.x;
    int r = blockIdx.y * TILE + tr, c = blockIdx.x * TILE + tc;
    float o = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        ms[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;
        ns[tr][tc] = c < w && start + tr < k ? n[(start + tr) * w + c] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) o += ms[tr][i] * ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r * w + c] = o;
}

__global__ void matmul_dynamic(const float* m, const float* n, float* out, int h, int w, int k, int tile) {
    extern __shared__ float tiles[];
    float* ms = tiles;
    float* ns = tiles + tile * tile;
    int tr = threadIdx.y, tc = threadIdx.x;
    int r = blockIdx.y * tile + tr, c = blockIdx.x * tile + tc;
    float o = 0.0f;
    for (int start = 0; start < k; start += tile) {
        ms[tr * tile + tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;
        ns[tr * tile + tc] = c < w && start + tr < k ? n[(start + tr) * w + c] : 0.0f;
        __syncthreads();
        for (int i = 0; i < tile; ++i) o += ms[tr * tile + i] * ns[i * tile + tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r * w + c] = o;
}
"""
add("matmul_tiled_16", MATMUL_TILED, "matmul_tiled<16>", (4, 4), (16, 16), matrices(64, 64, 64), [2])
add("matmul_tiled_32", MATMUL_TILED, "matmul_tiled<32>", (2, 2), (32, 32), matrices(64, 64, 64), [2])
add("matmul_tiled_edges", MATMUL_TILED, "matmul_tiled<16>", (5, 5), (16, 16), matrices(65, 70, 100), [2])
add(
    "matmul_dynamic",
    MATMUL_TILED,
    "matmul_dynamic",
    (4, 4),
    (16, 16),
    lambda: [*matrices(64, 64, 64)(), 16],
    [2],
    shared_bytes=2 * 16 * 16 * 4,
)

# The ladder of lesson 11, as it is in kernels/: what each rung costs, on 128 x 64 times 64 x 128.
REGISTERS = kernels.source("matmul_registers")
for rung, grid, block in [
    ("uncoalesced", (4, 16), (32, 8)),
    ("column<64, 64, 8, 8>", (2, 2), 512),
    ("square<128, 128, 8, 8, 8>", 1, 256),
    ("vector<128, 128, 8, 8, 8>", 1, 256),
    ("banks<128, 128, 8, 8, 8>", 1, 256),
    ("warp<128, 128, 8, 8, 8>", 1, 256),
]:
    name, sizes = rung.partition("<")[0], "".join(rung.partition("<")[1:])
    source = MATMUL if name == "uncoalesced" else REGISTERS
    add(f"rung_{name}", source, f"matmul_{name}_kernel{sizes}", grid, block, matrices(128, 128, 64), [2])

for name, sizes, columns in (("rung_async", "8, 8", 128), ("rung_async_large", "16, 8", 256)):
    kernel = f"matmul_async_kernel<128, {columns}, 8, {sizes}>"
    add(name, kernels.source("matmul_async"), kernel, 1, 256, matrices(128, columns, 64), [2])

add(
    "rung_pipelined",
    kernels.source("matmul_fast"),
    "matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, true>",
    1,
    256,
    matrices(128, 256, 64),
    [2],
)
for kernel, rows in (("row_kernel<10>", 1), ("rows_kernel<10, 4, 800>", 4), ("rows_vector_kernel<10, 4, 800>", 4)):
    name = f"matmul_{kernel.partition('_kernel')[0]}"
    add(name, kernels.source("matmul_rows"), f"matmul_{kernel}", 64 // (8 * rows), 256, matrices(64, 10, 784), [2])

add(
    "matmul_narrow",
    kernels.source("matmul_narrow"),
    "matmul_narrow_kernel<10, 6, 2, 256, 896, 64, true>",
    2,
    256,
    matrices(200, 10, 784),
    [2],
    8 * 2 * 24 * 64 * 4 + 224 * 11 * 16,  # two pieces for each of 8 warps, and n
)
