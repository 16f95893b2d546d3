// What the host's own code has from malloc, calloc, realloc and new. Behind each piece lie bytes that nobody needs, so
// an overrun, by a loop or by cudaMemcpy, destroys nothing of Python's; it is noticed when the piece is given back, or
// before the copy. A piece stays apart for a while after it was given back: giving it back again is noticed too.
//
// Some pieces are given back where the linker has put nothing in the way: by the C++ library, whose strings grow there.
// The entry in the table is then out of date, and the address may have become another piece, of the C library's: the
// number of bytes that the C library has written in front of it tells the two apart.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "../runtime/runtime.h"
#include "../trace/trace.h"
#include "streams.h"

namespace cuda_on_cpu {

namespace {

constexpr size_t least_behind = 64, most_behind = size_t(64) << 20, marked = 4096;
constexpr unsigned char mark = 0xD7;

struct Array {
    size_t bytes, behind, header;  // the header as it was when the piece was taken
    Source source;
    bool given_back;
};

// Of one byte per element where eight were needed, an overrun is seven times as large as the array.
size_t bytes_behind(size_t bytes) { return std::clamp(bytes, least_behind / 7 + 1, most_behind / 7) * 7; }

// glibc keeps how many bytes a piece has in front of it; the lowest three bits say other things.
size_t& header_of(uintptr_t p) {
#ifdef __GLIBC__
    return reinterpret_cast<size_t*>(p)[-1];
#else
    static size_t none = 0;
    return none;
#endif
}

const char* name_of(Source source) {
    const char* const names[] = {"malloc", "new", "new[]"};
    return names[source];
}

std::string counted(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }
std::string described(const Array& array) { return counted(array.bytes) + " from " + name_of(array.source); }

class Arrays {
public:
    void* take(size_t bytes, Source source, void* (*from)(size_t)) {
        const size_t behind = bytes_behind(bytes);
        char* p = nullptr;
        if (bytes + behind > bytes) try {
                p = static_cast<char*>(from(bytes + behind));
            } catch (const std::bad_alloc&) {
            }
        if (!p) return from(bytes);  // which says that there is too little memory, or has just enough
        memset(p + bytes, mark, std::min(behind, marked));
        const auto begin = uintptr_t(p);
        std::lock_guard lock(mutex);
        forget(begin, begin + bytes + behind);
        table[begin] = {bytes, behind, header_of(begin), source, false};
        return p;
    }

    // What is wrong with an address that is not in the table, for realloc.
    std::string wrong_to_change(uintptr_t p) {
        std::lock_guard lock(mutex);
        return wrong_address(p, "realloc");
    }

    // What is wrong with giving it back; `later` is whether it is kept apart for now, and not the C library's to take.
    std::string give_back(void* p, Source source, size_t bytes, void (*to)(void*), bool& later) {
        std::lock_guard lock(mutex);
        later = false;
        const auto found = table.find(uintptr_t(p));
        if (found == table.end()) return wrong_address(uintptr_t(p), source == from_malloc ? "free" : "delete");
        Array& array = found->second;
        if (array.given_back) {
            later = true;
            return "frees the same memory twice: " + described(array);
        }
        if (is_damaged(*found)) {
            header_of(uintptr_t(p)) = array.header;
            later = array.given_back = true;
            return "has written before the start of an array of " + described(array);
        }
        if (array.source != source || (bytes && bytes != array.bytes) || !is_current(*found)) {
            table.erase(found);
            return "";
        }
        later = true;
        const bool certain = source != from_new || bytes;  // without a size it may be a string of the C++ library's
        const bool overrun = certain && bytes_overrun(*found);
        array.given_back = true;
        if (!overrun) {
            keep_apart(uintptr_t(p), to);
            return "";
        }
        return "has written past the end of an array of " + described(array) +
               (source == from_malloc ? " (it counts bytes: is `* sizeof` missing?)" : "");
    }

    // Whether it is a piece from `malloc`, and how many bytes it has.
    bool find(void* p, size_t& bytes) {
        std::lock_guard lock(mutex);
        const auto found = table.find(uintptr_t(p));
        if (found == table.end() || found->second.given_back || !is_current(*found)) return false;
        bytes = found->second.bytes;
        return true;
    }

