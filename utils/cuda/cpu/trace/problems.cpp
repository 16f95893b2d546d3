// Problems: what a trace notes when an access or a launch goes wrong, and what becomes of the thread. Accesses
// (accesses.cpp), hooks (hooks.cpp) and events (events.cpp) call these functions; report.cpp writes the problems down.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "../host/arrays.h"
#include "../runtime/clusters.h"
#include "recorder.h"

namespace cuda_on_cpu {

Problem& Trace::add(Problem p) {
    if (again) {
        noted += p.kind != "undefined";  // a number that nobody may use
        return nothing = {};
    }
    total++;
    const bool suspect = p.suspect;
    const decltype(known)::key_type key{p.kind, p.who.code, p.has_other ? p.other.code + p.other.left : 0, p.region};
    if (goes_on && problems.size() >= max_problems && !known.count(key)) return nothing = {};
    auto [place, is_new] = known.try_emplace(key, problems.size());
    if (is_new) {
        problems.push_back(std::move(p));
        return problems.back();
    }
    Problem& noted = problems[place->second];
    noted.count++;
    noted.suspect = suspect && (noted.suspect || noted.harmless);  // what is a mistake once stays one
    noted.harmless = false;
    return noted;
}

bool trace_is_full(const Trace& t) {
    return t.over || (t.problems.size() >= t.max_problems && !t.again && !t.goes_on) || (t.recorder && t.recorder->is_over());
}

// A GPU would end the launch.
void Trace::fails(cudaError_t error) {
    if (!again && launch_error == cudaSuccess) launch_error = error;
}

void Trace::stop_thread(Block& b, cudaError_t error) {
    fails(error);
    b.traced->stopped = stopped = true;
    b.running->traced->stopped = true;
    if (trace_is_full(*this)) leave_block(*b.worker);
    end_thread();
}

void place_in(Problem& p, const Region* r, uintptr_t a) {
    p.address = a;
    if (r) p.space = r->space, p.gone = r->gone;
    if (const Block* of = r && p.space == Space::shared && block().cluster ? block_with(reinterpret_cast<void*>(a)) : nullptr) {
        p.in_cluster = true;
        p.owner = of->block;
    }
    if (!r || r->name.empty()) {
        p.offset = int64_t(a);
        return;
    }
    p.in_region = true;
    p.region = r->name;
    p.origin = r->origin;
    p.allocated = r->allocated;
    p.region_bytes = r->end - r->begin;
    p.element = r->element;
    p.offset = int64_t(a - r->begin);
}

// The pointer of an access is a local variable that was never set, or an index into one.
static void through_unset(Problem& p) {
    p.kind = "uninitialized";
    p.ended = p.who.op == Op::load ? "reads " : p.who.op == Op::store ? "writes " : "updates ";
    p.ended += std::to_string(p.bytes) + (p.bytes == 1 ? " byte" : " bytes") + " through a pointer that was never set";
}

// Whether the address is on the stack of another thread of the block, which may have ended.
static bool is_local_of_another(const Block& b, uintptr_t a) {
    const auto& fibers = b.worker->fibers;
    return std::any_of(fibers.begin(), fibers.end(), [&](const auto& fiber) {
        return fiber.get() != b.running && fiber->holds(reinterpret_cast<void*>(a));
    });
}

// Whether the access does no harm, so that the thread can go on.
bool Trace::out_of_bounds(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region,
                          const char* text) {
    Problem p;
    p.kind = "out_of_bounds";
    p.text = text;
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    std::string other = freed_memory(reinterpret_cast<void*>(a));
    if (other.empty()) other = host_memory(reinterpret_cast<void*>(a));
    if (is_local_of_another(b, a)) other = "a local variable of another thread";
    if (!other.empty()) {
        p.ended = (op == Op::load ? "reads " : "writes ") + other;
        region = nullptr;
    }
    if (is_unset_address(a)) through_unset(p);
    if (b.worker->heap_was_full) p.full_heap = kernels_heap_limit();
    place_in(p, region, a);
    add(std::move(p));
    fails(cudaErrorIllegalAddress);
    return region && region->nearly_holds(a, bytes);
}

// The compiler's check knows the type of the array and the index. The access that follows shows which array it is; but
// accesses to a thread's local array are not reported, and it must not be overrun.
void Trace::outside_array(const char* type, int64_t index, const void* code) {
    if (!in_thread()) return;
    Block& b = block();
    TracedThread& t = *b.running->traced;
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
    TracedThread& t = *b.running->traced;
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
    if (is_unset_address(a)) through_unset(p);
    place_in(p, region, a);
    add(std::move(p));
    stop_thread(b, cudaErrorMisalignedAddress);
}

// A number that C++ leaves undefined, and that a GPU computes otherwise. It is computed from these bits; nobody may use it
// if they are what a variable holds that was never set. The thread goes on.
void Trace::undefined(std::string text, uint64_t bits, const void* code) {
    if (!in_thread()) return;
    Problem p;
    p.kind = "undefined";
    p.who = party(block(), *block().running, code, Op::load);
    p.text = std::move(text);
    p.suspect = is_unset_number(bits);
    add(std::move(p));
}

// A copy of more bytes than there can be: they were computed as fewer than none.
void Trace::negative_size(const char* function, size_t bytes, const void* code) {
    if (!in_thread()) return;
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(block(), *block().running, code, Op::store);
    p.ended = std::string("calls ") + function + " for " + std::to_string(int64_t(bytes)) + " bytes";
    add(std::move(p));
    stop_thread(block());
}

// An atomic on a local variable, in place of which nvcc compiles a trap.
void Trace::updates_local(Block& b, size_t bytes, const void* code) {
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(b, *b.running, code, Op::atomic);
    p.bytes = bytes;
    p.space = Space::local;
    p.ended = "updates a local variable atomically, but atomics are for global and shared memory";
    add(std::move(p));
    stop_thread(b, cudaErrorLaunchFailure);
}

// Memory of another kind than the access is for. `text` has a place for its name.
void Trace::not_meant_for(Block& b, const Region& region, const char* text, const void* code) {
    char written[200];
    snprintf(written, sizeof written, text, region.name.c_str());
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(b, *b.running, code, Op::load);
    p.ended = written;
    add(std::move(p));
}

// `__ldg` may read from a cache that hears of no store in the same launch, even if a barrier orders the two.
void Trace::through_ldg(uintptr_t a, size_t bytes, const void* code) {
    Block& b = block();
    bool ignore;
    Region* region = find(b, a, bytes, ignore);
    if (!region || !region->holds(a, bytes)) return;
    if (region->space == Space::shared) not_meant_for(b, *region, "reads %s with `__ldg`, which is for global memory", code);
    if (region->space != Space::global) return;
    const Record write = region->memory->shadow.wrong_write(a - region->memory->begin, bytes, order.since,
                                                            [](const Record&) { return true; });
    if (!write.time) return;
    const Site& site = requests.sites[write.site];
    Problem p;
    p.kind = "stale";
    p.who = party(b, *b.running, code, Op::load);
    p.bytes = bytes;
    p.other = {site.code, site.op, block_place(b.grid_dim, write.block), thread_place(b, write.thread), false};
    p.has_other = true;
    place_in(p, region, a);
    add(std::move(p));
}

void look_at_ldg(const void* p, size_t bytes) {
    if (tracing && in_thread()) tracing->through_ldg(reinterpret_cast<uintptr_t>(p), bytes, __builtin_return_address(0));
}

// Memory is read that nothing has been written to.
// `suspect`: some of these bytes have been written, and the thread may use no others.
void Trace::uninitialized(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, bool suspect) {
    if (b.traced->stopped) return;
    Problem p;
    p.kind = "uninitialized";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    p.suspect = suspect;
    place_in(p, region, a);
    add(std::move(p));
}

// Whether an asynchronous copy, for which nobody has waited yet, writes some of these bytes at some time from now on;
// then it is a problem.
bool Trace::in_flight(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, bool unwritten) {
    TracedBlock& tb = *b.traced;
    const size_t at = a - reinterpret_cast<uintptr_t>(b.arena.get());
    auto begin = tb.flights.begin() + at;
    auto found = std::find_if(begin, begin + bytes, [](const auto& flight) { return flight.count; });
    if (found == begin + bytes) return false;
    Problem p;
    p.under_way = true;
    p.kind = unwritten || found->thread == b.running->number ? "uninitialized" : "race";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    p.other = {module_begin + found->code, Op::store, b.block, thread_place(b, found->thread), false};
    p.has_other = true;
    place_in(p, region, a);
    add(std::move(p));
    return true;
}

// A block has ended, and copies have begun that nobody has waited for. One that was used too early has been reported.
void Trace::left_in_flight(Block& b) {
    TracedBlock& tb = *b.traced;
    std::vector<uint32_t> told;
    for (const Problem& p : problems)
        if (p.under_way) told.push_back(uint32_t(p.other.code - module_begin));
    for (size_t at = 0; at < tb.flights.size(); at++) {
        const TracedBlock::Flight& flight = tb.flights[at];
        if (!flight.count || std::find(told.begin(), told.end(), flight.code) != told.end()) continue;
        told.push_back(flight.code);
        const uintptr_t a = reinterpret_cast<uintptr_t>(b.arena.get()) + at;
        Problem p;
        p.kind = "asynchronous";
        p.under_way = true;
        p.who = {module_begin + flight.code, Op::store, b.block, thread_place(b, flight.thread), false};
        place_in(p, find_shared(b, a, 1), a);
        p.bytes = p.element;
        add(std::move(p));
    }
}

uint64_t trace_fresh_shared(const Trace& t) { return t.fresh; }

uint64_t trace_absent_lane(Trace& t, Block& b, unsigned int lane, bool in_mask, const char* function, const void* code) {
    unsigned int warp = b.running->number / 32;
    Problem p;
    p.kind = "undefined_shuffle";
    p.who = party(b, *b.running, code);
    p.index = lane;
    p.has_index = true;
    p.suspect = true;
    p.text = std::string("gets from ") + function + " what lane " + std::to_string(lane) + " holds, which " +
             (!in_mask                         ? "is not in the mask"
              : warp * 32 + lane >= b.threads  ? "this block does not have"
                                               : "has left the kernel");
    if (!b.traced->stopped) t.add(std::move(p));
    return t.absent;
}

void look_at_width(int width, const char* function) {
    if (!in_thread() || !tracing) return;
    Problem p;
    p.kind = "undefined_shuffle";
    p.who = party(block(), *block().running, __builtin_return_address(0));
    p.text = std::string("calls ") + function + " with a width of " + std::to_string(width) +
             ", which is not a power of two up to 32";
    tracing->add(std::move(p));
}

void Trace::race(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, const Record& before,
                 Strength strength, const Copy* copy) {
    Problem p;
    const Site& other = requests.sites[before.site];
    p.under_way = copy && copy->begun;
    p.copied = is_copy(other.copy) || (copy && is_copy(copy->bytes));
    p.one_block = before.block == b.number;
    p.one_warp = p.one_block && before.thread / 32 == b.running->number / 32;
    auto atomic = [](Op op, Strength s) { return op == Op::atomic || s != Strength::weak; };
    p.of_block = !p.one_block && atomic(op, strength) && atomic(other.op, other.strength) &&
                 (strength == Strength::of_block || other.strength == Strength::of_block);
    p.both_volatile = strength == Strength::of_volatile && other.strength == Strength::of_volatile;
    const bool one_block = p.one_block, one_warp = p.one_warp;
    p.kind = "race";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    dim3 grid = b.grid_dim;
    p.other = {other.code, other.op, block_place(grid, before.block), thread_place(b, before.thread), false};
    p.has_other = true;
    place_in(p, region, a);
    Problem& noted = add(std::move(p));
    noted.one_block &= one_block;
    noted.one_warp &= one_warp;
}

void trace_misaligned(Trace& t, const void* address, size_t needs, Access access, const void* code) {
    t.misaligned(address, needs, Op(int(access)), code);
}

void trace_wrong_stride(Trace& t, const void* tile, std::string text, Access access, const void* code) {
    Block& b = block();
    bool ignore;
    Problem p;
    p.kind = "misaligned";
    p.text = std::move(text);
    p.who = party(b, *b.running, code, Op(int(access)));
    place_in(p, t.find(b, reinterpret_cast<uintptr_t>(tile), 1, ignore), reinterpret_cast<uintptr_t>(tile));
    t.add(std::move(p));
    t.stop_thread(b, cudaErrorMisalignedAddress);
}

void trace_access(Trace& t, const void* address, size_t bytes, Access access, const void* code) {
    t.access(address, bytes, Op(int(access)), code);
}
void trace_row(Trace& t, const void* row, Access access, bool transposed, const void* code) {
    Copy rows{transposed ? matrix_columns : matrix_rows};
    t.access(row, 16, Op(int(access)), code, Strength::weak, Parts::whole, &rows);
}

}  // namespace cuda_on_cpu
