// The report of a trace, and the functions by which Python (run.py, extension.py) begins and ends one.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "cuda_on_cpu/host.h"
#include "trace_parts.h"

namespace cuda_on_cpu {

static const char* const space_names[] = {"global", "shared", "constant"};
static const char* const op_names[] = {"load", "store", "atomic"};

static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 32)
            out += ' ';
        else
            out += c;
    }
    return out + '"';
}

static std::string triple(uint3 v) {
    return "[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + "]";
}

static std::string hex(uintptr_t v) {
    char text[32];
    snprintf(text, sizeof text, "\"0x%llx\"", (unsigned long long)v);
    return text;
}

// What the request of an asynchronous copy costs, and where in memory its lanes' words come from that go to shared memory.
static std::string copy_of(const Site& s) {
    if (!s.copy) return "";
    std::string out = ",\"cost_of_copy\":" + std::to_string(s.example.cost), words;
    if (s.space == Space::shared)
        for (unsigned int rest = s.example.lanes; rest; rest &= rest - 1)
            words += (words.empty() ? "" : ",") + std::to_string(s.example.other[__builtin_ctz(rest)]);
    return out + (words.empty() ? "" : ",\"from_words\":[" + words + "]");
}

std::string Trace::json() const {
    std::string out = "{\"sites\":[";
    bool first = true;
    for (const Site& s : requests.sites) {
        if (!s.requests) continue;
        const std::string& name = s.name;
        uintptr_t base = s.base;
        out += first ? "" : ",";
        first = false;
        out += "{\"pc\":" + hex(s.code) + ",\"space\":\"" + space_names[int(s.space)] + "\",\"op\":\"" +
               op_names[int(s.op)] + "\",\"bytes\":" + std::to_string(s.bytes) +
               ",\"accesses\":" + std::to_string(s.accesses) + ",\"requests\":" + std::to_string(s.requests) +
               ",\"sectors\":" + std::to_string(s.sectors) + ",\"wavefronts\":" + std::to_string(s.wavefronts) +
               ",\"bank_conflicts\":" + std::to_string(s.wavefronts - s.least_wavefronts) +
               ",\"example\":{\"block\":" + triple(block_place(grid, s.example.block)) + ",\"warp\":" + std::to_string(s.example.warp) +
               ",\"region\":" + (name.empty() ? "null" : quoted(name)) + ",\"element\":" + std::to_string(s.element) +
               copy_of(s) +
               ",\"base_alignment\":" + std::to_string(base % 512) + ",\"lanes\":[";
        bool first_lane = true;
        for (unsigned int rest = s.example.lanes; rest; rest &= rest - 1) {
            int lane = __builtin_ctz(rest);
            out += (first_lane ? "[" : ",[") + std::to_string(lane) + "," +
                   std::to_string(int64_t(s.example.address[lane] - base)) + "]";
            first_lane = false;
        }
        out += "]}}";
    }
    out += "],\"problems\":[";
    first = true;
    for (const Problem& p : problems) {
        out += first ? "{" : ",{";
        first = false;
        out += "\"kind\":\"" + p.kind + "\",\"pc\":" + hex(p.who.code) + ",\"op\":\"" + op_names[int(p.who.op)] +
               "\",\"bytes\":" + std::to_string(p.bytes) + ",\"block\":" + triple(p.who.block) +
               ",\"thread\":" + triple(p.who.thread) + ",\"space\":\"" + space_names[int(p.space)] +
               "\",\"region\":" + (p.in_region ? quoted(p.region) : "null") +
               ",\"region_bytes\":" + std::to_string(p.region_bytes) + ",\"element\":" + std::to_string(p.element) +
               ",\"offset\":" + std::to_string(p.offset) + ",\"count\":" + std::to_string(p.count) +
               ",\"text\":" + quoted(p.text);
        if (!p.ended.empty()) out += ",\"ended\":" + quoted(p.ended);
        if (p.line) out += ",\"line\":" + std::to_string(p.line);
        if (p.has_index) out += ",\"index\":" + std::to_string(p.index);
        if (!p.type.empty()) out += ",\"type\":" + quoted(p.type);
        if (p.needs) out += ",\"needs\":" + std::to_string(p.needs);
        if (p.has_other)
            out += ",\"other\":{\"pc\":" + hex(p.other.code) + ",\"op\":\"" + op_names[int(p.other.op)] +
                   "\",\"block\":" + triple(p.other.block) + ",\"thread\":" + triple(p.other.thread) +
                   ",\"left\":" + (p.other.left ? "true" : "false") + "}";
        if (p.stuck) out += ",\"stuck\":true";
        if (p.under_way) out += ",\"under_way\":true";
        if (p.copied) out += ",\"copied\":true";
        out += "}";
    }
    out += "],\"shared\":[";
    first = true;
    for (const auto& [name, type] : shared_types) {
        out += std::string(first ? "" : ",") + "{\"name\":" + quoted(name) + ",\"type\":" + quoted(type) + "}";
        first = false;
    }
    return out + "],\"total\":" + std::to_string(total) + ",\"threads\":" + std::to_string(threads) + "}";
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

// A trace of this CPU thread's launches begins. `seed` of the order of threads and blocks: -1 forward, -2 reversed.
extern "C" void cuda_on_cpu_trace_begin(long long seed, size_t max_problems, uint64_t max_steps) {
    delete tracing;
    tracing = new Trace(seed, max_problems, max_steps);
}

static Region& add_region(void* base, size_t bytes, size_t element, size_t alignment, size_t slack) {
    auto region = std::make_unique<Region>();
    region->begin = reinterpret_cast<uintptr_t>(base);
    region->end = region->begin + bytes;
    region->slack = slack;
    region->element = std::max<size_t>(1, element);
    region->alignment = std::max<size_t>(1, alignment);
    region->shadow.make(bytes, region->element);
    tracing->regions.push_back(std::move(region));
    return *tracing->regions.back();
}

static Region* region_at(const void* base) {
    for (auto& r : tracing->regions)
        if (r->begin == reinterpret_cast<uintptr_t>(base)) return r.get();
    return nullptr;
}

// Tells of a tensor. Addresses within `slack` bytes around it may be touched without harm.
extern "C" void cuda_on_cpu_trace_region(const char* name, void* base, size_t bytes, size_t element, size_t alignment,
                                         size_t slack, int output) {
    Region& region = add_region(base, bytes, element, alignment, slack);
    region.name = name;
    region.output = output;
    if (output) region.written.assign(bytes, false);
}

// The same for a tensor of an extension (traced_allocator.h): kernels name it. `pattern` is what it was filled with, where the
// extension allocated it, else -1. It begins `offset` bytes into what a GPU would have placed at a multiple of 512.
extern "C" void cuda_on_cpu_trace_allocation(void* base, size_t bytes, size_t element, size_t slack, int pattern,
                                             size_t offset) {
    if (!tracing) return;
    Region& region = add_region(base, bytes, element, element, slack);
    region.name = "a tensor";
    region.named = false;
    region.shift = (offset - region.begin) % 512;
    region.pattern = pattern;
    if (pattern >= 0) region.written.assign(bytes, false);
}

extern "C" void cuda_on_cpu_trace_freed(void* base) {
    if (!tracing) return;
    auto& regions = tracing->regions;
    for (size_t i = 0; i < regions.size(); i++)
        if (regions[i]->begin == reinterpret_cast<uintptr_t>(base)) {
            tracing->requests.forget_memory();
            regions.erase(regions.begin() + i);
            return;
        }
}

// A tensor that the extension allocated and returns: it must have been written in full.
extern "C" void cuda_on_cpu_trace_returned(void* base, size_t element) {
    for (auto& r : tracing->regions) {
        if (!r->holds(reinterpret_cast<uintptr_t>(base), 1) || r->pattern < 0) continue;
        r->output = true;
        r->element = element;
    }
}

namespace cuda_on_cpu {
void name_argument(const char* kernel, size_t i, const void* pointer, size_t element, size_t alignment) {
    Region* region = tracing ? region_at(pointer) : nullptr;
    if (!region || region->named) return;
    region->name = std::string(kernel) + "#" + std::to_string(i);
    if (!element) return;
    region->element = element;
    region->alignment = alignment;
    region->shadow = Shadow();
    region->shadow.make(region->end - region->begin, element);
}
}  // namespace cuda_on_cpu

// The report as JSON (records.py reads it), until the next call of this CPU thread.
extern "C" const char* cuda_on_cpu_trace_end() {
    static thread_local std::string report;
    if (!tracing) return nullptr;
    for (const auto& r : tracing->regions) {
        if (!r->output || tracing->stopped) continue;
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(r->begin);
        // What no kernel has written is torch's work, if not all of it is still the pattern. Of single bytes one cannot
        // tell: they may well have the pattern's value.
        bool by_kernels = std::find(r->written.begin(), r->written.end(), true) != r->written.end();
        if (r->pattern >= 0 && !by_kernels &&
            (r->element == 1 || !std::all_of(bytes, bytes + r->written.size(), [&](int b) { return b == r->pattern; })))
            continue;
        size_t elements = 0, first = 0;
        for (size_t e = 0; e * r->element < r->written.size(); e++) {
            size_t end = std::min(r->written.size(), (e + 1) * r->element);
            bool written = true;
            for (size_t i = e * r->element; i < end; i++)
                written = written && (r->written[i] || (r->pattern >= 0 && bytes[i] != r->pattern));
            if (!written && !elements++) first = e;
        }
        if (!elements) continue;
        Problem p;
        p.kind = "unwritten";
        p.bytes = r->element;
        place_in(p, r.get(), r->begin + first * r->element);
        p.count = elements;
        tracing->add(std::move(p));
    }
    for (const Problem& p : tracing->problems)
        if (p.kind == "refused_launch") last_error() = cudaSuccess;  // it has been told
    report = tracing->json();
    delete tracing;
    tracing = nullptr;
    return report.c_str();
}

// Where the pages begin and end that may be touched, and the tensor in them.
struct Room {
    size_t front, pages;
    Room(size_t bytes, size_t shift, size_t slack)
        : front((slack + 511) / 512 * 512 + shift), pages((front + bytes + slack + 4095) / 4096 * 4096) {}
};

// Memory for a tensor in a trace, at `shift` bytes behind a multiple of 512, `slack` bytes around it. Far from all
// others, so that an index which is far off still tells which tensor was meant.
extern "C" void* cuda_on_cpu_trace_memory(size_t bytes, size_t shift, size_t slack) {
    const Room room(bytes, shift, slack);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* all = mmap(nullptr, room.pages + 2 * far_apart, PROT_NONE, flags, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    char* begin = static_cast<char*>(all) + far_apart;
    mprotect(begin, room.pages, PROT_READ | PROT_WRITE);
    return begin + room.front;
}

extern "C" void cuda_on_cpu_trace_free(void* p, size_t bytes, size_t shift, size_t slack) {
    const Room room(bytes, shift, slack);
    munmap(static_cast<char*>(p) - room.front - far_apart, room.pages + 2 * far_apart);
}
