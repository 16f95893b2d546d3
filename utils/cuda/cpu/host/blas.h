// The BLAS that comes with torch, for cuBLAS (cublas.cpp, gemm_ex.cpp, cublas_lt.cpp).
#pragma once

#include <complex>
#include <functional>

#include "cublas_v2.h"
#include "streams.h"

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace cuda_on_cpu {

extern const char* torch_library;  // the file

// A scalar of a call: read at once where the host gives it, or when the work is done where the device does.
template <class T>
struct Scalar {
    const T* on_device;
    T value;
    Scalar(cublasHandle_t handle, const T* p)
        : on_device(handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE ? p : nullptr), value(on_device ? T() : *p) {}
    T operator()() const { return on_device ? *on_device : value; }
};

// Whether these are the arguments of a product, C (m x n) of A (m x k) and B (k x n) after their operations.
inline bool is_product(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, int lda, int ldb, int ldc) {
    auto known = [](cublasOperation_t op) { return op >= CUBLAS_OP_N && op <= CUBLAS_OP_C; };
    auto fits = [](int ld, int rows) { return ld >= (rows > 1 ? rows : 1); };
    return known(op_a) && known(op_b) && m >= 0 && n >= 0 && k >= 0 && fits(lda, op_a == CUBLAS_OP_N ? m : k) &&
           fits(ldb, op_b == CUBLAS_OP_N ? k : n) && fits(ldc, m);
}

// C = alpha A B + beta C of float, double and their complex numbers. C is not read where beta is 0.
template <class T>
void multiply(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, T alpha, const T* a, int lda,
              const T* b, int ldb, T beta, T* c, int ldc);

// Throws, as a kernel that reads or writes there would, if `columns` columns of `bytes` bytes, each `step` bytes behind
// the last, reach beyond the allocation or the tensor in which they begin.
void stay_inside(const char* function, const char* matrix, const void* p, size_t step, size_t bytes, size_t columns);

// Does the work of a call now, or notes it where the stream is captured.
cublasStatus_t on_stream(cudaStream_t stream, std::function<void()> work);

// Numbers whose type is chosen at run time.
size_t bytes_of(cudaDataType type);  // 0 for one that cuBLAS's products do not have here
double read(const void* p, cudaDataType type, size_t i = 0);
void write(void* p, cudaDataType type, size_t i, double value);

// A matrix of such numbers for each batch: element (i, j) is at i + j * ld, or at i * ld + j if it is stored by rows.
struct Matrices {
    std::function<void*(int batch)> of;
    cudaDataType type;
    int ld;
    bool by_rows = false;
    size_t place(int i, int j) const { return by_rows ? size_t(i) * ld + j : i + size_t(j) * ld; }
};

// D = alpha op(A) op(B) + beta C for each batch, added up in double precision and rounded once.
struct Product {
    const char* name;  // of the function, for errors
    cublasOperation_t op_a, op_b;
    int m, n, k, batches;
    cublasComputeType_t compute;
    const void *alpha, *beta;
    bool scalars_on_device;
    Matrices a, b, c, d;
    std::function<void(int batch, double* result)> then = nullptr;  // with the m x n result before it is rounded
};
cublasStatus_t product(cudaStream_t stream, const Product& wanted);

}  // namespace cuda_on_cpu
