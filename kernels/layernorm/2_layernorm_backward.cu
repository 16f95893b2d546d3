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

#include "../bulk.h"
#include "../cdiv.h"
#include "../rows.h"

// What a row needs for dx: two sums, which all threads of the `slabs` blocks that share the row receive. `board` is for
// a float2 per warp of them. With several blocks, `barrier` counts its bytes: cluster.sync() would first wait for all
// that was stored before, dx included.
__device__ inline float2 row_sums(float2 v, float2* board, int slab = 0, int slabs = 1, Barrier* barrier = nullptr,
                                  int parity = 0) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = make_float2(sum_of_warp(v.x), sum_of_warp(v.y));
    if (slabs > 1) {  // a lane for each block's board
        if (threadIdx.x == 0) expect(barrier, slabs * warps * sizeof(float2));
        if (lane < slabs) send(v, board + slab * warps + warp, barrier, lane);
        wait(barrier, parity);
    } else {
        if (lane == 0) board[warp] = v;
        __syncthreads();  // otherwise a warp reads sums that other warps have not stored yet
    }
    v = make_float2(0.0f, 0.0f);
#pragma unroll 1  // a round or two: unrolled, most of it would be skipped
    for (int k = lane; k < slabs * warps; k += 32) v.x += board[k].x, v.y += board[k].y;
    return make_float2(sum_of_warp(v.x), sum_of_warp(v.y));
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
        sums = row_sums(sums, board[which]);
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
    sum = sum_of_warp(tile[threadIdx.x][threadIdx.y]);
    c = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && c < columns)  // guard
        set(c < w ? dweight[c] : dbias[c - w], sum);
}

// Fast: x and dy are read once, for everything. Each block does every `groups`-th row. A thread has the same 16 columns
// of all its rows: their weights and their part of dweight and dbias stay in registers. While a row is worked on, the
// next two are being copied into shared memory. Each thread copies what it will use itself: no barrier is needed. A row
// that is too long for one block is divided among the blocks of a cluster, its slabs. They store their sums in each
// other's shared memory. Rows must begin at multiples of 16 bytes, and so must weight.
//
// Blocks of up to 512 threads leave each thread 128 registers. So an SM holds a block of 512, or two of 256, one of
// which computes while the other waits for sums.
constexpr int COLUMNS = 16, MOST_THREADS = 512, MOST_SLABS = 8, BOARD = MOST_SLABS * MOST_THREADS / 32;

