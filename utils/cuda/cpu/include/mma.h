// Stands in for CUDA's header of this name: nvcuda::wmma, products of matrices that a warp holds as fragments ("CUDA C++
// Programming Guide", Warp Matrix Functions). Which lane holds what is in cuda_on_cpu/ptx/fragments.h, and what is done
// in runtime/products.cpp and runtime/fragments.cpp.
#pragma once

#define __CUDA_MMA_H__  // by which sources ask whether this header was included
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_on_cpu/ptx/fragments.h"

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}
namespace experimental {
namespace precision {
struct u4;
struct s4;
struct b1;
}  // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}  // namespace experimental

}  // namespace wmma
}  // namespace nvcuda

namespace cuda_on_cpu {

// In memory: `columns` if elements of a column are neighbours.
struct Tile {
    enum Use : uint8_t { a, b, c } use;
    uint8_t m, n;
    uint16_t k;
    ptx::Type type;
    uint16_t held;  // elements of a lane, some of them twice
};
// In runtime/fragments.cpp: a lane's part of a tile between memory and its fragment's array `x`.
void load_fragment(const Tile& tile, void* x, const void* from, unsigned int stride, bool columns, const char* name);
void store_fragment(const Tile& tile, const void* x, void* to, unsigned int stride, bool columns, const char* name);

// How an element type of wmma is stored: its kind, the type of `x`, and how many elements fit into one of these.
template <ptx::Type is, class T, unsigned int fit = 1>
struct StoredAs {
    static constexpr ptx::Type kind = is;
    static constexpr unsigned int packed = fit;
    using type = T;
    using memory = std::conditional_t<fit == 1, T, void>;
};
template <class T>
struct Stored;
template <> struct Stored<__half> : StoredAs<ptx::Type::f16, __half> {};
template <> struct Stored<__nv_bfloat16> : StoredAs<ptx::Type::bf16, __nv_bfloat16> {};
template <> struct Stored<float> : StoredAs<ptx::Type::f32, float> {};
template <> struct Stored<double> : StoredAs<ptx::Type::f64, double> {};
template <> struct Stored<int> : StoredAs<ptx::Type::s32, int> {};
template <> struct Stored<signed char> : StoredAs<ptx::Type::s8, signed char> {};
template <> struct Stored<unsigned char> : StoredAs<ptx::Type::u8, unsigned char> {};
template <> struct Stored<nvcuda::wmma::precision::tf32> : StoredAs<ptx::Type::tf32, float> {};
template <> struct Stored<nvcuda::wmma::experimental::precision::s4> : StoredAs<ptx::Type::s4, int, 8> {};
template <> struct Stored<nvcuda::wmma::experimental::precision::u4> : StoredAs<ptx::Type::u4, unsigned int, 8> {};
template <> struct Stored<nvcuda::wmma::experimental::precision::b1> : StoredAs<ptx::Type::b1, unsigned int, 32> {};

// The fragments that there are.
template <class Use, class Layout>
constexpr bool is_fragment(ptx::Type type, int m, int n, int k) {
    using namespace nvcuda::wmma;
    using ptx::Type;
    constexpr bool sum = std::is_same_v<Use, accumulator>, rows = std::is_same_v<Layout, row_major>;
    constexpr bool columns = std::is_same_v<Layout, col_major>;
    if (sum ? !std::is_void_v<Layout> : !rows && !columns) return false;
    const bool large = k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
    const bool tf32 = k == 8 && m == 16 && n == 16, small = m == 8 && n == 8;
    switch (type) {
        case Type::f16: return large;
        case Type::bf16: case Type::s8: case Type::u8: return large && !sum;
        case Type::f32: return (large || tf32) && sum;
        case Type::tf32: return tf32 && !sum;
        case Type::f64: return small && k == 4;
        case Type::s32: return (large || (small && (k == 32 || k == 128))) && sum;
        case Type::s4: case Type::u4: return small && k == 32 && (std::is_same_v<Use, matrix_a> ? rows : columns);
        case Type::b1: return small && k == 128 && (std::is_same_v<Use, matrix_a> ? rows : columns);
        default: return false;
    }
}

template <class Use, int m, int n, int k, class T>
constexpr Tile tile_of() {
    using namespace nvcuda::wmma;
    constexpr bool is_a = std::is_same_v<Use, matrix_a>, is_b = std::is_same_v<Use, matrix_b>;
    constexpr int elements = is_a ? m * k : is_b ? k * n : m * n;
    // As on the first GPUs with tensor cores, each lane has 16 elements of half, some of them more than once.
    constexpr int held = std::is_same_v<T, __half> && (is_a || is_b) ? 16 : elements / 32;
    return {is_a ? Tile::a : is_b ? Tile::b : Tile::c, m, n, k, Stored<T>::kind, held};
}

}  // namespace cuda_on_cpu

