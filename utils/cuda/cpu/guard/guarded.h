// Memory between pages that no thread may touch: torch's tensors (guard.cpp) and what cudaMalloc gives (memory.cpp).
//
//     | guard pages |   ...   | mark | the memory | mark | guard pages |
//
// The memory ends where the guard begins, except for up to 15 bytes that let it begin at a multiple of 16, as malloc
// does. So a kernel that runs past the end hits the guard, and the fault handler (faults.cpp) names its thread. The
// bytes in front, and those few, hold marks: a mark that has changed shows a write beside the memory, and one that is
// read shows as NaN in the result. The memory itself begins as NaN too: so does a read of what torch.empty has left
// unset, and a trace knows that it was.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "guard.h"
#include "space.h"

namespace cuda_on_cpu {

// What is written in front of some memory and behind it. A thread that computes with a mark and puts the result there
// changes it: arithmetic makes a signaling NaN quiet. One that copies there what is beside other memory changes it too:
// each piece has marks of its own. The number of bytes limits the types that it may hold, which decides the NaN.
struct SideMarks {
    static constexpr size_t front = 64, behind = 16;  // bytes; only what is left of the last 16 is behind the memory
    unsigned char before[front], after[behind];

    // The marks of piece `number` where it has `bytes` bytes.
    void make(uint64_t number, size_t bytes) {
        // Neighbours differ in both, and no byte is 0 or 255, which kernels often write.
        const uint32_t low = 0x20 + number * 97 % 191, high = number * 29 % 64;
        const uint32_t half_nan = 0x7C00 | low, float_nan = (0x7F80 | high) << 16 | half_nan;
        const uint32_t top_of_double = (0x7FF0 | high % 8) << 16 | half_nan, byte = 0x20 | high;
        const uint32_t word = bytes % 2 ? byte * 0x01010101 : bytes % 4 ? half_nan * 0x00010001 : float_nan;
        for (size_t i = 0; i < front; i += 4) memcpy(before + i, &word, 4);
        for (size_t i = 0; i < behind; i += 4) memcpy(after + i, bytes % 8 || i % 8 == 0 ? &word : &top_of_double, 4);
    }
};

// Pages with guards on both sides. In use they hold a tensor or an allocation; idle, they wait for one.
struct Guarded {
    static constexpr size_t alignment = SideMarks::behind, front = SideMarks::front;

    char* pages;
    size_t size;            // of the pages in bytes
    char* begin = nullptr;  // of the memory
    size_t bytes = 0;       // of the memory
    SideMarks marks{};
    bool freed = false;     // and its pages no longer there
    const char* what = nullptr;  // as in Place
    Guarded *newer = nullptr, *older = nullptr;

    size_t rest() const { return size_t(pages + size - begin) - bytes; }  // behind the memory

    void mark() {
        memcpy(begin - front, marks.before, front);
        memcpy(begin + bytes, marks.after + bytes % alignment, rest());
    }
    // The first byte of the marks that has changed; nullptr if none has.
    const char* changed() const {
        const char *ahead = begin - front, *behind = begin + bytes;
        const unsigned char* after = marks.after + bytes % alignment;
        if (memcmp(ahead, marks.before, front) == 0 && memcmp(behind, after, rest()) == 0) return nullptr;
        for (size_t i = 0; i < front; i++)
            if ((unsigned char)ahead[i] != marks.before[i]) return ahead + i;
        while ((unsigned char)*behind == *after) behind++, after++;
        return behind;
    }
};

struct ByAge {
    Guarded *newest = nullptr, *oldest = nullptr;
    void add(Guarded* r) {
        r->newer = nullptr;
        r->older = newest;
        (newest ? newest->newer : oldest) = r;
        newest = r;
    }
    void remove(Guarded* r) {
        (r->newer ? r->newer->older : newest) = r->older;
        (r->older ? r->older->newer : oldest) = r->newer;
    }
};

// All of one kind. They are never destroyed: tensors may live longer than a library's variables.
class GuardedMemory {
public:
    std::mutex mutex;  // taken by every function here

