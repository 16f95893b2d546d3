// cuBLAS on the CPU. Products go to the BLAS in torch's library, which is as fast as the machine allows; whoever has
// this engine has torch. Everything else is a loop.
#include "blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace cuda_on_cpu {

// The file of torch's library, in a program that has not loaded it (program.cpp).
const char* torch_library = "libtorch_cpu.so";

// BLAS's interface is Fortran's: everything is passed by address.
template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*,
                      const T*, const int*, const T*, T*, const int*);

template <class T>
static constexpr const char* gemm_name = std::is_same_v<T, float>    ? "sgemm_"
                                         : std::is_same_v<T, double> ? "dgemm_"
                                         : sizeof(T) == 8            ? "cgemm_"
                                                                     : "zgemm_";

static void* torch_function(const char* name) {
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) library = dlopen(torch_library, RTLD_LAZY | RTLD_LOCAL);
    void* found = library ? dlsym(library, name) : nullptr;
    if (!found)
        throw std::runtime_error(std::string("cuBLAS here needs torch's BLAS, and ") +
                                 (library ? std::string("this torch exports no ") + name
                                          : std::string(torch_library) + " cannot be loaded: " + dlerror()));
    return found;
}

template <class T>
void multiply(cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, T alpha, const T* a, int lda,
              const T* b, int ldb, T beta, T* c, int ldc) {
    static const auto gemm = reinterpret_cast<Gemm<T>>(torch_function(gemm_name<T>));
    if (beta == T(0))
        for (int j = 0; j < n; j++) std::fill_n(c + size_t(j) * ldc, m, T(0));
    if (!k || alpha == T(0)) {  // A and B are not read
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m && beta != T(0); i++) c[i + size_t(j) * ldc] *= beta;
        return;
    }
    gemm(&"NTC"[op_a], &"NTC"[op_b], &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
template void multiply(cublasOperation_t, cublasOperation_t, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);
template void multiply(cublasOperation_t, cublasOperation_t, int, int, int, double, const double*, int, const double*,
                       int, double, double*, int);

namespace {
struct Outside : std::runtime_error {
    using std::runtime_error::runtime_error;
};
}  // namespace

void stay_inside(const char* function, const char* matrix, const void* p, size_t step, size_t bytes, size_t columns) {
    if (bytes && columns && reaches_out(p, step, bytes, columns))
        throw Outside("CUDA error: an illegal memory access was encountered: " + std::string(function) + " needs " +
                      std::to_string((columns - 1) * step + bytes) + " bytes for " + matrix +
                      ", which is more than there are: compare its sizes and its leading dimension");
}

cublasStatus_t on_stream(cudaStream_t stream, std::function<void()> work) {
    cudaError_t error = enqueue(stream, cudaGraphNodeTypeKernel, [work = std::move(work)] {
        DeviceAccess access;
        try {
            work();
        } catch (const Outside& error) {
            fault(cudaErrorIllegalAddress, error.what());
        }
        return cudaSuccess;
    });
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

// The complex numbers of C++, in which all of this is written, have the layout of CUDA's.
template <class T> struct InCpp { using type = T; };
template <> struct InCpp<cuComplex> { using type = std::complex<float>; };
template <> struct InCpp<cuDoubleComplex> { using type = std::complex<double>; };
template <class T>
static auto cpp(T* p) {
    using Plain = std::remove_const_t<T>;
    using Number = typename InCpp<Plain>::type;
    return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const Number, Number>*>(p);
}
static float conjugated(float x) { return x; }
static double conjugated(double x) { return x; }
template <class T>
static std::complex<T> conjugated(std::complex<T> x) { return std::conj(x); }
static double sum_of_parts(float x) { return std::fabs(x); }
static double sum_of_parts(double x) { return std::fabs(x); }
template <class T>
static double sum_of_parts(std::complex<T> x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

// Element i of a vector of n with a step, which may be negative: then it begins at its end.
template <class T>
static T& at(T* x, int n, int step, int i) {
    return x[(step >= 0 ? int64_t(i) : int64_t(i) - n + 1) * step];
}
template <class T>
static T element(const T* a, int ld, cublasOperation_t op, int i, int j) {
    if (op == CUBLAS_OP_N) return a[i + size_t(j) * ld];
    T x = a[j + size_t(i) * ld];
    return op == CUBLAS_OP_C ? conjugated(x) : x;
}

template <class T>
static cublasStatus_t gemm(const char* name, cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                           int n, int k, const T* alpha, std::function<const T*(int)> a, int lda,
                           std::function<const T*(int)> b, int ldb, const T* beta, std::function<T*(int)> c, int ldc,
                           int batches) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_product(op_a, op_b, m, n, k, lda, ldb, ldc) || batches < 0 || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    Scalar<T> by(h, alpha), keep(h, beta);
    return on_stream(h->stream, [=] {
        for (int i = 0; i < batches && m && n; i++) {
            const int a_columns = op_a == CUBLAS_OP_N ? k : m, b_columns = op_b == CUBLAS_OP_N ? n : k;
            if (k) stay_inside(name, "A", a(i), sizeof(T) * lda, sizeof(T) * (m + k - a_columns), a_columns);
            if (k) stay_inside(name, "B", b(i), sizeof(T) * ldb, sizeof(T) * (n + k - b_columns), b_columns);
            stay_inside(name, "C", c(i), sizeof(T) * ldc, sizeof(T) * m, n);
            multiply(op_a, op_b, m, n, k, by(), a(i), lda, b(i), ldb, keep(), c(i), ldc);
        }
    });
}

template <class T>
static cublasStatus_t gemv(const char* name, cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha,
                           const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || lda < std::max(1, m) || !incx || !incy || op < CUBLAS_OP_N || op > CUBLAS_OP_C || !alpha ||
        !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    Scalar<T> by(h, alpha), keep(h, beta);
    return on_stream(h->stream, [=] {
        int rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;
        stay_inside(name, "A", a, sizeof(T) * lda, sizeof(T) * m, n);
        for (int i = 0; i < rows; i++) {
            T sum = T(0);
            if (by() != T(0))
                for (int j = 0; j < columns; j++) sum += element(a, lda, op, i, j) * at(x, columns, incx, j);
            T& to = at(y, rows, incy, i);
            to = by() * sum + (keep() == T(0) ? T(0) : keep() * to);
        }
    });
}

template <class T>
static cublasStatus_t geam(const char* name, cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                           int n, const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c,
                           int ldc) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    auto fits = [](int ld, int rows) { return ld >= std::max(1, rows); };
    if (m < 0 || n < 0 || !alpha || !beta || !fits(ldc, m) || !fits(lda, op_a == CUBLAS_OP_N ? m : n) ||
        !fits(ldb, op_b == CUBLAS_OP_N ? m : n) || (c == a && (op_a != CUBLAS_OP_N || lda != ldc)) ||
        (c == b && (op_b != CUBLAS_OP_N || ldb != ldc)))
        return CUBLAS_STATUS_INVALID_VALUE;
    Scalar<T> by_a(h, alpha), by_b(h, beta);
    return on_stream(h->stream, [=] {
        stay_inside(name, "C", c, sizeof(T) * ldc, sizeof(T) * m, n);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                T sum = T(0);
                if (by_a() != T(0)) sum += by_a() * element(a, lda, op_a, i, j);
                if (by_b() != T(0)) sum += by_b() * element(b, ldb, op_b, i, j);
                c[i + size_t(j) * ldc] = sum;
            }
    });
}

