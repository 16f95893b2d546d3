"""Every form of the instructions through a tensor map that nvcc takes for sm_90a, and what is refused with its line."""

import pytest
import torch

from tests.cuda.cpu.asynchronous.test_tiles import HELPERS
from utils import compile_kernel, tensor_map
from utils.cuda.cpu.translate import NeedsGPU, TranslationError, translate

pytestmark = pytest.mark.usefixtures("on_cpu")

LOADS = [
    f"cp.async.bulk.tensor.2d.{to}.global{tile}.mbarrier::complete_tx::bytes{more}"
    for to in ("shared::cluster", "shared::cta")
    for tile in ("", ".tile")
    for more in ("", ".L2::cache_hint", ".multicast::cluster", ".multicast::cluster.L2::cache_hint")
    if to == "shared::cluster" or "multicast" not in more
]
STORES = [
    f"cp.async.bulk.tensor.2d.global.shared::cta{tile}.bulk_group{hint}" for tile in ("", ".tile") for hint in ("", 1)
]
STORES = [name.removesuffix("1") + ".L2::cache_hint" * name.endswith("1") for name in STORES]
ADDS = [name.replace("cp.async", "cp.reduce.async").replace("shared::cta", "shared::cta.add") for name in STORES]
PREFETCHES = [f"cp.async.bulk.prefetch.tensor.2d.L2.global{tile}" for tile in ("", ".tile", ".L2::cache_hint")]


def _load(name):
    mask, hint = ", %5" * ("multicast" in name), ", %6" * ("hint" in name)
    given = '"r"(at(tile)), "l"(&x), "r"(0), "r"(-1), "r"(at(&full)), "h"((short)1), "l"(policy)'
    copy = f'asm volatile("{name} [%0], [%1, {{%2, %3}}], [%4]{mask}{hint};" :: {given});'
    return f"expect(&full, sizeof tile);\n        {copy}\n        wait(&full, phase++ % 2);"


def _store(name):
    hint = ", %4" * ("hint" in name)
    return (
        f'asm volatile("{name} [%1, {{%2, %3}}], [%0]{hint};" :: "r"(at(tile)), "l"(&y), "r"(0), "r"(0), "l"(policy));'
    )


def _prefetch(name):
    hint = ", %2" * ("hint" in name)
    return f'asm volatile("{name} [%0, {{%1, -1}}]{hint};" :: "l"(&x), "r"(0), "l"(policy));'


SOURCE = f"""{HELPERS}
#include <cuda.h>
__global__ void forms(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y) {{
    __shared__ alignas(128) float tile[4][8];
    __shared__ mbarrier full;
    if (threadIdx.x == 0) {{
        unsigned long long policy;
        int phase = 0;
        asm volatile("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
        init(&full, 1);
        fence_init();
        asm volatile("prefetch.tensormap [%0];\\nprefetch.param.tensormap [%0];" :: "l"(&x) : "memory");
        {" ".join(map(_prefetch, PREFETCHES))}
        {" ".join(map(_load, LOADS))}
        {" ".join(map(_store, STORES))}
        commit();
        wait_done<0>();
        {" ".join(map(_store, ADDS))}
        commit();
        wait_done<0>();
    }}
}}
"""


def test_every_form():
    x, y = torch.randn(9, 8), torch.zeros(4, 8)
    compile_kernel(SOURCE.replace("prefetch.param.tensormap [%0];", ""), "forms")[1, 32](
        tensor_map(x, (8, 4)), tensor_map(y, (8, 4))
    )
    assert torch.equal(y[1:], x[:3] * (1 + len(ADDS))) and not y[0].any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes", "on a GPU only"),
        ("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group", "on a GPU only"),
        ("cp.async.bulk.prefetch.tensor.4d.L2.global.im2col", "on a GPU only"),
        ("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.im2col_no_offs.bulk_group", "on a GPU only"),
        ("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes", "on an sm_100 only"),
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::2",
            "on an sm_100 only",
        ),
        ("tensormap.replace.tile.rank.global.b1024.b32", "needs a GPU"),
    ],
)
def test_what_only_a_gpu_can_do_is_refused(name, message):
    with pytest.raises(NeedsGPU, match=message) as raised:
        translate(f'__global__ void k(int* p) {{\n    asm volatile("{name} [%0], [%0];" :: "l"(p));\n}}')
    assert raised.value.line == 2


@pytest.mark.parametrize(
    "operands",
    ["[%0], [%1, {%2}], [%0]", "[%0], [%1, {%2, %2, %2}], [%0]", "[%0], [%1], [%0]", "[%0], [%1, %2, %2], [%0]"],
)
def test_coordinates_are_as_many_as_dimensions(operands):
    name = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    given = '"r"(0), "l"(p), "r"(1)'
    with pytest.raises(TranslationError, match=r"takes the tensor map and 2 coordinates in brackets"):
        translate(f'__global__ void k(int* p) {{ asm volatile("{name} {operands};" :: {given}); }}')


FUNCTIONS = r"""
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace cde = cuda::device::experimental;
namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;
// y = x + 1 by the functions of cuda/barrier, then y += x + 1 by those of cuda/ptx.
__global__ void twice(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y) {
    __shared__ alignas(128) float tile[4][8];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full;
    __shared__ uint64_t second;
    if (threadIdx.x == 0) {
        init(&full, blockDim.x);
        ptx::mbarrier_init(&second, 1);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &x, 0, -1, full);
        token = cuda::device::barrier_arrive_tx(full, 1, sizeof tile);
    } else {
        token = full.arrive();
    }
    full.wait(std::move(token));
    tile[threadIdx.x / 8][threadIdx.x % 8] += 1;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    const int32_t at[2] = {0, 0}, above[2] = {0, -1};
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&y, 0, 0, &tile);
        cde::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &second, sizeof tile);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &tile, &x, above, &second);
    }
    while (!ptx::mbarrier_try_wait_parity(&second, 0)) {}
    tile[threadIdx.x / 8][threadIdx.x % 8] += 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &y, at, &tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}
"""


def test_the_functions_of_cuda_barrier_and_cuda_ptx():
    x, y = torch.randn(9, 8), torch.zeros(4, 8)
    kernel = compile_kernel(FUNCTIONS, "twice")
    kernel[1, 32](tensor_map(x, (8, 4)), tensor_map(y, (8, 4)))
    expected = torch.zeros(4, 8)
    expected[1:] = x[:3]
    torch.testing.assert_close(y, 2 * (expected + 1))
    trace = kernel.trace[1, 32](tensor_map(x, (8, 4)), tensor_map(y, (8, 4)))
    assert trace.ok, trace.problems
