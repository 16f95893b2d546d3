// Keeps what pictures of tensor cores show (tiles.h), and writes it down for records.py.
#include "tiles.h"

#include "../runtime/profile.h"
#include "state.h"

namespace cuda_on_cpu {

void Tiles::copied(uint64_t block, const Region& to, uintptr_t at, size_t bytes, const Region* from, uintptr_t from_at,
                   size_t zeros) {
    if (block_of_pieces == ~uint64_t(0)) block_of_pieces = block;
    if (block != block_of_pieces || !to.named) return;
    Piece piece{bytes, from && zeros < bytes ? from->name : "", from ? int64_t(from_at - from->begin) : 0};
    pieces.try_emplace({to.name, int64_t(at - to.begin)}, std::move(piece));
}

void Tiles::multiplied(uint64_t block, unsigned int warp, const ptx::Product& product, const char* name,
                       uintptr_t code) {
    auto [found, is_new] = products.try_emplace({code, &product}, Product{product, name, block, 0, warp});
    found->second.count++;
}

void trace_product(Trace& t, Block& b, const ptx::Product& product, const char* name, const void* code) {
    t.tiles.multiplied(b.number, b.running->number / 32, product, name, reinterpret_cast<uintptr_t>(code));
}

std::string Tiles::json(const std::function<std::string(uint64_t)>& place_of_block) const {
    std::string out = "\"products\":[";
    for (const auto& [place, p] : products) {
        const bool of_wmma = p.name.compare(0, 4, "wmma") == 0;
        const uint64_t instructions = p.count * instructions_of(p.product, of_wmma, profile.capability);
        char code[32];
        snprintf(code, sizeof code, "\"0x%llx\"", (unsigned long long)place.first);
        out += (out.back() == '[' ? "{\"pc\":" : ",{\"pc\":") + std::string(code) + ",\"name\":\"" + p.name +
               "\",\"count\":" + std::to_string(p.count) +
               ",\"instructions\":" + std::to_string(instructions) + ",\"block\":" + place_of_block(p.block) +
               ",\"warp\":" + std::to_string(p.warp) + ",\"product\":[";
        for (uint32_t number : numbers_of(p.product))
            out += (out.back() == '[' ? "" : ",") + std::to_string(number);
        out += "]}";
    }
    out += "],\"copied\":{";
    if (pieces.empty()) return out + "}";
    out += "\"block\":" + place_of_block(block_of_pieces) + ",\"pieces\":[";
    for (const auto& [to, piece] : pieces)
        out += (out.back() == '[' ? "[\"" : ",[\"") + to.first + "\"," + std::to_string(to.second) + "," +
               std::to_string(piece.bytes) + ",\"" + piece.from + "\"," + std::to_string(piece.from_at) + "]";
    return out + "]}";
}

}  // namespace cuda_on_cpu
