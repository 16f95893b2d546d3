// A 16-bit floating type and its pair, with CUDA's functions of them ("CUDA Math API", Half and Bfloat16).
//
// Included twice: cuda_fp16.h defines HALF as __half, cuda_bf16.h as __nv_bfloat16, and so on. Every operation is done
// in a wider type and rounded once, which gives what the GPU gives: a float has more than twice the digits, and where
// that is not enough a double does (Figueroa, "When is double rounding innocuous?", 1995).

struct HALF_RAW {
    unsigned short x;
};

struct HALF2_RAW {
    unsigned short x, y;
};

struct alignas(2) HALF {
    using Bits = ::cuda_on_cpu::Format<HALF_EXPONENT_BITS, 15 - HALF_EXPONENT_BITS>;
    unsigned short __x;

    HALF() = default;
    __forceinline__ constexpr HALF(HALF_RAW raw) : __x(raw.x) {}
    __forceinline__ operator HALF_RAW() const { return {__x}; }
#ifndef HALF_NO_CONVERSIONS
    __forceinline__ HALF(float x) : HALF(of(x)) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    __forceinline__ HALF(T x) : HALF(of(x)) {}
    __forceinline__ operator float() const { return value(); }
    __forceinline__ operator bool() const { return __x & 0x7fff; }
    // Not by way of float: a GPU clamps a half to the range of 8 and 16 bits, too.
#define CONVERTS_TO(T) \
    operator T() const { return ::cuda_on_cpu::to_integer<T>(value(), ::cuda_on_cpu::Rounding::zero); }
    CONVERTS_TO(char) CONVERTS_TO(signed char) CONVERTS_TO(short) CONVERTS_TO(int) CONVERTS_TO(long)
    CONVERTS_TO(unsigned char) CONVERTS_TO(unsigned short) CONVERTS_TO(unsigned int) CONVERTS_TO(unsigned long)
    CONVERTS_TO(long long) CONVERTS_TO(unsigned long long)
#undef CONVERTS_TO
#endif

    // What the functions below use: PyTorch compiles extensions without the conversions above, as nvcc's options show.
    __forceinline__ float value() const { return Bits::to_float(__x); }
    static __forceinline__ HALF of(float x) { return HALF_RAW{Bits::nearest(x)}; }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    static __forceinline__ HALF of(T x) {
        return HALF_RAW{Bits::template from<::cuda_on_cpu::Rounding::nearest>(::cuda_on_cpu::exact_or_odd(x))};
    }
};
CUDA_ON_CPU_SHUFFLES(HALF)

struct alignas(4) HALF2 {
    HALF x, y;

    HALF2() = default;
    __forceinline__ HALF2(HALF x, HALF y) : x(x), y(y) {}
    __forceinline__ HALF2(HALF2_RAW raw) : x(HALF_RAW{raw.x}), y(HALF_RAW{raw.y}) {}
    __forceinline__ operator HALF2_RAW() const { return {x.__x, y.__x}; }
};
CUDA_ON_CPU_SHUFFLES(HALF2)

template <> inline constexpr bool ::cuda_on_cpu::can_add<HALF> = true;
template <> inline constexpr bool ::cuda_on_cpu::can_add<HALF2> = true;

// ---- from and to other types ----------------------------------------------------------------------------------------

__forceinline__ HALF HALF_NAME(__ushort_as_, )(unsigned short bits) { return HALF_RAW{bits}; }
__forceinline__ HALF HALF_NAME(__short_as_, )(short bits) { return HALF_RAW{(unsigned short)bits}; }
__forceinline__ unsigned short HALF_NAME(__, _as_ushort)(HALF a) { return a.__x; }
__forceinline__ short HALF_NAME(__, _as_short)(HALF a) { return (short)a.__x; }

