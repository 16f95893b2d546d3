// CUDA's qualifiers and its built-in types: dim3, the short vectors and streams.
#pragma once

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#if defined(CUDA_ON_CPU_TRACE) && defined(__ELF__)
#define __constant__ __attribute__((section("cuda_constant")))  // a trace knows them by their section
#else
#define __constant__
#endif
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __nv_pure__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __maxnreg__(n)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

// x to w; those of two and of four are aligned as a whole, to 16 bytes at most.
#define CUDA_ON_CPU_VECTORS(type, name)                                                                       \
    struct name##1 { type x; };                                                                               \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                                  \
    struct name##3 { type x, y, z; };                                                                         \
    struct alignas(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 { type x, y, z, w; };               \
    __forceinline__ name##1 make_##name##1(type x) { return {x}; }                                            \
    __forceinline__ name##2 make_##name##2(type x, type y) { return {x, y}; }                                 \
    __forceinline__ name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                      \
    __forceinline__ name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUDA_ON_CPU_VECTORS(signed char, char)
CUDA_ON_CPU_VECTORS(unsigned char, uchar)
CUDA_ON_CPU_VECTORS(short, short)
CUDA_ON_CPU_VECTORS(unsigned short, ushort)
CUDA_ON_CPU_VECTORS(int, int)
CUDA_ON_CPU_VECTORS(unsigned int, uint)
CUDA_ON_CPU_VECTORS(long, long)
CUDA_ON_CPU_VECTORS(unsigned long, ulong)
CUDA_ON_CPU_VECTORS(long long, longlong)
CUDA_ON_CPU_VECTORS(unsigned long long, ulonglong)
CUDA_ON_CPU_VECTORS(float, float)
CUDA_ON_CPU_VECTORS(double, double)
#undef CUDA_ON_CPU_VECTORS

// Since CUDA 13 the alignment of those of 32 bytes can be in the name.
#define CUDA_ON_CPU_ALIGNED_VECTOR(type, name, bytes)                                                         \
    struct alignas(bytes) name##4_##bytes##a { type x, y, z, w; };                                            \
    __forceinline__ name##4_##bytes##a make_##name##4_##bytes##a(type x, type y, type z, type w) {            \
        return {x, y, z, w};                                                                                  \
    }
#define CUDA_ON_CPU_ALIGNED_VECTORS(type, name) \
    CUDA_ON_CPU_ALIGNED_VECTOR(type, name, 16)  \
    CUDA_ON_CPU_ALIGNED_VECTOR(type, name, 32)
CUDA_ON_CPU_ALIGNED_VECTORS(long, long)
CUDA_ON_CPU_ALIGNED_VECTORS(unsigned long, ulong)
CUDA_ON_CPU_ALIGNED_VECTORS(long long, longlong)
CUDA_ON_CPU_ALIGNED_VECTORS(unsigned long long, ulonglong)
CUDA_ON_CPU_ALIGNED_VECTORS(double, double)
#undef CUDA_ON_CPU_ALIGNED_VECTORS
#undef CUDA_ON_CPU_ALIGNED_VECTOR

namespace cuda_on_cpu {
// A parameter of this type takes its T from the others: `atomicAdd(&count, 1)` from the pointer.
template <class T> struct AsGiven { using type = T; };
template <class T> using NotDeduced = typename AsGiven<T>::type;
}

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

typedef struct CUstream_st* cudaStream_t;
