// What is around cuBLAS's computations: handles and their settings, the words for a status, copies of vectors and
// matrices.
#include <algorithm>

#include "blas.h"

using namespace cuda_on_cpu;

#define CUDA_ON_CPU_STATUSES(status)                                                                          \
    status(CUBLAS_STATUS_SUCCESS, "success")                                                                  \
    status(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")                                  \
    status(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")                                      \
    status(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function")       \
    status(CUBLAS_STATUS_ARCH_MISMATCH, "the requested feature is missing in the current device architecture") \
    status(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed")                               \
    status(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU")                        \
    status(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")                                      \
    status(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality requested is not supported")                       \
    status(CUBLAS_STATUS_LICENSE_ERROR, "the functionality requested requires some license and an error was detected")

const char* cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define CUDA_ON_CPU_STATUS(name, words) \
    case name: return #name;
        CUDA_ON_CPU_STATUSES(CUDA_ON_CPU_STATUS)
#undef CUDA_ON_CPU_STATUS
    }
    return "<unknown>";
}

const char* cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
#define CUDA_ON_CPU_STATUS(name, words) \
    case name: return words;
        CUDA_ON_CPU_STATUSES(CUDA_ON_CPU_STATUS)
#undef CUDA_ON_CPU_STATUS
    }
    return "<unknown>";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new cublasContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

// A setting of a handle, or what asks for it.
static cublasStatus_t with(cublasHandle_t handle, bool allowed, std::function<void()> act) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!allowed) return CUBLAS_STATUS_INVALID_VALUE;
    act();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t h, int* version) {
    return with(h, version, [=] { *version = CUBLAS_VERSION; });
}
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t stream) {
    return with(h, is_stream(stream), [=] { h->stream = stream; });
}
cublasStatus_t cublasGetStream(cublasHandle_t h, cudaStream_t* stream) {
    return with(h, stream, [=] { *stream = h->stream; });
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t h, cublasPointerMode_t mode) {
    bool known = mode == CUBLAS_POINTER_MODE_HOST || mode == CUBLAS_POINTER_MODE_DEVICE;
    return with(h, known, [=] { h->pointer_mode = mode; });
}
cublasStatus_t cublasGetPointerMode(cublasHandle_t h, cublasPointerMode_t* mode) {
    return with(h, mode, [=] { *mode = h->pointer_mode; });
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t h, cublasAtomicsMode_t) {
    return with(h, true, [] {});
}
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode) {
    return with(h, true, [=] { h->math = mode; });
}
cublasStatus_t cublasGetMathMode(cublasHandle_t h, cublasMath_t* mode) {
    return with(h, mode, [=] { *mode = h->math; });
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t h, void*, size_t) {
    return with(h, true, [] {});
}

// ---- copies ---------------------------------------------------------------------------------------------------------

// A vector is a matrix with one row: its step is the leading dimension.
static cublasStatus_t copied(int rows, int columns, int element, const void* from, int from_ld, void* to, int to_ld,
                             cudaStream_t stream) {
    if (rows < 0 || columns < 0 || element <= 0 || from_ld < std::max(1, rows) || to_ld < std::max(1, rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    size_t bytes = size_t(element);
    return cudaMemcpy2DAsync(to, to_ld * bytes, from, from_ld * bytes, rows * bytes, size_t(columns),
                             cudaMemcpyDefault, stream)
               ? CUBLAS_STATUS_MAPPING_ERROR
               : CUBLAS_STATUS_SUCCESS;
}

#define CUDA_ON_CPU_COPIES(way)                                                                                      \
    cublasStatus_t cublas##way##Vector(int n, int element, const void* from, int from_step, void* to, int to_step) { \
        return copied(1, n, element, from, from_step, to, to_step, nullptr);                                         \
    }                                                                                                                \
    cublasStatus_t cublas##way##VectorAsync(int n, int element, const void* from, int from_step, void* to,           \
                                            int to_step, cudaStream_t stream) {                                      \
        return copied(1, n, element, from, from_step, to, to_step, stream);                                          \
    }                                                                                                                \
    cublasStatus_t cublas##way##Matrix(int rows, int columns, int element, const void* from, int from_ld, void* to,  \
                                       int to_ld) {                                                                  \
        return copied(rows, columns, element, from, from_ld, to, to_ld, nullptr);                                    \
    }                                                                                                                \
    cublasStatus_t cublas##way##MatrixAsync(int rows, int columns, int element, const void* from, int from_ld,       \
                                            void* to, int to_ld, cudaStream_t stream) {                              \
        return copied(rows, columns, element, from, from_ld, to, to_ld, stream);                                     \
    }
CUDA_ON_CPU_COPIES(Set)
CUDA_ON_CPU_COPIES(Get)