__forceinline__ float HALF_NAME(__, 2float)(HALF a) { return a.value(); }
__forceinline__ HALF HALF_NAME(__float2, )(float x) { return HALF::of(x); }
__forceinline__ HALF HALF_NAME(__double2, )(double x) { return HALF::of(x); }
#define FROM_NUMBER(ending, direction, name, T)                                                                   \
    inline HALF HALF_NAME(__##name##2, ending)(T x) {                                                             \
        return HALF_RAW{HALF::Bits::from<::cuda_on_cpu::Rounding::direction>(::cuda_on_cpu::exact_or_odd(x))};    \
    }
#define TO_INTEGER(ending, direction, name, T)                                         \
    inline T HALF_NAME(__, 2##name##ending)(HALF a) {                                  \
        return ::cuda_on_cpu::to_integer<T>(a.value(), ::cuda_on_cpu::Rounding::direction); \
    }
#define INTEGER(name, T)                               \
    CUDA_ON_CPU_ROUNDINGS(FROM_NUMBER, name, T)        \
    CUDA_ON_CPU_ROUNDINGS(TO_INTEGER, name, T)
CUDA_ON_CPU_ROUNDINGS(FROM_NUMBER, float, float)
INTEGER(int, int)
INTEGER(uint, unsigned int)
INTEGER(short, short)
INTEGER(ushort, unsigned short)
INTEGER(ll, long long)
INTEGER(ull, unsigned long long)
TO_INTEGER(_rz, zero, char, signed char)
TO_INTEGER(_rz, zero, uchar, unsigned char)
#undef INTEGER
#undef TO_INTEGER
#undef FROM_NUMBER

__forceinline__ HALF2 HALF_NAME(__halves2, 2)(HALF a, HALF b) { return {a, b}; }
__forceinline__ HALF2 HALF_NAME(make_, 2)(HALF a, HALF b) { return {a, b}; }
__forceinline__ HALF2 HALF_PAIR_NAME(__, )(HALF a) { return {a, a}; }
__forceinline__ HALF2 HALF_NAME(__float2, 2_rn)(float x) { return {HALF::of(x), HALF::of(x)}; }
__forceinline__ HALF2 HALF_NAME(__floats2, 2_rn)(float x, float y) { return {HALF::of(x), HALF::of(y)}; }
__forceinline__ HALF2 HALF_NAME(__float22, 2_rn)(float2 v) { return {HALF::of(v.x), HALF::of(v.y)}; }
__forceinline__ float2 HALF_NAME(__, 22float2)(HALF2 a) { return make_float2(a.x.value(), a.y.value()); }
__forceinline__ float __low2float(HALF2 a) { return a.x.value(); }
__forceinline__ float __high2float(HALF2 a) { return a.y.value(); }
__forceinline__ HALF HALF_NAME(__low2, )(HALF2 a) { return a.x; }
__forceinline__ HALF HALF_NAME(__high2, )(HALF2 a) { return a.y; }
__forceinline__ HALF2 HALF_NAME(__low2, 2)(HALF2 a) { return {a.x, a.x}; }
__forceinline__ HALF2 HALF_NAME(__high2, 2)(HALF2 a) { return {a.y, a.y}; }
__forceinline__ HALF2 HALF_NAME(__lows2, 2)(HALF2 a, HALF2 b) { return {a.x, b.x}; }
__forceinline__ HALF2 HALF_NAME(__highs2, 2)(HALF2 a, HALF2 b) { return {a.y, b.y}; }
__forceinline__ HALF2 __lowhigh2highlow(HALF2 a) { return {a.y, a.x}; }

// ---- arithmetic -----------------------------------------------------------------------------------------------------

#define IN_PAIRS_1(name, pair_name) \
    __forceinline__ HALF2 pair_name(HALF2 a) { return {name(a.x), name(a.y)}; }
