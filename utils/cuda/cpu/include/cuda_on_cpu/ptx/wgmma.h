// wgmma: products that four warps, a warpgroup, start together and that go on by themselves ("PTX ISA", Asynchronous
// Warpgroup Level Matrix Multiply-Accumulate Instructions). runtime/warpgroups.cpp does the work.
//
// An accumulator is known by its address: it gets its value when a thread waits for the product, and not before.
#pragma once

#include <cstddef>

#include "../launch.h"
#include "fragments.h"

namespace cuda_on_cpu {

// d = a * b + d, with a of 64 x k and b of k x n.
struct WarpgroupProduct {
    uint16_t n, k;
    ptx::Type d, a, b;
    bool saturate, a_in_registers;
    bool negate_a, negate_b;
    bool a_columns, b_rows;  // imm-trans-a, imm-trans-b: neighbours in memory are along m or n, not along k
    friend bool operator==(const WarpgroupProduct& x, const WarpgroupProduct& y) {
        return x.n == y.n && x.k == y.k && x.d == y.d && x.a == y.a && x.b == y.b && x.saturate == y.saturate &&
               x.a_in_registers == y.a_in_registers && x.negate_a == y.negate_a && x.negate_b == y.negate_b &&
               x.a_columns == y.a_columns && x.b_rows == y.b_rows;
    }
};

// The four registers of A, where they are in registers: what they hold, and which variables they come from.
struct RegistersOfA {
    uint32_t values[4];
    const void* places[4];
};

// `d` has the addresses of the accumulators' registers. `a` is a descriptor; or `in_registers` is given.
void warpgroup_multiply(const WarpgroupProduct& product, void* const* d, uint64_t a, const RegistersOfA* in_registers,
                        uint64_t b, bool adds);
void warpgroup_fence();
void warpgroup_commit();
void warpgroup_wait(uint32_t prior);

}  // namespace cuda_on_cpu

namespace cuda_on_cpu::ptx {

// The address of an operand that is a variable.
template <class T>
__forceinline__ void* place_of(T& operand) {
    static_assert(sizeof(T) == 4, "a register of wgmma has 32 bits");
    return (void*)&operand;
}
// The same if it is one.
template <class T>
__forceinline__ const void* place_if_any(const T& operand) { return &operand; }
template <class T>
__forceinline__ const void* place_if_any(const T&&) { return nullptr; }

constexpr bool has_warpgroup_shape(Type a, int n, int k) {
    const int bits = a == Type::tf32 ? 32 : bits_of(a);
    const bool whole = a == Type::s8 || a == Type::u8 || a == Type::b1;
    return n >= 8 && n <= 256 && n % 8 == 0 && (!whole || n == 8 || n == 24 || n % 16 == 0) && k * bits == 256;
}

template <int N, int K, class D, class A, class B, bool saturate, bool negate_a, bool negate_b, bool a_columns,
          bool b_rows, size_t count>
__forceinline__ void wgmma(void* const (&d)[count], uint64_t a, uint64_t b, bool adds) {
    static_assert(has_warpgroup_shape(A::type, N, K), "wgmma has no such shape for these types");
    static_assert(count * 64 == size_t(N) * bits_of(D::type), "wgmma has another number of accumulators");
    static constexpr WarpgroupProduct product{N,     K,        D::type,  A::type,   B::type, saturate,
                                              false, negate_a, negate_b, a_columns, b_rows};
    ::cuda_on_cpu::warpgroup_multiply(product, d, a, nullptr, b, adds);
}

template <int N, int K, class D, class A, class B, bool saturate, bool negate_a, bool negate_b, bool a_columns,
          bool b_rows, size_t count>
__forceinline__ void wgmma(void* const (&d)[count], const RegistersOfA& a, uint64_t b, bool adds) {
    static_assert(has_warpgroup_shape(A::type, N, K), "wgmma has no such shape for these types");
    static_assert(count * 64 == size_t(N) * bits_of(D::type), "wgmma has another number of accumulators");
    static constexpr WarpgroupProduct product{N,    K,        D::type,  A::type,   B::type, saturate,
                                              true, negate_a, negate_b, a_columns, b_rows};
    ::cuda_on_cpu::warpgroup_multiply(product, d, 0, &a, b, adds);
}

__forceinline__ void wgmma_fence() { ::cuda_on_cpu::warpgroup_fence(); }
__forceinline__ void wgmma_commit() { ::cuda_on_cpu::warpgroup_commit(); }
__forceinline__ void wgmma_wait(uint32_t prior) { ::cuda_on_cpu::warpgroup_wait(prior); }

}  // namespace cuda_on_cpu::ptx
