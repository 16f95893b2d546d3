// CUDA's errors that this engine gives or that sources name, with CUDA's own numbers and words (driver_types.h, and
// what cudaGetErrorString of CUDA 13.0 answers).
#pragma once

#define CUDA_ON_CPU_ERRORS(error)                                                            \
    error(cudaSuccess, 0, "no error")                                                        \
    error(cudaErrorInvalidValue, 1, "invalid argument")                                      \
    error(cudaErrorMemoryAllocation, 2, "out of memory")                                     \
    error(cudaErrorInitializationError, 3, "initialization error")                           \
    error(cudaErrorCudartUnloading, 4, "driver shutting down")                               \
    error(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                \
    error(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                          \
    error(cudaErrorInvalidSymbol, 13, "invalid device symbol")                               \
    error(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                           \
    error(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                       \
    error(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")          \
    error(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
    error(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable") \
    error(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured")   \
    error(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                     \
    error(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                      \
    error(cudaErrorInvalidDevice, 101, "invalid device ordinal")                             \
    error(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device") \
    error(cudaErrorUnsupportedLimit, 215, "limit is not supported on this architecture")      \
    error(cudaErrorPeerAccessUnsupported, 217, "peer access is not supported between these two devices") \
    error(cudaErrorInvalidPtx, 218, "a PTX JIT compilation failed")                          \
    error(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")   \
    error(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                    \
    error(cudaErrorNotReady, 600, "device not ready")                                        \
    error(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")          \
    error(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")     \
    error(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")            \
    error(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")          \
    error(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")            \
    error(cudaErrorSetOnActiveProcess, 708, "cannot set while device is active in this process") \
    error(cudaErrorAssert, 710, "device-side assert triggered")                              \
    error(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
    error(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
    error(cudaErrorHardwareStackError, 714, "hardware stack error")                          \
    error(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")        \
    error(cudaErrorMisalignedAddress, 716, "misaligned address")                             \
    error(cudaErrorInvalidPc, 718, "invalid program counter")                                \
    error(cudaErrorLaunchFailure, 719, "unspecified launch failure")                         \
    error(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")  \
    error(cudaErrorNotPermitted, 800, "operation not permitted")                             \
    error(cudaErrorNotSupported, 801, "operation not supported")                             \
    error(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
    error(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture") \
    error(cudaErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences") \
    error(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began") \
    error(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")         \
    error(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream") \
    error(cudaErrorStreamCaptureImplicit, 906, "operation would make the legacy stream depend on a capturing blocking stream") \
    error(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream") \
    error(cudaErrorStreamCaptureWrongThread, 908, "attempt to terminate a thread-local capture sequence from another thread") \
    error(cudaErrorTimeout, 909, "wait operation timed out")                                 \
    error(cudaErrorGraphExecUpdateFailure, 910, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update") \
    error(cudaErrorInvalidClusterSize, 912, "a kernel launch error has occurred due to cluster misconfiguration") \
    error(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define CUDA_ON_CPU_ERROR(name, number, words) name = number,
    CUDA_ON_CPU_ERRORS(CUDA_ON_CPU_ERROR)
#undef CUDA_ON_CPU_ERROR
};
typedef enum cudaError cudaError_t;
