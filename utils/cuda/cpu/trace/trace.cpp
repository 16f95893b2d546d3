// A trace: every access of a launch, checked and counted.
//
// The traced module is compiled with the compiler's own hooks for race detectors: before every load and store it calls
// `__tsan_read4(address)` and the like, and `__sanitizer_cov_trace_pc()` in every basic block. Linked with no sanitizer,
// it finds these functions in trace_hooks.cpp. Read `Trace::access` first.
//
// Three things are done with an access. It is looked up: which tensor or shared variable is it in (`find`)? It is
// compared with those before it: is there one by another thread that nothing orders (`races.h`)? And it is kept for the
// warp's other lanes, to be counted with theirs (`requests.h`).
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <random>

#include "trace_parts.h"

namespace cuda_on_cpu {

thread_local Trace* tracing CUDA_ON_CPU_FAST_TLS = nullptr;

static Party party(const Block& b, const Fiber& f, const void* code, Op op = Op::load) {
    return {reinterpret_cast<uintptr_t>(code), op, b.block, f.thread, false};
}

static uint3 thread_place(const Block& b, unsigned int i) {
    return {i % b.block_dim.x, i / b.block_dim.x % b.block_dim.y, i / b.block_dim.x / b.block_dim.y};
}

// ---- problems -------------------------------------------------------------------------------------------------------

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

// Whether the access does no harm, so that the thread may go on.
bool Trace::out_of_bounds(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, Region* region) {
    Problem p;
    p.kind = "out_of_bounds";
    p.who = party(b, *b.running, code, op);
    p.bytes = bytes;
    place_in(p, region, a);
    add(std::move(p));
    return region && region->nearly_holds(a, bytes);
}

// The compiler's check knows the type of the array and the index. Which array it is, the access that follows tells; but
// an array of the thread's own is never told of, and must not be written past.
void Trace::outside_array(const char* type, int64_t index, const void* code) {
    if (!in_thread()) return;
    Block& b = block();
    TracedThread& t = b.traced->threads[b.running->number];
    t.array_type = type;
    t.array_index = index;
    t.array_code = code;
    std::string dims = type;
    dims = dims.substr(std::min(dims.find('['), dims.size()));
    find_shared(b, 0, 1);  // takes notice of all shared variables so far
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

// ---- where an access goes -------------------------------------------------------------------------------------------

Region* Trace::find_shared(Block& b, uintptr_t a, size_t bytes) {
    TracedBlock& tb = *b.traced;
    for (size_t i = tb.shared.size(); i < b.variables.size(); i++) {  // those that were met since
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
        r.shadow.make(r.end - r.begin, r.element);
        tb.shared.push_back(std::move(r));
    }
    Region* near = nullptr;
    uintptr_t distance = ~uintptr_t(0);
    for (Region& r : tb.shared) {
        if (r.holds(a, bytes)) return &r;
        uintptr_t d = a < r.begin ? r.begin - a : a - r.end;
        if (d < distance) distance = d, near = &r;
    }
    return near;
}

// Which tensor was meant by an address that lies in none: the one that this code has touched before, or the nearest.
Region* Trace::nearest(uintptr_t a, uintptr_t place) {
    Region *near = nullptr, *before = static_cast<Region*>(requests.last_memory(place));
    if (before) return before;
    uintptr_t distance = ~uintptr_t(0);
    for (auto& r : regions) {
        uintptr_t d = a < r->begin ? r->begin - a : a >= r->end ? a - r->end : 0;
        if (d < distance && d < (r->slack && r->named ? far_apart : size_t(1) << 30)) distance = d, near = r.get();
    }
    return near;
}

// `ignore` for what is no business of a trace: local variables, and what the engine itself keeps.
Region* Trace::find(Block& b, uintptr_t a, size_t bytes, bool& ignore) {
    ignore = true;
    if (b.running->holds(reinterpret_cast<void*>(a))) return nullptr;
    uintptr_t block_begin = reinterpret_cast<uintptr_t>(&b);
    if ((a >= block_begin && a < block_begin + sizeof(Block)) || a == reinterpret_cast<uintptr_t>(&here)) return nullptr;
    ignore = false;
    uintptr_t arena = reinterpret_cast<uintptr_t>(b.arena.get());
    if (a >= arena && a < arena + b.arena.size()) return find_shared(b, a, bytes);
    for (auto& r : regions)
        if (r->holds(a, bytes)) return r.get();
    if (Region* r = variable_at(a, bytes)) return r;
    ignore = (a >= module_begin && a < module_end) || (a >= stack_begin && a < stack_end);
    return nullptr;
}

// A variable of the module: `__constant__`, or `__device__` and not constant.
Region* Trace::variable_at(uintptr_t a, size_t bytes) {
    bool constant = a >= constant_begin && a < constant_end;
    bool mine = constant;
    for (auto [begin, end] : writable) mine = mine || (a >= begin && a < end);
    if (!mine) return nullptr;
    for (auto& r : variables)
        if (r->holds(a, bytes)) return r.get();
    auto region = std::make_unique<Region>();
    region->space = constant ? Space::constant : Space::global;
    region->begin = a / 16 * 16;
    region->end = region->begin + 16;
    region->name = "a variable";
    Dl_info info;
    ElfW(Sym)* symbol = nullptr;
    if (dladdr1(reinterpret_cast<void*>(a), &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) &&
        info.dli_sname && symbol) {
        region->name = demangled(info.dli_sname);
        region->begin = reinterpret_cast<uintptr_t>(info.dli_saddr);
        region->end = region->begin + std::max<size_t>(symbol->st_size, bytes);
    }
    region->element = region->alignment = bytes;
    region->shadow.make(region->end - region->begin, bytes);
    variables.push_back(std::move(region));
    return variables.back().get();
}

void Trace::access(const void* address, size_t bytes, Op op, const void* code, bool is_volatile, bool is_struct,
                   const Copy* copy) {
    if (!in_thread()) return;
    beat();
    Block& b = block();
    uintptr_t a = reinterpret_cast<uintptr_t>(address);
    const uintptr_t place = reinterpret_cast<uintptr_t>(code) * 4 + uintptr_t(op);
    // A struct takes as many accesses as its alignment makes necessary.
    auto width = [&](const Region& r) {
        bool split = is_struct || (!copy && bytes == 16 && r.alignment == 8 && r.element >= 16);
        return split ? std::min<size_t>(16, r.alignment) : bytes;
    };
    Region* region = static_cast<Region*>(requests.last_memory(place));
    if (!region || !region->holds(a, bytes)) {
        bool ignore;
        region = find(b, a, bytes, ignore);
        if (ignore) return;
        if (!region) region = nearest(a, place);
        if (!region || !region->holds(a, bytes)) {
            b.traced->threads[b.running->number].array_type = nullptr;
            bool harmless = out_of_bounds(b, a, bytes, op, code, region);
            for (size_t at = 0; region && at < bytes; at += width(*region))  // a GPU makes them too, and they count
                keep(b, a + at, std::min(width(*region), bytes - at), op, code, *region, copy);
            if (!harmless) stop_thread(b);
            return;
        }
        if (region->space != Space::shared) requests.note_memory(place, region);
    }
    if (b.traced->threads[b.running->number].array_type) tell_array(b, region, a, bytes, op);
    for (size_t at = 0; at < bytes; at += width(*region))
        piece(b, a + at, std::min(width(*region), bytes - at), op, code, is_volatile, region, copy);
}

uint16_t Trace::site(size_t bytes, Op op, const void* code, const Region& region, const Copy* copy) {
    return requests.site(reinterpret_cast<uintptr_t>(code), region.space, op, bytes, copy ? copy->bytes : 0,
                         region.name, region.begin + region.shift, region.element);
}

// Keeps it for counting. The site that counts it.
uint16_t Trace::keep(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, const Region& region,
                     const Copy* copy) {
    TracedThread& t = b.traced->threads[b.running->number];
    uint16_t counts = site(bytes, op, code, region, copy);
    uint32_t place = reinterpret_cast<uintptr_t>(code) - module_begin;
    t.events.push_back({a + region.shift, copy ? copy->other : 0u, place, counts, uint8_t(bytes),
                        uint8_t(unsigned(op) | t.depth << 2)});
    return counts;
}

void Trace::piece(Block& b, uintptr_t a, size_t bytes, Op op, const void* code, bool is_volatile, Region* region,
                  const Copy* copy) {
    TracedBlock& tb = *b.traced;
    unsigned int number = b.running->number;
    TracedThread& t = tb.threads[number];
    bool ends = copy && copy->begun;  // an asynchronous copy, which was counted when it began
    uint16_t place = ends ? site(bytes, op, code, *region, copy) : keep(b, a, bytes, op, code, *region, copy);
    if (!region->written.empty() && op != Op::load)
        for (size_t i = 0; i < bytes; i++) region->written[a - region->begin + i] = true;
    if (region->space == Space::constant) return;

    Record me{order.now, uint32_t(b.number), uint16_t(number), place};
    bool shared = region->space == Space::shared;
    uint32_t since = shared ? tb.order.begun : order.since;
    bool as_atomic = op == Op::atomic || (is_volatile && !shared);
    if (as_atomic) order.acquire(tb.order, a);
    bool uninitialized = false;
    Record before = region->shadow.note(a - region->begin, bytes, me, op, as_atomic, since, shared, uninitialized,
                                        [&](const Record& x) { return ordered(x, me, tb.order, copy); });
    if (op != Op::load && as_atomic) order.release(tb.order, b.number, number, a);
    if (before.time) race(b, a, bytes, op, code, region, before, ends);
    if (uninitialized && !tb.stopped) {
        Problem p;
        p.kind = "uninitialized";
        p.who = party(b, *b.running, code, op);
        p.bytes = bytes;
        place_in(p, region, a);
        add(std::move(p));
    }
    if (is_volatile && !shared && t.events.size() % 64 == 0) step_aside();  // may wait for another thread to write
    if (t.events.size() >= Requests::most_events) make_room(b, t);
}

// Whether `x` came before the access by `me`. A copy writes at some time since it has begun: nothing since then came before
// it, but what its own thread did. What came earlier was looked at when it began.
bool Trace::ordered(const Record& x, const Record& me, const BlockOrder& b, const Copy* copy) const {
    if (!copy || !copy->begun) return order.ordered(x, me, b);
    return x.time < copy->begun || (x.block == me.block && x.thread == me.thread);
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

uint32_t trace_copy_begins(Trace& t, Block& b, const void* to, const void* from, size_t bytes, size_t zeros,
                           const void* code) {
    bool ignore;
    uintptr_t a = reinterpret_cast<uintptr_t>(to), f = reinterpret_cast<uintptr_t>(from);
    uintptr_t arena = reinterpret_cast<uintptr_t>(b.arena.get());
    // One instruction of a GPU, if it goes from global to shared memory. Zeros alone are a store.
    Region* source = bytes > zeros ? t.find(b, f, bytes - zeros, ignore) : nullptr;
    bool one = bytes >= 4 && source && source->space == Space::global && a >= arena && a < arena + b.arena.size();
    Copy there{bytes, uint16_t((a - arena) / 4)}, here{bytes, uint16_t((f + (one ? source->shift : 0)) / 4)};
    if (bytes > zeros) t.access(from, bytes - zeros, Op::load, code, false, false, one ? &there : nullptr);
    Region* region = t.find(b, a, bytes, ignore);
    if (!region || !region->holds(a, bytes)) {
        t.access(to, bytes, Op::store, code, false, false, one ? &here : nullptr);
        return 0;
    }
    t.keep(b, a, bytes, Op::store, code, *region, one ? &here : nullptr);
    const BlockOrder& order = b.traced->order;
    Record me{t.order.now, uint32_t(b.number), uint16_t(b.running->number), 0};
    uint32_t since = region->space == Space::shared ? order.begun : t.order.since;
    Record before = region->shadow.against_write(a - region->begin, bytes, since, [&](const Record& x) {
        return t.order.ordered(x, me, order);
    });
    if (before.time) t.race(b, a, bytes, Op::store, code, region, before);
    return t.order.now;
}

void trace_copy_ends(Trace& t, const void* to, size_t bytes, const void* code, uint32_t begun) {
    if (!begun) return;  // it went outside: that has been told
    Copy copy{bytes, 0, begun};
    t.access(to, bytes, Op::store, code, false, false, &copy);
}

// A basic block begins.
void Trace::step(const void* code) {
    if (!in_thread()) return;
    beat();
    Block& b = block();
    TracedThread& t = b.traced->threads[b.running->number];
    if (interrupted) leave_block(*b.worker);
    if (t.array_type) tell_array(b, nullptr, 0, 0, Op::load);
    // Threads that step aside for each other share the patience.
    if (++t.steps > max_steps || ++b.traced->steps > 8 * max_steps) {
        Problem p;
        p.kind = "runaway";
        p.who = party(b, *b.running, code);
        p.index = int64_t(max_steps);
        p.has_index = true;
        add(std::move(p));
        over = true;  // the other threads would take as long
        stop_thread(b);
    }
    uint16_t to = requests.flow.block(uint32_t(reinterpret_cast<uintptr_t>(code) - module_begin));
    requests.flow.went(t.at[t.depth], to);
    t.at[t.depth] = to;
    t.events.push_back({0, 0, 0, to, 0, uint8_t(unsigned(Op::none) | t.depth << 2)});
    if (t.events.size() >= Requests::most_events) make_room(b, t);
}

// How deep in calls a thread is: lanes in a function go on before those that have left it.
void Trace::call() {
    if (!in_thread()) return;
    TracedThread& t = block().traced->threads[block().running->number];
    if (t.depth < 63) t.at[++t.depth] = 0;
}

void Trace::come_back() {
    if (!in_thread()) return;
    TracedThread& t = block().traced->threads[block().running->number];
    if (t.depth > 1) t.depth--;
}

// ---- counting: the lanes of a warp together -------------------------------------------------------------------------

void Trace::drain(Block& b, unsigned int warp, bool all) {
    Requests::Lane* lanes[32] = {};
    unsigned int may_go_on = 0;
    const Warp& w = b.warps[warp];
    for (unsigned int i = 0; i < 32 && warp * 32 + i < b.threads; i++) {
        TracedThread& t = b.traced->threads[warp * 32 + i];
        lanes[i] = &t;
        if (!all && t.full && !(w.ended >> i & 1)) may_go_on |= 1u << i;
    }
    requests.count(lanes, may_go_on, b.number, warp, reinterpret_cast<uintptr_t>(b.arena.get()));
}

// So many accesses of one thread are kept: its warp's others have to catch up before it goes on.
void Trace::make_room(Block& b, TracedThread& t) {
    t.full = true;
    unsigned int warp = b.running->number / 32, others = 0;
    const Warp& w = b.warps[warp];
    unsigned int last = std::min(b.threads - warp * 32, 32u);
    for (unsigned int i = 0; i < last; i++) {
        bool rests = b.traced->threads[warp * 32 + i].full || (w.ended >> i & 1);
        others += rests;
    }
    if (others == last) {
        drain(b, warp, false);
        for (unsigned int i = 0; i < last; i++) b.traced->threads[warp * 32 + i].full = false;
        b.ready.add_all(b.at_trace);
        if (t.events.size() < Requests::most_events) return;
        t.full = true;
    }
    wait_for_trace(b.at_trace);
}

bool trace_go_on(Trace& trace, Block& b) {
    if (!b.at_trace.first) return false;
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++) trace.drain(b, warp, false);
    for (auto& t : b.traced->threads) {
        t.full = false;
        // Nothing may be taken out while a lane that is far behind still waits: then let this one collect more.
        if (t.events.size() >= Requests::most_events) t.events.reserve(2 * t.events.size());
    }
    b.ready.add_all(b.at_trace);
    return true;
}

// ---- what the runtime tells -----------------------------------------------------------------------------------------

static int note_module(dl_phdr_info* info, size_t, void* data) {
    Trace& t = *static_cast<Trace*>(data);
    uintptr_t begin = ~uintptr_t(0), end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        begin = std::min(begin, from);
        end = std::max(end, from + info->dlpi_phdr[i].p_memsz);
    }
    if (t.module_begin < begin || t.module_begin >= end) return 0;
    t.module_begin = begin;
    t.module_end = end;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_W)) continue;
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        t.writable.emplace_back(from, from + info->dlpi_phdr[i].p_memsz);
    }
    return 1;
}

