// cuBLAS's products of half, bfloat16 and whole numbers, and those whose types are chosen at run time. What a GPU adds
// up in 16 bits is added up in 32 here, and rounded once.
#include <cmath>
#include <vector>

#include "blas.h"

namespace cuda_on_cpu {

size_t bytes_of(cudaDataType type) {
    switch (type) {
        case CUDA_R_8I: return 1;
        case CUDA_R_16F:
        case CUDA_R_16BF: return 2;
        case CUDA_R_32F:
        case CUDA_R_32I: return 4;
        case CUDA_R_64F: return 8;
        default: return 0;
    }
}

double read(const void* p, cudaDataType type, size_t i) {
    switch (type) {
        case CUDA_R_8I: return static_cast<const int8_t*>(p)[i];
        case CUDA_R_16F: return __half2float(static_cast<const __half*>(p)[i]);
        case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
        case CUDA_R_32F: return static_cast<const float*>(p)[i];
        case CUDA_R_32I: return static_cast<const int32_t*>(p)[i];
        default: return static_cast<const double*>(p)[i];
    }
}

void write(void* p, cudaDataType type, size_t i, double value) {
    switch (type) {
        case CUDA_R_16F: static_cast<__half*>(p)[i] = __float2half(float(value)); break;
        case CUDA_R_16BF: static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(float(value)); break;
        case CUDA_R_32F: static_cast<float*>(p)[i] = float(value); break;
        case CUDA_R_32I: static_cast<int32_t*>(p)[i] = int32_t(value); break;
        default: static_cast<double*>(p)[i] = value;
    }
}

// The type of alpha and beta; CUDA_C_32F where cuBLAS has no such product.
static cudaDataType scale_type(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
    if (a != b) return CUDA_C_32F;
    switch (compute) {
        case CUBLAS_COMPUTE_16F:
        case CUBLAS_COMPUTE_16F_PEDANTIC: return a == CUDA_R_16F && c == CUDA_R_16F ? CUDA_R_16F : CUDA_C_32F;
        case CUBLAS_COMPUTE_64F:
        case CUBLAS_COMPUTE_64F_PEDANTIC: return a == CUDA_R_64F && c == CUDA_R_64F ? CUDA_R_64F : CUDA_C_32F;
        case CUBLAS_COMPUTE_32I:
        case CUBLAS_COMPUTE_32I_PEDANTIC: return a == CUDA_R_8I && c == CUDA_R_32I ? CUDA_R_32I : CUDA_C_32F;
        default: break;
    }
    bool small = a == CUDA_R_16F || a == CUDA_R_16BF || a == CUDA_R_8I;
    return (small && (c == CUDA_R_32F || (c == a && a != CUDA_R_8I))) || (a == CUDA_R_32F && c == a) ? CUDA_R_32F
                                                                                                     : CUDA_C_32F;
}

// A matrix in double precision, its columns one behind the other.
static std::vector<double> widened(const Matrices& all, int batch, int rows, int columns) {
    std::vector<double> wide(size_t(rows) * columns);
    const void* from = all.of(batch);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) wide[i + size_t(j) * rows] = read(from, all.type, all.place(i, j));
    return wide;
}

static void check(const char* name, const char* which, const Matrices& all, int batch, int rows, int columns) {
    const size_t element = bytes_of(all.type);
    if (all.by_rows) std::swap(rows, columns);
    stay_inside(name, which, all.of(batch), element * all.ld, element * rows, columns);
}

cublasStatus_t product(cudaStream_t stream, const Product& p) {
    const cudaDataType scale = scale_type(p.a.type, p.b.type, p.c.type, p.compute);
    if (scale == CUDA_C_32F || p.d.type != p.c.type) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool later = p.scalars_on_device;
    const double given_by = later ? 0 : read(p.alpha, scale), given_keep = later ? 0 : read(p.beta, scale);
    return on_stream(stream, [=] {
        const double by = later ? read(p.alpha, scale) : given_by, keep = later ? read(p.beta, scale) : given_keep;
        const int a_rows = p.op_a == CUBLAS_OP_N ? p.m : p.k, a_columns = p.m + p.k - a_rows;
        const int b_rows = p.op_b == CUBLAS_OP_N ? p.k : p.n, b_columns = p.n + p.k - b_rows;
        for (int batch = 0; batch < p.batches && p.m && p.n; batch++) {
            check(p.name, "A", p.a, batch, a_rows, a_columns);
            check(p.name, "B", p.b, batch, b_rows, b_columns);
            if (keep != 0) check(p.name, "C", p.c, batch, p.m, p.n);
            check(p.name, p.c.of(batch) == p.d.of(batch) ? "C" : "D", p.d, batch, p.m, p.n);
            std::vector<double> wide(size_t(p.m) * p.n);
            if (p.k && by != 0) {
                auto wide_a = widened(p.a, batch, a_rows, a_columns), wide_b = widened(p.b, batch, b_rows, b_columns);
                multiply(p.op_a, p.op_b, p.m, p.n, p.k, by, wide_a.data(), a_rows, wide_b.data(), b_rows, 0.0,
                         wide.data(), p.m);
            }
            const void* from = p.c.of(batch);
            for (int j = 0; j < p.n && keep != 0; j++)
                for (int i = 0; i < p.m; i++)
                    wide[i + size_t(j) * p.m] += keep * read(from, p.c.type, p.c.place(i, j));
            if (p.then) p.then(batch, wide.data());
            void* to = p.d.of(batch);
            for (int j = 0; j < p.n; j++)
                for (int i = 0; i < p.m; i++) write(to, p.d.type, p.d.place(i, j), wide[i + size_t(j) * p.m]);
        }
    });
}

