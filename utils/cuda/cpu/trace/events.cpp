// What the runtime reports to a trace (trace.h): launches, blocks and threads that begin and end, barriers that open,
// and threads that can never go on.
#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

#include "../runtime/clusters.h"
#include "recorder.h"

namespace cuda_on_cpu {

void trace_launch_begins(Trace& t, const char* kernel, const Launch& launch, void (*code)(void*)) {
    if (t.recorder) t.recorder->launch_begins(kernel, launch);
    t.look_at_module(reinterpret_cast<const void*>(code));
    t.grid = launch.grid;
    t.meets_blocks = false;
    t.clock_begins = t.pulse;
    if (!t.again) t.launch_error = cudaSuccess;
    if (!t.again) t.work_begun = trace_work_begins(stream_id(launch.stream), std::string("`") + kernel + "`", launch.launched_at);
    t.order.begin_launch();
    t.block_order.clear();
    t.thread_order.clear();
    if (t.seed >= 0) {
        std::mt19937_64 random(t.seed);
        t.thread_order.resize(launch.block.x * launch.block.y * launch.block.z);
        const dim3 c = launch.cluster.x ? launch.cluster : dim3(1, 1, 1);
        t.block_order.resize(uint64_t(launch.grid.x / c.x) * (launch.grid.y / c.y) * (launch.grid.z / c.z));
        for (size_t i = 0; i < t.thread_order.size(); i++) t.thread_order[i] = i;
        for (size_t i = 0; i < t.block_order.size(); i++) t.block_order[i] = i;
        std::shuffle(t.thread_order.begin(), t.thread_order.end(), random);
        std::shuffle(t.block_order.begin(), t.block_order.end(), random);
    } else if (t.seed == -2) {
        t.thread_order.resize(launch.block.x * launch.block.y * launch.block.z);
        for (size_t i = 0; i < t.thread_order.size(); i++) t.thread_order[i] = t.thread_order.size() - 1 - i;
    }
    std::tie(t.stack_begin, t.stack_end) = own_stack();
}

void trace_arguments(Trace& t, const void* arguments, size_t bytes) {
    t.arguments_begin = reinterpret_cast<uintptr_t>(arguments);
    t.arguments_end = t.arguments_begin + bytes;
}

std::atomic<uint64_t> waits_of_host{0};

void trace_finished() {
    waits_of_host++;
    if (!tracing || !std::exchange(tracing->unfinished, false)) return;
    tracing->read_later.clear();
    for (auto& r : tracing->regions)
        if (r->memory) r->memory->unfinished = false;
}

void trace_read_later(const void* from, size_t bytes) {
    if (!tracing) return;
    const auto begin = reinterpret_cast<uintptr_t>(from);
    tracing->read_later.push_back({begin, begin + bytes});
    tracing->unfinished = true;
}

void trace_unfinished(void* to) {
    if (!tracing) return;
    for (auto& r : tracing->regions)
        if (r->memory && r->holds(reinterpret_cast<uintptr_t>(to), 1)) r->memory->unfinished = tracing->unfinished = true;
}

void trace_launch_ends(Trace& t) {
    if (!t.again) t.clock += t.pulse - t.clock_begins;
    if (std::exchange(t.work_begun, false)) trace_work_ends();
    t.unfinished = true;
    t.blocks.clear();
    t.agents.clear();
    if (t.recorder) t.recorder->launch_ends();
}

uint64_t trace_block(const Trace& t, uint64_t i, uint64_t blocks) {
    return t.seed >= 0 ? t.block_order[i] : t.seed == -2 ? blocks - 1 - i : i;
}

unsigned int trace_thread(const Trace& t, unsigned int i) { return t.thread_order.empty() ? i : t.thread_order[i]; }

void trace_block_begins(Trace& t, Block& b) {
    auto& tb = t.blocks[&b];
    if (!tb) tb = std::make_unique<TracedBlock>();
    b.traced = tb.get();
    tb->threads.resize(b.threads);
    for (auto& thread : tb->threads) thread.begin();
    tb->stopped = false;
    tb->steps = 0;
    std::fill(std::begin(tb->asked), std::end(tb->asked), 0);
    if (tb->in_flight) tb->flights.clear();
    tb->in_flight = 0;
    tb->barriers.clear();
    tb->reached.clear();
    tb->products = {};
    if (b.variables.empty()) tb->shared.clear();
    t.order.begin_block(tb->order, b.threads);
    for (size_t i = 0; i < tb->shared.size(); i++) set_padding(*tb, i, *b.variables[i].variable);
    if (t.recorder) t.recorder->block_begins(b);
}

void trace_block_ends(Trace& t, Block& b) {
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++) t.drain(b, warp, true);
    if (b.traced->in_flight && !b.traced->stopped) t.left_in_flight(b);
    if (!t.again && (!t.first_blocks || t.pulse < t.enough)) t.first_blocks++;
    if (t.recorder) t.recorder->block_ends(b);
}

