// PTX's barriers 0 to 15, and those of cooperative groups' tiles of several warps, for all threads of a block or for as many as an instruction says ("PTX ISA": bar, barrier).
//
// A thread "waits for all non-exited threads from its warp and marks warps' arrival": so the lanes of a warp gather
// first, then the warp comes, and counts as 32 threads. The phase is over when as many have come as were asked for.
// "Barriers exclusively waiting on arrivals from exited threads are always released" (exit). On an H200 this holds where
// the instruction gives no number of threads: then the phase is also over when all warps have come that have not ended.
// With a number, it waits for ever. If some instructions of a phase give a number and others do not, it says "an illegal
// instruction was encountered".
//
// __syncthreads is barrier 0 of all threads, without a number; for that one there is a faster way (barriers.cpp).
#include <string>
#include <utility>

#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

static constexpr unsigned int barriers = 16;
static constexpr unsigned int barriers_in_all = barriers + tile_barriers;
static constexpr char in_vain[] = ", and no thread of the block can go on";

// Where a block keeps the barrier of a number.
static unsigned int slot(unsigned int number) {
    return number < first_tile_barrier ? number : number - first_tile_barrier + barriers;
}

static std::string name_of(const Fiber& f) {
    if (f.named.number >= first_tile_barrier) return f.function;
    return std::string(f.function) + " of barrier " + std::to_string(f.named.number);
}

static std::string for_threads(unsigned int number) {
    return number ? " for " + std::to_string(number) + " threads" : " without a number of threads";
}

static std::string counted(unsigned int came, unsigned int of) {
    return std::to_string(came) + " of " + std::to_string(of) + " threads have come";
}

// A mistake of a thread that may not be the running one.
[[noreturn]] static void fail_at(Block& b, Fiber& fiber, int fault, std::string text) {
    b.running = &fiber;
    b.thread = fiber.thread;
    fail(fault, std::move(text));
}

static bool all_have_come(const Block& b, const NamedBarrier& n) {
    for (size_t warp = 0; warp < n.warps.size(); warp++)
        if (!n.warps[warp] && ~b.warps[warp].ended) return false;
    return true;
}

static void open_if_over(Block& b, unsigned int number) {
    NamedBarrier& n = b.named_barriers[slot(number)];
    if (n.came == 0 || (n.came < n.threads && (n.given || !all_have_come(b, n)))) return;
    if (b.worker->trace) trace_named_opens(*b.worker->trace, b, n);
    for (Fiber* f = n.waiting.first; f; f = f->next) f->value = n.votes;
    b.ready.add_all(n.waiting);
    n = {};
}

// Of a thread of a warp that comes to a barrier in use.
static void check(Block& b, const NamedBarrier& n, unsigned int warp, Fiber& f) {
    const std::string calls = "calls " + name_of(f), first = "warp " + std::to_string(n.first);
    if (n.given != f.named.given)
        fail_at(b, f, wrong_barrier, calls + for_threads(f.named.given) + ", but " + first + " has come to it" +
                                         for_threads(n.given));
    if (n.reduces != (f.named.use == BarrierUse::reduce))
        fail_at(b, f, wrong_barrier, calls + ", to which " + first + " has come " + (n.reduces ? "with" : "without") +
                                         " a reduction: in one phase, either all reduce or none");
    if (n.warps[warp])
        fail_at(b, f, wrong_barrier, calls + ", but its warp has come to it before and the phase is not over: " +
                                         counted(n.came, n.threads));
}

static void warp_comes(Block& b, unsigned int warp) {
    Warp& w = b.warps[warp];
    Fiber& one = *w.lanes[__builtin_ctz(w.named)];
    const unsigned int number = one.named.number;
    NamedBarrier& n = b.named_barriers[slot(number)];
    if (const Fiber* f = number == 0 ? b.at_barrier.first : nullptr)
        fail_at(b, one, wrong_barrier, "calls " + name_of(one) + for_threads(one.named.given) + ", but warp " +
                                           std::to_string(f->number / 32) + " has come to it by " + f->function +
                                           for_threads(0));
    if (n.came) {
        check(b, n, warp, one);
    } else {
        n.threads = one.named.threads;
        n.given = one.named.given;
        n.first = warp;
        n.reduces = one.named.use == BarrierUse::reduce;
        n.warps.assign((b.threads + 31) / 32, false);
    }
    n.warps[warp] = true;
    n.came += 32;
    if (b.worker->trace) trace_named_arrives(*b.worker->trace, b, n, warp);
    for (unsigned int rest = std::exchange(w.named, 0); rest; rest &= rest - 1) {
        Fiber* f = w.lanes[__builtin_ctz(rest)];
        n.votes += f->value;
        (f->named.use == BarrierUse::arrive ? b.ready : n.waiting).add(f);
    }
    open_if_over(b, number);
}

