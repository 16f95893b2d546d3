"""Instructions of tensor cores and of the copy engine: products of every kind, and copies by where their bytes are."""

from functools import partial

import torch

from tests.cuda.cpu.tensor import test_mma
from tests.cuda.cpu.warpgroups import test_wgmma, tiles
from tests.cuda.cpu.warpgroups.complete import sources
from tests.launches import Launch, empty, floats, integers
from tests.launches import bytes_ as random_bytes
from utils import tensor_map

LAUNCHES = []
HELPERS = (sources.BENCH / "hopper.cuh").read_text()

_words = partial(integers, below=2**31)


def _empty(*shape):
    return empty(*shape, dtype=torch.int32)


# ---- products -------------------------------------------------------------------------------------------------------

_MMA = [
    (16, 8, "f32", "f16", "f16", "f32", ""),
    (16, 16, "f16", "f16", "f16", "f16", ""),
    (16, 16, "f32", "bf16", "bf16", "f32", ""),
    (16, 4, "f32", "tf32", "tf32", "f32", ""),
    (16, 16, "f32", "e4m3", "e5m2", "f32", ""),
    (16, 32, "f16", "e4m3", "e4m3", "f16", ""),
    (8, 4, "f64", "f64", "f64", "f64", ""),
    (16, 16, "f64", "f64", "f64", "f64", ""),
    (8, 16, "s32", "s8", "u8", "s32", ""),
    (16, 32, "s32", "u8", "u8", "s32", "satfinite"),
    (8, 32, "s32", "s4", "s4", "s32", ""),
    (16, 64, "s32", "u4", "s4", "s32", "satfinite"),
    (16, 128, "s32", "b1", "b1", "s32", "and"),
    (16, 256, "s32", "b1", "b1", "s32", "xor"),
]
_QUADS = [(False, False, "f32", "f32"), (True, True, "f16", "f16")]


def _operands(kinds, counts):
    """Zeros for a, b and c, and d."""
    torches = [test_mma.TORCH.get(kind, torch.int32) for kind in kinds]
    args = [torch.zeros(32, count, dtype=kind) for kind, count in zip(torches[1:], counts[1:], strict=True)]
    return [*args, empty(32, counts[0], dtype=torches[0])]


def _mma():
    found = []
    for one in _MMA:
        m, k, *kinds, _ = one
        counts = [test_mma.registers(operand, m, k, kind) for operand, kind in zip("dabc", kinds, strict=True)]
        found.append((test_mma.name(*one), test_mma.kernel(*one), partial(_operands, kinds, counts)))
    for one in _QUADS:
        d, c = one[2:]
        counts = [4 if d == "f16" else 8, 2, 2, 4 if c == "f16" else 8]
        operands = partial(_operands, (d, "f16", "f16", c), counts)
        found.append((test_mma.quads_name(*one), test_mma.quads_kernel(*one), operands))
    return found


_WGMMA = [
    test_wgmma.Instruction(8, "f16", "f16", "f16"),
    test_wgmma.Instruction(256, "f32", "bf16", "bf16"),
    test_wgmma.Instruction(24, "f32", "tf32", "tf32", in_registers=True),
    test_wgmma.Instruction(64, "f32", "e4m3", "e5m2"),
    test_wgmma.Instruction(48, "s32", "s8", "u8", ".satfinite"),
    test_wgmma.Instruction(16, "s32", "b1", "b1", ".and.popc"),
]


def _without_a(one):
    """Its kernel, without the loads of A that it does not use."""
    text = test_wgmma.text(one)
    unused = "for (int i = 0; i < 4; i++) ra[i] = a[threadIdx.x * 4 + i];"
    return text if one.in_registers else text.replace(unused, "")


