// Where threads wait for each other: at barriers of the block, of a warp and of the grid. Device code calls these
// functions (launch.h).
//
// A thread notes what it brings and where it waits, and `wait` (fibers.cpp) runs the others. The last to arrive puts
// all of them among the ready.
#include <algorithm>
#include <atomic>
#include <cstdio>

#include "clusters.h"
#include "turns.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

Fiber* enter_runtime(const char* function, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->function = function;
    b.running->code = code;
    b.running->polled = 0;
    return b.running;
}

void open_barrier(Block& b) {
    if (b.worker->trace) trace_barrier_opens(*b.worker->trace, b);
    b.last_sum = b.sum;
    b.sum = 0;
    b.ready.add_all(b.at_barrier);
}

size_t wait_for_block(size_t value, BarrierUse use, const char* name, const void* code) {
    Fiber* me = enter_runtime(name, code);
    Block& b = block();
    me->waiting = Waiting::barrier;
    me->walk.arrive();
    me->value = value;
    me->named = {0, (b.threads + 31) / 32 * 32, 0, use, false};
    check_barrier_0(b, *me);
    b.sum += value;
    b.at_barrier.add(me);
    if (b.at_barrier.length == b.alive) open_barrier(b);
    wait(me);
    enter_kernel(*my_block().worker);
    return my_block().last_sum;  // the barrier after this one opens only when all have read it
}

size_t barrier_sum(size_t value, const char* name) {
    return wait_for_block(value, BarrierUse::reduce, name, __builtin_return_address(0));
}

void barrier(const char* name) { wait_for_block(0, BarrierUse::sync, name, __builtin_return_address(0)); }

// The lanes of `mask`, apart from those that have ended, go on if all have come with the same mask, for the same work.
static void check_meeting(Block& b, unsigned int warp, unsigned int mask) {
    Warp& w = b.warps[warp];
    unsigned int needed = mask & ~w.ended;
    if (!needed || (w.waiting & needed) != needed) return;
    int lowest = __builtin_ctz(needed);
    const WarpWork work = w.lanes[lowest]->work;
    for (unsigned int rest = needed; rest; rest &= rest - 1) {
        const Fiber& fiber = *w.lanes[__builtin_ctz(rest)];
        if (fiber.mask != mask || fiber.work != work) return;
    }
    // Two places in turn: a lane that is slow to read is at most one meeting behind.
    uint64_t* values = w.met[lowest][w.turn[lowest] ^= 1].values;
    if (b.worker->trace) trace_meeting(*b.worker->trace, b, warp, needed);
    if (work) {
        void* brought[32] = {};
        for (unsigned int rest = needed; rest; rest &= rest - 1)
            brought[__builtin_ctz(rest)] = reinterpret_cast<void*>(w.lanes[__builtin_ctz(rest)]->value);
        work(brought, needed);
    }
    for (unsigned int rest = needed; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        Fiber* fiber = w.lanes[i];
        values[i] = fiber->value;
        fiber->mask = needed;
        fiber->values = values;
        b.ready.add(fiber);
    }
    w.waiting &= ~needed;
}

void check_meetings(Block& b, unsigned int warp) {
    for (unsigned int i = 0; i < 32; i++)
        if (Warp& w = b.warps[warp]; w.waiting >> i & 1) check_meeting(b, warp, w.lanes[i]->mask);
}

// Returns when all of `mask` have come: the fiber's `mask` is who came, `values` what they brought.
static Fiber* wait_for_warp(unsigned int mask, uint64_t value, const char* name, const void* code, bool orders,
                            WarpWork work = nullptr) {
    Fiber* me = enter_runtime(name, code);
    Block& b = block();
    unsigned int i = me->number % 32;
    if (!(mask >> i & 1)) {
        char text[160];
        snprintf(text, sizeof text, "calls %s with the mask 0x%08x, which leaves out its own lane, %u", name, mask, i);
        fail(wrong_mask, text);
    }
    Warp& w = b.warp_of(me->number);
    me->mask = mask;
    me->value = value;
    me->orders = orders;
    me->work = work;
    me->waiting = Waiting::warp;
    w.lanes[i] = me;
    w.waiting |= 1u << i;
    check_meeting(b, me->number / 32, mask);
    wait(me);
    enter_kernel(*my_block().worker);
    return me;
}

unsigned int lane() {
    const Block& b = block();
    return ((b.thread.z * b.block_dim.y + b.thread.y) * b.block_dim.x + b.thread.x) % 32;
}

void meet(unsigned int mask, const char* name) { wait_for_warp(mask, 0, name, __builtin_return_address(0), true); }

