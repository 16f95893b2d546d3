// Tensor maps, which tell the copy engine where a tensor is and how large its boxes are: the part of CUDA's driver that
// makes them (cuda.h of CUDA 13, whose names and numbers these are). host/tensor_maps.cpp checks what it is given as the
// driver does; runtime/boxes.h knows what a map holds.
#pragma once

#include <cstdint>

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef unsigned long long CUdeviceptr;
#define CUDAAPI

#define CUDA_ON_CPU_DRIVER_RESULTS(result)                                   \
    result(CUDA_SUCCESS, 0, "no error")                                      \
    result(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                  \
    result(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                     \
    result(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")            \
    result(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")              \
    result(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")  \
    result(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")         \
    result(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")        \
    result(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")        \
    result(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")              \
    result(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")         \
    result(CUDA_ERROR_UNKNOWN, 999, "unknown error")
typedef enum cudaError_enum {
#define CUDA_ON_CPU_DRIVER_RESULT(name, number, words) name = number,
    CUDA_ON_CPU_DRIVER_RESULTS(CUDA_ON_CPU_DRIVER_RESULT)
#undef CUDA_ON_CPU_DRIVER_RESULT
} CUresult;

#define CU_TENSOR_MAP_NUM_QWORDS 16
typedef struct CUtensorMap_st {
    alignas(128) cuuint64_t opaque[CU_TENSOR_MAP_NUM_QWORDS];
} CUtensorMap;

typedef enum CUtensorMapDataType_enum {
    CU_TENSOR_MAP_DATA_TYPE_UINT8,
    CU_TENSOR_MAP_DATA_TYPE_UINT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT32,
    CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT64,
    CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
    CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B
} CUtensorMapDataType;
typedef enum CUtensorMapInterleave_enum {
    CU_TENSOR_MAP_INTERLEAVE_NONE,
    CU_TENSOR_MAP_INTERLEAVE_16B,
    CU_TENSOR_MAP_INTERLEAVE_32B
} CUtensorMapInterleave;
typedef enum CUtensorMapSwizzle_enum {
    CU_TENSOR_MAP_SWIZZLE_NONE,
    CU_TENSOR_MAP_SWIZZLE_32B,
    CU_TENSOR_MAP_SWIZZLE_64B,
    CU_TENSOR_MAP_SWIZZLE_128B,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B
} CUtensorMapSwizzle;
typedef enum CUtensorMapL2promotion_enum {
    CU_TENSOR_MAP_L2_PROMOTION_NONE,
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B
} CUtensorMapL2promotion;
typedef enum CUtensorMapFloatOOBfill_enum {
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
} CUtensorMapFloatOOBfill;

extern "C" {
CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuGetErrorName(CUresult error, const char** text);
CUresult cuInit(unsigned int flags);
CUresult cuTensorMapEncodeTiled(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                const cuuint32_t* boxDim, const cuuint32_t* elementStrides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill);
CUresult cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress);
}