void trace_thread_begins(Trace& t, Block& b, Fiber& fiber) {
    t.threads++;
    fiber.traced = &b.traced->threads[fiber.number];
    fiber.traced->begin();
}

void trace_thread_ends(Trace& t, Block& b, Fiber& fiber) {
    if (TracedThread& thread = b.traced->threads[fiber.number]; thread.stored.address) t.look_at_stored(b, thread);
    if (t.recorder) t.recorder->thread_ends(b, fiber.number);
    unsigned int warp = fiber.number / 32, last = std::min(b.threads - warp * 32, 32u);
    unsigned int ended = b.warps[warp].ended | 1u << fiber.number % 32;
    unsigned int all = last == 32 ? ~0u : (1u << last) - 1;
    if ((ended & all) == all) t.drain(b, warp, true);
}

// A thread of the block that has ended by itself, not because the trace stopped it; -1 where there is none.
static int64_t one_that_left(const Block& b, unsigned int from, unsigned int to, unsigned int lanes = ~0u) {
    for (unsigned int i = from; i < to; i++)
        if ((b.warps[i / 32].ended >> i % 32 & 1) && (lanes >> i % 32 & 1) && !b.traced->threads[i].stopped) return i;
    return -1;
}

CalledFrom::CalledFrom(unsigned int number, unsigned int line) : outer(nullptr), number(number), line(line) {
    if (!in_thread()) return;
    TracedThread& t = *block().running->traced;
    outer = std::exchange(t.calls, this);
}
CalledFrom::~CalledFrom() {
    if (in_thread()) block().running->traced->calls = outer;
}

// The first call in which the ways of two threads to the same place differ; {} if they do not.
static std::pair<const CalledFrom*, const CalledFrom*> calls_apart(const Fiber& one, const Fiber& other) {
    std::vector<const CalledFrom*> ways[2];
    for (const CalledFrom* c = one.traced->calls; c; c = c->outer) ways[0].push_back(c);
    for (const CalledFrom* c = other.traced->calls; c; c = c->outer) ways[1].push_back(c);
    auto same = [](const CalledFrom* a, const CalledFrom* b) { return a->number == b->number; };
    auto [a, b] = std::mismatch(ways[0].rbegin(), ways[0].rend(), ways[1].rbegin(), ways[1].rend(), same);
    if (a == ways[0].rend() || b == ways[1].rend()) return {};
    return {*a, *b};
}

// Whether two threads wait at two places in the code; then it is a problem.
static bool wait_apart(Trace& t, const Block& b, const Fiber& first, const Fiber& other) {
    const auto [mine, its] = calls_apart(first, other);
    if (other.code == first.code && !mine) return false;
    Party party = waiting(b, other);
    if (mine) party.line = its->line;
    divergence(t, b, first, party, false, mine ? mine->line : 0);
    return true;
}

void divergence(Trace& t, const Block& b, const Fiber& waits, const Party& other, bool stuck, unsigned int line) {
    Problem p;
    p.stuck = stuck;
    p.kind = "divergent_barrier";
    p.who = party(b, waits, waits.code);
    p.text = waits.function;
    p.other = other;
    p.has_other = true;
    p.line = int(line);
    p.apart = line;
    t.add(std::move(p));
}

void trace_barrier_opens(Trace& t, Block& b) {
    Fiber* first = b.at_barrier.first;
    int64_t left = one_that_left(b, 0, b.threads);
    if (left >= 0) divergence(t, b, *first, gone(b, left));
    for (Fiber* other = first->next; other && !wait_apart(t, b, *first, *other); other = other->next) {}
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++) t.drain(b, warp, true);
    t.order.block_barrier(b.traced->order);
    if (t.recorder) t.recorder->all_have_arrived(b);
}

// Lanes that meet at two places in the code.
static void look_for_two_places(Trace& t, const Block& b, const Warp& w, unsigned int came) {
    const Fiber& first = *w.lanes[__builtin_ctz(came)];
    for (unsigned int rest = came; rest; rest &= rest - 1) {
        if (wait_apart(t, b, first, *w.lanes[__builtin_ctz(rest)])) return;
    }
}

