// Stands in for CUDA's header of this name: numbers of 8 bits, E4M3 (largest 448, no infinity) and E5M2 (57344), as in
// "FP8 Formats for Deep Learning" (Micikevicius et al., 2022); and E8M0, the powers of two that scale blocks of them
// ("OCP Microscaling Formats (MX) Specification", 2023).
#pragma once
#define __CUDA_FP8_H__
#define __CUDA_FP8_TYPES_EXIST__
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
// What is too large becomes NaN (E4M3) or infinity (E5M2), or the largest number.
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace cuda_on_cpu {

struct Fp8 {
    int digits, bias;                  // bits of the mantissa
    unsigned char largest, too_large;  // as bits
};
constexpr Fp8 fp8_format(__nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Fp8{3, 7, 0x7e, 0x7f} : Fp8{2, 15, 0x7b, 0x7c};
}

// Rounded once, to nearest, ties to even.
inline __nv_fp8_storage_t to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    const Fp8 format = fp8_format(kind);
    const unsigned char sign = bit_cast<uint64_t>(x) >> 63 << 7, over = saturate ? format.largest : format.too_large;
    const double size = fabs(x);
    if (x != x) return 0x7f;
    if (size > 65536) return sign | over;
    const int smallest = 1 - format.bias, own = size == 0 ? smallest : ilogb(size);
    const int exponent = own < smallest ? smallest : own;
    // The first digit of a normal number counts the exponent up by one; so does a carry out of the mantissa.
    const int digits = (int)rint(ldexp(size, format.digits - exponent));
    const int bits = ((exponent - smallest) << format.digits) + digits;
    return sign | (bits > format.largest ? over : bits);
}
inline float from_fp8(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
    const Fp8 format = fp8_format(kind);
    const int size = bits & 0x7f, exponent = size >> format.digits, mantissa = size & ((1 << format.digits) - 1);
    float x = exponent ? ldexpf((1 << format.digits) + mantissa, exponent - format.bias - format.digits)
                       : ldexpf(mantissa, 1 - format.bias - format.digits);
    if (size > format.largest) x = size == 0x7c && kind == __NV_E5M2 ? INFINITY : NAN;
    return bits & 0x80 ? -x : x;
}
// Conversions are called by name: torch leaves out the operators (__CUDA_NO_HALF_CONVERSIONS__).
inline float value(__half_raw x) { return __half2float(__half(x)); }
inline float value(__nv_bfloat16_raw x) { return __bfloat162float(__nv_bfloat16(x)); }

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_TO_FP8(name, pair_name, T, T2)                                                                   \
    inline __nv_fp8_storage_t name(T x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {                \
        return cuda_on_cpu::to_fp8(CUDA_ON_CPU_VALUE(x), saturate, kind);                                            \
    }                                                                                                                \
    inline __nv_fp8x2_storage_t pair_name(T2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {        \
        return (__nv_fp8x2_storage_t)(name({x.x}, saturate, kind) | name({x.y}, saturate, kind) << 8);               \
    }
#define CUDA_ON_CPU_VALUE(x) x
CUDA_ON_CPU_TO_FP8(__nv_cvt_float_to_fp8, __nv_cvt_float2_to_fp8x2, float, float2)
CUDA_ON_CPU_TO_FP8(__nv_cvt_double_to_fp8, __nv_cvt_double2_to_fp8x2, double, double2)
#undef CUDA_ON_CPU_VALUE
#define CUDA_ON_CPU_VALUE(x) cuda_on_cpu::value(x)
CUDA_ON_CPU_TO_FP8(__nv_cvt_halfraw_to_fp8, __nv_cvt_halfraw2_to_fp8x2, __half_raw, __half2_raw)
CUDA_ON_CPU_TO_FP8(__nv_cvt_bfloat16raw_to_fp8, __nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat16_raw, __nv_bfloat162_raw)
#undef CUDA_ON_CPU_VALUE
#undef CUDA_ON_CPU_TO_FP8

inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __float2half(cuda_on_cpu::from_fp8(x, kind));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(x & 0xff, kind).x, __nv_cvt_fp8_to_halfraw(x >> 8, kind).x};
}

