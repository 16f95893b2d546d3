// Which accesses of two threads race. Two threads race where both touch the same bytes, at least one of them writes,
// the accesses are not both atomic, and no barrier or fence orders them. accesses.cpp asks at every access.
//
// Time is a number that grows with every event that orders something. Each access has the time at which it was made.
// A barrier of the block notes its time: what came before it is ordered with all that follows in the block. The same
// holds for two lanes of a warp and `__syncwarp`. Who has waited for a phase of a barrier in memory knows what those did
// before who had arrived. What is done asynchronously has agents of its own. Between blocks there are only atomics: what a thread did before a
// fence is visible to a thread that then reads, atomically, what that thread wrote atomically after the fence.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "requests.h"

namespace cuda_on_cpu {

struct Record {  // of one access; time 0: none
    uint32_t time = 0, block = 0;
    uint16_t thread = 0, site = 0;
};

// What a block can rely on of another: all before its last barrier, and more of single threads.
struct Known {
    uint32_t barrier = 0;
    std::unordered_map<uint16_t, uint32_t> threads;
};
using Knowledge = std::unordered_map<uint32_t, Known>;

inline void merge(Knowledge& into, const Knowledge& from) {
    for (const auto& [block, known] : from) {
        Known& mine = into[block];
        mine.barrier = std::max(mine.barrier, known.barrier);
        for (const auto& [thread, time] : known.threads) mine.threads[thread] = std::max(mine.threads[thread], time);
    }
}

// What those know who have waited for a phase of a barrier in memory: by thread, up to when they know all it did.
struct Phases {
    std::vector<uint32_t> arrived, over;              // so far, and at the end of the last phase
    std::vector<uint32_t> agents_done, agents_known;  // the same of what agents did
};

// What acts on its own, on behalf of a thread: the copies that a barrier counts, what a thread's bulk groups read and
// write, what a warpgroup's products read. In records it has a number above those of the block's threads. No barrier
// orders what it does: a thread knows that when it has waited for it, or has met one that had.
struct Agent {
    unsigned int thread;         // that issues
    uint32_t done = 0;           // it has done what it began before this time
    bool news = false;           // since the last barrier of the block, a thread has waited
    std::vector<uint32_t> seen;  // by thread: it knows what the agent began before this time

    void waited(unsigned int by, uint32_t time) {
        if (seen[by] >= time) return;
        seen[by] = time;
        news = true;
    }
};
enum class Proxy { shared, global, init };  // what a proxy fence is for; init: fence.mbarrier_init

struct BlockOrder {
    uint32_t begun = 0, barrier = 0;
    std::unordered_map<const void*, Phases> phases;
    std::vector<uint32_t> seen;   // by two threads: what the first knows of the second by phases; empty if there are none
    std::vector<uint32_t> met;    // by thread and lane of its warp: when they last met
    std::vector<uint32_t> fence;  // by thread: its last fence
    Knowledge knows;
    std::vector<Agent> agents;
    std::map<std::pair<const void*, unsigned int>, uint16_t> agent_numbers;  // by what it acts for, and the thread
    std::vector<std::vector<uint32_t>> proxy_fences[3];                      // by Proxy and thread: when

    uint32_t* of(unsigned int thread) { return &seen[size_t(thread) * fence.size()]; }
    Phases& phases_of(const void* barrier) {
        if (seen.empty()) seen.resize(fence.size() * fence.size());
        Phases& found = phases[barrier];
        found.arrived.resize(fence.size());
        found.over.resize(fence.size());
        found.agents_done.resize(agents.size());
        found.agents_known.resize(agents.size());
        return found;
    }
    bool is_agent(unsigned int thread) const { return thread >= fence.size(); }
    Agent& agent(unsigned int number) { return agents[number - fence.size()]; }
    // Its number in records.
    uint16_t agent_of(const void* what, unsigned int thread) {
        auto [found, is_new] = agent_numbers.try_emplace({what, thread}, uint16_t(fence.size() + agents.size()));
        if (is_new) agents.push_back({thread, 0, false, std::vector<uint32_t>(fence.size())});
        return found->second;
    }
};

class Order {
public:
    uint32_t now = 1;
    uint32_t since = 1;  // accesses before are over: another launch, or before a barrier of the grid

