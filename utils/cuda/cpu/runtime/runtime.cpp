// The runtime: runs the blocks of a grid on the cores of the CPU, and the threads of a block in turns on one core.
//
// Compiled once and shared by every module. Read `run_grid` in launch.cpp first, then `run_block` here, then `wait`.
#define CUDA_ON_CPU_TRACE  // for `touch`
#include "runtime.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "cuda_on_cpu/profile.h"
#include "cuda_pipeline.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

thread_local Position* here CUDA_ON_CPU_FAST_TLS = nullptr;

// ---- fibers: threads of a block that can stop and go on -------------------------------------------------------------

Fiber::Fiber() {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* pages = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    mprotect(pages, guard_bytes(), PROT_NONE);  // a stack that runs over meets this
    stack = static_cast<char*>(pages);
}

Fiber::~Fiber() { munmap(stack, stack_bytes); }

void Arena::make(size_t bytes) {
    const size_t page = sysconf(_SC_PAGESIZE), wanted = (bytes + page - 1) / page * page;
    if (wanted > room) {
        release();
        room = std::max<size_t>(wanted, 1024 * 1024);
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* pages = mmap(nullptr, room + 2 * guard, PROT_NONE, flags, -1, 0);
        if (pages == MAP_FAILED) throw std::bad_alloc();
        begin = static_cast<unsigned char*>(pages) + guard;
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

// Never inlined: an idle fiber may wake on another CPU thread, so nothing read from `here` may outlive a switch.
__attribute__((noinline)) static Block& my_block() {
    asm volatile("");
    return block();
}

void leave_block(Worker& w) {
    w.in_kernel = 0;
    _longjmp(w.scheduler, int(End::left));
}

void enter_kernel(Worker& w) {
    if (interrupted) leave_block(w);
    w.in_kernel = 1;
    if (interrupted) leave_block(w);
}

void fail(int fault, std::string text) {
    Worker& w = *block().worker;
    w.in_kernel = 0;
    w.fault = fault;
    w.fault_text = std::move(text);
    leave_block(w);
}

static void live();

// Goes on with `fiber`, which is new, idle or waiting. Whoever calls has noted its own place.
[[noreturn]] static void go_on(Fiber* fiber) {
    Block& b = block();
    b.running = fiber;
    b.thread = fiber->thread;
    if (fiber->begun) _longjmp(fiber->place, 1);
    fiber->begun = true;
    getcontext(&fiber->entry);
    fiber->entry.uc_stack.ss_sp = fiber->stack;
    fiber->entry.uc_stack.ss_size = Fiber::stack_bytes;
    fiber->entry.uc_link = nullptr;
    makecontext(&fiber->entry, live, 0);
    setcontext(&fiber->entry);
    __builtin_unreachable();
}

static Fiber* idle_fiber(Worker& w) {
    if (w.idle.empty()) {
        w.fibers.push_back(std::make_unique<Fiber>());
        w.idle.push_back(w.fibers.back().get());
    }
    Fiber* fiber = w.idle.back();
    w.idle.pop_back();
    fiber->has_thread = false;
    fiber->copies.clear();
    fiber->group = 0;
    return fiber;
}

// Lets those go on who wait for what can no longer change; false where there is nobody.
static bool release_active(Block& b);

// The next fiber to run. Where there is none the block has ended, or stops here.
static Fiber* next_fiber(Block& b) {
    for (;;) {
        if (Fiber* fiber = b.ready.take()) return fiber;
        if (b.started < b.threads) return idle_fiber(*b.worker);
        if (b.aside.first) {
            b.ready.add_all(b.aside);
            continue;
        }
        if (b.worker->trace && trace_go_on(*b.worker->trace, b)) continue;
        if (b.watched && release_active(b)) continue;
        if (b.alive == 0 || !b.watched) _longjmp(b.worker->scheduler, int(End::done));
        if (b.at_grid.length == b.alive) _longjmp(b.worker->scheduler, int(End::at_grid));
        if (b.worker->trace) {
            trace_stuck(*b.worker->trace, b);
            leave_block(*b.worker);
        }
        Fiber* waits = b.at_barrier.first;
        for (const Warp& warp : b.warps)
            for (unsigned int i = 0; i < 32 && !waits; i++)
                if (warp.waiting >> i & 1) waits = warp.lanes[i];
        if (!waits) waits = b.at_grid.first;
        b.thread = waits->thread;
        b.running = waits;
        fail(stuck, waits->function);
    }
}

// The running thread has set what it waits for, and goes on when another has put it among the ready.
static void wait(Fiber* me) {
    if (_setjmp(me->place) == 0) go_on(next_fiber(my_block()));
    me->waiting = Waiting::nothing;
}

// ---- threads that begin and end -------------------------------------------------------------------------------------

static void begin_thread(Block& b, Fiber* fiber) {
    unsigned int i = b.started++;
    if (b.worker->trace) i = trace_thread(*b.worker->trace, i);
    b.thread = {i % b.block_dim.x, i / b.block_dim.x % b.block_dim.y, i / b.block_dim.x / b.block_dim.y};
    fiber->thread = b.thread;
    fiber->number = i;
    fiber->has_thread = true;
    if (b.worker->trace) trace_thread_begins(*b.worker->trace, b, *fiber);
}

// As long as nobody waits, one thread runs after the other and nobody keeps a list. This is where the list begins.
static void watch(Block& b) {
    if (b.watched) return;
    b.watched = true;
    size_t warps = (b.threads + 31) / 32;
    if (b.warps.size() < warps) b.warps.resize(warps);
    for (size_t i = 0; i < warps; i++) {
        Warp& w = b.warps[i];
        w.waiting = w.active = 0;
        unsigned int there = std::min<size_t>(32, b.threads - i * 32);
        w.ended = there == 32 ? 0 : ~0u << there;
        // The threads begin in order, and all but the last that began have ended.
        for (size_t t = i * 32; t + 1 < b.started && t < i * 32 + 32; t++) w.ended |= 1u << t % 32;
    }
    b.alive = b.threads;
    if (b.started == 0) return;
    b.alive -= b.started - 1;
    Fiber* me = b.running;
    me->thread = b.thread;
    me->number = b.started - 1;
    me->has_thread = true;
}

static void open_barrier(Block& b);
static void check_meetings(Block& b, unsigned int warp);

static void thread_ended(Block& b, Fiber* fiber) {
    if (b.worker->trace) trace_thread_ends(*b.worker->trace, b, *fiber);
    fiber->has_thread = false;
    fiber->copies.clear();
    fiber->group = 0;
    b.alive--;
    Warp& w = b.warp_of(fiber->number);
    w.ended |= 1u << fiber->number % 32;
    if (w.waiting) check_meetings(b, fiber->number / 32);  // a thread that has ended is not waited for
    if (b.at_barrier.length && b.at_barrier.length == b.alive) open_barrier(b);
}

bool next_watched_thread() {
    Block& b = block();
    b.worker->in_kernel = 0;
    Fiber* me = b.running;
    if (me->has_thread) thread_ended(b, me);
    if (b.ready.first || b.started == b.threads) return false;
    begin_thread(b, me);
    enter_kernel(*b.worker);
    return true;
}

// The life of a fiber: it runs threads of the block until it is to begin no other, then lies idle until it is needed.
static void live() {
    for (;;) {
        Worker& w = *my_block().worker;
        Fiber* me = my_block().running;
        enter_kernel(w);
        w.run_threads(w.kernel);
        my_block().worker->in_kernel = 0;
        my_block().worker->idle.push_back(me);
        if (_setjmp(me->place) == 0) go_on(next_fiber(my_block()));
    }
}

void end_thread() {
    Block& b = block();
    b.worker->in_kernel = 0;
    Fiber* me = b.running;
    watch(b);
    thread_ended(b, me);
    me->begun = false;
    b.worker->idle.push_back(me);
    go_on(next_fiber(b));
}

// Runs the block until it ends or waits for the grid.
End run_block(Worker& w, Block& b) {
    here = &b;
    End end = End(_setjmp(w.scheduler));
    if (end == End::none) go_on(next_fiber(b));
    if (end == End::left) {  // its fibers begin anew
        w.idle.clear();
        for (auto& fiber : w.fibers) {
            fiber->begun = false;
            w.idle.push_back(fiber.get());
        }
    }
    return end;
}

void set_up_block(Worker& w, Block& b, uint64_t number, const Launch& launch) {
    const dim3 grid = launch.grid, dim = launch.block;
    b.worker = &w;
    b.number = number;
    b.block = {unsigned(number % grid.x), unsigned(number / grid.x % grid.y), unsigned(number / grid.x / grid.y)};
    b.block_dim = dim;
    b.grid_dim = grid;
    b.threads = dim.x * dim.y * dim.z;
    b.started = 0;
    b.watched = false;
    b.done = false;
    b.alive = b.threads;
    b.ready = b.aside = b.at_barrier = b.at_grid = b.at_trace = {};
    b.sum = 0;
    if (w.trace) {
        watch(b);
        trace_block_begins(*w.trace, b);
    }
}

// ---- where threads wait for each other ------------------------------------------------------------------------------

// The thread that calls, on the way into the runtime.
static Fiber* arrive(const char* function, const void* code) {
    Block& b = block();
    b.worker->in_kernel = 0;
    watch(b);
    b.running->function = function;
    b.running->code = code;
    return b.running;
}

static void open_barrier(Block& b) {
    if (b.worker->trace) trace_barrier_opens(*b.worker->trace, b);
    b.last_sum = b.sum;
    b.sum = 0;
    b.ready.add_all(b.at_barrier);
}

static size_t wait_at_barrier(size_t value, const char* name, const void* code) {
    Fiber* me = arrive(name, code);
    Block& b = block();
    me->waiting = Waiting::barrier;
    b.sum += value;
    b.at_barrier.add(me);
    if (b.at_barrier.length == b.alive) open_barrier(b);
    wait(me);
    enter_kernel(*my_block().worker);
    return my_block().last_sum;  // the barrier after this one opens only when all have read it
}

size_t barrier_sum(size_t value, const char* name) {
    return wait_at_barrier(value, name, __builtin_return_address(0));
}

void barrier(const char* name) { wait_at_barrier(0, name, __builtin_return_address(0)); }

// The lanes of `mask`, those that have ended apart, go on if all have come with the same mask.
static void check_meeting(Block& b, unsigned int warp, unsigned int mask) {
    Warp& w = b.warps[warp];
    unsigned int needed = mask & ~w.ended;
    if (!needed || (w.waiting & needed) != needed) return;
    for (unsigned int rest = needed; rest; rest &= rest - 1)
        if (w.lanes[__builtin_ctz(rest)]->mask != mask) return;
    int lowest = __builtin_ctz(needed);
    // Two places in turn: whoever is slow to read has at most one meeting of this lane to catch up with.
    uint64_t* values = w.met[lowest][w.turn[lowest] ^= 1].values;
    if (b.worker->trace) trace_meeting(*b.worker->trace, b, warp, needed);
    for (unsigned int rest = needed; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        Fiber* fiber = w.lanes[i];
        values[i] = fiber->value;
        fiber->mask = needed;
        fiber->values = values;
        b.ready.add(fiber);
    }
    w.waiting &= ~needed;
}

static void check_meetings(Block& b, unsigned int warp) {
    for (unsigned int i = 0; i < 32; i++)
        if (Warp& w = b.warps[warp]; w.waiting >> i & 1) check_meeting(b, warp, w.lanes[i]->mask);
}

// Returns when all of `mask` have come: `mask` of the fiber is who came, `values` what they brought.
static Fiber* wait_for_warp(unsigned int mask, uint64_t value, const char* name, const void* code, bool orders) {
    Fiber* me = arrive(name, code);
    Block& b = block();
    unsigned int i = me->number % 32;
    if (!(mask >> i & 1)) {
        char text[160];
        snprintf(text, sizeof text, "calls %s with the mask 0x%08x, which leaves out its own lane, %u", name, mask, i);
        fail(wrong_mask, text);
    }
    Warp& w = b.warp_of(me->number);
    me->mask = mask;
    me->value = value;
    me->orders = orders;
    me->waiting = Waiting::warp;
    w.lanes[i] = me;
    w.waiting |= 1u << i;
    check_meeting(b, me->number / 32, mask);
    wait(me);
    enter_kernel(*my_block().worker);
    return me;
}

unsigned int lane() {
    const Block& b = block();
    return ((b.thread.z * b.block_dim.y + b.thread.y) * b.block_dim.x + b.thread.x) % 32;
}

void meet(unsigned int mask, const char* name) { wait_for_warp(mask, 0, name, __builtin_return_address(0), true); }

unsigned int ballot(unsigned int mask, bool vote, const char* name) {
    Fiber* me = wait_for_warp(mask, vote, name, __builtin_return_address(0), false);
    unsigned int votes = 0;
    for (unsigned int rest = me->mask; rest; rest &= rest - 1)
        votes |= unsigned(me->values[__builtin_ctz(rest)]) << __builtin_ctz(rest);
    return votes;
}

uint64_t shuffle(unsigned int mask, uint64_t value, unsigned int from, const char* name) {
    Fiber* me = wait_for_warp(mask, value, name, __builtin_return_address(0), false);
    return me->mask >> from & 1 ? me->values[from] : value;
}

unsigned int match(unsigned int mask, uint64_t value, const char* name) {
    Fiber* me = wait_for_warp(mask, value, name, __builtin_return_address(0), false);
    unsigned int same = 0;
    for (unsigned int rest = me->mask; rest; rest &= rest - 1)
        same |= unsigned(me->values[__builtin_ctz(rest)] == value) << __builtin_ctz(rest);
    return same;
}

// On a GPU the lanes of a warp run side by side, and some of them come here together. Here they come one by one: each
// waits until no lane of the block can go on otherwise. Those of a warp that wait at the same place are then active.
unsigned int active_lanes() {
    Fiber* me = arrive("__activemask", __builtin_return_address(0));
    Warp& w = block().warp_of(me->number);
    unsigned int i = me->number % 32;
    me->waiting = Waiting::active;
    w.lanes[i] = me;
    w.active |= 1u << i;
    wait(me);
    enter_kernel(*my_block().worker);
    return me->mask;
}

static bool release_active(Block& b) {
    bool any = false;
    for (size_t i = 0; i < (b.threads + 31) / 32; i++) {
        Warp& w = b.warps[i];
        if (!w.active) continue;
        const void* code = w.lanes[__builtin_ctz(w.active)]->code;
        for (unsigned int rest = w.active; rest; rest &= rest - 1)
            code = std::min(code, w.lanes[__builtin_ctz(rest)]->code);
        unsigned int together = 0;
        for (unsigned int rest = w.active; rest; rest &= rest - 1)
            if (w.lanes[__builtin_ctz(rest)]->code == code) together |= 1u << __builtin_ctz(rest);
        for (unsigned int rest = together; rest; rest &= rest - 1) {
            w.lanes[__builtin_ctz(rest)]->mask = together;
            b.ready.add(w.lanes[__builtin_ctz(rest)]);
        }
        w.active &= ~together;
        any = true;
    }
    return any;
}

bool cooperative() { return block().worker->cooperative; }

void grid_barrier() {
    Fiber* me = arrive("grid.sync", __builtin_return_address(0));
    Block& b = block();
    if (!b.worker->cooperative) fail(no_grid);
    me->waiting = Waiting::grid;
    b.at_grid.add(me);
    wait(me);
    enter_kernel(*my_block().worker);
}

void step_aside() {
    Block& b = block();
    if (!b.ready.first && !b.aside.first && b.started == b.threads) return;
    Fiber* me = arrive("step_aside", nullptr);
    b.aside.add(me);
    wait(me);
    enter_kernel(*my_block().worker);
}

void wait_for_trace(Queue& queue) {
    Fiber* me = block().running;
    me->waiting = Waiting::trace;
    queue.add(me);
    wait(me);
}

void fence() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (here && block().worker->trace) trace_fence(*block().worker->trace, block());
}

// ---- asynchronous copies: done when they are waited for, and not before ---------------------------------------------

void async_copy(void* to, const void* from, size_t bytes, size_t zeros) {
    const void* code = __builtin_return_address(0);
    Worker& w = *block().worker;
    w.in_kernel = 0;
    watch(block());  // the fiber knows its thread
    for (const void* address : {from, static_cast<const void*>(to)})
        if (size_t(address) % bytes) {
            if (w.trace) trace_misaligned(*w.trace, address, bytes, address == from ? Access::load : Access::store, code);
            fail(wrong_copy, "begins a copy of " + std::to_string(bytes) + (address == from ? " bytes from" : " bytes to") +
                                 " an address that is no multiple of " + std::to_string(bytes) +
                                 ": a trace of this launch shows which");
        }
    uint32_t begun = w.trace ? trace_copy_begins(*w.trace, block(), to, from, bytes, zeros, code) : 0;
    Fiber& me = *block().running;
    me.copies.push_back({to, from, bytes, zeros, code, me.group, begun});
    enter_kernel(w);
}

void wrong_size_of_copy(size_t bytes, size_t zeros) {
    fail(wrong_copy, "begins a copy of " + std::to_string(bytes) + " bytes, " + std::to_string(zeros) +
                         " of them zeros: it takes 4, 8 or 16, and no more zeros than bytes");
}

void async_commit() { block().running->group++; }

void async_wait(size_t prior) {
    Fiber& me = *block().running;
    Worker& w = *block().worker;
    while (!me.copies.empty() && me.copies.front().group + prior < me.group) {
        Fiber::Copy c = me.copies.front();
        w.in_kernel = 0;
        me.copies.erase(me.copies.begin());
        enter_kernel(w);
        if (w.trace) trace_copy_ends(*w.trace, c.to, c.bytes, c.code, c.begun);
        memcpy(c.to, c.from, c.bytes - c.zeros);
        memset(static_cast<char*>(c.to) + c.bytes - c.zeros, 0, c.zeros);
    }
}

// ---- what else kernels call -----------------------------------------------------------------------------------------

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
    size_t offset = (b.static_end + (w.trace ? traced_gap : 0) + alignment - 1) / alignment * alignment;
    b.static_end = offset + variable->bytes;
    b.variables.push_back({variable, offset});
    if (in_kernel) enter_kernel(w);
    return b.arena.get() + offset;
}