template <class T>
static cublasStatus_t ger(const char* name, cublasHandle_t h, bool conjugate, int m, int n, const T* alpha, const T* x,
                          int incx, const T* y, int incy, T* a, int lda) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || !incx || !incy || lda < std::max(1, m) || !alpha) return CUBLAS_STATUS_INVALID_VALUE;
    Scalar<T> by(h, alpha);
    return on_stream(h->stream, [=] {
        stay_inside(name, "A", a, sizeof(T) * lda, sizeof(T) * m, n);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                T other = at(y, n, incy, j);
                a[i + size_t(j) * lda] += by() * at(x, m, incx, i) * (conjugate ? conjugated(other) : other);
            }
    });
}

// Calls do(i) for each of n elements.
static cublasStatus_t each(cublasHandle_t h, int n, std::function<void(int)> act) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    return on_stream(h->stream, [=] {
        for (int i = 0; i < n; i++) act(i);
    });
}

template <class T>
static cublasStatus_t dot(cublasHandle_t h, bool conjugate, int n, const T* x, int incx, const T* y, int incy,
                          T* result) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    return on_stream(h->stream, [=] {
        using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::complex<double>>;
        Wide sum = 0;
        for (int i = 0; i < n; i++) {
            T one = at(x, n, incx, i);
            sum += Wide(conjugate ? conjugated(one) : one) * Wide(at(y, n, incy, i));
        }
        *result = T(sum);
    });
}

