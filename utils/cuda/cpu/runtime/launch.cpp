// Launches: what CUDA would refuse is refused, and the blocks of the rest are distributed over the cores. A launch in a
// source calls `run_grid` (launch.h), which calls `run_block` (fibers.cpp) for each block.
#include <cxxabi.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "cuda_on_cpu/host.h"
#include "cuda_on_cpu/kernel.h"
#include "../guard/space.h"
#include "profile.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static thread_local std::string refusal;

static Mutex workers_mutex;
static std::vector<std::unique_ptr<Worker>> idle_workers;

static std::unique_ptr<Worker> take_worker() {
    std::lock_guard lock(workers_mutex);
    if (idle_workers.empty()) return std::make_unique<Worker>();
    auto worker = std::move(idle_workers.back());
    idle_workers.pop_back();
    return worker;
}

static void give_back(std::unique_ptr<Worker> worker) {
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

// How many workers a launch gets. Linux allows a process 65,530 maps, and each stack takes two.
static uint64_t workers_for(uint64_t blocks, uint64_t block_threads) {
    constexpr uint64_t most_stacks = 16 * 1024;
    const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
    return std::min({cores, blocks, std::max<uint64_t>(1, most_stacks / block_threads)});
}

static std::string text(dim3 d) {
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

// Why CUDA refuses a launch, empty if it does not. CUDA 13 calls every reason an invalid argument (measured on an
// H200, driver 580); CUDA 12 calls those that concern numbers of blocks and threads an invalid configuration argument.
static std::string why_refused(const Launch& l) {
    const Profile& p = profile;
    uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    if (threads == 0) return "a block of " + text(l.block) + " threads is empty";
    if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0) return "a grid of " + text(l.grid) + " blocks is empty";
    if (threads > p.block_threads)
        return "a block of " + text(l.block) + " has " + std::to_string(threads) + " threads, and CUDA allows " +
               std::to_string(p.block_threads);
    if (l.most_threads && threads > l.most_threads)
        return "a block of " + text(l.block) + " has " + std::to_string(threads) +
               " threads, and the kernel's __launch_bounds__ allows " + std::to_string(l.most_threads);
    if (l.block.z > p.block_dim[2])
        return "a block has at most " + std::to_string(p.block_dim[2]) + " threads along z, not " +
               std::to_string(l.block.z);
    if (l.grid.x > p.grid_dim[0] || l.grid.y > p.grid_dim[1] || l.grid.z > p.grid_dim[2])
        return "a grid has at most " + std::to_string(p.grid_dim[0]) + " blocks along x and " +
               std::to_string(p.grid_dim[1]) + " along y and z, not " + text(l.grid);
    size_t limit = l.any_shared_bytes ? p.shared_bytes_opt_in : dynamic_shared_limit(l.kernel);
    if (l.shared_bytes > limit)
        return std::to_string(l.shared_bytes) + " bytes of dynamic shared memory are more than the " +
               std::to_string(limit) + " that this kernel may have" +
               (limit < p.shared_bytes_opt_in ? ": cudaFuncSetAttribute allows up to " +
                                                    std::to_string(p.shared_bytes_opt_in)
                                              : "");
    return "";
}

// Whether the blocks of a cooperative launch do not fit on the device at the same time.
static bool too_large_together(const Launch& l, uint64_t blocks) {
    uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    return blocks > uint64_t(resident_blocks(threads, l.shared_bytes)) * profile.multiprocessors;
}

std::string demangled(const char* type) {
    char* text = abi::__cxa_demangle(type, nullptr, nullptr, nullptr);
    std::string result = text ? text : type;
    free(text);
    return result;
}

// ---- for kernel.h

static Mutex texts_mutex;
static std::set<std::string> texts;

static const char* kept(std::string text) {
    std::lock_guard lock(texts_mutex);
    return texts.insert(std::move(text)).first->c_str();
}

const char* signature_text(const std::type_info& kernel) { return kept(demangled(kernel.name())); }

const char* parameters_text(const Parameter* parameters, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; i++)
        text += std::to_string(parameters[i].bytes) + ":" + std::to_string(parameters[i].pointee_alignment) + ":" +
                std::to_string(parameters[i].pointee_bytes) + ";";
    return kept(text);
}

