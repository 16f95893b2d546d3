// Stands in for torch's header of this name: a CUDA error becomes a Python exception.
#pragma once

#include <c10/util/Exception.h>
#include <cuda_runtime.h>

#define C10_CUDA_CHECK(expression)                                                                            \
    do {                                                                                                      \
        const cudaError_t cuda_error = (expression);                                                          \
        if (cuda_error != cudaSuccess) {                                                                      \
            (void)cudaGetLastError();                                                                         \
            const char* why = cuda_error == cudaErrorInvalidValue ? ::cuda_on_cpu::refusal_text() : "";       \
            TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(cuda_error), why);                          \
        }                                                                                                     \
    } while (0)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_CHECK_WARN(expression)                                                                       \
    do {                                                                                                      \
        const cudaError_t cuda_error = (expression);                                                          \
        if (cuda_error != cudaSuccess) {                                                                      \
            (void)cudaGetLastError();                                                                         \
            TORCH_WARN("CUDA warning: ", cudaGetErrorString(cuda_error));                                     \
        }                                                                                                     \
    } while (0)
#define C10_CUDA_ERROR_HANDLED(expression) expression
#define C10_CUDA_IGNORE_ERROR(expression)                                                                     \
    do {                                                                                                      \
        if ((expression) != cudaSuccess) (void)cudaGetLastError();                                            \
    } while (0)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
