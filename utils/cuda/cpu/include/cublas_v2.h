// Stands in for cuBLAS's header when a source is compiled for the CPU: dense products, and the calls around them.
//
// Matrices are stored by columns: element (i, j) is at a[i + j * lda]. host/cublas.cpp computes, with torch's BLAS.
#pragma once

#include "cuComplex.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "library_types.h"

// By these, sources ask whether NVIDIA's header was included.
#define CUBLAS_V2_H_
#define CUBLAS_API_H_

#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 0
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VERSION 130000
#define CUBLASWINAPI

typedef struct cublasContext* cublasHandle_t;
typedef cudaDataType cublasDataType_t;
// The names that NVIDIA's header gives to these functions.
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
#define cublasSetStream_v2 cublasSetStream
#define cublasSgemm_v2 cublasSgemm
#define cublasDgemm_v2 cublasDgemm

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C, CUBLAS_OP_HERMITAN = CUBLAS_OP_C };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED, CUBLAS_ATOMICS_ALLOWED };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DFALT = -1,
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_ALGO0 = 0,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
    CUBLAS_GEMM_DFALT_TENSOR_OP = 99
};

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);

cublasStatus_t cublasSetVector(int n, int element, const void* from, int from_step, void* to, int to_step);
cublasStatus_t cublasGetVector(int n, int element, const void* from, int from_step, void* to, int to_step);
cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void* from, int from_ld, void* to, int to_ld);
cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void* from, int from_ld, void* to, int to_ld);
cublasStatus_t cublasSetVectorAsync(int n, int element, const void* from, int from_step, void* to, int to_step,
                                    cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync(int n, int element, const void* from, int from_step, void* to, int to_step,
                                    cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int element, const void* from, int from_ld, void* to,
                                    int to_ld, cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int element, const void* from, int from_ld, void* to,
                                    int to_ld, cudaStream_t stream);

// What all four types have: cublasSgemm, cublasDgemm, cublasCgemm, cublasZgemm.
#define CUDA_ON_CPU_CUBLAS(X, T)                                                                                   \
    cublasStatus_t cublas##X##gemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,      \
                                   const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c,  \
                                   int ldc);                                                                       \
    cublasStatus_t cublas##X##gemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,      \
                                          int k, const T* alpha, const T* const a[], int lda, const T* const b[],  \
                                          int ldb, const T* beta, T* const c[], int ldc, int batches);             \
    cublasStatus_t cublas##X##gemmStridedBatched(                                                                  \
        cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const T* alpha, const T* a,     \
        int lda, long long a_stride, const T* b, int ldb, long long b_stride, const T* beta, T* c, int ldc,        \
        long long c_stride, int batches);                                                                          \
    cublasStatus_t cublas##X##gemv(cublasHandle_t, cublasOperation_t, int m, int n, const T* alpha, const T* a,    \
                                   int lda, const T* x, int incx, const T* beta, T* y, int incy);                  \
    cublasStatus_t cublas##X##geam(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,             \
                                   const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c,  \
                                   int ldc);                                                                       \
    cublasStatus_t cublas##X##axpy(cublasHandle_t, int n, const T* alpha, const T* x, int incx, T* y, int incy);   \
    cublasStatus_t cublas##X##scal(cublasHandle_t, int n, const T* alpha, T* x, int incx);                         \
    cublasStatus_t cublas##X##copy(cublasHandle_t, int n, const T* x, int incx, T* y, int incy);                   \
    cublasStatus_t cublas##X##swap(cublasHandle_t, int n, T* x, int incx, T* y, int incy);                         \
    cublasStatus_t cublasI##X##amax(cublasHandle_t, int n, const T* x, int incx, int* result);                     \
    cublasStatus_t cublasI##X##amin(cublasHandle_t, int n, const T* x, int incx, int* result);
// Those names of cuBLAS carry the type in lower case, too: cublasIsamax.
#define cublasIsamax cublasISamax
#define cublasIdamax cublasIDamax
#define cublasIcamax cublasICamax
#define cublasIzamax cublasIZamax
#define cublasIsamin cublasISamin
#define cublasIdamin cublasIDamin
#define cublasIcamin cublasICamin
#define cublasIzamin cublasIZamin
CUDA_ON_CPU_CUBLAS(S, float)
CUDA_ON_CPU_CUBLAS(D, double)
CUDA_ON_CPU_CUBLAS(C, cuComplex)
CUDA_ON_CPU_CUBLAS(Z, cuDoubleComplex)
#undef CUDA_ON_CPU_CUBLAS

