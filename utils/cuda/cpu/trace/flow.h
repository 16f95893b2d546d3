// The order in which a warp goes through the basic blocks of a kernel.
//
// Where the lanes of a warp take different paths, a GPU runs one path after the other, and joins them again where the
// paths meet. So of two places where lanes are, the one from which the other can still be reached comes first. In a
// loop each can be reached from the other: all of the loop comes before what follows it, and its first block comes
// first. Such an order is called a weak topological order (F. Bourdoncle, "Efficient chaotic iteration strategies with
// widenings", 1993). It is found for the paths that threads have really taken. requests.cpp asks for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cuda_on_cpu {

class Flow {
public:
    // `guesses`: a block that no thread has left yet is taken to lead to the one behind it in the code.
    explicit Flow(bool guesses = false) : guesses(guesses) {}

    // The number of the block that begins at this code, from 1.
    uint16_t block(uint32_t code) {
        auto& r = recent[code % recent_places];
        if (r.code == code && r.number) return r.number;
        auto [found, is_new] = numbers.try_emplace(code, uint16_t(next.size()));
        if (is_new && next.size() < 65535) next.emplace_back(), codes.push_back(code);
        r = {code, found->second};
        return found->second;
    }
    // A thread came from one block to another; 0: it began there.
    void went(uint16_t from, uint16_t to) {
        uint32_t& last = gone[(from * 31 + to) % gone.size()];
        if (last == (uint32_t(from) << 16 | to)) return;
        last = uint32_t(from) << 16 | to;
        auto& ways = next[from];
        for (uint16_t known : ways)
            if (known == to) return;
        ways.push_back(to);
        changed = true;
    }
    // The place of every block in the order.
    const std::vector<uint16_t>& order() {
        if (changed || place.size() != next.size()) sort();
        return place;
    }

private:
    static constexpr size_t recent_places = 1021;
    struct Recent {
        uint32_t code = 0;
        uint16_t number = 0;
    };
    std::vector<Recent> recent{recent_places};
    std::unordered_map<uint32_t, uint16_t> numbers;
    std::vector<std::vector<uint16_t>> next{1};  // 0 is where all begin
    std::vector<uint32_t> codes{0};
    std::array<uint32_t, 256> gone{};  // ways that threads went lately
    bool guesses;
    std::vector<uint16_t> place;
    bool changed = false;

    // While sorting: Bourdoncle's algorithm, which visits as Tarjan's does.
    std::vector<uint32_t> visited;
    std::vector<uint16_t> stack, reversed;
    uint32_t count = 0;
    void sort();
    std::vector<uint16_t> guess();  // adds a way to each block that has none, and lists those blocks
    uint32_t visit(uint16_t block, std::vector<uint16_t>& out);
};

}  // namespace cuda_on_cpu
