"""The launches whose memory traffic Nsight Compute counts on a GPU and the engine counts on any machine.

Written as somebody would who is learning, small enough for the engine to run each in well under a second, and each
about one thing: how wide an access is, where it begins, how the lanes are spread, which of them take part.
"""

import functools

import torch

import kernels
from tests.launches import Launch, bytes_, empty, floats, integers

LAUNCHES = []


def add(name, source, kernel, grid, block, args, outputs=(1,), shared_bytes=0):
    LAUNCHES.append(Launch(name, source, kernel, grid, block, args, shared_bytes, tuple(outputs)))


def given(x, out, *numbers, dtype=torch.float32):
    """Arguments: x full of random values and out to be written, of these shapes, then numbers."""

    def make():
        if dtype.is_floating_point:
            full = floats(*shape(x), dtype=dtype)
        else:
            full = integers(*shape(x), below=256 if dtype == torch.uint8 else 100, dtype=dtype)
        return [full, empty(*shape(out), dtype=dtype), *numbers]

    return make


def shape(size):
    return size if isinstance(size, tuple) else (size,)


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

# ---- pictures -------------------------------------------------------------------------------------------------------

GRAYSCALE = kernels.source("grayscale")
add(
    "grayscale", GRAYSCALE, "rgb_to_grayscale_kernel", 16, 256, given((3, 50, 79), (50, 79), 50 * 79, dtype=torch.uint8)
)
add(
    "grayscale_2d",
    GRAYSCALE,
    "rgb_to_grayscale_2d_kernel",
    (4, 3),
    (16, 16),
    given((3, 48, 64), (48, 64), 48, 64, dtype=torch.uint8),
)
add(
    "grayscale_2d_edges",
    GRAYSCALE,
    "rgb_to_grayscale_2d_kernel",
    (4, 3),
    (16, 16),
    given((3, 37, 53), (37, 53), 37, 53, dtype=torch.uint8),
)

GRAYSCALE_HWC = r"""
__global__ void grayscale_hwc(const unsigned char* x, unsigned char* out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;
    int i = r * w + c;
    out[i] = 0.2989f * x[3 * i] + 0.5870f * x[3 * i + 1] + 0.1140f * x[3 * i + 2];
}
"""
add(
    "grayscale_hwc",
    GRAYSCALE_HWC,
    "grayscale_hwc",
    (2, 5),
    (32, 8),
    given((37, 53, 3), (37, 53), 37, 53, dtype=torch.uint8),
)

BLUR = r"""
__global__ void blur(const float* x, float* out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;
    float sum = 0.0f;
    int count = 0;
    for (int dr = -1; dr <= 1; ++dr)
        for (int dc = -1; dc <= 1; ++dc)
            if (r + dr >= 0 && r + dr < h && c + dc >= 0 && c + dc < w) {
                sum += x[(r + dr) * w + c + dc];
                ++count;
            }
    out[r * w + c] = sum / count;
}
"""
add("blur", BLUR, "blur", (4, 3), (16, 16), given((37, 53), (37, 53), 37, 53))

# ---- arrays of structs ----------------------------------------------------------------------------------------------

STRUCTS = r"""
struct Color { float r, g, b; };                // 12 bytes, alignment 4
struct Body { float x, y, z, mass; };           // 16 bytes, alignment 4
struct Point { double x, y, z; };               // 24 bytes, alignment 8
struct Entry { long long key; int value; };     // 16 bytes with its padding, alignment 8
struct Byte3 { unsigned char r, g, b; };        // 3 bytes, alignment 1
struct alignas(16) Quad { float x, y, z, w; };  // 16 bytes, alignment 16

template <class T>
__global__ void copy_struct(const T* x, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}

__global__ void green(const Color* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i].g;
}

__global__ void luminance(const Color* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 0.3f * x[i].r + 0.59f * x[i].g + 0.11f * x[i].b;
}

__global__ void mass(const Body* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i].mass;
}

__global__ void height(const Point* x, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i].z;
}

__global__ void move(Body* x, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i].x += dt;
        x[i].z -= dt;
    }
}
"""
for kind, words in [("Color", 3), ("Body", 4), ("Point", 6), ("Quad", 4)]:
    add(f"struct_{kind}", STRUCTS, f"copy_struct<{kind}>", 4, 128, given((500, words), (500, words), 500))
