// The last accesses of every few bytes, among which races are found (races.h).
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "requests.h"

namespace cuda_on_cpu {

struct Record {  // of one access; time 0: none
    uint32_t time = 0, block = 0;
    uint16_t thread = 0, site = 0;
};

// The last atomics of a few bytes by different threads, and which of the bytes each touched. Any thread may be one that a
// later access does not wait for, so they are of several blocks, of several warps, and two are of one warp.
class Atomics {
public:
    template <class Function>
    void each(Function function) const {
        for (const Atomic& x : last) function(x.record, x.mask);
    }
    Record latest;  // of all

    template <class Ordered>
    void note(const Record& me, unsigned char mask, uint32_t since, Ordered ordered) {
        latest = me;
        // What is ordered before me is so for all that wait for me.
        Atomic *free = nullptr, *of_warp = nullptr, *of_block = nullptr, *of_grid = nullptr;
        unsigned int in_warp = 0, in_block = 0;
        auto older = [](Atomic*& oldest, Atomic& x) {
            if (!oldest || x.record.time < oldest->record.time) oldest = &x;
        };
        for (Atomic& x : last) {
            const bool is_mine = x.record.thread == me.thread && x.record.block == me.block;
            if (x.record.time >= since && is_mine) {
                x = {me, static_cast<unsigned char>(x.mask | mask)};
                return;
            }
            if (x.record.time < since || ordered(x.record)) {
                if (!free) free = &x;
                continue;
            }
            older(of_grid, x);
            if (x.record.block != me.block) continue;
            in_block++, older(of_block, x);
            if (x.record.thread / 32 == me.thread / 32) in_warp++, older(of_warp, x);
        }
        if (!free) free = in_warp >= 2 ? of_warp : in_block >= 6 ? of_block : of_grid;
        *free = {me, mask};
    }

private:
    struct Atomic {
        Record record;
        unsigned char mask;  // of the bytes
    };
    Atomic last[8] = {};
};

// The last accesses of every few bytes: the last write, the first read, the last one by another thread and the last one
// by another warp than that, and the last atomics.
class Shadow {
public:
    Shadow() = default;
    Shadow(Shadow&& other) noexcept { *this = std::move(other); }
    Shadow& operator=(Shadow&& other) noexcept {
        std::swap(cells, other.cells);
        std::swap(count, other.count);
        std::swap(log_granule, other.log_granule);
        std::swap(atomics, other.atomics);
        return *this;
    }
    ~Shadow() {
        if (cells) munmap(cells, count * sizeof(Cell));
    }
    // For `bytes` bytes of elements this large. Pages are taken from the system when touched.
    void make(size_t bytes, size_t element) {
        log_granule = element % 4 == 0 ? 2 : element % 2 == 0 ? 1 : 0;
        count = (bytes >> log_granule) + 1;
        void* pages = mmap(nullptr, count * sizeof(Cell), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        cells = pages == MAP_FAILED ? nullptr : static_cast<Cell*>(pages);
    }

    bool made() const { return cells; }

    // An access, a read or a write, with which a plain write of these bytes races.
    template <class Ordered>
    Record against_write(size_t offset, size_t bytes, uint32_t since, Ordered ordered) const {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            const Cell& c = cells[at >> log_granule];
            const unsigned char mask = 1u << within(at);
            auto races = [&](const Record& x, unsigned char of) { return x.time >= since && of & mask && !ordered(x); };
            if (races(c.write, c.write_mask)) return c.write;
            for (int i = 0; i < reads; i++)
                if (races(c.read[i], c.read_mask[i])) return c.read[i];
            if (const Record x = atomic_that(at, c, races); x.time) return x;
        }
        return {};
    }

    // A write of these bytes that is `wrong`.
    template <class Wrong>
    Record wrong_write(size_t offset, size_t bytes, uint32_t since, Wrong wrong) const {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            const Cell& c = cells[at >> log_granule];
            auto is = [&](const Record& x, unsigned char of) { return x.time >= since && of & 1u << within(at) && wrong(x); };
            if (is(c.write, c.write_mask)) return c.write;
            if (const Record x = atomic_that(at, c, is); x.time) return x;
        }
        return {};
    }