void* dynamic_shared(const char* name, size_t element_bytes, size_t element_alignment) {
    Block& b = block();
    size_t offset = dynamic_offset(*b.worker);
    if (b.worker->trace && !b.dynamic.name) {
        b.dynamic = {name, 0, 16, element_bytes, element_alignment, nullptr};
        b.variables.push_back({&b.dynamic, offset});
    }
    return b.arena.get() + offset;
}

size_t dynamic_shared_bytes() { return block().dynamic_bytes; }

void failed_assertion(const char* condition, const char* file, int line) {
    if (!here) {  // in the host's own code
        fprintf(stderr, "%s, line %d: `%s` failed\n", file, line, condition);
        abort();
    }
    block().worker->fault_file = file;
    block().worker->fault_line = line;
    fail(assertion, condition);
}

void trap() { fail(trapped); }

int print(const char* format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(nullptr, 0, format, args);
    if (!here) {
        vprintf(format, again);
    } else if (length > 0) {
        Worker& w = *block().worker;
        size_t before = w.printed.size();
        w.in_kernel = 0;
        w.printed.resize(before + length + 1);
        vsnprintf(&w.printed[before], length + 1, format, again);
        w.printed.resize(before + length);
        enter_kernel(w);
    }
    va_end(args);
    va_end(again);
    return length;
}

}  // namespace cuda_on_cpu

// ---- functions that only the host has: the linker puts these in the place of those (build.py) -------------------------

static void not_in_a_kernel(const char* function) {
    using namespace cuda_on_cpu;
    if (here && block().worker->in_kernel) fail(host_function, function);
}

extern "C" {
void __wrap_exit(int status) {
    not_in_a_kernel("exit");
    exit(status);
}
void __wrap__Exit(int status) {
    not_in_a_kernel("_Exit");
    _Exit(status);
}
void __wrap_quick_exit(int status) {
    not_in_a_kernel("quick_exit");
    quick_exit(status);
}
void __wrap_abort() {
    not_in_a_kernel("abort");
    abort();
}
}