namespace nvcuda {
namespace wmma {

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
    static_assert(::cuda_on_cpu::is_fragment<Use, Layout>(::cuda_on_cpu::Stored<T>::kind, m, n, k),
                  "wmma has no fragment of this use, shape, type and layout");

public:
    static constexpr ::cuda_on_cpu::Tile cuda_on_cpu_tile = ::cuda_on_cpu::tile_of<Use, m, n, k, T>();
    enum { num_elements = cuda_on_cpu_tile.held, num_storage_elements = num_elements / ::cuda_on_cpu::Stored<T>::packed };
    typedef T element_type;
    typedef typename ::cuda_on_cpu::Stored<T>::type storage_element_type;
    alignas(8) storage_element_type x[num_storage_elements];
};

template <class Use, int m, int n, int k, class T, class Layout, class V>
__forceinline__ void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, const V& v) {
    typename fragment<Use, m, n, k, T, Layout>::storage_element_type one = v;
    if constexpr (::cuda_on_cpu::Stored<T>::packed == 8) one = (one & 15) * 0x11111111u;
    if constexpr (::cuda_on_cpu::Stored<T>::packed == 32) one = one & 1 ? ~0u : 0;
    for (auto& x : f.x) x = one;
}

template <class Use, int m, int n, int k, class T, class Layout>
__forceinline__ void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f,
                                      const typename ::cuda_on_cpu::Stored<T>::memory* p, unsigned int ldm) {
    static_assert(!std::is_same_v<Use, accumulator>, "an accumulator is loaded with its layout as the last argument");
    ::cuda_on_cpu::load_fragment(f.cuda_on_cpu_tile, f.x, p, ldm, std::is_same_v<Layout, col_major>,
                                 "wmma::load_matrix_sync");
}
template <int m, int n, int k, class T>
__forceinline__ void load_matrix_sync(fragment<accumulator, m, n, k, T>& f,
                                      const typename ::cuda_on_cpu::Stored<T>::memory* p, unsigned int ldm,
                                      layout_t layout) {
    ::cuda_on_cpu::load_fragment(f.cuda_on_cpu_tile, f.x, p, ldm, layout == mem_col_major, "wmma::load_matrix_sync");
}
template <int m, int n, int k, class T>
__forceinline__ void store_matrix_sync(typename ::cuda_on_cpu::Stored<T>::memory* p,
                                       const fragment<accumulator, m, n, k, T>& f, unsigned int ldm, layout_t layout) {
    ::cuda_on_cpu::store_fragment(f.cuda_on_cpu_tile, f.x, p, ldm, layout == mem_col_major, "wmma::store_matrix_sync");
}

template <int m, int n, int k, class D, class AB, class LayoutA, class LayoutB, class C>
__forceinline__ void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, AB, LayoutA>& a,
                              const fragment<matrix_b, m, n, k, AB, LayoutB>& b,
                              const fragment<accumulator, m, n, k, C>& c, bool satf = false) {
    using namespace ::cuda_on_cpu;
    constexpr ptx::Type of_d = Stored<D>::kind, of_a = Stored<AB>::kind, of_c = Stored<C>::kind;
    static_assert(of_a == ptx::Type::f16 || of_c == of_d, "c has another type than d");
    static_assert(of_a != ptx::Type::b1, "fragments of single bits are multiplied by bmma_sync");
    // nvcc makes steps of 4 of a product of tf32.
    static constexpr ptx::Product plain{m, n, k, of_d, of_a, of_a, of_c, false, false, false, false, false,
                                        of_a == ptx::Type::tf32 ? 4 : 0};
    static constexpr ptx::Product saturated{m, n, k, of_d, of_a, of_a, of_c, true};
    multiply(satf && !is_float(of_a) ? saturated : plain, d.x, a.x, b.x, c.x, "wmma::mma_sync");
}

__forceinline__ void bmma_sync(fragment<accumulator, 8, 8, 128, int>& d,
                               const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major>& a,
                               const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major>& b,
                               const fragment<accumulator, 8, 8, 128, int>& c, experimental::bmmaBitOp op = experimental::bmmaBitOpXOR,
                               experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC) {
    using ::cuda_on_cpu::ptx::Type;
    static constexpr ::cuda_on_cpu::ptx::Product by_xor{8, 8, 128, Type::s32, Type::b1, Type::b1, Type::s32};
    static constexpr ::cuda_on_cpu::ptx::Product by_and{8, 8, 128, Type::s32, Type::b1, Type::b1, Type::s32, false, true};
    ::cuda_on_cpu::multiply(op == experimental::bmmaBitOpAND ? by_and : by_xor, d.x, a.x, b.x, c.x, "wmma::bmma_sync");
}

// Rounded to 10 bits of mantissa, to nearest, ties away from zero ("PTX ISA", cvt.rna.tf32.f32).
inline float __float_to_tf32(float x) {
    const unsigned int bits = ::cuda_on_cpu::bit_cast<unsigned int>(x);
    if (x != x) return ::cuda_on_cpu::bit_cast<float>(0x7fffffffu);
    if ((bits & 0x7f800000) == 0x7f800000) return x;
    return ::cuda_on_cpu::bit_cast<float>((bits + 0x1000) & ~0x1fffu);
}

}  // namespace wmma
}  // namespace nvcuda
