// Workers: each runs one block of a launch, or one cluster, at a time, with a stack for each thread. They are kept for
// later launches, since new stacks cost time when they are first touched.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "../guard/space.h"
#include "runtime.h"

namespace cuda_on_cpu {

static Mutex workers_mutex;
static std::vector<std::unique_ptr<Worker>> idle_workers;

std::unique_ptr<Worker> take_worker() {
    std::lock_guard lock(workers_mutex);
    if (idle_workers.empty()) return std::make_unique<Worker>();
    // Best the one that this thread had: its stacks are in this core's cache.
    auto had = [](auto& worker) { return pthread_equal(worker->cpu_thread, pthread_self()); };
    auto found = std::find_if(idle_workers.begin(), idle_workers.end() - 1, had);
    auto worker = std::move(*found);
    idle_workers.erase(found);
    return worker;
}

void give_back(std::unique_ptr<Worker> worker) {
    if (!space_is_plentiful()) return;  // Python itself needs the room that stacks take
    std::lock_guard lock(workers_mutex);
    idle_workers.push_back(std::move(worker));
}

bool drop_idle_workers() {
    std::vector<std::unique_ptr<Worker>> dropped;
    std::lock_guard lock(workers_mutex);
    dropped.swap(idle_workers);
    return !dropped.empty();
}

// ---- how many a launch gets -----------------------------------------------------------------------------------------

// Linux allows a process 65,530 maps, and each stack takes two. With that many stacks in use, a launch gets one worker;
// with as many more as a few blocks have, it waits for others to end.
constexpr uint64_t many_stacks = 16 * 1024, most_stacks = 24 * 1024;
static std::atomic<uint64_t> stacks_in_use{0};

Workers::Workers(uint64_t blocks, uint64_t block_threads) {
    const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
    for (uint64_t used = stacks_in_use;;) {
        if (used && used + block_threads > most_stacks) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            used = stacks_in_use;
            continue;
        }
        const uint64_t left = used < many_stacks ? many_stacks - used : 0;
        count = std::min({cores, blocks, std::max<uint64_t>(1, left / block_threads)});
        stacks = count * block_threads;
        if (stacks_in_use.compare_exchange_weak(used, used + stacks)) return;
    }
}

Workers::~Workers() { stacks_in_use -= stacks; }

void forget_workers() { stacks_in_use = 0; }

}  // namespace cuda_on_cpu
