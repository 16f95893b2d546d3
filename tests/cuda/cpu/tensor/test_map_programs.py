"""A source that makes its maps itself, with load_cuda: a transpose through swizzled tiles."""

import pytest
import torch

from tests.cuda.cpu.asynchronous.test_tiles import HELPERS
from utils import load_cuda
from utils.cuda.cpu.trace.problems import KernelProblem

pytestmark = pytest.mark.usefixtures("on_cpu")

# Tiles of 32 x 32 floats, two of them in flight. Rows have 128 bytes: with the swizzle, a column has no bank conflict.
SOURCE = (
    "#include <torch/types.h>\n#include <cuda.h>\n"
    + HELPERS.replace("at(", "place(")  # `at` is a namespace of torch's
    + r"""
__device__ float& of(float* tile, int row, int column) {  // where the swizzle puts it
    return tile[row * 32 + ((column / 4 ^ row % 8) * 4 + column % 4)];
}
__global__ void transpose(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, int tiles) {
    extern __shared__ __align__(1024) float memory[];
    float *in[2] = {memory, memory + 1024}, *out = memory + 2048;
    __shared__ mbarrier full[2];
    auto load = [&](int tile) {
        expect(&full[tile % 2], 4096);
        const int top = 32 * blockIdx.x;
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" :: "r"(place(in[tile % 2])), "l"(&x), "r"(32 * tile), "r"(top),
                     "r"(place(&full[tile % 2])) : "memory");
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) init(&full[i], 1);
        fence_init();
        for (int i = 0; i < 2 && i < tiles; i++) load(i);
    }
    __syncthreads();
    for (int tile = 0; tile < tiles; tile++) {
        wait(&full[tile % 2], tile / 2 % 2);
        for (int row = 0; row < 32; row++) of(out, threadIdx.x, row) = of(in[tile % 2], row, threadIdx.x);
        fence_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                         :: "l"(&y), "r"(32 * (int)blockIdx.x), "r"(32 * tile), "r"(place(out)) : "memory");
            commit();
            if (tile + 2 < tiles) load(tile + 2);
            wait_read<0>();
        }
        __syncthreads();
    }
}

static CUtensorMap map_of(void* data, cuuint64_t columns, cuuint64_t rows, cuuint64_t row_bytes) {
    static decltype(&cuTensorMapEncodeTiled) encode = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult found;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
        return (decltype(&cuTensorMapEncodeTiled))function;
    }();
    CUtensorMap map;
    cuuint64_t sizes[] = {columns, rows}, strides[] = {row_bytes};
    cuuint32_t box[] = {32, 32}, steps[] = {1, 1};
    CUresult made = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, sizes, strides, box, steps,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(made == CUDA_SUCCESS, "no map: ", (int)made);
    return map;
}

// `more` rows than the tensor has are in its map: a mistake.
torch::Tensor transposed(torch::Tensor x, int64_t more) {
    const int rows = x.size(0), columns = x.size(1);
    torch::Tensor y = torch::empty({columns, rows}, x.options());
    CUtensorMap from = map_of(x.data_ptr<float>(), columns, rows + more, 4 * columns);
    CUtensorMap to = map_of(y.data_ptr<float>(), rows, columns, 4 * rows);
    transpose<<<(rows + 31) / 32, 32, 3 * 4096>>>(from, to, (columns + 31) / 32);
    return y;
}
"""
)


def built(**how):
    return load_cuda(SOURCE, "torch::Tensor transposed(torch::Tensor x, int64_t more);", ["transposed"], **how)


def test_a_transpose_through_swizzled_tiles():
    module = built()
    for shape in ((32, 32), (100, 68), (4, 260), (132, 4)):
        x = torch.randn(shape)
        assert torch.equal(module.transposed(x, 0), x.t())
    with pytest.raises(RuntimeError, match="no map: 1"):
        module.transposed(torch.randn(8, 30), 0)  # its rows do not have a multiple of 16 bytes


def test_its_trace_names_the_tensors_of_the_maps():
    module, x = built(trace=True), torch.randn(40, 68)
    assert torch.equal(module.transposed(x, 0), x.t())
    with pytest.raises(KernelProblem) as raised:
        module.transposed(x, 2)
    (problem, *_) = raised.value.problems
    assert problem.kind == "out_of_bounds" and problem.thread == (0, 0, 0) and problem.block == (1, 0, 0)
    assert "reads x[2720] to x[2723], but x has 2720 elements" in problem.message
