"""A launch of every kernel of kernels/, with the sizes that it is launched with.

test_kernels.py traces them, and bench/recorded/sanitizer.py runs them under compute-sanitizer on a GPU.
"""

from functools import partial

import torch

from bench.search import narrow_bytes
from tests.kernels.launches_norms import NORM_LAUNCHES
from tests.kernels.launches_rows import ROW_LAUNCHES
from tests.launches import bytes_, empty, floats
from utils.lesson.simulator import cdiv


def flat(make, a_block, threads=256):
    """A launch for n elements, of which a block of `threads` does `a_block`."""
    return lambda n, *_: (cdiv(n, a_block), threads, 0, *make(n), n)


def pixels(*shape):
    return lambda n: (bytes_(*(n if size is None else size for size in shape)), empty(n, dtype=torch.uint8))


def matrix(tile, threads=None, grid=lambda blocks: blocks):
    def launch(h, w, _):
        return grid((cdiv(w, tile), cdiv(h, tile))), threads or (tile, tile), 0, floats(h, w), empty(w, h), h, w

    return launch


def transpose_any(h, w, _):
    """Tiles of 64 x 64; where rows of out begin within sectors of 8 floats, they begin 7 rows earlier."""
    more = 7 if h % 8 else 0
    return cdiv(h + more, 64) * cdiv(w, 64), 256, 0, floats(h, w), empty(w, h), h, w, more


def matrices(tile, shared=0, more=()):
    def launch(h, w, k):
        blocks = (cdiv(w, tile), cdiv(h, tile))
        return blocks, (tile, tile), shared, floats(h, k), floats(k, w, seed=1), empty(h, w), h, w, k, *more

    return launch


def tiles(rows, columns, threads, grid=lambda blocks: blocks, shared=0):
    """A launch of blocks that compute rows x columns of a product each."""

    def launch(h, w, k):
        blocks = (cdiv(w, columns), cdiv(h, rows))
        return grid(blocks), threads, shared, floats(h, k), floats(k, w, seed=1), empty(h, w), h, w, k

    return launch


def turned(blocks):
    return blocks[::-1]


def grayscale_2d(h, w, _):
    return (cdiv(w, 16), cdiv(h, 16)), (16, 16), 0, bytes_(3, h, w), empty(h, w, dtype=torch.uint8), h, w


def rows(per_block, width):
    """A launch of 256 threads, of which a block computes so many rows of a product of at most `width` columns."""
    return tiles(per_block, width, 256, product_of)


def product_of(blocks):
    return blocks[0] * blocks[1]


def pieces(per_block, threads=256):
    """A launch that reduces n floats to one of each `per_block`."""
    return lambda n, *_: (max(1, cdiv(n, per_block)), threads, 0, floats(n), empty(max(1, cdiv(n, per_block))), n)


def whole(blocks=3, out=empty):
    """A launch whose blocks reduce n floats to one number, that `out` has room for."""
    return lambda n, start, _: (blocks, 256, 0, floats(n + start)[start:], out(1), n)


def last_block(dtype, out, found=lambda blocks: empty(blocks), blocks=3):
    """A launch whose last block reduces what the others found; `start` elements are in front of x."""

    def launch(n, start, _):
        x = floats(n + start, dtype=dtype)[start:]
        return blocks, 256, 0, x, found(blocks), torch.zeros(1, dtype=torch.int32), out(1), n

    return launch


def scan_tiles(n, *_):
    x, tiles = floats(n), cdiv(n, 16384)
    sums = torch.cat([x.double(), torch.zeros(tiles * 16384 - n)]).view(tiles, -1).sum(1).cumsum(0).float()
    return tiles, 1024, 0, x, sums, empty(n), n


def look_back(dtype, tile=32768):
    """A launch of cumsum_kernel, whose blocks take a tile each."""

    def launch(n, start, _):
        x, words = floats(n + start, dtype=dtype)[start:], torch.zeros(cdiv(n, tile), dtype=torch.int64)
        return cdiv(n, tile), 1024, 0, x, torch.zeros(1, dtype=torch.int32), words, empty(n, dtype=dtype), n

    return launch


def tiles_ahead(dtype, blocks=2):
    """A launch of cumsum_ahead_kernel, whose blocks take tile after tile."""

    def launch(n, start, _):
        x, words = floats(n + start, dtype=dtype)[start:], torch.zeros(cdiv(4 * n, 32768), dtype=torch.int64)
        return blocks, 1024, 6 * 32768, x, torch.zeros(1, dtype=torch.int32), words, empty(n, dtype=dtype), n

    return launch


