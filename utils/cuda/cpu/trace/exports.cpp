// What the runtime exports for traces: the functions by which Python (run.py, extension.py) and the allocator of a
// traced extension (traced_allocator.h) begin a trace, name its tensors and end it.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "../runtime/boxes.h"
#include "cuda_on_cpu/host.h"
#include "state.h"

using namespace cuda_on_cpu;

// A trace of this CPU thread's launches begins. `seed` of the order of threads and blocks: -1 forward, -2 reversed.
// `goes_on`: the host code relies on its launches, so they do not end with problem number `max_problems`.
extern "C" void cuda_on_cpu_trace_begin(long long seed, size_t max_problems, uint64_t max_steps, bool goes_on) {
    delete tracing;
    tracing = new Trace(seed, max_problems, max_steps, goes_on);
    trace_allocations();
}

// `whole` is the memory that it shares with the regions that it overlaps: given for each of them in the same words.
struct Whole {
    void* base;
    size_t bytes, element;
};

static Region& add_region(void* base, size_t bytes, size_t element, size_t alignment, size_t slack, Whole whole) {
    auto region = std::make_unique<Region>();
    region->begin = reinterpret_cast<uintptr_t>(base);
    region->end = region->begin + bytes;
    region->slack = slack;
    region->element = std::max<size_t>(1, element);
    region->alignment = std::max<size_t>(1, alignment);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(whole.base);
    for (auto& r : tracing->regions)
        if (r->memory->begin == begin && r->memory->bytes >= whole.bytes) region->memory = r->memory;
    if (!region->memory) region->memory = std::make_shared<Memory>(begin, whole.bytes, std::max<size_t>(1, whole.element));
    tracing->regions.push_back(std::move(region));
    return *tracing->regions.back();
}

static Region* region_at(const void* base) {
    for (auto& r : tracing->regions)
        if (r->begin == reinterpret_cast<uintptr_t>(base)) return r.get();
    return nullptr;
}

// Adds a tensor. An access within `slack` bytes around it does no harm. 0 if there is no memory for its record.
extern "C" int cuda_on_cpu_trace_region(const char* name, void* base, size_t bytes, size_t element, size_t alignment,
                                         size_t slack, int output, void* whole, size_t whole_bytes,
                                         size_t whole_element) {
    Region& region = add_region(base, bytes, element, alignment, slack, {whole, whole_bytes, whole_element});
    region.name = name;
    region.output_end = output ? region.end - region.begin : 0;
    if (output) region.memory->written.resize(region.memory->bytes);
    return region.memory->shadow.made();
}

// Tensors that traced extensions have allocated, by their addresses, with their bytes: some outlive the call.
static Mutex allocations_mutex;
static std::map<uintptr_t, size_t>& allocations() {
    static auto& all = *new std::map<uintptr_t, size_t>;
    return all;
}

// The same for a tensor of an extension (traced_allocator.h): kernels name it. `poisoned` says that the extension has
// allocated it, and that it has been filled with poison. It begins `offset` bytes into what a GPU would have placed at a
// multiple of 512.
extern "C" void cuda_on_cpu_trace_allocation(void* base, size_t bytes, size_t element, size_t slack, int poisoned,
                                             size_t offset, void* whole, size_t whole_bytes, size_t whole_element) {
    if (poisoned) {
        std::lock_guard lock(allocations_mutex);
        allocations()[reinterpret_cast<uintptr_t>(base)] = bytes;
    }
    if (!tracing) return;
    if (poisoned) fill_with_poison(base, bytes);
    Region& region = add_region(base, bytes, element, element, slack, {whole, whole_bytes, whole_element});
    region.name = "a tensor";
    region.named = false;
    region.shift = (offset - region.begin) % 512;
    region.poisoned = poisoned;
    if (poisoned) region.memory->written.resize(region.memory->bytes);
}

