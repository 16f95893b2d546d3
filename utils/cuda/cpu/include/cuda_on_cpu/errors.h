// CUDA's errors that this engine gives or that sources name, with CUDA's own numbers and words (driver_types.h, and
// what cudaGetErrorString of CUDA 13.0 answers).
#pragma once

#define CUDA_ON_CPU_ERRORS(error)                                                            \
    error(cudaSuccess, 0, "no error")                                                        \
    error(cudaErrorInvalidValue, 1, "invalid argument")                                      \
    error(cudaErrorMemoryAllocation, 2, "out of memory")                                     \
    error(cudaErrorInitializationError, 3, "initialization error")                           \
    error(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                \
    error(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                          \
    error(cudaErrorInvalidSymbol, 13, "invalid device symbol")                               \
    error(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                           \
    error(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                       \
    error(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")          \
    error(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
    error(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured")   \
    error(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                     \
    error(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                      \
    error(cudaErrorInvalidDevice, 101, "invalid device ordinal")                             \
    error(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device") \
    error(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                    \
    error(cudaErrorNotReady, 600, "device not ready")                                        \
    error(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")          \
    error(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")     \
    error(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")            \
    error(cudaErrorAssert, 710, "device-side assert triggered")                              \
    error(cudaErrorHardwareStackError, 714, "hardware stack error")                          \
    error(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")        \
    error(cudaErrorMisalignedAddress, 716, "misaligned address")                             \
    error(cudaErrorLaunchFailure, 719, "unspecified launch failure")                         \
    error(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")  \
    error(cudaErrorNotPermitted, 800, "operation not permitted")                             \
    error(cudaErrorNotSupported, 801, "operation not supported")                             \
    error(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define CUDA_ON_CPU_ERROR(name, number, words) name = number,
    CUDA_ON_CPU_ERRORS(CUDA_ON_CPU_ERROR)
#undef CUDA_ON_CPU_ERROR
};
typedef enum cudaError cudaError_t;