def one_block(threads):
    return lambda n, *_: (1, threads, 0, floats(n), empty(n), n)


def added(out, x, *_):
    assert abs(out.double().sum() - x.double().sum()) <= 1e-5 * (len(x) + 1) ** 0.5 + out.abs().max() * unit(out)


def first_largest(out, x, *_):
    assert out.item() == x.argmax()


def bins_of(dtype, bins, *copies, threads=256):
    """A launch whose 3 blocks count the elements of x, some of them outside the bins; so many words of shared memory
    per bin and copy. `start` elements are in front of x."""

    def launch(n, start, _):
        low, high = (0, 256) if dtype == torch.uint8 else (-3, bins + 3)
        x = torch.randint(low, high, (n + start,), dtype=dtype, generator=torch.Generator().manual_seed(n))[start:]
        shared = 4 * max(bins, 256 if dtype == torch.uint8 else 0) * copies[0] if copies else 0
        return 3, threads, shared, x, torch.zeros(bins, dtype=torch.int64), n, bins, *copies

    return launch


def bins_counted(out, x, *_):
    inside = x[(x >= 0) & (x.long() < len(out))]
    assert torch.equal(out, inside.bincount(minlength=len(out)))


def summed_so_far(out, x, *_):
    exact = x.double().cumsum(0)
    assert ((out.double() - exact).abs() <= 1e-5 * (len(x) + 1) ** 0.5 + exact.abs() * unit(out)).all()


def unit(x):
    """How far apart two neighbouring numbers of x's dtype are, as a part of them."""
    return torch.finfo(x.dtype).eps


