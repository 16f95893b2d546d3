// The gradients of layer norm and RMS norm of the rows of x (h, w), from dy (h, w), the gradient of out. With
// y[r][c] = (x[r][c] - mean[r]) * rstd[r], the normed x, and g[r][c] = dy[r][c] * weight[c]:
//   dx[r][c] = rstd[r] * (g[r][c] - mean of row r of g - y[r][c] * mean of row r of g * y)
//   dweight[c] = sum over r of dy[r][c] * y[r][c],  dbias[c] = sum over r of dy[r][c]
// In RMS norm the mean is 0 and so is the second term of dx: `mean` is null then, and there is no dbias. dx, dweight
// and dbias have the dtype of dy, x and weight: float32, float16 or bfloat16. mean (h), rstd (h) and all sums are
// float32. weight may be null, for 1.
//
// The sums over rows come in two stages: blocks add up some rows each and store their sums in `parts`, (groups, 2, w)
// or (groups, 1, w) floats, and column_sums_kernel adds those, in the same order every time. With atomicAdd the order,
// and so the last bits, would differ from run to run.
#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#include "../cdiv.h"
#include "../packs.h"
#include "sums.h"

// What a row needs for dx: the two means. `board` as in block_sum, for a float2 per warp.
__device__ inline float2 block_sums(float2 v, float2* board) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = make_float2(warp_sum(v.x), warp_sum(v.y));
    if (lane == 0) board[warp] = v;
    __syncthreads();  // otherwise a warp reads sums that other warps have not stored yet
    v = lane < warps ? board[lane] : make_float2(0.0f, 0.0f);
    return make_float2(warp_sum(v.x), warp_sum(v.y));
}

// Two kernels, which both read x and dy. Here a block computes a row of dx, and reads it twice: for the means and for
// dx. Rows may have any length and begin anywhere.
template <class T>
__global__ void __launch_bounds__(1024)
    norm_backward_rows_kernel(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ weight,
                              const float* __restrict__ mean, const float* __restrict__ rstd, T* __restrict__ dx,
                              size_t h, int w) {
    __shared__ float2 board[2][32];  // two boards: at the barrier of the next row everyone has read this row's
    int which = 0;
    for (size_t r = blockIdx.x; r < h; r += gridDim.x, which ^= 1) {
        float m = mean ? mean[r] : 0.0f, scale = rstd[r];
        float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll 4
        for (int c = threadIdx.x; c < w; c += blockDim.x) {
            float g = as_float(dy[r * w + c]) * (weight ? as_float(weight[c]) : 1.0f);
            sums.x += g;
            sums.y += g * (as_float(x[r * w + c]) - m) * scale;
        }
        sums = block_sums(sums, board[which]);
        float shift = mean ? sums.x / w : 0.0f, slope = sums.y / w;
#pragma unroll 4
        for (int c = threadIdx.x; c < w; c += blockDim.x) {
            float g = as_float(dy[r * w + c]) * (weight ? as_float(weight[c]) : 1.0f);
            set(dx[r * w + c], scale * (g - shift - (as_float(x[r * w + c]) - m) * scale * slope));
        }
    }
}

// And here a block of 32 x 8 threads adds up 32 columns of the rows from `rows * blockIdx.y` on: a warp reads 32
// elements side by side, of every eighth row.
template <class T>
__global__ void norm_backward_columns_kernel(const T* __restrict__ dy, const T* __restrict__ x,
                                             const float* __restrict__ mean, const float* __restrict__ rstd,
                                             float* __restrict__ parts, size_t h, int w, int rows) {
    __shared__ float2 board[8][32];
    int c = blockIdx.x * 32 + threadIdx.x;
    size_t first = size_t(blockIdx.y) * rows;
    float2 sums = make_float2(0.0f, 0.0f);
    if (c < w)  // guard
#pragma unroll 4
        for (int k = threadIdx.y; k < rows; k += 8)
            if (first + k < h) {  // guard
                size_t r = first + k;
                float d = as_float(dy[r * w + c]);
                sums.x += d * (as_float(x[r * w + c]) - (mean ? mean[r] : 0.0f)) * rstd[r];
                sums.y += d;
            }
    board[threadIdx.y][threadIdx.x] = sums;
    __syncthreads();  // otherwise the first warp adds sums that other warps have not stored yet
    if (threadIdx.y == 0 && c < w) {  // guard
        for (int k = 1; k < 8; ++k) sums.x += board[k][threadIdx.x].x, sums.y += board[k][threadIdx.x].y;
        float* part = parts + size_t(blockIdx.y) * (mean ? 2 : 1) * w;
        part[c] = sums.x;
        if (mean) part[w + c] = sums.y;
    }
}