const char* refusal_text() {
    static thread_local std::string text;
    text = refusal.empty() ? "" : ": " + refusal;
    return text.c_str();
}

const char* guarded(void (*run)(void*), void* data) {
    static thread_local std::string error;
    error.clear();
    const cudaError_t before = cudaGetLastError();  // an error that the extension has not asked for
    try {
        run(data);
        if (last_error() != cudaSuccess)
            error = std::string("CUDA error: ") + cudaGetErrorString(last_error()) + refusal_text();
    } catch (const std::exception& e) {
        error = e.what();
    }
    last_error() = before;
    return error.empty() ? nullptr : error.c_str();
}

// One launch, and what its workers share.
struct Grid {
    const char* name;
    const Launch& launch;
    void (*run_threads)(void*);
    void* kernel;
    uint64_t blocks;
    Trace* trace;
    uint64_t workers;

    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> over{false};  // no worker begins another block
    std::mutex output_mutex;
    std::vector<std::pair<uint64_t, std::string>> printed;  // by block
    size_t printed_bytes = 0, left_out = 0;                 // all of that, and what was too much
    std::string fault;                                      // the message about the first
    std::atomic<unsigned int> at_grid{0}, ended{0};         // blocks, at a barrier of the grid

    void work(uint64_t index, std::barrier<>* meeting);
    void serve(uint64_t index, std::barrier<>* meeting);
    void give_up(const std::exception& error);
    void run_in_turn(Worker& w);
    void run_together(Worker& w, uint64_t index, std::barrier<>& meeting);
    void collect(Worker& w, const Block& b);
};

// Keeps what the block printed, and the fault that ended it, if one did.
void Grid::collect(Worker& w, const Block& b) {
    if (w.fault) over = true;
    if (w.printed.empty() && !w.fault && !w.left_out) return;
    std::lock_guard lock(output_mutex);
    left_out += std::exchange(w.left_out, 0);
    if (printed_bytes + w.printed.size() <= most_printed) {
        printed_bytes += w.printed.size();
        printed.emplace_back(b.number, std::move(w.printed));
    } else {
        left_out += w.printed.size();
    }
    w.printed.clear();
    if (w.fault && fault.empty()) fault = fault_message(name, w);
}

