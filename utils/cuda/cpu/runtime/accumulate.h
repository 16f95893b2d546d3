// How the tensor cores add up floating-point products: exact products, aligned to the largest, cut off, added, and
// rounded once for every few of them.
//
// What a GPU does was measured by others: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor
// cores" (2021), for V100, T4 and A100; Xie et al., "MMA-Sim: Bit-accurate reference model of tensor cores and matrix
// cores" (2025), and Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores" (2025), up to Blackwell. The table
// below is all that depends on the architecture.
#pragma once

#include <cmath>
#include <cstdint>

#include "../include/cuda_on_cpu/half_bits.h"
#include "../include/cuda_on_cpu/ptx/fragments.h"

namespace cuda_on_cpu {

struct Accumulation {
    int capability;  // from this one on
    int fraction;    // bits that a term keeps below the binary point of the largest one
    int bytes;       // so many of a row of A, and the accumulator, are added at once
};
constexpr Accumulation accumulations[] = {{75, 24, 16}, {90, 25, 32}};
// Numbers of 8 bits: Hopper has no such mma. nvcc converts the lower two of each four to f16, multiplies, adds the
// products of the upper two, and then the accumulator, rounded to nearest (HMMA, HMMA, FADD in the machine code).
// (Ada, which can do it, adds 16 at once and keeps 13 bits.)
// mma.m8n8k4 of f16 is Volta's and Turing's: from this capability on nvcc makes instructions for float of it.
constexpr int quads_by_fma = 80;
// wgmma has numbers of 8 bits: it adds all 32 products of an instruction at once, and cuts what it keeps in a float.
constexpr Accumulation warpgroup_fp8{90, 13, 32};
constexpr int warpgroup_fp8_mantissa = 13;

// What a number is for a sum: its value, and its exponent, that of the smallest normal number for those below.
struct Term {
    static constexpr int none = -10000, special = 20000;  // 0, and infinities and NaN
    double value;
    int16_t exponent;
};

template <int exponent_bits, int mantissa_bits>
Term term_of(uint32_t bits, float value) {  // of a format that has infinities
    constexpr int all = (1 << exponent_bits) - 1;
    const int e = bits >> mantissa_bits & all;
    if (e == all) return {value, Term::special};
    if (value == 0) return {value, Term::none};
    return {value, int16_t((e ? e : 1) - all / 2)};
}

inline Term term_of(ptx::Type type, uint32_t bits) {
    using ptx::Type;
    if (type == Type::f16) return term_of<5, 10>(bits, Format<5, 10>::to_float(bits));
    if (type == Type::bf16) return term_of<8, 7>(bits, Format<8, 7>::to_float(bits));
    if (type == Type::tf32) bits &= ~0x1fffu;
    if (type == Type::tf32 || type == Type::f32) return term_of<8, 23>(bits, bit_cast<float>(bits));
    if (type == Type::e5m2) return term_of<5, 2>(bits, Format<5, 10>::to_float(bits << 8));
    // e4m3: no infinities, and one NaN. Its exponent is 8 below that of an f16 with the same bits.
    if ((bits & 0x7f) == 0x7f) return {NAN, Term::special};
    const float value = Format<5, 10>::to_float((bits & 0x80) << 8 | (bits & 0x7f) << 7) * 256;
    const int e = bits >> 3 & 15;
    return {value, int16_t(value == 0 ? Term::none : (e ? e : 1) - 7)};
}

inline double power_of_two(int e) { return bit_cast<double>(uint64_t(1023 + e) << 52); }

// Rounded towards zero to a float; from 2^128 on, infinity.
inline uint32_t cut_to_float(double x) {
    if (x != x) return 0x7fffffff;
    if (std::fabs(x) >= 0x1p128) return bit_cast<uint32_t>(x > 0 ? INFINITY : -INFINITY);
    const uint64_t kept = ~((uint64_t(1) << (52 - 23)) - 1);
    if (std::fabs(x) >= 0x1p-126) return bit_cast<uint32_t>(float(bit_cast<double>(bit_cast<uint64_t>(x) & kept)));
    return bit_cast<uint32_t>(round_to<float>(x, Rounding::zero));
}

// Sums of `count` products and an accumulator.
struct Sums {
    int fraction;  // as in Accumulation
    bool half;     // the result is of f16, and rounded to nearest
    int mantissa = 23;  // bits of a float that the result keeps

    // The bits of the sum; a and b are `count` values, ea and eb their exponents.
    template <int count>
    uint32_t add(const double* a, const int16_t* ea, const double* b, const int16_t* eb, Term c) const {
        int most = c.value == 0 ? -126 : c.exponent;
        for (int i = 0; i < count; i++) most = std::max<int>(most, ea[i] + eb[i]);
        double sum;
        if (most < 5000) {
            const double scale = power_of_two(fraction - most);
            sum = double(int64_t(c.value * scale));
            for (int i = 0; i < count; i++) sum += int32_t(a[i] * b[i] * scale);
            sum *= power_of_two(most - fraction);
        } else {
            sum = c.value;
            for (int i = 0; i < count; i++) sum += a[i] * b[i];
        }
        if (half) return Format<5, 10>::from<Rounding::nearest>(sum);
        const uint32_t bits = cut_to_float(sum);
        return sum != sum ? bits : bits & ~0u << (23 - mantissa);
    }
};

}  // namespace cuda_on_cpu
