// Less common functions of the "CUDA Math API": most of their work is done in runtime/mathematics.cpp, so that they
// cost a compilation next to nothing.
#pragma once

#include "floats.h"

namespace cuda_on_cpu {

enum class Operation { add, multiply, divide, root, fused };
double directed(Operation operation, Rounding rounding, double a, double b = 0, double c = 0);
double inverse_of_erf(double y);
double inverse_of_erfc(double y);
double inverse_of_normcdf(double y);
double bessel_i0(double x);
double bessel_i1(double x);
double length(int dimensions, const double* x);  // of a vector

template <class... F>
double length_of(F... x) {
    const double all[] = {x...};
    return length(sizeof...(x), all);
}
template <class F>
double length_of_array(int dimensions, const F* x) {
    double sum = 0;
    for (int i = 0; i < dimensions; i++) sum = length_of(sum, (double)x[i]);
    return sum;
}

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_SPECIAL(name, function)                        \
    inline double name(double x) { return cuda_on_cpu::function(x); } \
    inline float name(float x) { return (float)cuda_on_cpu::function(x); } \
    inline float name##f(float x) { return (float)cuda_on_cpu::function(x); }
CUDA_ON_CPU_SPECIAL(erfinv, inverse_of_erf)
CUDA_ON_CPU_SPECIAL(erfcinv, inverse_of_erfc)
CUDA_ON_CPU_SPECIAL(normcdfinv, inverse_of_normcdf)
CUDA_ON_CPU_SPECIAL(cyl_bessel_i0, bessel_i0)
CUDA_ON_CPU_SPECIAL(cyl_bessel_i1, bessel_i1)
#undef CUDA_ON_CPU_SPECIAL

inline double rhypot(double x, double y) { return 1 / cuda_on_cpu::length_of(x, y); }
inline double norm3d(double x, double y, double z) { return cuda_on_cpu::length_of(x, y, z); }
inline double rnorm3d(double x, double y, double z) { return 1 / cuda_on_cpu::length_of(x, y, z); }
inline double norm4d(double x, double y, double z, double w) { return cuda_on_cpu::length_of(x, y, z, w); }
inline double rnorm4d(double x, double y, double z, double w) { return 1 / cuda_on_cpu::length_of(x, y, z, w); }
inline double norm(int dimensions, const double* x) { return cuda_on_cpu::length_of_array(dimensions, x); }
inline double rnorm(int dimensions, const double* x) { return 1 / cuda_on_cpu::length_of_array(dimensions, x); }
inline float normf(int dimensions, const float* x) { return (float)cuda_on_cpu::length_of_array(dimensions, x); }
inline float rnormf(int dimensions, const float* x) { return (float)(1 / cuda_on_cpu::length_of_array(dimensions, x)); }

#define CUDA_ON_CPU_DIRECTED(ending, direction, ...)                                                                  \
    inline double __dadd##ending(double x, double y) {                                                                \
        return cuda_on_cpu::directed(cuda_on_cpu::Operation::add, cuda_on_cpu::Rounding::direction, x, y);            \
    }                                                                                                                 \
    inline double __dsub##ending(double x, double y) { return __dadd##ending(x, -y); }                                \
    inline double __dmul##ending(double x, double y) {                                                                \
        return cuda_on_cpu::directed(cuda_on_cpu::Operation::multiply, cuda_on_cpu::Rounding::direction, x, y);       \
    }                                                                                                                 \
    inline double __ddiv##ending(double x, double y) {                                                                \
        return cuda_on_cpu::directed(cuda_on_cpu::Operation::divide, cuda_on_cpu::Rounding::direction, x, y);         \
    }                                                                                                                 \
    inline double __drcp##ending(double x) { return __ddiv##ending(1, x); }                                           \
    inline double __dsqrt##ending(double x) {                                                                         \
        return cuda_on_cpu::directed(cuda_on_cpu::Operation::root, cuda_on_cpu::Rounding::direction, x);              \
    }                                                                                                                 \
    inline double __fma##ending(double x, double y, double z) {                                                       \
        return cuda_on_cpu::directed(cuda_on_cpu::Operation::fused, cuda_on_cpu::Rounding::direction, x, y, z);       \
    }                                                                                                                 \
    inline float __fmaf_ieee##ending(float x, float y, float z) { return __fmaf##ending(x, y, z); }
CUDA_ON_CPU_DIRECTED(_rz, zero)
CUDA_ON_CPU_DIRECTED(_ru, up)
CUDA_ON_CPU_DIRECTED(_rd, down)
#undef CUDA_ON_CPU_DIRECTED
inline float __fmaf_ieee_rn(float x, float y, float z) { return fmaf(x, y, z); }

// ---- one name for float and double ----------------------------------------------------------------------------------

#define CUDA_ON_CPU_ALSO_FLOAT(name) \
    inline float name(float x) { return name##f(x); }
CUDA_ON_CPU_ALSO_FLOAT(rsqrt)
CUDA_ON_CPU_ALSO_FLOAT(rcbrt)
CUDA_ON_CPU_ALSO_FLOAT(exp10)
CUDA_ON_CPU_ALSO_FLOAT(sinpi)
CUDA_ON_CPU_ALSO_FLOAT(cospi)
CUDA_ON_CPU_ALSO_FLOAT(normcdf)
CUDA_ON_CPU_ALSO_FLOAT(erfcx)
CUDA_ON_CPU_ALSO_FLOAT(j0)
CUDA_ON_CPU_ALSO_FLOAT(j1)
CUDA_ON_CPU_ALSO_FLOAT(y0)
CUDA_ON_CPU_ALSO_FLOAT(y1)
#undef CUDA_ON_CPU_ALSO_FLOAT
inline float jn(int n, float x) { return jnf(n, x); }
inline float yn(int n, float x) { return ynf(n, x); }
inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
inline void sincospi(float x, float* s, float* c) { sincospif(x, s, c); }
inline double fdivide(double x, double y) { return x / y; }

inline int __isfinited(double x) { return __builtin_isfinite(x); }
inline int __isfinitef(float x) { return __builtin_isfinite(x); }
inline int __isnand(double x) { return __builtin_isnan(x); }
inline int __isinfd(double x) { return __builtin_isinf(x); }
inline int __signbitd(double x) { return __builtin_signbit(x) != 0; }
