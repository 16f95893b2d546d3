"""cuBLAS, as a source's host code calls it: compared with torch in double precision."""

import itertools

import pytest
import torch

from utils import load_cuda

CPP = r"""
int64_t gemm(at::Tensor a, at::Tensor b, at::Tensor c, std::vector<int64_t> s, double alpha, double beta);
int64_t batched(at::Tensor a, at::Tensor b, at::Tensor c, int64_t n, bool pointers);
std::vector<double> vectors(at::Tensor x, at::Tensor y, int64_t n, int64_t incx, int64_t incy);
void matrices(at::Tensor a, at::Tensor b, at::Tensor x, at::Tensor y, at::Tensor gemv, at::Tensor ger, at::Tensor geam);
std::vector<int64_t> refused(at::Tensor x);
double captured(at::Tensor a);
"""
CUDA = (
    "#include <torch/types.h>\n#include <cublas_v2.h>\n#include <string>\n#include <vector>\n"
    + CPP
    + r"""
static cublasHandle_t handle() {
    static cublasHandle_t one = [] { cublasHandle_t h; cublasCreate(&h); return h; }();
    return one;
}
template <class T> static T* at_(at::Tensor x) { return (T*)x.data_ptr(); }

// s: the two operations, m, n, k, lda, ldb, ldc
int64_t gemm(at::Tensor a, at::Tensor b, at::Tensor c, std::vector<int64_t> s, double alpha, double beta) {
    auto op_a = cublasOperation_t(s[0]), op_b = cublasOperation_t(s[1]);
    int m = s[2], n = s[3], k = s[4], lda = s[5], ldb = s[6], ldc = s[7];
    if (a.scalar_type() == torch::kFloat32) {
        float by = alpha, keep = beta;
        return cublasSgemm(handle(), op_a, op_b, m, n, k, &by, at_<float>(a), lda, at_<float>(b), ldb, &keep,
                           at_<float>(c), ldc);
    }
    if (a.scalar_type() == torch::kFloat64)
        return cublasDgemm(handle(), op_a, op_b, m, n, k, &alpha, at_<double>(a), lda, at_<double>(b), ldb, &beta,
                           at_<double>(c), ldc);
    if (a.scalar_type() == torch::kComplexFloat) {
        cuComplex by = make_cuComplex(alpha, 0), keep = make_cuComplex(beta, 0);
        return cublasCgemm(handle(), op_a, op_b, m, n, k, &by, at_<cuComplex>(a), lda, at_<cuComplex>(b), ldb, &keep,
                           at_<cuComplex>(c), ldc);
    }
    if (a.scalar_type() == torch::kComplexDouble) {
        cuDoubleComplex by = make_cuDoubleComplex(alpha, 0), keep = make_cuDoubleComplex(beta, 0);
        return cublasZgemm(handle(), op_a, op_b, m, n, k, &by, at_<cuDoubleComplex>(a), lda, at_<cuDoubleComplex>(b),
                           ldb, &keep, at_<cuDoubleComplex>(c), ldc);
    }
    float by = alpha, keep = beta;
    auto type = a.scalar_type() == torch::kFloat16 ? CUDA_R_16F : CUDA_R_16BF;
    auto out = c.scalar_type() == torch::kFloat32 ? CUDA_R_32F : type;
    return cublasGemmEx(handle(), op_a, op_b, m, n, k, &by, a.data_ptr(), type, lda, b.data_ptr(), type, ldb, &keep,
                        c.data_ptr(), out, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
int64_t batched(at::Tensor a, at::Tensor b, at::Tensor c, int64_t n, bool pointers) {
    int count = a.size(0), size = n;
    float one = 1, zero = 0, *x = at_<float>(a), *y = at_<float>(b), *z = at_<float>(c);
    if (!pointers)
        return cublasSgemmStridedBatched(handle(), CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, x, n, n * n, y, n, n * n,
                                         &zero, z, n, n * n, count);
    std::vector<float*> px, py, pz;
    for (int i = 0, at = 0; i < count; i++, at += n * n)
        px.push_back(x + at), py.push_back(y + at), pz.push_back(z + at);
    return cublasSgemmBatched(handle(), CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, px.data(), size, py.data(),
                              size, &zero, pz.data(), size, count);
}
std::vector<double> vectors(at::Tensor x, at::Tensor y, int64_t n, int64_t incx, int64_t incy) {
    auto h = handle();
    auto *a = at_<float>(x), *b = at_<float>(y);
    float dot = -1, norm = -1, sum = -1, by = 0.5f;
    int largest = -1, smallest = -1;
    cublasSdot(h, n, a, incx, b, incy, &dot);
    cublasSnrm2(h, n, a, incx, &norm);
    cublasSasum(h, n, a, incx, &sum);
    cublasIsamax(h, n, a, incx, &largest);
    cublasIsamin(h, n, a, incx, &smallest);
    cublasSaxpy(h, n, &by, a, incx, b, incy);
    cublasSscal(h, n, &by, a, incx);
    cublasSswap(h, n, a, incx, b, incy);
    return {dot, norm, sum, double(largest), double(smallest)};
}
void matrices(at::Tensor a, at::Tensor b, at::Tensor x, at::Tensor y, at::Tensor gemv, at::Tensor ger,
              at::Tensor geam) {
    int m = a.size(1), n = a.size(0);  // by columns
    double two = 2, three = 3;
    cublasDgemv(handle(), CUBLAS_OP_N, m, n, &two, at_<double>(a), m, at_<double>(x), 1, &three, at_<double>(gemv), 1);
    cublasDger(handle(), m, n, &two, at_<double>(y), 1, at_<double>(x), 1, at_<double>(ger), m);
    cublasDgeam(handle(), CUBLAS_OP_N, CUBLAS_OP_T, m, n, &two, at_<double>(a), m, &three, at_<double>(b), n,
                at_<double>(geam), m);
}
std::vector<int64_t> refused(at::Tensor x) {
    auto* p = at_<float>(x);
    float one = 1;
    auto said = [&](cublasHandle_t h, int m, int lda, const float* alpha) -> int64_t {
        return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, 2, 2, alpha, p, lda, p, 2, &one, p, m > 1 ? m : 1);
    };
    std::vector<int64_t> all = {said(nullptr, 2, 2, &one), said(handle(), -1, 2, &one), said(handle(), 2, 1, &one),
                                said(handle(), 2, 2, nullptr), cublasGetStatusString(CUBLAS_STATUS_INVALID_VALUE)[0]};
    all.push_back(cublasGemmEx(handle(), CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, p, CUDA_R_32F, 2, p, CUDA_R_16F, 2,
                               &one, p, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return all;
}
// With its scalars on the device, and within a graph: alpha is what it is when the graph runs.
double captured(at::Tensor a) {
    double *x = at_<double>(a), *alpha, zero = 0, *beta;
    cudaMalloc(&alpha, 8), cudaMalloc(&beta, 8);
    cudaMemcpy(beta, &zero, 8, cudaMemcpyHostToDevice);
    cublasHandle_t h;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cublasCreate(&h), cudaStreamCreate(&stream), cublasSetStream(h, stream);
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, alpha, x, 1, x + 1, 1, beta, x + 2, 1);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    double ten = 10;
    cudaMemcpy(alpha, &ten, 8, cudaMemcpyHostToDevice);
    cudaGraphLaunch(exec, stream);
    cublasDestroy(h);
    return x[2];
}
"""
)
NAMES = ["gemm", "batched", "vectors", "matrices", "refused", "captured"]


