// Launches: what CUDA would refuse is refused (refusals.cpp), and the blocks of the rest are distributed over the cores.
// A launch in a source calls `run_grid` (launch.h), which calls `run_block` (fibers.cpp) for each block, or
// `take_turns` (turns.cpp) for those that run side by side. How many workers share them is in workers.cpp.
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "clusters.h"
#include "turns.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

// One launch, and what its workers share.
struct Grid {
    const char* name;
    const Launch& launch;
    void (*run_threads)(void*);
    void* kernel;
    uint64_t blocks, clusters;  // a block without a cluster counts as one
    Trace* trace;
    uint64_t workers;
    uint64_t clusters_to_run = clusters;  // if fewer: the first ones and the grid's last

    std::atomic<uint64_t> next_block{0};  // or cluster
    std::atomic<bool> over{false}, stopped{false};  // no worker begins another block; it was interrupted
    std::mutex output_mutex;
    std::vector<std::pair<uint64_t, std::string>> printed;  // by block
    size_t printed_bytes = 0, left_out = 0;                 // all of that, and what was too much
    std::string fault;                                      // the message about the first
    cudaError_t error = cudaSuccess;                        // what a GPU answers to it
    std::optional<Difference> difference;                   // of the block with the lowest number
    dim3 wanted_cluster{0, 0, 0};                           // of a kernel whose blocks find that they need clusters
    std::string refusal;                                    // of a launch whose blocks find that CUDA refuses it
    std::atomic<unsigned int> at_grid{0}, ended{0};         // blocks, at a barrier of the grid

    void run();
    std::string output();
    bool next_cluster(uint64_t& i) {
        i = next_block.fetch_add(1, std::memory_order_relaxed);
        if (i >= clusters_to_run) return false;
        if (i == clusters_to_run - 1) i = clusters - 1;
        return true;
    }
    void work(uint64_t index, std::barrier<>* meeting);
    void serve(uint64_t index, std::barrier<>* meeting);
    void give_up(const std::exception& error);
    void run_in_turn(Worker& w);
    void run_groups(Worker& w, size_t together);
    void prepare(Worker& w, Block& b) const { prepare_shared(w, b, launch.shared_bytes, run_threads); }
    const Block* run_in_turns(Worker& w, const std::vector<Block*>& side_by_side);
    void set_up_cluster(Worker& w, Cluster& cluster, uint64_t i) const;
    void run_together(Worker& w, uint64_t index, std::barrier<>& meeting);
    void keep_printed(Worker& w, const Block& b);
    void collect(Worker& w, Block& b);
};

// Keeps what the block printed.
void Grid::keep_printed(Worker& w, const Block& b) {
    if (w.printed.empty() && !w.left_out) return;
    std::lock_guard lock(output_mutex);
    left_out += std::exchange(w.left_out, 0);
    if (printed_bytes + w.printed.size() <= most_printed) {
        printed_bytes += w.printed.size();
        printed.emplace_back(b.number, std::move(w.printed));
    } else {
        left_out += w.printed.size();
    }
    w.printed.clear();
}

// Keeps what the block printed, and the fault that ended it, if one did; of a cluster, this is its first block.
void Grid::collect(Worker& w, Block& b) {
    for (unsigned int rank = 0; rank < cluster_size(b) && !w.fault && !over && !interrupted; rank++) {
        const std::string damage = shared_damage(cluster_block(b, rank), name);
        if (damage.empty()) continue;
        over = true;
        std::lock_guard lock(output_mutex);
        fault = damage;
        error = cudaErrorIllegalAddress;
    }
    if (w.fault || w.wanted_cluster.x || !w.refusal.empty()) over = true;
    if (w.wanted_cluster.x || !w.refusal.empty()) {
        std::lock_guard lock(output_mutex);
        wanted_cluster = std::exchange(w.wanted_cluster, {0, 0, 0});
        refusal = std::exchange(w.refusal, "");
    }
    keep_printed(w, b);
    if (!w.fault) return;
    std::lock_guard lock(output_mutex);
    if (!fault.empty()) return;
    fault = fault_message(name, w);
    error = error_of(w);
}

