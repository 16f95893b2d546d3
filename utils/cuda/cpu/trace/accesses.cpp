// A trace: every access of a launch, checked and counted.
//
// The traced module is compiled with the compiler's own hooks for race detectors: before every load and store it calls
// `__tsan_read4(address)` and the like, and `__sanitizer_cov_trace_pc()` in every basic block. Linked with no
// sanitizer, it finds these functions in hooks.cpp. Read `Trace::access` first.
//
// Three things are done with an access. It is looked up: which tensor or shared variable is it in (regions.cpp)? It is
// compared with those before it: is there one by another thread that nothing orders (races.h)? And it is kept for the
// warp's other lanes, to be counted with theirs (requests.h). What is wrong becomes a problem (problems.cpp).
#include <algorithm>
#include <cstring>

#include "../runtime/clusters.h"
#include "recorder.h"

namespace cuda_on_cpu {

static constexpr uint64_t most_steps_again = 1'000'000;  // of a thread in a launch that is made again

__thread Trace* tracing CUDA_ON_CPU_FAST_TLS = nullptr;

// Keeps an access for counting; the site that counts it. A trace spends its time here and in `access` and `piece`.
[[gnu::always_inline]] inline uint16_t Trace::keep(Block& b, TracedThread& t, uintptr_t a, size_t bytes, Op op,
                                                   const void* code, const Region& region, const Copy* copy) {
    if (again) return 0;
    if (recorder) [[unlikely]] code = recorder->saw(b, a, bytes, op, region, code);
    uint16_t counts = site(bytes, op, code, region, copy);
    uint32_t place = reinterpret_cast<uintptr_t>(code) - module_begin;
    t.events.push_back({a + region.shift, copy ? copy->other : 0u, place, counts, uint8_t(bytes),
                        uint8_t(unsigned(op) | t.depth << 2)});
    return counts;
}

void Trace::access(const void* address, size_t bytes, Op op, const void* code, Strength strength, Parts parts,
                   const Copy* copy) {
    if (!in_thread()) return here ? void() : of_host(address, bytes, op, code, strength);
    beat();
    last_code = code;
    Block& b = block();
    TracedThread& t = *b.running->traced;
    if (t.stored.address) look_at_stored(b, t);
    uintptr_t a = reinterpret_cast<uintptr_t>(address);
    if (!b.traced->products.threads.empty()) touches_register(b, a, bytes, op, code);
    const bool is_struct = parts != Parts::whole;
    auto width = [&](const Region& r) {
        if (parts == Parts::bytes && r.space == Space::global) return size_t(1);
        bool split = is_struct || (!copy && bytes == 16 && r.alignment == 8 && r.element >= 16);
        return split ? std::min<size_t>(16, r.alignment) : bytes;
    };
    const uintptr_t place = reinterpret_cast<uintptr_t>(code) * 4 + uintptr_t(op);
    Requests::Last& last = requests.last(place);
    Region* region = static_cast<Region*>(last.memory);
    if (!region || !region->holds(a, bytes)) {
        bool ignore;
        if (op == Op::store) t.is_set(a, bytes);
        region = find(b, a, bytes, ignore);
        if (ignore) {
            if (op == Op::atomic && b.running->around(address)) updates_local(b, bytes, code);
            if (op == Op::load && !is_struct && may_be_unset(a, bytes)) reads_local(b, a, bytes, code);
            if (op == Op::load && bytes == 8 && a >= module_begin && a < module_end) reads_table(b, a, t.last_read, code);
            t.last_read = op == Op::load ? a : 0;
            return;
        }
        if (!region) region = nearest(a, place);
        if (!region || !region->holds(a, bytes)) {
            t.array_type = nullptr;
            bool harmless = out_of_bounds(b, a, bytes, op, code, region);
            // A GPU makes them too, so they count; not all that a memset of much more than the tensor would make.
            const size_t most = region && region->space != Space::local ? region->end - region->begin + 64 : 0;
            for (size_t at = 0; at < std::min(bytes, most); at += width(*region))
                keep(b, t, a + at, std::min(width(*region), bytes - at), op, code, *region, copy);
            if (!harmless) stop_thread(b);
            return;
        }
        if (region->space != Space::shared) last.memory = region;
    }
    t.last_read = op == Op::load ? a : 0;
    if (t.array_type && region->space == Space::shared) tell_array(b, region, a, bytes, op);
    if (region->space == Space::constant && op != Op::load) {
        not_meant_for(b, *region, "writes %s, which is `__constant__`: a kernel can only read it", code);
        stop_thread(b);
    }
    if (again) return;
    for (size_t at = 0; at < bytes; at += width(*region))
        piece(b, t, a + at, std::min(width(*region), bytes - at), op, code, strength, region, copy, bytes > width(*region));
    if (op == Op::load || region->space != Space::global) return;
    region->memory->unfinished = true;
    stores(t, a, bytes, op, code, region, is_struct);
}

void Trace::copies(void* to, const void* from, size_t bytes, Parts parts, bool apart, const void* code) {
    const ptrdiff_t further = uintptr_t(to) - uintptr_t(from);  // a GPU's memcpy goes forward, byte by byte
    if (apart && further && uint64_t(std::abs(further)) < bytes)
        undefined("copies " + std::to_string(bytes) + " bytes with memcpy to a place that overlaps them, " +
                      std::to_string(std::abs(further)) + " bytes further " + (further > 0 ? "on" : "back"),
                  0, code);
    access(from, bytes, Op::load, code, Strength::weak, parts);
    access(to, bytes, Op::store, code, Strength::weak, parts);
}

// Whether these bytes of a tensor hold what fresh memory is filled with: torch.empty's (guard/guard.cpp), an extension's
// (traced_allocator.h), or cudaMalloc's. Four bytes never do by chance; fewer may, so their neighbours have to as well.
// `written` tells whether the launch has written them: then they were computed.
template <class Written>
static bool is_fresh(const Region& region, uintptr_t a, size_t bytes, Written written) {
    uintptr_t begin = a / 4 * 4, end = (a + bytes + 3) / 4 * 4;
    if (bytes < 4) begin = std::max(a / 8 * 8, region.begin), end = std::min(a / 8 * 8 + 8, region.end);
    if (begin < region.begin || end > region.end || end < begin + 4) return false;
    auto same = [](uintptr_t from, size_t length) {
        const void* p = reinterpret_cast<const void*>(from);
        for (const uint64_t& fresh : {poison, device_poison})
            if (memcmp(p, reinterpret_cast<const char*>(&fresh) + from % 2, length) == 0) return true;
        return false;
    };
    if (bytes < 4) return same(begin, std::min<size_t>(end - begin, 7)) && same(end - 4, 4) && !written(a, bytes);
    for (uintptr_t at = begin; at < end; at += 4)
        if (same(at, 4) && !written(std::max(at, a), std::min(at + 4, a + bytes) - std::max(at, a))) return true;
    return false;
}

void Trace::piece(Block& b, TracedThread& t, uintptr_t a, size_t bytes, Op op, const void* code, Strength strength,
                  Region* region, const Copy* copy, bool in_parts) {
    TracedBlock& tb = *b.traced;
    unsigned int number = b.running->number;
    bool ends = copy && copy->begun;  // an asynchronous copy, which was counted when it began
    uint16_t place = ends ? site(bytes, op, code, *region, copy) : keep(b, t, a, bytes, op, code, *region, copy);
    Memory& memory = *region->memory;
    if (!memory.written.empty() && op != Op::load)
        for (size_t i = 0; i < bytes; i++) memory.written[a - memory.begin + i] = true;
    if (region->space == Space::constant) return;
    if (strength != Strength::weak) requests.sites[place].strength = strength;

    Record me{order.now, uint32_t(b.number), uint16_t(number), place};
    bool shared = region->space == Space::shared;
    Block* peer = shared && b.cluster && !b.arena.around(reinterpret_cast<void*>(a)) ? block_with(reinterpret_cast<void*>(a)) : nullptr;
    Block& owner = peer ? *peer : b;  // of shared memory
    if (peer) reaches(b, owner, a, bytes, party(b, *b.running, code, op), number, *region);
    uint32_t since = shared ? owner.traced->order.begun : order.since;
    // A volatile variable may be a flag with a fence beside it, or what an atomic sets. Two volatile accesses race, unless
    // one decides how its thread goes on: the source shows that.
    bool as_atomic = op == Op::atomic || strength != Strength::weak;
    auto together = [&](const Record& x) {
        auto of_volatile = [](Op op, Strength s) { return op != Op::atomic && s == Strength::of_volatile; };
        const Site& other = requests.sites[x.site];
        const bool of_block = strength == Strength::of_block || other.strength == Strength::of_block;
        if (of_block && x.block != me.block) return false;
        return !(of_volatile(op, strength) && of_volatile(other.op, other.strength));
    };
    if (streams && !shared && streams->current) [[unlikely]]
        races_streams(*region, a, bytes, op != Op::load || !as_atomic ? op : Op::atomic, party(b, *b.running, code, op));
    if (op == Op::atomic) t.updated = a;
    else if (op == Op::load && as_atomic) order.acquire(tb.order, a);
    size_t unwritten = 0;
    auto is_ordered = [&](const Record& x) { return ordered(x, me, tb.order, copy); };
    // Who was the last to take a ticket, and knows it, may reset the counter.
    auto after_all = [&](const Record& x) {
        const bool known = std::find(std::begin(tb.asked), std::end(tb.asked), a) != std::end(tb.asked);
        return known && x.time >= since && x.block == me.block && (x.thread == me.thread || is_ordered(x));
    };
    // Of each part of a struct, the first 4 bytes belong to a member; what follows may be a gap, which nobody writes.
    const size_t looked_at = in_parts ? std::min<size_t>(bytes, 4) : bytes;
    auto written = [&](uintptr_t at, size_t size) {
        return memory.shadow.wrong_write(at - memory.begin, size, since, [](const Record&) { return true; }).time != 0;
    };
    const bool fresh = !shared && op != Op::store && is_fresh(*region, a, looked_at, written);
    Record before = memory.shadow.note(a - memory.begin, bytes, me, op, as_atomic, since, shared, unwritten, is_ordered,
                                       together, after_all);
    if (op != Op::load && as_atomic) order.release(tb.order, b.number, number, a);
    bool flies = shared && !peer && tb.in_flight && !ends && in_flight(b, a, bytes, op, code, region, unwritten);
    const bool by_agent = before.time && tb.order.is_agent(before.thread);
    if (by_agent) against_agent(b, a, bytes, op, code, region, before, unwritten);
    else if (before.time && !flies) race(b, a, bytes, op, code, region, before, strength, copy);
    if (shared && !owner.traced->barriers.empty()) touches_barrier(owner, a, bytes, op, code);
    if (fresh) unwritten = bytes;
    if (unwritten && !flies && !by_agent) uninitialized(b, a, bytes, op, code, region, unwritten < bytes);
    if (t.events.size() >= Requests::most_events) make_room(b, t);
}

// What the thread's last atomic returned is used: by it the thread knows what others did before theirs.
void Trace::asked() {
    if (!in_thread()) return;
    Block& b = block();
    const uintptr_t a = std::exchange(b.running->traced->updated, 0);
    if (!a) return;
    order.acquire(b.traced->order, a);
    auto& asked = b.traced->asked;
    if (std::find(std::begin(asked), std::end(asked), a) == std::end(asked)) asked[b.traced->count_asked++ % 4] = a;
}

// Whether `x` came before the access by `me`. A copy writes at some time after its begin: nothing since then came
// before it, except what its own thread did. What came earlier was checked when the copy began, and what touched the
// bytes since then when it did so (in_flight): other copies are left.
bool Trace::ordered(const Record& x, const Record& me, const BlockOrder& b, const Copy* copy) const {
    if (!copy || !copy->begun) return order.ordered(x, me, b);
    bool touched = me.site && requests.sites[me.site].space == Space::shared && !is_copy(requests.sites[x.site].copy);
    return touched || x.time < copy->begun || (x.block == me.block && x.thread == me.thread);
}

uint32_t trace_copy_begins(Trace& t, Block& b, const void* to, const void* from, size_t bytes, size_t zeros,
                           const void* code) {
    bool ignore;
    uintptr_t a = reinterpret_cast<uintptr_t>(to), f = reinterpret_cast<uintptr_t>(from);
    uintptr_t arena = reinterpret_cast<uintptr_t>(b.arena.get());
    // One instruction on a GPU, if it goes from global to shared memory. Zeros alone are a store.
    Region* source = bytes > zeros ? t.find(b, f, bytes - zeros, ignore) : nullptr;
    bool one = bytes >= 4 && source && source->space == Space::global && a >= arena && a < arena + b.arena.size();
    Copy there{bytes, uint16_t((a - arena) / 4)}, here{bytes, uint16_t((f + (one ? source->shift : 0)) / 4)};
    if (bytes > zeros) t.access(from, bytes - zeros, Op::load, code, Strength::weak, Parts::whole, one ? &there : nullptr);
    Region* region = t.find(b, a, bytes, ignore);
    if (region && region->space == Space::shared) t.tiles.copied(b.number, *region, a, bytes, source, f, zeros);
    if (!region || !region->holds(a, bytes)) {
        t.access(to, bytes, Op::store, code, Strength::weak, Parts::whole, one ? &here : nullptr);
        return 0;
    }
    TracedThread& thread = *b.running->traced;
    t.keep(b, thread, a, bytes, Op::store, code, *region, one ? &here : nullptr);
    const BlockOrder& order = b.traced->order;
    Record me{t.order.now, uint32_t(b.number), uint16_t(b.running->number), 0};
    uint32_t since = region->space == Space::shared ? order.begun : t.order.since;
    Record before = region->memory->shadow.against_write(a - region->memory->begin, bytes, since, [&](const Record& x) {
        return t.order.ordered(x, me, order);
    });
    if (before.time) t.race(b, a, bytes, Op::store, code, region, before);
    if (region->space == Space::shared) {
        TracedBlock& tb = *b.traced;
        tb.flights.resize(std::max(tb.flights.size(), b.arena.size()));
        for (size_t i = a - arena; i < a - arena + bytes; i++) {
            TracedBlock::Flight& flight = tb.flights[i];
            flight.code = uint32_t(reinterpret_cast<uintptr_t>(code) - t.module_begin);
            flight.thread = uint16_t(b.running->number);
            tb.in_flight += !flight.count++;
        }
    }
    return ++t.order.now;
}

// A copy has read its source at some time since it began. What was written there since then may be what it has read.
static void copy_has_read(Trace& t, Block& b, const void* from, size_t bytes, const void* code, const Copy& copy) {
    if (t.again) return;
    bool ignore;
    const uintptr_t a = reinterpret_cast<uintptr_t>(from);
    Region* region = bytes ? t.find(b, a, bytes, ignore) : nullptr;
    if (!region || region->space != Space::global || !region->holds(a, bytes)) return;
    Shadow& shadow = region->memory->shadow;
    const size_t offset = a - region->memory->begin;
    const uint16_t number = uint16_t(b.running->number), site = t.site(bytes, Op::load, code, *region, &copy);
    const Record me{t.order.now, uint32_t(b.number), number, site};
    const Record written = shadow.wrong_write(offset, bytes, copy.begun, [](const Record&) { return true; });
    size_t unwritten = 0;
    auto ordered = [&](const Record& x) { return t.order.ordered(x, me, b.traced->order); };
    auto together = [](const Record&) { return true; };
    shadow.note(offset, bytes, me, Op::load, false, t.order.since, false, unwritten, ordered, together, together);
    if (!written.time || b.traced->stopped) return;
    Problem p;
    p.kind = "race";
    p.under_way = true;
    p.who = t.agent_party(b, written);
    p.other = party(b, *b.running, code);
    p.other.by = "asynchronous copy";
    p.has_other = true;
    p.bytes = bytes;
    place_in(p, region, a);
    t.add(std::move(p));
}

void trace_copy_ends(Trace& t, const void* to, const void* from, size_t bytes, size_t zeros, const void* code,
                     uint32_t begun) {
    if (!begun) return;  // it went outside, which has been reported
    Block& b = block();
    const Copy copy{bytes, 0, begun};
    copy_has_read(t, b, from, bytes - zeros, code, copy);
    size_t at = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(b.arena.get());
    if (at < b.traced->flights.size())
        for (size_t i = at; i < at + bytes; i++) b.traced->in_flight -= !--b.traced->flights[i].count;
    t.access(to, bytes, Op::store, code, Strength::weak, Parts::whole, &copy);
    bool ignore;
    Region* region = t.recorder ? t.find(b, reinterpret_cast<uintptr_t>(to), bytes, ignore) : nullptr;
    if (region) t.recorder->lands(b, to, bytes, *region);
}

// A basic block begins.
void Trace::step(const void* code) {
    if (!in_thread()) return;
    beat();
    last_code = code;
    Block& b = block();
    TracedThread& t = *b.running->traced;
    if (interrupted) leave_block(*b.worker);
    if (t.stored.address && t.stored.op == Op::store) look_at_stored(b, t);  // an atomic takes several steps
    if (t.array_type) tell_array(b, nullptr, 0, 0, Op::load);
    if (t.reads_again) [[unlikely]] {
        while (!t.events.empty() && Op(t.events.back().kind & 3) == Op::load) t.events.pop_back();
        t.reads_again = false;
    }
    // Threads that step aside for each other share the limit.
    const uint64_t most = again ? std::min(max_steps, most_steps_again) : max_steps;
    if (++t.steps > most || ++b.traced->steps > 8 * most) {
        Problem p;
        p.kind = "runaway";
        p.who = party(b, *b.running, code);
        const bool alone = t.steps > max_steps;
        p.index = int64_t(alone ? max_steps : 8 * max_steps);
        if (!alone) p.text = "together";
        p.has_index = true;
        add(std::move(p));
        over = true;  // the other threads would take as long
        stop_thread(b, cudaErrorLaunchTimeout);
    }
    if (again) return;
    uint16_t to = requests.flow.block(uint32_t(reinterpret_cast<uintptr_t>(code) - module_begin));
    requests.flow.went(t.at[t.depth], to);
    t.at[t.depth] = to;
    t.events.push_back({0, 0, 0, to, 0, uint8_t(unsigned(Op::none) | t.depth << 2)});
    if (t.events.size() >= Requests::most_events) make_room(b, t);
}

// After its report, in the same basic block, compiled code reads again what the value was computed from: for all that the
// compiler knows, the report has changed it. A GPU reads once.
void Trace::check_failed() {
    if (in_thread()) block().running->traced->reads_again = true;
}

// How deep in calls a thread is: lanes in a function run before those that have left it.
void Trace::call() {
    if (!in_thread()) return;
    TracedThread& t = *block().running->traced;
    if (t.depth < 63) t.at[++t.depth] = 0;
    std::erase_if(t.ended, [&](const TracedThread::Ended& e) { return e.depth >= t.depth; });
}

void Trace::come_back() {
    if (!in_thread()) return;
    TracedThread& t = *block().running->traced;
    if (t.depth > 1) t.depth--;
}

// ---- counting: the lanes of a warp together -------------------------------------------------------------------------

void Trace::drain(Block& b, unsigned int warp, bool all) {
    if (again) return;
    Requests::Lane* lanes[32] = {};
    unsigned int may_go_on = 0;
    const Warp& w = b.warps[warp];
    for (unsigned int i = 0; i < 32 && warp * 32 + i < b.threads; i++) {
        TracedThread& t = b.traced->threads[warp * 32 + i];
        lanes[i] = &t;
        if (!all && t.full && !(w.ended >> i & 1)) may_go_on |= 1u << i;
    }
    requests.count(lanes, may_go_on, b.number, warp, reinterpret_cast<uintptr_t>(b.arena.get()));
}

// The thread has as many events as are kept: the other lanes of its warp have to catch up before it goes on.
void Trace::make_room(Block& b, TracedThread& t) {
    t.full = true;
    unsigned int warp = b.running->number / 32, others = 0;
    const Warp& w = b.warps[warp];
    unsigned int last = std::min(b.threads - warp * 32, 32u);
    for (unsigned int i = 0; i < last; i++) {
        bool rests = b.traced->threads[warp * 32 + i].full || (w.ended >> i & 1);
        others += rests;
    }
    if (others == last) {
        drain(b, warp, false);
        for (unsigned int i = 0; i < last; i++) b.traced->threads[warp * 32 + i].full = false;
        b.ready.add_all(b.at_trace);
        if (t.events.size() < Requests::most_events) return;
        t.full = true;
    }
    wait_for_trace(b.at_trace);
}

bool trace_release(Trace& trace, Block& b) {
    if (!b.at_trace.first) return false;
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++) trace.drain(b, warp, false);
    for (auto& t : b.traced->threads) {
        t.full = false;
        // Nothing can be counted while a lane that is far behind still waits: then let this one collect more.
        if (t.events.size() >= Requests::most_events) t.events.reserve(2 * t.events.size());
    }
    b.ready.add_all(b.at_trace);
    return true;
}

uint64_t trace_pulse(const Trace& t) { return __atomic_load_n(&t.pulse, __ATOMIC_RELAXED); }

}  // namespace cuda_on_cpu