# The padding of an Entry is nobody's, so that `out` is not asked to be written in full.
add("struct_Entry", STRUCTS, "copy_struct<Entry>", 4, 128, given((500, 2), (500, 2), 500, dtype=torch.int64), [])
add("struct_Byte3", STRUCTS, "copy_struct<Byte3>", 4, 128, given((500, 3), (500, 3), 500, dtype=torch.uint8))
add("member_of_12", STRUCTS, "green", 4, 128, given((500, 3), 500, 500))
add("members_of_12", STRUCTS, "luminance", 4, 128, given((500, 3), 500, 500))
add("member_of_16", STRUCTS, "mass", 4, 128, given((500, 4), 500, 500))
add("member_of_24", STRUCTS, "height", 4, 128, given((500, 3), 500, 500, dtype=torch.float64))
add("members_changed", STRUCTS, "move", 4, 128, lambda: [floats(500, 4), 0.5, 500], [])

# ---- neighbours -----------------------------------------------------------------------------------------------------

STENCIL = r"""
__global__ void stencil3(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i == 0 || i == n - 1)
        out[i] = x[i];
    else
        out[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0f;
}

__global__ void stencil5(const float* x, float* out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;
    int i = r * w + c;
    float sum = -4.0f * x[i];
    if (r > 0) sum += x[i - w];
    if (r < h - 1) sum += x[i + w];
    if (c > 0) sum += x[i - 1];
    if (c < w - 1) sum += x[i + 1];
    out[i] = sum;
}

__global__ void stencil7(const float* x, float* out, int d, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (z >= d || r >= h || c >= w) return;
    int i = (z * h + r) * w + c;
    bool inside = z > 0 && z < d - 1 && r > 0 && r < h - 1 && c > 0 && c < w - 1;
    if (inside)
        out[i] = x[i - h * w] + x[i + h * w] + x[i - w] + x[i + w] + x[i - 1] + x[i + 1] - 6.0f * x[i];
    else
        out[i] = 0.0f;
}

__global__ void stencil_shared(const float* x, float* out, int n) {
    __shared__ float tile[128 + 2];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int t = threadIdx.x + 1;
    tile[t] = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (threadIdx.x == blockDim.x - 1) tile[t + 1] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = tile[t - 1] + tile[t] + tile[t + 1];
}
"""
add("stencil_3", STENCIL, "stencil3", 4, 256, given(1000, 1000, 1000))
add("stencil_5", STENCIL, "stencil5", (4, 3), (16, 16), given((37, 53), (37, 53), 37, 53))
add("stencil_7_3d", STENCIL, "stencil7", (3, 4, 3), (8, 4, 4), given((9, 13, 20), (9, 13, 20), 9, 13, 20))
add("stencil_shared", STENCIL, "stencil_shared", 8, 128, given(1000, 1000, 1000))

VOLUME = r"""
__global__ void flip(const float* x, float* out, int d, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (z < d && r < h && c < w) out[(z * h + r) * w + c] = x[((d - 1 - z) * h + r) * w + (w - 1 - c)];
}
"""
add("volume_8x4x4", VOLUME, "flip", (3, 4, 3), (8, 4, 4), given((9, 13, 20), (9, 13, 20), 9, 13, 20))
add("volume_5x3x7", VOLUME, "flip", (4, 5, 2), (5, 3, 7), given((9, 13, 20), (9, 13, 20), 9, 13, 20))

# ---- lanes that part ------------------------------------------------------------------------------------------------