void Trace::look_at_module(const void* code) {
    uintptr_t a = reinterpret_cast<uintptr_t>(code);
    if (a >= module_begin && a < module_end) return;
    variables.clear();
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

uint64_t trace_pulse(const Trace& t) { return __atomic_load_n(&t.pulse, __ATOMIC_RELAXED); }

bool trace_has_code(const Trace& t, const void* place) {
    uintptr_t a = reinterpret_cast<uintptr_t>(place);
    return a >= t.module_begin && a < t.module_end;
}

void trace_refused(Trace& t, const char* kernel, const std::string& why) {
    Problem p;
    p.kind = "refused_launch";
    p.text = std::string("the launch of ") + kernel + " is refused (CUDA error: invalid argument): " + why;
    t.add(std::move(p));
}

void trace_launch_begins(Trace& t, const Launch& launch, void (*code)(void*)) {
    t.look_at_module(reinterpret_cast<const void*>(code));
    t.grid = launch.grid;
    t.order.begin_launch();
    t.block_order.clear();
    t.thread_order.clear();
    if (t.seed >= 0) {
        std::mt19937_64 random(t.seed);
        t.thread_order.resize(launch.block.x * launch.block.y * launch.block.z);
        t.block_order.resize(uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z);
        for (size_t i = 0; i < t.thread_order.size(); i++) t.thread_order[i] = i;
        for (size_t i = 0; i < t.block_order.size(); i++) t.block_order[i] = i;
        std::shuffle(t.thread_order.begin(), t.thread_order.end(), random);
        std::shuffle(t.block_order.begin(), t.block_order.end(), random);
    } else if (t.seed == -2) {
        t.thread_order.resize(launch.block.x * launch.block.y * launch.block.z);
        for (size_t i = 0; i < t.thread_order.size(); i++) t.thread_order[i] = t.thread_order.size() - 1 - i;
    }
    pthread_attr_t attributes;
    void* stack = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &stack, &bytes);
        pthread_attr_destroy(&attributes);
    }
    t.stack_begin = reinterpret_cast<uintptr_t>(stack);
    t.stack_end = t.stack_begin + bytes;
}