// The second stage: sums of the columns of parts (groups, columns), 32 per block of 32 x 32 threads. The first w go to
// dweight, the others to dbias.
template <class T>
__global__ void __launch_bounds__(1024)
    column_sums_kernel(const float* __restrict__ parts, T* __restrict__ dweight, T* __restrict__ dbias, int groups,
                       int w, int columns) {
    __shared__ float tile[32][33];  // a row is a warp's sums; 33, so that a column is in 32 banks
    int c = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (c < columns)  // guard
#pragma unroll 8
        for (int k = threadIdx.y; k < groups; k += 32) sum += parts[size_t(k) * columns + c];
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();  // otherwise a warp adds sums that other warps have not stored yet
    sum = warp_sum(tile[threadIdx.x][threadIdx.y]);
    c = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && c < columns)  // guard
        set(c < w ? dweight[c] : dbias[c - w], sum);
}

// Fast: x and dy are read once, for everything. Each block does every `groups`-th row. A thread has the same columns of
// all its rows, PACKS packs of 16 bytes, and keeps their part of dweight and dbias in registers. While a row is worked
// on, the next one is being copied into shared memory. Each thread copies what it will use itself: no barrier is
// needed. A row that is too long for the registers of one block is divided among `slabs` blocks. They then share the
// row's sums through `board`, in global memory: all blocks must run at once, which a cooperative launch ensures. Rows
// must begin at multiples of 16 bytes, and so must weight.
template <class T, int PACKS>
__global__ void __launch_bounds__(1024)
    norm_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ weight,
                         const float* __restrict__ mean, const float* __restrict__ rstd, float2* board,
                         T* __restrict__ dx, float* __restrict__ parts, size_t h, int w, int slabs) {
    const int SIZE = sizeof(Pack<T>) / sizeof(T);
    extern __shared__ uint4 dynamic[];
    float2(*boards)[32] = (float2(*)[32])dynamic;  // two, as above; then the next row
    Pack<T>*next_x = (Pack<T>*)(boards + 2) + threadIdx.x, *next_dy = next_x + PACKS * blockDim.x;
    int slab = blockIdx.x % slabs, group = blockIdx.x / slabs, groups = gridDim.x / slabs;
    int first = slab * PACKS * blockDim.x, packs = w / SIZE - first;  // of this slab, or more
    auto begin_copies = [&](size_t r) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            int p = threadIdx.x + k * blockDim.x;
            if (r < h && p < packs) {  // guard
                size_t at = r * w + size_t(first + p) * SIZE;
                __pipeline_memcpy_async(next_x + k * blockDim.x, x + at, 16);
                __pipeline_memcpy_async(next_dy + k * blockDim.x, dy + at, 16);
            }
        }
        __pipeline_commit();
    };
    float dweight[PACKS][SIZE] = {}, dbias[PACKS][SIZE] = {};
    size_t rounds = (h + groups - 1) / groups;
    begin_copies(group);
    for (size_t round = 0; round < rounds; ++round) {
        size_t r = round * groups + group;  // in the last round some have no row, and wait for the others
        Pack<T> v[PACKS], d[PACKS];
        __pipeline_wait_prior(0);
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            bool any = r < h && int(threadIdx.x + k * blockDim.x) < packs;  // guard: zeros, which no sum notices
            v[k] = any ? next_x[k * blockDim.x] : Pack<T>();
            d[k] = any ? next_dy[k * blockDim.x] : Pack<T>();
        }
        begin_copies(r + groups);
        float m = mean && r < h ? mean[r] : 0.0f, scale = r < h ? rstd[r] : 0.0f;
        auto factors = [&](int k) {
            int p = threadIdx.x + k * blockDim.x;
            Pack<T> ones;
            for (int i = 0; i < SIZE; ++i) set(ones.at[i], 1.0f);
            return weight && p < packs ? *(const Pack<T>*)(weight + (first + p) * SIZE) : ones;  // guard
        };
        float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            Pack<T> f = factors(k);
