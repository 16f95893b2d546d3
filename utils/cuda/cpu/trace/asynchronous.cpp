// What is done asynchronously, through the async proxy: by the bulk copy engine, and by products that read shared memory
// on their own. A trace notes such an access when it begins, as one of an agent (races.h); whoever touches the same
// bytes without having waited for the agent races with it. Barriers in memory are here too, which count such copies.
#include <algorithm>
#include <utility>

#include "recorder.h"

namespace cuda_on_cpu {

static const char* const fences[] = {"fence.proxy.async", "fence.proxy.async", "fence.mbarrier_init"};

// One agent for each of these per thread, and one for each barrier.
static const char reads_of_groups = 0, writes_of_groups = 0, reads_of_products = 0;

// What stores and reductions of registers are called. They belong to no proxy, so they need no fence.
static const char st_async[] = "st.async", red_async[] = "red.async";
static bool is_of_registers(const char* by) { return by == st_async || by == red_async; }

static Party issuer(const BulkTransfer& transfer) {
    const char* by = !transfer.of_registers ? "bulk copy" : transfer.combine ? red_async : st_async;
    return {reinterpret_cast<uintptr_t>(transfer.code), Op::store, transfer.block, transfer.thread, false, by};
}

// ---- one access of an agent -----------------------------------------------------------------------------------------

struct Asynchronous {
    Trace& t;
    Block& b;
    uint16_t agent;
    unsigned int knows;  // the thread whose knowledge the access begins with
    Party who;
    bool is_box = false;