    // An asynchronous copy has written these bytes of shared memory.
    void set_initialized(size_t offset, size_t bytes, uint32_t since) {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            Cell& c = cells[at >> log_granule];
            if (c.initialized_since != since) c.initialized_since = since, c.initialized = 0;
            c.initialized |= 1u << within(at);
        }
    }

    // Notes an access and returns an earlier one that it races with, if there is one: neither is ordered before the
    // other, and they are not both atomic or, `together`, harmless. What was noted before `since` does not count.
    // `unwritten` counts the bytes of shared memory that are read and that no thread has written. `after_all` is asked
    // whether a write comes behind the latest atomic, and so behind all of them.
    template <class Ordered, class Together, class AfterAll>
    Record note(size_t offset, size_t bytes, const Record& me, Op op, bool atomic, uint32_t since, bool shared,
                size_t& unwritten, Ordered ordered, Together together, AfterAll after_all) {
        Record other;
        if (!cells) return other;
        for (size_t at = offset; at < offset + bytes;) {
            const size_t number = at >> log_granule;
            Cell& c = cells[number];
            size_t from = within(at), to = std::min(size_t(1) << log_granule, offset + bytes - (at - from));
            unsigned char mask = (1u << to) - (1u << from);
            auto races = [&](const Record& x, unsigned char x_mask, bool x_atomic) {
                return x.time >= since && (x_mask & mask) && !(x_atomic && atomic && together(x)) && !ordered(x);
            };
            if (!other.time && races(c.write, c.write_mask, false)) other = c.write;
            const bool last = op == Op::store && c.has_atomics && after_all(latest_atomic(at));
            if (!other.time && !last)
                other = atomic_that(at, c, [&](const Record& x, unsigned char of) { return races(x, of, true); });
            at += to - from;
            for (int i = 0; i < reads && op != Op::load; i++)
                if (!other.time && races(c.read[i], c.read_mask[i], c.read_mask[i] & of_atomic)) other = c.read[i];
            if (shared) {
                if (c.initialized_since != since) c.initialized_since = since, c.initialized = 0;
                if (op != Op::store) unwritten += __builtin_popcount(mask & ~c.initialized);
                c.initialized |= mask;  // reported once
            }
            if (op == Op::load) {
                // Keep the first reader and two others: a later writer does not wait for all of them.
                Record& first = c.read[0];
                bool first_is_old = first.time < since || (first.thread == me.thread && first.block == me.block) ||
                                    (first.block == me.block && ordered(first));
                int slot = 0;
                if (!first_is_old) {
                    const Record& newest = c.read[1 + c.second_is_newest];
                    if (newest.thread / 32 != me.thread / 32 || newest.block != me.block)
                        c.second_is_newest = !c.second_is_newest;
                    slot = 1 + c.second_is_newest;
                }
                Record& last = c.read[slot];
                const bool mine = last.thread == me.thread && last.block == me.block && last.time >= since;
                c.read_mask[slot] = (mine ? (c.read_mask[slot] & ~of_atomic) | mask : mask) | (atomic ? of_atomic : 0);
                last = me;
            } else if (atomic) {
                c.has_atomics = true;
                if (atomics.size() >= most_with_atomics) atomics.clear();  // a race with the earliest may be missed
                atomics[number].note(me, mask, since, ordered);
            } else {
                bool mine = c.write.thread == me.thread && c.write.block == me.block && c.write.time >= since;
                c.write_mask = mine ? c.write_mask | mask : mask;
                c.write = me;
            }
        }
        return other;
    }

private:
    static constexpr int reads = 3;
    struct Cell {
        Record write, read[reads];
        unsigned char write_mask, read_mask[reads], initialized;  // a bit for each byte, and of_atomic
        bool second_is_newest;  // of the two readers behind the first
        bool has_atomics;
        uint32_t initialized_since;
    };
    static constexpr unsigned char of_atomic = 0x80;
    // The first atomic of a cell that is `wrong`.
    template <class Wrong>
    Record atomic_that(size_t at, const Cell& c, Wrong wrong) const {
        Record found;
        if (!c.has_atomics) [[likely]] return found;
        const auto noted = atomics.find(at >> log_granule);
        if (noted == atomics.end()) return found;
        noted->second.each([&](const Record& x, unsigned char mask) {
            if (!found.time && wrong(x, mask)) found = x;
        });
        return found;
    }
    Record latest_atomic(size_t at) const {
        const auto noted = atomics.find(at >> log_granule);
        return noted == atomics.end() ? Record() : noted->second.latest;
    }
    static constexpr size_t most_with_atomics = 1 << 20;  // cells, which take 200 MB
    std::unordered_map<size_t, Atomics> atomics;  // by the cell's number
    Cell* cells = nullptr;
    size_t count = 0;
    unsigned int log_granule = 2;  // a shift takes less time than a division, at every access
    size_t within(size_t at) const { return at & ((size_t(1) << log_granule) - 1); }
};

}  // namespace cuda_on_cpu
