// Local arrays with marks on both sides (include/cuda_on_cpu/locals.h): where they are, and whether a thread has left one.
#include <algorithm>
#include <cstring>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "state.h"

namespace cuda_on_cpu {

static constexpr unsigned char mark = 0xFF;  // NaN as floating point, -1 as an integer
static void fill_marks(unsigned char* marks) { memset(marks, mark, local_marks); }
static const unsigned char* changed_mark(const unsigned char* marks) {
    if (*marks == mark && memcmp(marks, marks + 1, local_marks - 1) == 0) return nullptr;  // each is like the one before
    return std::find_if(marks, marks + local_marks, [](unsigned char byte) { return byte != mark; });
}

// The compiler knows the object that a pointer points into, and the access leaves it. If it touches a local variable, no
// hook may see it.
void Trace::outside_object(const void* address, Op op, const void* code) {
    if (!in_thread()) return;
    Block& b = block();
    if (b.running->traced->array_type) return tell_array(b, nullptr, 0, 0, op);
    if (!b.running->around(address)) return;  // a variable of the module: regions.cpp knows it
    local = Region();
    local.space = Space::local;
    out_of_bounds(b, reinterpret_cast<uintptr_t>(address), 1, op, code, &local);
    stop_thread(b);
}

void local_begins(const char* name, void* front, size_t bytes, size_t element, size_t alignment) {
    if (!tracing || !in_thread()) return;
    unsigned char* marks = static_cast<unsigned char*>(front);
    fill_marks(marks);
    fill_marks(marks + local_marks + bytes);
    uintptr_t begin = reinterpret_cast<uintptr_t>(marks + local_marks);
    TracedThread& t = *block().running->traced;
    t.is_back(begin);
    t.locals.push_back({name, begin, begin + bytes, element, alignment});
}

void local_ends(void* front) {
    if (!tracing || !in_thread()) return;
    auto& locals = block().running->traced->locals;
    uintptr_t begin = reinterpret_cast<uintptr_t>(front) + local_marks;
    while (!locals.empty() && locals.back().begin != begin) locals.pop_back();  // an exception has left them
    if (locals.empty()) return;
    tracing->local_ends(block(), locals.back(), __builtin_return_address(0));
    TracedThread& t = *block().running->traced;
    t.is_back(begin);
    t.ended.push_back({locals.back(), t.depth});
    locals.pop_back();
}

// What has changed the marks is an access that no hook has seen, such as a memcpy, or one that was reported.
void Trace::local_ends(Block& b, const LocalArray& array, const void* code) {
    const unsigned char* ahead = reinterpret_cast<unsigned char*>(array.begin) - local_marks;
    const unsigned char* behind = reinterpret_cast<unsigned char*>(array.end);
    const unsigned char* changed = changed_mark(ahead);
    if (!changed) changed = changed_mark(behind);
    if (!changed) return;
    for (const Problem& p : problems)
        if (p.space == Space::local && p.region == array.name) return;
    left_local(b, reinterpret_cast<uintptr_t>(changed), 1);
    out_of_bounds(b, reinterpret_cast<uintptr_t>(changed), std::max<size_t>(array.element, 1), Op::store, code, &local);
}

}  // namespace cuda_on_cpu