#define IN_PAIRS_2(name, pair_name) \
    __forceinline__ HALF2 pair_name(HALF2 a, HALF2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define IN_PAIRS_3(name, pair_name) \
    __forceinline__ HALF2 pair_name(HALF2 a, HALF2 b, HALF2 c) { return {name(a.x, b.x, c.x), name(a.y, b.y, c.y)}; }

__forceinline__ HALF __habs(HALF a) { return HALF_RAW{(unsigned short)(a.__x & 0x7fff)}; }
__forceinline__ HALF __hneg(HALF a) { return HALF_RAW{(unsigned short)(a.__x ^ 0x8000)}; }
IN_PAIRS_1(__habs, __habs2)
IN_PAIRS_1(__hneg, __hneg2)

__forceinline__ HALF __hadd(HALF a, HALF b) { return HALF::of(a.value() + b.value()); }
__forceinline__ HALF __hsub(HALF a, HALF b) { return HALF::of(a.value() - b.value()); }
__forceinline__ HALF __hmul(HALF a, HALF b) { return HALF::of(a.value() * b.value()); }
__forceinline__ HALF __hdiv(HALF a, HALF b) { return HALF::of((double)a.value() / (double)b.value()); }
// The product is exact in a double. The sum may not be, and then keeps the side that it is on.
__forceinline__ HALF __hfma(HALF a, HALF b, HALF c) {
    return HALF::of(::cuda_on_cpu::odd_sum((double)a.value() * (double)b.value(), c.value()));
}
IN_PAIRS_2(__hadd, __hadd2)
IN_PAIRS_2(__hsub, __hsub2)
IN_PAIRS_2(__hmul, __hmul2)
IN_PAIRS_2(__hdiv, __h2div)
IN_PAIRS_3(__hfma, __hfma2)

// _rn is never fused, which nothing here is. _sat brings the result to 0...1, and NaN to 0; _relu what is below 0 to 0.
#define VARIANTS(name, pair_name)                                                                                  \
    __forceinline__ HALF name##_rn(HALF a, HALF b) { return name(a, b); }                                          \
    __forceinline__ HALF2 pair_name##_rn(HALF2 a, HALF2 b) { return pair_name(a, b); }                             \
    __forceinline__ HALF name##_sat(HALF a, HALF b) { return HALF::of(__saturatef(name(a, b).value())); }          \
    IN_PAIRS_2(name##_sat, pair_name##_sat)
VARIANTS(__hadd, __hadd2)
VARIANTS(__hsub, __hsub2)
VARIANTS(__hmul, __hmul2)
#undef VARIANTS
__forceinline__ HALF __hfma_sat(HALF a, HALF b, HALF c) { return HALF::of(__saturatef(__hfma(a, b, c).value())); }
__forceinline__ HALF __hfma_relu(HALF a, HALF b, HALF c) {
    HALF x = __hfma(a, b, c);
    return x.value() < 0 ? HALF::of(0.0f) : x;
}
IN_PAIRS_3(__hfma_sat, __hfma2_sat)
IN_PAIRS_3(__hfma_relu, __hfma2_relu)
// Complex numbers, real part first: a * b + c in four fused steps.
__forceinline__ HALF2 __hcmadd(HALF2 a, HALF2 b, HALF2 c) {
    HALF real = __hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), imaginary = __hfma(a.y, b.x, __hfma(a.x, b.y, c.y));
    return {real, imaginary};
}

// ---- comparisons ----------------------------------------------------------------------------------------------------

// With a u they also hold where one is a NaN. In pairs: each as 1 or 0, both at once (b), or each as all ones (_mask).
#define COMPARISON(short_name, expression)                                                                       \
    __forceinline__ bool __h##short_name(HALF a, HALF b) {                                                       \
        float x = a.value(), y = b.value();                                                                      \
        return expression;                                                                                       \
    }                                                                                                            \
    __forceinline__ HALF2 __h##short_name##2(HALF2 a, HALF2 b) {                                                 \
        return {HALF::of((float)__h##short_name(a.x, b.x)), HALF::of((float)__h##short_name(a.y, b.y))};         \
    }                                                                                                            \
    __forceinline__ bool __hb##short_name##2(HALF2 a, HALF2 b) {                                                 \
        return __h##short_name(a.x, b.x) && __h##short_name(a.y, b.y);                                           \
    }                                                                                                            \
    __forceinline__ unsigned int __h##short_name##2_mask(HALF2 a, HALF2 b) {                                     \
        return (__h##short_name(a.x, b.x) ? 0xffffu : 0) | (__h##short_name(a.y, b.y) ? 0xffff0000u : 0);        \
    }