void Grid::run_in_turn(Worker& w) {
    if (w.blocks.empty()) w.blocks.push_back(std::make_unique<Block>());
    Block& b = *w.blocks[0];
    b.arena.make(dynamic_offset(w) + launch.shared_bytes + (trace ? 2 * traced_gap : 0));
    b.variables.clear();
    b.dynamic = {};
    b.static_bytes = b.static_end = 0;
    b.dynamic_bytes = launch.shared_bytes;
    for (uint64_t i; !interrupted && !over && (i = next_block.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
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
    }
}

void Grid::run_together(Worker& w, uint64_t index, std::barrier<>& meeting) {
    std::vector<std::unique_ptr<Block>> mine;
    for (uint64_t i = index; i < blocks; i += workers) {
        mine.push_back(std::make_unique<Block>());
        Block& b = *mine.back();
        b.arena.make(dynamic_offset(w) + launch.shared_bytes + (trace ? 2 * traced_gap : 0));
        b.dynamic_bytes = launch.shared_bytes;
        set_up_block(w, b, trace ? trace_block(*trace, i, blocks) : i, launch);
    }
    for (;;) {
        for (auto& block : mine) {
            if (block->done || interrupted || over) continue;
            End end = run_block(w, *block);
            if (end == End::left && trace && w.fault && !interrupted) {
                trace_fault(*trace, w);
                w.fault = no_fault;
                over = true;
            }
            block->done = end != End::at_grid;
            if (!block->done && trace) trace_block_waits_for_grid(*trace, *block);
            if (block->done && trace) trace_block_ends(*trace, *block);
            (block->done ? ended : at_grid)++;
            collect(w, *block);
        }
        meeting.arrive_and_wait();
        bool on = !interrupted && !over && at_grid && !ended;
        bool cut_off = !interrupted && !over && at_grid && ended;
        meeting.arrive_and_wait();
        if (cut_off && index == 0) {  // some blocks wait for others that have ended
            fault = "CUDA error: this launch would never end: some blocks of " + std::string(name) +
                    " wait at grid.sync for blocks that have ended";
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
void Grid::give_up(const std::exception& error) {
    over = true;
    std::lock_guard lock(output_mutex);
    if (fault.empty())
        fault = "CUDA error: out of memory: there is no room to run " + std::string(name) + " (" + error.what() + ")";
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
    w->fault = no_fault;
    w->cpu_thread = pthread_self();
    {
        AtWork registered(*w);
        if (meeting)
            run_together(*w, index, *meeting);
        else
            run_in_turn(*w);
    }
    signal_stack.reset();  // before another thread may get this worker's
    give_back(std::move(w));
}

void run_grid(const char* name, const Launch& launch, void (*run_threads)(void*), void* kernel) {
    const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    refusal = why_refused(launch);
    if (!refusal.empty()) {
        last_error() = cudaErrorInvalidValue;
        if (tracing) trace_refused(*tracing, name, refusal);
        return;
    }
    if (launch.cooperative && too_large_together(launch, blocks)) {
        refusal = std::to_string(blocks) + " blocks of " + text(launch.block) + " threads do not run side by side";
        last_error() = cudaErrorCooperativeLaunchTooLarge;
        return;
    }
    const uint64_t workers = tracing ? 1 : workers_for(blocks, uint64_t(launch.block.x) * launch.block.y * launch.block.z);
    Grid grid{name, launch, run_threads, kernel, blocks, tracing, workers};
    {
        Handlers handlers;
        std::unique_ptr<Watch> watch;
        if (tracing) {
            trace_launch_begins(*tracing, name, launch, run_threads);
            watch = std::make_unique<Watch>(*tracing);
        }
        std::unique_ptr<std::barrier<>> meeting;
        if (launch.cooperative) meeting = std::make_unique<std::barrier<>>(workers);
        std::vector<std::thread> helpers;
        for (uint64_t i = 1; i < workers; i++) {
            try {
                helpers.emplace_back([&, i] { grid.work(i, meeting.get()); });
            } catch (const std::exception& error) {
                if (!meeting) break;  // the others do its blocks
                grid.give_up(error);
                meeting->arrive_and_drop();
            }
        }
        grid.work(0, meeting.get());
        for (auto& helper : helpers) helper.join();
        watch.reset();
        if (tracing) trace_launch_ends(*tracing);
    }
    std::stable_sort(grid.printed.begin(), grid.printed.end(),
                     [](auto& a, auto& b) { return a.first < b.first; });
    if (tracing && trace_is_silent(*tracing)) grid.printed.clear();
    for (const auto& [b, text] : grid.printed) fwrite(text.data(), 1, text.size(), stdout);
    if (grid.left_out && !(tracing && trace_is_silent(*tracing)))
        printf("(%s has printed %zu bytes more, which are left out)\n", name, grid.left_out);
    if (!grid.printed.empty() || grid.left_out) fflush(stdout);
    const std::string damage = tracing ? "" : damage_message(name);  // asked after a fault, too: reported once
    if (!grid.fault.empty()) throw std::runtime_error(grid.fault);
    if (!damage.empty()) throw std::runtime_error(damage);
}

}  // namespace cuda_on_cpu
