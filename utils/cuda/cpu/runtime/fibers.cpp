// The threads of a block, which take turns on one core: each that waits is left on a stack of its own, a fiber.
//
// Read `run_block` first, which launch.cpp calls, then `wait`, which barriers.cpp calls.
#define CUDA_ON_CPU_LOCAL_ARRAYS  // for the declarations that only such sources use
#include "clusters.h"
#include "runtime.h"
#include "turns.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "../guard/space.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

__thread Position* here CUDA_ON_CPU_FAST_TLS = nullptr;

// ---- marks above a thread's frame -----------------------------------------------------------------------------------

static const Marks marks = [] {
    Marks made;
    std::fill(std::begin(made.words), std::end(made.words), 0x7FF9A65B7FF9A65B);  // NaN as floating point
    return made;
}();

void make(Marks& made) { made = marks; }

void check(const Marks& there) {
    const Fiber& me = *block().running;
    if (memcmp(&there, &marks, sizeof marks) || memcmp(me.end(), &marks, me.shift)) fail(smashed);
}

// ---- stacks, and switching between them -----------------------------------------------------------------------------

// The stacks of all threads of the CPU. Never destroyed: a stack may outlive this library's variables.
static Mutex stacks_mutex;
static AddressSpace& stacks = *new AddressSpace;

size_t Fiber::guard_bytes() {
    static const size_t bytes = space_is_plentiful() ? 512 * 1024 : page_bytes();
    return bytes;
}

// Whether a limited address space has enough room left for the rest of the process: the C library ends a process when a
// new thread finds no room for its variables.
static bool room_is_left() {
    constexpr size_t spare = 64 << 20;
    if (space_is_plentiful()) return true;
    char* pages = reserve(spare);
    return pages && munmap(pages, spare) == 0;
}

Fiber::Fiber(size_t number) {
    std::lock_guard lock(stacks_mutex);
    if (!room_is_left()) throw std::bad_alloc();
    char* pages = stacks.take(stack_bytes + 2 * guard_bytes());
    if (!pages) throw std::bad_alloc();
    stack = pages + guard_bytes();
    shift = number * 64 % sizeof marks;
    if (mprotect(stack, stack_bytes, PROT_READ | PROT_WRITE) == 0) return;
    stacks.give_back(pages, stack_bytes + 2 * guard_bytes());
    throw std::bad_alloc();
}

bool Fiber::around(const void* p) const {
    const size_t reach = guard_bytes() > page_bytes() ? far_apart / 2 : guard_bytes();  // nothing else is so near
    return p >= stack - reach && p < stack + stack_bytes + reach;
}

Fiber::~Fiber() {
    std::lock_guard lock(stacks_mutex);
    stacks.give_back(stack - guard_bytes(), stack_bytes + 2 * guard_bytes());
}

// ---- the running block ----------------------------------------------------------------------------------------------

