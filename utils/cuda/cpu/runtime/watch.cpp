// Loops that call no hook: a trace watches over the kernel from another thread (runtime.h), and faults.cpp hears of it.
#include <chrono>
#include <ctime>

#include "../trace/trace.h"
#include "runtime.h"

namespace cuda_on_cpu {

// The compilers' hooks report every basic block to a trace, except an empty one: `while (true) {}` is a single jump.
Watch::Watch(const Trace& trace) : trace(trace), watched(pthread_self()), thread([this] { look(); }) {}

Watch::~Watch() {
    {
        std::lock_guard lock(mutex);
        over = true;
    }
    changed.notify_one();
    thread.join();
}

void Watch::look() {
    clockid_t clock;
    if (pthread_getcpuclockid(watched, &clock)) return;
    auto milliseconds = [&] {
        timespec used{};
        clock_gettime(clock, &used);
        return used.tv_sec * 1000 + used.tv_nsec / 1000000;
    };
    uint64_t heard = trace_pulse(trace);
    auto since = milliseconds();
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(200), [&] { return over; })) {
        const uint64_t now = trace_pulse(trace);
        if (now != heard) {
            heard = now;
            since = milliseconds();
        } else if (milliseconds() - since > 1000) {
            pthread_kill(watched, look_signal);
        }
    }
}

}  // namespace cuda_on_cpu