void trace_launch_ends(Trace& t) { t.blocks.clear(); }

uint64_t trace_block(const Trace& t, uint64_t i, uint64_t blocks) {
    return t.seed >= 0 ? t.block_order[i] : t.seed == -2 ? blocks - 1 - i : i;
}

unsigned int trace_thread(const Trace& t, unsigned int i) { return t.thread_order.empty() ? i : t.thread_order[i]; }

void trace_block_begins(Trace& t, Block& b) {
    auto& tb = t.blocks[&b];
    if (!tb) tb = std::make_unique<TracedBlock>();
    b.traced = tb.get();
    tb->threads.resize(b.threads);
    for (auto& thread : tb->threads) thread.begin();
    tb->stopped = false;
    tb->steps = 0;
    if (b.variables.empty()) tb->shared.clear();
    t.order.begin_block(tb->order, b.threads);
}

void trace_block_ends(Trace& t, Block& b) {
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++) t.drain(b, warp, true);
}

void trace_thread_begins(Trace& t, Block& b, Fiber& fiber) {
    t.threads++;
    b.traced->threads[fiber.number].begin();
}

void trace_thread_ends(Trace& t, Block& b, Fiber& fiber) {
    unsigned int warp = fiber.number / 32, last = std::min(b.threads - warp * 32, 32u);
    unsigned int ended = b.warps[warp].ended | 1u << fiber.number % 32;
    unsigned int all = last == 32 ? ~0u : (1u << last) - 1;
    if ((ended & all) == all) t.drain(b, warp, true);
}

