"""Rows for ldmatrix and stmatrix, and tiles of wmma and mma.sync: where their rows begin, and which types they have."""

from functools import partial

import torch

from tests.launches import Launch, empty, floats, integers

LAUNCHES = []

_SOURCE = r"""
#include <mma.h>
using namespace nvcuda;

__device__ unsigned int address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }

// Each lane gives the address of a row of 8 halves, row[lane] pieces of 16 bytes from the start of the tile.
template <int COUNT, bool TRANS>
__global__ void load_rows(const int4* x, const int* row, unsigned int* out) {
    __shared__ __align__(128) int4 tile[512];
    const int lane = threadIdx.x;
    for (int i = lane; i < 512; i += 32) tile[i] = x[i];
    __syncwarp();
    const unsigned int from = address(tile + row[lane]);
    unsigned int d[4] = {};
    if (COUNT == 1)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d[0]) : "r"(from));
    else if (COUNT == 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(from));
    else if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from));
    for (int i = 0; i < 4; i++) out[i * 32 + lane] = d[i];
}

template <int COUNT>
__global__ void store_rows(const unsigned int* x, const int* row, unsigned int* out) {
    __shared__ __align__(128) int4 tile[512];
    const int lane = threadIdx.x;
    const unsigned int to = address(tile + row[lane]);
    const unsigned int d[4] = {x[lane], x[32 + lane], x[64 + lane], x[96 + lane]};
    if (COUNT == 1)
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(to), "r"(d[0]) : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(to), "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]) : "memory");
    __syncwarp();
    if (lane < 8 * COUNT) out[lane] = *reinterpret_cast<const unsigned int*>(tile + row[lane]);
}

// Rows of 16 bytes, `pitch` pieces apart in shared memory, by 16-byte copies, 32 at a time.
__global__ void copy_rows(const int4* x, int4* out, int pitch) {
    __shared__ __align__(128) int4 tile[512];
    const int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(tile + t * pitch)), "l"(x + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;");
    out[t] = tile[t * pitch];
}

// c = a * b of 16 x 16; all from global memory.
template <class T, class Sum, class Layout>
__global__ void tiles(const T* a, const T* b, Sum* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, Layout> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Layout> of_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sum;
    wmma::fill_fragment(sum, Sum(0));
    wmma::load_matrix_sync(of_a, a, 16);
    wmma::load_matrix_sync(of_b, b, 16);
    wmma::mma_sync(sum, of_a, of_b, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// The same through shared memory, with rows `pitch` elements apart.
template <class T, int PITCH>
__global__ void staged_tiles(const T* a, const T* b, float* c) {
    __shared__ __align__(128) T as[16 * PITCH], bs[16 * PITCH];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) as[i / 16 * PITCH + i % 16] = a[i], bs[i / 16 * PITCH + i % 16] = b[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> of_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(of_a, as, PITCH);
    wmma::load_matrix_sync(of_b, bs, PITCH);
    wmma::mma_sync(sum, of_a, of_b, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

__global__ void int8_tile(const int* a, const int* b, int* c) {
    const int lane = threadIdx.x, row = lane / 4, word = lane % 4;  // a and b: 16 and 8 rows of 8 words
    int d[4] = {};
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[row * 8 + word]), "r"(a[(row + 8) * 8 + word]), "r"(a[row * 8 + word + 4]),
          "r"(a[(row + 8) * 8 + word + 4]), "r"(b[row * 8 + word]), "r"(b[row * 8 + word + 4]));
    for (int e = 0; e < 4; e++) c[(row + e / 2 * 8) * 8 + word * 2 + e % 2] = d[e];
}

__global__ void tf32_tile(const unsigned int* a, const unsigned int* b, float* c) {
    const int lane = threadIdx.x, row = lane / 4, word = lane % 4;  // a: 16 x 8, b: 8 x 8
    float d[4] = {};
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[row * 8 + word]), "r"(a[(row + 8) * 8 + word]), "r"(a[row * 8 + word + 4]),
          "r"(a[(row + 8) * 8 + word + 4]), "r"(b[word * 8 + row]), "r"(b[(word + 4) * 8 + row]));
    for (int e = 0; e < 4; e++) c[(row + e / 2 * 8) * 8 + word * 2 + e % 2] = d[e];
}
"""

_HALVES = partial(floats, dtype=torch.float16)
_LANES = torch.arange(32)


def _words(*shape, seed=0):
    return integers(*shape, below=2**31, seed=seed)


