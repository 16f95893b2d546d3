"""Pictures, arrays of structs, and neighbours: stencils and volumes."""

from functools import partial

import torch

import kernels
from tests.launches import floats
from tests.nsight.cases.adding import add_to, given

LAUNCHES = []
add = partial(add_to, LAUNCHES)


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
