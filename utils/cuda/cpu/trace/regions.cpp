// Where an address is: in which tensor, shared variable or variable of the module. `Trace::find` is asked by every
// access that is not in the memory which its place in the code touched last (accesses.cpp).
//
// This is the one file that needs Linux and ELF: it asks the loader where libraries and their variables are.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "../runtime/clusters.h"
#include "state.h"

namespace cuda_on_cpu {

void set_padding(TracedBlock& b, size_t number, const SharedVariable& variable) {
    if (!variable.clear_padding) return;
    Memory& memory = *b.shared[number].memory;
    std::vector<unsigned char> element(variable.element_bytes, 0xFF);
    variable.clear_padding(element.data());
    for (size_t at = 0; at < element.size(); at++)
        for (size_t i = at; i < memory.bytes && !element[at]; i += element.size())
            memory.shadow.set_initialized(i, 1, b.order.begun);
}

Region* Trace::find_shared(Block& b, uintptr_t a, size_t bytes) {
    TracedBlock& tb = *b.traced;
    for (size_t i = tb.shared.size(); i < b.variables.size(); i++) {  // those that are new
        const auto& v = b.variables[i];
        Region r;
        r.name = v.variable->name;
        if (v.variable->type) shared_types[r.name] = demangled(v.variable->type->name());
        r.space = Space::shared;
        r.begin = reinterpret_cast<uintptr_t>(b.arena.get()) + v.offset;
        r.end = r.begin + (v.variable->bytes ? v.variable->bytes : b.dynamic_bytes);
        r.slack = 512;
        r.element = v.variable->element_bytes;
        r.alignment = v.variable->element_alignment;
        r.keep_memory();
        tb.shared.push_back(std::move(r));
        set_padding(tb, i, *v.variable);
    }
    Region* near = nullptr;
    uintptr_t distance = ~uintptr_t(0);
    for (Region& r : tb.shared) {
        if (r.holds(a, bytes)) return &r;
        uintptr_t d = a < r.begin ? r.begin - a : a < r.end ? 0 : a - r.end;
        if (d < distance) distance = d, near = &r;
    }
    return near;
}

size_t trace_room(const Trace& t, const void* p) {
    const auto a = reinterpret_cast<uintptr_t>(p);
    for (const auto& r : t.regions)
        if (a >= r->begin && a < r->end) return r->end - a;
    return SIZE_MAX;
}

// Which tensor was meant by an address that is in none: the one that this code has touched before, or the nearest.
Region* Trace::nearest(uintptr_t a, uintptr_t place) {
    if (is_unset_address(a) || a < 65536) return nullptr;  // next to a null pointer, no tensor was meant
    Region *near = nullptr, *before = static_cast<Region*>(requests.last(place).memory);
    if (before) return before;
    uintptr_t distance = ~uintptr_t(0);
    for (auto& r : regions) {
        uintptr_t d = a < r->begin ? r->begin - a : a >= r->end ? a - r->end : 0;
        if (d < distance && d < (r->slack && r->named ? far_apart : size_t(1) << 30)) distance = d, near = r.get();
    }
    return near;
}

static Region region_of(const LocalArray& l) {
    Region found;
    found.space = Space::local;
    found.name = l.name;
    found.begin = l.begin;
    found.end = l.end;
    found.element = l.element;
    found.alignment = l.alignment;
    found.slack = local_marks;
    return found;
}

// The running thread's local array whose marks an access touches, or which is gone; for one to what is no part of the
// thread's frames, the nearest local array. nullptr for what is not checked: other local variables.
Region* Trace::left_local(Block& b, uintptr_t a, size_t bytes) {
    const TracedThread& t = *b.running->traced;
    for (const auto& [array, depth] : t.ended) {
        if (a < array.begin || a + bytes > array.end) continue;
        local = region_of(array);
        local.gone = depth > t.depth ? "its function has returned" : "the braces that it is declared in have ended";
        return &local;
    }
    const LocalArray* left = nullptr;
    for (const LocalArray& l : t.locals) {
        if (a >= l.begin && a + bytes <= l.end) return nullptr;
        if (left && a >= left->begin && a < left->end) continue;  // it begins there
        if (a + bytes + local_marks > l.begin && a < l.end + local_marks) left = &l;
    }
    const char* p = reinterpret_cast<char*>(a);
    if (!left) {
        if (p >= __builtin_frame_address(0) && p < b.running->top) return nullptr;
        auto distance = [&](const LocalArray& l) { return a < l.begin ? l.begin - a : a - l.end; };
        for (const LocalArray& l : t.locals)
            if (!left || distance(l) <= distance(*left)) left = &l;
    }
    local = left ? region_of(*left) : Region();
    local.space = Space::local;
    return &local;
}

// `ignore` is set for what a trace leaves out: local variables, and what the engine itself keeps.
Region* Trace::find(Block& b, uintptr_t a, size_t bytes, bool& ignore) {
    ignore = true;
    if (b.running->around(reinterpret_cast<void*>(a))) {
        Region* left = left_local(b, a, bytes);
        ignore = !left;
        return left;
    }
    uintptr_t block_begin = reinterpret_cast<uintptr_t>(&b);
    if ((a >= block_begin && a < block_begin + sizeof(Block)) || a == reinterpret_cast<uintptr_t>(&here)) return nullptr;
    if (is_unset_table(a)) return nullptr;
    ignore = false;
    if (b.arena.around(reinterpret_cast<void*>(a))) return find_shared(b, a, bytes);
    if (b.cluster)
        if (Block* peer = block_with(reinterpret_cast<void*>(a))) return find_shared(*peer, a, bytes);
    for (auto& r : regions)
        if (r->holds(a, bytes)) return r.get();
    if (Region* r = variable_at(a, bytes)) return r;
    ignore = (a >= module_begin && a < module_end) || (a >= stack_begin && a < stack_end) ||
             (a >= arguments_begin && a < arguments_end);
    return nullptr;
}

std::string trace_name_of(Trace& t, const void* p) {
    for (auto& r : t.regions)
        if (r->holds(reinterpret_cast<uintptr_t>(p), 1) && !r->name.starts_with("memory from")) return r->name;
    return "";
}

// The last of the module's variables that begins at `a` or before it; one that begins at 0 if there is none.
const Symbol* Trace::symbol_at(uintptr_t a) {
    if (symbols.empty()) {
        Dl_info info;
        if (!dladdr(reinterpret_cast<void*>(a), &info)) info = {};
        symbols = variables_in_file(info.dli_fname ? info.dli_fname : "", reinterpret_cast<uintptr_t>(info.dli_fbase));
        symbols.insert(symbols.begin(), Symbol{});  // it has been looked for
    }
    auto behind = std::upper_bound(symbols.begin(), symbols.end(), a, [](uintptr_t a, const Symbol& s) { return a < s.begin; });
    return &behind[-1];
}

// A variable of the module: `__constant__`, or `__device__` and not constant.
Region* Trace::variable_at(uintptr_t a, size_t bytes) {
    bool constant = a >= constant_begin && a < constant_end;
    bool mine = constant;
    for (auto [begin, end] : writable) mine = mine || (a >= begin && a < end);
    if (!mine) return nullptr;
    for (auto& r : variables)
        if (a >= r->begin && a < r->end) return r.get();
    const Symbol* at = symbol_at(a);  // what is between two was meant for the first
    if (at->name.empty() && a - at->begin < at->bytes) return nullptr;
    while (at->name.empty() && at->begin) at--;
    const size_t element = bytes <= 16 ? bytes : 1;  // more is a memset or the like
    auto region = std::make_unique<Region>();
    region->space = constant ? Space::constant : Space::global;
    region->begin = a / 16 * 16;
    region->end = region->begin + 16;
    region->name = "a variable";
    if (const Symbol& s = *at; s.begin) {
        region->name = s.name.starts_with("_Z") ? demangled(s.name.c_str()) : s.name;  // `b` is no bool
        region->begin = s.begin;
        region->end = s.begin + s.bytes;
    }
    region->element = region->alignment = element;
    region->keep_memory();
    variables.push_back(std::move(region));
    return variables.back().get();
}

static Library extent(const dl_phdr_info& info) {
    Library all{UINTPTR_MAX, 0};
    for (int i = 0; i < info.dlpi_phnum; i++) {
        if (info.dlpi_phdr[i].p_type != PT_LOAD) continue;
        uintptr_t from = info.dlpi_addr + info.dlpi_phdr[i].p_vaddr;
        all.begin = std::min(all.begin, from);
        all.end = std::max<uintptr_t>(all.end, from + info.dlpi_phdr[i].p_memsz);
    }
    return all;
}

Library library_around(const void* address) {
    struct Search {
        const void* address;
        Library found;
    } search{address, {}};
    const auto look = [](dl_phdr_info* info, size_t, void* data) {
        Search& search = *static_cast<Search*>(data);
        const Library all = extent(*info);
        if (!all.holds(search.address)) return 0;
        search.found = all;
        return 1;
    };
    dl_iterate_phdr(look, &search);
    return search.found;
}

static int note_module(dl_phdr_info* info, size_t, void* data) {
    Trace& t = *static_cast<Trace*>(data);
    const Library all = extent(*info);
    if (!all.holds(reinterpret_cast<void*>(t.module_begin))) return 0;
    t.module_begin = all.begin;
    t.module_end = all.end;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_W)) continue;
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        for (auto part : outside_guards(from, from + info->dlpi_phdr[i].p_memsz)) t.writable.push_back(part);
    }
    return 1;
}

void Trace::look_at_module(const void* code) {
    uintptr_t a = reinterpret_cast<uintptr_t>(code);
    if (a >= module_begin && a < module_end) return;
    variables.clear();
    symbols.clear();
    writable.clear();
    requests.forget_memory();
    module_begin = a;
    dl_iterate_phdr(note_module, this);
}

void constant_memory(const void* begin, const void* end) {
    if (!tracing) return;
    tracing->constant_begin = reinterpret_cast<uintptr_t>(begin);
    tracing->constant_end = reinterpret_cast<uintptr_t>(end);
}

bool trace_has_code(const Trace& t, const void* place) {
    uintptr_t a = reinterpret_cast<uintptr_t>(place);
    return a >= t.module_begin && a < t.module_end;
}

}  // namespace cuda_on_cpu