    void access(const void* address, size_t bytes, Op op);
    void note(uintptr_t a, size_t bytes, Op op, Region& region);
    void report(const char* kind, uintptr_t a, size_t bytes, const Region& region, const Party* other = nullptr,
                const char* text = "");
};

static Asynchronous agent(Trace& t, Block& b, const void* of, unsigned int thread, unsigned int knows, Party who) {
    const uint16_t number = b.traced->order.agent_of(of, thread);
    t.agents[b.number << 16 | number] = {uint16_t(thread), who.by, who.block};
    return {t, b, number, knows, who};
}

void Asynchronous::report(const char* kind, uintptr_t a, size_t bytes, const Region& region, const Party* other,
                          const char* text) {
    Problem p;
    p.kind = kind;
    p.who = who;
    p.bytes = bytes;
    p.text = text;
    p.has_other = other;
    if (other) p.other = *other;
    place_in(p, &region, a);
    t.add(std::move(p));
}

void Asynchronous::access(const void* address, size_t bytes, Op op) {
    if (!bytes) return;
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    who.op = op;
    bool ignore;
    Region* region = t.find(block(), a, bytes, ignore);
    if (ignore) return;
    if (region && region->holds(a, bytes)) return note(a, bytes, op, *region);
    if (!region) region = t.nearest(a, who.code * 4 + uintptr_t(op));
    Fiber& running = *block().running;
    const void* code = reinterpret_cast<void*>(who.code);
    if (!t.out_of_bounds(block(), a, bytes, op, code, region, is_box ? "box" : "") && running.has_thread)
        t.stop_thread(block());
}

void Asynchronous::note(uintptr_t a, size_t bytes, Op op, Region& region) {
    TracedBlock& tb = *b.traced;
    if (region.space == Space::constant || !region.memory) return;
    const void* code = reinterpret_cast<void*>(who.code);
    const bool shared = region.space == Space::shared, atomic = op == Op::atomic;
    const Record me{t.order.now, uint32_t(b.number), agent, t.site(16, op, code, region, nullptr)};
    Block& by = block();  // that issues
    const Record issues{t.order.now, uint32_t(by.number), uint16_t(knows), 0};
    const uint32_t since = shared ? tb.order.begun : t.order.since;
    if (shared && &by != &b) t.reaches(by, b, a, bytes, who, knows, region);
    const size_t offset = a - region.memory->begin;
    Shadow& shadow = region.memory->shadow;
    auto ordered = [&](const Record& x) { return t.order.ordered(x, issues, by.traced->order); };
    size_t unwritten = 0;
    Record before = shadow.note(offset, bytes, me, op, atomic, since, shared && op == Op::load, unwritten, ordered,
                                [](const Record&) { return true; }, [](const Record&) { return false; });
    if (before.time && tb.order.is_agent(before.thread) && op != Op::load) {  // a thread that still reads says more
        const Record touched = shadow.against_write(offset, bytes, since, [&](const Record& x) {
            return tb.order.is_agent(x.thread) || ordered(x);
        });
        if (touched.time && !atomic) before = touched;
    }
    if (before.time) {
        Party other = t.agent_party(b, before);
        return report("race", a, bytes, region, &other);
    }
    if (unwritten && !tb.stopped) report("uninitialized", a, bytes, region);
    if (op == Op::store || is_of_registers(who.by)) return;
    const Proxy proxy = shared ? Proxy::shared : Proxy::global;
    const Record unfenced = shadow.wrong_write(offset, bytes, since, [&](const Record& x) {
        return x.block == by.number && !tb.order.is_agent(x.thread) && !t.order.fenced(x, by.traced->order, issues, by.traced->order, proxy);
    });
    if (!unfenced.time || tb.stopped) return;
    Party other = t.agent_party(b, unfenced);
    report("race", a, bytes, region, &other, fences[int(proxy)]);
}

// Of a record, by an agent or by a thread itself.
Party Trace::agent_party(const Block& b, const Record& record) const {
    const Site& site = requests.sites[record.site];
    Party found{site.code, site.op, block_place(b.grid_dim, record.block), {}, false};
    unsigned int thread = record.thread;
    if (b.traced->order.is_agent(thread)) {
        auto known = agents.find(uint64_t(record.block) << 16 | thread);
        thread = known == agents.end() ? 0 : known->second.thread;
        found.by = known == agents.end() ? "bulk copy" : known->second.by;
        if (known != agents.end()) found.block = known->second.block;
    }
    found.thread = thread_place(b, thread);
    return found;
}

// The running thread touches what an agent has touched, without having waited for it.
void Trace::against_agent(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region,
                          const Record& before, bool unwritten) {
    if (b.traced->stopped) return;
    Problem p;
    p.other = agent_party(b, before);
    p.has_other = true;
    p.under_way = before.block != b.number || before.time >= b.traced->order.agent(before.thread).done;
    const bool early = p.under_way && op == Op::load && p.other.op != Op::load;
    const uint3 mine = b.running->thread, its = p.other.thread;
    const uint3 here = b.block, there = p.other.block;
    const bool same_block = here.x == there.x && here.y == there.y && here.z == there.z;
    const bool own = same_block && mine.x == its.x && mine.y == its.y && mine.z == its.z;
    p.kind = early && (unwritten || own) ? "uninitialized" : "race";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    place_in(p, region, a);
    add(std::move(p));
}

// ---- transfers ------------------------------------------------------------------------------------------------------

static void misused(Trace& t, Block& b, const Party& who, std::string text, const Party* other = nullptr,
                    const char* kind = "asynchronous", int64_t bytes = 0) {
    if (b.traced->stopped) return;
    Problem p;
    p.kind = kind;
    p.who = who;
    p.text = std::move(text);
    p.has_other = other;
    if (other) p.other = *other;
    p.offset = bytes;
    t.add(std::move(p));
}

static TracedBlock::Barrier* known_barrier(Block& b, const void* barrier) {
    auto found = b.traced->barriers.find(reinterpret_cast<uintptr_t>(barrier));
    return found == b.traced->barriers.end() ? nullptr : &found->second;
}

static Party initialises(const Block& b, const TracedBlock::Barrier& known) {
    return {reinterpret_cast<uintptr_t>(known.code), Op::store, block_place(b.grid_dim, known.init.block),
            thread_place(b, known.init.thread), false};
}

// The copy engine sees a new barrier only behind a fence.
static void counted_by(Trace& t, Block& b, const BulkTransfer& transfer) {
    TracedBlock::Barrier* known = known_barrier(b, transfer.barrier);
    if (!known || known->reported || transfer.of_registers) return;
    const Record issues{t.order.now, uint32_t(block().number), uint16_t(transfer.number), 0};
    for (Proxy proxy : {Proxy::shared, Proxy::init})
        if (t.order.fenced(known->init, b.traced->order, issues, block().traced->order, proxy)) return;
    known->reported = true;
    const Party other = initialises(b, *known);
    misused(t, b, issuer(transfer), "no fence after init of " + name_in_shared(b, transfer.barrier), &other);
}

void trace_bulk_begins(Trace& t, Block& b, BulkTransfer& transfer) {
    Block& mine = block();
    transfer.begun = ++t.order.now;
    const unsigned int thread = transfer.number;
    const void* writes_for = transfer.barrier ? transfer.barrier : &writes_of_groups;
    const void* reads_for = transfer.barrier ? transfer.barrier : &reads_of_groups;
    Asynchronous reads = agent(t, mine, reads_for, thread, thread, issuer(transfer));
    Asynchronous writes = agent(t, b, writes_for, thread, thread, issuer(transfer));
    if (transfer.barrier) counted_by(t, b, transfer);
    reads.is_box = writes.is_box = transfer.is_box;
    transfer.reads = reads.agent;
    transfer.writes = writes.agent;
    for (const BulkPiece& piece : transfer.pieces) {
        if (piece.from) reads.access(piece.from, piece.bytes, Op::load);
        writes.access(piece.to, piece.bytes, transfer.combine ? Op::atomic : Op::store);
    }
    ++t.order.now;
    if (t.recorder) t.recorder->copy_begins(t, b, transfer);
}

// Until then, an agent has done what it began.
static void done(Block& b, unsigned int number, uint32_t time) {
    Agent& agent = b.traced->order.agent(number);
    agent.done = std::max(agent.done, time);
}

void trace_bulk_lands(Trace& t, Block& b, const BulkTransfer& transfer) {
    const uint32_t time = transfer.begun + 1;
    done(b, transfer.writes, time);
    if (transfer.barrier) {
        Phases& phases = b.traced->order.phases_of(transfer.barrier);
        uint32_t& landed = phases.agents_done[transfer.writes - b.traced->order.threads];
        landed = std::max(landed, time);
    }
    for (const BulkPiece& piece : transfer.pieces) {
        const uintptr_t a = reinterpret_cast<uintptr_t>(piece.to);
        bool ignore;
        Region* region = piece.bytes ? t.find(block(), a, piece.bytes, ignore) : nullptr;
        if (!region || !region->holds(a, piece.bytes) || !region->memory) continue;
        Memory& memory = *region->memory;
        if (region->space == Space::shared)
            memory.shadow.set_initialized(a - memory.begin, piece.bytes, b.traced->order.begun);
        if (!memory.written.empty())
            for (size_t i = 0; i < piece.bytes; i++) memory.written[a - memory.begin + i] = true;
    }
    if (t.recorder) t.recorder->copy_lands(b, transfer);
}

static void waited(Trace& t, Block& b, unsigned int number, uint32_t time) {
    done(b, number, time);
    b.traced->order.agent(number).waited(b.running->number, time);
    ++t.order.now;
}

void trace_bulk_read(Trace& t, Block& b, const BulkTransfer& transfer) { waited(t, b, transfer.reads, transfer.begun + 1); }

void trace_bulk_waited(Trace& t, Block& b, const BulkTransfer& transfer) {
    waited(t, b, transfer.writes, transfer.begun + 1);
}

void trace_bulk_unread(Trace& t, Block& b, const BulkTransfer& transfer) {
    misused(t, b, issuer(transfer), "ends before its copy has read");
}

void trace_bulk_unwaited(Trace& t, Block& b, const BulkTransfer& transfer) {
    misused(t, b, issuer(transfer), "nobody waits for " + name_in_shared(b, transfer.barrier));
}

// ---- products and fences --------------------------------------------------------------------------------------------

uint32_t trace_async_reads(Trace& t, Block& b, unsigned int issuer, unsigned int knows, const void* address,
                           size_t bytes, const char* by, const void* code) {
    const Party who{reinterpret_cast<uintptr_t>(code), Op::load, b.block, thread_place(b, issuer), false, by};
    agent(t, b, &reads_of_products, issuer, knows, who).access(address, bytes, Op::load);
    return t.order.now++;
}

void trace_async_waited(Trace& t, Block& b, unsigned int issuer, unsigned int thread, uint32_t begun) {
    const uint16_t number = b.traced->order.agent_of(&reads_of_products, issuer);
    done(b, number, begun + 1);
    b.traced->order.agent(number).waited(thread, begun + 1);
    ++t.order.now;
}

void trace_proxy_fence(Trace& t, Block& b, int proxy) {
    for (Proxy of : {Proxy::shared, Proxy::global, Proxy::init})
        if (proxy == int(of) || (proxy < 0 && of != Proxy::init)) t.order.proxy_fence(b.traced->order, b.running->number, of);
}

// ---- barriers in memory ---------------------------------------------------------------------------------------------

void trace_barrier_again(Trace& t, Block& b, const void* barrier, const void* code) {
    TracedBlock::Barrier* known = known_barrier(b, barrier);
    const Party other = known ? initialises(b, *known) : Party{};
    misused(t, b, party(b, *b.running, code), "initialises again " + name_in_shared(b, barrier), known ? &other : nullptr);
}

void trace_barrier_begins(Trace& t, Block& b, const void* barrier, const void* code) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(barrier);
    bool ignore;
    Region* region = t.find(b, a, 8, ignore);
    if (!ignore && (!region || !region->holds(a, 8)) && !t.out_of_bounds(b, a, 8, Op::store, code, region))
        t.stop_thread(b);
    b.traced->barriers[a] = {{t.order.now++, uint32_t(b.number), uint16_t(b.running->number), 0}, code};
}