def _rows_of(place):
    """Arguments of load_rows and store_rows whose lane i gives the row `place(i)`."""
    return [_words(512, 4), place(_LANES).int(), empty(128, dtype=torch.int32)]


def _swizzled(lane):
    """Rows of 8 pieces: the first piece of each, moved by the row's number."""
    return lane % 8 * 8 + (lane // 8 ^ lane % 8)


_PRODUCT = {
    "half": ("half, float, wmma::row_major", lambda: [_HALVES(16, 16), _HALVES(16, 16, seed=1), empty(16, 16)]),
    "half_columns": ("half, float, wmma::col_major", lambda: [_HALVES(16, 16), _HALVES(16, 16, seed=1), empty(16, 16)]),
    "bf16": (
        "__nv_bfloat16, float, wmma::row_major",
        lambda: [*(floats(16, 16, seed=s, dtype=torch.bfloat16) for s in (0, 1)), empty(16, 16)],
    ),
    "int8": (
        "signed char, int, wmma::row_major",
        lambda: [
            *(integers(16, 16, below=99, seed=s, dtype=torch.int8) for s in (0, 1)),
            empty(16, 16, dtype=torch.int32),
        ],
    ),
}

_CHOSEN = [
    ("ldmatrix_x1", "load_rows<1, false>", lambda: _rows_of(lambda lane: lane), [2]),
    ("ldmatrix_x2", "load_rows<2, false>", lambda: _rows_of(lambda lane: lane), [2]),
    ("ldmatrix_x4", "load_rows<4, false>", lambda: _rows_of(lambda lane: lane), [2]),
    ("ldmatrix_x4_trans", "load_rows<4, true>", lambda: _rows_of(lambda lane: lane), [2]),
    ("ldmatrix_x4_rows_of_128", "load_rows<4, false>", lambda: _rows_of(lambda lane: lane * 8), [2]),
    ("ldmatrix_x4_rows_of_64", "load_rows<4, false>", lambda: _rows_of(lambda lane: lane * 4), [2]),
    ("ldmatrix_x4_padded", "load_rows<4, false>", lambda: _rows_of(lambda lane: lane * 9), [2]),
    ("ldmatrix_x4_swizzled", "load_rows<4, false>", lambda: _rows_of(_swizzled), [2]),
    ("ldmatrix_x4_same_row", "load_rows<4, false>", lambda: _rows_of(lambda lane: lane // 8), [2]),
    ("stmatrix_x1", "store_rows<1>", lambda: _rows_of(lambda lane: lane), []),
    ("stmatrix_x4", "store_rows<4>", lambda: _rows_of(lambda lane: lane), []),
    ("stmatrix_x4_rows_of_128", "store_rows<4>", lambda: _rows_of(lambda lane: lane * 8), []),
    ("stmatrix_x4_swizzled", "store_rows<4>", lambda: _rows_of(_swizzled), []),
    ("copied_rows", "copy_rows", lambda: [_words(64, 4), empty(64, 4, dtype=torch.int32), 1], [1]),
    ("copied_rows_apart", "copy_rows", lambda: [_words(64, 4), empty(64, 4, dtype=torch.int32), 8], [1]),
    *((f"wmma_{name}", f"tiles<{types}>", args, [2]) for name, (types, args) in _PRODUCT.items()),
    ("wmma_half_staged", "staged_tiles<half, 24>", _PRODUCT["half"][1], [2]),
    ("wmma_half_staged_conflicts", "staged_tiles<half, 64>", _PRODUCT["half"][1], [2]),
    ("wmma_bf16_staged", "staged_tiles<__nv_bfloat16, 24>", _PRODUCT["bf16"][1], [2]),
    ("mma_int8", "int8_tile", lambda: [_words(16, 8), _words(8, 8, seed=1), empty(16, 8, dtype=torch.int32)], [2]),
    (
        "mma_tf32",
        "tf32_tile",
        lambda: [
            *(floats(*shape).view(torch.int32) & ~0x1FFF for shape in ((16, 8), (8, 8))),
            empty(16, 8),
        ],
        [2],
    ),
]
_KERNELS = tuple(dict.fromkeys(kernel for _, kernel, _, _ in _CHOSEN))
_THREADS = {"copy_rows": 64}
for name, kernel, args, outputs in _CHOSEN:
    LAUNCHES.append(
        Launch(name, _SOURCE, kernel, 1, _THREADS.get(kernel, 32), args, 0, tuple(outputs), together=_KERNELS)
    )
