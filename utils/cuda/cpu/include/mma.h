// Stands in for CUDA's header of this name: nvcuda::wmma, products of matrices that a warp holds as fragments ("CUDA C++
// Programming Guide", Warp Matrix Functions). Which lane holds what is in cuda_on_cpu/ptx/fragments.h, and what is done
// in runtime/products.cpp and runtime/fragments.cpp.
#pragma once

#define __CUDA_MMA_H__  // by which sources ask whether this header was included
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_on_cpu/ptx/wmma.h"

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

template <class Use>
constexpr Tile::Use use_of = std::is_same_v<Use, nvcuda::wmma::matrix_a>   ? Tile::a
                             : std::is_same_v<Use, nvcuda::wmma::matrix_b> ? Tile::b
                                                                           : Tile::c;

// The fragments that there are.
template <class Use, class Layout>
constexpr bool is_fragment(ptx::Type type, int m, int n, int k) {
    constexpr bool rows = std::is_same_v<Layout, nvcuda::wmma::row_major>;
    constexpr bool columns = std::is_same_v<Layout, nvcuda::wmma::col_major>;
    if (use_of<Use> == Tile::c ? !std::is_void_v<Layout> : !rows && !columns) return false;
    return is_tile(use_of<Use>, type, m, n, k, columns);
}

}  // namespace cuda_on_cpu

namespace nvcuda {
namespace wmma {

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
    static_assert(::cuda_on_cpu::is_fragment<Use, Layout>(::cuda_on_cpu::Stored<T>::kind, m, n, k),
                  "wmma has no fragment of this use, shape, type and layout");

public:
    static constexpr ::cuda_on_cpu::Tile cuda_on_cpu_tile =
        ::cuda_on_cpu::tile_of(::cuda_on_cpu::use_of<Use>, ::cuda_on_cpu::Stored<T>::kind, m, n, k);
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
    static constexpr ptx::Product plain = product_of_tiles(m, n, k, of_d, of_a, of_c);
    static constexpr ptx::Product saturated = product_of_tiles(m, n, k, of_d, of_a, of_c, true);
    multiply(satf && !is_float(of_a) ? saturated : plain, d.x, a.x, b.x, c.x, "wmma::mma_sync");
}

__forceinline__ void bmma_sync(fragment<accumulator, 8, 8, 128, int>& d,
                               const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major>& a,
                               const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major>& b,
                               const fragment<accumulator, 8, 8, 128, int>& c, experimental::bmmaBitOp op = experimental::bmmaBitOpXOR,
                               experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC) {
    using ::cuda_on_cpu::ptx::Type;
    static constexpr auto by_xor = ::cuda_on_cpu::product_of_tiles(8, 8, 128, Type::s32, Type::b1, Type::s32);
    static constexpr auto by_and =
        ::cuda_on_cpu::product_of_tiles(8, 8, 128, Type::s32, Type::b1, Type::s32, false, true);
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
