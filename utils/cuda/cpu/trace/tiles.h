// What a trace keeps for pictures of tensor cores: the products, and which part of a tensor each part of shared memory
// was copied from.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda_on_cpu/ptx/fragments.h"

namespace cuda_on_cpu {

struct Region;  // state.h

// A product as utils/cuda/cpu/fragments.py takes it.
inline std::array<uint32_t, 10> numbers_of(const ptx::Product& p) {
    return {p.m, p.n, p.k, uint32_t(p.d), uint32_t(p.a), uint32_t(p.b), uint32_t(p.c), p.quads, p.a_columns, p.b_rows};
}

class Tiles {
public:
    // An asynchronous copy to shared memory begins. Of the first block that copies, the first copy to each place is kept.
    void copied(uint64_t block, const Region& to, uintptr_t at, size_t bytes, const Region* from, uintptr_t from_at,
                size_t zeros);
    // A warp multiplies.
    void multiplied(uint64_t block, unsigned int warp, const ptx::Product& product, const char* name, uintptr_t code);
    std::string json(const std::function<std::string(uint64_t)>& place_of_block) const;

private:
    struct Product {
        ptx::Product product;
        std::string name;
        uint64_t block, count;
        unsigned int warp;
    };
    struct Piece {
        size_t bytes;
        std::string from;  // empty: zeros
        int64_t from_at;
    };
    std::map<std::pair<uintptr_t, const ptx::Product*>, Product> products;  // by the place in the code
    std::map<std::pair<std::string, int64_t>, Piece> pieces;  // by the shared variable, and the byte in it
    uint64_t block_of_pieces = ~uint64_t(0);
};

}  // namespace cuda_on_cpu
