// A block's shared memory: where it is, and the place of each variable in it. Device code asks for a variable by
// `static_shared` and `dynamic_shared` (launch.h).
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "profile.h"
#include "../guard/space.h"
#include "clusters.h"

namespace cuda_on_cpu {

static uint64_t fresh_shared(const Block& b) { return b.worker->trace ? trace_fresh_shared(*b.worker->trace) : poison; }

void Arena::make(size_t first_byte, size_t end, const void* wanted_by) {
    const size_t from = first_byte / page_bytes() * page_bytes(), to = rounded_up(end, page_bytes());
    if (begin && user == wanted_by && open.from == from && open.to == to) return;
    user = nullptr;
    if (to > room) {
        release();
        const size_t space = std::max<size_t>(to, 1024 * 1024);
        for (size_t around : {space_is_plentiful() ? far_apart : 0, size_t(1024 * 1024)}) {
            char* pages = around ? reserve(space + 2 * around) : nullptr;
            if (!pages) continue;
            begin = reinterpret_cast<unsigned char*>(pages) + around;
            guard = around;
            room = space;
            break;
        }
        if (!begin) throw std::bad_alloc();
    }
    if (mprotect(begin, room, PROT_NONE) || mprotect(begin + from, to - from, PROT_READ | PROT_WRITE))
        throw std::bad_alloc();
    open = {0, from, to};
    user = wanted_by;
}

bool Arena::grow(size_t bytes) {
    if (holds(0, bytes)) return true;
    const size_t first = rounded_up(bytes, page_bytes());
    if (mprotect(begin, first, PROT_READ | PROT_WRITE)) return false;
    open.first = first;
    return true;
}

void Arena::release() {
    if (begin) munmap(begin - guard, room + 2 * guard);
    begin = nullptr;
    open = {};
    room = 0;
}

// ---- what may be touched, since it is on the same pages, but belongs to no variable ---------------------------------

// NaN as float and as half. Arithmetic changes it, as it makes a signaling NaN quiet.
constexpr uint32_t loose_mark = 0x7FA57DA5;

static size_t dynamic_begin(const Block& b) { return dynamic_offset(*b.worker, b.dynamic_bytes); }

template <class Function>
static void each_loose(const Block& b, Function function) {
    const auto [first, from, to] = b.arena.is_open();
    const size_t dynamic = dynamic_begin(b), behind_static = std::min(first, dynamic);
    function(b.static_end, behind_static);
    function(std::max(from, behind_static), dynamic);
    function(dynamic + b.dynamic_bytes, to);
}

static void mark_loose(Block& b) {
    if (b.worker->trace) return;
    each_loose(b, [&](size_t at, size_t end) {
        for (at = rounded_up(at, 4); at < end; at += 4) memcpy(b.arena.get() + at, &loose_mark, 4);
    });
}

std::string shared_damage(const Block& b, const char* kernel) {
    std::string found;
    if (b.worker->trace) return found;
    each_loose(b, [&](size_t at, size_t end) {
        const unsigned char* arena = b.arena.get();
        at = rounded_up(at, 4);
        if (at >= end) return;
        if (!memcmp(arena + at, &loose_mark, 4) && !memcmp(arena + at, arena + at + 4, end - at - 4)) return;
        while (!memcmp(arena + at, &loose_mark, 4)) at += 4;
        found = "CUDA error: an illegal memory access was encountered: a thread of " + block_name(b.block, kernel) +
                " wrote " + beside_shared(b, reinterpret_cast<const char*>(arena + at));
    });
    return found;
}

void prepare_shared(Worker& w, Block& b, size_t dynamic_bytes, void (*run_threads)(void*)) {
    const size_t dynamic = dynamic_offset(w, dynamic_bytes), end = dynamic + dynamic_bytes;
    if (w.trace)
        b.arena.make(0, end + 2 * traced_gap, nullptr);
    else
        b.arena.make(dynamic, end, reinterpret_cast<const void*>(run_threads));
    b.worker = &w;
    b.variables.clear();
    b.dynamic = {};
    b.uses_dynamic = false;
    b.static_bytes = b.static_end = 0;
    b.dynamic_bytes = dynamic_bytes;
    mark_loose(b);
}

// "8 bytes past", "right past".
static std::string past(ptrdiff_t bytes) { return bytes ? std::to_string(bytes) + " bytes past" : "right past"; }

// Where an address around a block's shared memory is, and what to do.
std::string beside_shared(const Block& b, const char* address) {
    const auto at = address - reinterpret_cast<const char*>(b.arena.get());
    const auto dynamic = ptrdiff_t(dynamic_begin(b)), end = dynamic + ptrdiff_t(b.dynamic_bytes);
    const std::string bytes = std::to_string(b.dynamic_bytes), ask = ": a trace of this launch shows the line";
    if (at < 0) return "before the start of shared memory" + ask;
    if (b.uses_dynamic && !b.dynamic_bytes && at >= dynamic)
        return "dynamic shared memory, but this launch has none: <<<blocks, threads, bytes>>>, or from Python "
               "kernel[blocks, threads, bytes], gives it some";
    if (b.dynamic_bytes && at >= end)
        return past(at - end) + " the " + bytes +
               " bytes of dynamic shared memory that this launch has" + ask;
    if (b.dynamic_bytes && (b.variables.empty() || dynamic - at < at - ptrdiff_t(b.static_end)))
        return std::to_string(dynamic - at) + " bytes before the start of dynamic shared memory" + ask;
    if (b.variables.empty()) return "shared memory, of which its block has none" + ask;
    return past(at - ptrdiff_t(b.static_end)) + " the end of " +
           (b.variables.size() > 1 ? "the last variable" : b.variables[0].variable->name) + " in shared memory" + ask;
}

// ---- variables ------------------------------------------------------------------------------------------------------

void* static_shared(const SharedVariable* variable) {
    Block& b = block();
    for (const auto& known : b.variables)
        if (known.variable == variable) return b.arena.get() + known.offset;
    Worker& w = *b.worker;
    int in_kernel = w.in_kernel;
    w.in_kernel = 0;
    size_t alignment = std::max<size_t>(variable->alignment, 16);
    b.static_bytes = (b.static_bytes + alignment - 1) / alignment * alignment + variable->bytes;
    if (b.static_bytes > profile.shared_bytes) fail(too_much_shared);
    if (b.static_bytes + b.dynamic_bytes > profile.shared_bytes)
        if (w.refusal = why_too_much_shared(*w.launch, b.static_bytes); !w.refusal.empty()) leave_block(w);
    if (w.trace) alignment = std::max<size_t>(alignment, 1024);
    const size_t offset = (b.static_end + (w.trace ? traced_gap : 0) + alignment - 1) / alignment * alignment;
    // At the same place in all blocks of a cluster, so that an address in one of them leads to that in another.
    for (unsigned int rank = 0; rank < cluster_size(b); rank++) {
        Block& peer = cluster_block(b, rank);
        peer.static_bytes = b.static_bytes;
        peer.static_end = offset + variable->bytes;
        peer.variables.push_back({variable, offset});
        if (!peer.arena.grow(peer.static_end)) fail(no_room);
        mark_loose(peer);
        fill_with_poison(peer.arena.get() + offset, variable->bytes, fresh_shared(peer));
    }
    if (in_kernel) enter_kernel(w);
    return b.arena.get() + offset;
}

void* dynamic_shared(const DynamicVariable* variable) {
    Block& b = block();
    size_t offset = dynamic_begin(b);
    b.uses_dynamic = true;
    if (b.worker->trace && !b.dynamic.name)
        for (unsigned int rank = 0; rank < cluster_size(b); rank++) {
            Block& peer = cluster_block(b, rank);
            peer.dynamic = {variable->name, 0, 16, variable->element_bytes, variable->element_alignment, nullptr,
                            variable->clear_padding};
            peer.variables.push_back({&peer.dynamic, offset});
        }
    return b.arena.get() + offset;
}

std::string name_in_shared(const Block& b, const void* address) {
    const auto* at = static_cast<const unsigned char*>(address);
    if (!b.arena.around(at)) return "the barrier outside shared memory";
    for (const auto& [variable, offset] : b.variables) {
        const size_t bytes = variable->bytes ? variable->bytes : b.dynamic_bytes;
        const unsigned char* begin = b.arena.get() + offset;
        if (at < begin || at >= begin + bytes) continue;
        const size_t inside = at - begin, element = variable->element_bytes;
        if (variable->bytes == element && !inside) return variable->name;
        if (element != 8) return "byte " + std::to_string(inside) + " of " + variable->name;
        return std::string(variable->name) + "[" + std::to_string(inside / 8) + "]";
    }
    const unsigned char* dynamic = b.arena.get() + dynamic_begin(b);
    if (at < dynamic) return "byte " + std::to_string(at - b.arena.get()) + " of shared memory";
    return "byte " + std::to_string(at - dynamic) + " of dynamic shared memory";
}

bool is_shared(const void* p) { return block().arena.around(p); }
bool is_local(const void* p) { return block().running && block().running->holds(p); }
unsigned char* shared_memory() { return block().arena.get(); }

void poison_shared(Block& b) {
    const uint64_t fresh = fresh_shared(b);
    for (const auto& [variable, offset] : b.variables) fill_with_poison(b.arena.get() + offset, variable->bytes, fresh);
    fill_with_poison(b.arena.get() + dynamic_begin(b), b.dynamic_bytes, fresh);
}

size_t dynamic_shared_bytes() { return block().dynamic_bytes; }

}  // namespace cuda_on_cpu
