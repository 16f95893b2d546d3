// What kernels get from malloc and new: as much in all as cudaLimitMallocHeapSize says, then null. It is guarded as
// tensors are (guarded.h), and apart from Python's own heap, which an overrun, or a pointer that is freed twice, would
// destroy. What the host's code gets is in host/arrays.cpp.
#include "cuda_runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <unordered_map>

#include "../guard/guarded.h"
#include "../host/arrays.h"
#include "../trace/trace.h"
#include "runtime.h"

extern "C" void cuda_on_cpu_trace_freed(void* base);  // exports.cpp

namespace cuda_on_cpu {

GuardedMemory& kernels_heap() {
    static GuardedMemory* all = [] {
        auto* made = new GuardedMemory("malloc or new allocation", false, 4'000);
        pthread_atfork([] { kernels_heap().mutex.lock(); }, [] { kernels_heap().mutex.unlock(); },
                       [] { kernels_heap().mutex.unlock(); });
        return made;
    }();
    return *all;
}

// Beyond the number of guarded pieces, many share one, so that no overrun reaches Python's heap.
class SharedPieces {
public:
    void* take(size_t bytes) {
        const size_t needed = rounded_up(bytes, 16);
        if (needed < bytes) return nullptr;
        std::lock_guard lock(mutex);
        if (!open || open->end - open->free < ptrdiff_t(needed)) {
            const size_t size = std::max(usual, needed);
            char* begin = memory().take(size);
            if (!begin) return nullptr;
            if (open && !open->pieces) give_back(open);
            open = &slabs.emplace(begin, Slab{begin, begin, begin + size, 0}).first->second;
        }
        char* p = open->free;
        open->free += needed;
        open->pieces++;
        pieces.emplace(p, bytes);
        return p;
    }

    // How many bytes it has; nothing for memory that is not ours.
    std::optional<size_t> give_back(void* p) {
        std::lock_guard lock(mutex);
        const auto piece = pieces.find(p);
        if (piece == pieces.end()) return {};
        const size_t bytes = piece->second;
        pieces.erase(piece);
        Slab* slab = &std::prev(slabs.upper_bound(static_cast<char*>(p)))->second;
        if (!--slab->pieces && slab != open) give_back(slab);
        return bytes;
    }

private:
    static constexpr size_t usual = 1 << 20;
    struct Slab {
        char *begin, *free, *end;
        size_t pieces;  // in use
    };
    Mutex mutex;
    std::map<char*, Slab> slabs;  // by where they begin
    Slab* open = nullptr;
    std::unordered_map<void*, size_t> pieces;  // and their bytes

    static GuardedMemory& memory() {
        static auto& all = *new GuardedMemory("heap of malloc and new", false, 4'000);
        return all;
    }
    void give_back(Slab* slab) {
        memory().give_back(memory().of(slab->begin));
        slabs.erase(slab->begin);
    }
};
static SharedPieces& shared_pieces = *new SharedPieces;

static bool in_kernel() { return here && block().worker->in_kernel; }

static std::atomic<size_t> heap_bytes = 0;  // that kernels have taken and not given back

void forget_heap() { heap_bytes = 0; }

static bool has_room(size_t bytes) {
    if (heap_bytes.fetch_add(bytes) + bytes <= kernels_heap_limit()) return true;
    heap_bytes -= bytes;
    return false;
}

static void* heap_take(size_t bytes, Source source) {
    Worker& w = *block().worker;
    w.in_kernel = 0;
    const size_t given = bytes ? bytes : 1;
    void* p = nullptr;
    if (has_room(given)) {
        p = kernels_heap().take(given);
        if (!p) p = shared_pieces.take(given);
        if (!p) heap_bytes -= given;
    }
    if (!p) w.heap_was_full = true;
    if (p) trace_allocated(p, bytes, source == from_malloc ? "memory from malloc" : "memory from new");
    enter_kernel(w);
    return p;
}

static std::string what_is_freed(Block& b, const void* p) {
    Place found;
    const std::string no_malloc = ", which is not from malloc or new";
    if (is_local(p)) return "frees a local variable" + no_malloc;
    if (b.arena.around(p)) return "frees shared memory" + no_malloc;
    if (const std::string name = tracing ? trace_name_of(*tracing, p) : ""; !name.empty()) return "frees " + name + no_malloc;
    if (!find_tensor(p, found) || !found.inside()) return "frees memory that is not from malloc or new, or was freed before";
    const std::string what = std::string(found.what) + " of " + std::to_string(found.bytes) + " bytes";
    if (found.freed) return "frees memory that was freed before: a " + what;
    if (found.address == found.begin) return "frees a " + what + no_malloc;
    return "frees an address " + std::to_string(found.address - found.begin) + " bytes past the start of a " + what;
}

// `code`: of the kernel, for messages.
static void heap_give_back(void* p, const void* code) {
    if (!p) return;
    Worker& w = *block().worker;
    w.in_kernel = 0;
    if (tracing) trace_before_free(*tracing);
    std::optional<size_t> bytes;
    if (Guarded* piece = kernels_heap().of(p)) {
        bytes = piece->bytes;
        kernels_heap().give_back(piece);
    } else {
        bytes = shared_pieces.give_back(p);
    }
    if (!bytes) {
        if (Fiber* running = block().running) running->code = code;
        fail(wrong_free, what_is_freed(block(), p));
    }
    size_t taken = heap_bytes;  // 0 if a fault has ended a launch since
    while (!heap_bytes.compare_exchange_weak(taken, taken - std::min(taken, *bytes))) {}
    cuda_on_cpu_trace_freed(p);
    enter_kernel(w);
}

// The C library would end Python for memory that is not its own.
static void check_is_own(void* p, const char* function) {
    Allocation found;
    if (!p || !find_allocation(p, found)) return;
    refuse_host(std::string("calls ") + function + " for memory from " + function_of(found.kind) + ", which is for " +
                (found.kind == Allocation::host ? "cudaFreeHost" : "cudaFree"));
}

static void* take(size_t bytes, Source source, void* (*from)(size_t)) {
    return in_kernel() ? heap_take(bytes, source) : take_for_host(bytes, source, from);
}

static void give_back(void* p, Source source, size_t bytes, void (*to)(void*), const void* code) {
    static const char* const names[] = {"free", "delete", "delete[]"};
    if (in_kernel()) return heap_give_back(p, code);
    check_is_own(p, names[source]);
    give_back_for_host(p, source, bytes, to);
}

}  // namespace cuda_on_cpu

// ---- the linker puts these in the place of the C and C++ libraries' (library.py) -----------------------------------

using namespace cuda_on_cpu;

extern "C" {
void* __wrap_malloc(size_t bytes) { return take(bytes, from_malloc, malloc); }
void __wrap_free(void* p) { give_back(p, from_malloc, 0, free, __builtin_return_address(0)); }
void* __wrap__Znwm(size_t bytes) { return take(bytes, from_new, operator new); }
void* __wrap__Znam(size_t bytes) { return take(bytes, from_new_array, operator new[]); }
void __wrap__ZdlPv(void* p) { give_back(p, from_new, 0, operator delete, __builtin_return_address(0)); }
void __wrap__ZdaPv(void* p) { give_back(p, from_new_array, 0, operator delete[], __builtin_return_address(0)); }
void __wrap__ZdlPvm(void* p, size_t bytes) { give_back(p, from_new, bytes, operator delete, __builtin_return_address(0)); }
void __wrap__ZdaPvm(void* p, size_t bytes) { give_back(p, from_new_array, bytes, operator delete[], __builtin_return_address(0)); }

void* __wrap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
    return take_for_host(bytes, from_malloc, [](size_t all) { return calloc(all, 1); });
}

void* __wrap_realloc(void* p, size_t bytes) {
    size_t before;
    if (!p) return __wrap_malloc(bytes);
    if (!is_from_host(p, before)) return check_from_host(p), realloc(p, bytes);
    void* larger = bytes ? __wrap_malloc(bytes) : nullptr;
    if (larger) memcpy(larger, p, std::min(before, bytes));
    if (larger || !bytes) __wrap_free(p);
    return larger;
}
}