BRANCHES = r"""
__global__ void even_odd(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i % 2 == 0)
        out[i] = 2.0f * a[i];
    else
        out[i] = b[n - 1 - i] + 1.0f;
}

__global__ void four_ways(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v;
    switch (i % 4) {
        case 0: v = fabsf(x[i]); break;
        case 1: v = x[(i + 7) % n] * 3.0f; break;
        case 2: v = sinf(x[n - 1 - i]); break;
        default: v = 0.0f;
    }
    out[i] = v;
}

__global__ void sum_of_positive(const float* x, const float* weight, float* out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) {
        float v = x[r * cols + c];
        if (v > 0.0f) sum += v * weight[c];
    }
    out[r] = sum;
}

__global__ void triangle(const float* x, float* out, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float sum = 0.0f;
    for (int c = 0; c <= r; ++c) sum += x[r * n + c];
    out[r] = sum;
}

__global__ void find(const int* x, int* out, int rows, int cols, int limit) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int at = -1;
    for (int c = 0; c < cols; ++c) {
        if (x[c * rows + r] >= limit) {
            at = c;
            break;
        }
    }
    out[r] = at;
}

__global__ void sparse_rows(const int* start, const int* column, const float* value, const float* x, float* out,
                            int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int k = start[r]; k < start[r + 1]; ++k) sum += value[k] * x[column[k]];
    out[r] = sum;
}

__global__ void keep_positive(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (v <= 0.0f) return;
    out[i] = v * x[n - 1 - i];
}
"""


def sparse(rows=200):
    """A matrix of 0 to 8 values a row in compressed rows, and a vector."""
    count = integers(rows, below=9, seed=3)
    start = torch.cat([torch.zeros(1), count.cumsum(0)]).int()
    nonzero = int(start[-1])
    return [start, integers(nonzero, below=rows, seed=4), floats(nonzero), floats(rows, seed=5), empty(rows), rows]


add(
    "branch_even_odd",
    BRANCHES,
    "even_odd",
    4,
    256,
    lambda: [floats(1000), floats(1000, seed=1), empty(1000), 1000],
    [2],
)
add("branch_four_ways", BRANCHES, "four_ways", 4, 256, given(1000, 1000, 1000))
add(
    "branch_in_loop",
    BRANCHES,
    "sum_of_positive",
    2,
    64,
    lambda: [floats(100, 24), floats(24, seed=1), empty(100), 100, 24],
    [2],
)
add("loop_triangle", BRANCHES, "triangle", 2, 64, given((100, 100), 100, 100))
add("loop_with_break", BRANCHES, "find", 4, 64, given((30, 200), 200, 200, 30, 90, dtype=torch.int32))
add("loop_sparse_rows", BRANCHES, "sparse_rows", 4, 64, sparse, [4])
add("early_return", BRANCHES, "keep_positive", 4, 256, given(1000, 1000, 1000), [])

ROWS = r"""
__global__ void row_sums(const float* x, float* out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += x[r * cols + c];
    out[r] = sum;
}

__global__ void column_sums(const float* x, float* out, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    out[c] = 0.0f;
    for (int r = 0; r < rows; ++r) out[c] += x[r * cols + c];
}

__global__ void capped(const float* x, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 2.0f * x[i];
}
"""
add("row_sums", ROWS, "row_sums", 2, 64, given((100, 50), 100, 100, 50))
add("column_sums_in_place", ROWS, "column_sums", 2, 64, given((50, 100), 100, 50, 100))
add("capped_grid", ROWS, "capped", 4, 128, given(5000, 5000, 5000))

# ---- sums over blocks and warps -------------------------------------------------------------------------------------