template <class T>
__global__ void __launch_bounds__(MOST_THREADS)
    norm_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ weight,
                         const float* __restrict__ mean, const float* __restrict__ rstd, T* __restrict__ dx,
                         float* __restrict__ parts, size_t h, int w) {
    constexpr int SIZE = Pack<T>::SIZE, PACKS = COLUMNS / SIZE;
    extern __shared__ __align__(128) uint4 dynamic[];  // as copies are slower to other places
    __shared__ Barrier arrived[2];                     // one per board
    float2(*boards)[BOARD] = (float2(*)[BOARD])dynamic;  // two, as above; then places for two rows
    int slab = 0, slabs = 1, threads = blockDim.x;
#if __CUDA_ARCH__ >= 900
    auto cluster = cooperative_groups::this_cluster();
    slab = cluster.block_rank(), slabs = cluster.num_blocks();
#endif
    unsigned int group = blockIdx.x / slabs, groups = gridDim.x / slabs;
    int first = slab * PACKS * threads + threadIdx.x, packs = w / SIZE;  // a thread has packs first + k * threads
    Pack<T>* places = (Pack<T>*)(boards + 2) + threadIdx.x;
    auto place = [&](int which, int k) { return places + (which * 2 * PACKS + k) * threads; };
    auto begin_copies = [&](size_t r, int which) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            int p = first + k * threads;
            if (r < h && p < packs) {  // guard
                __pipeline_memcpy_async(place(which, k), x + r * w + p * SIZE, 16);
                __pipeline_memcpy_async(place(which, PACKS + k), dy + r * w + p * SIZE, 16);
            }
        }
        __pipeline_commit();
    };
    if (threadIdx.x == 0 && slabs > 1) init(arrived, 2);
    begin_copies(group, 0);
    begin_copies(group + groups, 1);
    Pack<T> factors[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        if (weight && first + k * threads < packs)  // guard
            factors[k] = *(const Pack<T>*)(weight + (first + k * threads) * SIZE);
        else
#pragma unroll
            for (int i = 0; i < SIZE; ++i) set(factors[k].at[i], 1.0f);
    float dweight[PACKS][SIZE] = {}, dbias[PACKS][SIZE] = {}, per_row = 1.0f / w;
    auto statistics = [&](size_t r) {
        return r < h ? make_float2(mean ? mean[r] : 0.0f, rstd[r]) : make_float2(0.0f, 0.0f);
    };
    float2 next = statistics(group);
#if __CUDA_ARCH__ >= 900
    if (slabs > 1) cluster.sync();  // otherwise a block sends sums to one that has not begun yet
#endif
    int which = 0, parity = 0;
    for (size_t r = group; r < h; r += groups, which ^= 1, parity ^= which == 0) {
        float scale = next.y, offset = -next.x * scale;  // y = x * scale + offset
        next = statistics(r + groups);                   // a row ahead, as memory takes its time
        Pack<T> v[PACKS], d[PACKS];
        __pipeline_wait_prior(1);
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            bool any = first + k * threads < packs;  // guard: zeros, which no sum notices
            v[k] = any ? *place(which, k) : Pack<T>();
            d[k] = any ? *place(which, PACKS + k) : Pack<T>();
        }
        begin_copies(r + 2 * groups, which);
        float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
#pragma unroll
            for (int i = 0; i < SIZE; ++i) {
                float y = fmaf(as_float(v[k], i), scale, offset), each = as_float(d[k], i);
                float g = each * as_float(factors[k], i);
                dweight[k][i] += each * y;
                dbias[k][i] += each;
                sums.x += g;
                sums.y += g * y;
            }
        sums = row_sums(sums, boards[which], slab, slabs, arrived + which, parity);
        float shift = mean ? sums.x * per_row : 0.0f, slope = sums.y * per_row;
        // dx = scale * (g - shift - y * slope), with what does not depend on the column worked out beforehand
        float slope_of_x = -scale * slope, constant = -shift - offset * slope;
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            float result[SIZE];
#pragma unroll
            for (int i = 0; i < SIZE; ++i) {
                float g = fmaf(as_float(d[k], i), as_float(factors[k], i), constant);
                result[i] = scale * fmaf(as_float(v[k], i), slope_of_x, g);
            }
            int p = first + k * threads;
            set(v[k], result);
            if (p < packs) store_pack(dx + r * w + p * SIZE, v[k]);  // guard
        }
    }
    float* part = parts + size_t(group) * (mean ? 2 : 1) * w;
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        int p = first + k * threads;
        if (p < packs)  // guard
#pragma unroll
            for (int i = 0; i < SIZE; i += 4) {
                const float *a = dweight[k] + i, *b = dbias[k] + i;
                *(float4*)(part + p * SIZE + i) = make_float4(a[0], a[1], a[2], a[3]);
                if (mean) *(float4*)(part + w + p * SIZE + i) = make_float4(b[0], b[1], b[2], b[3]);
            }
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// A grid has at most 2^31 - 1 blocks in x; a block does several rows where there are more.
static unsigned int blocks_of(size_t rows) { return rows < 2147483647 ? rows : 2147483647; }

// `groups` blocks of `threads`, or as many clusters of `slabs` blocks. With 0 slabs, two kernels: `groups` add up columns.
struct Plan {
    unsigned int groups, slabs, threads;
    int bytes;  // of shared memory
};

// Two kernels: some 4096 blocks add up the columns, at least 64 rows each.
static Plan planned_two_kernels(size_t h, int w) {
    unsigned int most = w < 32 * 4096 ? 4096 / cdiv(w, 32) : 1, groups = cdiv(h, 64);
    return {groups < 1 ? 1 : groups < most ? groups : most, 0, 0, 0};
}