void trace_named_arrives(Trace& t, Block& b, const NamedBarrier& barrier, unsigned int warp) {
    const Warp& w = b.warps[warp];
    if (w.lanes[__builtin_ctz(w.named)]->named.aligned) look_for_two_places(t, b, w, w.named);
    t.drain(b, warp, true);
    for (unsigned int rest = w.named; rest; rest &= rest - 1)
        t.order.phase_arrives(b.traced->order, warp * 32 + __builtin_ctz(rest), &barrier);
}

void trace_named_opens(Trace& t, Block& b, const NamedBarrier& barrier) {
    int64_t left = -1;
    for (unsigned int warp = 0; left < 0 && barrier.came < barrier.threads && warp < barrier.warps.size(); warp++)
        if (!barrier.warps[warp]) left = one_that_left(b, warp * 32, std::min(b.threads, warp * 32 + 32));
    if (left >= 0 && barrier.waiting.first) divergence(t, b, *barrier.waiting.first, gone(b, left));
    if (barrier.waiting.length == b.threads) return t.order.block_barrier(b.traced->order);
    t.order.phase_ends(b.traced->order, &barrier);
    for (const Fiber* f = barrier.waiting.first; f; f = f->next)
        t.order.phase_waited(b.traced->order, f->number, &barrier);
    t.order.phase_over(b.traced->order, &barrier);
}

void trace_meeting(Trace& t, Block& b, unsigned int warp, unsigned int came) {
    const Warp& w = b.warps[warp];
    const Fiber& first = *w.lanes[__builtin_ctz(came)];
    unsigned int from = warp * 32, to = std::min(b.threads, from + 32);
    int64_t left = one_that_left(b, from, to, first.mask & ~came);
    if (left >= 0) divergence(t, b, first, gone(b, left));
    if (left < 0 && first.work && to - from < 32) {
        Problem p;
        p.kind = "divergent_barrier";
        p.who = party(b, first, first.code);
        p.text = first.function;
        p.index = to - from;
        p.has_index = true;
        t.add(std::move(p));
    }
    look_for_two_places(t, b, w, came);
    if (first.orders) t.order.warp_barrier(b.traced->order, warp, came);
}

void trace_block_waits_for_grid(Trace& t, Block& b) {
    int64_t left = one_that_left(b, 0, b.threads);
    if (left >= 0) divergence(t, b, *b.at_grid.first, gone(b, left));
}

void trace_grid_is_stuck(Trace& t, Block& waits, Block& ended) {
    if (!t.stopped) divergence(t, waits, *waits.at_grid.first, gone(ended, 0), true);
}

void trace_grid_barrier_opens(Trace& t) {
    t.order.begin_launch();
    for (auto& [b, traced] : t.blocks) {
        for (unsigned int warp = 0; warp * 32 < b->threads; warp++) t.drain(*b, warp, true);
        t.order.block_barrier(traced->order);
        if (t.recorder) t.recorder->all_have_arrived(*b);
    }
}

void trace_fence(Trace& t, Block& b, bool of_block) {
    t.order.fence(b.traced->order, b.running->number, of_block);
    t.meets_blocks |= !of_block;
}
bool trace_meets_blocks(const Trace& t) { return t.meets_blocks && !t.recorder; }

void trace_phase_arrives(Trace& t, Block& b, const void* barrier) {
    Block& mine = block();
    const unsigned int thread = mine.running->number;
    if (&mine == &b) return t.order.phase_arrives(b.traced->order, thread, barrier);
    bool ignore;
    const Region* region = t.find(mine, reinterpret_cast<uintptr_t>(barrier), 8, ignore);
    const Party who = party(mine, *mine.running, mine.running->code, Op::atomic);
    if (region) t.reaches(mine, b, reinterpret_cast<uintptr_t>(barrier), 8, who, thread, *region);
    t.order.peer_arrives(b.traced->order, barrier, mine.traced->order, uint32_t(mine.number), thread);
}

void trace_phase_waited(Trace& t, Block& b, const void* barrier) {
    t.order.phase_waited(b.traced->order, b.running->number, barrier);
}

uint32_t trace_landing(Trace& t, Block& b, const void* barrier, unsigned int thread) {
    uint32_t arrived = b.traced->order.phases_of(barrier).arrived[thread];
    if (!arrived) return t.order.now;
    return std::exchange(t.order.now, arrived - 1);
}

void trace_landed(Trace& t, uint32_t now) { t.order.now = now; }