#pragma unroll
            for (int i = 0; i < SIZE; ++i) {
                float y = (as_float(v[k].at[i]) - m) * scale, each = as_float(d[k].at[i]);
                dweight[k][i] += each * y;
                dbias[k][i] += each;
                sums.x += each * as_float(f.at[i]);
                sums.y += each * as_float(f.at[i]) * y;
            }
        }
        sums = block_sums(sums, boards[round % 2]);
        if (slabs > 1) {
            float2* of_row = board + (round % 2 * groups + group) * slabs;
            if (threadIdx.x == 0) of_row[slab] = sums;
            cooperative_groups::this_grid().sync();  // otherwise a block reads sums that others have not stored yet
            sums = make_float2(0.0f, 0.0f);
            for (int k = 0; k < slabs; ++k) sums.x += of_row[k].x, sums.y += of_row[k].y;
        }
        float shift = mean ? sums.x / w : 0.0f, slope = sums.y / w;
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            int p = threadIdx.x + k * blockDim.x;
            if (r < h && p < packs) {  // guard
                Pack<T> f = factors(k);
#pragma unroll
                for (int i = 0; i < SIZE; ++i) {
                    float y = (as_float(v[k].at[i]) - m) * scale, g = as_float(d[k].at[i]) * as_float(f.at[i]);
                    set(v[k].at[i], scale * (g - shift - y * slope));
                }
                store_pack(dx + r * w + size_t(first + p) * SIZE, v[k]);
            }
        }
    }
    float* part = parts + size_t(group) * (mean ? 2 : 1) * w;
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        int p = threadIdx.x + k * blockDim.x;
        if (p < packs)  // guard
#pragma unroll
            for (int i = 0; i < SIZE; ++i) {
                part[(first + p) * SIZE + i] = dweight[k][i];
                if (mean) part[w + (first + p) * SIZE + i] = dbias[k][i];
            }
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// A grid has at most 2^31 - 1 blocks in x; a block does several rows where there are more.
static unsigned int blocks_of(size_t rows) { return rows < 2147483647 ? rows : 2147483647; }

// How the work is divided. One block of `slabs` has threads * PACKS packs of a row.
struct Plan {
    bool fast;
    unsigned int groups, slabs, threads;
    int bytes;  // of shared memory
};

// Two kernels: some 4096 blocks add up the columns, at least 64 rows each.
static Plan planned_two_kernels(size_t h, int w) {
    unsigned int most = w < 32 * 4096 ? 4096 / cdiv(w, 32) : 1, groups = cdiv(h, 64);
    return {false, groups < 1 ? 1 : groups < most ? groups : most, 1, 0, 0};
}

