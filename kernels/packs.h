// Packs: 16 bytes of float32, float16 or bfloat16, which one load or store of a thread moves. Sums are made of floats.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline float as_float(float v) { return v; }
__device__ inline float as_float(__half v) { return __half2float(v); }
__device__ inline float as_float(__nv_bfloat16 v) { return __bfloat162float(v); }

__device__ inline void set(float& to, float v) { to = v; }
__device__ inline void set(__half& to, float v) { to = __float2half(v); }
__device__ inline void set(__nv_bfloat16& to, float v) { to = __float2bfloat16(v); }

// As many elements of T as 16 bytes hold: 4 or 8. A load by load_pack needs an address that is a multiple of 16.
template <class T>
struct alignas(16) Pack {
    T at[16 / sizeof(T)];
};

// Loads and stores of what is needed only once: the caches need not keep it.
template <class T>
__device__ Pack<T> load_pack(const T* from) {
    union {
        uint4 bytes;
        Pack<T> pack;
    } loaded = {__ldcs((const uint4*)from)};
    return loaded.pack;
}

template <class T>
__device__ void store_pack(T* to, Pack<T> pack) {
    union {
        Pack<T> pack;
        uint4 bytes;
    } stored = {pack};
    __stcs((uint4*)to, stored.bytes);
}
