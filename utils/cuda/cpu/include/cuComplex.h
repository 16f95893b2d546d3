// Stands in for CUDA's header of this name when a source is compiled for the CPU: complex numbers as in C.
#pragma once

#define CU_COMPLEX_H_  // by which sources ask whether this header was included

#include <cmath>

#include "cuda_on_cpu/types.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

// Products are made of products and sums alone; quotients and absolute values are scaled, so nothing in between
// overflows. `f` is the letter that CUDA's names of single precision have.
#define CUDA_ON_CPU_COMPLEX(Complex, Real, make, f)                                                                \
    inline Real cuCreal##f(Complex x) { return x.x; }                                                              \
    inline Real cuCimag##f(Complex x) { return x.y; }                                                              \
    inline Complex make(Real re, Real im) { return {re, im}; }                                                     \
    inline Complex cuConj##f(Complex x) { return {x.x, -x.y}; }                                                    \
    inline Complex cuCadd##f(Complex x, Complex y) { return {x.x + y.x, x.y + y.y}; }                              \
    inline Complex cuCsub##f(Complex x, Complex y) { return {x.x - y.x, x.y - y.y}; }                              \
    inline Complex cuCmul##f(Complex x, Complex y) { return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }      \
    inline Complex cuCfma##f(Complex x, Complex y, Complex d) { return cuCadd##f(cuCmul##f(x, y), d); }            \
    inline Complex cuCdiv##f(Complex x, Complex y) {                                                               \
        Real scale = Real(1) / (std::fabs(y.x) + std::fabs(y.y));                                                  \
        Complex a = {x.x * scale, x.y * scale}, b = {y.x * scale, y.y * scale};                                    \
        Real norm = Real(1) / (b.x * b.x + b.y * b.y);                                                             \
        return {(a.x * b.x + a.y * b.y) * norm, (a.y * b.x - a.x * b.y) * norm};                                   \
    }                                                                                                              \
    inline Real cuCabs##f(Complex x) { return std::hypot(x.x, x.y); }
CUDA_ON_CPU_COMPLEX(cuFloatComplex, float, make_cuFloatComplex, f)
CUDA_ON_CPU_COMPLEX(cuDoubleComplex, double, make_cuDoubleComplex, )
#undef CUDA_ON_CPU_COMPLEX

inline cuComplex make_cuComplex(float re, float im) { return {re, im}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return {float(x.x), float(x.y)}; }
