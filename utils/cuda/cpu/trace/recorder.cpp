// Records what the threads of a few blocks do, for a player (recorder.h).
#include "recorder.h"

#include <algorithm>
#include <cstring>

namespace cuda_on_cpu {

static constexpr unsigned char unset = 0xFE;  // fills variables without a value, as the compiler does (build.py)

// ---- where the running thread is ------------------------------------------------------------------------------------

Recorder::Thread* Recorder::running() {
    if (!active || !in_thread()) return nullptr;
    auto found = threads.find(block().number);
    return found == threads.end() ? nullptr : &found->second[block().running->number];
}

const OwnFunction* Recorder::function_at(const void* code) const {
    const uint64_t pc = reinterpret_cast<uintptr_t>(code) - module_begin - 1;
    auto after = std::upper_bound(functions.begin(), functions.end(), pc,
                                  [](uint64_t pc, const OwnFunction& f) { return pc < f.begin; });
    return after != functions.begin() && pc < (after - 1)->end ? &*(after - 1) : nullptr;
}

// In unoptimized code, a frame begins with the address of its caller's frame and the return address. What DWARF calls
// the frame's address comes right after these two.
bool Recorder::arrives(const void* code, void** frame) {
    Thread* t = running();
    if (!t) return false;
    settle(*t);
    const Fiber& fiber = *block().running;
    place = {code, uint32_t(frames.size()), 0};
    direct = function_at(code);
    for (int depth = 0; depth < 64; depth++) {
        void** own = static_cast<void**>(*frame);
        if (!fiber.holds(own) || reinterpret_cast<uintptr_t>(own) % sizeof(void*)) break;
        if (const OwnFunction* f = function_at(code)) {
            const char* address = reinterpret_cast<const char*>(own + 2);
            frames.push_back({uint32_t(reinterpret_cast<uintptr_t>(code) - module_begin),
                              uint32_t(f - functions.data()), bytes.size(), reinterpret_cast<uintptr_t>(address)});
            for (const Slot* s = &slots[f->first]; s < &slots[f->first] + f->count; s++) {
                const char* from = address + s->offset;
                if (fiber.holds(from) && fiber.holds(from + s->bytes - 1))
                    bytes.insert(bytes.end(), from, from + s->bytes);
                else
                    bytes.insert(bytes.end(), s->bytes, unset);
            }
            place.frames++;
            if (f->is_kernel) break;
        }
        frame = own;
        code = own[1];
    }
    return true;
}

void Recorder::enters(const void* code, void** frame) {
    const OwnFunction* f = running() ? function_at(code) : nullptr;
    if (!f) return;
    char* address = static_cast<char*>(*frame) + 2 * sizeof(void*);
    for (const Slot* s = &slots[f->first]; s < &slots[f->first] + f->count; s++)
        if (!s->is_parameter) memset(address + s->offset, unset, s->bytes);
}

// ---- what the thread does -------------------------------------------------------------------------------------------

void Recorder::note(Thread& t, Seen s) {
    s.frame = place.frame;
    s.frames = place.frames;
    t.waiting.push_back(uint32_t(seen.size()));
    seen.push_back(s);
}

// A store's value is in memory by its thread's next event.
void Recorder::settle(Thread& t) {
    if (t.store < 0) return;
    Seen& s = seen[t.store];
    memcpy(s.value, reinterpret_cast<const void*>(s.address), s.size);
    s.has_value = true;
    t.store = -1;
}

// The trace has found which memory an access goes to. Returns the place in the module that caused the access, even if
// one of the runtime's functions makes it.
const void* Recorder::saw(Block& b, uintptr_t a, size_t size, Op op, const Region& region, const void* code) {
    Thread* t = running();
    if (!t) return code;
    Seen s{};
    s.address = a;
    s.size = uint8_t(size);
    s.memory = memory_of(b, region);
    s.did = uint8_t(op == Op::load ? Did::read : copying ? Did::copy : op == Op::store ? Did::write : Did::atomic);
    const bool visible = size <= sizeof s.value && region.nearly_holds(a, size);
    if (visible && op == Op::load) {
        memcpy(s.value, reinterpret_cast<const void*>(a), size);
        s.has_value = true;
    }
    note(*t, s);
    if (visible && op != Op::load && !copying) t->store = int64_t(seen.size()) - 1;
    return place.code;
}

void Recorder::did(Did what, const char* function, uint64_t value, uint8_t source) {
    Thread& t = *running();
    Block& b = block();
    Seen s{};
    s.did = uint8_t(what);
    s.function = function;
    s.value[0] = value;
    s.source = source;
    if (what == Did::exit) t.left = true;
    if (what == Did::shuffle) t.shuffle = int64_t(seen.size());
    note(t, s);
    uncounted(b);
}

void Recorder::uncounted(Block& b) {
    TracedThread& traced = *b.running->traced;
    // Of the lanes that come to one place, some may have waited already, and others not yet.
    const uint32_t at = uint32_t(reinterpret_cast<uintptr_t>(place.code) - module_begin) + (seen.back().did == uint8_t(Did::passed));
    traced.events.push_back({0, 0, at, 0, 0, uint8_t(traced.depth << 2)});
}

void Recorder::lands(Block& b, const void* to, size_t size, const Region& region) {
    Thread* t = running();
    if (!t) return;
    settle(*t);
    Seen s{};
    s.address = reinterpret_cast<uintptr_t>(to);
    s.size = uint8_t(size);
    s.memory = memory_of(b, region);
    s.did = uint8_t(Did::copy);
    note(*t, s);
    t->store = int64_t(seen.size()) - 1;  // it lands now
    uncounted(b);
    if (landing) note_change(landing_for, true);
}

void Recorder::got(uint64_t value) {
    Thread* t = running();
    if (!t || t->shuffle < 0) return;
    seen[t->shuffle].value[0] = value;
    seen[t->shuffle].has_value = true;
    t->shuffle = -1;
}

// The bytes of a lane's part of A, B, C or D, which is number 0 to 3.
static size_t bytes_of_operand(const ptx::Product& p, unsigned int operand) {
    const unsigned int sizes[] = {unsigned(p.m) * p.k, unsigned(p.k) * p.n, unsigned(p.m) * p.n, unsigned(p.m) * p.n};
    const ptx::Type types[] = {p.a, p.b, p.c, p.d};
    return sizes[operand] / (p.quads ? 8 : 32) * bits_of(types[operand]) / 8;
}

void Recorder::multiplies(const ptx::Product& product, const void* a, const void* b, const void* c,
                          const char* function) {
    const RecordedProduct numbers = numbers_of(product);
    auto known = std::find(products.begin(), products.end(), numbers);
    const auto number = uint16_t(known - products.begin());
    if (known == products.end()) products.push_back(numbers);
    did(Did::product, function, operands.size());
    seen.back().memory = number;
    running()->product = int64_t(seen.size()) - 1;
    const void* given[] = {a, b, c};
    for (unsigned int i = 0; i < 4; i++) {
        const size_t size = bytes_of_operand(product, i), at = operands.size();
        operands.resize(at + (size + 7) / 8 * 8);
        if (i < 3) memcpy(&operands[at], given[i], size);
    }
}

void Recorder::multiplied(const ptx::Product& product, const void* d) {
    Thread* t = running();
    if (!t || t->product < 0) return;
    Seen& s = seen[t->product];
    size_t at = s.value[0];
    for (unsigned int i = 0; i < 3; i++) at += (bytes_of_operand(product, i) + 7) / 8 * 8;
    memcpy(&operands[at], d, bytes_of_operand(product, 3));
    s.has_value = true;
    t->product = -1;
}

uint16_t Recorder::memory_of(Block& b, const Region& region) {
    const bool shared = region.space == Space::shared;
    const int64_t owner = shared ? int64_t(b.number) : -1;
    auto [found, is_new] = known.try_emplace({owner, region.begin, region.end}, uint16_t(memories.size()));
    if (!is_new) return found->second;
    const uintptr_t arena = reinterpret_cast<uintptr_t>(b.arena.get());
    RecordedMemory m{};
    m.name = names.emplace_back(region.name).c_str();
    const auto& types = b.worker->trace->shared_types;
    const auto type = types.find(region.name);
    m.type = names.emplace_back(shared && type != types.end() ? type->second : "").c_str();
    m.begin = region.begin;
    m.bytes = region.end - region.begin;
    m.element = region.element;
    m.offset = shared ? region.begin - arena : (region.begin + region.shift) % 512;
    m.block = owner;
    m.space = uint64_t(region.space);
    const auto* begin = reinterpret_cast<const unsigned char*>(region.begin);
    m.before = before.emplace_back(begin, begin + m.bytes).data();
    memories.push_back(m);
    return found->second;
}

// ---- from the trace -------------------------------------------------------------------------------------------------

void Recorder::launch_begins(const char* name, const Launch& launched) {
    const std::string base = std::string(name).substr(0, std::string(name).find('<'));
    active = kernel.empty() && (wanted_kernel.empty() || base == wanted_kernel);
    if (!active) return;
    kernel = name;
    const dim3 grid = grid_size = launched.grid;
    block_size = launched.block;
    for (const auto& [number, x, y, z] : wanted) {
        const bool is_there = ~number ? number < uint64_t(grid.x) * grid.y * grid.z
                                      : x < grid.x && y < grid.y && z < grid.z;
        if (is_there) kept.insert(~number ? number : x + grid.x * (y + grid.y * z));
    }
}

void Recorder::block_begins(const Block& b) {
    if (active && kept.count(b.number)) threads[b.number].assign(b.threads, {});
}

void Recorder::block_ends(const Block& b) { forget(b.number); }

void Recorder::forget(uint64_t number) {
    if (threads.erase(number) && ++ended == kept.size()) over = true;
}

void Recorder::thread_ends(Block& b, unsigned int thread) {
    auto found = threads.find(b.number);
    if (!active || found == threads.end()) return;
    Thread& t = found->second[thread];
    settle(t);
    if (t.left) return;
    place.frames = 0;  // the trace ended it before it returned
    place.code = reinterpret_cast<const void*>(module_begin + 1);
    did(Did::exit);
}

void Recorder::counted(const Site& site, unsigned int lanes, uint64_t number, unsigned int warp, uint64_t sectors,
                       uint64_t wavefronts, uint64_t least_wavefronts) {
    auto found = threads.find(number);
    if (found == threads.end()) return;
    RecordedStep step{number,     warp, lanes, uint32_t(order.size()), uint32_t(sectors), uint32_t(wavefronts),
                      uint32_t(least_wavefronts), 0,    uint8_t(site.bytes), uint8_t(site.space), is_copy(site.copy),
                      uint8_t(is_copy(site.copy) ? 0 : site.copy), epochs[number]};
    for (unsigned int rest = lanes; rest; rest &= rest - 1) {
        auto& waiting = found->second[warp * 32 + __builtin_ctz(rest)].waiting;
        if (waiting.empty()) return;
        order.push_back(waiting.front());
        waiting.pop_front();
    }
    step.did = seen[order[step.first]].did;
    steps.push_back(step);
    if (++counts[number] < most_steps) return;
    cut = true;
    forget(number);
}

}  // namespace cuda_on_cpu

