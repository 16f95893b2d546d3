"""One element per thread (widths, places, edges), strides, gathers and scatters."""

from functools import partial

import torch

import kernels
from tests.launches import bytes_, empty, floats, integers
from tests.nsight.cases.adding import add_to, given

LAUNCHES = []
add = partial(add_to, LAUNCHES)


# ---- one element a thread: widths, places, edges --------------------------------------------------------------------

COPY = r"""
template <class T>
__global__ void copy(const T* x, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
"""


for kind, dtype, numbers in [
    ("float", torch.float32, 1),
    ("float2", torch.float32, 2),
    ("float4", torch.float32, 4),
    ("float3", torch.float32, 3),
    ("double", torch.float64, 1),
    ("double2", torch.float64, 2),
    ("int4", torch.int32, 4),
    ("uchar4", torch.uint8, 4),
    ("unsigned char", torch.uint8, 1),
    ("short", torch.int16, 1),
    ("long long", torch.int64, 1),
]:
    add(
        f"copy_{kind.replace(' ', '_')}",
        COPY,
        f"copy<{kind}>",
        4,
        256,
        given(1024 * numbers, 1024 * numbers, 1024, dtype=dtype),
    )

# Numbers of threads that no warp divides, and edges in the middle of a warp.
for block, n in [(256, 1000), (33, 1000), (65, 1001), (100, 999)]:
    add(f"copy_{n}_by_{block}", COPY, "copy<float>", -(-n // block), block, given(n, n, n))

HALF = r"""
#include <cuda_fp16.h>

__global__ void scale_half(const __half* x, __half* out, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2half(a * __half2float(x[i]));
}
"""
add("half", HALF, "scale_half", 4, 256, given(1024, 1024, 2.0, 1024, dtype=torch.float16))

CAST = r"""
__global__ void scale4(const float* x, float* out, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        v.x *= a;
        v.y *= a;
        v.z *= a;
        v.w *= a;
        reinterpret_cast<float4*>(out)[i] = v;
    }
}
"""
add("float4_cast", CAST, "scale4", 4, 64, given(1024, 1024, 2.0, 1024))


def shifted(make, x, out, n):
    """Views that begin x and out elements behind a multiple of 512 bytes."""
    return lambda: [make(n + x)[x:], empty(n + out, dtype=make(1).dtype)[out:], n]


add("shifted_load_1", COPY, "copy<float>", 4, 256, shifted(floats, 1, 0, 1024))
add("shifted_load_8", COPY, "copy<float>", 4, 256, shifted(floats, 8, 0, 1024))
add("shifted_load_31", COPY, "copy<float>", 4, 256, shifted(floats, 31, 0, 1024))
add("shifted_store_1", COPY, "copy<float>", 4, 256, shifted(floats, 0, 1, 1024))
add("shifted_store_8", COPY, "copy<float>", 4, 256, shifted(floats, 0, 8, 1024))
add("shifted_bytes_5", COPY, "copy<unsigned char>", 4, 256, shifted(bytes_, 5, 3, 1024))
add("shifted_float4", COPY, "copy<float4>", 2, 128, lambda: [floats(1028)[4:], empty(1024), 256])

SQUARE = kernels.source("square")
add("square", SQUARE, "square_kernel", 5, 256, given(1250, 1250, 1250))

# ---- strides, gathers and scatters ----------------------------------------------------------------------------------

STRIDE = r"""
__global__ void strided_load(const float* x, float* out, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[(i * stride) % n];
}

__global__ void strided_store(const float* x, float* out, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[(i * stride) % n] = x[i];
}
"""
for s in (1, 2, 4, 8, 17, 32):
    add(f"stride_{s}", STRIDE, "strided_load", 16, 256, given(4096, 4096, 4096, s))
for s in (3, 17):  # odd: every element of out is written
    add(f"stride_store_{s}", STRIDE, "strided_store", 16, 256, given(4096, 4096, 4096, s))

GATHER = r"""
template <class T>
__global__ void gather(const T* x, const int* index, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[index[i]];
}

template <class T>
__global__ void scatter(const T* x, const int* index, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[index[i]] = x[i];
}
"""


def shuffled(n):
    return torch.randperm(n, generator=torch.Generator().manual_seed(1)).int()


def gathered(dtype, index, n):
    return lambda: [floats(n, dtype=dtype), index(n), empty(n, dtype=dtype), n]


def near(n):
    """Random, but every index is among the 64 around its own place."""
    return (torch.arange(n) + integers(n, below=64, seed=2) - 32).clamp(0, n - 1).int()


add("gather", GATHER, "gather<float>", 8, 256, gathered(torch.float32, shuffled, 2048), [2])
add("gather_near", GATHER, "gather<float>", 8, 256, gathered(torch.float32, near, 2048), [2])
add("gather_double", GATHER, "gather<double>", 8, 256, gathered(torch.float64, near, 2048), [2])
add("scatter", GATHER, "scatter<float>", 8, 256, gathered(torch.float32, shuffled, 2048), [2])

EMBEDDING = r"""
__global__ void embedding(const float* table, const long long* token, float* out, int width) {
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        out[blockIdx.x * width + c] = table[token[blockIdx.x] * width + c];
}
"""
add(
    "embedding",
    EMBEDDING,
    "embedding",
    20,
    64,
    lambda: [floats(50, 100), integers(20, below=50, dtype=torch.int64), empty(20, 100), 100],
    [2],
)

ONE_FOR_ALL = r"""
__global__ void subtract_first(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] - x[0];
}
"""
add("same_address", ONE_FOR_ALL, "subtract_first", 4, 256, given(1000, 1000, 1000))