    void begin_launch() {
        since = ++now;
        published.clear();
    }
    void begin_block(BlockOrder& b, unsigned int threads) {
        b.begun = b.barrier = ++now;
        b.met.assign(size_t(threads) * 32, 0);
        b.fence.assign(threads, 0);
        b.knows.clear();
        b.phases.clear();
        b.seen.clear();
        b.agents.clear();
        b.agent_numbers.clear();
        for (auto& fences : b.proxy_fences) fences.clear();
    }
    void block_barrier(BlockOrder& b) {
        b.barrier = ++now;
        for (Agent& agent : b.agents) {
            if (!std::exchange(agent.news, false)) continue;
            std::fill(agent.seen.begin(), agent.seen.end(), *std::max_element(agent.seen.begin(), agent.seen.end()));
        }
    }
    // Those that meet know from now on all that any of them knew of the warp.
    void warp_barrier(BlockOrder& b, unsigned int warp, unsigned int came) {
        ++now;
        uint32_t best[32] = {};
        for (unsigned int lane = 0; lane < 32; lane++) {
            if (came >> lane & 1) best[lane] = now;
            for (unsigned int rest = came; rest; rest &= rest - 1)
                best[lane] = std::max(best[lane], b.met[(warp * 32 + __builtin_ctz(rest)) * 32 + lane]);
        }
        for (unsigned int rest = came; rest; rest &= rest - 1)
            std::copy(best, best + 32, &b.met[(warp * 32 + __builtin_ctz(rest)) * 32]);
        for (Agent& agent : b.agents) {
            uint32_t most = 0;
            for (unsigned int rest = came; rest; rest &= rest - 1)
                most = std::max(most, agent.seen[warp * 32 + __builtin_ctz(rest)]);
            for (unsigned int rest = came; rest; rest &= rest - 1) agent.waited(warp * 32 + __builtin_ctz(rest), most);
        }
        if (b.seen.empty()) return;
        std::vector<uint32_t> all(b.fence.size());
        for (unsigned int rest = came; rest; rest &= rest - 1) learn(all, b.of(warp * 32 + __builtin_ctz(rest)));
        for (unsigned int rest = came; rest; rest &= rest - 1)
            std::copy(all.begin(), all.end(), b.of(warp * 32 + __builtin_ctz(rest)));
    }
    void phase_arrives(BlockOrder& b, unsigned int thread, const void* barrier) {
        Phases& phases = b.phases_of(barrier);
        learn(phases.arrived, b.of(thread));
        const uint32_t* met = &b.met[size_t(thread) * 32];
        for (size_t lane = 0, first = thread / 32 * 32; lane < 32 && first + lane < b.fence.size(); lane++)
            phases.arrived[first + lane] = std::max(phases.arrived[first + lane], met[lane]);
        phases.arrived[thread] = ++now;
        for (size_t i = 0; i < b.agents.size(); i++)
            phases.agents_done[i] = std::max(phases.agents_done[i], b.agents[i].seen[thread]);
    }
    void phase_ends(BlockOrder& b, const void* barrier) {
        Phases& phases = b.phases_of(barrier);
        phases.over = phases.arrived;
        phases.agents_known = phases.agents_done;
    }
    void phase_waited(BlockOrder& b, unsigned int thread, const void* barrier) {
        const Phases& phases = b.phases_of(barrier);
        uint32_t* mine = b.of(thread);
        for (size_t i = 0; i < phases.over.size(); i++) mine[i] = std::max(mine[i], phases.over[i]);
        for (size_t i = 0; i < b.agents.size(); i++) b.agents[i].waited(thread, phases.agents_known[i]);
    }
    void proxy_fence(BlockOrder& b, unsigned int thread, Proxy proxy) {
        auto& fences = b.proxy_fences[int(proxy)];
        fences.resize(b.fence.size());
        fences[thread].push_back(++now);
    }
    // Whether a proxy fence comes between `x`, of the same block, and what `me` does now: by the thread of `x`, and
    // before what orders the two.
    bool fenced(const Record& x, const Record& me, const BlockOrder& b, Proxy proxy) const {
        const auto& fences = b.proxy_fences[int(proxy)];
        if (fences.empty()) return false;
        const auto& own = fences[x.thread];
        auto first = std::upper_bound(own.begin(), own.end(), x.time);
        return first != own.end() && ordered({*first, x.block, x.thread, 0}, me, b);
    }
    void fence(BlockOrder& b, unsigned int thread) { b.fence[thread] = ++now; }
    void release(BlockOrder& b, uint32_t block, unsigned int thread, uintptr_t address) {
        if (!b.fence[thread]) return;
        Knowledge& all = published[address];
        Known& mine = all[block];
        mine.barrier = std::max(mine.barrier, b.barrier);
        mine.threads[thread] = std::max(mine.threads[thread], b.fence[thread]);
        for (size_t i = 0; i < b.agents.size(); i++)
            if (const uint32_t seen = b.agents[i].seen[thread]) mine.threads[uint16_t(b.fence.size() + i)] = seen;
        merge(all, b.knows);
        ++now;
    }
    void acquire(BlockOrder& b, uintptr_t address) {
        if (published.empty()) return;
        if (auto found = published.find(address); found != published.end()) merge(b.knows, found->second);
    }
    // Whether `x` is ordered before an access by `me`, now.
    bool ordered(const Record& x, const Record& me, const BlockOrder& b) const {
        const bool agent = b.is_agent(x.thread);
        if (x.block == me.block) {
            if (agent) return x.time < b.agents[x.thread - b.fence.size()].seen[me.thread];
            if (x.thread == me.thread || x.time < b.barrier) return true;
            if (x.thread / 32 == me.thread / 32 && x.time < b.met[me.thread * 32 + x.thread % 32]) return true;
            if (!b.seen.empty() && x.time < b.seen[me.thread * b.fence.size() + x.thread]) return true;
        }
        if (b.knows.empty()) return false;
        auto known = b.knows.find(x.block);
        if (known == b.knows.end()) return false;
        if (!agent && x.time < known->second.barrier) return true;
        auto thread = known->second.threads.find(x.thread);
        return thread != known->second.threads.end() && x.time < thread->second;
    }

private:
    static void learn(std::vector<uint32_t>& all, const uint32_t* more) {
        for (size_t i = 0; i < all.size(); i++) all[i] = std::max(all[i], more[i]);
    }
    std::unordered_map<uintptr_t, Knowledge> published;  // by the address of the atomic
};

// The last accesses of every few bytes: the last write, the last atomic and two reads, by different threads where there
// were two.
class Shadow {
public:
    Shadow() = default;
    Shadow(Shadow&& other) noexcept { *this = std::move(other); }
    Shadow& operator=(Shadow&& other) noexcept {
        std::swap(cells, other.cells);
        std::swap(count, other.count);
        std::swap(granule, other.granule);
        return *this;
    }
    ~Shadow() {
        if (cells) munmap(cells, count * sizeof(Cell));
    }
    // For `bytes` bytes of elements this large. Pages are taken from the system when touched.
    void make(size_t bytes, size_t element) {
        granule = element % 4 == 0 ? 4 : element % 2 == 0 ? 2 : 1;
        count = bytes / granule + 1;
        void* pages = mmap(nullptr, count * sizeof(Cell), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        cells = pages == MAP_FAILED ? nullptr : static_cast<Cell*>(pages);
    }

    bool made() const { return cells; }

    // An access, a read or a write, with which a plain write of these bytes races.
    template <class Ordered>
    Record against_write(size_t offset, size_t bytes, uint32_t since, Ordered ordered) const {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            const Cell& c = cells[at / granule];
            const unsigned char mask = 1u << at % granule;
            for (int i = 0; i < 2; i++) {
                if (c.write[i].time >= since && c.write_mask[i] & mask && !ordered(c.write[i])) return c.write[i];
                if (c.read[i].time >= since && c.read_mask[i] & mask && !ordered(c.read[i])) return c.read[i];
            }
        }
        return {};
    }

