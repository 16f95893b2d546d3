// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once

#define __MATH_CONSTANTS_H__  // by which sources ask whether this header was included

#include "cuda_runtime.h"

#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_MIN_DENORM_F 0x1p-149f
#define CUDART_MAX_NORMAL_F 0x1.fffffep127f
#define CUDART_NEG_ZERO_F -0.0f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_TWO_TO_23_F 0x1p23f
#define CUDART_TWO_TO_24_F 0x1p24f
#define CUDART_TWO_TO_31_F 0x1p31f
#define CUDART_TWO_TO_32_F 0x1p32f
#define CUDART_TWO_TO_126_F 0x1p126f
#define CUDART_TWO_TO_M126_F 0x1p-126f
#define CUDART_SQRT_HALF_F ((float)CUDART_SQRT_HALF)
#define CUDART_SQRT_TWO_F ((float)CUDART_SQRT_TWO)
#define CUDART_THIRD_F ((float)CUDART_THIRD)
#define CUDART_PIO4_F ((float)CUDART_PIO4)
#define CUDART_PIO2_F ((float)CUDART_PIO2)
#define CUDART_3PIO4_F ((float)CUDART_3PIO4)
#define CUDART_PI_F ((float)CUDART_PI)
#define CUDART_2_OVER_PI_F ((float)CUDART_2_OVER_PI)
#define CUDART_SQRT_2_OVER_PI_F ((float)CUDART_SQRT_2OPI)
#define CUDART_L2E_F ((float)CUDART_L2E)
#define CUDART_L2T_F ((float)CUDART_L2T)
#define CUDART_LG2_F ((float)CUDART_LG2)
#define CUDART_LGE_F ((float)CUDART_LGE)
#define CUDART_LN2_F ((float)CUDART_LN2)
#define CUDART_LNT_F ((float)CUDART_LNT)
#define CUDART_LNPI_F ((float)CUDART_LNPI)

#define CUDART_INF __longlong_as_double(0x7ff0000000000000)
#define CUDART_NAN __longlong_as_double((long long)0xfff8000000000000)
#define CUDART_MIN_DENORM 0x1p-1074
#define CUDART_NEG_ZERO -0.0
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_TWO_TO_23 0x1p23
#define CUDART_TWO_TO_52 0x1p52
#define CUDART_TWO_TO_53 0x1p53
#define CUDART_TWO_TO_54 0x1p54
#define CUDART_THIRD (1.0 / 3.0)
#define CUDART_TWOTHIRD (2.0 / 3.0)
#define CUDART_SQRT_TWO M_SQRT2
#define CUDART_SQRT_HALF M_SQRT1_2
#define CUDART_PI M_PI
#define CUDART_PIO2 M_PI_2
#define CUDART_PIO4 M_PI_4
#define CUDART_3PIO4 (3 * M_PI_4)
#define CUDART_2_OVER_PI M_2_PI
#define CUDART_SQRT_2OPI (M_2_SQRTPI * M_SQRT1_2)
#define CUDART_SQRT_2PI (2 * M_SQRT2 / M_2_SQRTPI)
#define CUDART_SQRT_PIO2 (M_SQRT2 / M_2_SQRTPI)
#define CUDART_L2E M_LOG2E          // log2(e)
#define CUDART_L2T (M_LN10 / M_LN2)  // log2(10)
#define CUDART_LG2 (M_LN2 / M_LN10)  // log10(2)
#define CUDART_LGE M_LOG10E         // log10(e)
#define CUDART_LN2 M_LN2
#define CUDART_LNT M_LN10           // ln(10)
#define CUDART_LNPI 1.1447298858494002  // ln(pi)
