// Barriers that are objects in memory (phases.h): a thread arrives, goes on, and later waits for the end of the phase.
//
// A phase is over when all that are expected have arrived, the copies that belong to it are done, and as many bytes have
// come as were announced. Nobody does these copies before somebody asks for the end of the phase: a thread that reads
// without waiting finds what was there before.
#include "cuda_on_cpu/phases.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "clusters.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static constexpr int64_t most = (1 << 20) - 1;     // arrivals, and bytes that are under way
static constexpr size_t most_in_phase = 1024;       // of a phase; beyond that, the oldest are done early
static constexpr uint64_t seal = 0x7265697272616d;  // what the 8 bytes hold as long as nobody writes over them

// The one place where an address becomes a barrier.
PhaseBarrier* barrier_at(const void* address) {
    Block* of = block_with(address);
    auto& barriers = (of ? *of : block()).phase_barriers;
    auto found = barriers.find(address);
    return found == barriers.end() ? nullptr : &found->second;
}

// 'full[1]'; an empty one has no name.
static std::string name_of(const void* barrier) {
    const Block* of = block_with(barrier);
    return name_in_shared(of ? *of : block(), barrier);
}

// The running thread enters the runtime at `code`.
static PhaseBarrier& enter(const void* barrier, const char* function, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->function = function;
    b.running->code = code;
    PhaseBarrier* p = barrier_at(barrier);
    if (!p && b.worker->trace) trace_barrier_missing(*b.worker->trace, b, barrier, function, code);
    if (!p)
        fail(wrong_barrier, std::string("calls ") + function + " of a barrier that no thread has initialised (" +
                                name_of(barrier) + "): let one thread call init, then all __syncthreads");
    if (memcmp(barrier, &seal, sizeof seal))
        fail(wrong_barrier, std::string("calls ") + function + " of " + name_of(barrier) +
                                ", but something else was written to the barrier's 8 bytes since init: is this memory "
                                "used for two things?");
    if (b.worker->trace) trace_barrier_used(*b.worker->trace, *p->of, barrier, function, code);
    return *p;
}

// For a recording.
static void changed(const PhaseBarrier& p, const void* barrier, BarrierChange what, int64_t count = 0, int64_t bytes = 0) {
    if (Trace* trace = p.of->worker->trace) trace_barrier_changed(*trace, *p.of, barrier, what, p.phase, count, bytes);
}

// ---- the end of a phase ---------------------------------------------------------------------------------------------

static void land(const PhaseBarrier& p, const void* barrier, const PhaseBarrier::Landing& landing) {
    Block& b = *p.of;
    changed(p, barrier, BarrierChange::copies_land, 1);
    uint32_t now = b.worker->trace ? trace_landing(*b.worker->trace, b, barrier, landing.of->number) : 0;
    do_copies(*landing.of, landing.group);
    if (b.worker->trace) trace_landed(*b.worker->trace, now);
    changed(p, barrier, BarrierChange::copies_land, 0);
}

// The oldest transfer that the barrier counts.
static void land_oldest(PhaseBarrier& p) {
    BulkTransfer transfer = std::move(p.transfers.front());
    p.transfers.erase(p.transfers.begin());
    bulk_perform(transfer);
    if (Trace* trace = block().worker->trace) trace_bulk_lands(*trace, *p.of, transfer);
    p.bytes -= transfer.bytes;
}

static int64_t under_way(const PhaseBarrier& p) {
    int64_t bytes = 0;
    for (const BulkTransfer& transfer : p.transfers) bytes += transfer.bytes;
    return bytes;
}

// The next phase begins, if this one lacks nothing. Where somebody has `asked`, copies are done that it waits for.
static void settle(PhaseBarrier& p, const void* barrier, bool asked = true) {
    if (p.pending) return;
    Block& b = *p.of;
    if (asked) {
        for (const PhaseBarrier::Landing& landing : p.landings) land(p, barrier, landing);
        p.landings.clear();
        if (p.bytes > 0 && under_way(p) >= p.bytes)
            while (p.bytes > 0) land_oldest(p);
    }
    if (p.bytes || !p.landings.empty()) return;
    if (b.worker->trace) trace_phase_ends(*b.worker->trace, b, barrier, p);
    changed(p, barrier, BarrierChange::phase_ends, p.expected);
    p.phase++;
    p.pending = p.expected;
    p.announced = 0;
    b.ready.add_all(p.waiting);
}

// After a change: whoever waits has asked.
static void settle_for_waiting(PhaseBarrier& p, const void* barrier) { settle(p, barrier, p.waiting.first); }

void phase_counts(BulkTransfer&& transfer) {
    const void* barrier = transfer.barrier;
    PhaseBarrier& p = enter(barrier, transfer.name, transfer.code);
    settle(p, barrier, false);
    if (p.transfers.size() >= most_in_phase) land_oldest(p);
    if (Trace* trace = block().worker->trace) trace_bulk_begins(*trace, *p.of, transfer);
    p.transfers.push_back(std::move(transfer));
    settle_for_waiting(p, barrier);
}

