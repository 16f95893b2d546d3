// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#define __CUDA_FP16_TYPES_EXIST__
#define __CUDA_FP16_H__
#include "cuda_on_cpu/device_functions.h"
#include "cuda_on_cpu/half_bits.h"

#define HALF __half
#define HALF2 __half2
#define HALF_RAW __half_raw
#define HALF2_RAW __half2_raw
#define HALF_EXPONENT_BITS 5
#define HALF_NAME(before, after) before##half##after
#define HALF_PAIR_NAME(before, after) before##half2half2##after
#ifdef __CUDA_NO_HALF_CONVERSIONS__
#define HALF_NO_CONVERSIONS
#endif
#ifdef __CUDA_NO_HALF_OPERATORS__
#define HALF_NO_OPERATORS
#endif
#ifdef __CUDA_NO_HALF2_OPERATORS__
#define HALF2_NO_OPERATORS
#endif
#include "cuda_on_cpu/half_functions.h"

typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)
