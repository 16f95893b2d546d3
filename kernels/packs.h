// Packs: 16 bytes of float32, float16 or bfloat16, which one load or store of a thread moves. Sums are made of floats.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline float as_float(float v) { return v; }
__device__ inline float as_float(__half v) { return __half2float(v); }
__device__ inline float as_float(__nv_bfloat16 v) { return __bfloat162float(v); }

__device__ inline void set(float& to, float v) { to = v; }
__device__ inline void set(__half& to, float v) { to = __float2half(v); }
__device__ inline void set(__nv_bfloat16& to, float v) { to = __float2bfloat16(v); }

// As many elements of T as 16 bytes hold: 4 or 8. In memory, a pack begins at a multiple of 16 bytes.
template <class T>
union alignas(16) Pack {
    static constexpr int SIZE = 16 / sizeof(T);
    T at[SIZE];
    unsigned int words[4];
    uint4 bytes;
};

// Element i as a float. A bfloat16 is the upper half of a float: from a word, one shift or one mask makes it.
__device__ inline float as_float(const Pack<float>& pack, int i) { return pack.at[i]; }
__device__ inline float as_float(const Pack<__half>& pack, int i) { return as_float(pack.at[i]); }
__device__ inline float as_float(const Pack<__nv_bfloat16>& pack, int i) {
    unsigned int word = pack.words[i / 2];
    return __uint_as_float(i % 2 ? word & 0xffff0000 : word << 16);
}

// A pack of floats. Two of them become a word of halves in one instruction.
__device__ inline void set(Pack<float>& to, const float (&values)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to.at[i] = values[i];
}
__device__ inline void set(Pack<__half>& to, const float (&values)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) *(__half2*)&to.at[i] = __floats2half2_rn(values[i], values[i + 1]);
}
__device__ inline void set(Pack<__nv_bfloat16>& to, const float (&values)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) *(__nv_bfloat162*)&to.at[i] = __floats2bfloat162_rn(values[i], values[i + 1]);
}

// Keeps the compiler from keeping a pack's floats beside it: those of 16-bit numbers would take twice its registers.
template <class T>
__device__ inline void forget_floats(Pack<T>& pack) {
    asm volatile("" : "+r"(pack.words[0]), "+r"(pack.words[1]), "+r"(pack.words[2]), "+r"(pack.words[3]));
}

// Loads and stores of what is needed only once: the caches need not keep it.
template <class T>
__device__ Pack<T> load_pack(const T* from) {
    Pack<T> pack;
    pack.bytes = __ldcs((const uint4*)from);
    return pack;
}

template <class T>
__device__ void store_pack(T* to, const Pack<T>& pack) {
    __stcs((uint4*)to, pack.bytes);
}