def narrow(*sizes):
    """A launch of matmul_narrow_kernel with these template arguments."""
    width, rows, _, threads, *_ = sizes
    return tiles(threads // 8 * rows, width, threads, product_of, narrow_bytes(*sizes))


# Every kernel: its launch by (h, w, k), flat ones take h as their n, and the sizes it is launched with.
VECTORS = [(n, 0, 0) for n in (1, 3, 4, 17, 1031, 2048)]
PIXELS = [(n, 0, 0) for n in (1, 17, 700)]
MATRICES = [(1, 1, 0), (17, 1, 0), (31, 37, 0), (65, 100, 0)]
PRODUCTS = [(1, 1, 1), (17, 5, 1), (31, 41, 37), (3, 2, 0)]
LARGER = [(130, 68, 20), (65, 130, 17), (257, 132, 8)]
NARROW = [(1, 1, 1), (17, 5, 1), (35, 10, 37), (3, 2, 0)]
WIDE_N = [(1, 4, 1), (17, 8, 2), (31, 44, 37), (3, 4, 0), (130, 68, 20), (65, 260, 24), (257, 132, 33)]  # rows of 4 * n
REDUCED = [(n, 0, 0) for n in (0, 1, 17, 255, 1031, 5003)]
STARTS = [(0, 0, 0), (1, 1, 0), (17, 3, 0), (5003, 0, 0), (30011, 1, 0)]  # n, and where x begins in its memory
SCANNED = [(n, 0, 0) for n in (1, 17, 33, 1025, 3001)]
TILED = [(1, 1, 0), (17, 3, 0), (32768, 0, 0), (70011, 0, 0), (33001, 1, 0)]
places = partial(empty, dtype=torch.int64)


def pairs(blocks):
    """Room for a value and a place of each block."""
    return empty(16 * blocks, dtype=torch.uint8)


# A third entry, where there is one, compares what the kernel wrote with its inputs.
LAUNCHES = {
    "square_kernel": (flat(lambda n: (floats(n), empty(n)), 256), VECTORS),
    "copy_kernel": (flat(lambda n: (floats(n), empty(n)), 256), VECTORS),
    "copy_vector_kernel": (flat(lambda n: (floats(n), empty(n)), 1024), VECTORS),
    "rgb_to_grayscale_kernel": (flat(pixels(3, None), 256), PIXELS),
    "rgb_to_grayscale_2d_kernel": (grayscale_2d, MATRICES),
    "rgb_to_grayscale_vector_kernel<uint4>": (flat(pixels(3, None), 16 * 256), [(n, 0, 0) for n in (16, 5008)]),
    "rgb_to_grayscale_vector_kernel<uchar4>": (flat(pixels(3, None), 4 * 256), [(n, 0, 0) for n in (4, 1028)]),
    "rgb_to_grayscale_hwc_kernel": (flat(pixels(None, 3), 256), PIXELS),
    "transpose_naive_kernel": (matrix(32), MATRICES),
    "transpose_tiled_kernel": (matrix(32), MATRICES),
    "transpose_padded_kernel": (matrix(32), MATRICES),
    "transpose_swizzled_kernel": (matrix(32), MATRICES),
    "transpose_rows_kernel": (matrix(32, (32, 8)), MATRICES),
    "transpose_wide_kernel": (matrix(32, (8, 32)), [(4, 4, 0), (100, 4, 0), (68, 132, 0)]),
    "transpose_large_kernel": (matrix(64, 256), [(4, 4, 0), (100, 4, 0), (68, 132, 0)]),
    "transpose_registers_kernel": (matrix(64, 256), [(4, 4, 0), (100, 4, 0), (68, 132, 0)]),
    "transpose_fast_kernel": (matrix(64, 256, product_of), [(4, 4, 0), (100, 4, 0), (68, 132, 0)]),
    "transpose_any_kernel": (transpose_any, [*MATRICES, (64, 64, 0), (4150, 66, 0), (137, 130, 0)]),
    "matmul_kernel": (matrices(16), PRODUCTS),
    "matmul_tiled_kernel": (matrices(16), PRODUCTS),
    "matmul_dynamic_kernel": (matrices(7, 2 * 7 * 7 * 4, [7]), PRODUCTS),
    "matmul_template_kernel<8>": (matrices(8), PRODUCTS),
    "matmul_template_kernel<16>": (matrices(16), PRODUCTS),
    "matmul_template_kernel<32>": (matrices(32), PRODUCTS),
    "matmul_uncoalesced_kernel": (tiles(32, 8, (32, 8), turned), PRODUCTS),
    "matmul_column_kernel<64, 64, 8, 8>": (tiles(64, 64, 512), PRODUCTS + LARGER),
    "matmul_square_kernel<128, 128, 8, 8, 8>": (tiles(128, 128, 256), PRODUCTS + LARGER),
    "matmul_vector_kernel<128, 128, 8, 8, 8>": (tiles(128, 128, 256), PRODUCTS + LARGER),
    "matmul_banks_kernel<128, 128, 8, 8, 8>": (tiles(128, 128, 256), PRODUCTS + LARGER),
    "matmul_warp_kernel<128, 128, 8, 8, 8>": (tiles(128, 128, 256), PRODUCTS + LARGER),
    "matmul_async_kernel<128, 128, 8, 8, 8>": (tiles(128, 128, 256), PRODUCTS + LARGER),
    "matmul_async_kernel<128, 256, 8, 16, 8>": (tiles(128, 256, 256), PRODUCTS + LARGER),
    "matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, true>": (tiles(128, 256, 256, product_of), WIDE_N),
    "matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, false>": (tiles(128, 256, 256, product_of), PRODUCTS + LARGER),
    "matmul_pipelined_kernel<64, 128, 8, 8, 8, 4, true>": (tiles(64, 128, 128, product_of), WIDE_N),
    "matmul_pipelined_kernel<64, 128, 8, 8, 8, 4, false>": (tiles(64, 128, 128, product_of), PRODUCTS + LARGER),
    "matmul_row_kernel<10>": (rows(8, 10), NARROW),
    "matmul_row_kernel<16>": (rows(8, 16), [(9, 16, 65)]),
    "matmul_rows_kernel<10, 4, 800>": (rows(32, 10), [*NARROW, (33, 10, 805)]),
    "matmul_rows_kernel<16, 4, 512>": (rows(32, 16), [(33, 16, 517)]),
    "matmul_rows_vector_kernel<10, 4, 800>": (rows(32, 10), [(1, 5, 4), (33, 10, 804), (3, 2, 0)]),
    "matmul_rows_vector_kernel<16, 4, 512>": (rows(32, 16), [(33, 16, 516)]),
    "matmul_narrow_kernel<4, 4, 3, 256, 384, 64, true>": (
        narrow(4, 4, 3, 256, 384, 64),
        [(1, 1, 4), (130, 4, 516), (3, 2, 0)],
    ),
    "matmul_narrow_kernel<4, 3, 2, 128, 384, 64, false>": (
        narrow(4, 3, 2, 128, 384, 64),
        [(1, 1, 1), (130, 4, 517), (3, 2, 0)],
    ),
    "matmul_narrow_kernel<10, 6, 2, 256, 896, 64, true>": (narrow(10, 6, 2, 256, 896, 64), [(1, 5, 4), (200, 10, 900)]),
    "matmul_narrow_kernel<10, 3, 2, 128, 512, 64, false>": (
        narrow(10, 3, 2, 128, 512, 64),
        [(1, 5, 1), (130, 10, 515), (3, 7, 0)],
    ),
    "matmul_narrow_kernel<16, 6, 2, 256, 1024, 64, true>": (
        narrow(16, 6, 2, 256, 1024, 64),
        [(1, 11, 4), (200, 16, 1028)],
    ),
    "matmul_narrow_kernel<16, 2, 2, 128, 384, 64, false>": (
        narrow(16, 2, 2, 128, 384, 64),
        [(1, 11, 1), (66, 16, 513), (3, 13, 0)],
    ),
    "sum_divergent_kernel": (pieces(256), REDUCED, added),
    "sum_conflicts_kernel": (pieces(256), REDUCED, added),
    "sum_halves_kernel": (pieces(256), REDUCED, added),
    "sum_eight_kernel": (pieces(2048), REDUCED, added),
    "sum_shuffles_kernel": (pieces(2048), REDUCED, added),
    "sum_wide_kernel": (whole(1), STARTS, added),
    "sum_atomic_kernel": (whole(3, torch.zeros), STARTS, added),
    "sum_kernel<float>": (last_block(torch.float32, empty), STARTS, added),
    "sum_kernel<__half>": (last_block(torch.float16, partial(empty, dtype=torch.float16)), STARTS, added),
    "sum_kernel<__nv_bfloat16>": (last_block(torch.bfloat16, partial(empty, dtype=torch.bfloat16)), STARTS, added),
    "argmax_kernel<float>": (last_block(torch.float32, places, pairs), STARTS[1:], first_largest),
    "argmax_kernel<__half>": (last_block(torch.float16, places, pairs), STARTS[1:], first_largest),
    "argmax_kernel<__nv_bfloat16>": (last_block(torch.bfloat16, places, pairs), STARTS[1:], first_largest),
    "cumsum_warp_kernel": (one_block(32), SCANNED, summed_so_far),
    "cumsum_block_kernel": (one_block(1024), SCANNED, summed_so_far),
    "tile_sums_kernel": (pieces(16384, 1024), [(1, 0, 0), (20011, 0, 0)], added),
    "scan_tiles_kernel": (scan_tiles, [(1, 0, 0), (20011, 0, 0)], summed_so_far),
    "cumsum_kernel<float>": (look_back(torch.float32), TILED, summed_so_far),
    "cumsum_kernel<__half>": (look_back(torch.float16), TILED, summed_so_far),
    "cumsum_kernel<__nv_bfloat16>": (look_back(torch.bfloat16), TILED, summed_so_far),
    "cumsum_ahead_kernel<float>": (tiles_ahead(torch.float32), TILED, summed_so_far),
    "cumsum_ahead_kernel<__half>": (tiles_ahead(torch.float16), TILED, summed_so_far),
    "cumsum_ahead_kernel<__nv_bfloat16>": (tiles_ahead(torch.bfloat16), TILED, summed_so_far),
    **{
        f"histogram_{way}_kernel": (bins_of(torch.uint8, bins), STARTS, bins_counted)
        for way, bins in (("global", 256), ("shared", 256), ("warps", 200), ("votes", 256), ("lanes", 100))
    },
    "histogram_kernel<unsigned char>": (bins_of(torch.uint8, 256, 32, threads=1024), STARTS, bins_counted),
    "histogram_kernel<int>": (bins_of(torch.int32, 100, 32, threads=1024), STARTS, bins_counted),
    "histogram_kernel<long long>": (bins_of(torch.int64, 700, 16, threads=1024), STARTS, bins_counted),
    "histogram_many_kernel<int>": (bins_of(torch.int32, 20_000), STARTS, bins_counted),
    "histogram_many_kernel<long long>": (bins_of(torch.int64, 20_000), STARTS, bins_counted),
    **ROW_LAUNCHES,
    **NORM_LAUNCHES,
}
