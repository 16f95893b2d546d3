// A block's shared memory: where it is, and the place of each variable in it. Device code asks for a variable by
// `static_shared` and `dynamic_shared` (launch.h).
#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "profile.h"
#include "../guard/space.h"
#include "clusters.h"

namespace cuda_on_cpu {

void Arena::make(size_t bytes) {
    const size_t page = sysconf(_SC_PAGESIZE), wanted = (bytes + page - 1) / page * page;
    if (wanted > room) {
        release();
        const size_t space = std::max<size_t>(wanted, 1024 * 1024);
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
    if (wanted > open) mprotect(begin + open, wanted - open, PROT_READ | PROT_WRITE);
    if (wanted < open) mprotect(begin + wanted, open - wanted, PROT_NONE);
    open = wanted;
}

void Arena::release() {
    if (begin) munmap(begin - guard, room + 2 * guard);
    begin = nullptr;
    open = room = 0;
}

void* static_shared(const SharedVariable* variable) {
    Block& b = block();
    for (const auto& known : b.variables)
        if (known.variable == variable) return b.arena.get() + known.offset;
    Worker& w = *b.worker;
    int in_kernel = w.in_kernel;
    w.in_kernel = 0;
    size_t alignment = std::max<size_t>(variable->alignment, 16);
    b.static_bytes = (b.static_bytes + alignment - 1) / alignment * alignment + variable->bytes;
    if (b.static_bytes > profile.shared_bytes || b.static_bytes + b.dynamic_bytes > profile.shared_bytes_opt_in ||
        (b.dynamic_bytes <= profile.shared_bytes && b.static_bytes + b.dynamic_bytes > profile.shared_bytes))
        fail(too_much_shared);
    if (w.trace) alignment = std::max<size_t>(alignment, 1024);
    const size_t offset = (b.static_end + (w.trace ? traced_gap : 0) + alignment - 1) / alignment * alignment;
    // At the same place in all blocks of a cluster, so that an address in one of them leads to that in another.
    for (unsigned int rank = 0; rank < cluster_size(b); rank++) {
        Block& peer = cluster_block(b, rank);
        peer.static_bytes = b.static_bytes;
        peer.static_end = offset + variable->bytes;
        peer.variables.push_back({variable, offset});
        fill_with_poison(peer.arena.get() + offset, variable->bytes);
    }
    if (in_kernel) enter_kernel(w);
    return b.arena.get() + offset;
}

void* dynamic_shared(const char* name, size_t element_bytes, size_t element_alignment) {
    Block& b = block();
    size_t offset = dynamic_offset(*b.worker, b.dynamic_bytes);
    if (b.worker->trace && !b.dynamic.name)
        for (unsigned int rank = 0; rank < cluster_size(b); rank++) {
            Block& peer = cluster_block(b, rank);
            peer.dynamic = {name, 0, 16, element_bytes, element_alignment, nullptr};
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
    const unsigned char* dynamic = b.arena.get() + dynamic_offset(*b.worker, b.dynamic_bytes);
    if (at < dynamic) return "byte " + std::to_string(at - b.arena.get()) + " of shared memory";
    return "byte " + std::to_string(at - dynamic) + " of dynamic shared memory";
}

bool is_shared(const void* p) { return block().arena.around(p); }
bool is_local(const void* p) { return block().running && block().running->holds(p); }
unsigned char* shared_memory() { return block().arena.get(); }

void poison_shared(Block& b) {
    for (const auto& [variable, offset] : b.variables) fill_with_poison(b.arena.get() + offset, variable->bytes);
    fill_with_poison(b.arena.get() + dynamic_offset(*b.worker, b.dynamic_bytes), b.dynamic_bytes);
}

size_t dynamic_shared_bytes() { return block().dynamic_bytes; }

}  // namespace cuda_on_cpu
