// Shared variables outside of functions, which another header and a program use.
#pragma once

__shared__ int lanes[32];
namespace counts {
__shared__ unsigned int sums[2];
}
struct Holder {
    int lanes;
};