    // `reuses`: what was freed serves again, since new pages cost time when they are first touched. Otherwise it is
    // kept for a while as pages that no thread may touch, so that a use after the free is noticed.
    // `fresh` fills what it gives.
    explicit GuardedMemory(const char* what, bool reuses, size_t most_pieces = 16'000, uint64_t fresh = poison)
        : what(what), reuses(reuses), most_pieces(most_pieces), fresh(fresh) {}

    // Memory for `bytes` bytes; nullptr where none is left, or too many pieces are in use. `of`: what it is, if not what
    // all of this kind are.
    char* take(size_t bytes, const char* of = nullptr) {
        if (bytes > SIZE_MAX / 4) return nullptr;
        const size_t size = rounded_up(rounded_up(bytes, Guarded::alignment) + Guarded::front, page);
        std::lock_guard lock(mutex);
        Guarded* r = take_idle(size);
        while (!r && !(r = map_new(size)))
            if (!drop_idle()) return nullptr;
        r->begin = r->pages + size - rounded_up(bytes, Guarded::alignment);
        r->bytes = bytes;
        r->what = of ? of : what;
        r->marks.make(++taken, bytes);
        r->mark();
        used.add(r);
        if (bytes <= most_poisoned_bytes) fill_with_poison(r->begin, bytes, fresh);
        return r->begin;
    }

    // What `take` gave; nullptr for memory that is not ours.
    Guarded* of(const void* begin) {
        std::lock_guard lock(mutex);
        Guarded* r = at(begin);
        return r && r->begin == begin && !r->freed ? r : nullptr;
    }

    void give_back(Guarded* r) {
        std::lock_guard lock(mutex);
        if (const char* address = r->changed(); address && !has_damage) {
            has_damage = true;
            freed_damage = {address, r->begin, r->bytes, true, r->what};
        }
        used.remove(r);
        if (reuses)
            r->begin = nullptr;
        else
            r->freed = true, reserve(r->size, r->pages);
        keep_idle(r);
        while (idle_bytes > (reuses ? most_idle_bytes : most_freed_bytes) || idle_count > most_freed) drop_idle();
    }

    // Whether the address is in such memory or in what surrounds it.
    bool find(const void* address, Place& found) {
        std::lock_guard lock(mutex);
        const Guarded* r = at(address);
        if (r) found = {static_cast<const char*>(address), r->begin, r->bytes, r->freed, r->what};
        return r;
    }

    // Whether the address is in the space that all of it has to itself.
    bool surrounds(const char* address) {
        std::lock_guard lock(mutex);
        return at(address) || space.holds(address);
    }

    // Whether something was written beside one since the last call, and where. The mark is then restored.
    bool damage(Place& found) {
        std::lock_guard lock(mutex);
        bool any = has_damage;
        if (any) found = freed_damage;
        has_damage = false;
        int n = 0;
        for (Guarded* r = used.newest; r && n < most_checked; r = r->older, n++)
            if (const char* address = r->changed()) {
                if (!any || found.freed) found = {address, r->begin, r->bytes, false, r->what};
                any = true;
                r->mark();
            }
        return any;
    }

private:
    static constexpr size_t most_idle_bytes = 256ul << 20, most_freed_bytes = 256ul << 30;
    static constexpr size_t most_freed = 4'000;
    static constexpr size_t most_poisoned_bytes = 4ul << 20;  // for more it would take noticeable time
    static constexpr int most_checked = 256;  // after a launch: the newest

    const char* const what;
    const bool reuses;
    const size_t most_pieces;  // Linux allows a process 65,530 maps, and a piece takes two
    const uint64_t fresh;
    uint64_t taken = 0;        // pieces so far
    const size_t page = page_bytes();
    // More than one page, so that a thread which is a few rows too far hits the guard too. It takes no memory.
    const size_t guard_bytes = rounded_up(64 * 1024, page);
    AddressSpace space;
    std::map<const char*, Guarded*> by_place;  // by the address of the guard in front
    ByAge used, idle;
    std::unordered_map<size_t, std::vector<Guarded*>> idle_of_size;
    size_t idle_bytes = 0, idle_count = 0;
    bool has_damage = false;  // beside memory that was freed since
    Place freed_damage{};

    Guarded* at(const void* address) {
        auto behind = by_place.upper_bound(static_cast<const char*>(address));
        if (behind == by_place.begin()) return nullptr;
        Guarded* r = std::prev(behind)->second;
        return r->begin && address < r->pages + r->size + guard_bytes ? r : nullptr;
    }

    Guarded* take_idle(size_t size) {
        auto found = idle_of_size.find(size);
        if (!reuses || found == idle_of_size.end() || found->second.empty()) return nullptr;
        Guarded* r = found->second.back();
        found->second.pop_back();
        idle.remove(r);
        idle_bytes -= size, idle_count--;
        return r;
    }

    void keep_idle(Guarded* r) {
        idle.add(r);
        if (reuses) idle_of_size[r->size].push_back(r);
        idle_bytes += r->size, idle_count++;
    }

    // The one that has been idle for longest goes back to the system.
    bool drop_idle() {
        Guarded* r = idle.oldest;
        if (!r) return false;
        if (reuses) {
            auto same = idle_of_size.find(r->size);
            same->second.erase(same->second.begin());
            if (same->second.empty()) idle_of_size.erase(same);
        }
        idle.remove(r);
        idle_bytes -= r->size, idle_count--;
        by_place.erase(r->pages - guard_bytes);
        space.give_back(r->pages - guard_bytes, r->size + 2 * guard_bytes);
        delete r;
        return true;
    }

    Guarded* map_new(size_t size) {
        if (by_place.size() >= most_pieces && !drop_idle()) return nullptr;
        char* all = space.take(size + 2 * guard_bytes);
        if (!all) return nullptr;
        char* pages = all + guard_bytes;
        if (mprotect(pages, size, PROT_READ | PROT_WRITE) != 0) {
            space.give_back(all, size + 2 * guard_bytes);
            return nullptr;
        }
        return by_place[all] = new Guarded{pages, size};
    }
};

}  // namespace cuda_on_cpu
