// What the runtime keeps of a warpgroup's products (wgmma): those that have begun, and the accumulators that wait for
// them.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cuda_on_cpu/ptx/wgmma.h"
#include "threads.h"

namespace cuda_on_cpu {

constexpr unsigned int warpgroup_threads = 128;

// 64 x n sums to which one product after the other is added; no thread has waited for the last of them.
struct Accumulators {
    const WarpgroupProduct* product;       // the latest
    uint64_t latest;                       // its number
    std::vector<uint32_t> sums;            // by row; of f16, 16 bits of each are used
    std::vector<void*> places;             // of the registers, thread by thread
    std::bitset<warpgroup_threads> given;  // these threads have the sums
    unsigned int registers() const { return places.size() / warpgroup_threads; }
};

// A product that has begun. Its tiles in shared memory are read when a thread waits for it.
struct WarpgroupOperation {
    const WarpgroupProduct* product;
    uint64_t a, b;  // descriptors
    bool adds;
    std::shared_ptr<Accumulators> into;
    std::vector<RegistersOfA> registers;  // thread by thread, if A is in registers
    const void* code;
    uint32_t begun = 0;  // by a trace's time
};

struct Warpgroup {
    struct Call {  // of one thread
        Fiber* fiber = nullptr;
        const WarpgroupProduct* product;
        void* const* d;
        uint64_t a, b;
        const RegistersOfA* registers;
        bool adds;
    };
    Call calls[warpgroup_threads];
    unsigned int came = 0;  // threads that wait at an instruction for the others
    uint64_t issued = 0, computed = 0;
    std::deque<WarpgroupOperation> pending;  // begun and not computed, the oldest first
    std::vector<std::shared_ptr<Accumulators>> unwaited;
    struct Groups {  // of one thread
        std::deque<uint64_t> ends;  // one past the last product of each committed group, the oldest first
        uint64_t committed = 0;
    };
    Groups groups[warpgroup_threads];
};

// What an accumulator holds until a thread waits: which product it waits for, and which register it is. A NaN, or two of
// f16; of whole numbers, one that few sums have.
constexpr uint32_t pending_pattern(ptx::Type type, uint64_t product, unsigned int which) {
    if (type == ptx::Type::f32) return 0x7fe00000u | uint32_t(product % 16000) << 7 | which;
    if (type == ptx::Type::s32) return 0xa5800000u | uint32_t(product % 16000) << 7 | which;
    const uint32_t both = uint32_t(product % 4000) << 6 | which;
    return 0x7e007e00u | both >> 9 << 16 | (both & 511);
}

// Adds a product to its accumulators (warpgroup_products.cpp). `shared` is where the block's shared memory begins.
void multiply(const WarpgroupOperation& operation, const unsigned char* shared, const struct SharedTile& a,
              const struct SharedTile& b);

}  // namespace cuda_on_cpu
