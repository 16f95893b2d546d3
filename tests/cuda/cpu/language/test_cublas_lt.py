"""cuBLASLt: products that are described first, compared with torch in double precision."""

import pytest
import torch

from utils import load_cuda

CPP = r"""
std::vector<int64_t> product(at::Tensor a, at::Tensor b, at::Tensor c, at::Tensor d, at::Tensor bias, at::Tensor aux,
                             std::vector<int64_t> s, double alpha, double beta);
std::vector<int64_t> refused(at::Tensor x);
"""
CUDA = (
    "#include <torch/types.h>\n#include <cublasLt.h>\n#include <vector>\n"
    + CPP
    + r"""
static cudaDataType type_of(at::Tensor x) {
    return x.scalar_type() == torch::kFloat16    ? CUDA_R_16F
           : x.scalar_type() == torch::kBFloat16 ? CUDA_R_16BF
           : x.scalar_type() == torch::kFloat64  ? CUDA_R_64F
                                                 : CUDA_R_32F;
}
template <class T> static cublasStatus_t set(cublasLtMatmulDesc_t p, cublasLtMatmulDescAttributes_t which, T value) {
    return cublasLtMatmulDescSetAttribute(p, which, &value, sizeof value);
}
template <class T> static cublasStatus_t set(cublasLtMatrixLayout_t p, cublasLtMatrixLayoutAttribute_t which, T value) {
    return cublasLtMatrixLayoutSetAttribute(p, which, &value, sizeof value);
}

// s: the two operations, m, n, k, the epilogue, the order of all matrices. Without gaps; a batch for each a[i].
std::vector<int64_t> product(at::Tensor a, at::Tensor b, at::Tensor c, at::Tensor d, at::Tensor bias, at::Tensor aux,
                             std::vector<int64_t> s, double alpha, double beta) {
    cublasLtHandle_t h;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t layouts[4];
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    auto op_a = cublasOperation_t(s[0]), op_b = cublasOperation_t(s[1]);
    uint64_t m = s[2], n = s[3], k = s[4];
    bool wide = type_of(a) == CUDA_R_64F;
    cublasLtCreate(&h);
    cublasLtMatmulDescCreate(&how, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F);
    set(how, CUBLASLT_MATMUL_DESC_TRANSA, op_a), set(how, CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    set(how, CUBLASLT_MATMUL_DESC_EPILOGUE, cublasLtEpilogue_t(s[5]));
    set(how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data_ptr());
    set(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data_ptr());
    set(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(m));
    set(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t(m * n));
    uint64_t rows[] = {op_a ? k : m, op_b ? n : k, m, m}, columns[] = {op_a ? m : k, op_b ? k : n, n, n};
    at::Tensor all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        cublasLtMatrixLayoutCreate(&layouts[i], type_of(all[i]), rows[i], columns[i], s[6] ? columns[i] : rows[i]);
        set(layouts[i], CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t(s[6]));
        set(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(a.size(0)));
        set(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t(rows[i] * columns[i]));
    }
    cublasLtMatmulPreferenceCreate(&preference);
    size_t workspace = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8);
    int count = -1;
    int heuristic = cublasLtMatmulAlgoGetHeuristic(h, how, layouts[0], layouts[1], layouts[2], layouts[3], preference,
                                                   1, &found, &count);
    float by = alpha, keep = beta;
    int status = cublasLtMatmul(h, how, wide ? (void*)&alpha : &by, a.data_ptr(), layouts[0], b.data_ptr(), layouts[1],
                                wide ? (void*)&beta : &keep, c.data_ptr(), layouts[2], d.data_ptr(), layouts[3],
                                &found.algo, nullptr, 0, 0);
    for (auto layout : layouts) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference), cublasLtMatmulDescDestroy(how), cublasLtDestroy(h);
    return {status, heuristic, count};
}
std::vector<int64_t> refused(at::Tensor x) {
    auto* p = x.data_ptr();
    float one = 1;
    cublasLtHandle_t h;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t two, three;
    cublasLtCreate(&h), cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&two, CUDA_R_32F, 2, 2, 2), cublasLtMatrixLayoutCreate(&three, CUDA_R_32F, 3, 2, 3);
    auto said = [&](cublasLtMatrixLayout_t a) -> int64_t {
        return cublasLtMatmul(h, how, &one, p, a, p, two, &one, p, two, p, two, nullptr, nullptr, 0, 0);
    };
    std::vector<int64_t> all = {said(two), said(three), set(how, CUBLASLT_MATMUL_DESC_TRANSA, 'x')};
    set(how, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    all.push_back(said(two));
    set(how, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    all.push_back(said(two));
    return all;
}
"""
)


@pytest.fixture(scope="module")
def cublas():
    if torch.cuda.is_available():
        pytest.skip("about the CPU engine's own cuBLASLt")
    return load_cuda(CUDA, CPP, ["product", "refused"])


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


DEFAULT, RELU, BIAS, GELU, AUX, DGELU = 1, 2, 4, 32, 128, 64 | 128


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("epilogue", [DEFAULT, RELU, BIAS, RELU | BIAS, GELU, GELU | BIAS | AUX, DGELU])
@pytest.mark.parametrize(("op_a", "op_b", "by_rows"), [(0, 0, 0), (1, 0, 0), (0, 1, 1)])
def test_products_and_what_is_done_to_their_result(cublas, dtype, epilogue, op_a, op_b, by_rows):
    m, n, k, alpha, beta = 17, 23, 9, 0.5, 2.0
    a, b = (torch.randn(2, *size).to(dtype) for size in [(m, k), (k, n)])
    c, bias, before = torch.randn(2, m, n).to(dtype), torch.randn(m).to(dtype), torch.randn(2, m, n).to(dtype)

    def memory(matrices, op=0):
        """By columns, the memory of a matrix is that of its transpose by rows."""
        matrices = matrices.mT if op else matrices
        return (matrices if by_rows else matrices.mT).contiguous()

    d, aux = torch.full((2, m * n), float("nan")).to(dtype), before.mT.contiguous()
    said = cublas.product(
        memory(a, op_a), memory(b, op_b), memory(c), d, bias, aux, [op_a, op_b, m, n, k, epilogue, by_rows], alpha, beta
    )
    assert said == [0, 0, 1]
    expected = alpha * (a.double() @ b.double()) + beta * c.double()
    if epilogue & BIAS:
        expected = expected + bias.double()[:, None]
    if epilogue & GELU and epilogue & AUX:
        torch.testing.assert_close(aux.mT, expected.to(dtype))
    if epilogue & RELU:
        expected = expected.relu()
    if epilogue & GELU:
        expected = gelu(expected)
    if epilogue == DGELU:
        x = before.double().requires_grad_()
        expected = expected * torch.autograd.grad(gelu(x).sum(), x)[0]
    got = d.view(2, m, n) if by_rows else d.view(2, n, m).mT
    torch.testing.assert_close(got, expected.to(dtype))


def test_what_is_refused(cublas):
    assert cublas.refused(torch.zeros(100)) == [0, 7, 7, 7, 15]