void meet_for(WarpWork work, void* brought, const char* name, const void* code) {
    wait_for_warp(~0u, reinterpret_cast<uintptr_t>(brought), name, code, false, work);
}

unsigned int ballot(unsigned int mask, bool vote, const char* name) {
    Fiber* me = wait_for_warp(mask, vote, name, __builtin_return_address(0), false);
    unsigned int votes = 0;
    for (unsigned int rest = me->mask; rest; rest &= rest - 1)
        votes |= unsigned(me->values[__builtin_ctz(rest)]) << __builtin_ctz(rest);
    return votes;
}

// A NaN of every type, and not what a later trace would take for memory that nobody has written.
static constexpr uint64_t not_a_number = 0x7FFF7FFF7FFF7FFF;

uint64_t shuffle(unsigned int mask, uint64_t value, unsigned int from, const char* name) {
    const unsigned int asked = mask;
    Fiber* me = wait_for_warp(mask, value, name, __builtin_return_address(0), false);
    if (me->mask >> from & 1) return me->values[from];
    Block& b = my_block();
    if (!b.worker->trace) return not_a_number;
    return trace_absent_lane(*b.worker->trace, b, from, asked >> from & 1, name, __builtin_return_address(0));
}

unsigned int match(unsigned int mask, uint64_t value, const char* name) {
    Fiber* me = wait_for_warp(mask, value, name, __builtin_return_address(0), false);
    unsigned int same = 0;
    for (unsigned int rest = me->mask; rest; rest &= rest - 1)
        same |= unsigned(me->values[__builtin_ctz(rest)] == value) << __builtin_ctz(rest);
    return same;
}

// On a GPU the lanes of a warp run side by side, and some of them arrive here together. Here they arrive one by one:
// each waits until no thread of the block can go on otherwise. Those of a warp that wait at the same place are then
// active.
unsigned int active_lanes() {
    Fiber* me = enter_runtime("__activemask", __builtin_return_address(0));
    Warp& w = block().warp_of(me->number);
    unsigned int i = me->number % 32;
    me->waiting = Waiting::active;
    w.lanes[i] = me;
    w.active |= 1u << i;
    wait(me);
    enter_kernel(*my_block().worker);
    return me->mask;
}

bool release_active(Block& b) {
    bool any = false;
    for (size_t i = 0; i < (b.threads + 31) / 32; i++) {
        Warp& w = b.warps[i];
        if (!w.active) continue;
        const void* code = w.lanes[__builtin_ctz(w.active)]->code;
        for (unsigned int rest = w.active; rest; rest &= rest - 1)
            code = std::min(code, w.lanes[__builtin_ctz(rest)]->code);
        unsigned int together = 0;
        for (unsigned int rest = w.active; rest; rest &= rest - 1)
            if (w.lanes[__builtin_ctz(rest)]->code == code) together |= 1u << __builtin_ctz(rest);
        for (unsigned int rest = together; rest; rest &= rest - 1) {
            w.lanes[__builtin_ctz(rest)]->mask = together;
            b.ready.add(w.lanes[__builtin_ctz(rest)]);
        }
        w.active &= ~together;
        any = true;
    }
    return any;
}

bool cooperative() { return block().worker->cooperative; }

void grid_barrier() {
    Fiber* me = enter_runtime("grid.sync", __builtin_return_address(0));
    Block& b = block();
    if (!b.worker->cooperative) fail(no_grid);
    me->waiting = Waiting::grid;
    b.at_grid.add(me);
    wait(me);
    enter_kernel(*my_block().worker);
}

static void stand_aside(bool sleeps) {
    Block& b = block();
    const unsigned int polled = sleeps && b.watched ? b.running->polled : 0;
    if (b.watched) b.running->polled = polled;
    leave_if_over(b);
    if (!b.ready.first && !b.aside.first && b.started == b.threads && !others_may_help(b)) return;
    Fiber* me = enter_runtime("step_aside", nullptr);
    me->polled = polled;
    b.aside.add(me);
    wait(me);
    enter_kernel(*my_block().worker);
}

void step_aside() { stand_aside(false); }
void nap() { stand_aside(true); }

// Whom the thread waits for may be of its block, so that must be let on now and then. Each block counts for itself: the
// order of its threads must not depend on what ran before.
void nothing_changed() {
    if (here && !++block().unchanged) step_aside();
}

void fence(bool of_block) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!here || !block().worker->trace) return;
    trace_fence(*block().worker->trace, block(), of_block);
    Block& b = block();
    constexpr unsigned int most_turns = 16;  // a lock's fences would take a turn of all blocks for each thread
    if (!of_block && b.turns && !b.cluster && !b.worker->cooperative && b.fences++ < most_turns) step_aside();
}

}  // namespace cuda_on_cpu
