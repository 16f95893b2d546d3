// Stands in for torch's header of this name: one name for a function of float and of double.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace c10::cuda::compat {
using std::abs;
using std::ceil;
using std::copysign;
using std::exp;
using std::floor;
using std::log;
using std::log1p;
using std::pow;
using std::sqrt;
using std::tan;
using std::tanh;
inline float max(float a, float b) { return std::fmax(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
inline float min(float a, float b) { return std::fmin(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float normcdf(float x) { return 0.5f * std::erfc(-x * 0.70710678118654752f); }
inline double normcdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752); }
inline void sincos(float x, float* sine, float* cosine) { *sine = std::sin(x), *cosine = std::cos(x); }
inline void sincos(double x, double* sine, double* cosine) { *sine = std::sin(x), *cosine = std::cos(x); }
}  // namespace c10::cuda::compat
