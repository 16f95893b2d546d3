// The weak topological order of a kernel's basic blocks, by Bourdoncle's recursive algorithm (flow.h).
#include "flow.h"

#include <algorithm>

namespace cuda_on_cpu {

static constexpr uint32_t finished = ~uint32_t(0);

// Puts what can be reached from `block` into `out`, last first; the lowest visit that it can go back to.
uint32_t Flow::visit(uint16_t block, std::vector<uint16_t>& out) {
    stack.push_back(block);
    uint32_t head = visited[block] = ++count;
    bool loop = false;
    for (uint16_t to : next[block]) {
        uint32_t back = visited[to] ? visited[to] : visit(to, out);
        if (back <= head) {
            head = back;
            loop = true;
        }
    }
    if (head != visited[block]) return head;
    visited[block] = finished;
    uint16_t top = stack.back();
    stack.pop_back();
    if (loop) {
        while (top != block) {  // the rest of the loop is sorted again, without its first block
            visited[top] = 0;
            top = stack.back();
            stack.pop_back();
        }
        std::vector<uint16_t> inside;
        for (uint16_t to : next[block])
            if (!visited[to]) visit(to, inside);
        out.insert(out.end(), inside.begin(), inside.end());
    }
    out.push_back(block);
    return head;
}

std::vector<uint16_t> Flow::guess() {
    std::vector<uint16_t> by_code(next.size()), guessed;
    for (size_t i = 0; i < by_code.size(); i++) by_code[i] = uint16_t(i);
    std::sort(by_code.begin(), by_code.end(), [this](uint16_t a, uint16_t b) { return codes[a] < codes[b]; });
    for (size_t i = 0; i + 1 < by_code.size(); i++)
        if (by_code[i] && next[by_code[i]].empty()) guessed.push_back(by_code[i]), next[by_code[i]] = {by_code[i + 1]};
    return guessed;
}

void Flow::sort() {
    changed = false;
    const std::vector<uint16_t> guessed = guesses ? guess() : std::vector<uint16_t>();
    visited.assign(next.size(), 0);
    stack.clear();
    reversed.clear();
    count = 0;
    visit(0, reversed);
    place.assign(next.size(), 0);
    for (size_t i = 0; i < reversed.size(); i++) place[reversed[i]] = uint16_t(reversed.size() - i);
    for (uint16_t block : guessed) next[block].clear();
}

}  // namespace cuda_on_cpu