def _tiles(one):
    """A whole array of zeros, with A from its start and B behind it."""
    da, db = (tiles.descriptor(start, 128, 256, "none") for start in (0, 8192))
    sums = torch.zeros(128, one.n * (2 if one.d == "f16" else 4) // 8, dtype=torch.float32)
    sums = sums if one.d == "f32" else sums.int()
    image, registers = torch.zeros(2816, 4, dtype=torch.int32), torch.zeros(128, 4, dtype=torch.int32)
    return [image, registers, sums, empty(*sums.shape, dtype=sums.dtype), da, db, 1]


_WMMA = r"""
#include <mma.h>
using namespace nvcuda;
template <int m, int n, int k, class AB, class Stored, class Sum>
__global__ void tile(const Stored* a, const Stored* b, Sum* c, int steps) {
    wmma::fragment<wmma::matrix_a, m, n, k, AB, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, m, n, k, AB, wmma::col_major> of_b;
    wmma::fragment<wmma::accumulator, m, n, k, Sum> sum;
    wmma::fill_fragment(sum, Sum(0));
    wmma::load_matrix_sync(of_a, a, 128);
    wmma::load_matrix_sync(of_b, b, 128);
    for (int i = 0; i < steps; i++) wmma::mma_sync(sum, of_a, of_b, sum);
    wmma::store_matrix_sync(c, sum, n, wmma::mem_row_major);
}
"""
_TILES = {
    "half_32_8": ("tile<32, 8, 16, half, half, half>", (32, 8), torch.float16, torch.float16),
    "int8_8_32": ("tile<8, 32, 16, signed char, signed char, int>", (8, 32), torch.int8, torch.int32),
    "tf32": ("tile<16, 16, 8, wmma::precision::tf32, float, float>", (16, 16), torch.float32, torch.float32),
    "double": ("tile<8, 8, 4, double, double, double>", (8, 8), torch.float64, torch.float64),
    "int4": ("tile<8, 8, 32, wmma::experimental::precision::s4, int, int>", (8, 8), torch.int32, torch.int32),
}


def _factors(shape, factors, sums):
    """a, b and the output of a wmma kernel, and three steps."""
    return [*(torch.zeros(32, 128).to(factors),) * 2, empty(*shape, dtype=sums), 3]


for cases, threads in (
    (_mma(), 32),
    ([(one.name, _without_a(one), partial(_tiles, one)) for one in _WGMMA], 128),
):
    text, kernels = "".join(text for _, text, _ in cases), tuple(name for name, _, _ in cases)
    LAUNCHES += [Launch(name, text, name, 1, threads, args, 0, (3,), together=kernels) for name, _, args in cases]
_ALL_TILES = tuple(kernel for kernel, *_ in _TILES.values())
for name, (kernel, *types) in _TILES.items():
    args = partial(_factors, *types)
    LAUNCHES.append(Launch(f"wmma_{name}", _WMMA, kernel, 1, 32, args, 0, (2,), together=_ALL_TILES))

# ---- copies ---------------------------------------------------------------------------------------------------------

_BULK = (
    HELPERS
    + r"""
extern __shared__ __align__(1024) unsigned char tile[];

__device__ void begin(mbarrier* full, int bytes) {
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        fence_mbarrier_init();
        mbarrier_expect(full, bytes);
    }
    __syncthreads();
}
__device__ void fill(const int* x, int bytes) {
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) reinterpret_cast<int*>(tile)[i] = x[i];
    fence_async();
    __syncthreads();
}
__device__ void empty(int* out, int bytes) {
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = reinterpret_cast<const int*>(tile)[i];
}
__device__ void finish() {
    bulk_commit();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void load_bytes(const unsigned char* x, int* out, int from, int bytes, int times) {
    __shared__ mbarrier full;
    begin(&full, bytes * times);
    if (threadIdx.x == 0)
        for (int i = 0; i < times; i++)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(shared_address(tile + i * bytes)), "l"(x + from + i * (bytes + 16)), "r"(bytes),
                            "r"(shared_address(&full)) : "memory");
    mbarrier_wait(&full, 0);
    empty(out, bytes * times);
}
__global__ void store_bytes(const int* x, unsigned char* out, int to, int bytes, int adds) {
    fill(x, bytes);
    if (threadIdx.x == 0) {
        if (adds)
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;"
                         :: "l"(out + to), "r"(shared_address(tile)), "r"(bytes) : "memory");
        else
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         :: "l"(out + to), "r"(shared_address(tile)), "r"(bytes) : "memory");
        finish();
    }
}

// Boxes of tensor maps.
__global__ void load_box(const __grid_constant__ CUtensorMap map, int* out, int x, int y, int bytes) {
    __shared__ mbarrier full;
    begin(&full, bytes);
    if (threadIdx.x == 0) tma_load(tile, &map, x, y, &full);
    mbarrier_wait(&full, 0);
    empty(out, bytes);
}
__global__ void load_line(const __grid_constant__ CUtensorMap map, int* out, int x, int bytes) {
    __shared__ mbarrier full;
    begin(&full, bytes);
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2}], [%3];"
                     :: "r"(shared_address(tile)), "l"(&map), "r"(x), "r"(shared_address(&full)) : "memory");
    mbarrier_wait(&full, 0);
    empty(out, bytes);
}
__global__ void load_cube(const __grid_constant__ CUtensorMap map, int* out, int x, int y, int z, int bytes) {
    __shared__ mbarrier full;
    begin(&full, bytes);
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4}], [%5];"
                     :: "r"(shared_address(tile)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&full))
                     : "memory");
    mbarrier_wait(&full, 0);
    empty(out, bytes);
}
__global__ void __cluster_dims__(2) load_box_twice(const __grid_constant__ CUtensorMap map, int* out, int x, int y,
                                                   int bytes) {
    __shared__ mbarrier full;
    begin(&full, 2 * bytes);
    cluster_sync();
    const int rank = cluster_rank();
    if (threadIdx.x == 0) tma_load_multicast(tile + rank * bytes, &map, x, y * rank, &full, 3);
    mbarrier_wait(&full, 0);
    empty(out + rank * bytes / 2, 2 * bytes);
    cluster_sync();
}
__global__ void store_box(const __grid_constant__ CUtensorMap map, const int* x, int column, int row, int bytes) {
    fill(x, bytes);
    if (threadIdx.x == 0) {
        tma_store(&map, column, row, tile);
        finish();
    }
}
__global__ void add_box(const __grid_constant__ CUtensorMap map, const int* x, int column, int row, int bytes) {
    fill(x, bytes);
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&map), "r"(column), "r"(row), "r"(shared_address(tile)) : "memory");
        finish();
    }
}
"""
)
_ROOM = 16 * 1024  # bytes of shared memory


def _loaded(from_, bytes_, times=1):
    return lambda: [random_bytes(8192), _empty(bytes_ * times // 4), from_, bytes_, times]


def _stored(to, bytes_, adds=0):
    return lambda: [_words(bytes_ // 4), torch.zeros(8192, dtype=torch.uint8), to, bytes_, adds]


def _box(x, y, box=(32, 16), swizzle="none", shape=(100, 72), make=_words, dtype=torch.int32):
    """Of a tensor of `shape` (rows, columns)."""
    bytes_ = box[0] * box[1] * dtype.itemsize
    return lambda: [tensor_map(make(*shape).to(dtype), box, swizzle), _empty(bytes_ // 4), x, y, bytes_]


def _back(x, y, box, swizzle="none", shape=(100, 72)):
    bytes_ = box[0] * box[1] * 4
    return lambda: [tensor_map(torch.zeros(shape, dtype=torch.int32), box, swizzle), _words(bytes_ // 4), x, y, bytes_]


def _twice(x, y, box, shape=(64, 72)):
    """A box at (x, 0) and one at (x, y), each for both blocks of a cluster."""
    bytes_ = box[0] * box[1] * 4
    return lambda: [tensor_map(_words(*shape), box), _empty(bytes_), x, y, bytes_]


_halves = partial(_box, shape=(80, 136), make=floats, dtype=torch.bfloat16)
_a = partial(_box, box=(64, 64), swizzle="128B", shape=(200, 136), make=floats, dtype=torch.bfloat16)
_b = partial(_box, box=(64, 64), swizzle="128B", shape=(136, 264), make=floats, dtype=torch.bfloat16)
_LOADED = {
    "load_bytes": {
        "": _loaded(0, 4096),
        "_16": _loaded(0, 16),
        "_16_from_16": _loaded(16, 16),
        "_48_from_16": _loaded(16, 48),
        "_112_from_48": _loaded(48, 112),
        "_many": _loaded(16, 80, 7),
        "_2032_from_16": _loaded(16, 2032),
    },
    "load_box": {
        "": _box(0, 0, (32, 16)),
        "_of_16_bytes": _box(8, 3, (4, 64)),
        "_of_48_bytes": _box(4, 3, (12, 20)),
        "_of_rows": _box(0, 5, (72, 20)),
        "_right": _box(60, 10, (32, 16)),
        "_bottom": _box(8, 90, (32, 16)),
        "_before": _box(-12, -3, (32, 16)),
        "_outside": _box(80, 0, (32, 16)),
        "_swizzled": _halves(8, 3, (64, 32), "128B"),
        "_swizzled_64": _halves(24, 3, (32, 32), "64B"),
        "_swizzled_32": _halves(16, 3, (16, 32), "32B"),
        "_swizzled_right": _halves(104, 3, (64, 32), "128B"),
        "_bottom_odd": _box(0, 30, (32, 16), shape=(40, 68)),
        "_bottom_more": _box(0, 36, (32, 16), shape=(40, 68)),
        "_below": _box(0, 40, (32, 16), shape=(40, 68)),
        "_before_only": _box(0, -3, (32, 16), shape=(40, 68)),
        "_far": _box(100, 0, (32, 16), shape=(40, 68)),
        "_a_bottom": _a(64, 192),
        "_a_right": _a(128, 0),
        "_a_corner": _a(128, 192),
        "_b_bottom": _b(64, 128),
        "_b_right": _b(256, 0),
        "_b_outside": _b(320, 0),
        "_b_corner": _b(256, 128),
        "_b_far_corner": _b(320, 128),
    },
    "load_line": {"": lambda: [tensor_map(_words(500), (256,)), _empty(256), 12, 1024]},
    "load_cube": {"": lambda: [tensor_map(_words(7, 9, 20), (12, 4, 3)), _empty(144), 4, 6, 2, 576]},
    "load_box_twice": {
        "": _twice(0, 16, (32, 16)),
        "_of_16_bytes": _twice(4, 64, (4, 64), shape=(128, 72)),
        "_of_48_bytes": _twice(4, 32, (12, 32)),
        "_of_lines": _twice(0, 16, (32, 16), shape=(40, 64)),
        "_at_16": _twice(4, 16, (32, 16), shape=(40, 64)),
        "_of_64_bytes": _twice(4, 16, (16, 16), shape=(40, 36)),
        "_of_96_bytes": _twice(0, 16, (24, 16), shape=(40, 64)),
    },
}
_STORED = {
    "store_bytes": {
        "": _stored(0, 4096),
        "_48_to_16": _stored(16, 48),
        "_adds": _stored(16, 1008, adds=1),
    },
    "store_box": {
        "": _back(0, 0, (32, 16)),
        "_of_48_bytes": _back(4, 3, (12, 20)),
        "_right": _back(60, 95, (32, 16)),
        "_swizzled": _back(8, 3, (32, 16), "128B"),
    },
    "add_box": {"": _back(4, 3, (12, 20))},
}
_COPYING = tuple(_LOADED | _STORED)
for kernel, cases in (_LOADED | _STORED).items():
    for name, args in cases.items():
        blocks = 2 if kernel == "load_box_twice" else 1
        outputs = (1,) if kernel in _LOADED else ()
        LAUNCHES.append(Launch(f"{kernel}{name}", _BULK, kernel, blocks, 64, args, _ROOM, outputs, together=_COPYING))

# ---- both at once ---------------------------------------------------------------------------------------------------


def _matrices():
    a, b = (floats(*shape, seed=seed, dtype=torch.bfloat16) for seed, shape in enumerate(((200, 136), (136, 264))))
    return [*(tensor_map(x, (64, 64), "128B") for x in (a, b)), empty(200, 264), 200, 264, 136]


_PRODUCT = HELPERS + sources.PRODUCT.file.read_text()
LAUNCHES.append(Launch("matmul_wgmma", _PRODUCT, "matmul_wgmma", (3, 2), 256, _matrices, 4 * 32768, (2,)))
