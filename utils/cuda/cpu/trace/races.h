// Which accesses of two threads race. Two threads race where both touch the same bytes, at least one of them writes,
// the accesses are not both atomic, and no barrier or fence orders them. accesses.cpp asks at every access.
//
// Time is a number that grows with every event that orders something. Each access has the time at which it was made.
// A barrier of the block notes its time: what came before it is ordered with all that follows in the block. The same
// holds for two lanes of a warp and `__syncwarp`. Who has waited for a phase of a barrier in memory knows what those did
// before who had arrived. What is done asynchronously has agents of its own. Between blocks there are only atomics: what
// a thread did before a fence is visible to a thread that then reads, atomically, what that thread wrote atomically after
// the fence, and uses what it reads; if the fence is one for the block, only to a thread of that block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster_order.h"
#include "shadow.h"

namespace cuda_on_cpu {

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
    Knowledge peers_arrived, peers_over;              // and of other blocks of the cluster,
    uint32_t cluster_arrived = 0, cluster_over = 0;   // with phases of the cluster's barrier
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

// By thread: its last fence, and what it knew then.
struct Fences {
    std::vector<uint32_t> last, met, seen;
};

struct BlockOrder {
    unsigned int threads = 0;
    uint32_t begun = 0, barrier = 0;
    std::unordered_map<const void*, Phases> phases;
    std::vector<uint32_t> seen;   // by two threads: what the first knows of the second by phases; empty if there are none
    std::vector<uint32_t> met;    // by thread and lane of its warp: when they last met
    Fences of_grid, of_block;     // __threadfence and the like; these and __threadfence_block
    Knowledge knows;
    std::unordered_map<uintptr_t, Knowledge> published;  // to its own threads, by the address of the atomic
    std::vector<Agent> agents;
    std::map<std::pair<const void*, unsigned int>, uint16_t> agent_numbers;  // by what it acts for, and the thread
    std::vector<std::vector<uint32_t>> proxy_fences[3];                      // by Proxy and thread: when
    std::shared_ptr<ClusterOrder> cluster;  // of its cluster, if it has one,
    std::vector<uint32_t> cluster_phases;   // and by thread: how many phases of its barrier are known to be over
    std::vector<Knowledge> of_peers;        // by thread: by barriers at which peers arrive; empty if there are none

    void begin_cluster(std::shared_ptr<ClusterOrder> of) {
        cluster = std::move(of);
        cluster_phases.assign(threads, 0);
    }
    // Whether a thread knows that another block has begun.
    bool knows_of(unsigned int thread, uint32_t block) const {
        return cluster_phases[thread] || knows.count(block) || (!of_peers.empty() && of_peers[thread].count(block));
    }

