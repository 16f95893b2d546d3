// What a tensor map holds here, and the boxes that it cuts out of a tensor: which bytes of global memory belong to which
// bytes of shared memory. host/tensor_maps.cpp makes maps; tensor_copies.cpp moves boxes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cuda_on_cpu/host/tensor_map.h"

namespace cuda_on_cpu {

constexpr int most_dimensions = 5;

struct TensorMap {
    uint64_t seal;  // shows that these are the bytes of a map, and that nobody has changed them
    uint64_t address;
    uint64_t strides[most_dimensions - 1];  // in bytes, of all dimensions but the first
    uint32_t last[most_dimensions];         // of a dimension: its size less one, as it may be 2^32
    uint16_t box[most_dimensions];
    uint8_t steps[most_dimensions];  // "element strides": 2 takes every second element
    uint8_t rank, type, interleave, swizzle, promotion, fill, unused[7];

    uint64_t sum() const {  // what the seal has to be
        uint64_t words[sizeof(CUtensorMap) / 8] = {}, sum = 0x7465'6e73'6f72'6d61;
        memcpy(words, this, sizeof *this);
        for (size_t k = 1; k < sizeof words / 8; k++) sum = (sum ^ words[k]) * 0x9e37'79b9'7f4a'7c15;
        return sum;
    }
    bool is_whole() const { return seal == sum() && rank >= 1 && rank <= most_dimensions; }
    unsigned int element() const { return element_bytes(type); }
    uint32_t count(int d) const { return (box[d] + step(d) - 1) / step(d); }  // of elements along a dimension
    uint32_t step(int d) const { return d ? steps[d] : 1; }  // the first is ignored, unless there is interleaving
    uint32_t row_bytes() const { return box[0] * element(); }
    uint64_t rows() const {
        uint64_t product = 1;
        for (int d = 1; d < rank; d++) product *= count(d);
        return product;
    }
    uint64_t bytes() const { return row_bytes() * rows(); }
    uint32_t span() const { return swizzle ? 16u << swizzle : 0; }  // bytes within which 16-byte chunks change places

    static unsigned int element_bytes(int type) {
        static constexpr uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
        return bytes[type];
    }
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

// Where the hardware puts the byte of shared memory that would be at this address without swizzling. It is the address
// that counts, not the place in the box: see the offset of the pattern in the CUDA C++ Programming Guide, "Tensor Memory
// Accelerator", swizzle modes. 128B: bits 4 to 6 ^= bits 7 to 9; 64B: bits 4 and 5 ^= bits 7 and 8; 32B: bit 4 ^= bit 7.
inline uint32_t swizzled(uint32_t address, int swizzle) {
    return swizzle ? address ^ ((address >> 7 & ((1u << swizzle) - 1)) << 4) : address;
}

// Calls `run(to, from, bytes)` for the parts of each row of a box: `to` is an address of shared memory, without swizzling,
// and `from` one of global memory, 0 for elements outside the tensor. `at` is the box's first element, by dimension;
// coordinates may be negative.
template <class Run>
void each_run(const TensorMap& map, const int32_t* at, uint32_t to, Run run) {
    const uint32_t whole = map.row_bytes(), element = map.element();
    const int64_t first = at[0], size = int64_t(map.last[0]) + 1;
    // Of each row, the elements [begin, end) are inside the tensor along the first dimension.
    const int64_t begin = std::clamp<int64_t>(-first, 0, map.box[0]);
    const int64_t end = std::clamp<int64_t>(size - first, begin, map.box[0]);
    for (uint32_t r = 0, rows = uint32_t(map.rows()); r < rows; r++, to += whole) {
        uint64_t base = map.address;
        bool inside = begin < end;
        uint32_t rest = r;
        for (int d = 1; d < map.rank; d++) {
            const int64_t index = int64_t(at[d]) + int64_t(rest % map.count(d)) * map.step(d);
            rest /= map.count(d);
            inside = inside && index >= 0 && index <= int64_t(map.last[d]);
            base += uint64_t(index) * map.strides[d - 1];
        }
        if (!inside) {
            run(to, 0, whole);
            continue;
        }
        if (begin) run(to, 0, begin * element);
        run(to + begin * element, base + uint64_t(first + begin) * element, (end - begin) * element);
        if (end < map.box[0]) run(to + end * element, 0, (map.box[0] - end) * element);
    }
}

// The same for runs of bytes that are neighbours on both sides, where a swizzle has put them.
template <class Piece>
void each_piece(const TensorMap& map, const int32_t* at, uint32_t shared, Piece piece) {
    each_run(map, at, shared, [&](uint32_t to, uint64_t from, uint32_t bytes) {
        if (!map.swizzle) return piece(to, from, bytes);
        while (bytes) {
            const uint32_t part = std::min(bytes, 16 - to % 16);
            piece(swizzled(to, map.swizzle), from, part);
            to += part;
            bytes -= part;
            if (from) from += part;
        }
    });
}

}  // namespace cuda_on_cpu