template <class T, class Kernel>
static Plan planned(Kernel kernel, const T* dy, const T* x, const T* weight, size_t h, int w) {
    const int COLUMNS = 8, SIZE = sizeof(Pack<T>) / sizeof(T);  // of a thread, and in a pack
    if (w % SIZE || (size_t(dy) | size_t(x) | size_t(weight)) % 16) return planned_two_kernels(h, w);
    int device = 0, sms = 0, resident = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    for (int most : {1024, 512}) {  // with 512 threads, half of the shared memory is enough
        unsigned int slabs = cdiv(w, COLUMNS * most), threads = cdiv(cdiv(w, slabs), COLUMNS * 32) * 32;
        int bytes = 2 * 32 * sizeof(float2) + 2 * COLUMNS * sizeof(T) * threads;
        bool given = bytes <= 48 * 1024 || cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                                bytes) == cudaSuccess;
        if (given && cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, bytes) == cudaSuccess) {
            size_t groups = size_t(resident) * sms / slabs;  // all blocks run at once
            if (groups > 0) return {true, (unsigned int)(groups < h ? groups : h), slabs, threads, bytes};
        }
        cudaGetLastError();  // a refusal is an answer here, and no error
    }
    return planned_two_kernels(h, w);
}

// What `scratch` must have room for: two sums per group and column and, behind them, those that slabs share.
static size_t floats_of(Plan plan, int w) { return size_t(plan.groups) * 2 * (w + 2 * plan.slabs); }

template <class T, class Kernel>
static void launch_together(Kernel kernel, Plan plan, const T* dy, const T* x, const T* weight, const float* mean,
                            const float* rstd, T* dx, float* parts, float2* board, size_t h, int w,
                            cudaStream_t stream) {
    int slabs = plan.slabs;
    void* args[] = {&dy, &x, &weight, &mean, &rstd, &board, &dx, &parts, &h, &w, &slabs};
    cudaLaunchCooperativeKernel(kernel, plan.groups * plan.slabs, plan.threads, args, plan.bytes, stream);
}

static void launch(Plan plan, const float* dy, const float* x, const float* weight, const float* mean,
                   const float* rstd, float* dx, float* dweight, float* dbias, float* parts, size_t h, int w,
                   cudaStream_t stream) {
    unsigned int groups = plan.groups, columns = mean ? 2 * w : w;
    float2* board = (float2*)(parts + size_t(groups) * 2 * w);
    if (plan.slabs > 1)
        launch_together(norm_backward_kernel<float, 2>, plan, dy, x, weight, mean, rstd, dx, parts, board, h, w,
                        stream);
    else if (plan.fast)
        norm_backward_kernel<float, 2><<<groups, plan.threads, plan.bytes, stream>>>(
            dy, x, weight, mean, rstd, board, dx, parts, h, w, 1);
    else {
        norm_backward_rows_kernel<float><<<blocks_of(h), 512, 0, stream>>>(dy, x, weight, mean, rstd, dx, h, w);
        norm_backward_columns_kernel<float><<<dim3(cdiv(w, 32), groups), dim3(32, 8), 0, stream>>>(
            dy, x, mean, rstd, parts, h, w, (h + groups - 1) / groups);
    }
    column_sums_kernel<float>
        <<<cdiv(columns, 32), dim3(32, 32), 0, stream>>>(parts, dweight, dbias, groups, w, columns);
}

size_t floats_of_norm_backward(const float* dy, const float* x, const float* weight, size_t h, int w) {
    return floats_of(planned(norm_backward_kernel<float, 2>, dy, x, weight, h, w), w);
}

