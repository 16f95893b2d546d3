// torch's allocator on the CPU: each tensor is between pages that no thread may touch.
//
//     | guard pages |   ...   | mark | the tensor | mark | guard pages |
//
// The tensor ends where the guard begins, except for up to 15 bytes that let it begin at a multiple of 16, as malloc
// does. So a kernel that runs past the end hits the guard, and the fault handler (faults.cpp) names its thread. The
// bytes in front, and those few, hold marks: a mark that has changed shows a write beside the tensor. Read as floating
// point, marks are NaN, so that a read beside the tensor shows in the result.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "guard.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t alignment = 16, front = 64;
constexpr size_t most_regions = 16'000;          // Linux allows a process 65,530 maps, and a region takes two or three
constexpr size_t most_idle_bytes = 256ul << 20;  // kept for later tensors: new pages cost time when first touched
constexpr int most_checked = 256;                // tensors, after a launch: the newest
constexpr unsigned char nan_word[4] = {0x5B, 0xA6, 0xF9, 0x7F};  // NaN as float, and twice as double; little end first

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

const size_t page = sysconf(_SC_PAGESIZE);
// More than one page, so that a thread which is a few rows too far hits the guard too. It takes no memory.
const size_t guard_bytes = rounded_up(64 * 1024, page);

// The mark, as it begins at a multiple of 16.
struct Pattern {
    unsigned char bytes[front];
    Pattern() {
        for (size_t i = 0; i < front; i++) bytes[i] = nan_word[i % 4];
    }
} const pattern;

// Pages with guards on both sides. In use they hold a tensor; idle, they wait for one.
struct Region {
    char* pages;
    size_t size;            // of the pages in bytes
    char* begin = nullptr;  // of the tensor
    size_t bytes = 0;       // of the tensor
    Region *newer = nullptr, *older = nullptr;

    size_t rest() const { return size_t(pages + size - begin) - bytes; }  // behind the tensor

    void mark() {
        memcpy(begin - front, pattern.bytes, front);
        memcpy(begin + bytes, pattern.bytes + bytes % alignment, rest());
    }
    // The first byte of the marks that has changed; nullptr if none has.
    const char* changed() const {
        const char *ahead = begin - front, *behind = begin + bytes;
        const unsigned char* rest_of_pattern = pattern.bytes + bytes % alignment;
        if (memcmp(ahead, pattern.bytes, front) == 0 && memcmp(behind, rest_of_pattern, rest()) == 0) return nullptr;
        for (size_t i = 0; i < front; i++)
            if ((unsigned char)ahead[i] != pattern.bytes[i]) return ahead + i;
        while ((unsigned char)*behind == *rest_of_pattern) behind++, rest_of_pattern++;
        return behind;
    }
};

struct ByAge {
    Region *newest = nullptr, *oldest = nullptr;
    void add(Region* r) {
        r->newer = nullptr;
        r->older = newest;
        (newest ? newest->newer : oldest) = r;
        newest = r;
    }
    void remove(Region* r) {
        (r->newer ? r->newer->older : newest) = r->older;
        (r->older ? r->older->newer : oldest) = r->newer;
    }
};

// All regions. What is here is never destroyed: tensors may live longer than this library's variables.
struct Regions {
    std::mutex mutex;
    std::map<const char*, Region*> by_place;  // by the address of the guard in front
    ByAge used, idle;
    std::unordered_map<size_t, std::vector<Region*>> idle_of_size;
    size_t idle_bytes = 0;
    bool has_damage = false;  // beside a tensor that was freed since
    Place freed_damage{};

    Region* at(const void* address) {
        auto behind = by_place.upper_bound(static_cast<const char*>(address));
        if (behind == by_place.begin()) return nullptr;
        Region* r = std::prev(behind)->second;
        return r->begin && address < r->pages + r->size + guard_bytes ? r : nullptr;
    }

    Region* take_idle(size_t size) {
        auto found = idle_of_size.find(size);
        if (found == idle_of_size.end() || found->second.empty()) return nullptr;
        Region* r = found->second.back();
        found->second.pop_back();
        idle.remove(r);
        idle_bytes -= size;
        return r;
    }

    void keep_idle(Region* r) {
        idle.add(r);
        idle_of_size[r->size].push_back(r);
        idle_bytes += r->size;
    }

