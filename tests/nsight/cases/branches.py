"""Lanes that take different paths, and sums over blocks and warps."""

from functools import partial

import torch

from tests.launches import empty, floats, integers
from tests.nsight.cases.adding import add_to, given

LAUNCHES = []
add = partial(add_to, LAUNCHES)


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