// ---- for Python (recorder.py) ---------------------------------------------------------------------------------------

using namespace cuda_on_cpu;

static thread_local std::shared_ptr<Recorder> recorded;

// Makes the trace that has begun record, too. `base`: where the module begins in memory.
extern "C" void cuda_on_cpu_record_begin(uintptr_t base, const std::array<uint64_t, 4>* blocks, size_t block_count,
                                         size_t most_steps, const char* kernel, const OwnFunction* functions,
                                         size_t function_count, const Slot* slots, size_t slot_count) {
    recorded = std::make_shared<Recorder>();
    recorded->module_begin = base;
    recorded->wanted.assign(blocks, blocks + block_count);
    recorded->most_steps = most_steps;
    recorded->wanted_kernel = kernel;
    recorded->functions.assign(functions, functions + function_count);
    recorded->slots.assign(slots, slots + slot_count);
    tracing->recorder = recorded;
    tracing->requests.observer = recorded.get();
}

struct RecordedArrays {
    const RecordedStep* steps;
    const uint32_t* order;
    const Seen* seen;
    const SeenFrame* frames;
    const unsigned char* bytes;
    const RecordedMemory* memories;
    const RecordedProduct* products;
    const unsigned char* operands;
    const RecordedBarrier* barriers;
    const RecordedChange* changes;
    const RecordedCopy* copies;
    const RecordedRun* runs;
    const unsigned char* landed;
    size_t step_count, order_count, seen_count, frame_count, byte_count, memory_count, product_count, operand_count;
    size_t barrier_count, change_count, copy_count, run_count, landed_count;
    const char* kernel;
    uint32_t grid[3], block[3];
    uint64_t cut;  // whether a block did more than is kept
};

// The result, which is valid until cuda_on_cpu_record_end.
extern "C" void cuda_on_cpu_record_read(RecordedArrays* out) {
    const Recorder& r = *recorded;
    *out = {r.steps.data(),   r.order.data(),  r.seen.data(),  r.frames.data(),   r.bytes.data(), r.memories.data(),
            r.products.data(), r.operands.data(),
            r.barriers.data(), r.changes.data(), r.copies.data(), r.runs.data(),  r.landed.data(),
            r.steps.size(),   r.order.size(),  r.seen.size(),  r.frames.size(),   r.bytes.size(), r.memories.size(),
            r.products.size(), r.operands.size(),
            r.barriers.size(), r.changes.size(), r.copies.size(), r.runs.size(),  r.landed.size(),
            r.kernel.c_str(), {r.grid_size.x, r.grid_size.y, r.grid_size.z},  {r.block_size.x, r.block_size.y, r.block_size.z},
            r.cut};
}

extern "C" void cuda_on_cpu_record_end() { recorded.reset(); }