void Grid::run_in_turn(Worker& w) {
    if (w.blocks.empty()) w.blocks.push_back(std::make_unique<Block>());
    Block& b = *w.blocks[0];
    prepare(w, b);
    for (uint64_t i; !interrupted && !over && next_cluster(i);) {
        set_up_block(w, b, trace ? trace_block(*trace, i, blocks) : i, launch);
        End end = run_block(w, b);
        if (trace) {
            if (end == End::left && w.fault && !interrupted) {
                trace_fault(*trace, w);
                w.fault = no_fault;
            }
            trace_block_ends(*trace, b);
            if (trace_is_full(*trace)) over = true;
        }
        collect(w, b);
        if (trace && trace_meets_blocks(*trace)) return run_groups(w, 4);
    }
}

// The blocks of cluster number `i`, which `cluster.blocks` points to.
void Grid::set_up_cluster(Worker& w, Cluster& cluster, uint64_t i) const {
    const dim3 grid = launch.grid, dim = launch.cluster.x ? launch.cluster : dim3(1, 1, 1);
    const uint64_t number = trace ? trace_block(*trace, i, clusters) : i, along = grid.x / dim.x, up = grid.y / dim.y;
    const uint64_t x = number % along * dim.x, y = number / along % up * dim.y, z = number / along / up * dim.z;
    cluster.dim = dim;
    cluster.phase = cluster.arrived = 0;
    for (unsigned int rank = 0; rank < cluster.blocks.size(); rank++) {
        Block& b = *cluster.blocks[rank];
        const uint64_t at_z = z + rank / dim.x / dim.y, at_y = y + rank / dim.x % dim.y, at_x = x + rank % dim.x;
        set_up_block(w, b, (at_z * grid.y + at_y) * grid.x + at_x, launch);
        if (!launch.cluster.x) continue;
        b.cluster = &cluster;
        b.rank = rank;
        watch(b);
    }
    if (trace && launch.cluster.x) trace_cluster_begins(*trace, cluster);
}

// Runs blocks side by side until each has ended or waits for the grid; the one that was left, if one was.
const Block* Grid::run_in_turns(Worker& w, const std::vector<Block*>& side_by_side) {
    Turns turns{side_by_side};
    for (Block* b : turns.blocks) b->turns = &turns;
    size_t late = 0;  // turns since a thread has stopped for which others may wait
    return take_turns(w, turns, [&](Block& b) {
        keep_printed(w, b);
        if (trace && (trace_is_full(*trace) || (trace_error(*trace) && ++late > 10 * turns.blocks.size()))) over = true;
        return !interrupted && !over;
    });
}

// Runs so many blocks together, which take turns: those of each cluster. In a trace, too, those of a kernel that has fences
// for other blocks: there the others have their turn (barriers.cpp), and a block finds them in states before their end.
void Grid::run_groups(Worker& w, size_t together) {
    Cluster cluster;
    while (w.blocks.size() < together) w.blocks.push_back(std::make_unique<Block>());
    for (size_t k = 0; k < together; k++) prepare(w, *w.blocks[k]);
    for (uint64_t i; !interrupted && !over && next_cluster(i);) {
        std::vector<Block*> group;
        do {
            group.push_back(w.blocks[group.size()].get());
            if (!launch.cluster.x) set_up_block(w, *group.back(), trace_block(*trace, i, blocks), launch);
        } while (group.size() < together && (launch.cluster.x || next_cluster(i)));
        if (launch.cluster.x) {
            cluster.blocks = group;
            set_up_cluster(w, cluster, i);
        }
        const Block* left = run_in_turns(w, group);
        if (trace && left && w.fault && !interrupted) {
            trace_fault(*trace, w);
            w.fault = no_fault;
        }
        for (Block* b : group)
            if (trace) trace_block_ends(*trace, *b);
        if (trace && trace_is_full(*trace)) over = true;
        for (Block* b : group)
            if (!b->cluster || !b->rank) collect(w, *b);
    }
}