Block& my_block() {
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

static void run_fiber();

// Resumes `fiber`, which is new, idle or waiting. The caller has saved its own place.
[[noreturn, gnu::noinline]] static void resume(Fiber* fiber) {
    Block& b = block();
    b.running = fiber;
    b.thread = fiber->thread;
    if (fiber->begun) go_on_at(fiber->place);
    fiber->begun = true;
    memcpy(fiber->end(), &marks, fiber->shift);
    getcontext(&fiber->entry);
    fiber->entry.uc_stack.ss_sp = fiber->stack;
    fiber->entry.uc_stack.ss_size = fiber->end() - fiber->stack;
    fiber->entry.uc_link = nullptr;
    makecontext(&fiber->entry, run_fiber, 0);
    setcontext(&fiber->entry);
    __builtin_unreachable();
}

static bool make_fiber(Worker& w) {
    try {
        w.fibers.push_back(std::make_unique<Fiber>(w.fibers.size()));
        w.idle.push_back(w.fibers.back().get());
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

static Fiber* idle_fiber(Worker& w) {
    if (w.idle.empty() && !make_fiber(w) && !(drop_idle_workers() && make_fiber(w))) fail(no_room);
    // In a kernel without barriers, one fiber runs all threads: best one without marks to check for each of them.
    if (auto plain = std::find(w.idle.begin(), w.idle.end(), w.fibers[0].get());
        block().started == 0 && plain != w.idle.end())
        std::swap(*plain, w.idle.back());
    Fiber* fiber = w.idle.back();
    w.idle.pop_back();
    if (!w.idle.empty()) w.idle.back()->is_read_soon();
    fiber->has_thread = false;
    fiber->forget_copies();
    return fiber;
}

void leave_if_over(Block& b) {
    if (*b.worker->over) leave_block(*b.worker);
}

// The next fiber to run. If there is none, the block has ended, or stops here.
static Fiber* next_fiber(Block& b) {
    for (;;) {
        if (b.started) leave_if_over(b);  // a block that was taken begins: it may come before the faulty one
        if (Fiber* fiber = b.ready.take()) return fiber;
        if (b.started < b.threads) return idle_fiber(*b.worker);
        if (b.turns && b.alive && others_come_first(b)) _longjmp(b.worker->scheduler, int(End::waits));
        if (b.in_step && b.worker->trace && trace_release(*b.worker->trace, b)) continue;
        bool stepped = release_in_step(b);
        if (stepped || (b.aside.first && !polls_in_vain(b))) {
            b.ready.add_all(b.aside);
            release_polls(b);
            continue;
        }
        if (b.worker->trace && trace_release(*b.worker->trace, b)) continue;
        if (b.watched && release_active(b)) continue;
        if (b.watched && release_polls(b)) continue;
        if (b.alive == 0 || !b.watched) _longjmp(b.worker->scheduler, int(End::done));
        if (b.at_grid.length == b.alive) _longjmp(b.worker->scheduler, int(End::at_grid));
        if (others_may_help(b)) _longjmp(b.worker->scheduler, int(End::in_vain));
        if (b.worker->trace) {
            trace_stuck(*b.worker->trace, b);
            leave_block(*b.worker);
        }
        std::string why;
        Fiber* waits = one_that_waits_for_its_warpgroup(b, why);
        if (!waits) waits = one_that_waits_for_a_named(b, why);
        if (!waits) waits = b.at_barrier.first;
        for (const Warp& warp : b.warps)
            for (unsigned int i = 0; i < 32 && !waits; i++)
                if (warp.waiting >> i & 1) waits = warp.lanes[i];
        if (!waits) waits = b.at_cluster.first;
        if (!waits) waits = b.at_grid.first;
        if (!waits) waits = one_that_waits_for_a_phase(b, why);
        if (!waits) waits = one_that_waits_for_registers(b, why);
        b.thread = waits->thread;
        b.running = waits;
        if (!why.empty()) fail(lacks_arrivals, why);
        fail(stuck, waits->function);
    }
}

void wait(Fiber* me) {
    if (!stops_here(me->place)) resume(next_fiber(my_block()));
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
    fiber->at_cluster_phase = 0;
    fiber->walk.begin();
    if (b.worker->trace) trace_thread_begins(*b.worker->trace, b, *fiber);
}

void begin_watching(Block& b) {
    b.watched = true;
    size_t warps = (b.threads + 31) / 32;
    if (b.warps.size() < warps) b.warps.resize(warps);
    for (size_t i = 0; i < warps; i++) {
        Warp& w = b.warps[i];
        w.waiting = w.active = w.in_step = w.named = 0;
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
    me->at_cluster_phase = 0;
    me->has_thread = true;
}

static void thread_ended(Block& b, Fiber* fiber) {
    if (b.worker->trace) trace_thread_ends(*b.worker->trace, b, *fiber);
    if (!b.phase_barriers.empty()) do_copies_for_phases(b, fiber);
    if (!fiber->bulk.empty()) bulk_thread_ends(b, *fiber);
    fiber->has_thread = false;
    fiber->forget_copies();
    b.alive--;
    Warp& w = b.warp_of(fiber->number);
    w.ended |= 1u << fiber->number % 32;
    if (w.waiting) check_meetings(b, fiber->number / 32);  // a thread that has ended is not waited for
    if (b.at_barrier.length && b.at_barrier.length == b.alive) open_barrier(b);
    if (!b.named_barriers.empty()) named_thread_ends(b, fiber->number / 32);
    if (b.cluster) cluster_thread_ends(b, *fiber);
    if (b.alive == 0) bulk_block_ends(b);
}

bool kernel_runs() { return here != nullptr; }

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

// What a fiber does: it runs threads of the block until there is none left for it to begin, then idles until needed.
static void run_fiber() {
    my_block().running->top = static_cast<char*>(__builtin_frame_address(0));
    for (;;) {
        Worker& w = *my_block().worker;
        enter_kernel(w);
        try {
            w.run_threads(w.kernel);
        } catch (const std::exception& error) {
            my_block().worker->fault = thrown;
            my_block().worker->fault_text = error.what();
        } catch (...) {
            my_block().worker->fault = thrown;
            my_block().worker->fault_text = "";
        }
        // An overrun of a local array may have damaged this stack: nothing that was on it is used again.
        my_block().worker->in_kernel = 0;
        if (my_block().worker->fault) leave_block(*my_block().worker);
        Fiber* me = my_block().running;
        my_block().worker->idle.push_back(me);
        if (!stops_here(me->place)) resume(next_fiber(my_block()));
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
    resume(next_fiber(b));
}

bool carry() { return my_block().running->carry; }
void set_carry(bool carry) { my_block().running->carry = carry; }

End run_block(Worker& w, Block& b) {
    here = &b;
    End end = End(_setjmp(w.scheduler));
    if (end == End::none) resume(next_fiber(b));
    if (end == End::left) {  // its fibers start over
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
    b.ready = b.aside = b.at_barrier = b.at_grid = b.at_trace = b.at_cluster = {};
    b.cluster = nullptr;
    b.turns = nullptr;
    b.own_cluster.reset();
    b.rank = 0;
    b.its_turn = b.waits_for_grid = false;
    b.sum = 0;
    b.unchanged = b.fences = 0;
    b.in_step = 0;
    b.phase_barriers.clear();
    b.named_barriers.clear();
    b.unread.clear();
    b.warpgroups.clear();
    b.registers.clear();
    b.free_registers = 0;
    b.at_registers = {};
    poison_shared(b);
    if (w.flow) watch(b);
    if (w.trace) {
        watch(b);
        trace_block_begins(*w.trace, b);
    }
}

void wait_for_trace(Queue& queue) {
    Fiber* me = block().running;
    const bool in_kernel = block().worker->in_kernel;  // others, which end or wait in the runtime, leave it at 0
    block().worker->in_kernel = 0;
    me->waiting = Waiting::trace;
    queue.add(me);
    wait(me);
    if (in_kernel) enter_kernel(*my_block().worker);
}

}  // namespace cuda_on_cpu
