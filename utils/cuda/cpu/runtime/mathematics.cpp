// CUDA's functions of double numbers that neither C++ nor glibc has. The headers declare them (cuda_on_cpu/special.h).
#include <cfenv>
#include <cmath>
#include <limits>

#include "cuda_on_cpu/special.h"

namespace cuda_on_cpu {

// One operation with the processor's own rounding set for it. It sees its operands and the result only through
// `volatile`, so no compiler moves it out from between the two calls.
double directed(Operation operation, Rounding rounding, double a, double b, double c) {
    static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    volatile double x = a, y = b, z = c, result = 0;
    const int before = fegetround();
    fesetround(modes[int(rounding)]);
    switch (operation) {
        case Operation::add: result = x + y; break;
        case Operation::multiply: result = x * y; break;
        case Operation::divide: result = x / y; break;
        case Operation::root: result = std::sqrt(x); break;
        case Operation::fused: result = std::fma(x, y, z); break;
    }
    fesetround(before);
    return result;
}

// x with erfc(x) = y, for 0 < y < 1. Beginning with the first terms of the asymptotic series (DLMF 7.12.1), Newton's
// steps with Halley's correction, which triple the correct digits.
static double root_of_erfc(double y) {
    const double two_over_root_of_pi = 2 / std::sqrt(M_PI);
    double x = 0;
    if (y < 0.5) {
        x = std::sqrt(-std::log(y));
        for (int i = 0; i < 2; i++) x = std::sqrt(-std::log(y * x * std::sqrt(M_PI)));
        if (!(x > 0.3)) x = 0.3;
    } else {
        x = (1 - y) / two_over_root_of_pi;
    }
    for (int i = 0; i < 6; i++) {
        const double slope = two_over_root_of_pi * std::exp(-x * x);
        if (slope == 0) break;
        const double step = (std::erfc(x) - y) / slope;
        x += step / (1 - x * step);
    }
    return x;
}
// The same for erf(x) = y near 0, where erfc would lose digits.
static double root_of_erf(double y) {
    const double two_over_root_of_pi = 2 / std::sqrt(M_PI);
    double x = y / two_over_root_of_pi;
    for (int i = 0; i < 5; i++) {
        const double step = (std::erf(x) - y) / (two_over_root_of_pi * std::exp(-x * x));
        x -= step / (1 + x * step);
    }
    return x;
}

double inverse_of_erf(double y) {
    if (!(std::fabs(y) < 1)) return std::fabs(y) == 1 ? y * INFINITY : NAN;
    if (std::fabs(y) < 0.5) return y == 0 ? y : root_of_erf(y);
    return std::copysign(root_of_erfc(1 - std::fabs(y)), y);
}
double inverse_of_erfc(double y) {
    if (!(y > 0 && y < 2)) return y == 0 ? INFINITY : y == 2 ? -INFINITY : NAN;
    if (y > 0.5 && y < 1.5) return inverse_of_erf(1 - y);
    return y < 1 ? root_of_erfc(y) : -root_of_erfc(2 - y);
}
double inverse_of_normcdf(double y) { return -M_SQRT2 * inverse_of_erfc(2 * y); }

// The modified Bessel functions, of which the first is even and the second odd. From 714 on, no double holds them.
static double bessel(double order, double x) {
    return std::fabs(x) < 714 || std::isnan(x) ? std::cyl_bessel_i(order, std::fabs(x)) : INFINITY;
}
double bessel_i0(double x) { return bessel(0, x); }
double bessel_i1(double x) { return std::copysign(bessel(1, x), x); }

// Scaled, so that no square is too large or too small.
double length(int dimensions, const double* x) {
    double largest = 0, sum = 0;
    for (int i = 0; i < dimensions; i++) {
        if (std::isinf(x[i])) return INFINITY;
        largest = std::fabs(x[i]) > largest || std::isnan(x[i]) ? std::fabs(x[i]) : largest;
    }
    if (largest == 0 || std::isnan(largest)) return largest;
    const int exponent = std::ilogb(largest);
    for (int i = 0; i < dimensions; i++) sum += std::pow(std::ldexp(x[i], -exponent), 2);
    return std::ldexp(std::sqrt(sum), exponent);
}

}  // namespace cuda_on_cpu
