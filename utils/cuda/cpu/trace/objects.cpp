// Objects with virtual functions: which of them kernels have constructed. What the host constructs points to the host's
// functions, which a GPU cannot call. The compilers announce each such pointer that a constructor sets (hooks.cpp), and a
// virtual call reads it before it reads the table to which it points.
#include <cstring>
#include <mutex>
#include <set>

#include "state.h"

namespace cuda_on_cpu {

namespace {
std::mutex of_made;
std::set<uintptr_t> made;  // where kernels have set such a pointer
}  // namespace

void object_is_made(const void* object) {
    const std::lock_guard lock(of_made);
    if (in_thread()) made.insert(reinterpret_cast<uintptr_t>(object));
    else made.erase(reinterpret_cast<uintptr_t>(object));
}

// The host copies memory.
void trace_objects_move(const void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(of_made);
    if (made.empty()) return;
    const auto a = reinterpret_cast<uintptr_t>(to), f = reinterpret_cast<uintptr_t>(from);
    const std::set<uintptr_t> moved(made.lower_bound(f), made.lower_bound(f + bytes));
    made.erase(made.lower_bound(a), made.lower_bound(a + bytes));
    for (const uintptr_t object : moved) made.insert(object - f + a);
}

// The thread reads 8 bytes of the module at `a`, after it has read those at `object`: of a table of virtual functions?
void Trace::reads_table(Block& b, uintptr_t a, uintptr_t object, const void* code) {
    const Symbol& symbol = *symbol_at(a);
    if (symbol.table_of.empty() || a - symbol.begin >= symbol.bytes || !object) return;
    uintptr_t table;
    memcpy(&table, reinterpret_cast<const void*>(object), sizeof table);
    if (table < symbol.begin || table > a) return;
    {
        const std::lock_guard lock(of_made);
        if (made.count(object)) return;
    }
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(b, *b.running, code, Op::load);
    p.ended = "calls a virtual function of an object that the host has constructed, a `" + demangled(symbol.table_of.c_str()) + "`";
    add(std::move(p));
    stop_thread(b);
}

}  // namespace cuda_on_cpu
