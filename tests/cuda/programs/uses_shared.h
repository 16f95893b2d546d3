#pragma once

#include "shared.h"

__device__ int reversed(int value) {
    lanes[threadIdx.x] = value;
    __syncthreads();
    return lanes[31 - threadIdx.x];
}
inline int of_host(int lanes) {
    Holder holder{lanes};
    return holder.lanes + lanes;
}
