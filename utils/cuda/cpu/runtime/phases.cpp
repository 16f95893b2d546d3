// Barriers that are objects in memory (phases.h): a thread arrives, goes on, and later waits for the end of the phase.
//
// A phase is over when all that are expected have arrived and the copies that belong to it are done. Nobody does these
// before somebody asks for the end of the phase: a thread that reads without waiting finds what was there before.
#include "cuda_on_cpu/phases.h"

#include <string>
#include <vector>

#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

// The running thread enters the runtime at `code`.
static PhaseBarrier& enter(const void* barrier, const char* function, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->function = function;
    b.running->code = code;
    auto found = b.phase_barriers.find(barrier);
    if (found == b.phase_barriers.end())
        fail(wrong_barrier, std::string("calls ") + function + " of a barrier that no thread has initialised: let one "
                            "thread call init, then all __syncthreads");
    return found->second;
}

static void land(Block& b, const void* barrier, const PhaseBarrier::Landing& landing) {
    uint32_t now = b.worker->trace ? trace_landing(*b.worker->trace, b, barrier, landing.of->number) : 0;
    do_copies(*landing.of, landing.group);
    if (b.worker->trace) trace_landed(*b.worker->trace, now);
}

// The next phase begins, if all have arrived.
static void settle(PhaseBarrier& p, const void* barrier) {
    if (p.pending) return;
    Block& b = block();
    for (const PhaseBarrier::Landing& landing : p.landings) land(b, barrier, landing);
    p.landings.clear();
    p.phase++;
    p.pending = p.expected;
    if (b.worker->trace) trace_phase_ends(*b.worker->trace, b, barrier);
    b.ready.add_all(p.waiting);
}

void phase_init(const void* barrier, unsigned long long expected) {
    Block& b = block();
    b.worker->in_kernel = 0;
    if (expected == 0 || expected >= 1 << 20)
        fail(wrong_barrier, "initialises a barrier for " + std::to_string(expected) + " arrivals: it takes 1 to 1,048,575");
    b.phase_barriers[barrier] = PhaseBarrier{unsigned(expected), unsigned(expected), 0, {}, {}};
    enter_kernel(*b.worker);
}

unsigned long long phase_arrive(const void* barrier, unsigned long long arrivals, bool drop) {
    PhaseBarrier& p = enter(barrier, "arrive", __builtin_return_address(0));
    Block& b = block();
    settle(p, barrier);
    if (arrivals > p.pending)
        fail(wrong_barrier, "arrives " + std::to_string(arrivals) + " times at a barrier whose phase lacks " +
                                std::to_string(p.pending) + " of " + std::to_string(p.expected) + " arrivals");
    const uint64_t phase = p.phase;
    p.pending -= arrivals;
    if (drop) p.expected--;
    if (b.worker->trace) trace_phase_arrives(*b.worker->trace, b, barrier);
    if (p.waiting.first) settle(p, barrier);
    enter_kernel(*b.worker);
    return phase;
}

void phase_wait(const void* barrier, unsigned long long phase, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    Fiber* me = block().running;
    settle(p, barrier);
    if (p.phase == phase) {
        me->waiting = Waiting::phase;
        p.waiting.add(me);
        wait(me);
    }
    Block& b = my_block();
    if (b.worker->trace) trace_phase_waited(*b.worker->trace, b, barrier);
    enter_kernel(*b.worker);
}

bool phase_over(const void* barrier, unsigned long long phase, const char* name) {
    PhaseBarrier& p = enter(barrier, name, __builtin_return_address(0));
    settle(p, barrier);
    const bool over = p.phase != phase;
    Block& b = block();
    if (over && b.worker->trace) trace_phase_waited(*b.worker->trace, b, barrier);
    enter_kernel(*b.worker);
    if (!over) step_aside();
    return over;
}

unsigned long long phase_now(const void* barrier) {
    PhaseBarrier& p = enter(barrier, "wait_parity", __builtin_return_address(0));
    settle(p, barrier);
    enter_kernel(*block().worker);
    return p.phase;
}

void phase_waits_for_copies(const void* barrier) {
    PhaseBarrier& p = enter(barrier, "memcpy_async", __builtin_return_address(0));
    Fiber* me = block().running;
    settle(p, barrier);
    p.landings.push_back({me, me->group++});
    enter_kernel(*block().worker);
}

void do_copies_for_phases(Block& b, Fiber* of) {
    for (auto& [address, p] : b.phase_barriers) {
        const void* barrier = address;
        std::erase_if(p.landings, [&](const PhaseBarrier::Landing& landing) {
            if (landing.of == of) land(b, barrier, landing);
            return landing.of == of;
        });
    }
}

Fiber* one_that_waits_for_a_phase(Block& b, std::string& why) {
    for (auto& [barrier, p] : b.phase_barriers)
        if (p.waiting.first) {
            why = "waits in vain at " + std::string(p.waiting.first->function) + ": " +
                  std::to_string(p.expected - p.pending) + " of " + std::to_string(p.expected) +
                  " arrivals have come, and no thread of the block can go on";
            return p.waiting.first;
        }
    return nullptr;
}

}  // namespace cuda_on_cpu