COMPARISON(eq, x == y)
COMPARISON(ne, x < y || x > y)
COMPARISON(lt, x < y)
COMPARISON(le, x <= y)
COMPARISON(gt, x > y)
COMPARISON(ge, x >= y)
COMPARISON(equ, !(x < y || x > y))
COMPARISON(neu, x != y)
COMPARISON(ltu, !(x >= y))
COMPARISON(leu, !(x > y))
COMPARISON(gtu, !(x <= y))
COMPARISON(geu, !(x < y))
#undef COMPARISON

__forceinline__ bool __hisnan(HALF a) { return (a.__x & 0x7fffu) > HALF::Bits::infinity; }
__forceinline__ int __hisinf(HALF a) {
    return (a.__x & 0x7fffu) != HALF::Bits::infinity ? 0 : a.__x & 0x8000 ? -1 : 1;
}
__forceinline__ HALF2 __hisnan2(HALF2 a) { return {HALF::of((float)__hisnan(a.x)), HALF::of((float)__hisnan(a.y))}; }

// Of a number and a NaN, the number; with _nan, the NaN. -0 is below +0.
namespace cuda_on_cpu {
__forceinline__ bool is_below(HALF a, HALF b) {
    return a.value() < b.value() || (a.value() == b.value() && (a.__x & 0x8000) > (b.__x & 0x8000));
}
}  // namespace cuda_on_cpu
#define NOT_A_NUMBER HALF_RAW{(unsigned short)HALF::Bits::nan}
__forceinline__ HALF __hmin(HALF a, HALF b) {
    if (__hisnan(a)) return __hisnan(b) ? HALF(NOT_A_NUMBER) : b;
    return __hisnan(b) || ::cuda_on_cpu::is_below(a, b) ? a : b;
}
__forceinline__ HALF __hmax(HALF a, HALF b) {
    if (__hisnan(a)) return __hisnan(b) ? HALF(NOT_A_NUMBER) : b;
    return __hisnan(b) || ::cuda_on_cpu::is_below(b, a) ? a : b;
}
__forceinline__ HALF __hmin_nan(HALF a, HALF b) {
    return __hisnan(a) || __hisnan(b) ? HALF(NOT_A_NUMBER) : __hmin(a, b);
}
__forceinline__ HALF __hmax_nan(HALF a, HALF b) {
    return __hisnan(a) || __hisnan(b) ? HALF(NOT_A_NUMBER) : __hmax(a, b);
}
#undef NOT_A_NUMBER
IN_PAIRS_2(__hmin, __hmin2)
IN_PAIRS_2(__hmax, __hmax2)
IN_PAIRS_2(__hmin_nan, __hmin2_nan)
IN_PAIRS_2(__hmax_nan, __hmax2_nan)

#ifndef HALF_NO_CONVERSIONS  // of a number of another type: as that type
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
__forceinline__ T min(HALF a, T b) { return min((T)a, b); }
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
__forceinline__ T min(T a, HALF b) { return min(a, (T)b); }
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
__forceinline__ T max(HALF a, T b) { return max((T)a, b); }
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
__forceinline__ T max(T a, HALF b) { return max(a, (T)b); }
#endif

// ---- operators ------------------------------------------------------------------------------------------------------

#define OPERATOR(T, op, function)                                                       \
    __forceinline__ T operator op(const T& a, const T& b) { return function(a, b); }    \
    __forceinline__ T& operator op##=(T& a, const T& b) { return a = function(a, b); }
