// Stands in for torch's header of this name: the warp functions with a mask and a width of their own.
#pragma once

#include <cuda_runtime.h>


inline unsigned int WARP_BALLOT(int vote, unsigned int mask = 0xffffffff) { return __ballot_sync(mask, vote); }
inline int WARP_ANY(int vote, unsigned int mask = 0xffffffff) { return __any_sync(mask, vote); }
inline unsigned int ACTIVE_MASK() { return __activemask(); }
inline void WARP_SYNC(unsigned int mask = 0xffffffff) { __syncwarp(mask); }
template <class T> T WARP_SHFL(T v, int lane, int width = warpSize, unsigned int mask = 0xffffffff) {
    return __shfl_sync(mask, v, lane, width);
}
template <class T> T WARP_SHFL_XOR(T v, int lanes, int width = warpSize, unsigned int mask = 0xffffffff) {
    return __shfl_xor_sync(mask, v, lanes, width);
}
template <class T> T WARP_SHFL_UP(T v, unsigned int by, int width = warpSize, unsigned int mask = 0xffffffff) {
    return __shfl_up_sync(mask, v, by, width);
}
template <class T> T WARP_SHFL_DOWN(T v, unsigned int by, int width = warpSize, unsigned int mask = 0xffffffff) {
    return __shfl_down_sync(mask, v, by, width);
}
template <class T> T doLdg(const T* p) { return __ldg(p); }
