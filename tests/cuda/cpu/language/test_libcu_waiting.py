"""Atomics of pointers and of small types, barriers with a completion, and scans that also change an atomic."""

import pytest
import torch

from tests.cuda.cpu.language.launching import run
from utils import compile_kernel

SOURCE = r"""
#pragma nv_diag_suppress static_var_with_dynamic_init
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
#include <cuda/pipeline>
#include <cuda/std/barrier>
#include <cuda/std/latch>
#include <cuda/std/semaphore>
namespace cg = cooperative_groups;
namespace cs = cuda::std;
static_assert(sizeof(cuda::atomic<char>) == 4 && alignof(cuda::atomic<short>) == 4 && sizeof(cs::atomic_flag) == 4);
static_assert(sizeof(cuda::binary_semaphore<cuda::thread_scope_block>) == 4 && sizeof(cuda::atomic<double>) == 8);

__global__ void places(int* x) {
    __shared__ cuda::atomic<int*, cuda::thread_scope_block> next;
    __shared__ cuda::atomic<unsigned char, cuda::thread_scope_block> small;
    if (threadIdx.x == 0) next = x, small = 250;
    __syncthreads();
    *next.fetch_add(1) = threadIdx.x;
    small++;
    __syncthreads();
    if (threadIdx.x == 0) {
        x[64] = next - x, next -= 2, next++, x[65] = --next - x, x[66] = small;
        cs::atomic_flag flag{};
        x[67] = flag.test_and_set() + 2 * flag.test_and_set();
        cuda::atomic_signal_fence(cuda::memory_order_acquire);
        cuda::counting_semaphore<cuda::thread_scope_block, 4> some(1);
        const auto time = cs::chrono::microseconds(1);
        x[68] = some.try_acquire_for(time) + 2 * some.try_acquire_for(time);
    }
}

struct Swap {
    int* phases;
    __device__ void operator()() noexcept { ++*phases; }
};
__global__ void stages(int* x) {
    using Barrier = cuda::barrier<cuda::thread_scope_block, Swap>;
    __shared__ alignas(Barrier) char room[sizeof(Barrier)];
    __shared__ int phases;
    auto& all = *reinterpret_cast<Barrier*>(room);
    if (threadIdx.x == 0) phases = 0, init(&all, blockDim.x, Swap{&phases});
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        all.arrive_and_wait();
        x[i * blockDim.x + threadIdx.x] = phases;
        all.wait(all.arrive());
    }
}

__global__ void copied(const int* from, int* x) {
    __shared__ cuda::barrier<cuda::thread_scope_block> there;
    __shared__ int part[64];
    if (threadIdx.x == 0) init(&there, blockDim.x);
    __syncthreads();
    auto pipe = cuda::make_pipeline();
    cuda::memcpy_async(part + threadIdx.x, from + threadIdx.x, sizeof(int), pipe);
    cuda::pipeline_producer_commit(pipe, there);
    there.arrive_and_wait();
    x[threadIdx.x] = part[63 - threadIdx.x];
}

__global__ void scans(int* x, int* sums) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(sums[0]);
    int before = cg::exclusive_scan_update(warp, sum, 2);
    x[before / 2] += 1;
    auto& other = *reinterpret_cast<cuda::atomic<int, cuda::thread_scope_device>*>(sums + 1);
    x[cg::inclusive_scan_update(warp, other, 1, cg::plus<int>()) - 1] += 10;
    cg::thread_group block = cg::this_thread_block(), four = cg::tiled_partition(block, 4);
    cg::thread_group two = cg::tiled_partition(four, 2);
    if (threadIdx.x == 39) sums[2] = 100 * four.size() + 10 * four.thread_rank() + two.size() + two.thread_rank();
}
"""


def results(backend, name, threads, *args):
    return run(backend, SOURCE, name, 1, threads, *args)[-1].tolist()


def test_atomics_of_pointers_and_of_small_types(backend):
    x = results(backend, "places", 64, torch.zeros(70, dtype=torch.int32))
    assert sorted(x[:64]) == list(range(64)) and x[64:69] == [64, 62, (250 + 64) % 256, 2, 1]


def test_a_barrier_calls_its_completion_once_a_phase(backend):
    x = torch.zeros(3 * 64, dtype=torch.int32)
    assert results(backend, "stages", 64, x) == [1] * 64 + [3] * 64 + [5] * 64


@pytest.mark.usefixtures("on_cpu")
def test_what_was_written_before_a_completion_is_there_behind_it():
    trace = compile_kernel(SOURCE, "stages").trace[1, 64](torch.zeros(3 * 64, dtype=torch.int32))
    assert trace.ok, trace


def test_a_barrier_waits_for_the_copies_of_a_pipeline(backend):
    from_ = torch.arange(64, dtype=torch.int32)
    assert results(backend, "copied", 64, from_, torch.zeros(64, dtype=torch.int32)) == from_.flip(0).tolist()


def test_scans_that_change_an_atomic_and_tiles_of_any_group(backend):
    x, sums = run(
        backend, SOURCE, "scans", 1, 64, torch.zeros(64, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    )
    assert x.tolist() == [11] * 64 and sums.tolist() == [128, 64, 400 + 30 + 2 + 1]


CLUSTERS = r"""
#include <cooperative_groups.h>
__global__ void __cluster_dims__(2, 1, 1) places(int* x) {
    auto grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0)
        x[blockIdx.x] = 1000 * grid.num_clusters() + 100 * grid.dim_clusters().x + 10 * grid.cluster_rank() +
                        grid.cluster_index().x;
}
"""


def test_the_clusters_of_a_grid(backend):
    if backend.type == "cuda" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("this GPU has no clusters")
    (x,) = run(backend, CLUSTERS, "places", 6, 32, torch.zeros(6, dtype=torch.int32))
    assert x.tolist() == [3300, 3300, 3311, 3311, 3322, 3322]


WIDE = """
struct alignas(16) Pair { long long count, sum; };
__global__ void adds(Pair* all, int rounds) {  // each thread adds 1 and its number at once
    for (int r = 0; r < rounds; r++) {
        Pair found = *all, old;
        do {
            old = found;
            Pair next = {old.count + 1, old.sum + threadIdx.x};
            found = atomicCAS(all, old, next);
        } while (found.count != old.count || found.sum != old.sum);
    }
}
__global__ void hands_on(float4* here, float4* seen) {
    seen[threadIdx.x] = atomicExch(here, make_float4(threadIdx.x, 1, 2, 3));
}
typedef unsigned __int128 wide;
__global__ void number(wide* x) { atomicCAS_block(x, wide(0), wide(7) << 64 | 5); }
"""


def test_atomics_of_16_bytes(backend):
    if backend.type == "cuda" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("this GPU has none")
    (pair,) = run(backend, WIDE, "adds", 4, 32, torch.zeros(2, dtype=torch.int64), 20)
    assert pair.tolist() == [4 * 32 * 20, 4 * 20 * sum(range(32))]
    here, seen = run(backend, WIDE, "hands_on", 1, 64, torch.full((4,), -1.0), torch.zeros(64, 4))
    assert sorted([here[0].item(), *seen[:, 0].tolist()]) == [-1, *range(64)]
    assert here[1:].tolist() == [1, 2, 3] and (seen.sum(1) - seen[:, 0]).unique().tolist() == [-3, 6]
    (number,) = run(backend, WIDE, "number", 1, 3, torch.zeros(2, dtype=torch.int64))
    assert number.tolist() == [5, 7]
