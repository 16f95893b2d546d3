// mma.sync: a product of two matrices that a warp holds in registers. Translated asm calls `mma`, include/mma.h too.
#pragma once

#include <cstddef>

#include "fragments.h"

namespace cuda_on_cpu::ptx {

// The shapes of sm_75 to sm_90, by the type of A ("PTX ISA", mma).
constexpr bool has_shape(Type a, Type d, int m, int n, int k) {
    const bool tall = m == 16 && n == 8, small = m == 8 && n == 8;
    switch (a) {
        case Type::f16: return (tall && (k == 8 || k == 16)) && (d == Type::f16 || d == Type::f32);
        case Type::bf16: return tall && (k == 8 || k == 16) && d == Type::f32;
        case Type::tf32: return tall && (k == 4 || k == 8) && d == Type::f32;
        case Type::e4m3: case Type::e5m2:
            return tall && (k == 16 || k == 32) && (d == Type::f16 || d == Type::f32);
        case Type::f64: return ((small && k == 4) || (tall && (k == 4 || k == 8 || k == 16))) && d == Type::f64;
        case Type::s8: case Type::u8: return ((small && k == 16) || (tall && (k == 16 || k == 32))) && d == Type::s32;
        case Type::s4: case Type::u4: return ((small && k == 32) || (tall && (k == 32 || k == 64))) && d == Type::s32;
        case Type::b1: return ((small && k == 128) || (tall && (k == 128 || k == 256))) && d == Type::s32;
        default: return false;
    }
}
constexpr bool are_mixed(Type a, Type b) {  // whether one instruction takes both
    auto kind = [](Type t) {
        return t == Type::u8 ? Type::s8 : t == Type::u4 ? Type::s4 : t == Type::e5m2 ? Type::e4m3 : t;
    };
    return kind(a) == kind(b);
}

// Operands in registers: uint32_t, or uint64_t for f64.
template <int M, int N, int K, class D, class A, class B, class C, bool saturate = false, class Rd, class Ra, class Rb,
          class Rc, size_t nd, size_t na, size_t nb, size_t nc>
__forceinline__ void mma(Rd (&d)[nd], const Ra (&a)[na], const Rb (&b)[nb], const Rc (&c)[nc]) {
    static_assert(has_shape(A::type, D::type, M, N, K) && are_mixed(A::type, B::type), "mma has no such shape and types");
    static_assert(C::type == D::type || (A::type == Type::f16 && is_float(C::type)), "c has another type than d");
    static_assert(32 * 8 * sizeof a == M * K * bits_of(A::type) && 32 * 8 * sizeof b == K * N * bits_of(B::type) &&
                      32 * 8 * sizeof d == M * N * bits_of(D::type) && 32 * 8 * sizeof c == M * N * bits_of(C::type),
                  "an operand has another number of registers");
    constexpr bool bit_and = std::is_same_v<A, b1_and>;
    static constexpr Product product{M, N, K, D::type, A::type, B::type, C::type, saturate, bit_and};
    ::cuda_on_cpu::multiply(product, d, a, b, c, "mma.sync");
}

// mma.m8n8k4 of f16: four products of 8 x 8 x 4, each by eight lanes. `Row` or `Column` of A and B.
template <bool a_columns, bool b_rows, class D, class C, size_t nd, size_t nc>
__forceinline__ void mma_of_quads(uint32_t (&d)[nd], const uint32_t (&a)[2], const uint32_t (&b)[2],
                                  const uint32_t (&c)[nc]) {
    static_assert(nd == (D::type == Type::f16 ? 4 : 8) && nc == (C::type == Type::f16 ? 4 : 8),
                  "an operand has another number of registers");
    static constexpr Product product{8, 8, 4, D::type, Type::f16, Type::f16, C::type, false, false, true, a_columns,
                                     b_rows};
    ::cuda_on_cpu::multiply(product, d, a, b, c, "mma.sync");
}

}  // namespace cuda_on_cpu::ptx