// A thread of the block that has ended by itself, not because the trace stopped it; -1 where there is none.
static int64_t one_that_left(const Block& b, unsigned int from, unsigned int to, unsigned int lanes = ~0u) {
    for (unsigned int i = from; i < to; i++)
        if ((b.warps[i / 32].ended >> i % 32 & 1) && (lanes >> i % 32 & 1) && !b.traced->threads[i].stopped) return i;
    return -1;
}

static Party gone(const Block& b, unsigned int thread) {
    return {0, Op::load, b.block, thread_place(b, thread), true};
}

static void divergence(Trace& t, const Block& b, const Fiber& waits, const Party& other, bool stuck = false) {
    Problem p;
    p.stuck = stuck;
    p.kind = "divergent_barrier";
    p.who = party(b, waits, waits.code);
    p.text = waits.function;
    p.other = other;
    p.has_other = true;
    t.add(std::move(p));
}

void trace_barrier_opens(Trace& t, Block& b) {
    Fiber* first = b.at_barrier.first;
    int64_t left = one_that_left(b, 0, b.threads);
    if (left >= 0) divergence(t, b, *first, gone(b, left));
    for (Fiber* other = first->next; other; other = other->next)
        if (other->code != first->code) {
            divergence(t, b, *first, party(b, *other, other->code));
            break;
        }
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++) t.drain(b, warp, true);
    t.order.block_barrier(b.traced->order);
}