REDUCE = r"""
__global__ void reduce_interleaved(const float* x, float* out, int n) {
    __shared__ float sum[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sum[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = 1; s < blockDim.x; s *= 2) {
        int k = 2 * s * t;
        if (k < blockDim.x) sum[k] += sum[k + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

__global__ void reduce_sequential(const float* x, float* out, int n) {
    __shared__ float sum[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sum[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) sum[t] += sum[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

__global__ void reduce_warps(const float* x, float* out, int n) {
    __shared__ float sum[32];
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) sum[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? sum[threadIdx.x] : 0.0f;
        for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}

__global__ void scan(const float* x, float* out, int n) {
    extern __shared__ float sums[];
    int t = threadIdx.x, from = 0;
    sums[t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        int to = n - from;
        sums[to + t] = t >= d ? sums[from + t] + sums[from + t - d] : sums[from + t];
        from = to;
        __syncthreads();
    }
    out[t] = sums[from + t];
}

__global__ void softmax(const float* x, float* out, int cols) {
    __shared__ float part[128];
    int t = threadIdx.x;
    const float* row = x + blockIdx.x * cols;
    float most = -INFINITY;
    for (int c = t; c < cols; c += blockDim.x) most = fmaxf(most, row[c]);
    part[t] = most;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) part[t] = fmaxf(part[t], part[t + s]);
        __syncthreads();
    }
    most = part[0];
    __syncthreads();
    float sum = 0.0f;
    for (int c = t; c < cols; c += blockDim.x) sum += expf(row[c] - most);
    part[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    for (int c = t; c < cols; c += blockDim.x) out[blockIdx.x * cols + c] = expf(row[c] - most) / part[0];
}
"""
for kind, grid in [("interleaved", 4), ("sequential", 4), ("warps", 3)]:
    add(f"reduce_{kind}", REDUCE, f"reduce_{kind}", grid, 256, given(1000, grid, 1000))
add("scan", REDUCE, "scan", 1, 256, given(256, 256, 256), shared_bytes=2 * 256 * 4)
add("softmax", REDUCE, "softmax", 5, 128, given((5, 300), (5, 300), 300))

# ---- matmul and transpose -------------------------------------------------------------------------------------------

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

# The ladder of lesson 10, as it is in kernels/: what each rung costs, on 128 x 64 times 64 x 128.
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

add(
    "rung_pipelined",
    kernels.source("matmul_fast"),
    "matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, true>",
    1,
    256,
    matrices(128, 256, 64),
    [2],
)
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

# ---- asynchronous copies: where they come from and where they go ----------------------------------------------------

COPY_ASYNC = r"""
#include <cuda_pipeline.h>

template <int BYTES>
__global__ void copy_async(const float* x, const int* from, const int* to, float* out) {
    __shared__ __align__(16) float tile[4096];
    int t = threadIdx.x, place = to[t];
    __pipeline_memcpy_async(tile + place, x + from[t], BYTES);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[place];
}

template <int BYTES>
__global__ void copy_or_zeros(const float* x, const int* from, const int* to, float* out, int end) {
    __shared__ __align__(16) float tile[4096];
    int t = threadIdx.x, place = to[t];
    __pipeline_memcpy_async(tile + place, x + from[t], BYTES, from[t] < end ? 0 : BYTES);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[place];
}
"""


def ends(from_, to, *numbers):
    """Arguments: where the copies of 64 threads come from and where they go."""
    places = torch.arange(64)
    return lambda: [floats(4096), from_(places).int(), to(places).int(), empty(64), *numbers]


def apart(stride):
    return lambda t: stride * t


def rows(length, pitch, width=1):
    """Where threads stand whose rows of so many threads begin `pitch` floats apart."""
    return lambda t: t // length * pitch + t % length * width


