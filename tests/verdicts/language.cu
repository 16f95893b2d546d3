// What device code may not do, kernel signatures, C++20 in C++17, types, and what other compilers are stricter about.
// A snippet begins with `//// its name` and has a kernel k; what nvcc says of it is in bench/recorded/verdicts.json.

//// try_catch
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    try { x[i] = 1; } catch (...) { x[i] = 2; }
}

//// typeid
#include <typeinfo>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = typeid(x) == typeid(j);
}

//// dynamic_cast
struct A { __device__ virtual void f() {} };
struct B : A { };
__global__ void k(int* j) { B b; A* a = &b; j[0] = dynamic_cast<B*>(a) != nullptr; }

//// goto
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    again:
    if (--j[i] > 0) goto again;
}

//// throw_in_a_host_function

#include <stdexcept>
__global__ void k(float* x) { x[0] = 1; }
void check(int n) { if (n < 0) throw std::runtime_error("n"); }

//// noexcept

__device__ float root(float v) noexcept { return sqrtf(v); }
__global__ void k(float* x) { x[0] = root(x[0]); }

//// int128
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __int128 v = i;
    j[i] = (int)(v * 3);
}

//// float128
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __float128 v = x[i];
    x[i] = v;
}

//// complex_type
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    _Complex float z = 1;
    x[i] = __real__ z;
}

//// vector_extension
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    typedef float v4 __attribute__((vector_size(16)));
    v4 v = {1, 2, 3, 4};
    x[i] = v[1];
}

//// conditional_without_a_middle
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] ?: 1.0f;
}

//// case_range
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    switch (i) { case 1 ... 5: x[i] = 1; break; default: x[i] = 2; }
}

//// zero_length_array
struct Row { int n; float v[0]; };
__global__ void k(int* j) { j[0] = sizeof(Row); }

//// nested_function
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int twice(int v) { return 2 * v; }
    j[i] = twice(i);
}

//// typeof
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    typeof(x[i]) v = x[i];
    x[i] = v;
}

//// builtin_unreachable
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) __builtin_unreachable();
    x[i] = 1;
}

//// x86_asm
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm("nop");
    x[i] = 1;
}

//// cudacc
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #ifndef __CUDACC__
    #error "not nvcc"
    #endif
    x[i] = 1;
}

//// cplusplus_17
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #if __cplusplus >= 202002L
    #error "not C++17"
    #endif
    x[i] = 1;
}

//// cuda_version
#include <cuda.h>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = CUDA_VERSION;
}

//// cudart_version
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = CUDART_VERSION;
}

//// concept

template <class T> concept Small = sizeof(T) <= 4;
template <Small T> __device__ T twice(T v) { return 2 * v; }
__global__ void k(float* x) { x[0] = twice(x[0]); }

//// spaceship
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = (i <=> n) < 0;
}

//// consteval

__device__ consteval int three() { return 3; }
__global__ void k(int* j) { j[0] = three(); }

//// likely
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) [[likely]] x[i] = 1;
}

//// using_enum
enum class Mode { on, off };
__global__ void k(int* j) { using enum Mode; j[0] = (int)off; }

//// std_popcount
#include <bit>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = std::popcount(3u);
}

//// std_bit_cast
#include <bit>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = std::bit_cast<int>(x[i]);
}

//// std_remove_cvref
#include <type_traits>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::remove_cvref_t<const float&> v = x[i];
    x[i] = v;
}

//// std_midpoint
#include <numeric>
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = std::midpoint(i, n);
}

//// class_template_argument_of_double

template <double scale> __device__ float scaled(float v) { return scale * v; }
__global__ void k(float* x) { x[0] = scaled<2.0>(x[0]); }

//// parenthesised_aggregate
struct Point { int x, y; };
__global__ void k(int* j) { Point p(1, 2); j[0] = p.x; }

//// lambda_capture_of_this_by_copy
struct Box { float v; __device__ float twice() { auto f = [=, this] { return 2 * v; }; return f(); } };
__global__ void k(float* x) { Box b{x[0]}; x[0] = b.twice(); }

//// if_constexpr
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if constexpr (sizeof(float) == 4) x[i] = 1; else x[i] = n.m;
}

//// structured_binding
struct Point { int x, y; };
__global__ void k(int* j) { auto [a, b] = Point{1, 2}; j[0] = a + b; }

//// inline_variable

inline constexpr int three = 3;
__global__ void k(int* j) { j[0] = three; }

//// nodiscard_unused
[[nodiscard]] __device__ int three() { return 3; }
__global__ void k(int* j) { three(); j[0] = 1; }

//// hex_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 0x1.8p3f;
}

