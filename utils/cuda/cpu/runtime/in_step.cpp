// Volatile accesses, which the lanes of a warp make in step.
//
// Before Volta the lanes of a warp always ran side by side, and kernels relied on it: `volatile float* s; s[t] += s[t +
// 16]; s[t] += s[t + 8];` without a `__syncwarp()`. Since then CUDA does not promise it, but GPUs still nearly always do
// it. Here a lane runs ahead of the others until it is about to touch volatile memory, and notes the basic blocks that
// it runs through. When no thread of the block can go on otherwise, the noted paths are followed as a warp would go
// (trace/flow.h has the order), up to the first access: the lanes that are there make it, and the others stay.
//
// The compiler's hooks call these functions (trace/hooks.cpp), in sources that say `volatile` (build.py).
#include <algorithm>

#include "runtime.h"

namespace cuda_on_cpu {

static constexpr size_t longest_path = 4096;
// So often may a lane read the same place, before those that have come further go on too: it may wait for one of them.
static constexpr unsigned int most_reads = 1000;

// False on the way from one thread to the next, and in the host's code.
static bool runs_in_step() {
    return here && block().worker->flow && block().running && block().running->has_thread;
}

static void wait_here(Block& b, const void* code) {
    Fiber* me = b.running;
    b.worker->in_kernel = 0;
    me->walk.code = code;
    me->function = "a volatile access";
    me->code = code;
    me->waiting = Waiting::step;
    Warp& w = b.warp_of(me->number);
    w.lanes[me->number % 32] = me;
    w.in_step |= 1u << me->number % 32;
    b.in_step++;
    wait(me);
    enter_kernel(*my_block().worker);
}

void step_in_step(const void* code) {
    if (interrupted && in_host_call()) leave_host_call("");
    if (!runs_in_step()) return;
    Block& b = block();
    Worker& w = *b.worker;
    Walk& walk = b.running->walk;
    w.in_kernel = 0;
    const size_t own = Fiber::stack_bytes - Fiber::local_bytes;
    if (__builtin_frame_address(0) < b.running->stack + own / 2) {  // what follows must not overflow it
        w.fault_address = b.running->stack - 1;
        w.fault_stack = w.fault_code = nullptr;
        fail(SIGSEGV);
    }
    uint16_t to = w.flow->block(uint32_t(reinterpret_cast<uintptr_t>(code)));
    w.flow->went(walk.at[walk.depth], to);
    walk.at[walk.depth] = to;
    walk.path.push_back(to | unsigned(walk.depth) << 16);
    enter_kernel(w);
    if (walk.path.size() - walk.followed >= longest_path) {
        walk.address = nullptr;
        walk.times += most_reads / 32;  // after 33 such paths: it may wait for another lane, by an atomic for instance
        wait_here(b, code);
    }
}

void call_in_step(int deeper) {
    if (!runs_in_step()) return;
    Walk& walk = block().running->walk;
    if (deeper > 0 && walk.depth < 63) walk.at[++walk.depth] = 0;
    if (deeper < 0 && walk.depth > 1) walk.depth--;
}

void wait_in_step(const void* address, const void* code, bool reads) {
    if (!runs_in_step() || block().running->holds(address)) return;
    Walk& walk = block().running->walk;
    bool again = reads && walk.code == code && walk.address == address;
    walk.times = again ? walk.times + 1 : 0;
    walk.address = address;
    wait_here(block(), code);
}

// Follows the paths of the lanes that wait, up to the warp's next access. The lanes that make it.
static unsigned int next_access(Flow& flow, Warp& w) {
    constexpr uint64_t none = ~uint64_t(0);
    const std::vector<uint16_t>& order = flow.order();
    uint64_t next[32];  // where each lane is: deeper calls first, then by the order of blocks, then by the code
    auto look = [&](int i) {
        Walk& walk = w.lanes[i]->walk;
        bool begins = walk.followed < walk.path.size();
        uint32_t step = begins ? walk.path[walk.followed] : 0;
        unsigned int depth = begins ? step >> 16 : walk.depth;
        if (begins) walk.stood[depth] = uint16_t(step);
        uint32_t code = begins ? 0 : uint32_t(reinterpret_cast<uintptr_t>(walk.code)) | 1;
        return uint64_t(63 - depth) << 48 | uint64_t(order[walk.stood[depth]]) << 32 | code;
    };
    for (int i = 0; i < 32; i++) next[i] = w.in_step >> i & 1 ? look(i) : none;
    for (;;) {
        const uint64_t first = *std::min_element(next, next + 32);
        unsigned int together = 0;
        for (int i = 0; i < 32; i++) together |= unsigned(next[i] == first) << i;
        if (uint32_t(first)) return together;
        for (unsigned int rest = together; rest; rest &= rest - 1) {
            int i = __builtin_ctz(rest);
            w.lanes[i]->walk.followed++;
            next[i] = look(i);
        }
    }
}

bool release_in_step(Block& b) {
    if (!b.in_step) return false;
    for (size_t i = 0; i < (b.threads + 31) / 32; i++) {
        Warp& w = b.warps[i];
        if (!w.in_step) continue;
        unsigned int go_on = next_access(*b.worker->flow, w);
        bool wait_for_others = true;  // as far as can be seen: they read the same places again and again
        for (unsigned int rest = go_on; rest; rest &= rest - 1)
            wait_for_others = wait_for_others && w.lanes[__builtin_ctz(rest)]->walk.times > most_reads;
        if (wait_for_others) go_on = w.in_step;
        for (unsigned int rest = go_on; rest; rest &= rest - 1) {
            Fiber* fiber = w.lanes[__builtin_ctz(rest)];
            Walk& walk = fiber->walk;
            if (walk.followed == walk.path.size()) walk.path.clear(), walk.followed = 0;
            b.ready.add(fiber);
        }
        b.in_step -= __builtin_popcount(go_on);
        w.in_step &= ~go_on;
    }
    return true;
}

}  // namespace cuda_on_cpu
