// torch's allocator on the CPU: each tensor is between pages that no thread may touch (guarded.h).
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <utility>

#include "guarded.h"

namespace cuda_on_cpu {
namespace {

GuardedMemory& tensors() {
    static GuardedMemory* all = [] {
        auto* made = new GuardedMemory("tensor", true);
        // A process may fork while another of its threads is in here; the child has a use for whole lists only.
        pthread_atfork([] { tensors().mutex.lock(); }, [] { tensors().mutex.unlock(); },
                       [] { tensors().mutex.unlock(); });
        return made;
    }();
    return *all;
}

thread_local bool of_host = false;

// Serves torch as its own allocator does; where there is no room for guards, that one serves.
class GuardAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        void* begin = bytes ? tensors().take(bytes, of_host ? tensor_of_host : nullptr) : nullptr;
        if (begin)
            c10::profiledCPUMemoryReporter().New(begin, bytes);
        else if (bytes)
            begin = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
        return {begin, begin, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

private:
    static void release(void* begin) {
        if (!begin) return;
        Guarded* r = tensors().of(begin);
        if (!r) return c10::GetDefaultCPUAllocator()->raw_deallocate(begin);
        c10::profiledCPUMemoryReporter().Delete(begin);  // before another tensor may get this place
        tensors().give_back(r);
    }
};

}  // namespace
}  // namespace cuda_on_cpu

extern "C" const cuda_on_cpu::Guard* cuda_on_cpu_guard() {
    using namespace cuda_on_cpu;
    static const Guard guard{[](const void* address, Place& found) { return tensors().find(address, found); },
                             [](Place& found) { return tensors().damage(found); },
                             [](bool on) { return std::exchange(of_host, on); }};
    return &guard;
}

extern "C" bool cuda_on_cpu_guard_holds(const void* address) {
    cuda_on_cpu::Place found;
    return cuda_on_cpu::tensors().find(address, found);
}

// From now on torch's tensors on the CPU are ours; false where torch's allocator has been replaced by another.
extern "C" bool cuda_on_cpu_guard_install() {
    static auto* ours = new cuda_on_cpu::GuardAllocator;
    if (c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator()) c10::SetCPUAllocator(ours, 255);
    return c10::GetCPUAllocator() == ours;
}