@pytest.fixture(scope="module")
def cublas():
    if torch.cuda.is_available():
        pytest.skip("about the CPU engine's own cuBLAS")
    return load_cuda(CUDA, CPP, NAMES)


def stored(matrix, ld):
    """A matrix by columns, `ld` elements from one to the next; what is between them is NaN."""
    rows, columns = matrix.shape
    room = torch.full((columns, ld), float("nan"), dtype=matrix.dtype)
    room[:, :rows] = matrix.T
    return room


def operated(matrix, op):
    return [matrix, matrix.T, matrix.T.conj()][op]


TYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float16, torch.bfloat16]
SIZES = [(65, 100, 70), (1, 17, 1), (17, 1, 5), (0, 3, 4), (3, 0, 4), (5, 4, 0), (1, 1, 1)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_gemm(cublas, dtype):
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 8e-2, torch.float32: 1e-4, torch.complex64: 1e-4}.get(
        dtype, 1e-11
    )
    wide = torch.complex128 if dtype.is_complex else torch.float64
    ops = range(3 if dtype.is_complex else 2)
    for number, ((m, n, k), op_a, op_b) in enumerate(itertools.product(SIZES, ops, ops)):
        a = torch.randn((m, k) if op_a == 0 else (k, m), dtype=wide).to(dtype)
        b = torch.randn((k, n) if op_b == 0 else (n, k), dtype=wide).to(dtype)
        c = torch.randn(m, n, dtype=wide).to(dtype)
        alpha, beta = [(1.0, 0.0), (0.5, 2.0), (0.0, 1.0)][number % 3]
        lda, ldb, ldc = max(1, a.shape[0]) + 3, max(1, b.shape[0]), max(1, m) + number % 2
        out = stored(c, ldc)
        if beta == 0:
            out.fill_(float("nan"))  # must not be read
        if alpha == 0:
            a.fill_(float("nan"))
        scalars = [op_a, op_b, m, n, k, lda, ldb, ldc]
        assert cublas.gemm(stored(a, lda), stored(b, ldb), out, scalars, alpha, beta) == 0
        product = operated(a.to(wide), op_a) @ operated(b.to(wide), op_b)
        expected = (alpha * product if alpha else 0) + (beta * c.to(wide) if beta else 0)
        expected = expected + torch.zeros(m, n, dtype=wide)
        torch.testing.assert_close(out[:, :m].T.to(wide), expected, rtol=tolerance, atol=10 * tolerance)
        assert out[:, m:].isnan().all()  # what is between the columns is not touched


