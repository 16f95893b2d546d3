// Stands in for torch's header of this name.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <cublas_v2.h>

#define TORCH_CUDABLAS_CHECK(expression)                                                                      \
    do {                                                                                                      \
        const cublasStatus_t cublas_status = (expression);                                                    \
        TORCH_CHECK(cublas_status == CUBLAS_STATUS_SUCCESS, "CUDA error: ", cublasGetStatusName(cublas_status), \
                    " when calling `" #expression "`");                                                       \
    } while (0)