def anywhere(width, seed):
    return lambda t: torch.randperm(4096 // width, generator=torch.Generator().manual_seed(seed))[: len(t)] * width


for name, size, from_, to in [
    ("4", 4, apart(1), apart(1)),
    ("4_from_3", 4, lambda t: t + 3, apart(1)),
    ("4_stride_2", 4, apart(2), apart(1)),
    ("4_stride_36", 4, apart(36), apart(1)),
    ("4_same", 4, apart(0), apart(1)),
    ("4_conflicts", 4, apart(1), apart(4)),
    ("4_rows", 4, rows(8, 128), apart(1)),
    ("4_transposed", 4, rows(4, 64), lambda t: t % 4 * 132 + t // 4),
    ("4_anywhere", 4, anywhere(1, 1), anywhere(1, 2)),
    ("8", 8, apart(2), apart(2)),
    ("8_rows", 8, rows(8, 128, 2), apart(2)),
    ("8_anywhere", 8, anywhere(2, 3), anywhere(2, 4)),
    ("16", 16, apart(4), apart(4)),
    ("16_shifted", 16, lambda t: 4 * t + 4, apart(4)),
    ("16_padded", 16, rows(4, 64, 4), rows(4, 20, 4)),
    ("16_anywhere", 16, anywhere(4, 5), anywhere(4, 6)),
]:
    add(f"async_{name}", COPY_ASYNC, f"copy_async<{size}>", 1, 64, ends(from_, to), [3])
for size in (4, 16):
    width = size // 4
    add(
        f"async_{size}_zeros",
        COPY_ASYNC,
        f"copy_or_zeros<{size}>",
        1,
        64,
        ends(anywhere(width, 7), anywhere(width, 8), 2048),
        [3],
    )

TRANSPOSE = r"""
__global__ void transpose_naive(const float* x, float* out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < h && c < w) out[c * h + r] = x[r * w + c];
}

template <int PITCH>
__global__ void transpose_tile(const float* x, float* out, int h, int w) {
    __shared__ float tile[32][PITCH];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (r + k < h && c < w) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * w + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x;
    r = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (r + k < w && c < h) out[(r + k) * h + c] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void transpose_swizzled(const float* x, float* out, int h, int w) {
    __shared__ float tile[32][32];
    int tr = threadIdx.y, tc = threadIdx.x;
    tile[tr][tc ^ tr] = x[(blockIdx.y * 32 + tr) * w + blockIdx.x * 32 + tc];
    __syncthreads();
    out[(blockIdx.x * 32 + tr) * h + blockIdx.y * 32 + tc] = tile[tc][tr ^ tc];
}
"""


def matrix(h, w):
    return lambda: [floats(h, w), empty(w, h), h, w]


add("transpose_naive", TRANSPOSE, "transpose_naive", (4, 8), (32, 8), matrix(64, 128))
add("transpose_naive_edges", TRANSPOSE, "transpose_naive", (3, 6), (32, 8), matrix(45, 70))
add("transpose_32x32", TRANSPOSE, "transpose_tile<32>", (4, 2), (32, 8), matrix(64, 128))
add("transpose_32x33", TRANSPOSE, "transpose_tile<33>", (4, 2), (32, 8), matrix(64, 128))
add("transpose_32x33_edges", TRANSPOSE, "transpose_tile<33>", (3, 2), (32, 8), matrix(45, 70))
add("transpose_swizzled", TRANSPOSE, "transpose_swizzled", (4, 2), (32, 32), matrix(64, 128))

# ---- shared memory: which banks -------------------------------------------------------------------------------------

SHARED = r"""
// Thread t reads element t * stride of shared memory.
template <class T>
__global__ void shared_load(const T* x, T* out, int stride) {
    extern __shared__ char memory[];
    T* s = reinterpret_cast<T*>(memory);
    for (int k = threadIdx.x; k < blockDim.x * stride; k += blockDim.x) s[k] = x[k];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x * stride];
}

// Thread t writes element t * stride.
template <class T>
__global__ void shared_store(const T* x, T* out, int stride) {
    extern __shared__ char memory[];
    T* s = reinterpret_cast<T*>(memory);
    s[threadIdx.x * stride] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[(blockDim.x - 1 - threadIdx.x) * stride];
}

template <class T>
__global__ void shared_same(const T* x, T* out, int which) {
    __shared__ T s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[which];
}

// One thread of `every` reads.
template <class T>
__global__ void shared_some(const T* x, T* out, int every) {
    __shared__ T s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x % every == 0) out[threadIdx.x / every] = s[threadIdx.x];
}

// The first 16 lanes of each warp read.
template <class T>
__global__ void shared_half_warp(const T* x, T* out) {
    __shared__ T s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane < 16) out[warp * 16 + lane] = s[warp * 32 + lane];
}

// Lanes read where an index says.
template <class T>
__global__ void shared_gather(const T* x, const int* index, T* out) {
    __shared__ T s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[index[threadIdx.x]];
}
"""
TYPES = {  # how many values of which dtype one element is
    "unsigned char": (1, torch.uint8),
    "short": (1, torch.int16),
    "float": (1, torch.float32),
    "float2": (2, torch.float32),
    "double": (1, torch.float64),
    "float4": (4, torch.float32),
}


def shared(kind, function, label, x, out, *numbers, **more):
    """A launch of 64 threads, the elements of x and out being of type `kind`."""
    count, dtype = TYPES[kind]
    args = given(x * count, out * count, *numbers, dtype=dtype)
    name = f"shared_{kind}_{label}".replace(" ", "_")
    add(name, SHARED, f"{function}<{kind}>", 1, 64, args, **more)


def strided(kind, function, label, stride):
    count, dtype = TYPES[kind]
    dynamic = 64 * stride * count * dtype.itemsize
    shared(kind, function, f"{label}_{stride}", 64 * stride, 64, stride, shared_bytes=dynamic)


for kind, strides in [
    ("float", (1, 2, 3, 4, 8, 16, 32, 33)),
    ("float2", (1, 2)),
    ("double", (1, 2, 4)),
    ("float4", (1, 2, 4)),
    ("unsigned char", (1, 4, 8)),
    ("short", (1, 3)),
]:
    for stride in strides:
        strided(kind, "shared_load", "stride", stride)
for kind, strides in [("float", (2, 32)), ("double", (1, 4)), ("float4", (1, 4)), ("unsigned char", (1, 4))]:
    for stride in strides:
        strided(kind, "shared_store", "store_stride", stride)
for kind in ("float", "double", "float4"):
    shared(kind, "shared_same", "same", 64, 64, 5)
for kind in ("double", "float4"):
    shared(kind, "shared_some", "every_2", 64, 32, 2)
    shared(kind, "shared_some", "every_8", 64, 8, 8)
    shared(kind, "shared_half_warp", "half_warp", 64, 32)


def shared_gather(kind):
    count, dtype = TYPES[kind]
    x, out = given(256 * count, 256 * count, dtype=dtype)()
    return [x, integers(256, below=256, seed=6), out]


for kind in ("float", "double", "float4"):
    args = functools.partial(shared_gather, kind)
    add(f"shared_{kind}_gather", SHARED, f"shared_gather<{kind}>", 1, 256, args, [2])

# ---- atomics and constant memory ------------------------------------------------------------------------------------

HISTOGRAM = r"""
__global__ void histogram_global(const unsigned char* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&count[x[i]], 1);
}

__global__ void histogram_shared(const unsigned char* x, int* count, int n) {
    __shared__ int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    if (mine[threadIdx.x] > 0) atomicAdd(&count[threadIdx.x], mine[threadIdx.x]);
}

__global__ void append_positive(const float* x, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) out[atomicAdd(count, 1)] = x[i];
}

__global__ void scatter_add(const float* x, const int* index, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&out[index[i]], x[i]);
}
"""


def counted(n):
    return lambda: [bytes_(n), torch.zeros(256, dtype=torch.int32), n]


add("histogram_global", HISTOGRAM, "histogram_global", 8, 256, counted(2000), [])
add("histogram_shared", HISTOGRAM, "histogram_shared", 2, 256, counted(2000), [])
add(
    "append_positive",
    HISTOGRAM,
    "append_positive",
    4,
    256,
    lambda: [floats(1000), empty(1000), torch.zeros(1, dtype=torch.int32), 1000],
    [],
)
add(
    "scatter_add",
    HISTOGRAM,
    "scatter_add",
    4,
    256,
    lambda: [floats(1000), integers(1000, below=300), torch.zeros(300), 1000],
    [],
)

CONSTANT = r"""
__constant__ float weight[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
__constant__ int shift[32] = {5, 3, 1, 0, 2, 4, 6, 8, 7, 9, 11, 10, 12, 15, 14, 13,
                              16, 18, 17, 20, 19, 21, 23, 22, 24, 26, 25, 28, 27, 29, 31, 30};

__global__ void convolve(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 5; ++k) {
        int j = i + k - 2;
        if (j >= 0 && j < n) sum += weight[k] * x[j];
    }
    out[i] = sum;
}

__global__ void reorder(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i - i % 32 + shift[i % 32]];
}
"""
add("constant_weights", CONSTANT, "convolve", 4, 256, given(1000, 1000, 1000))
add("constant_by_lane", CONSTANT, "reorder", 4, 256, given(1024, 1024, 1024))