void launch_norm_backward(const float* dy, const float* x, const float* weight, const float* mean, const float* rstd,
                          float* dx, float* dweight, float* dbias, float* scratch, size_t h, int w,
                          cudaStream_t stream) {
    Plan plan = planned(norm_backward_kernel<float, 2>, dy, x, weight, h, w);
    launch(plan, dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}

static void launch(Plan plan, const __half* dy, const __half* x, const __half* weight, const float* mean,
                   const float* rstd, __half* dx, __half* dweight, __half* dbias, float* parts, size_t h, int w,
                   cudaStream_t stream) {
    unsigned int groups = plan.groups, columns = mean ? 2 * w : w;
    float2* board = (float2*)(parts + size_t(groups) * 2 * w);
    if (plan.slabs > 1)
        launch_together(norm_backward_kernel<__half, 1>, plan, dy, x, weight, mean, rstd, dx, parts, board, h, w,
                        stream);
    else if (plan.fast)
        norm_backward_kernel<__half, 1><<<groups, plan.threads, plan.bytes, stream>>>(
            dy, x, weight, mean, rstd, board, dx, parts, h, w, 1);
    else {
        norm_backward_rows_kernel<__half><<<blocks_of(h), 512, 0, stream>>>(dy, x, weight, mean, rstd, dx, h, w);
        norm_backward_columns_kernel<__half><<<dim3(cdiv(w, 32), groups), dim3(32, 8), 0, stream>>>(
            dy, x, mean, rstd, parts, h, w, (h + groups - 1) / groups);
    }
    column_sums_kernel<__half>
        <<<cdiv(columns, 32), dim3(32, 32), 0, stream>>>(parts, dweight, dbias, groups, w, columns);
}

size_t floats_of_norm_backward(const __half* dy, const __half* x, const __half* weight, size_t h, int w) {
    return floats_of(planned(norm_backward_kernel<__half, 1>, dy, x, weight, h, w), w);
}

void launch_norm_backward(const __half* dy, const __half* x, const __half* weight, const float* mean, const float* rstd,
                          __half* dx, __half* dweight, __half* dbias, float* scratch, size_t h, int w,
                          cudaStream_t stream) {
    Plan plan = planned(norm_backward_kernel<__half, 1>, dy, x, weight, h, w);
    launch(plan, dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}

static void launch(Plan plan, const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight,
                   const float* mean, const float* rstd, __nv_bfloat16* dx, __nv_bfloat16* dweight,
                   __nv_bfloat16* dbias, float* parts, size_t h, int w, cudaStream_t stream) {
    unsigned int groups = plan.groups, columns = mean ? 2 * w : w;
    float2* board = (float2*)(parts + size_t(groups) * 2 * w);
    if (plan.slabs > 1)
        launch_together(norm_backward_kernel<__nv_bfloat16, 1>, plan, dy, x, weight, mean, rstd, dx, parts, board, h, w,
                        stream);
    else if (plan.fast)
        norm_backward_kernel<__nv_bfloat16, 1><<<groups, plan.threads, plan.bytes, stream>>>(
            dy, x, weight, mean, rstd, board, dx, parts, h, w, 1);
    else {
        norm_backward_rows_kernel<__nv_bfloat16><<<blocks_of(h), 512, 0, stream>>>(dy, x, weight, mean, rstd, dx, h, w);
        norm_backward_columns_kernel<__nv_bfloat16><<<dim3(cdiv(w, 32), groups), dim3(32, 8), 0, stream>>>(
            dy, x, mean, rstd, parts, h, w, (h + groups - 1) / groups);
    }
    column_sums_kernel<__nv_bfloat16>
        <<<cdiv(columns, 32), dim3(32, 32), 0, stream>>>(parts, dweight, dbias, groups, w, columns);
}

size_t floats_of_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight, size_t h,
                               int w) {
    return floats_of(planned(norm_backward_kernel<__nv_bfloat16, 1>, dy, x, weight, h, w), w);
}

void launch_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight,
                          const float* mean, const float* rstd, __nv_bfloat16* dx, __nv_bfloat16* dweight,
                          __nv_bfloat16* dbias, float* scratch, size_t h, int w, cudaStream_t stream) {
    Plan plan = planned(norm_backward_kernel<__nv_bfloat16, 1>, dy, x, weight, h, w);
    launch(plan, dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}

size_t floats_of_norm_backward_two_kernels(size_t h, int w) { return floats_of(planned_two_kernels(h, w), w); }

void launch_norm_backward_two_kernels(const float* dy, const float* x, const float* weight, const float* mean,
                                      const float* rstd, float* dx, float* dweight, float* dbias, float* scratch,
                                      size_t h, int w, cudaStream_t stream) {
    launch(planned_two_kernels(h, w), dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}
#endif