template <class T, class Real>
static cublasStatus_t norm(cublasHandle_t h, bool squares, int n, const T* x, int incx, Real* result) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    return on_stream(h->stream, [=] {
        double sum = 0;
        for (int i = 0; i < n && incx > 0; i++)
            sum = squares ? std::hypot(sum, double(std::abs(at(x, n, incx, i)))) : sum + sum_of_parts(at(x, n, incx, i));
        *result = Real(sum);
    });
}

// The first with the largest (or smallest) |re| + |im|, counted from 1; 0 if there is none.
template <class T>
static cublasStatus_t extreme(cublasHandle_t h, int sign, int n, const T* x, int incx, int* result) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    return on_stream(h->stream, [=] {
        *result = n > 0 && incx > 0;
        for (int i = 1; i < n && incx > 0; i++)
            if (sign * sum_of_parts(at(x, n, incx, i)) > sign * sum_of_parts(at(x, n, incx, *result - 1)))
                *result = i + 1;
    });
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

#define CUDA_ON_CPU_CUBLAS(X, T)                                                                                     \
    cublasStatus_t cublas##X##gemm(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,   \
                                   int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta,   \
                                   T* c, int ldc) {                                                                  \
        using N = InCpp<T>::type;                                                                                    \
        return gemm<N>("cublas" #X "gemm", h, op_a, op_b, m, n, k, cpp(alpha), [=](int) { return cpp(a); }, lda,     \
                       [=](int) { return cpp(b); }, ldb, cpp(beta), [=](int) { return cpp(c); }, ldc, 1);            \
    }                                                                                                                \
    cublasStatus_t cublas##X##gemmBatched(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m,   \
                                          int n, int k, const T* alpha, const T* const a[], int lda,                 \
                                          const T* const b[], int ldb, const T* beta, T* const c[], int ldc,         \
                                          int batches) {                                                             \
        using N = InCpp<T>::type;                                                                                    \
        return gemm<N>("cublas" #X "gemmBatched", h, op_a, op_b, m, n, k, cpp(alpha),                                \
                       [=](int i) { return cpp(a[i]); }, lda, [=](int i) { return cpp(b[i]); }, ldb, cpp(beta),      \
                       [=](int i) { return cpp(c[i]); }, ldc, batches);                                              \
    }                                                                                                                \
    cublasStatus_t cublas##X##gemmStridedBatched(                                                                    \
        cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const T* alpha,       \
        const T* a, int lda, long long a_stride, const T* b, int ldb, long long b_stride, const T* beta, T* c,       \
        int ldc, long long c_stride, int batches) {                                                                  \
        using N = InCpp<T>::type;                                                                                    \
        return gemm<N>("cublas" #X "gemmStridedBatched", h, op_a, op_b, m, n, k, cpp(alpha),                         \
                       [=](int i) { return cpp(a + i * a_stride); }, lda,                                            \
                       [=](int i) { return cpp(b + i * b_stride); }, ldb, cpp(beta),                                 \
                       [=](int i) { return cpp(c + i * c_stride); }, ldc, batches);                                  \
    }                                                                                                                \
    cublasStatus_t cublas##X##gemv(cublasHandle_t h, cublasOperation_t op, int m, int n, const T* alpha, const T* a, \
                                   int lda, const T* x, int incx, const T* beta, T* y, int incy) {                   \
        return gemv("cublas" #X "gemv", h, op, m, n, cpp(alpha), cpp(a), lda, cpp(x), incx, cpp(beta), cpp(y), incy); \
    }                                                                                                                \
    cublasStatus_t cublas##X##geam(cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,   \
                                   const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c,    \
                                   int ldc) {                                                                        \
        return geam("cublas" #X "geam", h, op_a, op_b, m, n, cpp(alpha), cpp(a), lda, cpp(beta), cpp(b), ldb, cpp(c), \
                    ldc);                                                                                            \
    }                                                                                                                \
    cublasStatus_t cublas##X##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y, int incy) {  \
        if (!h || !alpha) return h ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_INITIALIZED;                    \
        Scalar<InCpp<T>::type> by(h, cpp(alpha));                                                                    \
        return each(h, n, [=](int i) { at(cpp(y), n, incy, i) += by() * at(cpp(x), n, incx, i); });                  \
    }                                                                                                                \
    cublasStatus_t cublas##X##scal(cublasHandle_t h, int n, const T* alpha, T* x, int incx) {                        \
        if (!h || !alpha) return h ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_INITIALIZED;                    \
        Scalar<InCpp<T>::type> by(h, cpp(alpha));                                                                    \
        return each(h, incx > 0 ? n : 0, [=](int i) { at(cpp(x), n, incx, i) *= by(); });                            \
    }                                                                                                                \
    cublasStatus_t cublas##X##copy(cublasHandle_t h, int n, const T* x, int incx, T* y, int incy) {                  \
        return each(h, n, [=](int i) { at(y, n, incy, i) = at(x, n, incx, i); });                                    \
    }                                                                                                                \
    cublasStatus_t cublas##X##swap(cublasHandle_t h, int n, T* x, int incx, T* y, int incy) {                        \
        return each(h, n, [=](int i) { std::swap(at(y, n, incy, i), at(x, n, incx, i)); });                          \
    }                                                                                                                \
    cublasStatus_t cublasI##X##amax(cublasHandle_t h, int n, const T* x, int incx, int* result) {                    \
        return extreme(h, 1, n, cpp(x), incx, result);                                                               \
    }                                                                                                                \
    cublasStatus_t cublasI##X##amin(cublasHandle_t h, int n, const T* x, int incx, int* result) {                    \
        return extreme(h, -1, n, cpp(x), incx, result);                                                              \
    }