    // Of which piece, in use, an address is; empty if of none.
    std::string of(uintptr_t p) {
        std::lock_guard lock(mutex);
        const Entry* entry = around(p);
        return entry && !entry->second.given_back ? described(entry->second) : "";
    }

    // What is wrong with using so many bytes at this address.
    std::string wrong_use(uintptr_t p, size_t bytes) {
        std::lock_guard lock(mutex);
        const Entry* entry = around(p);
        if (!entry) return "";
        const auto& [begin, array] = *entry;
        if (array.given_back) return "copies from or to memory that it has freed: " + described(array);
        if (begin + array.bytes >= p && begin + array.bytes - p >= bytes) return "";
        const std::string at = p == begin ? "" : ", at byte " + std::to_string(p - begin);
        return "copies " + counted(bytes) + at + " of an array of only " + described(array);
    }

private:
    using Table = std::map<uintptr_t, Array>;  // by where they begin
    using Entry = Table::value_type;
    struct Apart {
        uintptr_t p;
        void (*to)(void*);
    };
    static constexpr size_t most_apart = 10'000, most_bytes_apart = size_t(32) << 20;
    Mutex mutex;
    Table table;
    std::deque<Apart> apart;
    size_t bytes_apart = 0;

    static bool is_current(const Entry& entry) { return (header_of(entry.first) ^ entry.second.header) < 8; }

    // glibc's header of the piece behind says whether this one is in use (bit 0); one of the system's own pages (bit 1)
    // has none behind it.
    static bool is_in_use(const Entry& entry) {
        if (!is_current(entry)) return false;
        const size_t header = entry.second.header;
        return header & 2 || !header || header_of(entry.first + (header & ~size_t(7))) & 1;
    }

    // Its header is no number of bytes that glibc would write: a multiple of 16, and no more than there are addresses.
    static bool is_damaged(const Entry& entry) {
        const size_t header = header_of(entry.first);
        return !is_current(entry) && (header & 8 || header < 32 || header >> 47);
    }

    // Whether glibc has a piece of its own there, where the entry's was: the sizes in front of it and behind it say so.
    static bool is_piece_of_glibc(uintptr_t p, const Entry& entry) {
        auto may_be = [](size_t header) { return !(header & 8) && header >= 32; };
        const size_t size = header_of(p) & ~size_t(7);
        if (p % 16 || !may_be(header_of(p)) || size > entry.first + all_bytes(entry) - p) return false;
        return may_be(header_of(p + size)) && header_of(p + size) & 1;
    }

    static size_t bytes_overrun(const Entry& entry) {
        const auto* behind = reinterpret_cast<const unsigned char*>(entry.first + entry.second.bytes);
        size_t overrun = std::min(entry.second.behind, marked);
        while (overrun && behind[overrun - 1] == mark) overrun--;
        return overrun;
    }

    // Entries that are out of date: a new piece is where theirs were.
    void forget(uintptr_t begin, uintptr_t end) {
        auto entry = table.lower_bound(begin);
        if (entry != table.begin() && std::prev(entry)->first + all_bytes(*std::prev(entry)) > begin) entry--;
        while (entry != table.end() && entry->first < end) entry = table.erase(entry);
    }

    static size_t all_bytes(const Entry& entry) { return entry.second.bytes + entry.second.behind; }

    // The piece, or what lies behind it, that an address is in.
    const Entry* around(uintptr_t p) const {
        const auto next = table.upper_bound(p);
        if (next == table.begin()) return nullptr;
        const Entry& entry = *std::prev(next);
        return p - entry.first < all_bytes(entry) && is_in_use(entry) ? &entry : nullptr;
    }

