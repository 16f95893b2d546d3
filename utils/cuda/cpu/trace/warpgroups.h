// What a trace knows of wgmma: which registers belong to products, and who has touched them. warpgroups.cpp of the
// runtime reports what happens, and accesses.cpp every access to a thread's own variables.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "../runtime/descriptors.h"
#include "trace.h"

namespace cuda_on_cpu {

// A variable of a thread that is a register of wgmma: an accumulator, or a part of A.
struct TracedRegister {
    bool pending = false;  // no wait has covered it yet
    bool of_a = false;     // a thread may change these meanwhile: the compiler then takes another register
    uint64_t product = 0;            // that uses it, or was the last
    const void* code = nullptr;      // where that begins
    const void* touched = nullptr;   // by the thread, since its last wgmma.fence
};

struct TracedRegisters {  // of one thread
    std::unordered_map<uintptr_t, TracedRegister> known;  // by address
    bool fenced = false;    // it has executed a wgmma.fence
    uint32_t left_out = 0;  // by its last wait_group
};

struct TracedProducts {  // of one block; empty if there are none
    std::vector<TracedRegisters> threads;
    struct Begun {
        uint32_t time;
        const void* code;
    };
    std::vector<std::vector<Begun>> products;  // by warpgroup and number
};

// All 128 threads begin the warpgroup's next product. `continues`: it adds to the sums of the one before.
void trace_product(Trace&, Block&, const Warpgroup&, unsigned int first, const WarpgroupOperation&, const SharedTile& a,
                   const SharedTile& b, bool continues);
void trace_warpgroup_fence(Trace&, Block&);
// The running thread waits for all products up to a number. `waits`: for any group at all.
void trace_warpgroup_waits(Trace&, Block&, const Warpgroup&, uint64_t until, bool waits, uint32_t prior);

}  // namespace cuda_on_cpu
