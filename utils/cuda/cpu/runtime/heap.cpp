// What kernels get from malloc and new. It is guarded as tensors are (guarded.h), and apart from Python's own heap, which
// an overrun, or a pointer that is freed twice, would destroy.
#include <cstdlib>
#include <new>
#include <unordered_set>

#include "../guard/guarded.h"
#include "../trace/trace.h"
#include "runtime.h"

extern "C" void cuda_on_cpu_trace_freed(void* base);  // exports.cpp

namespace cuda_on_cpu {

GuardedMemory& kernels_heap() {
    static GuardedMemory* all = [] {
        auto* made = new GuardedMemory("malloc allocation", false, 4'000);
        pthread_atfork([] { kernels_heap().mutex.lock(); }, [] { kernels_heap().mutex.unlock(); },
                       [] { kernels_heap().mutex.unlock(); });
        return made;
    }();
    return *all;
}

// Beyond the number of guarded pieces, the C library serves.
static Mutex unguarded_mutex;
static std::unordered_set<void*>& unguarded = *new std::unordered_set<void*>;

static bool in_kernel() { return here && block().worker->in_kernel; }

static void* heap_take(size_t bytes) {
    Worker& w = *block().worker;
    w.in_kernel = 0;
    void* p = kernels_heap().take(bytes ? bytes : 1);
    if (p) {
        trace_allocated(p, bytes, "memory from malloc");
    } else if ((p = malloc(bytes))) {
        std::lock_guard lock(unguarded_mutex);
        unguarded.insert(p);
    }
    enter_kernel(w);
    return p;
}

static bool forget_unguarded(void* p) {
    std::lock_guard lock(unguarded_mutex);
    return unguarded.erase(p);
}

static void heap_give_back(void* p) {
    if (!p) return;
    Worker& w = *block().worker;
    w.in_kernel = 0;
    if (Guarded* piece = kernels_heap().of(p)) {
        cuda_on_cpu_trace_freed(p);
        kernels_heap().give_back(piece);
    } else if (forget_unguarded(p)) {
        free(p);
    } else {
        fail(wrong_free);
    }
    enter_kernel(w);
}

}  // namespace cuda_on_cpu

// ---- the linker puts these in the place of the C and C++ libraries' (build.py) --------------------------------------

using namespace cuda_on_cpu;

extern "C" {
void* __wrap_malloc(size_t bytes) { return in_kernel() ? heap_take(bytes) : malloc(bytes); }
void __wrap_free(void* p) { in_kernel() ? heap_give_back(p) : free(p); }
void* __wrap__Znwm(size_t bytes) { return in_kernel() ? heap_take(bytes) : operator new(bytes); }
void* __wrap__Znam(size_t bytes) { return in_kernel() ? heap_take(bytes) : operator new[](bytes); }
void __wrap__ZdlPv(void* p) { in_kernel() ? heap_give_back(p) : operator delete(p); }
void __wrap__ZdaPv(void* p) { in_kernel() ? heap_give_back(p) : operator delete[](p); }
void __wrap__ZdlPvm(void* p, size_t bytes) { in_kernel() ? heap_give_back(p) : operator delete(p, bytes); }
void __wrap__ZdaPvm(void* p, size_t bytes) { in_kernel() ? heap_give_back(p) : operator delete[](p, bytes); }
}
