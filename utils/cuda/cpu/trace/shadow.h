// The last accesses of every few bytes, among which races are found (races.h).
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "requests.h"

namespace cuda_on_cpu {

struct Record {  // of one access; time 0: none
    uint32_t time = 0, block = 0;
    uint16_t thread = 0, site = 0;
};

// The last accesses of every few bytes: the last write, the last atomic and two reads, by different threads where there
// were two.
class Shadow {
public:
    Shadow() = default;
    Shadow(Shadow&& other) noexcept { *this = std::move(other); }
    Shadow& operator=(Shadow&& other) noexcept {
        std::swap(cells, other.cells);
        std::swap(count, other.count);
        std::swap(log_granule, other.log_granule);
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
            for (int i = 0; i < 2; i++) {
                if (c.write[i].time >= since && c.write_mask[i] & mask && !ordered(c.write[i])) return c.write[i];
                if (c.read[i].time >= since && c.read_mask[i] & mask && !ordered(c.read[i])) return c.read[i];
            }
        }
        return {};
    }

    // A write of these bytes that is `wrong`.
    template <class Wrong>
    Record wrong_write(size_t offset, size_t bytes, uint32_t since, Wrong wrong) const {
        for (size_t at = offset; cells && at < offset + bytes; at++) {
            const Cell& c = cells[at >> log_granule];
            for (int i = 0; i < 2; i++)
                if (c.write[i].time >= since && c.write_mask[i] & 1u << within(at) && wrong(c.write[i])) return c.write[i];
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
    // `unwritten` counts the bytes of shared memory that are read and that no thread has written.
    template <class Ordered, class Together>
    Record note(size_t offset, size_t bytes, const Record& me, Op op, bool atomic, uint32_t since, bool shared,
                size_t& unwritten, Ordered ordered, Together together) {
        Record other;
        if (!cells) return other;
        for (size_t at = offset; at < offset + bytes;) {
            Cell& c = cells[at >> log_granule];
            size_t from = within(at), to = std::min(size_t(1) << log_granule, offset + bytes - (at - from));
            unsigned char mask = (1u << to) - (1u << from);
            at += to - from;
            auto races = [&](const Record& x, unsigned char x_mask, bool x_atomic) {
                return x.time >= since && (x_mask & mask) && !(x_atomic && atomic && together(x)) && !ordered(x);
            };
            for (int plain_or_atomic = 0; plain_or_atomic < 2; plain_or_atomic++)
                if (!other.time && races(c.write[plain_or_atomic], c.write_mask[plain_or_atomic], plain_or_atomic))
                    other = c.write[plain_or_atomic];
            if (op != Op::load) {
                if (!other.time && races(c.read[0], c.read_mask[0], c.read_atomic[0])) other = c.read[0];
                if (!other.time && races(c.read[1], c.read_mask[1], c.read_atomic[1])) other = c.read[1];
            }
            if (shared) {
                if (c.initialized_since != since) c.initialized_since = since, c.initialized = 0;
                if (op != Op::store) unwritten += __builtin_popcount(mask & ~c.initialized);
                c.initialized |= mask;  // reported once
            }
            if (op == Op::load) {
                // Keep the first reader and one other: a later writer is neither or not both.
                Record& first = c.read[0];
                bool first_is_old = first.time < since || (first.thread == me.thread && first.block == me.block) ||
                                    (first.block == me.block && ordered(first));
                int slot = first_is_old ? 0 : 1;
                c.read_mask[slot] = c.read[slot].thread == me.thread && c.read[slot].block == me.block &&
                                            c.read[slot].time >= since
                                        ? c.read_mask[slot] | mask
                                        : mask;
                c.read[slot] = me;
                c.read_atomic[slot] = atomic;
            } else {
                Record& last = c.write[atomic];
                bool mine = last.thread == me.thread && last.block == me.block && last.time >= since;
                c.write_mask[atomic] = mine ? c.write_mask[atomic] | mask : mask;
                last = me;
            }
        }
        return other;
    }

private:
    struct Cell {
        Record write[2], read[2];  // a plain write and an atomic one
        unsigned char write_mask[2], read_mask[2], initialized;
        bool read_atomic[2];
        uint32_t initialized_since;
    };
    Cell* cells = nullptr;
    size_t count = 0;
    unsigned int log_granule = 2;  // a shift takes less time than a division, at every access
    size_t within(size_t at) const { return at & ((size_t(1) << log_granule) - 1); }
};

}  // namespace cuda_on_cpu