CUDA_ON_CPU_CUBLAS(S, float)
CUDA_ON_CPU_CUBLAS(D, double)
CUDA_ON_CPU_CUBLAS(C, cuComplex)
CUDA_ON_CPU_CUBLAS(Z, cuDoubleComplex)

#define CUDA_ON_CPU_DOT(name, T, conjugate)                                                                         \
    cublasStatus_t cublas##name(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy, T* result) {   \
        return dot(h, conjugate, n, cpp(x), incx, cpp(y), incy, cpp(result));                                       \
    }
CUDA_ON_CPU_DOT(Sdot, float, false)
CUDA_ON_CPU_DOT(Ddot, double, false)
CUDA_ON_CPU_DOT(Cdotu, cuComplex, false)
CUDA_ON_CPU_DOT(Cdotc, cuComplex, true)
CUDA_ON_CPU_DOT(Zdotu, cuDoubleComplex, false)
CUDA_ON_CPU_DOT(Zdotc, cuDoubleComplex, true)

#define CUDA_ON_CPU_NORM(name, T, Real, squares)                                                     \
    cublasStatus_t cublas##name(cublasHandle_t h, int n, const T* x, int incx, Real* result) {       \
        return norm(h, squares, n, cpp(x), incx, result);                                            \
    }
CUDA_ON_CPU_NORM(Snrm2, float, float, true)
CUDA_ON_CPU_NORM(Dnrm2, double, double, true)
CUDA_ON_CPU_NORM(Scnrm2, cuComplex, float, true)
CUDA_ON_CPU_NORM(Dznrm2, cuDoubleComplex, double, true)
CUDA_ON_CPU_NORM(Sasum, float, float, false)
CUDA_ON_CPU_NORM(Dasum, double, double, false)
CUDA_ON_CPU_NORM(Scasum, cuComplex, float, false)
CUDA_ON_CPU_NORM(Dzasum, cuDoubleComplex, double, false)

#define CUDA_ON_CPU_GER(name, T, conjugate)                                                                          \
    cublasStatus_t cublas##name(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int incx, const T* y,    \
                                int incy, T* a, int lda) {                                                           \
        return ger("cublas" #name, h, conjugate, m, n, cpp(alpha), cpp(x), incx, cpp(y), incy, cpp(a), lda);         \
    }
CUDA_ON_CPU_GER(Sger, float, false)
CUDA_ON_CPU_GER(Dger, double, false)
CUDA_ON_CPU_GER(Cgeru, cuComplex, false)
CUDA_ON_CPU_GER(Cgerc, cuComplex, true)
CUDA_ON_CPU_GER(Zgeru, cuDoubleComplex, false)
CUDA_ON_CPU_GER(Zgerc, cuDoubleComplex, true)
