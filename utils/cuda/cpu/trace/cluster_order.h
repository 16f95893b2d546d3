// What the barrier of a cluster orders. Who has waited for a phase knows all that those of the cluster did before they
// arrived at it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cuda_on_cpu {

struct ClusterOrder {
    struct Times {  // of one thread
        uint32_t released = 0;  // who waits knows what it did before
        uint32_t came = 0;      // the same, but it may have arrived `relaxed`, which orders no memory
    };
    std::vector<uint32_t> numbers;           // of the blocks, by rank
    std::vector<std::vector<Times>> arrived;  // by rank and thread: the last time
    std::vector<std::vector<Times>> over[2];  // at the ends of the last two phases, by the parity of the phase
    uint32_t phases = 0;                      // that are over

    void begin(std::vector<uint32_t> blocks, unsigned int threads) {
        numbers = std::move(blocks);
        arrived.assign(numbers.size(), std::vector<Times>(threads));
        over[0] = over[1] = arrived;
        phases = 0;
    }
    void opens() { over[phases++ % 2] = arrived; }

    // Whether one who has waited for `known` phases knows what a thread did at a time.
    bool ordered(uint32_t block, unsigned int thread, uint32_t time, uint32_t known, bool memory = true) const {
        if (known == 0) return false;
        const auto rank = std::find(numbers.begin(), numbers.end(), block) - numbers.begin();
        if (size_t(rank) == numbers.size() || thread >= arrived[rank].size()) return false;
        const Times& times = over[(known - 1) % 2][rank][thread];
        return time < (memory ? times.released : times.came);
    }
};

}  // namespace cuda_on_cpu
