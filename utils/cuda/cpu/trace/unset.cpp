// Local variables without a value: where what they hold reaches a tensor or a product, and where elements of a local
// array are read (include/cuda_on_cpu/unset.h).
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "cuda_on_cpu/unset.h"
#include "recorder.h"

namespace cuda_on_cpu {

UnsetBytes unset_bytes[2];
unsigned char unset_choice[most_unset];
static constexpr uint32_t compilers_pattern = 0xFEFEFEFE;  // in what unset_locals.py does not know (build.py)
static constexpr size_t most_suspects = 8;

static void fill(unsigned int which, uint64_t any, uint64_t integers) {
    UnsetBytes& bytes = unset_bytes[which];
    if (memcmp(bytes.any, &any, 8) == 0) return;
    for (size_t at = 0; at < most_unset_bytes; at += 8) {
        memcpy(bytes.any + at, &any, 8);
        memcpy(bytes.integers + at, &integers, 8);
    }
}

void fill_unset() { fill(0, unset_value, unset_integer); }

void choose_unset(uint64_t any, uint64_t integers, unsigned int first, unsigned int end) {
    fill(1, any, integers);
    memset(unset_choice, 0, most_unset);
    memset(unset_choice + first, 1, end - first);
}

// The modules that have such variables, each by addresses in it, and whether those hold integers.
static std::mutex modules_mutex;
static std::map<uintptr_t, bool>& modules_with_unset() {
    static auto& all = *new std::map<uintptr_t, bool>;
    return all;
}
void has_unset_locals(const void* of_module, bool integers) {
    std::lock_guard lock(modules_mutex);
    modules_with_unset()[reinterpret_cast<uintptr_t>(of_module)] = integers;
}
std::optional<bool> unset_between(uintptr_t begin, uintptr_t end) {
    std::lock_guard lock(modules_mutex);
    const auto& all = modules_with_unset();
    const auto from = all.lower_bound(begin), to = all.lower_bound(end);
    if (from == to) return {};
    return std::all_of(from, to, [](const auto& each) { return each.second; });
}

void local_is_unset(void* value, size_t bytes, bool integers, unsigned int number) {
    if (!tracing || !in_thread()) return;
    if (tracing->recorder) {
        memset(value, compilers_pattern & 0xFF, bytes);  // which a player does not show
        return;
    }
    const UnsetBytes& all = unset_bytes[unset_choice[number]];
    for (size_t at = 0; at < bytes; at += most_unset_bytes)
        memcpy(static_cast<char*>(value) + at, integers ? all.integers : all.any,
               std::min(most_unset_bytes, bytes - at));
}

// Whether an address is what an unset pointer holds, or so near to it that it is an index into that. No process has
// such addresses.
bool is_unset_address(uintptr_t a) {
    constexpr uint64_t compilers = compilers_pattern * 0x1'0000'0001ull, near = 1ull << 40;
    auto is_near = [&](uint64_t pattern) { return a - pattern + near < 2 * near; };
    return is_near(unset_value) || is_near(unset_integer) || is_near(compilers);
}

template <class T>
static T at(uintptr_t a) {
    T value;
    memcpy(&value, reinterpret_cast<const void*>(a), sizeof(T));
    return value;
}

static bool is_unset_word(uint32_t word) { return may_be_unset(reinterpret_cast<uintptr_t>(&word), 4); }
static bool is_unset_half(uint16_t bits) { return (bits & 0x7FFF) == (unset_value & 0x7FFF); }  // or bfloat16
static bool is_unset_double(uint64_t bits) {
    const uint64_t size = bits & ~0ull >> 1;
    return size > 0x7FFull << 52 && is_unset_float(0x7F800000 | uint32_t(size >> 29 & 0x7FFFFF));
}

bool is_unset_number(uint64_t bits) {
    const uint32_t low = uint32_t(bits);
    return is_unset_word(low) || low == compilers_pattern || is_unset_float(low & 0x7FFFFFFF) || is_unset_double(bits);
}

// Whether `bytes` bytes, 4 or 8, are those of `unset_integer` repeated, from anywhere on.
static bool is_unset_row(uintptr_t a, size_t bytes) {
    const uint64_t found = bytes == 8 ? at<uint64_t>(a) : at<uint32_t>(a);
    uint64_t turned = unset_integer;
    if (bytes == 8 && __builtin_popcountll(found) != __builtin_popcountll(turned)) return false;
    for (int i = 0; i < 8; i++, turned = turned >> 8 | turned << 56)
        if (found == (bytes == 8 ? turned : uint32_t(turned))) return true;
    return false;
}

// Whether memory holds what an unset variable does. `certain`: so many bytes of it that no number is the same by chance;
// otherwise it does if it holds floating-point numbers, which only the caller of the kernel may know.
static bool is_unset(const Region& r, uintptr_t a, size_t bytes, bool is_struct, bool& certain) {
    certain = false;
    if (bytes < 4) {
        const uintptr_t begin = a / 8 * 8;
        certain = begin >= r.begin && begin + 8 <= r.end && is_unset_row(begin, 8);
        return certain || (bytes == 2 && is_unset_half(at<uint16_t>(a)));
    }
    bool found = false;
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        const uint32_t word = at<uint32_t>(a + i);
        certain |= is_unset_word(word) && bytes <= 8 && !is_struct;  // in more, it may be a gap between members
        found |= is_unset_word(word) || is_unset_float(word & 0x7FFFFFFF) || word == compilers_pattern;
        if (bytes - i >= 8 && i % 8 == 0) found |= is_unset_double(at<uint64_t>(a + i));
        if (r.element == 2) found |= is_unset_half(word) || is_unset_half(word >> 16);
    }
    return found;
}

