// What a trace says of wgmma (warpgroups.h). The tiles in shared memory are reads of an agent (asynchronous.cpp).
#include "warpgroups.h"

#include <string>

#include "state.h"

namespace cuda_on_cpu {

static TracedRegisters& registers_of(Block& b, unsigned int thread) {
    auto& threads = b.traced->products.threads;
    if (threads.empty()) threads.resize(b.threads);
    return threads[thread];
}

static void report(Trace& t, Block& b, const Party& who, const Party& other, std::string text, int64_t number = 0) {
    if (b.traced->stopped) return;
    Problem p;
    p.kind = "warpgroup";
    p.who = who;
    p.other = other;
    p.has_other = true;
    p.text = std::move(text);
    p.index = number;
    p.has_index = true;
    t.add(std::move(p));
}

static Party at(const Block& b, unsigned int thread, const void* code) {
    return {reinterpret_cast<uintptr_t>(code), Op::load, b.block, thread_place(b, thread), false};
}

// ---- registers ------------------------------------------------------------------------------------------------------

void Trace::touches_register(Block& b, uintptr_t a, size_t bytes, Op op, const void* code) {
    const unsigned int thread = b.running->number;
    TracedRegisters& mine = b.traced->products.threads[thread];
    for (uintptr_t word = a / 4 * 4; word < a + bytes; word += 4) {
        auto found = mine.known.find(word);
        if (found == mine.known.end()) continue;
        TracedRegister& r = found->second;
        if (r.of_a && op == Op::load) continue;
        if (!r.pending || r.of_a) {
            r.touched = code;
            continue;
        }
        const Warpgroup& group = *b.warpgroups[thread / warpgroup_threads];
        const bool committed = group.groups[thread % warpgroup_threads].committed > r.product;
        Party who = at(b, thread, code);
        who.op = op;
        report(*this, b, who, at(b, thread, r.code),
               !committed ? "not committed" : mine.left_out ? "left out" : "no wait", mine.left_out);
        return;
    }
}

// A register must not have been touched since the thread's last fence, unless by the product before.
static const void* unfenced(const TracedRegisters& mine, uintptr_t place) {
    auto found = mine.known.find(place);
    return found == mine.known.end() ? nullptr : found->second.touched;
}

static void note_registers(Trace& t, Block& b, const Warpgroup& group, unsigned int first,
                           const WarpgroupOperation& operation, bool continues) {
    const Accumulators& into = *operation.into;
    const unsigned int registers = into.registers();
    bool reported = false;
    for (unsigned int i = 0; i < warpgroup_threads; i++) {
        TracedRegisters& mine = registers_of(b, first + i);
        const void* touched = nullptr;
        auto use = [&](const void* place, bool of_a, bool reads) {
            if (!place) return;
            const uintptr_t address = reinterpret_cast<uintptr_t>(place);
            if (reads && !touched) touched = unfenced(mine, address);
            mine.known[address] = {true, of_a, group.issued, operation.code, nullptr};
        };
        for (unsigned int r = 0; r < registers; r++) use(into.places[i * registers + r], false, !continues);
        if (!operation.registers.empty())
            for (const void* place : operation.registers[i].places) use(place, true, true);
        if (reported || (mine.fenced && !touched)) continue;
        reported = true;
        report(t, b, at(b, first + i, operation.code), at(b, first + i, touched), "no wgmma.fence");
    }
}

void trace_warpgroup_fence(Trace&, Block& b) {
    TracedRegisters& mine = registers_of(b, b.running->number);
    mine.fenced = true;
    for (auto& [address, r] : mine.known) r.touched = nullptr;
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

static void read_tile(Trace& t, Block& b, unsigned int first, const SharedTile& tile, bool by_k, unsigned int lines,
                      const void* code, const char* which) {
    const uintptr_t shared = reinterpret_cast<uintptr_t>(b.arena.get());
    const unsigned int pattern = tile.width * 8;
    if (tile.width > 16 && tile.start % pattern >= tile.width)
        report(t, b, at(b, first, code), at(b, first, nullptr),
               std::string("misaligned ") + which + " " + std::to_string(tile.width), tile.start % pattern);
    bool ignore, strays = false;
    const Region* home = t.find(b, shared + tile.start, 16, ignore);
    each_piece(tile, by_k, lines, [&](uint32_t where, unsigned int, unsigned int) {
        const Region* region = t.find(b, shared + where, 16, ignore);
        if (!strays && home && region && region != home && home->holds(shared + tile.start, 16) &&
            region->holds(shared + where, 16)) {
            strays = true;
            report(t, b, at(b, first, code), at(b, first, nullptr),
                   std::string("strays ") + which + " from " + home->name + " to " + region->name);
        }
        trace_async_reads(t, b, first, first, b.arena.get() + where, 16, "wgmma", code);
    });
}

void trace_product(Trace& t, Block& b, const Warpgroup& group, unsigned int first, const WarpgroupOperation& operation,
                   const SharedTile& tile_a, const SharedTile& tile_b, bool continues) {
    const WarpgroupProduct& p = *operation.product;
    note_registers(t, b, group, first, operation, continues);
    if (!p.a_in_registers) read_tile(t, b, first, tile_a, !p.a_columns, 64, operation.code, "A");
    read_tile(t, b, first, tile_b, !p.b_rows, p.n, operation.code, "B");
    t.units.multiplied(p, reinterpret_cast<uintptr_t>(operation.code));
    auto& products = b.traced->products.products;
    products.resize(b.warpgroups.size());
    products[first / warpgroup_threads].push_back({t.order.now++, operation.code});
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void trace_warpgroup_waits(Trace& t, Block& b, const Warpgroup& group, uint64_t until, bool waits, uint32_t prior) {
    const unsigned int thread = b.running->number, first = thread / warpgroup_threads * warpgroup_threads;
    TracedRegisters& mine = registers_of(b, thread);
    const auto& begun = b.traced->products.products[first / warpgroup_threads];
    mine.left_out = prior;
    const uint64_t committed = group.groups[thread - first].committed;
    if (!waits && committed < group.issued)
        report(t, b, at(b, thread, b.running->code), at(b, thread, begun[committed].code), "waits for nothing");
    if (!until) return;
    for (auto& [address, r] : mine.known)
        if (r.product < until) r.pending = false;
    trace_async_waited(t, b, first, thread, begun[until - 1].time);
}

}  // namespace cuda_on_cpu