void Grid::run_together(Worker& w, uint64_t index, std::barrier<>& meeting) {
    std::vector<std::unique_ptr<Block>> mine;
    std::vector<std::unique_ptr<Cluster>> groups;
    for (uint64_t i = index; i < clusters; i += workers) {
        groups.push_back(std::make_unique<Cluster>());
        for (uint64_t rank = 0; rank < blocks / clusters; rank++) {
            mine.push_back(std::make_unique<Block>());
            prepare(w, *mine.back());
            groups.back()->blocks.push_back(mine.back().get());
        }
        set_up_cluster(w, *groups.back(), i);
    }
    for (;;) {
        std::vector<Block*> waiting;
        for (auto& block : mine)
            if (!block->done) waiting.push_back(block.get());
        if (!interrupted && !over) {
            const Block* left = run_in_turns(w, waiting);
            if (left && trace && w.fault && !interrupted) {
                trace_fault(*trace, w);
                w.fault = no_fault;
                over = true;
            }
            for (Block* block : waiting) {
                block->done = left || block->done;
                if (!block->done && trace) trace_block_waits_for_grid(*trace, *block);
                if (block->done && trace) trace_block_ends(*trace, *block);
                (block->done ? ended : at_grid)++;
            }
            for (auto& group : groups) collect(w, *group->blocks[0]);
        }
        meeting.arrive_and_wait();
        bool on = !interrupted && !over && at_grid && !ended;
        bool cut_off = !interrupted && !over && at_grid && ended;
        meeting.arrive_and_wait();
        if (cut_off && index == 0) {  // some blocks wait for others that have ended
            fault = "CUDA error: this launch would never end: some blocks of " + std::string(name) +
                    " wait at grid.sync for blocks that have ended";
            error = cudaErrorLaunchTimeout;
            if (trace) {  // all blocks are this worker's
                auto is_done = [](auto& b) { return b->done; };
                trace_grid_is_stuck(*trace, **std::find_if_not(mine.begin(), mine.end(), is_done),
                                    **std::find_if(mine.begin(), mine.end(), is_done));
                fault.clear();
            }
        }
        if (!on) break;
        if (index == 0) {
            at_grid = 0;
            if (trace) trace_grid_barrier_opens(*trace);
        }
        for (auto& block : mine) block->ready.add_all(block->at_grid);
        meeting.arrive_and_wait();
    }
    // Fibers that still wait start over the next time.
    w.idle.clear();
    for (auto& fiber : w.fibers) {
        fiber->begun = false;
        w.idle.push_back(fiber.get());
    }
}

// Reports that there is no room for a worker or for what it needs.
void Grid::give_up(const std::exception& why) {
    over = true;
    std::lock_guard lock(output_mutex);
    if (!fault.empty()) return;
    fault = "CUDA error: out of memory: there is no room to run " + std::string(name) + " (" + why.what() + ")";
    error = cudaErrorMemoryAllocation;
}

// What a CPU thread does for a launch; throws nothing.
void Grid::work(uint64_t index, std::barrier<>* meeting) {
    Position* outer = here;
    try {
        serve(index, meeting);
    } catch (const std::exception& error) {
        give_up(error);
    }
    here = outer;
    if (meeting) meeting->arrive_and_drop();  // the others may still be on their way to a meeting
}

void Grid::serve(uint64_t index, std::barrier<>* meeting) {
    auto w = take_worker();
    if (!w->signal_stack) w->signal_stack.reset(new char[SignalStack::bytes]);
    auto signal_stack = std::make_unique<SignalStack>(w->signal_stack.get());
    w->run_threads = run_threads;
    w->kernel = kernel;
    w->trace = trace;
    w->flow = launch.in_step ? std::make_unique<Flow>(true) : nullptr;
    w->cooperative = meeting;
    w->over = &over;
    w->launch = &launch;
    w->fault = no_fault;
    w->heap_was_full = false;
    w->difference.reset();
    w->cpu_thread = pthread_self();
    {
        AtWork registered(*w);
        if (meeting)
            run_together(*w, index, *meeting);
        else if (launch.cluster.x)
            run_groups(*w, blocks / clusters);
        else
            run_in_turn(*w);
        if (interrupted) stopped = true;
    }
    if (std::lock_guard lock(output_mutex); w->difference)
        if (!difference || w->difference->block_number < difference->block_number) difference.swap(w->difference);
    signal_stack.reset();  // before another thread may get this worker's
    give_back(std::move(w));
}

// Runs all blocks of a grid, as many workers at a time as it has.
void Grid::run() {
    Handlers handlers;
    std::unique_ptr<Watch> watch;
    if (trace) {
        trace_launch_begins(*trace, name, launch, run_threads);
        trace_arguments(*trace, kernel, launch.argument_bytes);
        watch = std::make_unique<Watch>(*trace);
    }
    std::unique_ptr<std::barrier<>> meeting;
    if (launch.cooperative) meeting = std::make_unique<std::barrier<>>(workers);
    Helpers helpers([&](uint64_t i) { work(i, meeting.get()); });
    for (uint64_t i = 1; i < workers; i++) {
        try {
            helpers.call(i);
        } catch (const std::exception& error) {
            if (!meeting) break;  // the others do its blocks
            give_up(error);
            meeting->arrive_and_drop();
        }
    }
    work(0, meeting.get());
    if (!meeting) helpers.call_off();  // there is nothing left to do
    watch.reset();
    if (trace) trace_launch_ends(*trace);
}

