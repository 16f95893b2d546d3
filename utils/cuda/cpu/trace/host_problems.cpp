// Problems of the host's code: calls of CUDA's that fail, memory that is not for it, launches that no trace sees.
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <iterator>
#include <utility>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "state.h"

namespace cuda_on_cpu {

uintptr_t caller() {
    void* frames[32];
    Dl_info own{}, other{};
    dladdr(reinterpret_cast<void*>(trace_failed), &own);
    const int count = backtrace(frames, std::size(frames));
    for (int i = 0; i < count; i++)
        if (dladdr(frames[i], &other) && other.dli_fbase != own.dli_fbase) return reinterpret_cast<uintptr_t>(frames[i]);
    return 0;
}

void trace_failed(Trace& t, cudaError_t error) {
    if (here || !(in_program || in_host_call())) return;
    Problem p;
    p.kind = "failed_call";
    p.text = std::string(cudaGetErrorName(error)) + ", '" + cudaGetErrorString(error) + "'";
    p.who.code = caller();
    for (auto& [_, earlier] : t.failed)
        if (earlier.who.code == p.who.code) return void(earlier.count++);
    t.failed.emplace_back(t.problems.size(), std::move(p));
}

void trace_asked(Trace& t) { t.failed.clear(); }

void Trace::report_failed() {
    for (; !failed.empty(); failed.pop_back()) {
        auto& [found_before, p] = failed.back();
        total += p.count;
        problems.insert(problems.begin() + std::min(found_before, problems.size()), std::move(p));
    }
}

// The host's code has touched memory: the device's is not for it, and what both may touch must be finished. By a volatile
// access it may be waiting for that.
void Trace::of_host(const void* address, size_t bytes, Op op, const void* code, Strength strength) {
    Problem p;
    p.kind = "host_access";
    p.who.code = reinterpret_cast<uintptr_t>(code);
    p.who.op = op;
    p.bytes = bytes;
    if (Allocation found; is_device_memory(address, found)) {
        p.text = std::to_string(found.bytes) + " bytes from cudaMalloc";
        return void(add(std::move(p)));
    }
    if (!unfinished || strength != Strength::weak) return;
    const auto a = reinterpret_cast<uintptr_t>(address);
    for (auto& r : regions)
        if (r->holds(a, bytes) && r->memory && r->memory->unfinished && !r->origin.empty()) {
            place_in(p, r.get(), a);
            p.has_index = true;  // it is known which element
            return void(add(std::move(p)));
        }
}

void trace_untraced(Trace& t, const char* kernel) {
    Problem p;
    p.kind = "untraced_launch";
    p.text = std::string("a std::thread of the host code launches ") + kernel + ", which the trace does not see";
    t.add(std::move(p));
}

}  // namespace cuda_on_cpu