void trace_meeting(Trace& t, Block& b, unsigned int warp, unsigned int came) {
    const Warp& w = b.warps[warp];
    const Fiber& first = *w.lanes[__builtin_ctz(came)];
    unsigned int from = warp * 32, to = std::min(b.threads, from + 32);
    int64_t left = one_that_left(b, from, to, first.mask & ~came);
    if (left >= 0) divergence(t, b, first, gone(b, left));
    for (unsigned int rest = came; rest; rest &= rest - 1) {
        const Fiber& other = *w.lanes[__builtin_ctz(rest)];
        if (other.code != first.code) {
            divergence(t, b, first, party(b, other, other.code));
            break;
        }
    }
    if (first.orders) t.order.warp_barrier(b.traced->order, warp, came);
}

void trace_block_waits_for_grid(Trace& t, Block& b) {
    int64_t left = one_that_left(b, 0, b.threads);
    if (left >= 0) divergence(t, b, *b.at_grid.first, gone(b, left));
}

void trace_grid_is_stuck(Trace& t, Block& waits, Block& ended) {
    if (!t.stopped) divergence(t, waits, *waits.at_grid.first, gone(ended, 0), true);
}

void trace_grid_barrier_opens(Trace& t) {
    t.order.begin_launch();
    for (auto& [b, traced] : t.blocks) {
        trace_block_ends(t, *b);
        t.order.block_barrier(traced->order);
    }
}

