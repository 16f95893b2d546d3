// Records barriers in memory, and the bulk copies that they count, for a player (recorder.h): only what changes. steps.py
// works out what a barrier holds at each step, since the steps of a warp are shown together and not as its lanes ran.
#include <algorithm>
#include <cstring>

#include "recorder.h"

namespace cuda_on_cpu {

static constexpr size_t most_landed = 1 << 18;  // bytes

// ---- barriers -------------------------------------------------------------------------------------------------------

RecordedChange Recorder::change(const Block& b, const void* barrier, BarrierChange what, uint64_t phase) const {
    auto found = lives.find({b.number, barrier});
    const Life known = found == lives.end() ? Life{~0u, 0} : found->second;
    return {block().number, 0, 0, known.number, known.life, uint32_t(phase), 0, 0, uint32_t(what)};
}

// `own`: the running thread's last event is this change.
void Recorder::note_change(RecordedChange c, bool own) {
    c.seen = own ? uint32_t(seen.size()) : 0;
    changes.push_back(c);
}

void Recorder::barrier_changes(Block& b, const void* barrier, BarrierChange what, uint64_t phase, int64_t count,
                               int64_t bytes) {
    if (!keeps(b)) return;
    if (what == BarrierChange::begins) {
        auto [known, is_new] = lives.try_emplace({b.number, barrier}, Life{uint32_t(barriers.size()), 0});
        if (is_new) {
            const char* name = names.emplace_back(name_in_shared(b, barrier)).c_str();
            barriers.push_back({name, b.number, reinterpret_cast<uintptr_t>(barrier)});
        } else {
            known->second.life++;
        }
    }
    RecordedChange c = change(b, barrier, what, phase);
    if (c.barrier == ~0u) return;
    c.count = count;
    c.bytes = bytes;
    if (what == BarrierChange::copies_land) {
        landing = count;
        landing_for = c;
        return;
    }
    const bool own = what != BarrierChange::phase_ends && running();
    if (own && what == BarrierChange::waits) running()->awaits = c;
    if (own) did(what == BarrierChange::waits ? Did::barrier : Did::arrive, block().running->function);
    note_change(c, own);
}

void Recorder::asked(bool over) {
    RecordedChange& awaited = running()->awaits;
    if (awaited.barrier == ~0u) return;
    did(over ? Did::passed : Did::line, block().running->function);
    note_change(awaited, true);
    awaited.barrier = ~0u;
}

// ---- bulk copies ----------------------------------------------------------------------------------------------------

// Neighbours that follow each other become one.
void Recorder::add_runs(Trace& t, Block& b, std::vector<BulkPiece> pieces) {
    const size_t first = runs.size();
    for (const BulkPiece& piece : pieces) {
        const uintptr_t a = reinterpret_cast<uintptr_t>(piece.to);
        if (runs.size() > first && runs.back().address + runs.back().bytes == a) {
            runs.back().bytes += piece.bytes;
            continue;
        }
        bool ignore;
        const Region* region = t.find(block(), a, piece.bytes, ignore);
        if (region && region->holds(a, piece.bytes)) runs.push_back({a, piece.bytes, memory_of(b, *region)});
    }
}

void Recorder::copy_begins(Trace& t, Block& b, BulkTransfer& transfer) {
    Thread* mine = running();
    if (!active || (!mine && !keeps(b))) return;
    std::vector<BulkPiece> from, to = transfer.pieces;
    for (const BulkPiece& piece : to)
        if (piece.from) from.push_back({const_cast<void*>(piece.from), nullptr, piece.bytes});
    std::sort(to.begin(), to.end(), [](const BulkPiece& a, const BulkPiece& b) { return a.to < b.to; });
    std::sort(from.begin(), from.end(), [](const BulkPiece& a, const BulkPiece& b) { return a.to < b.to; });
    RecordedCopy c{b.number, uint64_t(transfer.bytes), ~uint64_t(0), transfer.number, uint32_t(runs.size()), 0, 0};
    add_runs(t, block(), std::move(from));
    c.from = uint32_t(runs.size()) - c.first;
    add_runs(t, b, std::move(to));
    c.to = uint32_t(runs.size()) - c.first - c.from;
    copies.push_back(c);
    transfer.recorded = uint32_t(copies.size());
    const PhaseBarrier* p = transfer.barrier ? barrier_at(transfer.barrier) : nullptr;
    RecordedChange begins = change(b, transfer.barrier, BarrierChange::copy_begins, p ? p->phase : 0);
    begins.bytes = transfer.bytes;
    begins.copy = transfer.recorded;
    if (mine && c.from) did(Did::read, transfer.name, transfer.recorded);
    if (mine) did(Did::copy, transfer.name, transfer.recorded);
    note_change(begins, mine);
}

void Recorder::copy_lands(Block& b, const BulkTransfer& transfer) {
    if (!active || !transfer.recorded) return;
    RecordedCopy& c = copies[transfer.recorded - 1];
    const RecordedRun *run = &runs[c.first + c.from], *end = run + c.to;
    size_t bytes = 0;
    for (const RecordedRun* r = run; r < end; r++) bytes += r->bytes;
    if (landed.size() + bytes <= most_landed) {
        c.landed = landed.size();
        for (; run < end; run++) {
            const auto* at = reinterpret_cast<const unsigned char*>(run->address);
            landed.insert(landed.end(), at, at + run->bytes);
        }
    }
    const PhaseBarrier* p = transfer.barrier ? barrier_at(transfer.barrier) : nullptr;
    RecordedChange lands = change(b, transfer.barrier, BarrierChange::copy_lands, p ? p->phase : 0);
    lands.bytes = transfer.bytes;
    lands.copy = transfer.recorded;
    Thread* mine = transfer.barrier ? nullptr : running();  // only its own thread waits for its groups
    const bool own = mine && !mine->left && block().running->number == transfer.number;
    if (own) did(Did::copy, transfer.name, transfer.recorded, 1);
    note_change(lands, own);
}

}  // namespace cuda_on_cpu