static void look_at_warp(Block& b, unsigned int warp) {
    Warp& w = b.warps[warp];
    if (!w.named || w.named != ~w.ended) return;
    Fiber& first = *w.lanes[__builtin_ctz(w.named)];
    for (unsigned int rest = w.named; rest; rest &= rest - 1) {
        Fiber& other = *w.lanes[__builtin_ctz(rest)];
        if (other.named.number == first.named.number && other.named.given == first.named.given &&
            other.named.use == first.named.use)
            continue;
        fail_at(b, other, wrong_mask, "calls " + name_of(other) + for_threads(other.named.given) +
                                          ", but another lane of its warp calls " + name_of(first) +
                                          for_threads(first.named.given) +
                                          ": the lanes of a warp come to one barrier, in one way");
    }
    warp_comes(b, warp);
}

void check_barrier_0(Block& b, Fiber& f) {
    if (!b.named_barriers.empty() && b.named_barriers[0].came) check(b, b.named_barriers[0], f.number / 32, f);
}

static void gather_at_named(Block& b, Fiber* fiber) {
    if (b.named_barriers.empty()) b.named_barriers.resize(barriers_in_all);
    Warp& w = b.warp_of(fiber->number);
    fiber->waiting = Waiting::named;
    w.lanes[fiber->number % 32] = fiber;
    w.named |= 1u << fiber->number % 32;
    look_at_warp(b, fiber->number / 32);
}

unsigned int named_barrier(unsigned int number, unsigned int threads, BarrierUse use, bool aligned, bool vote,
                           const char* name) {
    const void* code = __builtin_return_address(0);
    Fiber* me = enter_runtime(name, code);
    Block& b = block();
    const unsigned int all = (b.threads + 31) / 32 * 32;
    const bool arrives = use == BarrierUse::arrive;
    me->named = {number, threads || arrives ? threads : all, threads, use, aligned};
    const bool of_tile = number - first_tile_barrier < tile_barriers;
    if (number >= barriers && !of_tile) fail(wrong_barrier, "calls " + name_of(*me) + ": a block has barriers 0 to 15");
    if (me->named.threads == 0 || threads % 32)
        fail(wrong_barrier, "calls " + name_of(*me) + " for " + std::to_string(threads) +
                                " threads: warps come to it as a whole, so it takes a multiple of 32");
    if (threads > all)
        fail(wrong_barrier, "calls " + name_of(*me) + " for " + std::to_string(threads) +
                                " threads, but its block has " + std::to_string(b.threads));
    if (number == 0 && !threads)
        return unsigned(wait_for_block(vote, use, name, code));
    me->value = vote;
    me->walk.arrive();
    gather_at_named(b, me);
    wait(me);
    enter_kernel(*my_block().worker);
    return unsigned(me->value);
}

void* tile_slot(unsigned int thread) {
    constexpr size_t bytes = 32;
    Block& b = block();
    if (b.tile_slots.size() < b.threads * bytes) b.tile_slots.resize(b.threads * bytes);
    return &b.tile_slots[thread * bytes];
}

void named_thread_ends(Block& b, unsigned int warp) {
    look_at_warp(b, warp);
    if (~b.warps[warp].ended) return;
    for (unsigned int number = 0; number < barriers; number++) open_if_over(b, number);
    for (unsigned int k = 0; k < tile_barriers; k++) open_if_over(b, first_tile_barrier + k);
}

Fiber* one_that_waits_for_a_named(const Block& b, std::string& why) {
    if (b.named_barriers.empty()) return nullptr;
    for (size_t warp = 0; warp < (b.threads + 31) / 32; warp++) {
        const Warp& w = b.warps[warp];
        if (!w.named) continue;
        Fiber* waits = w.lanes[__builtin_ctz(w.named)];
        why = "waits in vain at " + name_of(*waits) + " for its warp: " +
              counted(__builtin_popcount(w.named), __builtin_popcount(~w.ended)) + in_vain;
        return waits;
    }
    const NamedBarrier* nearest = nullptr;  // to its end
    for (const NamedBarrier& n : b.named_barriers)
        if (n.waiting.first && (!nearest || n.threads - n.came < nearest->threads - nearest->came)) nearest = &n;
    if (!nearest) return nullptr;
    const Fiber* other = b.at_barrier.first;
    for (const NamedBarrier& n : b.named_barriers)
        if (n.waiting.first && &n != nearest) other = n.waiting.first;
    Fiber* waits = nearest->waiting.first;
    why = "waits in vain at " + name_of(*waits) + ": " + counted(nearest->came, nearest->threads) + in_vain;
    if (nearest->given && b.alive < b.threads) why += ". Threads that have ended do not come to a barrier with a number";
    if (other) why += ". Warp " + std::to_string(other->number / 32) + " waits at " + name_of(*other);
    return waits;
}

}  // namespace cuda_on_cpu