    std::string wrong_address(uintptr_t p, const char* function) const {
        const std::string what = std::string("gives ") + function + " ";
        const void* address = reinterpret_cast<void*>(p);
        Dl_info variable;
        if (is_on_stack(address) || dladdr(address, &variable))
            return what + "the address of a variable, which is not from malloc or new";
        const Entry* entry = around(p);
        const std::string odd = p < 4096 || p % 16 ? what + "an address that is not from malloc or new" : "";
        if (!entry || entry->second.given_back || p - entry->first >= entry->second.bytes) return odd;
        if (bytes_overrun(*entry) || is_piece_of_glibc(p, *entry)) return odd;  // the entry may well be out of date
        const auto& [begin, array] = *entry;
        return what + "an address in the middle: byte " + std::to_string(p - begin) + " of " + described(array);
    }

    void keep_apart(uintptr_t p, void (*to)(void*)) {
        apart.push_back({p, to});
        bytes_apart += table[p].bytes;
        while (apart.size() > most_apart || bytes_apart > most_bytes_apart) {
            const Apart oldest = apart.front();
            apart.pop_front();
            const auto entry = table.find(oldest.p);
            bytes_apart -= entry->second.bytes;
            table.erase(entry);
            oldest.to(reinterpret_cast<void*>(oldest.p));
        }
    }
};

Arrays& arrays = *new Arrays;

bool is_own() { return in_program || in_host_call(); }

}  // namespace

void refuse_host(const std::string& what) {
    if (in_host_call()) leave_host_call(what);
    fprintf(stderr, "the host %s\n", what.c_str());
    if (!in_program) return;
    if (tracing) trace_host_error(*tracing, "the host " + what);
    else fprintf(stderr, "Run it with --trace, which shows the line.\n");
    abort();
}

void* take_for_host(size_t bytes, Source source, void* (*from)(size_t)) {
    return is_own() ? arrays.take(bytes, source, from) : from(bytes);
}

void give_back_for_host(void* p, Source source, size_t bytes, void (*to)(void*)) {
    bool later = false;
    const std::string wrong = p ? arrays.give_back(p, source, bytes, to, later) : "";
    if (!wrong.empty()) return refuse_host(wrong);
    if (!later) to(p);
}

bool is_from_host(void* p, size_t& bytes) { return arrays.find(p, bytes); }

void check_from_host(void* p) {
    const std::string wrong = arrays.wrong_to_change(uintptr_t(p));
    if (!wrong.empty()) refuse_host(wrong);
}

void check_host_array(const void* p, size_t bytes) {
    const std::string wrong = arrays.wrong_use(uintptr_t(p), bytes);
    if (!wrong.empty()) refuse_host(wrong);
}

std::string host_memory(const void* p) {
    cudaPointerAttributes known;
    if (Place found; find_tensor(p, found) && !strcmp(found.what, tensor_of_host))
        return "memory of the host: a " + std::string(found.what);
    const std::string piece = arrays.of(uintptr_t(p));
    const bool of_host = !piece.empty() || (!here && is_on_stack(p));
    if (!of_host || cudaPointerGetAttributes(&known, p) || known.type != cudaMemoryTypeUnregistered) return "";
    return "memory of the host: " + (piece.empty() ? "a local variable" : piece);
}

// Of a pointer to an array a trace reports the access instead, with its line.
void look_at_arguments(const char* kernel, const Parameter* parameters, const void* const* arguments, size_t count,
                       const void* code) {
    if (!is_own()) return;
    for (size_t i = 0; i < count; i++) {
        if (!parameters[i].is_pointer) continue;
        const void* p = *static_cast<const void* const*>(arguments[i]);
        const std::string memory = host_memory(p);
        const bool is_tensor = memory.ends_with(tensor_of_host);
        if (memory.empty() || (tracing && !is_tensor && !is_on_stack(p))) continue;
        const char* needed = is_tensor ? ". Make it as the kernel's other tensors, with `x.options()`, or with "
                                         "`torch::device(torch::kCUDA)`."
                                       : ". A kernel needs a pointer from cudaMalloc.";
        const std::string said = "argument " + std::to_string(i + 1) + " of " + kernel + " points to " + memory + needed;
        if (tracing && in_program) return trace_host_error(*tracing, said, code), fault(cudaErrorIllegalAddress, "");
        return fault(cudaErrorIllegalAddress, ("CUDA error: an illegal memory access was encountered: " + said).c_str());
    }
}

}  // namespace cuda_on_cpu