// ---- what threads call ----------------------------------------------------------------------------------------------

void phase_init(const void* barrier, unsigned long long expected, const char* name) {
    const void* code = __builtin_return_address(0);
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->code = code;
    if (expected == 0 || expected > most)
        fail(wrong_barrier, "initialises a barrier for " + std::to_string(expected) + " arrivals: it takes 1 to 1,048,575");
    if (size_t(barrier) % 8)
        fail(wrong_barrier, std::string("calls ") + name + " of an address that is not a multiple of 8");
    if (PhaseBarrier* before = barrier_at(barrier)) {
        if (before->waiting.first)
            fail(wrong_barrier, "initialises " + name_of(barrier) + " again, where other threads wait");
        if (b.worker->trace) trace_barrier_again(*b.worker->trace, b, barrier, code);
    }
    b.phase_barriers[barrier] = PhaseBarrier{&b, unsigned(expected), unsigned(expected), 0, {}, {}, 0, 0, {}, nullptr};
    if (b.worker->trace) trace_barrier_begins(*b.worker->trace, b, barrier, code);
    changed(b.phase_barriers[barrier], barrier, BarrierChange::begins, expected);
    enter_kernel(*b.worker);
    memcpy(const_cast<void*>(barrier), &seal, sizeof seal);  // it may be outside all memory
}

void phase_inval(const void* barrier, const char* name) {
    const void* code = __builtin_return_address(0);
    PhaseBarrier& p = enter(barrier, name, code);
    Block& b = block();
    settle(p, barrier);
    if (p.waiting.first) fail(wrong_barrier, std::string("calls ") + name + " of " + name_of(barrier) + ", where other threads wait");
    if (!p.transfers.empty())
        fail(wrong_barrier, std::string("calls ") + name + " of " + name_of(barrier) + ", while copies that it counts are "
                                "under way");
    if (b.worker->trace) trace_barrier_ends(*b.worker->trace, *p.of, barrier, code);
    changed(p, barrier, BarrierChange::ends);
    const uint64_t none = poison;
    memcpy(const_cast<void*>(barrier), &none, sizeof none);
    p.of->phase_barriers.erase(barrier);
    enter_kernel(*b.worker);
}

// `bytes` more that copies are to bring, or that have come where it is negative.
static void announce(PhaseBarrier& p, const void* barrier, int64_t bytes) {
    Fiber* me = block().running;
    if (bytes > most || bytes < -most || p.bytes + bytes > most || p.bytes + bytes < -most)
        fail(wrong_barrier, std::string("calls ") + me->function + " of " + name_of(barrier) + " for " +
                                std::to_string(bytes < 0 ? -bytes : bytes) + " bytes, with " + std::to_string(p.bytes) +
                                " under way: a phase counts 1,048,575 bytes at most");
    p.bytes += bytes;
    if (bytes <= 0) return;
    p.announced += bytes;
    p.announced_at = me->code;
}

unsigned long long phase_arrive(const void* barrier, const Arrival& arrival, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    Block& b = block();
    settle(p, barrier);
    if (arrival.times == 0 || arrival.times > p.pending || arrival.times + !arrival.completes > p.pending)
        fail(wrong_barrier, "arrives " + std::to_string(arrival.times) + " times at " + name_of(barrier) +
                                ", a barrier whose phase lacks " + std::to_string(p.pending) + " of " +
                                std::to_string(p.expected) + " arrivals" +
                                (arrival.completes ? "" : ": .noComplete must not end it"));
    const unsigned long long token = p.phase << 20 | p.pending;
    announce(p, barrier, arrival.bytes);
    p.pending -= arrival.times;
    if (arrival.drops) p.expected -= arrival.times;
    changed(p, barrier, BarrierChange::arrives, arrival.times, arrival.bytes);
    if (b.worker->trace && arrival.releases) trace_phase_arrives(*b.worker->trace, *p.of, barrier);
    settle_for_waiting(p, barrier);
    enter_kernel(*b.worker);
    return token;
}

void phase_expect(const void* barrier, unsigned long long bytes, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    settle(p, barrier, false);
    announce(p, barrier, bytes);
    changed(p, barrier, BarrierChange::arrives, 0, bytes);
    settle_for_waiting(p, barrier);
    enter_kernel(*block().worker);
}

void phase_complete(const void* barrier, unsigned long long bytes, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    settle(p, barrier, false);
    announce(p, barrier, -int64_t(bytes));
    changed(p, barrier, BarrierChange::arrives, 0, -int64_t(bytes));
    settle_for_waiting(p, barrier);
    enter_kernel(*block().worker);
}

static void wait_for_end(PhaseBarrier& p, bool polls) {
    Fiber* me = block().running;
    me->waiting = Waiting::phase;
    me->polls = polls;
    p.waiting.add(me);
    wait(me);
}

static void know(const void* barrier) {
    Block& b = my_block();
    if (b.worker->trace) trace_phase_waited(*b.worker->trace, b, barrier);
}