namespace cuda_on_cpu {
// What cudaMalloc and the like gave: a kernel that gets it names it.
void trace_allocated(void* base, size_t bytes, const char* name, uintptr_t code) {
    if (!tracing) return;
    cuda_on_cpu_trace_allocation(base, bytes, 1, 0, false, 0, base, bytes, 1);
    Region& region = *tracing->regions.back();
    region.name = region.origin = name;
    region.allocated = code;
}
}  // namespace cuda_on_cpu

// The tensor, or memory of cudaMalloc's, that holds this address: a kernel gets it in a table or a struct, or an earlier
// call has made it.
static void add_if_unknown(const void* address) {
    Place at{};
    if (!address || !find_tensor(address, at) || !at.inside() || at.freed) return;
    auto begin = reinterpret_cast<uintptr_t>(at.begin);
    size_t bytes = at.bytes;
    {
        std::lock_guard lock(allocations_mutex);  // one of these has room around it
        if (auto known = allocations().lower_bound(begin); known != allocations().end() && known->first < begin + bytes)
            std::tie(begin, bytes) = *known;
    }
    for (auto& r : tracing->regions)
        if (begin < r->end && r->begin < begin + bytes) return;
    void* base = reinterpret_cast<void*>(begin);
    cuda_on_cpu_trace_allocation(base, bytes, 1, 0, false, 0, base, bytes, 1);
}

extern "C" void cuda_on_cpu_trace_words(const void* const* words, size_t count) {
    for (size_t i = 0; i < count; i++) add_if_unknown(words[i]);
}

extern "C" void cuda_on_cpu_trace_freed(void* base) {
    {
        std::lock_guard lock(allocations_mutex);
        allocations().erase(reinterpret_cast<uintptr_t>(base));
    }
    if (!tracing) return;
    auto& regions = tracing->regions;
    for (size_t i = 0; i < regions.size(); i++)
        if (regions[i]->begin == reinterpret_cast<uintptr_t>(base)) {
            tracing->requests.forget_memory();
            regions.erase(regions.begin() + i);
            return;
        }
}

// A tensor that the extension allocated, whose part of `bytes` bytes it returns: that must have been written in full.
extern "C" void cuda_on_cpu_trace_returned(void* part, size_t bytes, size_t element) {
    const auto begin = reinterpret_cast<uintptr_t>(part);
    for (auto& r : tracing->regions) {
        if (!r->holds(begin, 1) || !r->poisoned) continue;
        const size_t first = begin - r->begin, end = std::min(first + bytes, size_t(r->end - r->begin));
        r->output_begin = r->output_end ? std::min(r->output_begin, first) : first;
        r->output_end = std::max(r->output_end, end);
        r->element = element;
    }
}

namespace cuda_on_cpu {
static void name_argument(const char* kernel, size_t i, uintptr_t address, size_t element, size_t alignment) {
    add_if_unknown(reinterpret_cast<const void*>(address));
    Region* region = region_at(reinterpret_cast<const void*>(address));
    if (!region || region->named) return;
    region->name = std::string(kernel) + "#" + std::to_string(i);
    region->of_kernel = true;
    if (element) region->element = element;
    tracing->tensor_by_host(*region);
    if (!element) return;
    region->element = element;
    region->alignment = alignment;
    Memory& memory = *region->memory;
    if (memory.begin != region->begin) return;
    memory.shadow = Shadow();
    memory.shadow.make(memory.bytes, element);
}

// Tensors first that the kernel gets as maps.
void name_arguments(const char* kernel, const Parameter* parameters, const void* const* arguments, size_t count) {
    if (!tracing) return;
    for (size_t i = 0; i < count; i++) {
        if (parameters[i].bytes != sizeof(CUtensorMap) || parameters[i].alignment != alignof(CUtensorMap)) continue;
        TensorMap map;
        memcpy(&map, arguments[i], sizeof map);
        if (map.is_whole()) name_argument(kernel, i, map.address, map.element(), map.element());
    }
    for (size_t i = 0; i < count; i++)
        if (parameters[i].is_pointer)
            name_argument(kernel, i, *static_cast<const uintptr_t*>(arguments[i]), parameters[i].pointee_bytes,
                          parameters[i].pointee_alignment);
}
}  // namespace cuda_on_cpu