    // A write of these bytes that is `wrong`.
    template <class Wrong>
    Record wrong_write(size_t offset, size_t bytes, uint32_t since, Wrong wrong) const {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            const Cell& c = cells[at / granule];
            for (int i = 0; i < 2; i++)
                if (c.write[i].time >= since && c.write_mask[i] & 1u << at % granule && wrong(c.write[i])) return c.write[i];
        }
        return {};
    }

    // An asynchronous copy has written these bytes of shared memory.
    void set_initialized(size_t offset, size_t bytes, uint32_t since) {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            Cell& c = cells[at / granule];
            if (c.initialized_since != since) c.initialized_since = since, c.initialized = 0;
            c.initialized |= 1u << at % granule;
        }
    }

    // Notes an access and returns an earlier one that it races with, if there is one. What was noted before `since`
    // does not count. `uninitialized` is set where shared memory is read that no thread has written.
    template <class Ordered>
    Record note(size_t offset, size_t bytes, const Record& me, Op op, bool atomic, uint32_t since, bool shared,
                bool& uninitialized, Ordered ordered) {
        Record other;
        if (!cells) return other;
        for (size_t at = offset; at < offset + bytes;) {
            Cell& c = cells[at / granule];
            size_t from = at % granule, to = std::min(granule, offset + bytes - (at - from));
            unsigned char mask = (1u << to) - (1u << from);
            at += to - from;
            auto races = [&](const Record& x, unsigned char x_mask, bool x_atomic) {
                return x.time >= since && (x_mask & mask) && !(x_atomic && atomic) && !ordered(x);
            };
            for (int plain_or_atomic = 0; plain_or_atomic < 2; plain_or_atomic++)
                if (!other.time && races(c.write[plain_or_atomic], c.write_mask[plain_or_atomic], plain_or_atomic))
                    other = c.write[plain_or_atomic];
            if (op != Op::load) {
                if (!other.time && races(c.read[0], c.read_mask[0], c.read_atomic[0])) other = c.read[0];
                if (!other.time && races(c.read[1], c.read_mask[1], c.read_atomic[1])) other = c.read[1];
            }
            if (shared) {
                if (c.initialized_since != since) c.initialized_since = since, c.initialized = 0;
                if (op != Op::store && mask & ~c.initialized) uninitialized = true;
                c.initialized |= mask;  // reported once
            }
            if (op == Op::load) {
                // Keep the first reader and one other: a later writer is neither or not both.
                Record& first = c.read[0];
                bool first_is_old = first.time < since || (first.thread == me.thread && first.block == me.block) ||
                                    (first.block == me.block && ordered(first));
                int slot = first_is_old ? 0 : 1;
                c.read_mask[slot] = c.read[slot].thread == me.thread && c.read[slot].block == me.block &&
                                            c.read[slot].time >= since
                                        ? c.read_mask[slot] | mask
                                        : mask;
                c.read[slot] = me;
                c.read_atomic[slot] = atomic;
            } else {
                Record& last = c.write[atomic];
                bool mine = last.thread == me.thread && last.block == me.block && last.time >= since;
                c.write_mask[atomic] = mine ? c.write_mask[atomic] | mask : mask;
                last = me;
            }
        }
        return other;
    }

private:
    struct Cell {
        Record write[2], read[2];  // a plain write and an atomic one
        unsigned char write_mask[2], read_mask[2], initialized;
        bool read_atomic[2];
        uint32_t initialized_since;
    };
    Cell* cells = nullptr;
    size_t count = 0, granule = 4;
};

}  // namespace cuda_on_cpu