//// binary_literal
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    j[i] = 0b1010 + 1'000;
}

//// kernel_with_an_rvalue_reference

__global__ void k(float* x, int&& n) { x[0] = n; }

//// kernel_with_an_ellipsis

__global__ void k(float* x, ...) { x[0] = 1; }

//// kernel_with_a_default

__global__ void k(float* x, int n = 3) { x[0] = n; }

//// kernel_is_inline

__global__ inline void k(float* x) { x[0] = 1; }

//// kernel_is_static

static __global__ void k(float* x) { x[0] = 1; }

//// kernel_is_constexpr

__global__ constexpr void k(float* x) { x[0] = 1; }

//// kernel_named_main

__global__ void main(float* x) { x[0] = 1; }
__global__ void k(float* x) { x[0] = 1; }

//// kernel_with_a_struct_by_value
struct Params { float a; int b[3]; };
__global__ void k(Params p, float* x) { x[0] = p.a + p.b[1]; }

//// kernel_with_bounds_from_a_template

template <int threads> __global__ void __launch_bounds__(threads) t(float* x) { x[0] = threads; }
template __global__ void t<64>(float*);
__global__ void k(float* x) { x[0] = 1; }

//// kernel_declared_without_global

void k(float* x);
__global__ void k(float* x) { x[0] = 1; }

//// kernel_defined_twice

__global__ void k(float* x) { x[0] = 1; }
__global__ void k(float* x) { x[0] = 2; }

//// kernel_returns_a_value

__global__ void k(float* x) { return x[0]; }

//// kernel_returns_early
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    x[i] = 1;
}

//// kernel_variadic_template

template <class... Ts> __global__ void t(float* x, Ts... v) { x[0] = (v + ...); }
template __global__ void t<int, float>(float*, int, float);
__global__ void k(float* x) { x[0] = 1; }

//// kernel_in_an_unnamed_namespace

namespace { __global__ void other(float* x) { x[0] = 1; } }
__global__ void k(float* x) { x[0] = 1; }

//// kernel_restrict

__global__ void k(const float* __restrict__ a, float* __restrict b) { b[0] = a[0]; }

//// kernel_const_parameter

__global__ void k(float* x, const int n) { n = 3; x[0] = n; }

//// kernel_volatile_pointer

__global__ void k(volatile int* v) { v[0] = v[1] + 1; }

//// missing_typename
struct Traits { using type = float; };
template <class T> __device__ float one() { T::type v = 1; return v; }
__global__ void k(float* x) { x[0] = one<Traits>(); }

//// missing_brace
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { x[i] = 1;
}

//// extra_semicolons
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ;;x[i] = 1;;
}

//// comma_in_subscript
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i, 0] = 1;
}

//// shift_of_a_float
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = x[i] << 1;
}

//// pointer_times_two
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = *(x * 2);
}

//// signed_unsigned_comparison
__global__ void k(int* j, size_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) j[i] = i;
}

//// logical_words
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n and not (i == 3)) x[i] = 1;
}

//// assignment_in_a_condition
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i = n) x[i] = 1;
}

//// goto_jumps_over_an_initialisation
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i) goto end;
    int v = 1;
    x[i] = v;
    end:
    x[i] = 2;
}

//// break_outside_a_loop
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    break;
}

//// private_member
class Box { float v = 1; };
__global__ void k(float* x) { Box b; x[0] = b.v; }

//// bitfield
struct Bits { unsigned low : 4, high : 4; };
__global__ void k(int* j) { Bits b{3, 4}; b.low = 17; j[0] = b.low; }

//// union_members
union Word { float f; int n; };
__global__ void k(int* j) { Word w; w.f = 1.0f; j[0] = w.n; }

//// reinterpret_cast_drops_const
__global__ void k(const float* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4* v = reinterpret_cast<float4*>(c);
    v[i].x = 1;
}

//// c_cast_drops_const
__global__ void k(const float* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4* v = (float4*)c;
    v[i].x = 1;
}

//// static_assert_holds
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    static_assert(sizeof(float4) == 16, "size");
    x[i] = 1;
}

//// static_assert_fails
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    static_assert(sizeof(float3) == 16, "size");
    x[i] = 1;
}

//// unroll_four
__global__ void k(float* x, int* j, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll 4
    for (int u = 0; u < n; ++u) x[i] += u;
}

//// label_at_the_end_of_a_block
__global__ void k(float* x, int n) {
    if (n < 0) goto end;
    x[0] = 1;
    end:
}

//// kernel_with_a_trailing_void
__global__ auto k(float* x) -> void { x[0] = 1; }

//// kernel_with_auto
__global__ auto k(float* x) { x[0] = 1; }