    uint32_t* of(unsigned int thread) { return &seen[size_t(thread) * threads]; }
    Phases& phases_of(const void* barrier) {
        if (seen.empty()) seen.resize(threads * threads);
        Phases& found = phases[barrier];
        found.arrived.resize(threads);
        found.over.resize(threads);
        found.agents_done.resize(agents.size());
        found.agents_known.resize(agents.size());
        return found;
    }
    bool is_agent(unsigned int thread) const { return thread >= threads; }
    Agent& agent(unsigned int number) { return agents[number - threads]; }
    // Its number in records.
    uint16_t agent_of(const void* what, unsigned int thread) {
        auto [found, is_new] = agent_numbers.try_emplace({what, thread}, uint16_t(threads + agents.size()));
        if (is_new) agents.push_back({thread, 0, false, std::vector<uint32_t>(threads)});
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
        b.threads = threads;
        b.begun = b.barrier = ++now;
        b.met.assign(size_t(threads) * 32, 0);
        for (Fences* fences : {&b.of_grid, &b.of_block}) {
            fences->last.assign(threads, 0);
            fences->met.assign(b.met.size(), 0);
            fences->seen.clear();
        }
        b.knows.clear();
        b.published.clear();
        b.phases.clear();
        b.seen.clear();
        b.agents.clear();
        b.agent_numbers.clear();
        for (auto& fences : b.proxy_fences) fences.clear();
        b.cluster.reset();
        b.of_peers.clear();
    }
    void cluster_arrives(BlockOrder& b, unsigned int rank, unsigned int thread, bool releases) {
        ClusterOrder::Times& times = b.cluster->arrived[rank][thread];
        const auto& inits = b.proxy_fences[int(Proxy::init)];
        const uint32_t fenced = inits.empty() || inits[thread].empty() ? 0 : inits[thread].back();
        times.came = ++now;
        times.released = releases ? now : std::max({times.released, b.of_grid.last[thread], fenced});
        ++now;
    }
    void block_barrier(BlockOrder& b) {
        b.barrier = ++now;
        for (Agent& agent : b.agents) {
            if (!std::exchange(agent.news, false)) continue;
            std::fill(agent.seen.begin(), agent.seen.end(), *std::max_element(agent.seen.begin(), agent.seen.end()));
        }
        if (!b.cluster) return;
        std::fill(b.cluster_phases.begin(), b.cluster_phases.end(),
                  *std::max_element(b.cluster_phases.begin(), b.cluster_phases.end()));
        for (const Knowledge& mine : b.of_peers) merge(b.knows, mine);
        b.of_peers.clear();
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
        if (b.cluster) cluster_meets(b, warp, came);
        if (b.seen.empty()) return;
        std::vector<uint32_t> all(b.threads);
        for (unsigned int rest = came; rest; rest &= rest - 1) learn(all, b.of(warp * 32 + __builtin_ctz(rest)));
        for (unsigned int rest = came; rest; rest &= rest - 1)
            std::copy(all.begin(), all.end(), b.of(warp * 32 + __builtin_ctz(rest)));
    }
    void phase_arrives(BlockOrder& b, unsigned int thread, const void* barrier) {
        Phases& phases = b.phases_of(barrier);
        learn(phases.arrived, b.of(thread));
        const uint32_t* met = &b.met[size_t(thread) * 32];
        for (size_t lane = 0, first = thread / 32 * 32; lane < 32 && first + lane < b.threads; lane++)
            phases.arrived[first + lane] = std::max(phases.arrived[first + lane], met[lane]);
        phases.arrived[thread] = ++now;
        for (size_t i = 0; i < b.agents.size(); i++)
            phases.agents_done[i] = std::max(phases.agents_done[i], b.agents[i].seen[thread]);
        if (b.cluster) tells_of_peers(phases, b, thread);
    }
    // A thread of block number `block`, of which `mine` knows, arrives at a barrier in a peer's memory.
    void peer_arrives(BlockOrder& b, const void* barrier, const BlockOrder& mine, uint32_t block, unsigned int thread) {
        Phases& phases = b.phases_of(barrier);
        Known& known = phases.peers_arrived[block];
        known.barrier = std::max(known.barrier, mine.barrier);
        for (unsigned int other = 0; other < mine.threads; other++) {
            uint32_t time = other / 32 == thread / 32 ? mine.met[size_t(thread) * 32 + other % 32] : 0;
            if (!mine.seen.empty()) time = std::max(time, mine.seen[thread * mine.threads + other]);
            if (time) known.threads[other] = std::max(known.threads[other], time);
        }
        for (size_t i = 0; i < mine.agents.size(); i++)
            if (const uint32_t seen = mine.agents[i].seen[thread]) known.threads[uint16_t(mine.threads + i)] = seen;
        known.threads[thread] = ++now;
        tells_of_peers(phases, mine, thread);
        ++now;
    }
    void phase_ends(BlockOrder& b, const void* barrier) {
        Phases& phases = b.phases_of(barrier);
        phases.over = phases.arrived;
        phases.agents_known = phases.agents_done;
        phases.peers_over = phases.peers_arrived;
        phases.cluster_over = phases.cluster_arrived;
    }
    void phase_waited(BlockOrder& b, unsigned int thread, const void* barrier) {
        const Phases& phases = b.phases_of(barrier);
        uint32_t* mine = b.of(thread);
        for (size_t i = 0; i < phases.over.size(); i++) mine[i] = std::max(mine[i], phases.over[i]);
        for (size_t i = 0; i < b.agents.size(); i++) b.agents[i].waited(thread, phases.agents_known[i]);
        if (!b.cluster) return;
        b.cluster_phases[thread] = std::max(b.cluster_phases[thread], phases.cluster_over);
        if (phases.peers_over.empty()) return;
        b.of_peers.resize(b.threads);
        merge(b.of_peers[thread], phases.peers_over);
    }
    // All that wait for a phase know that it has ended, and no thread will ask again.
    void phase_over(BlockOrder& b, const void* barrier) { b.phases.erase(barrier); }
    void proxy_fence(BlockOrder& b, unsigned int thread, Proxy proxy) {
        auto& fences = b.proxy_fences[int(proxy)];
        fences.resize(b.threads);
        fences[thread].push_back(++now);
    }
    // Whether a proxy fence comes between `x`, of the block of `other`, and what `me` does now in the block of `mine`: by
    // the thread of `x`, and before what orders the two.
    bool fenced(const Record& x, const BlockOrder& other, const Record& me, const BlockOrder& mine, Proxy proxy) const {
        const auto& fences = other.proxy_fences[int(proxy)];
        if (fences.empty()) return false;
        const auto& own = fences[x.thread];
        auto first = std::upper_bound(own.begin(), own.end(), x.time);
        return first != own.end() && ordered({*first, x.block, x.thread, 0}, me, mine);
    }
    void fence(BlockOrder& b, unsigned int thread, bool of_block) {
        ++now;
        passes(b, thread, b.of_block);
        if (!of_block) passes(b, thread, b.of_grid);
    }
    void release(BlockOrder& b, uint32_t block, unsigned int thread, uintptr_t address) {
        if (!b.of_block.last[thread]) return;
        publish(b, block, thread, b.of_block, b.published[address]);
        if (b.of_grid.last[thread]) publish(b, block, thread, b.of_grid, published[address]);
        ++now;
    }
    void acquire(BlockOrder& b, uintptr_t address) {
        for (const auto* of : {&published, &b.published}) {
            if (of->empty()) continue;
            if (auto found = of->find(address); found != of->end()) merge(b.knows, found->second);
        }
    }
    // Whether `x` is ordered before an access by `me`, now.
    bool ordered(const Record& x, const Record& me, const BlockOrder& b) const {
        const bool agent = b.is_agent(x.thread);
        if (x.block == me.block) {
            if (agent) return x.time < b.agents[x.thread - b.threads].seen[me.thread];
            if (x.thread == me.thread || x.time < b.barrier) return true;
            if (x.thread / 32 == me.thread / 32 && x.time < b.met[me.thread * 32 + x.thread % 32]) return true;
            if (!b.seen.empty() && x.time < b.seen[me.thread * b.threads + x.thread]) return true;
        }
        if (b.cluster) {
            if (b.cluster->ordered(x.block, x.thread, x.time, b.cluster_phases[me.thread])) return true;
            if (!b.of_peers.empty() && knows(b.of_peers[me.thread], x, agent)) return true;
        }
        return !b.knows.empty() && knows(b.knows, x, agent);
    }
    // Whether thread `thread` of the block of `b` goes on only after `x`, whether or not it sees what `x` wrote.
    bool knows_that(const Record& x, const BlockOrder& b, unsigned int thread) const {
        if (b.cluster->ordered(x.block, x.thread, x.time, b.cluster_phases[thread], false)) return true;
        if (!b.of_peers.empty() && knows(b.of_peers[thread], x, false)) return true;
        return knows(b.knows, x, false);
    }

private:
    void passes(BlockOrder& b, unsigned int thread, Fences& fences) {
        fences.last[thread] = now;
        std::copy_n(&b.met[size_t(thread) * 32], 32, &fences.met[size_t(thread) * 32]);
        if (b.seen.empty()) return;
        fences.seen.resize(b.seen.size());
        std::copy_n(b.of(thread), b.threads, &fences.seen[size_t(thread) * b.threads]);
    }
    // What a thread makes visible to whoever reads what it writes atomically now.
    static void publish(BlockOrder& b, uint32_t block, unsigned int thread, const Fences& fences, Knowledge& all) {
        Known& mine = all[block];
        mine.barrier = std::max(mine.barrier, b.barrier);
        mine.threads[thread] = std::max(mine.threads[thread], fences.last[thread]);
        const size_t first = thread / 32 * 32, end = std::min<size_t>(first + 32, b.threads);
        auto tell = [&](size_t other, uint32_t time) {
            if (other != thread && time > mine.barrier) mine.threads[other] = std::max(mine.threads[other], time);
        };
        for (size_t i = first; i < end; i++) tell(i, of_other(fences, i, b.met, fences.met, thread * 32 + i - first));
        for (size_t i = 0; i < b.threads && !b.seen.empty(); i++)
            tell(i, of_other(fences, i, b.seen, fences.seen, thread * b.threads + i));
        for (size_t i = 0; i < b.agents.size(); i++)
            if (const uint32_t seen = b.agents[i].seen[thread]) mine.threads[uint16_t(b.threads + i)] = seen;
        merge(all, b.knows);
        if (!b.of_peers.empty()) merge(all, b.of_peers[thread]);
    }
    static bool knows(const Knowledge& all, const Record& x, bool agent) {
        auto known = all.find(x.block);
        if (known == all.end()) return false;
        if (!agent && x.time < known->second.barrier) return true;
        auto thread = known->second.threads.find(x.thread);
        return thread != known->second.threads.end() && x.time < thread->second;
    }
    // What a thread that sets a flag makes visible of another of its block: all that it knew of it at its last fence, and
    // what that one made visible by a fence of its own before the two met, at place `at` of `known`.
    static uint32_t of_other(const Fences& fences, size_t other, const std::vector<uint32_t>& known,
                             const std::vector<uint32_t>& at_fence, size_t at) {
        const uint32_t own = fences.last[other] < known[at] ? fences.last[other] : 0;
        return at_fence.empty() ? own : std::max(own, at_fence[at]);
    }
    static void tells_of_peers(Phases& phases, const BlockOrder& b, unsigned int thread) {
        phases.cluster_arrived = std::max(phases.cluster_arrived, b.cluster_phases[thread]);
        merge(phases.peers_arrived, b.knows);
        if (!b.of_peers.empty()) merge(phases.peers_arrived, b.of_peers[thread]);
    }
    static void cluster_meets(BlockOrder& b, unsigned int warp, unsigned int came) {
        uint32_t most = 0;
        Knowledge all;
        for (unsigned int rest = came; rest; rest &= rest - 1) {
            const unsigned int thread = warp * 32 + __builtin_ctz(rest);
            most = std::max(most, b.cluster_phases[thread]);
            if (!b.of_peers.empty()) merge(all, b.of_peers[thread]);
        }
        for (unsigned int rest = came; rest; rest &= rest - 1) {
            b.cluster_phases[warp * 32 + __builtin_ctz(rest)] = most;
            if (!all.empty()) b.of_peers[warp * 32 + __builtin_ctz(rest)] = all;
        }
    }
    static void learn(std::vector<uint32_t>& all, const uint32_t* more) {
        for (size_t i = 0; i < all.size(); i++) all[i] = std::max(all[i], more[i]);
    }
    std::unordered_map<uintptr_t, Knowledge> published;  // by the address of the atomic
};

}  // namespace cuda_on_cpu