void trace_fence(Trace& t, Block& b) { t.order.fence(b.traced->order, b.running->number); }

void trace_stuck(Trace& t, Block& b) {
    const Fiber *waits = nullptr, *elsewhere = nullptr;
    auto look = [&](const Fiber* f) {
        if (!waits)
            waits = f;
        else if (!elsewhere && (f->code != waits->code || f->waiting != waits->waiting ||
                                (f->waiting == Waiting::warp && f->mask != waits->mask)))
            elsewhere = f;
    };
    for (unsigned int warp = 0; warp * 32 < b.threads; warp++)
        for (unsigned int rest = b.warps[warp].waiting; rest; rest &= rest - 1)
            look(b.warps[warp].lanes[__builtin_ctz(rest)]);
    for (const Fiber* f = b.at_barrier.first; f; f = f->next) look(f);
    for (const Fiber* f = b.at_grid.first; f; f = f->next) look(f);
    if (!waits || b.traced->stopped) return;
    int64_t left = one_that_left(b, 0, b.threads);
    if (elsewhere)
        divergence(t, b, *waits, party(b, *elsewhere, elsewhere->code), true);
    else if (left >= 0)
        divergence(t, b, *waits, gone(b, left));
    else
        divergence(t, b, *waits, {0, Op::load, b.block, waits->thread, false}, true);
}

void trace_fault(Trace& t, Worker& w) {
    Block& b = block();
    Problem p;
    p.kind = w.fault == wrong_mask ? "divergent_barrier"
             : w.fault == endless ? "runaway"
             : w.fault == SIGSEGV || w.fault == SIGBUS ? "out_of_bounds"
                                                       : "trap";
    if (w.fault != endless) p.ended = what_ended_it(w);
    if (w.fault == assertion) p.line = w.fault_line;
    p.who = {reinterpret_cast<uintptr_t>(w.fault == wrong_mask ? b.running->code
                                          : w.fault == endless  ? w.fault_address
                                                                : nullptr), Op::load, b.block, b.thread,
             false};
    if (w.fault == SIGSEGV || w.fault == SIGBUS) p.offset = int64_t(reinterpret_cast<uintptr_t>(w.fault_address));
    t.add(std::move(p));
    b.traced->stopped = t.stopped = true;
}

}  // namespace cuda_on_cpu
