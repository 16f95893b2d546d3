// Problems of the host's code: calls of CUDA's that fail, memory that is not for it, launches that no trace sees.
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <iterator>
#include <utility>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "state.h"

namespace cuda_on_cpu {

// Whether the learner's: of the extension that has been called, or of the program.
static bool is_own_code(const void* code) {
    Dl_info found{}, own{};
    if (!in_program) return is_host_code(code);
    return dladdr(code, &found) && dladdr(program_data, &own) && found.dli_fbase == own.dli_fbase;
}

uintptr_t caller() {
    void* frames[32];
    const int count = backtrace(frames, std::size(frames));
    for (int i = 0; i < count; i++)
        if (is_own_code(frames[i])) return reinterpret_cast<uintptr_t>(frames[i]);
    return 0;
}

void trace_host_error(Trace& t, const std::string& what, const void* place) {
    Problem p;
    p.kind = "host_error";
    p.text = what;
    p.who.code = is_own_code(place) ? reinterpret_cast<uintptr_t>(place) : caller();
    t.add(std::move(p));
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
    const auto a = reinterpret_cast<uintptr_t>(address);
    for (auto& r : regions) {
        if (r->named || !r->holds(a, bytes) || !r->origin.empty() || r->by_host.address) continue;
        r->by_host = {p.who.code, a, bytes, op};
        tensor_by_host(*r);
    }
    if ((!unfinished && !streams) || strength != Strength::weak) return;
    auto overlaps = [&](auto& range) { return a < range.second && a + bytes > range.first; };
    auto is_unfinished = [&](Memory& m) {
        if (!streams || !m.of_streams) return m.unfinished;
        return !streams->host_knows(*m.of_streams, a - m.begin, bytes);
    };
    p.copied = op != Op::load && std::any_of(read_later.begin(), read_later.end(), overlaps);
    for (auto& r : regions)
        if (r->holds(a, bytes) && r->memory && !r->origin.empty() && (p.copied || is_unfinished(*r->memory))) {
            place_in(p, r.get(), a);
            p.region = r->origin;  // its name is that of a kernel's parameter
            p.has_index = true;  // it is known which element
            return void(add(std::move(p)));
        }
}

// A kernel gets this tensor, so it is in the GPU's memory, and an extension's own code has touched it.
void Trace::tensor_by_host(Region& region) {
    if (!region.of_kernel || !region.by_host.address || std::exchange(region.by_host.told, true)) return;
    Problem p;
    p.kind = "host_access";
    p.text = "tensor";
    p.who.code = region.by_host.code;
    p.who.op = region.by_host.op;
    p.bytes = region.by_host.bytes;
    place_in(p, &region, region.by_host.address);
    add(std::move(p));
}

void trace_refused(Trace& t, const char* kernel, const std::string& why, const void* code) {
    Problem p;
    p.kind = "refused_launch";
    p.who.code = code ? reinterpret_cast<uintptr_t>(code) : caller();
    p.text = std::string("the launch of ") + kernel + " is refused (CUDA error: " + cudaGetErrorString(last_error()) + "): " + why;
    t.add(std::move(p));
}

void trace_untraced(Trace& t, const UntracedLaunch& launch) {
    if (launch.kernel.empty()) return;
    Problem p;
    p.kind = "untraced_launch";
    p.who.code = reinterpret_cast<uintptr_t>(launch.code);
    p.text = "a std::thread of the host code launches " + launch.kernel + ", which the trace does not see";
    t.add(std::move(p));
}

}  // namespace cuda_on_cpu