// A thread is about to store to a tensor, or to update it atomically.
void Trace::stores(TracedThread& t, uintptr_t a, size_t bytes, Op op, const void* code, Region* region, bool is_struct) {
    bool certain;
    if (op == Op::atomic && is_unset(*region, a, bytes, is_struct, certain)) return;  // another thread has reported it
    t.stored = {a, bytes, code, region, op, is_struct};
}

void trace_before_free(Trace& t) {
    if (!in_thread()) return;
    Block& b = block();
    if (TracedThread& thread = *b.running->traced; thread.stored.address) t.look_at_stored(b, thread);
}

// Whether the last store of a thread has stored what a local variable holds that was never set.
void Trace::look_at_stored(Block& b, TracedThread& t) {
    const auto stored = std::exchange(t.stored, {});
    bool certain;
    if (!is_unset(*stored.region, stored.address, stored.bytes, stored.is_struct, certain)) return;
    for (const Problem& p : problems)
        if (p.unset && !p.text.empty()) return;  // it was multiplied, and has been reported there
    Problem p;
    p.unset = p.suspect = true;
    p.kind = "uninitialized";
    p.who = party(b, *b.running, stored.code, stored.op);
    p.bytes = stored.bytes;
    place_in(p, stored.region, stored.address);
    Problem& noted = add(std::move(p));
    noted.certain |= certain;
}

// A thread reads an element of a local array that holds what nobody may have set. Whether that matters is not known
// before the launch has been repeated with another value in its place: many a kernel copies such elements and does not
// use them.
void Trace::reads_local(Block& b, uintptr_t a, size_t bytes, const void* code) {
    if (again || suspects.size() >= most_suspects || is_unset_table(a)) return;
    const bool is_unset = bytes == 8   ? at<uint64_t>(a) == unset_value || at<uint64_t>(a) == unset_integer
                          : bytes == 4 ? is_unset_word(at<uint32_t>(a))
                          : bytes == 2 ? is_unset_half(at<uint16_t>(a)) || is_unset_row(a / 4 * 4, 4)
                                       : bytes == 1 && is_unset_row(a / 4 * 4, 4);
    if (!is_unset) return;
    for (const Problem& p : suspects)
        if (p.who.code == reinterpret_cast<uintptr_t>(code)) return;
    Problem p;
    p.unset = p.suspect = true;
    p.kind = "uninitialized";
    p.who = party(b, *b.running, code, Op::load);
    p.bytes = bytes;
    p.space = Space::local;
    suspects.push_back(std::move(p));
}

void trace_operand(Trace& t, Block& b, const void* operand, size_t bytes, const char* function, const void* code) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(operand);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        const uint32_t word = at<uint32_t>(begin + i);
        if (!is_unset_word(word) && word != compilers_pattern) continue;
        Problem p;
        p.unset = p.suspect = true;
        p.kind = "uninitialized";
        p.text = function;
        p.who = party(b, *b.running, code);
        t.add(std::move(p));
        return;
    }
}

}  // namespace cuda_on_cpu