// A launch of clusters. It holds a pointer to `cluster`.
static cudaLaunchConfig_t in_clusters(Plan plan, cudaLaunchAttribute& cluster, cudaStream_t stream) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {plan.slabs, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(plan.groups * plan.slabs), config.blockDim = dim3(plan.threads);
    config.dynamicSmemBytes = plan.bytes;
    config.stream = stream, config.attrs = &cluster, config.numAttrs = 1;
    return config;
}

// How many groups run at the same time: 0 if the GPU, or the part of it that is ours, cannot run one.
template <class Kernel>
static size_t resident(Kernel kernel, Plan plan) {
    int device = 0, sms = 0, count = 0;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.bytes);
    if (!error && plan.slabs > 1) {
        cudaLaunchAttribute cluster;
        cudaLaunchConfig_t config = in_clusters(plan, cluster, 0);
        error = cudaOccupancyMaxActiveClusters(&count, kernel, &config);
    } else if (!error) {
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, plan.threads, plan.bytes);
        count *= sms;
    }
    cudaGetLastError();  // a refusal is an answer here, and no error
    return error ? 0 : count;
}

// A row of up to 16 KB gets one block. A longer one gets a cluster, of blocks of up to 256 threads. If a cluster cannot
// have so many blocks, they have up to 512 threads. Without clusters, a block of 512 threads may still be enough.
template <class T, class Kernel>
static Plan planned(Kernel kernel, const T* dy, const T* x, const T* weight, size_t h, int w) {
    if (w % Pack<T>::SIZE || (size_t(dy) | size_t(x) | size_t(weight)) % 16) return planned_two_kernels(h, w);
    unsigned int wanted = w * sizeof(T) <= 16 * 1024 ? 1 : cdiv(w, COLUMNS * 256);
    for (unsigned int slabs : {wanted < MOST_SLABS ? wanted : MOST_SLABS, 1u}) {
        unsigned int threads = cdiv(w, slabs * COLUMNS * 32) * 32;
        int bytes = 2 * BOARD * sizeof(float2) + 2 * 2 * COLUMNS * sizeof(T) * threads;
        size_t groups = threads <= MOST_THREADS ? resident(kernel, {1, slabs, threads, bytes}) : 0;
        if (groups > 0) return {(unsigned int)(groups < h ? groups : h), slabs, threads, bytes};
    }
    return planned_two_kernels(h, w);
}

// What `scratch` must have room for: two sums per group and column.
static size_t floats_of(Plan plan, int w) { return size_t(plan.groups) * 2 * w; }

template <class... P, class... A>
static void launch_clusters(void (*kernel)(P...), Plan plan, cudaStream_t stream, A... args) {
    cudaLaunchAttribute cluster;
    cudaLaunchConfig_t config = in_clusters(plan, cluster, stream);
    cudaLaunchKernelEx(&config, kernel, args...);
}

static void launch(Plan plan, const float* dy, const float* x, const float* weight, const float* mean,
                   const float* rstd, float* dx, float* dweight, float* dbias, float* parts, size_t h, int w,
                   cudaStream_t stream) {
    unsigned int groups = plan.groups, columns = mean ? 2 * w : w;
    if (plan.slabs > 1)
        launch_clusters(norm_backward_kernel<float>, plan, stream, dy, x, weight, mean, rstd, dx, parts, h, w);
    else if (plan.slabs == 1)
        norm_backward_kernel<float>
            <<<groups, plan.threads, plan.bytes, stream>>>(dy, x, weight, mean, rstd, dx, parts, h, w);
    else {
        norm_backward_rows_kernel<float><<<blocks_of(h), 512, 0, stream>>>(dy, x, weight, mean, rstd, dx, h, w);
        norm_backward_columns_kernel<float><<<dim3(cdiv(w, 32), groups), dim3(32, 8), 0, stream>>>(
            dy, x, mean, rstd, parts, h, w, (h + groups - 1) / groups);
    }
    column_sums_kernel<float>
        <<<cdiv(columns, 32), dim3(32, 32), 0, stream>>>(parts, dweight, dbias, groups, w, columns);
}

