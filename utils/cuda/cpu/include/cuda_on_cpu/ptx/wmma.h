// wmma: fragments that a warp loads, multiplies and stores as a whole. Translated asm calls `wmma_load`, `wmma_mma` and
// `wmma_store`; nvcuda::wmma (include/mma.h) has the same fragments. Their registers hold what fragments.h says.
#pragma once

#include <cstddef>
#include <type_traits>

#include "fragments.h"

namespace cuda_on_cpu {

// In memory: `columns` if elements of a column are neighbours.
struct Tile {
    enum Use : uint8_t { a, b, c } use;
    uint8_t m, n;
    uint16_t k;
    ptx::Type type;
    uint16_t held;  // elements of a lane, some of them twice
};
// In runtime/fragments.cpp: a lane's part of a tile between memory and its registers, the array `x`.
void load_fragment(const Tile& tile, void* x, const void* from, unsigned int stride, bool columns, const char* name);
void store_fragment(const Tile& tile, const void* x, void* to, unsigned int stride, bool columns, const char* name);

constexpr Tile tile_of(Tile::Use use, ptx::Type type, int m, int n, int k) {
    const int elements = use == Tile::a ? m * k : use == Tile::b ? k * n : m * n;
    // As on the first GPUs with tensor cores, each lane has 16 elements of half, some of them more than once.
    const int held = type == ptx::Type::f16 && use != Tile::c ? 16 : elements / 32;
    return {use, uint8_t(m), uint8_t(n), uint16_t(k), type, uint16_t(held)};
}

// The tiles that there are.
constexpr bool is_tile(Tile::Use use, ptx::Type type, int m, int n, int k, bool columns) {
    using ptx::Type;
    const bool sum = use == Tile::c, row_by_column = columns == (use == Tile::b);
    const bool large = k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
    const bool tf32 = k == 8 && m == 16 && n == 16, small = m == 8 && n == 8;
    switch (type) {
        case Type::f16: return large;
        case Type::bf16: case Type::s8: case Type::u8: return large && !sum;
        case Type::f32: return (large || tf32) && sum;
        case Type::tf32: return tf32 && !sum;
        case Type::f64: return small && k == 4;
        case Type::s32: return (large || (small && (k == 32 || k == 128))) && sum;
        case Type::s4: case Type::u4: return small && k == 32 && !sum && row_by_column;
        case Type::b1: return small && k == 128 && !sum && row_by_column;
        default: return false;
    }
}

// The products that there are; the layouts of A and B matter only to those of less than 8 bits.
constexpr bool is_product_of_tiles(const ptx::Product& p, bool a_columns = false, bool b_columns = true) {
    using ptx::Type;
    return p.a == p.b && is_tile(Tile::a, p.a, p.m, p.n, p.k, a_columns) &&
           is_tile(Tile::b, p.b, p.m, p.n, p.k, b_columns) && is_tile(Tile::c, p.c, p.m, p.n, p.k, false) &&
           is_tile(Tile::c, p.d, p.m, p.n, p.k, false) && (p.a == Type::f16 || p.c == p.d) &&
           is_float(p.a) == is_float(p.d) && (p.a == Type::f64) == (p.d == Type::f64) &&
           (p.a == Type::f16 || p.d != Type::f16);
}

constexpr ptx::Product product_of_tiles(int m, int n, int k, ptx::Type d, ptx::Type ab, ptx::Type c,
                                        bool saturate = false, bool bit_and = false) {
    // nvcc makes steps of 4 of a product of tf32.
    const uint8_t step = ab == ptx::Type::tf32 ? 4 : 0;
    return {uint8_t(m), uint8_t(n), uint16_t(k), d, ab, ab, c, saturate, bit_and, false, false, false, step};
}

}  // namespace cuda_on_cpu

namespace cuda_on_cpu::ptx {

// The tile whose fragment fills `bytes` of a lane's registers.
template <Tile::Use use, class T, int M, int N, int K, bool columns, size_t bytes>
constexpr Tile tile_in_registers() {
    constexpr Tile tile = tile_of(use, T::type, M, N, K);
    static_assert(is_tile(use, T::type, M, N, K, columns), "wmma has no fragment of this use, shape, type and layout");
    static_assert(8 * bytes == tile.held * bits_of(T::type), "the fragment has another number of registers");
    return tile;
}

// Operands in registers: uint32_t, or uint64_t for f64.
template <Tile::Use use, class T, int M, int N, int K, bool columns, class R, size_t count>
__forceinline__ void wmma_load(R (&x)[count], const char* from, unsigned int stride) {
    static constexpr Tile tile = tile_in_registers<use, T, M, N, K, columns, sizeof x>();
    constexpr const char* names[] = {"wmma.load.a.sync", "wmma.load.b.sync", "wmma.load.c.sync"};
    ::cuda_on_cpu::load_fragment(tile, x, from, stride, columns, names[use]);
}

template <class T, int M, int N, int K, bool columns, class R, size_t count>
__forceinline__ void wmma_store(char* to, const R (&x)[count], unsigned int stride) {
    static constexpr Tile tile = tile_in_registers<Tile::c, T, M, N, K, columns, sizeof x>();
    ::cuda_on_cpu::store_fragment(tile, x, to, stride, columns, "wmma.store.d.sync");
}

template <int M, int N, int K, bool a_columns, bool b_columns, class D, class A, class B, class C, bool saturate,
          class R, size_t nd, size_t na, size_t nb, size_t nc>
__forceinline__ void wmma_mma(R (&d)[nd], const R (&a)[na], const R (&b)[nb], const R (&c)[nc]) {
    static constexpr Product product =
        product_of_tiles(M, N, K, D::type, A::type, C::type, saturate, std::is_same_v<A, b1_and>);
    static_assert(std::is_same_v<A, B> && is_product_of_tiles(product, a_columns, b_columns),
                  "wmma has no product of this shape, these types and layouts");
    (void)tile_in_registers<Tile::a, A, M, N, K, a_columns, sizeof a>();
    (void)tile_in_registers<Tile::b, B, M, N, K, b_columns, sizeof b>();
    (void)tile_in_registers<Tile::c, C, M, N, K, false, sizeof c>();
    (void)tile_in_registers<Tile::c, D, M, N, K, false, sizeof d>();
    ::cuda_on_cpu::multiply(product, d, a, b, c, "wmma.mma.sync");
}

}  // namespace cuda_on_cpu::ptx