#define OPERATORS(T, add, sub, mul, div, neg, one)                            \
    OPERATOR(T, +, add)                                                       \
    OPERATOR(T, -, sub)                                                       \
    OPERATOR(T, *, mul)                                                       \
    OPERATOR(T, /, div)                                                       \
    __forceinline__ T operator+(const T& a) { return a; }                     \
    __forceinline__ T operator-(const T& a) { return neg(a); }                \
    __forceinline__ T& operator++(T& a) { return a = add(a, one); }           \
    __forceinline__ T& operator--(T& a) { return a = sub(a, one); }           \
    __forceinline__ T operator++(T& a, int) { T old = a; ++a; return old; }   \
    __forceinline__ T operator--(T& a, int) { T old = a; --a; return old; }
#ifndef HALF_NO_OPERATORS
OPERATORS(HALF, __hadd, __hsub, __hmul, __hdiv, __hneg, HALF::of(1.0f))
#endif
#ifndef HALF2_NO_OPERATORS
OPERATORS(HALF2, __hadd2, __hsub2, __hmul2, __h2div, __hneg2, HALF2(HALF::of(1.0f), HALF::of(1.0f)))
#endif
#undef OPERATORS
#undef OPERATOR
#define COMPARISONS(T, eq, ne, lt, le, gt, ge)                                       \
    __forceinline__ bool operator==(const T& a, const T& b) { return eq(a, b); }     \
    __forceinline__ bool operator!=(const T& a, const T& b) { return ne(a, b); }     \
    __forceinline__ bool operator<(const T& a, const T& b) { return lt(a, b); }      \
    __forceinline__ bool operator<=(const T& a, const T& b) { return le(a, b); }     \
    __forceinline__ bool operator>(const T& a, const T& b) { return gt(a, b); }      \
    __forceinline__ bool operator>=(const T& a, const T& b) { return ge(a, b); }
#ifndef HALF_NO_OPERATORS
COMPARISONS(HALF, __heq, __hneu, __hlt, __hle, __hgt, __hge)
#endif
#ifndef HALF2_NO_OPERATORS
COMPARISONS(HALF2, __hbeq2, __hbneu2, __hblt2, __hble2, __hbgt2, __hbge2)
#endif
#undef COMPARISONS

// ---- mathematics ----------------------------------------------------------------------------------------------------

#define FUNCTION(name, pair_name, function)                              \
    __forceinline__ HALF name(HALF a) { return HALF::of(function(a.value())); } \
    IN_PAIRS_1(name, pair_name)
FUNCTION(hsqrt, h2sqrt, sqrtf)
FUNCTION(hrsqrt, h2rsqrt, __frsqrt_rn)
FUNCTION(hrcp, h2rcp, 1.0 /)
FUNCTION(hexp, h2exp, expf)
FUNCTION(hexp2, h2exp2, exp2f)
FUNCTION(hexp10, h2exp10, exp10f)
FUNCTION(hlog, h2log, logf)
FUNCTION(hlog2, h2log2, log2f)
FUNCTION(hlog10, h2log10, log10f)
FUNCTION(hsin, h2sin, sinf)
FUNCTION(hcos, h2cos, cosf)
FUNCTION(htanh, h2tanh, tanhf)
FUNCTION(htanh_approx, h2tanh_approx, tanhf)
FUNCTION(hfloor, h2floor, floorf)
FUNCTION(hceil, h2ceil, ceilf)
FUNCTION(hrint, h2rint, rintf)
FUNCTION(htrunc, h2trunc, truncf)
#undef FUNCTION
#undef IN_PAIRS_1
#undef IN_PAIRS_2
#undef IN_PAIRS_3

#undef HALF
#undef HALF2
#undef HALF_RAW
#undef HALF2_RAW
#undef HALF_EXPONENT_BITS
#undef HALF_NAME
#undef HALF_NO_CONVERSIONS
#undef HALF_NO_OPERATORS
#undef HALF2_NO_OPERATORS
#undef HALF_PAIR_NAME