void trace_stuck(Trace& t, Block& b) {
    const Fiber *waits = nullptr, *elsewhere = nullptr;
    const Block* where = &b;  // `elsewhere` is
    auto look = [&](const Block& of, const Fiber* f) {
        if (!waits)
            waits = f;
        else if (!elsewhere && (f->code != waits->code || f->waiting != waits->waiting ||
                                (f->waiting == Waiting::warp && f->mask != waits->mask)))
            elsewhere = f, where = &of;
    };
    auto look_at = [&](const Block& of) {
        for (unsigned int warp = 0; warp * 32 < of.threads; warp++)
            for (unsigned int rest = of.warps[warp].waiting; rest; rest &= rest - 1)
                look(of, of.warps[warp].lanes[__builtin_ctz(rest)]);
        for (const Queue* queue : {&of.at_barrier, &of.at_cluster, &of.at_grid})
            for (const Fiber* f = queue->first; f; f = f->next) look(of, f);
    };
    look_at(b);
    for (unsigned int rank = 0; rank < cluster_size(b); rank++)
        if (rank != b.rank) look_at(cluster_block(b, rank));
    std::string why;
    Fiber* f = one_that_waits_for_its_warpgroup(b, why);
    if (!f) f = one_that_waits_for_a_named(b, why);
    if (!f) f = one_that_waits_for_a_phase(b, why);
    if (!f) f = one_that_waits_for_registers(b, why);
    if (f) {
        if (b.traced->stopped) return;
        Problem p;
        p.kind = "divergent_barrier";
        p.who = party(b, *f, f->code);
        p.text = f->function;
        p.ended = why;
        t.add(std::move(p));
        b.traced->stopped = true;
        return;
    }
    if (!waits || b.traced->stopped) return;
    int64_t left = one_that_left(b, 0, b.threads);
    if (elsewhere)
        divergence(t, b, *waits, waiting(*where, *elsewhere), true);
    else if (left >= 0)
        divergence(t, b, *waits, gone(b, left));
    else
        divergence(t, b, *waits, {0, Op::load, b.block, waits->thread, false}, true);
}

// Where in the code a fault is; behind the instruction, like a return address.
static const void* place_of_fault(const Trace& trace, const Worker& w, const TracedThread* thread) {
    if (w.fault == wrong_mask || w.fault == wrong_barrier || w.fault == wrong_copy || w.fault == wrong_cluster ||
        w.fault == wrong_product || w.fault == no_grid || w.fault == wrong_free)
        return block().running->code;
    if (w.fault == endless) return w.fault_address;
    if (w.fault == assertion) return nullptr;  // it has its line
    if (w.fault == trapped) return w.fault_code;
    if (thread) return thread->array_code;
#ifdef __x86_64__
    // A call through a bad pointer leaves the caller's address on top of the stack.
    if (w.fault > no_fault && w.fault_address == w.fault_code && block().running->around(w.fault_stack)) {
        const void* caller = *reinterpret_cast<const void* const*>(w.fault_stack);
        if (trace_has_code(trace, caller)) return caller;
    }
#endif
    if (w.fault > no_fault && trace_has_code(trace, w.fault_code)) return w.fault_code + 1;
    return trace.last_code;  // in a library, or where a damaged stack has led
}

// Every access and every basic block takes a microsecond, so that a launch that is made again sees the same times.
long long trace_nanoseconds(Trace& t) {
    t.beat();
    return (t.clock + t.pulse - t.clock_begins) * 1000;
}

void trace_fault(Trace& trace, Worker& w) {
    trace.divided |= w.fault == SIGFPE;
    Block& b = block();
    const bool at_memory = w.fault == SIGSEGV || w.fault == SIGBUS || w.fault == smashed;
    // An index may have left an array just before: then the access that belongs to it went astray.
    const TracedThread* thread = b.running && b.running->has_thread ? b.running->traced : nullptr;
    if (!at_memory || (thread && !thread->array_type)) thread = nullptr;
    Problem p;
    p.kind = w.fault == wrong_mask ? "divergent_barrier"
             : w.fault == endless  ? "runaway"
             : at_memory           ? "out_of_bounds"
                                   : "trap";
    if (thread) {
        p.type = thread->array_type;
        p.index = thread->array_index;
        p.has_index = true;
    } else if (w.fault != endless) {
        p.ended = what_ended_it(w);
        p.ended = p.ended.substr(0, p.ended.find(": a trace of this launch"));  // this is it
    }
    if (w.fault == assertion) p.line = w.fault_line;
    p.who = {reinterpret_cast<uintptr_t>(place_of_fault(trace, w, thread)), Op::load, b.block, b.thread, false};
    if (w.fault == SIGSEGV || w.fault == SIGBUS) p.offset = int64_t(reinterpret_cast<uintptr_t>(w.fault_address));
    trace.add(std::move(p));
    trace.fails(error_of(w));
    b.traced->stopped = trace.stopped = true;
}

cudaError_t trace_error(const Trace& t) { return t.launch_error; }

}  // namespace cuda_on_cpu