    // The one that has been idle for longest goes back to the system.
    bool drop_idle() {
        Region* r = idle.oldest;
        if (!r) return false;
        auto same = idle_of_size.find(r->size);
        same->second.erase(same->second.begin());
        if (same->second.empty()) idle_of_size.erase(same);
        idle.remove(r);
        idle_bytes -= r->size;
        by_place.erase(r->pages - guard_bytes);
        munmap(r->pages - guard_bytes, r->size + 2 * guard_bytes);
        delete r;
        return true;
    }

    Region* map_new(size_t size) {
        if (by_place.size() >= most_regions && !drop_idle()) return nullptr;
        void* all = mmap(nullptr, size + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) return nullptr;
        char* pages = static_cast<char*>(all) + guard_bytes;
        if (mprotect(pages, size, PROT_READ | PROT_WRITE) != 0) {
            munmap(all, size + 2 * guard_bytes);
            return nullptr;
        }
        return by_place[pages - guard_bytes] = new Region{pages, size};
    }

    // Memory for a tensor; nullptr where none is left, or too many regions are in use.
    char* take(size_t bytes) {
        if (bytes > SIZE_MAX / 4) return nullptr;
        const size_t size = rounded_up(rounded_up(bytes, alignment) + front, page);
        std::lock_guard lock(mutex);
        Region* r = take_idle(size);
        while (!r && !(r = map_new(size)))
            if (!drop_idle()) return nullptr;
        r->begin = r->pages + size - rounded_up(bytes, alignment);
        r->bytes = bytes;
        r->mark();
        used.add(r);
        return r->begin;
    }

    // The region of a tensor; nullptr for memory that is not ours.
    Region* of(const void* begin) {
        std::lock_guard lock(mutex);
        Region* r = at(begin);
        return r && r->begin == begin ? r : nullptr;
    }

    void give_back(Region* r) {
        std::lock_guard lock(mutex);
        if (const char* address = r->changed(); address && !has_damage) {
            has_damage = true;
            freed_damage = {address, r->begin, r->bytes, true};
        }
        used.remove(r);
        r->begin = nullptr;
        keep_idle(r);
        while (idle_bytes > most_idle_bytes) drop_idle();
    }

    bool damage(Place& found) {
        std::lock_guard lock(mutex);
        bool any = has_damage;
        if (any) found = freed_damage;
        has_damage = false;
        int n = 0;
        for (Region* r = used.newest; r && n < most_checked; r = r->older, n++)
            if (const char* address = r->changed()) {
                if (!any || found.freed) found = {address, r->begin, r->bytes, false};
                any = true;
                r->mark();
            }
        return any;
    }
};

Regions& regions() {
    static Regions* all = [] {
        auto* made = new Regions;
        // A process may fork while another of its threads is in here; the child has a use for whole lists only.
        pthread_atfork([] { regions().mutex.lock(); }, [] { regions().mutex.unlock(); },
                       [] { regions().mutex.unlock(); });
        return made;
    }();
    return *all;
}

// Serves torch as its own allocator does; where there is no room for guards, that one serves.
class GuardAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        void* begin = bytes ? regions().take(bytes) : nullptr;
        if (begin)
            c10::profiledCPUMemoryReporter().New(begin, bytes);
        else if (bytes)
            begin = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
        return {begin, begin, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

private:
    static void release(void* begin) {
        if (!begin) return;
        Region* r = regions().of(begin);
        if (!r) return c10::GetDefaultCPUAllocator()->raw_deallocate(begin);
        c10::profiledCPUMemoryReporter().Delete(begin);  // before another tensor may get this place
        regions().give_back(r);
    }
};

bool find(const void* address, Place& found) {
    std::lock_guard lock(regions().mutex);
    const Region* r = regions().at(address);
    if (r) found = {static_cast<const char*>(address), r->begin, r->bytes, false};
    return r;
}

}  // namespace
}  // namespace cuda_on_cpu

extern "C" const cuda_on_cpu::Guard* cuda_on_cpu_guard() {
    using namespace cuda_on_cpu;
    static const Guard guard{&find, [](Place& found) { return regions().damage(found); }};
    return &guard;
}

// From now on torch's tensors on the CPU are ours; false where torch's allocator has been replaced by another.
extern "C" bool cuda_on_cpu_guard_install() {
    static auto* ours = new cuda_on_cpu::GuardAllocator;
    if (c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator()) c10::SetCPUAllocator(ours, 255);
    return c10::GetCPUAllocator() == ours;
}
