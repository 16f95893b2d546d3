// wmma's loads and stores (include/mma.h, and inline PTX): each lane moves its own elements.
//
// What a trace sees is what nvcc makes of them for sm_80 and later, read from its machine code: elements that are
// neighbours in memory and in the fragment make one access. Numbers of 16 bits whose neighbours in memory are in
// different registers are loaded as if the tile were transposed, and exchanged between lanes afterwards. A and B of half,
// and of whole numbers whose neighbours are along k, are loaded from shared memory as by ldmatrix.
#include <algorithm>
#include <cstring>

#include "cuda_on_cpu/ptx/wmma.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

using ptx::Cell;

// A tile in memory, and the lane's part of it.
struct Part {
    const Tile& tile;
    char* memory;
    unsigned int stride, lane;
    bool columns;

    unsigned int bits() const { return bits_of(tile.type); }
    unsigned int per() const { return std::max(1u, 8 / bits()); }  // elements in a byte
    unsigned int elements() const {
        const unsigned int lines = tile.use == Tile::b ? tile.k : tile.m;
        return lines * (tile.use == Tile::a ? tile.k : tile.n) / 32;
    }
    Cell cell(unsigned int e) const {
        if (tile.use == Tile::a) return ptx::place_in_a(tile.m, tile.k, bits(), lane, e);
        if (tile.use == Tile::b) return ptx::place_in_b(tile.n, tile.k, bits(), lane, e);
        return ptx::place_in_c(tile.m, tile.n, lane, e);
    }
    char* address(Cell at) const {
        if (columns) at = ptx::transposed(at);
        return memory + (size_t(at.row) * stride + at.column) * bits() / 8;
    }
    // Whether the elements that share a register are neighbours in memory.
    bool natural() const {
        const bool is_columns = tile.use == Tile::b || (tile.use == Tile::c && tile.n == 32);
        return columns == is_columns;
    }
};

static void touch(Block& b, const void* p, size_t bytes, Access access, const void* code) {
    if (b.worker->trace) trace_access(*b.worker->trace, p, bytes, access, code);
}

// Reports each access to the trace.
static void touch_all(Block& b, const Part& part, Access access, const void* code) {
    const Tile& tile = part.tile;
    const unsigned int bits = part.bits();
    const bool as_rows = tile.type == ptx::Type::f16 || (bits < 16 && part.natural());
    if (as_rows && tile.use != Tile::c && is_shared(part.memory)) {
        // A matrix is 8 lines of 16 bytes. Lane 8 * i + r has line r of the i-th of those that are loaded at once.
        const unsigned int lines = tile.use == Tile::a ? tile.m : tile.n, wide = 128 / bits;
        const unsigned int matrices = lines / 8 * tile.k / wide, at_once = bits == 16 ? 4 : bits == 8 ? 2 : 1;
        for (unsigned int first = 0; first < matrices; first += at_once) {
            const unsigned int i = part.lane / 8, matrix = first + i;
            if (i >= at_once || matrix >= matrices) continue;
            Cell at{matrix % (lines / 8) * 8, matrix / (lines / 8) * wide};  // {m or n, k}
            (part.natural() ? at.row : at.column) += part.lane % 8;
            if (tile.use == Tile::b) at = ptx::transposed(at);
            trace_row(*b.worker->trace, part.address(at), access, !part.natural(), code);
        }
        return;
    }
    auto place = [&](unsigned int e) {
        Cell at = part.cell(e);
        if (bits != 16 || part.natural()) return at;
        return Cell{at.row / 8 * 8 + at.column % 8, at.column / 8 * 8 + at.row % 8};
    };
    const unsigned int bytes = std::max(1u, bits / 8);
    for (unsigned int e = 0; e < part.elements();) {
        char* from = part.address(place(e));
        unsigned int width = bytes;
        for (e += part.per(); e < part.elements() && width < 16; e += part.per(), width += bytes)
            if (part.address(place(e)) != from + width) break;
        touch(b, from, width, access, code);
    }
}

static void nothing_to_load(void* const (&)[32], unsigned int) {}
static void nothing_to_store(void* const (&)[32], unsigned int) {}

// What the guide demands of the address and of the stride is checked; then the lanes meet.
static Part begin(const Tile& tile, const void* memory, unsigned int stride, bool columns, Access access,
                  const char* name, const void* code) {
    Worker& w = *block().worker;
    w.in_kernel = 0;
    watch(block());
    const unsigned int bits = bits_of(tile.type);
    // The guide says 16 bytes, but nothing of whole numbers of 8 and 32 bits and of double: what nvcc's loads need.
    const unsigned int step = bits == 8 ? 32 : bits == 64 || tile.type == ptx::Type::s32 ? 64 : 128;
    if (stride * bits % step) {
        std::string why = std::string("calls ") + name + " with a stride of " + std::to_string(stride) +
                          " elements: it must be a multiple of " + std::to_string(step / bits);
        if (w.trace) trace_wrong_stride(*w.trace, memory, std::move(why), access, code);
        fail(wrong_copy, std::move(why));
    }
    // The guide says 32 bytes. nvcc relies on less, and so do NVIDIA's own samples for less than 16 bits.
    const size_t needed = bits < 16 ? 16 : 32;
    if (w.trace && reinterpret_cast<uintptr_t>(memory) % needed)
        trace_misaligned(*w.trace, memory, needed, access, code);
    const Part part{tile, static_cast<char*>(const_cast<void*>(memory)), stride, lane(), columns};
    if (w.trace) touch_all(block(), part, access, code);
    meet_for(access == Access::load ? nothing_to_load : nothing_to_store, nullptr, name, code);
    return part;
}

void load_fragment(const Tile& tile, void* x, const void* from, unsigned int stride, bool columns, const char* name) {
    const Part part = begin(tile, from, stride, columns, Access::load, name, __builtin_return_address(0));
    const unsigned int bytes = std::max(1u, part.bits() / 8), elements = part.elements();
    char* to = static_cast<char*>(x);
    for (unsigned int e = 0; e < elements; e += part.per()) memcpy(to + e * part.bits() / 8, part.address(part.cell(e)), bytes);
    for (unsigned int e = elements; e < tile.held; e += elements) memcpy(to + e * bytes, to, elements * bytes);
}

void store_fragment(const Tile& tile, const void* x, void* to, unsigned int stride, bool columns, const char* name) {
    const Part part = begin(tile, to, stride, columns, Access::store, name, __builtin_return_address(0));
    const unsigned int bytes = part.bits() / 8;
    for (unsigned int e = 0; e < part.elements(); e++)
        memcpy(part.address(part.cell(e)), static_cast<const char*>(x) + e * bytes, bytes);
}

}  // namespace cuda_on_cpu