// Of a phase that has ended already, nobody has to do anything: what belongs to the next one may come as late as before.
static void wait_for(PhaseBarrier& p, const void* barrier, unsigned long long phase) {
    changed(p, barrier, BarrierChange::waits, phase);
    if (p.phase == phase) settle(p, barrier);
    if (p.phase == phase) wait_for_end(p, false);
    know(barrier);
    enter_kernel(*my_block().worker);
}

static bool ask(PhaseBarrier& p, const void* barrier, unsigned long long phase, bool acquires) {
    changed(p, barrier, BarrierChange::waits, phase);
    if (p.phase == phase) settle(p, barrier);
    bool over = p.phase != phase;
    if (!over) {
        Fiber* me = block().running;
        if (me->polled_at != barrier) me->polled = 0;
        me->polled++;
        me->polled_at = barrier;
        wait_for_end(p, true);
        const PhaseBarrier* after = barrier_at(barrier);
        over = !after || after->phase != phase;
    }
    if (over) my_block().running->polled = 0;
    if (over && acquires) know(barrier);
    enter_kernel(*my_block().worker);
    return over;
}

// The phase of this parity that is under way, or was the last.
static unsigned long long last(const PhaseBarrier& p, bool parity) { return p.phase % 2 == parity ? p.phase : p.phase - 1; }

void phase_wait(const void* barrier, unsigned long long phase, const char* name) {
    wait_for(enter(barrier, name, __builtin_return_address(0)), barrier, phase);
}

bool phase_over(const void* barrier, unsigned long long phase, const char* name, bool acquires) {
    return ask(enter(barrier, name, __builtin_return_address(0)), barrier, phase, acquires);
}

void phase_wait_parity(const void* barrier, bool parity, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    wait_for(p, barrier, last(p, parity));
}

bool phase_over_parity(const void* barrier, bool parity, const char* name, bool acquires) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    return ask(p, barrier, last(p, parity), acquires);
}

void phase_waits_for_copies(const void* barrier, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    Fiber* me = block().running;
    settle(p, barrier);
    p.landings.push_back({me, me->group++});
    enter_kernel(*block().worker);
}

void do_copies_for_phases(Block& b, Fiber* of) {
    for (auto& entry : b.phase_barriers) {  // clang++ 14 cannot capture the names of a structured binding
        const void* barrier = entry.first;
        PhaseBarrier& p = entry.second;
        std::erase_if(p.landings, [&](const PhaseBarrier::Landing& landing) {
            if (landing.of == of) land(p, barrier, landing);
            return landing.of == of;
        });
    }
}

// ---- where no thread can go on --------------------------------------------------------------------------------------

// How often in a row a thread is told that the phase is not over, while no other thread does anything: a loop may have an
// end of its own.
static unsigned int patience(const Block& b) { return b.worker->trace ? 100 : 1000; }

bool release_polls(Block& b) {
    bool any = false, patient = b.aside.first;
    for (auto& [address, p] : b.phase_barriers)
        for (const Fiber* f = p.waiting.first; f; f = f->next) patient |= f->polls && f->polled < patience(b);
    if (!patient) return false;
    for (auto& [address, p] : b.phase_barriers) {
        Queue stay;
        while (Fiber* f = p.waiting.take()) {
            any |= f->polls;
            (f->polls ? b.ready : stay).add(f);
        }
        p.waiting = stay;
    }
    return any;
}

bool polls_in_vain(Block& b) {
    if (b.phase_barriers.empty()) return false;
    for (const Fiber* f = b.aside.first; f; f = f->next)
        if (f->polled < patience(b)) return false;
    for (auto& [address, p] : b.phase_barriers)
        for (const Fiber* f = p.waiting.first; f; f = f->next)
            if (f->polls && f->polled < patience(b)) return false;
    return true;
}

static std::string lacks(const void* barrier, const PhaseBarrier& p) {
    std::string text = " for the end of phase " + std::to_string(p.phase) + " of " + name_of(barrier) + " (parity " +
                       std::to_string(p.phase % 2) + "): " + std::to_string(p.expected - p.pending) + " of " +
                       std::to_string(p.expected) + " arrivals have come";
    const int64_t brought = p.announced - p.bytes + under_way(p);
    if (p.bytes || brought)
        text += ", and copies of " + std::to_string(brought) + " bytes were begun where expect_tx says " +
                std::to_string(p.announced);
    return text + ", and no thread of the block can go on";
}

Fiber* one_that_waits_for_a_phase(Block& b, std::string& why) {
    for (auto& [barrier, p] : b.phase_barriers) {
        Fiber* waits = p.waiting.first;
        for (Fiber* f = b.aside.first; f && !waits; f = f->next)
            if (f->polled && f->polled_at == barrier) waits = f;
        if (!waits) continue;
        why = "waits in vain at " + std::string(waits->waiting == Waiting::phase ? waits->function : "try_wait") +
              lacks(barrier, p);
        return waits;
    }
    return nullptr;
}

}  // namespace cuda_on_cpu
