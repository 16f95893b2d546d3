// The threads of a block as the runtime keeps them: fibers, the queues in which they wait, warps, and barriers that are
// objects in memory.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "bulk.h"
#include "cuda_runtime.h"

namespace cuda_on_cpu {

struct Block;
struct TracedThread;  // trace/state.h

// What a fiber waits for.
enum class Waiting { nothing, barrier, named, warp, active, grid, trace, step, phase, registers, cluster, warpgroup };

// Where a lane is on its way through a kernel that is run in step (in_step.cpp).
struct Walk {
    std::vector<uint32_t> path;  // the basic blocks that it has run through since the warp was last here:
    size_t followed = 0;         // their numbers in the flow, and 65,536 times the depth of calls
    unsigned char depth = 1;
    uint16_t at[64] = {};        // the block where it is, by depth of calls,
    uint16_t stood[64] = {};     // and where it was when the warp was last here
    const void *address = nullptr, *code = nullptr;  // of its last access
    unsigned int times = 0;      // that it has read this again and again
    void begin() {
        path.clear();
        followed = times = 0;
        depth = 1;
        at[1] = stood[1] = 0;
        code = nullptr;
    }
    void arrive() {  // where all lanes are: how they came does not matter
        if (path.empty()) return;
        path.clear();
        followed = 0;
        for (unsigned int d = 1; d <= depth; d++) stood[d] = at[d];
    }
};

// A place in a function that has called `stops_here(place)`, which returns false at first, and true when `go_on_at(place)`
// has come back to it, from another stack.
#if defined(__x86_64__) && defined(__GNUC__)
// The compilers' own, which save three registers, and spill only what is needed. `go_on_at` must be in another function.
using StoppedAt = void* [5];
#define stops_here(place) __builtin_setjmp(place)
#define go_on_at(place) __builtin_longjmp(place, 1)
inline const char* top_of_stack(const StoppedAt& place) { return static_cast<const char*>(place[2]); }
#else
using StoppedAt = jmp_buf;
#define stops_here(place) _setjmp(place)
#define go_on_at(place) _longjmp(place, 1)
inline const char* top_of_stack(const StoppedAt&) { return nullptr; }
#endif

// A thread of a block that can stop and go on: a stack, and the place where it stopped.
// `swapcontext`, which calls the kernel of the system, takes ten times as long as a switch by `go_on_at`; `setcontext`
// is used once, to get onto the new stack.
struct alignas(64) Fiber {
    // CUDA's limit on a thread's local memory, and room for the engine; pages are taken from the system when touched.
    static constexpr size_t local_bytes = 512 * 1024, stack_bytes = local_bytes + 64 * 1024;

    // What a switch and a barrier touch comes first, in as few lines of a cache as possible.
    StoppedAt place;
    Fiber* next = nullptr;  // in its queue
    uint3 thread;           // the thread that runs or waits here,
    unsigned int number;    // and its place in the block, x first
    Waiting waiting = Waiting::nothing;
    bool begun = false;  // on this stack
    bool has_thread = false;
    bool carry = false;         // PTX: of the thread's last instruction with .cc
    bool polls = false;         // it waits for a phase, but goes on when no other thread can
    unsigned int polled = 0;    // how often in a row it was told that the phase is not over
    unsigned int group = 0;     // that copies belong to until it is committed
    unsigned int bulk_group = 0;
    unsigned int mask;          // for whom of its warp it waits; afterwards who came
    const char* function;       // where it waits: the function's name
    const void* code;           // and the place it was called from
    uint64_t value;             // what it brought
    uint64_t* values;           // afterwards: what the others of its warp brought
    TracedThread* traced;       // what a trace keeps of the thread
    struct {               // where it waits at one of PTX's barriers; `value` is its vote, and afterwards the sum
        unsigned int number, threads, given;  // 0 was given if the barrier is for all threads of the block
        BarrierUse use;
        bool aligned;
    } named;
    Walk walk;

    void (*work)(void* const (&)[32], unsigned int);  // what is done for all of its warp, as in meet_for
    bool orders;           // accesses before the meeting come before those after it, as __syncwarp promises
    char* stack;
    size_t shift;  // bytes of marks at the top: at the same place in each page, few stacks would fit in a cache
    char* top = nullptr;  // where the frames of its threads begin, below the engine's own
    ucontext_t entry;
    const void* polled_at = nullptr;  // the barrier whose phase is not over
    // The cluster's barrier: the phase at which it has arrived without waiting yet, plus 1, and where; 0: none.
    uint64_t at_cluster_phase = 0;
    const void* arrived_code = nullptr;