// The report as JSON (records.py reads it), until the next call of this CPU thread.
extern "C" const char* cuda_on_cpu_trace_end() {
    static thread_local std::string report;
    if (!tracing) return nullptr;
    for (const auto& r : tracing->regions) {
        if (!r->output_end || tracing->stopped || trace_is_full(*tracing)) continue;
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(r->begin);
        const size_t size = r->end - r->begin;
        const auto written = r->memory->written.begin() + (r->begin - r->memory->begin);
        auto is_poison = [&](size_t i) { return bytes[i] == reinterpret_cast<const unsigned char*>(&poison)[i % 8]; };
        auto all_poison = [&] {
            for (size_t i = 0; i < size; i++)
                if (!is_poison(i)) return false;
            return true;
        };
        // What no kernel has written is torch's work, if not all of it is still poison. Single bytes do not show that:
        // they may well have its value.
        bool by_kernels = std::find(written, written + size, true) != written + size;
        if (r->poisoned && !by_kernels && (r->element == 1 || !all_poison())) continue;
        size_t elements = 0, first = 0;
        for (size_t e = r->output_begin / r->element; e * r->element < r->output_end; e++) {
            size_t end = std::min(r->output_end, (e + 1) * r->element);
            bool done = true;
            for (size_t i = e * r->element; i < end; i++) done = done && (written[i] || (r->poisoned && !is_poison(i)));
            if (!done && !elements++) first = e;
        }
        if (!elements) continue;
        Problem p;
        p.kind = "unwritten";
        p.bytes = r->element;
        place_in(p, r.get(), r->begin + first * r->element);
        p.count = elements;
        tracing->add(std::move(p));
    }
    tracing->report_failed();
    for (const Problem& p : tracing->problems)
        if (p.kind == "refused_launch" || p.kind == "failed_call") last_error() = cudaSuccess;  // the trace reports it
    report = tracing->json();
    delete tracing;
    tracing = nullptr;
    return report.c_str();
}

// Ends the launch that is being traced. Another CPU thread may call it.
extern "C" void cuda_on_cpu_trace_stop() { interrupted = true; }

// What is mapped for the copies of tensors, by where they begin.
struct Mapping {
    void* all;
    size_t bytes;
};
static std::mutex mappings_mutex;
static std::unordered_map<void*, Mapping> mappings;

// Where a process may have only so much address space (ulimit -v), what keeps tensors apart takes a small part of it.
static size_t distance() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return far_apart;
    return std::min<size_t>(far_apart, limit.rlim_cur / 256 / 65536 * 65536 + 65536);
}

// Memory for a tensor in a trace, at `shift` bytes behind a multiple of 512, `slack` bytes around it. Far from all
// others, so that an index which is far off still shows which tensor was meant. nullptr if there is no room for it.
extern "C" void* cuda_on_cpu_trace_memory(size_t bytes, size_t shift, size_t slack) {
    const size_t front = (slack + 511) / 512 * 512 + shift, pages = (front + bytes + slack + 4095) / 4096 * 4096;
    size_t apart = distance();
    auto map = [&] { return mmap(nullptr, pages + 2 * apart, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); };
    void* all = map();
    if (all == MAP_FAILED) apart = 65536, all = map();
    if (all == MAP_FAILED) return nullptr;
    char* begin = static_cast<char*>(all) + apart;
    if (mprotect(begin, pages, PROT_READ | PROT_WRITE)) {
        munmap(all, pages + 2 * apart);
        return nullptr;
    }
    std::lock_guard lock(mappings_mutex);
    mappings[begin + front] = {all, pages + 2 * apart};
    return begin + front;
}

extern "C" void cuda_on_cpu_trace_free(void* p) {
    std::lock_guard lock(mappings_mutex);
    auto found = mappings.find(p);
    if (found == mappings.end()) return;
    munmap(found->second.all, found->second.bytes);
    mappings.erase(found);
}
