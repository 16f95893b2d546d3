// Problems: what a trace notes when an access or a launch goes wrong, and what becomes of the thread. Accesses
// (accesses.cpp), hooks (hooks.cpp) and events (events.cpp) call these functions; report.cpp writes the problems down.
#include <algorithm>

#include "state.h"

namespace cuda_on_cpu {

void Trace::add(Problem p) {
    total++;
    auto [place, is_new] = known.try_emplace({p.kind, p.who.code, p.has_other ? p.other.code + p.other.left : 0, p.region},
                                             problems.size());
    if (is_new)
        problems.push_back(std::move(p));
    else
        problems[place->second].count++;
}

bool trace_is_full(const Trace& t) { return t.over || t.problems.size() >= t.max_problems; }

void Trace::stop_thread(Block& b) {
    b.traced->stopped = stopped = true;
    b.traced->threads[b.running->number].stopped = true;
    if (trace_is_full(*this)) leave_block(*b.worker);
    end_thread();
}

void place_in(Problem& p, const Region* r, uintptr_t a) {
    if (!r) {
        p.offset = int64_t(a);
        return;
    }
    p.in_region = true;
    p.region = r->name;
    p.space = r->space;
    p.region_bytes = r->end - r->begin;
    p.element = r->element;
    p.offset = int64_t(a - r->begin);
}

// Whether the access does no harm, so that the thread can go on.
bool Trace::out_of_bounds(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region) {
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    place_in(p, region, a);
    add(std::move(p));
    return region && region->nearly_holds(a, bytes);
}

// The compiler's check knows the type of the array and the index. The access that follows shows which array it is; but
// accesses to a thread's local array are not reported, and it must not be overrun.
void Trace::outside_array(const char* type, int64_t index, const void* code) {
    if (!in_thread()) return;
    Block& b = block();
    TracedThread& t = b.traced->threads[b.running->number];
    t.array_type = type;
    t.array_index = index;
    t.array_code = code;
    std::string dims = type;
    dims = dims.substr(std::min(dims.find('['), dims.size()));
    find_shared(b, 0, 1);  // notes all shared variables so far
    for (const auto& [name, shared] : shared_types)
        if (shared.size() >= dims.size() && shared.compare(shared.size() - dims.size(), dims.size(), dims) == 0) return;
    tell_array(b, nullptr, 0, 0, Op::load);
}

void Trace::tell_array(Block& b, Region* region, uintptr_t a, size_t bytes, Op op) {
    TracedThread& t = b.traced->threads[b.running->number];
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(b, *b.running, t.array_code, op);
    p.type = t.array_type;
    p.index = t.array_index;
    p.has_index = true;
    if (region) {
        p.bytes = bytes;
        place_in(p, region, a);
    }
    t.array_type = nullptr;
    add(std::move(p));
    if (!region || !region->nearly_holds(a, bytes)) stop_thread(b);
}

void Trace::misaligned(const void* address, size_t needs, Op op, const void* code) {
    if (!in_thread()) return;
    Block& b = block();
    uintptr_t a = reinterpret_cast<uintptr_t>(address);
    bool ignore;
    Region* region = find(b, a, 1, ignore);
    Problem p;
    p.kind = "misaligned";
    p.who = party(b, *b.running, code, op);
    p.bytes = p.needs = needs;
    place_in(p, region, a);
    add(std::move(p));
    stop_thread(b);
}

void Trace::race(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, const Record& before,
                 bool under_way) {
    Problem p;
    const Site& other = requests.sites[before.site];
    p.under_way = under_way;
    p.copied = other.copy && other.op == Op::store;
    p.kind = "race";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    dim3 grid = b.grid_dim;
    p.other = {other.code, other.op, block_place(grid, before.block), thread_place(b, before.thread), false};
    p.has_other = true;
    place_in(p, region, a);
    add(std::move(p));
}

void trace_misaligned(Trace& t, const void* address, size_t needs, Access access, const void* code) {
    t.misaligned(address, needs, Op(int(access)), code);
}

void trace_refused(Trace& t, const char* kernel, const std::string& why) {
    Problem p;
    p.kind = "refused_launch";
    p.text = std::string("the launch of ") + kernel + " is refused (CUDA error: invalid argument): " + why;
    t.add(std::move(p));
}

}  // namespace cuda_on_cpu
