// How much room the host's stack has at an address: a copy that is larger than the local variable it is meant for would
// destroy the frames of its callers, which are Python's.
#include <pthread.h>
#include <unwind.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "streams.h"
#include "../runtime/runtime.h"

namespace cuda_on_cpu {

static std::pair<uintptr_t, uintptr_t> found_stack() {
    pthread_attr_t attributes;
    void* stack = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &stack, &bytes);
        pthread_attr_destroy(&attributes);
    }
    const auto begin = reinterpret_cast<uintptr_t>(stack);
    return {begin, begin + bytes};
}

// Asked once: the C library reads all of /proc/self/maps for it.
std::pair<uintptr_t, uintptr_t> own_stack() {
    static thread_local const auto found = found_stack();
    return found;
}

namespace {
struct Search {
    uintptr_t address, end;  // end: of the frame that holds the address; 0 if none is found
};
}  // namespace

// The unwinder gives where each frame begins, the innermost first: a frame ends where the next one begins.
static _Unwind_Reason_Code look_at_frame(_Unwind_Context* context, void* data) {
    Search& search = *static_cast<Search*>(data);
    const uintptr_t begin = _Unwind_GetCFA(context);
    if (begin <= search.address) return _URC_NO_REASON;
    search.end = begin;
    return _URC_END_OF_STACK;
}

bool is_on_stack(const void* p) {
    const char own = 0;
    return uintptr_t(p) >= uintptr_t(&own) && uintptr_t(p) < own_stack().second;
}

// Bytes from an address to the end of the local variables of its frame; SIZE_MAX if it is not on this stack.
static size_t room_on_stack(const void* p) {
    constexpr size_t saved = 2 * sizeof(void*);  // the address of the caller and its frame
    Search search{reinterpret_cast<uintptr_t>(p), 0};
    if (!is_on_stack(p)) return SIZE_MAX;
    _Unwind_Backtrace(look_at_frame, &search);
    return search.end ? search.end - search.address - std::min(saved, search.end - search.address) : SIZE_MAX;
}

void check_local_variable(const void* to, size_t bytes, bool rows) {
    const size_t room = room_on_stack(to);
    if (bytes <= room) return;
    char text[200];
    snprintf(text, sizeof text, "copies %zu bytes to where its local variables have room for %zu %s", bytes, room,
             rows ? "(does each pitch match its own array?)" : "(is it `d`, and not `&d`, or `v.data()`, and not `&v`?)");
    refuse_host(text);
    throw std::runtime_error("the host " + std::string(text));
}

}  // namespace cuda_on_cpu