size_t floats_of_norm_backward(const float* dy, const float* x, const float* weight, size_t h, int w) {
    return floats_of(planned(norm_backward_kernel<float>, dy, x, weight, h, w), w);
}

void launch_norm_backward(const float* dy, const float* x, const float* weight, const float* mean, const float* rstd,
                          float* dx, float* dweight, float* dbias, float* scratch, size_t h, int w,
                          cudaStream_t stream) {
    Plan plan = planned(norm_backward_kernel<float>, dy, x, weight, h, w);
    launch(plan, dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}

static void launch(Plan plan, const __half* dy, const __half* x, const __half* weight, const float* mean,
                   const float* rstd, __half* dx, __half* dweight, __half* dbias, float* parts, size_t h, int w,
                   cudaStream_t stream) {
    unsigned int groups = plan.groups, columns = mean ? 2 * w : w;
    if (plan.slabs > 1)
        launch_clusters(norm_backward_kernel<__half>, plan, stream, dy, x, weight, mean, rstd, dx, parts, h, w);
    else if (plan.slabs == 1)
        norm_backward_kernel<__half>
            <<<groups, plan.threads, plan.bytes, stream>>>(dy, x, weight, mean, rstd, dx, parts, h, w);
    else {
        norm_backward_rows_kernel<__half><<<blocks_of(h), 512, 0, stream>>>(dy, x, weight, mean, rstd, dx, h, w);
        norm_backward_columns_kernel<__half><<<dim3(cdiv(w, 32), groups), dim3(32, 8), 0, stream>>>(
            dy, x, mean, rstd, parts, h, w, (h + groups - 1) / groups);
    }
    column_sums_kernel<__half>
        <<<cdiv(columns, 32), dim3(32, 32), 0, stream>>>(parts, dweight, dbias, groups, w, columns);
}

size_t floats_of_norm_backward(const __half* dy, const __half* x, const __half* weight, size_t h, int w) {
    return floats_of(planned(norm_backward_kernel<__half>, dy, x, weight, h, w), w);
}

void launch_norm_backward(const __half* dy, const __half* x, const __half* weight, const float* mean, const float* rstd,
                          __half* dx, __half* dweight, __half* dbias, float* scratch, size_t h, int w,
                          cudaStream_t stream) {
    Plan plan = planned(norm_backward_kernel<__half>, dy, x, weight, h, w);
    launch(plan, dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}

static void launch(Plan plan, const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight,
                   const float* mean, const float* rstd, __nv_bfloat16* dx, __nv_bfloat16* dweight,
                   __nv_bfloat16* dbias, float* parts, size_t h, int w, cudaStream_t stream) {
    unsigned int groups = plan.groups, columns = mean ? 2 * w : w;
    if (plan.slabs > 1)
        launch_clusters(norm_backward_kernel<__nv_bfloat16>, plan, stream, dy, x, weight, mean, rstd, dx, parts, h, w);
    else if (plan.slabs == 1)
        norm_backward_kernel<__nv_bfloat16>
            <<<groups, plan.threads, plan.bytes, stream>>>(dy, x, weight, mean, rstd, dx, parts, h, w);
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
    return floats_of(planned(norm_backward_kernel<__nv_bfloat16>, dy, x, weight, h, w), w);
}

void launch_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* weight,
                          const float* mean, const float* rstd, __nv_bfloat16* dx, __nv_bfloat16* dweight,
                          __nv_bfloat16* dbias, float* scratch, size_t h, int w, cudaStream_t stream) {
    Plan plan = planned(norm_backward_kernel<__nv_bfloat16>, dy, x, weight, h, w);
    launch(plan, dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}

size_t floats_of_norm_backward_two_kernels(size_t h, int w) { return floats_of(planned_two_kernels(h, w), w); }

void launch_norm_backward_two_kernels(const float* dy, const float* x, const float* weight, const float* mean,
                                      const float* rstd, float* dx, float* dweight, float* dbias, float* scratch,
                                      size_t h, int w, cudaStream_t stream) {
    launch(planned_two_kernels(h, w), dy, x, weight, mean, rstd, dx, dweight, dbias, scratch, h, w, stream);
}
#endif