def test_half_into_float(cublas):
    a, b, out = torch.randn(8, 8).half(), torch.randn(8, 8).half(), torch.full((8, 8), float("nan"))
    assert cublas.gemm(stored(a, 8), stored(b, 8), out, [0, 0, 8, 8, 8, 8, 8, 8], 1.0, 0.0) == 0
    torch.testing.assert_close(out.T.double(), a.double() @ b.double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pointers", [False, True])
def test_batched(cublas, pointers):
    a, b = torch.randn(3, 17, 17), torch.randn(3, 17, 17)
    c = torch.full_like(a, float("nan"))
    assert cublas.batched(a.mT.contiguous(), b.mT.contiguous(), c, 17, pointers) == 0
    torch.testing.assert_close(c.mT, a @ b)


@pytest.mark.parametrize(("incx", "incy"), [(1, 1), (2, 3), (-2, 1)])
def test_vectors(cublas, incx, incy):
    n = 17
    x, y = torch.randn(n * abs(incx)), torch.randn(n * abs(incy))
    picked = [v[:: abs(step)].double() for v, step in ((x, incx), (y, incy))]
    one, other = [v.flip(0) if step < 0 else v for v, step in zip(picked, (incx, incy), strict=True)]
    got = cublas.vectors(x, y, n, incx, incy)
    assert got[0] == pytest.approx(float(one @ other), abs=1e-5)
    if incx > 0:
        expected = [one.norm(), one.abs().sum(), one.abs().argmax() + 1, one.abs().argmin() + 1]
        assert got[1:] == pytest.approx([float(e) for e in expected], rel=1e-5)
        torch.testing.assert_close(x[::incx].double(), other + 0.5 * one, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(y[::incy].double(), 0.5 * one, rtol=1e-5, atol=1e-5)


def test_matrix_and_vector(cublas):
    m, n = 5, 7
    a, b = torch.randn(m, n).double(), torch.randn(n, m).double()
    x, y = torch.randn(n).double(), torch.randn(m).double()
    gemv, ger, geam = torch.ones(m).double(), torch.zeros(n, m).double(), torch.full((n, m), float("nan")).double()
    cublas.matrices(a.T.contiguous(), b.T.contiguous(), x, y, gemv, ger, geam)
    torch.testing.assert_close(gemv, 2 * a @ x + 3)
    torch.testing.assert_close(ger.T, 2 * torch.outer(y, x))
    torch.testing.assert_close(geam.T, 2 * a + 3 * b.T)


def test_what_is_refused(cublas):
    not_initialized, invalid, not_supported = 1, 7, 15
    words = ord("a")  # "an unsupported value ..."
    assert cublas.refused(torch.zeros(64)) == [not_initialized, invalid, invalid, invalid, words, not_supported]


def test_a_matrix_that_is_too_small_is_an_error(cublas):
    small, fits = torch.zeros(10), torch.zeros(64)
    with pytest.raises(RuntimeError, match=r"cublasSgemm needs 256 bytes for A, which is more than there are"):
        cublas.gemm(small, fits, fits.clone(), [0, 0, 8, 8, 8, 8, 8, 8], 1.0, 0.0)


def test_scalars_on_the_device_in_a_graph(cublas):
    assert cublas.captured(torch.tensor([3.0, 4.0, 0.0], dtype=torch.float64)) == 120
