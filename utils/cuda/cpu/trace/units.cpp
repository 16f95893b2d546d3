// How many instructions a GPU executes for a product, and how many sectors the bulk copy engine moves (units.h).
//
// The rules for products are read from nvcc's machine code for sm_75, sm_80 and sm_90 and checked with counters of an
// H200: tests/nsight.
#include "units.h"

#include <algorithm>

#include "../runtime/boxes.h"
#include "state.h"

namespace cuda_on_cpu {

unsigned int instructions_of(const ptx::Product& p, bool of_wmma, int capability) {
    using ptx::Type;
    // Turing has the steps of mma.m8n8k4; later GPUs compute it without their tensor cores.
    if (p.quads) return capability >= 80 ? 0 : p.d == Type::f16 ? 2 : 4;
    // Hopper has neither integers of 4 bits nor xor, and 8-bit floats only in wgmma: two products replace them.
    const bool replaced = p.a == Type::s4 || p.a == Type::u4 || (p.a == Type::b1 && !p.bit_and) || p.a == Type::e4m3 ||
                          p.a == Type::e5m2;
    if (replaced && capability >= 90) return 2;
    if (!of_wmma || p.m * p.n < 256) return 1;
    // The large shapes of wmma are made of m16n8k16, of m16n8k8 or m8n8k16 on Turing, and of m16n8k4 for tf32.
    return p.a == Type::tf32 || capability < 80 ? 4 : 2;
}

void Units::multiplied(const WarpgroupProduct& product, uintptr_t code) {
    products.try_emplace({code, &product}, Multiplied{product, 0}).first->second.count++;
}

void Units::copied(const char* name, uintptr_t code, uint64_t sectors) {
    Copied& of = copies[{code, name}];
    of.count++;
    of.sectors += sectors;
}

// The copy engine splits what it moves at multiples of 128 bytes of shared memory, and each part at those of global
// memory. A load for several blocks takes two sectors at least.
struct Sectors {
    uint64_t shift;  // added to addresses of global memory
    bool multicast = false;
    uint64_t count = 0;

    void run(uint32_t shared, uint64_t global, uint32_t bytes) {
        global += shift;
        while (bytes) {
            const uint32_t part = std::min({bytes, 128 - shared % 128, uint32_t(128 - global % 128)});
            const uint64_t sectors = (global + part - 1) / 32 - global / 32 + 1;
            count += multicast && sectors == 1 ? 2 : sectors;
            shared += part, global += part, bytes -= part;
        }
    }
};

static uint64_t shift_of(Trace& t, Block& b, uintptr_t a) {
    bool ignore;
    const Region* region = t.find(b, a, 1, ignore);
    return region ? region->shift : 0;
}

static unsigned int blocks_in(unsigned int mask) { return mask ? __builtin_popcount(mask) : 1; }

void trace_bytes_copied(Trace& t, Block& b, const void* to, const void* from, unsigned int bytes, unsigned int mask,
                        const char* name, const void* code) {
    const bool loads = b.arena.around(to);
    const void *shared = loads ? to : from, *global = loads ? from : to;
    const uintptr_t a = reinterpret_cast<uintptr_t>(global);
    Sectors sectors{shift_of(t, b, a), mask != 0};
    const auto offset = static_cast<const unsigned char*>(shared) - b.arena.get();
    if (!b.arena.around(global)) sectors.run(uint32_t(offset), a, bytes);
    t.units.copied(name, reinterpret_cast<uintptr_t>(code), blocks_in(mask) * sectors.count);
}

void trace_box_copied(Trace& t, Block& b, const TensorMap& map, const int32_t* at, const void* shared, bool loads,
                      unsigned int mask, const char* name, const void* code) {
    Sectors sectors{shift_of(t, b, map.address), mask != 0};
    const auto offset = static_cast<const unsigned char*>(shared) - b.arena.get();
    // What is outside the tensor is not written, but a load counts it like memory that begins with a sector.
    each_run(map, at, uint32_t(offset), [&](uint32_t place, uint64_t global, uint32_t bytes) {
        if (loads || global) sectors.run(place, global ? global : -sectors.shift, bytes);
    });
    t.units.copied(name, reinterpret_cast<uintptr_t>(code), blocks_in(mask) * sectors.count);
}

std::string Units::json() const {
    constexpr unsigned int warps = 4;  // of a warpgroup: each executes the instruction
    std::string out = "\"units\":[";
    auto add = [&](const char* unit, uintptr_t code, const std::string& name, uint64_t instructions, uint64_t sectors) {
        char place[32];
        snprintf(place, sizeof place, "\"0x%llx\"", (unsigned long long)code);
        out += (out.back() == '[' ? "{\"unit\":\"" : ",{\"unit\":\"") + std::string(unit) + "\",\"pc\":" + place +
               ",\"name\":\"" + name + "\",\"instructions\":" + std::to_string(instructions) +
               ",\"sectors\":" + std::to_string(sectors);
    };
    for (const auto& [place, one] : products) {
        const WarpgroupProduct& p = one.product;
        add("tensor", place.first, "wgmma.mma_async", warps * one.count, 0);
        out += ",\"product\":[64";
        for (uint32_t number : {uint32_t(p.n), uint32_t(p.k), uint32_t(p.d), uint32_t(p.a), uint32_t(p.b), uint32_t(p.d)})
            out += "," + std::to_string(number);
        out += "]}";
    }
    for (const auto& [place, one] : copies) {
        add("tma", place.first, place.second, one.count, one.sectors);
        out += "}";
    }
    return out + "]";
}

}  // namespace cuda_on_cpu