// What all blocks have printed, in their order.
std::string Grid::output() {
    std::stable_sort(printed.begin(), printed.end(), [](auto& a, auto& b) { return a.first < b.first; });
    std::string all;
    for (const auto& [b, text] : printed) all += text;
    return all;
}

// While one of these lives, a launch runs or its damage has not been asked for.
class Running {
public:
    ~Running() { now--; }
    // Whether no other launch, of another CPU thread, has run meanwhile.
    bool alone() const { return first && begun == number; }

private:
    static std::atomic<uint64_t> now, begun;
    const bool first = now++ == 0;
    const uint64_t number = ++begun;
};
std::atomic<uint64_t> Running::now{0}, Running::begun{0};

void run_grid(const char* name, const Launch& given, void (*run_threads)(void*), void* kernel) {
    if (device_error()) return;
    Launch launch = given;
    if (!launch.cluster.x && !launch.cluster.y && !launch.cluster.z) launch.cluster = launch.cluster_of_kernel;
    if (launch.cluster.x) launch.large_clusters = large_clusters(launch.kernel);
    const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    const cudaError_t error_of_call = is_stream(launch.stream) ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle;
    if (refuse(name, launch, why_refused(launch), error_of_call)) return;
    if (refuse(name, launch, why_too_many_registers(launch), cudaErrorLaunchOutOfResources)) return;
    if (launch.cooperative && refuse(name, launch, why_not_together(launch), cudaErrorCooperativeLaunchTooLarge)) return;
    if (device_is_lost()) return;
    if (!tracing) note_untraced(name, launch.launched_at);
    DeviceAccess access;
    std::optional<Running> running(std::in_place);
    const uint64_t together = launch.cluster.x ? uint64_t(launch.cluster.x) * launch.cluster.y * launch.cluster.z : 1;
    const uint64_t clusters = blocks / together, threads = uint64_t(launch.block.x) * launch.block.y * launch.block.z;
    std::optional<Workers> taken(std::in_place, tracing ? 1 : clusters, threads * together);
    auto beginning = tracing ? trace_beginning(*tracing, name, reinterpret_cast<const void*>(run_threads)) : nullptr;
    Grid grid{name, launch, run_threads, kernel, blocks, clusters, tracing, taken->count};
    grid.run();
    const std::string printed = grid.output();
    if (beginning && !grid.stopped && !grid.wanted_cluster.x && grid.refusal.empty())
        trace_again(*tracing, *beginning, launch, printed, [&](uint64_t first) {
            Grid again{name, launch, run_threads, kernel, blocks, clusters, tracing, taken->count};
            if (!launch.cooperative) again.clusters_to_run = (first + together - 1) / together;
            again.run();
            if (again.stopped) grid.stopped = true;
            return again.output();
        });
    beginning.reset();
    taken.reset();  // leaving a host call abandons what is on the stack
    if (grid.stopped) {  // Python raises KeyboardInterrupt, if this is its main thread and its handler does
        running.reset();
        if (in_host_call()) leave_host_call("");
        throw std::runtime_error(std::string(name) + " was interrupted before all of its blocks had run");
    }
    if (grid.wanted_cluster.x) {  // no thread has executed anything yet
        launch = given;
        launch.cluster_of_kernel = grid.wanted_cluster;
        running.reset();
        return run_grid(name, launch, run_threads, kernel);
    }
    if (refuse(name, launch, grid.refusal, cudaErrorInvalidValue)) return;
    fwrite(printed.data(), 1, printed.size(), stdout);
    if (grid.left_out) printf("(%s has printed %zu bytes more, which are left out)\n", name, grid.left_out);
    if (!printed.empty() || grid.left_out) fflush(stdout);
    const std::string damage = tracing ? "" : damage_message(name, running->alone());  // asked after a fault, too: once
    running.reset();
    const std::string message = grid.fault.empty() ? damage : grid.fault;
    if (!grid.fault.empty()) forget_heap();
    if (!grid.error && !damage.empty()) grid.error = cudaErrorIllegalAddress;
    if (!grid.error && tracing) grid.error = trace_error(*tracing);  // it reports the fault itself
    if (grid.error) fault(grid.error, (message + (grid.difference ? also(name, *grid.difference) : "")).c_str());
    if (grid.difference) note(name, *grid.difference);
}

}  // namespace cuda_on_cpu