    struct Copy {  // asynchronous, not yet done
        void* to;
        const void* from;
        size_t bytes, zeros;  // the last `zeros` bytes are 0
        const void* code;
        unsigned int group;
        uint32_t begun;  // when, by a trace's time
    };
    std::deque<Copy> copies;
    std::deque<BulkTransfer> bulk;  // that its groups wait for, the oldest first

    // Between two turns of a fiber, others fill the cache: what it needs is fetched while another one runs.
    void is_read_soon() const {
        __builtin_prefetch(this);
        __builtin_prefetch(&waiting);
    }
    void runs_soon() const {
        for (int line = 0; line < 4; line++) __builtin_prefetch(top_of_stack(place) + 64 * line);
    }

    void forget_copies() {  // another thread begins here
        if (!copies.empty()) copies.clear();
        if (!bulk.empty()) bulk.clear();
        group = bulk_group = polled = 0;
    }

    explicit Fiber(size_t number);  // of its worker
    ~Fiber();
    Fiber(const Fiber&) = delete;
    char* end() const { return stack + stack_bytes - shift; }
    static size_t guard_bytes();  // on both sides of the stack
    bool holds(const void* p) const { return p >= stack && p < stack + stack_bytes; }
    bool around(const void* p) const;
};

struct Queue {
    Fiber *first = nullptr, *last = nullptr;
    unsigned int length = 0;
    void add(Fiber* fiber) {
        fiber->next = nullptr;
        (first ? last->next : first) = fiber;
        last = fiber;
        length++;
    }
    void add_all(Queue& other) {
        if (!other.first) return;
        (first ? last->next : first) = other.first;
        last = other.last;
        length += other.length;
        other = {};
    }
    Fiber* take() {
        Fiber* fiber = first;
        if (!fiber) return fiber;
        first = fiber->next, length--;
        if (first) first->runs_soon();
        if (first && first->next) first->next->is_read_soon();
        return fiber;
    }
};

// 32 threads; bit i of a mask is lane i.
struct Warp {
    Fiber* lanes[32] = {};     // those that wait
    unsigned int waiting = 0;  // for others of the warp
    unsigned int active = 0;   // at __activemask
    unsigned int in_step = 0;  // at an access that the warp makes in step
    unsigned int named = 0;    // at one of PTX's barriers, until the others of the warp come
    unsigned int ended = 0;    // those that have ended, or never were
    struct {
        uint64_t values[32];
    } met[32][2];  // what the lanes of a meeting brought, by its lowest lane, this time and the time before
    unsigned char turn[32] = {};
};

// One of PTX's barriers 0 to 15 or a tile's, from the first warp that comes to the end of the phase (named_barriers.cpp).
struct NamedBarrier {
    unsigned int threads = 0;  // that it waits for
    unsigned int given = 0;    // the same; 0 where the instructions give no number
    unsigned int came = 0;     // 32 for each warp; 0: it is not in use
    unsigned int first = 0;    // the warp that came first
    bool reduces = false;
    uint64_t votes = 0;
    std::vector<bool> warps;  // those that have come
    Queue waiting;            // their threads that wait for the end
};

// A barrier that is an object in memory: an mbarrier, or a cuda::barrier, which is one (phases.cpp). A phase is over
// when `expected` threads have arrived, the copies that belong to it are done, and as many bytes have come as were
// announced.
struct PhaseBarrier {
    Block* of;  // in whose shared memory it is
    unsigned int expected, pending;
    uint64_t phase = 0;  // that is under way
    Queue waiting;       // for its end
    struct Landing {     // copies of a thread, up to a group of them
        Fiber* of;
        unsigned int group;
    };
    std::vector<Landing> landings;
    int64_t bytes = 0;                    // the tx-count: announced and not there; below 0: there and not announced
    int64_t announced = 0;                // in this phase, all together
    std::vector<BulkTransfer> transfers;  // that it counts and that are not done, the oldest first
    const void* announced_at = nullptr;   // the code of the last expect_tx
};

}  // namespace cuda_on_cpu