#define CUDA_ON_CPU_CUBLAS(name, T)                                                                               \
    cublasStatus_t cublas##name(cublasHandle_t, int n, const T* x, int incx, const T* y, int incy, T* result);
CUDA_ON_CPU_CUBLAS(Sdot, float)
CUDA_ON_CPU_CUBLAS(Ddot, double)
CUDA_ON_CPU_CUBLAS(Cdotu, cuComplex)
CUDA_ON_CPU_CUBLAS(Cdotc, cuComplex)
CUDA_ON_CPU_CUBLAS(Zdotu, cuDoubleComplex)
CUDA_ON_CPU_CUBLAS(Zdotc, cuDoubleComplex)
#undef CUDA_ON_CPU_CUBLAS

#define CUDA_ON_CPU_CUBLAS(name, T, Real)                                                                          \
    cublasStatus_t cublas##name(cublasHandle_t, int n, const T* x, int incx, Real* result);
CUDA_ON_CPU_CUBLAS(Snrm2, float, float)
CUDA_ON_CPU_CUBLAS(Dnrm2, double, double)
CUDA_ON_CPU_CUBLAS(Scnrm2, cuComplex, float)
CUDA_ON_CPU_CUBLAS(Dznrm2, cuDoubleComplex, double)
CUDA_ON_CPU_CUBLAS(Sasum, float, float)
CUDA_ON_CPU_CUBLAS(Dasum, double, double)
CUDA_ON_CPU_CUBLAS(Scasum, cuComplex, float)
CUDA_ON_CPU_CUBLAS(Dzasum, cuDoubleComplex, double)
#undef CUDA_ON_CPU_CUBLAS

#define CUDA_ON_CPU_CUBLAS(name, T)                                                                                \
    cublasStatus_t cublas##name(cublasHandle_t, int m, int n, const T* alpha, const T* x, int incx, const T* y,    \
                                int incy, T* a, int lda);
CUDA_ON_CPU_CUBLAS(Sger, float)
CUDA_ON_CPU_CUBLAS(Dger, double)
CUDA_ON_CPU_CUBLAS(Cgeru, cuComplex)
CUDA_ON_CPU_CUBLAS(Cgerc, cuComplex)
CUDA_ON_CPU_CUBLAS(Zgeru, cuDoubleComplex)
CUDA_ON_CPU_CUBLAS(Zgerc, cuDoubleComplex)
#undef CUDA_ON_CPU_CUBLAS

cublasStatus_t cublasHgemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                           const __half* alpha, const __half* a, int lda, const __half* b, int ldb,
                           const __half* beta, __half* c, int ldc);
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                         const __half* alpha, const __half* a, int lda, long long a_stride,
                                         const __half* b, int ldb, long long b_stride, const __half* beta, __half* c,
                                         int ldc, long long c_stride, int batches);
cublasStatus_t cublasHgemmBatched(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const __half* alpha, const __half* const a[], int lda, const __half* const b[],
                                  int ldb, const __half* beta, __half* const c[], int ldc, int batches);
cublasStatus_t cublasSgemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                             const float* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                             cudaDataType b_type, int ldb, const float* beta, void* c, cudaDataType c_type, int ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type, int lda,
                                          long long a_stride, const void* b, cudaDataType b_type, int ldb,
                                          long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long c_stride, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                   const void* alpha, const void* const a[], cudaDataType a_type, int lda,
                                   const void* const b[], cudaDataType b_type, int ldb, const void* beta,
                                   void* const c[], cudaDataType c_type, int ldc, int batches,
                                   cublasComputeType_t compute, cublasGemmAlgo_t);
// CUDA 11 named the arithmetic by a type of data.
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                   int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                                   const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                                   cudaDataType c_type, int ldc, cudaDataType compute, cublasGemmAlgo_t algorithm) {
    cublasComputeType_t type = compute == CUDA_R_16F                            ? CUBLAS_COMPUTE_16F
                               : compute == CUDA_R_64F || compute == CUDA_C_64F ? CUBLAS_COMPUTE_64F
                               : compute == CUDA_R_32I                          ? CUBLAS_COMPUTE_32I
                                                                                : CUBLAS_COMPUTE_32F;
    return cublasGemmEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, type,
                        algorithm);
}