void trace_barrier_ends(Trace&, Block& b, const void* barrier, const void*) {
    b.traced->barriers.erase(reinterpret_cast<uintptr_t>(barrier));
    b.traced->order.phases.erase(barrier);
}

void trace_barrier_changed(Trace& t, Block& b, const void* barrier, BarrierChange what, uint64_t phase, int64_t count,
                           int64_t bytes) {
    if (t.recorder) t.recorder->barrier_changes(b, barrier, what, phase, count, bytes);
}

void trace_barrier_used(Trace& t, Block& b, const void* barrier, const char* function, const void* code) {
    TracedBlock::Barrier* known = known_barrier(b, barrier);
    if (!known || known->reported) return;
    const Record me{t.order.now, uint32_t(block().number), uint16_t(block().running->number), 0};
    if (t.order.ordered(known->init, me, block().traced->order)) return;
    known->reported = true;
    const Party other = initialises(b, *known);
    misused(t, b, party(block(), *block().running, code), std::string("calls ") + function + " of " + name_in_shared(b, barrier),
            &other, "uninitialized");
}

void trace_barrier_missing(Trace& t, Block& b, const void* barrier, const char* function, const void* code) {
    misused(t, b, party(block(), *block().running, code), std::string("calls ") + function + " of a barrier that no thread "
            "has initialised (" + name_in_shared(b, barrier) + ")", nullptr, "uninitialized");
    t.stop_thread(block());
}

void trace_phase_ends(Trace& t, Block& b, const void* barrier, const PhaseBarrier& p) {
    t.order.phase_ends(b.traced->order, barrier);
    if (p.transfers.empty()) return;
    int64_t more = 0;
    for (const BulkTransfer& transfer : p.transfers) more += transfer.bytes;
    misused(t, b, issuer(p.transfers.front()),
            "begins a copy that is not announced: phase " + std::to_string(p.phase) + " of " + name_in_shared(b, barrier) +
                " ends after " + std::to_string(p.announced) + " bytes, while copies of " + std::to_string(more) +
                " bytes more are under way");
}

void Trace::touches_barrier(Block& b, uintptr_t a, size_t bytes, Op op, const void* code) {
    auto next = b.traced->barriers.lower_bound(a - 7);
    if (next == b.traced->barriers.end() || next->first >= a + bytes) return;
    const Party other = initialises(b, next->second);
    misused(*this, b, party(block(), *block().running, code, op),
            std::string(op == Op::load ? "reads" : "writes to") + " the 8 bytes of " +
                name_in_shared(b, reinterpret_cast<void*>(next->first)), &other);
}

}  // namespace cuda_on_cpu