#define CUDA_ON_CPU_FP8(name, kind)                                                                                  \
    struct name {                                                                                                    \
        __nv_fp8_storage_t __x;                                                                                      \
        name() = default;                                                                                            \
        template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                                        \
        explicit constexpr name(T x) : __x(cuda_on_cpu::to_fp8((double)x, __NV_SATFINITE, kind)) {}                            \
        explicit name(__half x) : name(__half2float(x)) {}                                                           \
        explicit name(__nv_bfloat16 x) : name(__bfloat162float(x)) {}                                                \
        explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, kind); }                              \
        explicit operator __nv_bfloat16() const { return __float2bfloat16((float)*this); }                           \
        explicit operator float() const { return cuda_on_cpu::from_fp8(__x, kind); }                                 \
        explicit operator double() const { return (float)*this; }                                                    \
        explicit operator bool() const { return (__x & 0x7f) != 0; }                                                 \
        template <class T, class = std::enable_if_t<std::is_integral_v<T>>>                                          \
        explicit operator T() const { return cuda_on_cpu::to_integer<T>((float)*this, cuda_on_cpu::Rounding::zero); } \
    };
#define CUDA_ON_CPU_FP8_PAIRS(name, one, kind)                                                                       \
    struct alignas(2) name {                                                                                         \
        __nv_fp8x2_storage_t __x;                                                                                    \
        name() = default;                                                                                            \
        explicit name(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, kind)) {}                          \
        explicit name(double2 v) : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, kind)) {}                        \
        explicit name(__half2 v) : name(__half22float2(v)) {}                                                        \
        explicit name(__nv_bfloat162 v) : name(__bfloat1622float2(v)) {}                                             \
        explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind); }                          \
        explicit operator float2() const {                                                                           \
            return {cuda_on_cpu::from_fp8(__x & 0xff, kind), cuda_on_cpu::from_fp8(__x >> 8, kind)};                 \
        }                                                                                                            \
    };
#define CUDA_ON_CPU_FP8_FOURS(name, pair, kind)                                                                      \
    struct alignas(4) name {                                                                                         \
        __nv_fp8x4_storage_t __x;                                                                                    \
        name() = default;                                                                                            \
        explicit name(float4 v) : __x(pair(float2{v.x, v.y}).__x | (unsigned)pair(float2{v.z, v.w}).__x << 16) {}    \
        template <class D4, class = decltype(D4::w, std::enable_if_t<sizeof(D4) == 32>())>                           \
        explicit name(D4 v) : __x(pair(double2{v.x, v.y}).__x | (unsigned)pair(double2{v.z, v.w}).__x << 16) {}      \
        name(__half2 low, __half2 high) : __x(pair(low).__x | (unsigned)pair(high).__x << 16) {}                     \
        name(__nv_bfloat162 low, __nv_bfloat162 high) : __x(pair(low).__x | (unsigned)pair(high).__x << 16) {}       \
        explicit operator float4() const {                                                                           \
            pair low, high;                                                                                          \
            low.__x = __x & 0xffff, high.__x = __x >> 16;                                                            \
            return {float2(low).x, float2(low).y, float2(high).x, float2(high).y};                                   \
        }                                                                                                            \
    };
CUDA_ON_CPU_FP8(__nv_fp8_e4m3, __NV_E4M3)
CUDA_ON_CPU_FP8(__nv_fp8_e5m2, __NV_E5M2)
CUDA_ON_CPU_FP8_PAIRS(__nv_fp8x2_e4m3, __nv_fp8_e4m3, __NV_E4M3)
CUDA_ON_CPU_FP8_PAIRS(__nv_fp8x2_e5m2, __nv_fp8_e5m2, __NV_E5M2)
CUDA_ON_CPU_FP8_FOURS(__nv_fp8x4_e4m3, __nv_fp8x2_e4m3, __NV_E4M3)
CUDA_ON_CPU_FP8_FOURS(__nv_fp8x4_e5m2, __nv_fp8x2_e5m2, __NV_E5M2)
#undef CUDA_ON_CPU_FP8
#undef CUDA_ON_CPU_FP8_PAIRS
#undef CUDA_ON_CPU_FP8_FOURS

// ---- scales ---------------------------------------------------------------------------------------------------------

