// Boxes of tensor maps in a trace: does one fit where it is to go, and may the map itself be read already? What the
// copies then do is examined as any other of the bulk copy engine (asynchronous.cpp).
#include "../runtime/boxes.h"

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "state.h"

namespace cuda_on_cpu {

static std::string size_of(const TensorMap& map) {
    std::string text;
    for (int d = 0; d < map.rank; d++) text += (d ? " x " : "") + std::to_string(map.count(d));
    return text;
}

void trace_box(Trace& t, Block& b, const TensorMap& map, const void* shared, bool loads, const void* code) {
    const uintptr_t a = reinterpret_cast<uintptr_t>(shared);
    Region* region = b.arena.around(shared) ? t.find_shared(b, a, 1) : nullptr;
    if (!region || !region->holds(a, 1)) return;
    const bool fits = region->holds(a, map.room());
    if (fits && (a - reinterpret_cast<uintptr_t>(b.arena.get())) % 128 == 0) return;
    Problem p;
    p.kind = fits ? "misaligned" : "box";
    p.who = party(b, *b.running, code, loads ? Op::store : Op::load);
    p.text = size_of(map);
    p.bytes = map.room();
    p.needs = fits ? 128 : 0;
    place_in(p, region, a);
    t.add(std::move(p));
    t.stop_thread(b, fits ? cudaErrorMisalignedAddress : cudaErrorIllegalAddress);
}

void trace_map(Trace& t, Block& b, const void* map, const void* code) {
    bool ignore;
    const uintptr_t a = reinterpret_cast<uintptr_t>(map);
    Region* region = t.find(b, a, sizeof(CUtensorMap), ignore);
    if (!region || region->space != Space::global || !region->holds(a, sizeof(CUtensorMap))) return;
    const uint32_t fence = b.running->traced->map_fence;
    const Memory& memory = *region->memory;
    const Record written = memory.shadow.wrong_write(a - memory.begin, sizeof(CUtensorMap), t.order.since,
                                                     [&](const Record& x) { return x.time >= fence; });
    if (!written.time) return;
    Problem p;
    p.kind = "map_fence";
    p.who = party(b, *b.running, code);
    const Site& other = t.requests.sites[written.site];
    p.other = {other.code, other.op, block_place(b.grid_dim, written.block), thread_place(b, written.thread), false};
    p.has_other = true;
    place_in(p, region, a);
    t.add(std::move(p));
}

void trace_map_fence(Trace& t, Block& b) { b.running->traced->map_fence = ++t.order.now; }

}  // namespace cuda_on_cpu
