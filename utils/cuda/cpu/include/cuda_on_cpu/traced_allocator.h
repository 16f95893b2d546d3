// For load_cuda(trace=True): the tensors that an extension allocates, with room around them, known to the trace.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

extern "C" {
void cuda_on_cpu_trace_allocation(void* base, size_t bytes, size_t element, size_t slack, int poisoned, size_t offset,
                                  void* whole, size_t whole_bytes, size_t whole_element);
void cuda_on_cpu_trace_freed(void* base);
}

namespace cuda_on_cpu {

class TracedAllocator final : public c10::Allocator {
public:
    static constexpr size_t slack = 4096;  // also keeps torch's alignment
    static constexpr int beside = 0xCB;    // what fills it

    c10::DataPtr allocate(size_t bytes) override {
        auto* room = new c10::DataPtr(torchs->allocate(bytes + 2 * slack));
        unsigned char* all = static_cast<unsigned char*>(room->get());
        memset(all, beside, slack);
        memset(all + slack + bytes, beside, slack);
        cuda_on_cpu_trace_allocation(all + slack, bytes, 1, slack, true, 0, all + slack, bytes, 1);
        return {all + slack, room, &release, c10::Device(c10::DeviceType::CPU)};
    }
    void copy_data(void* to, const void* from, size_t bytes) const override { torchs->copy_data(to, from, bytes); }

    c10::Allocator* torchs = nullptr;  // torch's own, or the guard's (guard/guard.cpp)

private:
    static void release(void* room) {
        auto* all = static_cast<c10::DataPtr*>(room);
        cuda_on_cpu_trace_freed(static_cast<unsigned char*>(all->get()) + slack);
        delete all;
    }
};

}  // namespace cuda_on_cpu

// From now on torch allocates what is on the CPU through us, or (0) through its own allocator again.
extern "C" void cuda_on_cpu_watch_allocations(int on) {
    static auto* ours = new cuda_on_cpu::TracedAllocator;
    if (on) ours->torchs = c10::GetCPUAllocator();
    c10::SetCPUAllocator(on ? ours : ours->torchs, 255);
}
