"""cuTensorMapEncodeTiled refuses what the driver refuses, and is found as a source finds it."""

from functools import partial

import pytest

from tests.cuda.cpu.tensor.encoding import encoded
from utils import compile_kernel, load_cuda
from utils.cuda.cpu.missing import explained_missing


@pytest.fixture(scope="module")
def encode():
    library = compile_kernel("__global__ void k(int* x) { x[0] = 1; }", "k")._module.library
    return partial(encoded, library)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"to": 64},
        {"address": 16},
        {"sizes": [2**32, 2**32, 2**32], "strides": [2**33, 2**40 - 16]},
        {"box": [256, 256, 256]},
        {"box": [8, 1, 1]},
        {"steps": [8, 8, 8]},
        *({"swizzle": swizzle, "box": [8 << swizzle, 8, 2]} for swizzle in (1, 2, 3)),
        {"swizzle": 3, "box": [8, 8, 2]},
        {"interleave": 1, "swizzle": 3, "box": [7, 8, 2]},
        {"interleave": 2, "swizzle": 1, "address": 64},
        {"promotion": 3, "fill": 1},
        *({"type": kind, "box": [16, 8, 2]} for kind in range(13)),
        {"type": 7, "fill": 1},
        {"sizes": [1], "box": [8], "steps": [1], "strides": []},
        {"sizes": [8] * 5, "box": [8] * 5, "steps": [1] * 5, "strides": [16, 128, 1024, 8192]},
    ],
)
def test_what_the_driver_takes(encode, changes):
    answer, made = encode(**changes)
    assert answer == 0 and any(made)


@pytest.mark.parametrize(
    "changes",
    [
        {"to": 16},
        {"to": 32},
        {"address": 8},
        {"address": 16, "interleave": 2, "swizzle": 1},
        {"type": 13},
        {"type": 14},
        {"type": 15},
        {"type": 16},
        {"rank": 0},
        {"rank": 6},
        {"sizes": [64, 40], "interleave": 1},
        {"sizes": [0, 40, 3]},
        {"sizes": [64, 2**32 + 1, 3]},
        {"strides": [120, 5120]},
        {"strides": [128, 2**40]},
        {"strides": [128, 5136], "interleave": 2, "swizzle": 1},
        {"box": [32, 0, 2]},
        {"box": [32, 257, 2]},
        {"box": [264, 8, 2]},
        {"box": [4, 8, 2]},
        {"type": 0, "box": [24, 8, 2]},
        {"type": 8, "box": [1, 8, 2]},
        {"steps": [1, 0, 1]},
        {"steps": [1, 9, 1]},
        {"swizzle": 1, "box": [24, 8, 2]},
        {"swizzle": 2, "box": [40, 8, 2]},
        {"swizzle": 3, "box": [72, 8, 2]},
        {"swizzle": 4},
        {"swizzle": 7},
        {"interleave": 2, "swizzle": 0},
        {"interleave": 3},
        {"promotion": 4},
        {"fill": 2},
        {"fill": 1, "type": 3, "box": [16, 8, 2]},
        {"fill": 1, "type": 1},
    ],
)
def test_what_the_driver_refuses(encode, changes):
    answer, made = encode(**changes)
    assert answer == 1 and not any(made)  # CUDA_ERROR_INVALID_VALUE


HOST = r"""
#include <cuda.h>
#include <cudaTypedefs.h>
static int found(const char* name, void** function, unsigned int version) {
    cudaDriverEntryPointQueryResult result;
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableDefault, &result);
    return error == cudaSuccess ? (int)result : -(int)error;
}
at::Tensor answers() {
    at::Tensor out = torch::zeros({12}, torch::kInt32);
    int* answer = out.data_ptr<int>();
    void* function = nullptr;
    answer[0] = found("cuTensorMapEncodeTiled", &function, 12000);
    auto encode = (PFN_cuTensorMapEncodeTiled_v12000)function;
    alignas(64) CUtensorMap map{};
    cuuint64_t sizes[2] = {64, 8}, strides[1] = {128};
    cuuint32_t box[2] = {32, 4}, steps[2] = {1, 1};
    auto made = [&](PFN_cuTensorMapEncodeTiled f, void* address) {
        return (int)f(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, address, sizes, strides, box, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    answer[1] = encode ? made(encode, (void*)4096) : -1;
    answer[2] = made(&cuTensorMapEncodeTiled, (void*)4096);
    answer[3] = made(&cuTensorMapEncodeTiled, (void*)4097);
    answer[4] = found("cuTensorMapEncodeTiled", &function, 11080);
    answer[5] = function == nullptr;
    answer[6] = found("cuTensorMapEncodeIm2col", &function, 12000);
    answer[7] = found("", &function, 12000);
    made(&cuTensorMapEncodeTiled, (void*)4096);
    answer[8] = (int)cuTensorMapReplaceAddress(&map, (void*)8192);
    answer[9] = (int)cuTensorMapReplaceAddress(&map, (void*)8193);
    const char* text = "";
    CUresult error = cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text);
    answer[10] = error == CUDA_SUCCESS && std::string(text) == "invalid argument";
    cudaError_t older = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault);
    answer[11] = older == cudaSuccess && function;
    cudaGetLastError();  // of the name that is empty
    return out;
}
"""


def test_a_source_finds_the_function_by_its_name_or_links_it():
    module = load_cuda("#include <torch/types.h>\n" + HOST, "at::Tensor answers();", ["answers"])
    assert module.answers().tolist() == [0, 0, 0, 1, 2, 1, 1, -1, 0, 1, 1, 1]


def test_im2col_is_refused():
    log = "cuda_src:3:38: error: 'cuTensorMapEncodeIm2col' was not declared in this scope"
    assert explained_missing(log) == (
        "cuda_src:3:38: error: `cuTensorMapEncodeIm2col`: the CPU engine does not have tensor maps that copy pixels by "
        "im2col: copy tiles, with cuTensorMapEncodeTiled"
    )
