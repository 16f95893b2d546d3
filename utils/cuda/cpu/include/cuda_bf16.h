// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#define __CUDA_BF16_TYPES_EXIST__
#define __CUDA_BF16_H__
#include "cuda_on_cpu/device_functions.h"
#include "cuda_on_cpu/half_bits.h"

#define HALF __nv_bfloat16
#define HALF2 __nv_bfloat162
#define HALF_RAW __nv_bfloat16_raw
#define HALF2_RAW __nv_bfloat162_raw
#define HALF_EXPONENT_BITS 8
#define HALF_NAME(before, after) before##bfloat16##after
#define HALF_PAIR_NAME(before, after) before##bfloat162bfloat162##after
#ifdef __CUDA_NO_BFLOAT16_CONVERSIONS__
#define HALF_NO_CONVERSIONS
#endif
#ifdef __CUDA_NO_BFLOAT16_OPERATORS__
#define HALF_NO_OPERATORS
#endif
#ifdef __CUDA_NO_BFLOAT162_OPERATORS__
#define HALF2_NO_OPERATORS
#endif
#include "cuda_on_cpu/half_functions.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
