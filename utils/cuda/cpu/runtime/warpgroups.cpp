// Products of warpgroups (include/cuda_on_cpu/ptx/wgmma.h): all 128 threads meet where one begins, and go on. It is
// computed when the first of them waits for it, so its tiles are read as late as CUDA allows.
//
// Until then every accumulator holds a pattern (warpgroups.h). A thread that waits gives the sum to each place that
// still holds exactly its pattern: what was moved meanwhile stays NaN, and what was overwritten stays as it is. A product
// that finds the pattern of the one before adds to its sums.
#include "warpgroups.h"

#include <cstring>
#include <string>

#include "descriptors.h"
#include "runtime.h"
#include "../trace/trace.h"
#include "../trace/warpgroups.h"

namespace cuda_on_cpu {

static const char instruction[] = "wgmma.mma_async";

static std::string text_of(uint3 thread) {
    return "(" + std::to_string(thread.x) + ", " + std::to_string(thread.y) + ", " + std::to_string(thread.z) + ")";
}

static uint3 place_of(const Block& b, unsigned int thread) {
    return {thread % b.block_dim.x, thread / b.block_dim.x % b.block_dim.y, thread / b.block_dim.x / b.block_dim.y};
}

static Warpgroup& group_of(Block& b, unsigned int thread) {
    if (b.warpgroups.empty()) b.warpgroups.resize((b.threads + warpgroup_threads - 1) / warpgroup_threads);
    auto& group = b.warpgroups[thread / warpgroup_threads];
    if (!group) group = std::make_unique<Warpgroup>();
    return *group;
}

// ---- descriptors ----------------------------------------------------------------------------------------------------

// A descriptor has 18 bits for an address. In a trace, dynamic shared memory is higher up.
static SharedTile tile_in(const Block& b, uint64_t descriptor) {
    SharedTile tile = tile_of(descriptor);
    const uint32_t dynamic = dynamic_offset(*b.worker, b.dynamic_bytes), low = dynamic % shared_window;
    if (b.dynamic_bytes && tile.start >= low) tile.start += dynamic - low;
    return tile;
}

static void check_tile(const Block& b, const SharedTile& tile, bool by_k, unsigned int lines, const char* which) {
    const std::string calls = std::string("calls ") + instruction + " with a descriptor of " + which;
    uint32_t last = 0;
    bool fits = true;
    each_piece(tile, by_k, lines, [&](uint32_t at, unsigned int, unsigned int) {
        last = std::max(last, at + 15);
        fits = fits && b.arena.holds(at, 16);
    });
    if (!fits)
        fail(wrong_product, calls + " that reaches byte " + std::to_string(last) + " of shared memory, which the block does "
                                "not have: a trace of this launch shows where");
}

// ---- a product begins -----------------------------------------------------------------------------------------------

static bool same_places(const Accumulators& sums, const Warpgroup& group) {
    const unsigned int count = sums.registers();
    for (unsigned int t = 0; t < warpgroup_threads; t++)
        if (memcmp(&sums.places[t * count], group.calls[t].d, count * sizeof(void*))) return false;
    return true;
}

// The accumulators of the product before, if these are the same registers and hold its pattern.
static std::shared_ptr<Accumulators> continued(const Warpgroup& group, const WarpgroupProduct& product,
                                               unsigned int registers) {
    for (const auto& sums : group.unwaited) {
        if (sums->product->n != product.n || sums->product->d != product.d || sums->given.any()) continue;
        if (!same_places(*sums, group)) continue;
        bool holds = true;
        for (size_t i = 0; i < sums->places.size() && holds; i++) {
            uint32_t held;
            memcpy(&held, sums->places[i], 4);
            holds = held == pending_pattern(product.d, sums->latest, i % registers);
        }
        if (holds) return sums;
    }
    return nullptr;
}

// Calls `f(sum, thread, which register, which half of it)` for each element.
template <class F>
static void each_sum(const WarpgroupProduct& p, F f) {
    const unsigned int per = p.d == ptx::Type::f16 ? 2 : 1;
    for (unsigned int thread = 0; thread < warpgroup_threads; thread++)
        for (unsigned int e = 0; e < p.n / 2u; e++) {
            const ptx::Cell at = ptx::place_in_c(16, p.n, thread % 32, e);
            f((thread / 32 * 16 + at.row) * p.n + at.column, thread, e / per, e % per);
        }
}

static std::shared_ptr<Accumulators> fresh(const Warpgroup& group, const WarpgroupProduct& p, unsigned int registers,
                                           bool adds) {
    auto made = std::make_shared<Accumulators>();
    made->sums.resize(64 * p.n);
    for (const Warpgroup::Call& call : group.calls) made->places.insert(made->places.end(), call.d, call.d + registers);
    if (!adds) return made;
    const unsigned int bits = bits_of(p.d);
    each_sum(p, [&](unsigned int sum, unsigned int thread, unsigned int which, unsigned int half) {
        memcpy(&made->sums[sum], static_cast<const char*>(group.calls[thread].d[which]) + 2 * half, bits / 8);
    });
    return made;
}

static void compute_until(Block& b, Warpgroup& group, uint64_t product) {
    while (group.computed < product) {
        const WarpgroupOperation& next = group.pending.front();
        multiply(next, b.arena.get(), tile_in(b, next.a), tile_in(b, next.b));
        group.pending.pop_front();
        group.computed++;
    }
}

// By the last of the 128.
static void begin(Block& b, Warpgroup& group, const void* code) {
    constexpr size_t most_pending = 512;
    const Warpgroup::Call& one = group.calls[0];
    for (const Warpgroup::Call& call : group.calls) {
        const char* differs = !(*call.product == *one.product)                           ? "another shape, type or sign"
                              : !one.product->a_in_registers && call.a != one.a ? "another descriptor of A"
                              : call.b != one.b                                 ? "another descriptor of B"
                              : call.adds != one.adds                           ? "another scale-d"
                                                                                : nullptr;
        if (differs)
            fail(wrong_product, std::string("calls ") + instruction + " together with its warpgroup, of which thread " +
                                    text_of(call.fiber->thread) + " brings " + differs + " than thread " +
                                    text_of(one.fiber->thread));
    }
    const WarpgroupProduct& p = *one.product;
    if (!p.a_in_registers) check_tile(b, tile_in(b, one.a), !p.a_columns, 64, "A");
    check_tile(b, tile_in(b, one.b), !p.b_rows, p.n, "B");

    const unsigned int registers = p.n * bits_of(p.d) / 64;
    std::shared_ptr<Accumulators> into = continued(group, p, registers);
    const bool continues = into != nullptr;
    if (!into) {
        into = fresh(group, p, registers, one.adds);
        group.unwaited.push_back(into);
    }
    into->product = &p;
    into->latest = group.issued;
    for (size_t i = 0; i < into->places.size(); i++) {
        const uint32_t pattern = pending_pattern(p.d, into->latest, i % registers);
        memcpy(into->places[i], &pattern, 4);
    }
    WarpgroupOperation operation{&p, one.a, one.b, one.adds, into, {}, code};
    if (p.a_in_registers)
        for (const Warpgroup::Call& call : group.calls) operation.registers.push_back(*call.registers);
    if (Trace* trace = b.worker->trace)
        trace_product(*trace, b, group, one.fiber->number, operation, tile_in(b, one.a), tile_in(b, one.b), continues);
    group.pending.push_back(std::move(operation));
    group.issued++;
    if (group.pending.size() > most_pending) compute_until(b, group, group.computed + 1);
}

void warpgroup_multiply(const WarpgroupProduct& product, void* const* d, uint64_t a, const RegistersOfA* in_registers,
                        uint64_t b_descriptor, bool adds) {
    const void* code = __builtin_return_address(0);
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    Fiber* me = b.running;
    me->function = instruction;
    me->code = code;
    me->polled = 0;
    const unsigned int first = me->number / warpgroup_threads * warpgroup_threads;
    if (first + warpgroup_threads > b.threads)
        fail(wrong_product, std::string("calls ") + instruction + ", but its warpgroup has only " +
                                std::to_string(b.threads - first) + " threads: launch blocks of a multiple of 128");
    Warpgroup& group = group_of(b, me->number);
    group.calls[me->number - first] = {me, &product, d, a, b_descriptor, in_registers, adds};
    if (++group.came < warpgroup_threads) {
        me->waiting = Waiting::warpgroup;
        wait(me);
    } else {
        group.came = 0;
        begin(b, group, code);
        for (Warpgroup::Call& call : group.calls) {
            if (call.fiber != me) b.ready.add(call.fiber);
            call.fiber = nullptr;
        }
    }
    enter_kernel(*my_block().worker);
}

// ---- groups, and waiting for them -----------------------------------------------------------------------------------

void warpgroup_fence() {
    Block& b = block();
    if (b.worker->trace) trace_warpgroup_fence(*b.worker->trace, b);
}

void warpgroup_commit() {
    Block& b = block();
    if (b.warpgroups.empty()) return;
    Warpgroup& group = group_of(b, b.running->number);
    auto& mine = group.groups[b.running->number % warpgroup_threads];
    mine.ends.push_back(group.issued);
    mine.committed = group.issued;
}

// The thread gets the sums that nobody adds to any more, where its registers still wait for them.
static void give(Accumulators& sums, unsigned int thread) {
    const WarpgroupProduct& p = *sums.product;
    const unsigned int registers = sums.registers(), bits = bits_of(p.d), per = 32 / bits;
    for (unsigned int which = 0; which < registers; which++) {
        void* place = sums.places[thread * registers + which];
        const uint32_t pattern = pending_pattern(p.d, sums.latest, which);
        if (memcmp(place, &pattern, 4)) continue;
        uint32_t value = 0;
        for (unsigned int half = 0; half < per; half++) {
            const ptx::Cell at = ptx::place_in_c(16, p.n, thread % 32, which * per + half);
            value |= sums.sums[(thread / 32 * 16 + at.row) * p.n + at.column] << half * bits;
        }
        memcpy(place, &value, 4);
    }
    sums.given.set(thread);
}

void warpgroup_wait(uint32_t prior) {
    Block& b = block();
    if (b.warpgroups.empty()) return;
    Worker& w = *b.worker;
    w.in_kernel = 0;
    b.running->code = __builtin_return_address(0);
    Warpgroup& group = group_of(b, b.running->number);
    const unsigned int thread = b.running->number % warpgroup_threads;
    auto& ends = group.groups[thread].ends;
    const bool waits = !ends.empty();
    uint64_t until = 0;
    for (; ends.size() > prior; ends.pop_front()) until = ends.front();
    if (w.trace) trace_warpgroup_waits(*w.trace, b, group, until, waits, prior);
    compute_until(b, group, until);
    for (const auto& sums : group.unwaited)
        if (sums->latest < until && !sums->given[thread]) give(*sums, thread);
    std::erase_if(group.unwaited, [](const auto& sums) { return sums->given.all(); });
    enter_kernel(w);
}

Fiber* one_that_waits_for_its_warpgroup(const Block& b, std::string& why) {
    for (size_t k = 0; k < b.warpgroups.size(); k++) {
        const Warpgroup* group = b.warpgroups[k].get();
        if (!group || !group->came) continue;
        Fiber* waits = nullptr;
        unsigned int absent = 0;
        for (unsigned int t = warpgroup_threads; t-- > 0;) {
            if (group->calls[t].fiber) waits = group->calls[t].fiber;
            else absent = k * warpgroup_threads + t;
        }
        const bool ended = b.warps[absent / 32].ended >> absent % 32 & 1;
        const Fiber* other = nullptr;
        for (const auto& fiber : b.worker->fibers)
            if (fiber->has_thread && fiber->number == absent) other = fiber.get();
        if (!ended && other && other->waiting == Waiting::phase) return nullptr;  // which says more
        why = std::string("waits in vain at ") + instruction + " for its warpgroup: " + std::to_string(group->came) +
              " of 128 threads have come, and thread " + text_of(place_of(b, absent)) +
              (ended ? " has left the kernel" : other ? " waits at " + std::string(other->function) : " waits elsewhere");
        return waits;
    }
    return nullptr;
}

}  // namespace cuda_on_cpu