namespace cuda_on_cpu {

// 2^(bits - 127), the power below or above |x|; 0xff is NaN. Zero becomes the smallest.
inline __nv_fp8_storage_t to_scale(double x, __nv_saturation_t saturate, cudaRoundMode rounding) {
    const double size = fabs(x);
    if (x != x) return 0xff;
    if (size == INFINITY) return saturate ? 0xfe : 0xff;
    if (size <= 0x1p-127) return 0;
    const bool up = rounding == cudaRoundPosInf;
    const int bits = ilogb(size) + 127 + (up && size > ldexp(1, ilogb(size)));
    return bits <= 0xfe ? bits : up && !saturate ? 0xff : 0xfe;
}
inline float from_scale(__nv_fp8_storage_t bits) { return bits == 0xff ? NAN : ldexpf(1, bits - 127); }

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_TO_SCALE(name, pair_name, T, T2, value)                                                          \
    inline __nv_fp8_storage_t name(T x, __nv_saturation_t saturate, cudaRoundMode rounding) {                        \
        return cuda_on_cpu::to_scale(value(x), saturate, rounding);                                                  \
    }                                                                                                                \
    inline __nv_fp8x2_storage_t pair_name(T2 x, __nv_saturation_t saturate, cudaRoundMode rounding) {                \
        return (__nv_fp8x2_storage_t)(name({x.x}, saturate, rounding) | name({x.y}, saturate, rounding) << 8);       \
    }
CUDA_ON_CPU_TO_SCALE(__nv_cvt_float_to_e8m0, __nv_cvt_float2_to_e8m0x2, float, float2, )
CUDA_ON_CPU_TO_SCALE(__nv_cvt_double_to_e8m0, __nv_cvt_double2_to_e8m0x2, double, double2, )
CUDA_ON_CPU_TO_SCALE(__nv_cvt_bfloat16raw_to_e8m0, __nv_cvt_bfloat162raw_to_e8m0x2, __nv_bfloat16_raw,
                     __nv_bfloat162_raw, cuda_on_cpu::value)
#undef CUDA_ON_CPU_TO_SCALE

inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    return __float2bfloat16(cuda_on_cpu::from_scale(x));
}
inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return {__nv_cvt_e8m0_to_bf16raw(x & 0xff).x, __nv_cvt_e8m0_to_bf16raw(x >> 8).x};
}

struct __nv_fp8_e8m0 {
    __nv_fp8_storage_t __x;
    __nv_fp8_e8m0() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit constexpr __nv_fp8_e8m0(T x) : __x(cuda_on_cpu::to_scale((double)x, __NV_SATFINITE, cudaRoundPosInf)) {}
    explicit __nv_fp8_e8m0(__half x) : __nv_fp8_e8m0(__half2float(x)) {}
    explicit __nv_fp8_e8m0(__nv_bfloat16 x) : __nv_fp8_e8m0(__bfloat162float(x)) {}
    explicit operator __half() const { return __float2half((float)*this); }
    explicit operator __nv_bfloat16() const { return __nv_cvt_e8m0_to_bf16raw(__x); }
    explicit operator float() const { return cuda_on_cpu::from_scale(__x); }
    explicit operator double() const { return (float)*this; }
    explicit operator bool() const { return true; }  // no power of two is zero
    template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
    explicit operator T() const { return cuda_on_cpu::to_integer<T>((float)*this, cuda_on_cpu::Rounding::zero); }
};
struct alignas(2) __nv_fp8x2_e8m0 {
    __nv_fp8x2_storage_t __x;
    __nv_fp8x2_e8m0() = default;
    explicit __nv_fp8x2_e8m0(float2 v) : __x(__nv_cvt_float2_to_e8m0x2(v, __NV_SATFINITE, cudaRoundPosInf)) {}
    explicit __nv_fp8x2_e8m0(double2 v) : __x(__nv_cvt_double2_to_e8m0x2(v, __NV_SATFINITE, cudaRoundPosInf)) {}
    explicit __nv_fp8x2_e8m0(__half2 v) : __nv_fp8x2_e8m0(__half22float2(v)) {}
    explicit __nv_fp8x2_e8m0(__nv_bfloat162 v) : __nv_fp8x2_e8m0(__bfloat1622float2(v)) {}
    explicit operator __nv_bfloat162() const { return __nv_cvt_e8m0x2_to_bf162raw(__x); }
    explicit operator __half2() const { return __float22half2_rn((float2)*this); }
    explicit operator float2() const { return {cuda_on_cpu::from_scale(__x & 0xff), cuda_on_cpu::from_scale(__x >> 8)}; }
};
