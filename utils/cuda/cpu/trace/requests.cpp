// Counting what a warp's accesses cost, as Nsight Compute counts them ("Kernel Profiling Guide", Memory Tables).
//
// On a GPU the 32 lanes of a warp execute an instruction together. Here each lane ran by itself, and left a list of the
// accesses that it made and the basic blocks that it went through. `count` merges the lists into the order in which a
// warp would have executed them: of all places where lanes are, the deepest function comes first, and in it the block
// that is first in the order of the flow (flow.h). So a lane that has left a loop waits behind it for those that are
// still inside, and the two branches of an `if` run one after the other. The lanes that are at the same place are
// active together: they make one request. accesses.cpp calls `count` when it has heard enough of a warp.
#include "requests.h"

#include <algorithm>

namespace cuda_on_cpu {

void Requests::forget_memory() { std::fill(memory.begin(), memory.end(), Last{}); }

uint16_t Requests::look_up(uintptr_t code, Space space, Op op, size_t bytes, size_t copy, const std::string& name,
                           uintptr_t base, size_t element) {
    uint64_t key = uint64_t(code) << 17 ^ uint64_t(copy) << 12 ^ uint64_t(bytes) << 4 ^ uint64_t(op) << 2 ^
                   uint64_t(space);
    auto [place, is_new] = numbers.try_emplace(key, uint16_t(std::min<size_t>(sites.size(), 65535)));
    if (is_new && sites.size() <= 65535) {
        Site s;
        s.code = code;
        s.space = space;
        s.op = op;
        s.bytes = bytes;
        s.copy = copy;
        s.name = name;
        s.base = base;
        s.element = element;
        sites.push_back(s);
    }
    recent[code % recent_places] = {code, space, op, uint32_t(bytes), uint32_t(copy), place->second};
    return place->second;
}

void Requests::count(Lane* (&lanes)[32], unsigned int may_go_on, uint64_t block, unsigned int warp, uintptr_t arena) {
    constexpr uint64_t none = ~uint64_t(0);
    const std::vector<uint16_t>& order = flow.order();
    size_t at[32] = {};
    uint64_t next[32];  // where each lane is: deeper calls first, then by the order of blocks, then by the code
    auto look = [&](int i) {
        if (!lanes[i] || at[i] == lanes[i]->events.size()) return none;
        Lane& lane = *lanes[i];
        const Event& e = lane.events[at[i]];
        unsigned int depth = e.kind >> 2;
        bool begins = Op(e.kind & 3) == Op::none;
        if (begins) lane.block[depth] = e.site;
        return uint64_t(63 - depth) << 48 | uint64_t(order[lane.block[depth]]) << 32 | (begins ? 0 : e.code);
    };
    bool dry = false;
    for (int i = 0; i < 32; i++) {
        next[i] = look(i);
        dry = dry || ((may_go_on >> i & 1) && next[i] == none);
    }
    while (!dry) {
        uint64_t first = next[0], differ = 0;
        for (int i = 1; i < 32; i++) {
            differ |= next[i] ^ next[0];
            first = std::min(first, next[i]);
        }
        unsigned int together = ~0u;
        if (differ) {
            together = 0;
            for (int i = 0; i < 32; i++) together |= unsigned(next[i] == first) << i;
        }
        if (first == none) break;
        unsigned int rest = together & ((uint32_t(first) != 0) ? ~0u : 0u);  // where a block begins nothing is touched
        while (rest) {  // the lanes may differ in the kind of memory that they touch there
            uint64_t address[32];
            uint16_t other[32];
            unsigned int same = 0;
            const Event& one = lanes[__builtin_ctz(rest)]->events[at[__builtin_ctz(rest)]];
            for (unsigned int others = rest; others; others &= others - 1) {
                int i = __builtin_ctz(others);
                const Event& e = lanes[i]->events[at[i]];
                if (e.site != one.site) continue;
                address[i] = e.address;
                other[i] = e.other;
                same |= 1u << i;
            }
            Site& site = sites[one.site];
            const uint64_t sectors = site.sectors, passed = site.wavefronts, least = site.least_wavefronts;
            if (one.site) request(site, address, other, same, block, warp, arena);
            if (observer) [[unlikely]]
                observer->counted(site, same, block, warp, site.sectors - sectors, site.wavefronts - passed,
                                  site.least_wavefronts - least);
            rest &= ~same;
        }
        for (unsigned int moved = together; moved; moved &= moved - 1) {
            int i = __builtin_ctz(moved);
            at[i]++;
            next[i] = look(i);
            dry = dry || ((may_go_on >> i & 1) && next[i] == none);
        }
    }
    for (int i = 0; i < 32; i++)
        if (lanes[i]) lanes[i]->events.erase(lanes[i]->events.begin(), lanes[i]->events.begin() + at[i]);
}

// Sectors are 32 bytes, at multiples of 32.
static unsigned int sectors_of(const uint64_t (&address)[32], unsigned int lanes, unsigned int bytes) {
    uint64_t sectors[64];
    unsigned int n = 0;
    bool sorted = true;
    for (; lanes; lanes &= lanes - 1) {
        uint64_t a = address[__builtin_ctz(lanes)];
        for (uint64_t s = a / 32; s <= (a + bytes - 1) / 32; s++) {
            if (n && sectors[n - 1] == s) continue;
            sorted = sorted && (!n || sectors[n - 1] < s);
            if (n < 64) sectors[n++] = s;
        }
    }
    if (sorted) return n;
    std::sort(sectors, sectors + n);
    return std::unique(sectors, sectors + n) - sectors;
}

// An asynchronous copy of 16 bytes bypasses the L1 cache. What it costs is counted by where it goes: one sector for
// each 32 bytes of shared memory and each line of 128 bytes of global memory from which they come.
static unsigned int sectors_past_cache(const uint64_t (&address)[32], const uint16_t (&to)[32], unsigned int lanes) {
    std::pair<uint64_t, uint16_t> pieces[32];
    unsigned int n = 0;
    for (; lanes; lanes &= lanes - 1) {
        int i = __builtin_ctz(lanes);
        pieces[n++] = {address[i] / 128, uint16_t(to[i] / 8)};
    }
    std::sort(pieces, pieces + n);
    return std::unique(pieces, pieces + n) - pieces;
}

// The passes of an asynchronous copy through the cache: a lane waits for all others that load from its bank, or store
// to its bank, even where they want the same word. A whole warp of 4 bytes each, or half a warp of 8.
static unsigned int passes_of_copy(const uint64_t (&address)[32], const uint16_t (&from)[32], unsigned int lanes,
                                   unsigned int words, uint64_t arena) {
    unsigned int out[32] = {}, in[32] = {};  // which lanes come from a bank, and which go to it
    auto each = [&](auto what) {
        for (unsigned int rest = lanes; rest; rest &= rest - 1)
            for (unsigned int i = __builtin_ctz(rest), w = 0; w < words; w++)
                what(i, (from[i] + w) % 32, ((address[i] - arena) / 4 + w) % 32);
    };
    each([&](unsigned int i, unsigned int f, unsigned int t) { out[f] |= 1u << i, in[t] |= 1u << i; });
    unsigned int meets[32] = {};
    each([&](unsigned int i, unsigned int f, unsigned int t) { meets[i] |= out[f] | in[t]; });
    int most = 0;
    for (unsigned int m : meets) most = std::max(most, __builtin_popcount(m));
    return most;
}

// One pass serves each bank once, with one word of 4 bytes; lanes that want the same word share it.
static unsigned int passes(const uint64_t (&address)[32], unsigned int lanes, unsigned int words, uint64_t arena) {
    uint64_t wanted[32][32];
    unsigned char count[32] = {};
    unsigned int most = 0;
    for (; lanes; lanes &= lanes - 1) {
        uint64_t word = (address[__builtin_ctz(lanes)] - arena) / 4;
        for (unsigned int w = 0; w < words; w++, word++) {
            unsigned int bank = word % 32, k = 0;
            while (k < count[bank] && wanted[bank][k] != word) k++;
            if (k == count[bank] && k < 32) wanted[bank][count[bank]++] = word;
            most = std::max<unsigned int>(most, count[bank]);
        }
    }
    return most;
}

// Whether neighbours want the same: every lane what lane i ^ 1 wants, or every lane what lane i ^ 2 wants. Lanes that
// are not active do not count.
static bool pairs(const uint64_t (&address)[32], unsigned int lanes) {
    bool first = true, second = true;
    for (unsigned int rest = lanes; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        first = first && (!(lanes >> (i ^ 1) & 1) || address[i ^ 1] == address[i]);
        second = second && (!(lanes >> (i ^ 2) & 1) || address[i ^ 2] == address[i]);
    }
    return first || second;
}

// The rules were found with counters of an H200: tests/nsight.
void Requests::request(Site& s, const uint64_t (&address)[32], const uint16_t (&other)[32], unsigned int lanes,
                       uint64_t block, unsigned int warp, uintptr_t arena) {
    uint64_t cost = 0;
    s.accesses += __builtin_popcount(lanes);
    s.requests++;
    if (s.space == Space::global) {
        cost = s.copy == 16 ? sectors_past_cache(address, other, lanes) : sectors_of(address, lanes, s.bytes);
        s.sectors += cost;
    } else if (s.copy && !is_copy(s.copy)) {  // a matrix after the other: the rows of eight lanes
        for (unsigned int from = 0; from < 32; from += 8)
            if (unsigned int some = lanes & 0xffu << from) {
                cost += passes(address, some, 4, arena);
                s.least_wavefronts++;
            }
        s.wavefronts += cost;
    } else if (s.copy) {
        const unsigned int words = s.copy / 4, size = 32 / words;
        for (unsigned int from = 0; s.copy < 16 && from < 32; from += size) {  // no passes without the cache
            unsigned int some = lanes & ~0u >> (32 - size) << from;
            cost += passes_of_copy(address, other, some, words, arena);
            s.least_wavefronts += some != 0;
        }
        s.wavefronts += cost;
    } else {
        // Lanes that want 8 bytes each are served by halves of the warp, and 16 bytes by quarters; two halves, or the
        // two quarters of a half, together where neighbours want the same.
        const unsigned int words = std::max(1u, s.bytes / 4);
        const unsigned int size = s.space == Space::constant || words == 1 ? 32 : 32 / words;
        auto serve = [&](unsigned int some) {
            if (!some) return;
            cost += passes(address, some, words, arena);
            s.least_wavefronts++;
        };
        if (size == 32) serve(lanes);
        for (unsigned int from = 0; size < 32 && from < 32; from += 2 * size) {
            const unsigned int group = (1u << size) - 1;
            unsigned int first = lanes & group << from, second = lanes & group << (from + size);
            if (pairs(address, first | second)) {
                serve(first | second);
            } else {
                serve(first);
                serve(second);
            }
        }
        s.wavefronts += cost;
    }
    bool better = !s.example.lanes || (s.example.block == block && s.example.warp == warp && cost > s.example.cost);
    if (!better) return;
    s.example.block = block;
    s.example.warp = warp;
    s.example.lanes = lanes;
    s.example.cost = cost;
    std::copy(address, address + 32, s.example.address);
    std::copy(other, other + 32, s.example.other);
}

}  // namespace cuda_on_cpu