static cublasStatus_t gemm(const char* name, cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                           int n, int k, const void* alpha, Matrices a, Matrices b, const void* beta, Matrices c,
                           int batches, cublasComputeType_t compute) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_product(op_a, op_b, m, n, k, a.ld, b.ld, c.ld) || batches < 0 || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    return product(h->stream, {name, op_a, op_b, m, n, k, batches, compute, alpha, beta,
                               h->pointer_mode == CUBLAS_POINTER_MODE_DEVICE, a, b, c, c});
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                                          long long a_stride, const void* b, cudaDataType b_type, int ldb,
                                          long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long c_stride, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
    if (h && a_type == CUDA_R_32F && b_type == a_type && c_type == a_type && compute != CUBLAS_COMPUTE_64F)
        return cublasSgemmStridedBatched(h, op_a, op_b, m, n, k, (const float*)alpha, (const float*)a, lda, a_stride,
                                         (const float*)b, ldb, b_stride, (const float*)beta, (float*)c, ldc, c_stride,
                                         batches);
    auto matrices = [](const void* p, cudaDataType type, int ld, long long stride) -> Matrices {
        return {[=](int i) { return (char*)p + i * stride * (long long)bytes_of(type); }, type, ld};
    };
    return gemm("cublasGemmEx", h, op_a, op_b, m, n, k, alpha, matrices(a, a_type, lda, a_stride),
                matrices(b, b_type, ldb, b_stride), beta, matrices(c, c_type, ldc, c_stride), batches, compute);
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                   int k, const void* alpha, const void* const a[], cudaDataType a_type, int lda,
                                   const void* const b[], cudaDataType b_type, int ldb, const void* beta,
                                   void* const c[], cudaDataType c_type, int ldc, int batches,
                                   cublasComputeType_t compute, cublasGemmAlgo_t) {
    return gemm("cublasGemmBatchedEx", h, op_a, op_b, m, n, k, alpha,
                {[=](int i) { return const_cast<void*>(a[i]); }, a_type, lda},
                {[=](int i) { return const_cast<void*>(b[i]); }, b_type, ldb}, beta,
                {[=](int i) { return c[i]; }, c_type, ldc}, batches, compute);
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
    return cublasGemmStridedBatchedEx(h, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c,
                                      c_type, ldc, 0, 1, compute, algorithm);
}

cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                             const float* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                             cudaDataType b_type, int ldb, const float* beta, void* c, cudaDataType c_type, int ldc) {
    return cublasGemmEx(h, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasHgemm(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const __half* alpha, const __half* a, int lda, const __half* b, int ldb,
                           const __half* beta, __half* c, int ldc) {
    return cublasGemmEx(h, op_a, op_b, m, n, k, alpha, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb, beta, c, CUDA_R_16F,
                        ldc, CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                         int n, int k, const __half* alpha, const __half* a, int lda,
                                         long long a_stride, const __half* b, int ldb, long long b_stride,
                                         const __half* beta, __half* c, int ldc, long long c_stride, int batches) {
    return cublasGemmStridedBatchedEx(h, op_a, op_b, m, n, k, alpha, a, CUDA_R_16F, lda, a_stride, b, CUDA_R_16F, ldb,
                                      b_stride, beta, c, CUDA_R_16F, ldc, c_stride, batches, CUBLAS_COMPUTE_16F,
                                      CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasHgemmBatched(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                                  const __half* alpha, const __half* const a[], int lda, const __half* const b[],
                                  int ldb, const __half* beta, __half* const c[], int ldc, int batches) {
    return cublasGemmBatchedEx(h, op_a, op_b, m, n, k, alpha, (const void* const*)a, CUDA_R_16F, lda,
                               (const void* const*)b, CUDA_R_16F, ldb, beta, (void* const*)c, CUDA_R_16F, ldc, batches,
                               CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT);
}
