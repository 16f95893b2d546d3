// Fences between the ways to memory, which only a trace looks at, and the registers that warps hand to each other.
#include <algorithm>
#include <string>

#include "cuda_on_cpu/phases.h"
#include "profile.h"
#include "runtime.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

void fence_proxy(ProxyFence fence) {
    Block& b = block();
    if (!b.worker->trace) return;
    if (fence == ProxyFence::all) trace_proxy_fence(*b.worker->trace, b, -1);
    if (fence == ProxyFence::shared) trace_proxy_fence(*b.worker->trace, b, 0);
    if (fence == ProxyFence::global) trace_proxy_fence(*b.worker->trace, b, 1);
    if (fence == ProxyFence::init) trace_proxy_fence(*b.worker->trace, b, 2);
}

// ---- setmaxnreg -----------------------------------------------------------------------------------------------------

// Registers of each thread when the block begins: as many as a block of this size can have. It may have got fewer.
static unsigned int registers_at_launch(const Block& b) {
    const unsigned int warps = (b.threads + 31) / 32;
    return std::min(unsigned(profile.registers) / (warps * 32) / 8 * 8, 256u);
}

static void no_work(void* const (&)[32], unsigned int) {}

void set_registers(unsigned int count, bool more, const char* name) {
    const void* code = __builtin_return_address(0);
    if (count < 24 || count > 256 || count % 8)
        fail(wrong_registers, std::string("calls ") + name + " for " + std::to_string(count) +
                                  " registers: it takes a multiple of 8 from 24 to 256");
    meet_for(no_work, nullptr, name, code);
    Block& b = my_block();
    b.worker->in_kernel = 0;
    Fiber* me = b.running;
    me->polled = 0;
    if (b.registers.empty()) b.registers.assign(b.threads, registers_at_launch(b));
    const unsigned int before = b.registers[me->number];
    if (!more && count > before)
        fail(wrong_registers, std::string("calls ") + name + " for " + std::to_string(count) +
                                  " registers, but has only " + std::to_string(before));
    b.registers[me->number] = count;
    if (count > before) {
        me->value = count - before;
        me->function = name;
        me->code = code;
        me->waiting = Waiting::registers;
        b.at_registers.add(me);
    } else {
        b.free_registers += before - count;
    }
    while (b.at_registers.first && b.at_registers.first->value <= b.free_registers) {
        Fiber* next = b.at_registers.take();
        b.free_registers -= next->value;
        b.ready.add(next);
    }
    if (count > before) wait(me);
    enter_kernel(*my_block().worker);
}

Fiber* one_that_waits_for_registers(const Block& b, std::string& why) {
    Fiber* waits = b.at_registers.first;
    if (!waits) return nullptr;
    why = "waits in vain at " + std::string(waits->function) + " for " + std::to_string(waits->value) +
          " registers more: the block began with " + std::to_string(registers_at_launch(b)) +
          " for each thread, and what others have given back is not enough";
    return waits;
}

}  // namespace cuda_on_cpu
