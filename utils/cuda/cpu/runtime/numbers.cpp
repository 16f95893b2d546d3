// Numbers that C++ leaves undefined, and that a GPU and this processor compute differently: a float that is converted
// to an integer type that cannot hold it, and a shift by at least as many bits as the number has. The compilers check
// for both (_NUMBERS in build.py) and call the handlers below. A trace reports every one. Any other launch keeps its
// first, and Python warns of it (cpu/differences.py).
//
// What a GPU gives follows from the PTX that nvcc makes, and was compared with an H200 for every integer type. What
// "the CPU" gives is what the processor's instruction gives: the compiler may have worked out another number by itself.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ubsan.h"
#include "../trace/state.h"

// ---- what Python is to be told --------------------------------------------------------------------------------------

extern "C" {
std::atomic<int> cuda_on_cpu_differences{0};  // how many it may take
}

namespace cuda_on_cpu {

static Mutex differences_mutex;
static std::vector<std::string> differences;  // of the launches since Python last asked: one for each line

bool in_program = false;

// "cuda_src, line 7" for messages.
static std::string place_of(const Difference& found) {
    const char* slash = strrchr(found.file, '/');
    return std::string(slash ? slash + 1 : found.file) + ", line " + std::to_string(found.line);
}

static std::string sentence(const char* kernel, const Difference& found) {
    return thread_name(found.thread, found.block, kernel) + " " + found.what;
}

std::string also(const char* kernel, const Difference& found) {
    return ". In the same launch, " + sentence(kernel, found) + " (" + place_of(found) + ")";
}

void note(const char* kernel, const Difference& found) {
    std::lock_guard lock(differences_mutex);
    Dl_info library{};
    dladdr(found.file, &library);
    const std::string place = std::to_string(found.line) + "\n" + (library.dli_fname ? library.dli_fname : "") + "\n" +
                              found.file + "\n";
    auto same_line = [&](const std::string& other) { return other.compare(0, place.size(), place) == 0; };
    if (std::any_of(differences.begin(), differences.end(), same_line)) return;
    differences.push_back(place + sentence(kernel, found));
    if (in_program)  // all are kept, so each line is reported once
        fprintf(stderr, "%s: warning: %s\n", place_of(found).c_str(), sentence(kernel, found).c_str());
    else
        cuda_on_cpu_differences++;
}

// ---- what differs --------------------------------------------------------------------------------------------------

// A float as an integer: nvcc converts to 32 or 64 bits, and keeps the lower ones. A GPU clamps to the range of those,
// and has its own values for NaN (PTX ISA, "cvt").
struct Converted {
    int64_t here, on_gpu;

    Converted(double x, bool is_double, const UbsanType& to) {
        const bool wide = to.bits() == 64, is_nan = x != x, low_for_nan = wide || is_double;
        if (to.is_signed()) {
            const int64_t least = wide ? INT64_MIN : INT32_MIN, most = wide ? INT64_MAX : INT32_MAX;
            const int64_t clamped = x <= double(least) ? least : x >= double(most) ? most : int64_t(x);
            on_gpu = !is_nan ? clamped : low_for_nan ? least : 0;
            here = wide ? int64_t(x) : int32_t(x);
        } else {
            const uint64_t most = wide ? UINT64_MAX : UINT32_MAX;
            const uint64_t clamped = x <= 0 ? 0 : x >= double(most) ? most : uint64_t(x);
            on_gpu = !is_nan ? clamped : low_for_nan ? most / 2 + 1 : 0;
            here = wide ? uint64_t(x) : to.bits() == 32 ? uint32_t(x) : uint64_t(int32_t(x));
        }
        here = to.value(here);
        on_gpu = to.value(on_gpu);
    }
};

static std::string number(const UbsanType& type, int64_t value) {
    return type.is_signed() ? std::to_string(value) : std::to_string(uint64_t(value));
}

// Whether anybody wants to know. Host code is checked, too, as it is in the kernels' source.
static bool wanted() { return here && (tracing || !block().worker->difference); }

// `bits`: what the number is computed from.
template <class Text>
static void differs(const UbsanPlace& place, Text text, uint64_t bits, const void* code) {
    if (tracing) return tracing->undefined(text(), bits, code);
    Block& b = block();
    Worker& w = *b.worker;
    const bool in_kernel = w.in_kernel;
    w.in_kernel = 0;
    w.difference = {b.number, b.thread, b.block, text(), place.file, place.line};
    if (in_kernel) enter_kernel(w);
}

}  // namespace cuda_on_cpu

extern "C" {
const char* cuda_on_cpu_take_difference() {
    using namespace cuda_on_cpu;
    static thread_local std::string taken;
    if (!cuda_on_cpu_differences) return nullptr;
    std::lock_guard lock(differences_mutex);
    if (differences.empty()) return nullptr;
    taken = std::move(differences.front());
    differences.erase(differences.begin());
    cuda_on_cpu_differences--;
    return taken.c_str();
}

// The check also finds what a processor and a GPU convert alike, such as 300 to 8 bits.
__attribute__((cold)) void __ubsan_handle_float_cast_overflow(cuda_on_cpu::UbsanConversion* data, uintptr_t bits) {
    using namespace cuda_on_cpu;
    const unsigned int from = data->from->info;
    const UbsanType& to = *data->to;
    if (tracing) tracing->check_failed();
    if (!wanted() || (from != 32 && from != 64) || to.bits() > 64) return;
    float single;
    double value;
    if (from == 32) {
        memcpy(&single, &bits, sizeof single);
        bits = uint32_t(bits);
        value = single;
    } else {
        memcpy(&value, &bits, sizeof value);
    }
    const Converted converted(value, from == 64, to);
    if (converted.here == converted.on_gpu) return;
    auto text = [&] {
        char shown[32];
        snprintf(shown, sizeof shown, "%.9g", value);
        return std::string("converts ") + shown + " to " + to.plain_name() + ": a GPU gives " +
               number(to, converted.on_gpu) + ", and the CPU " + number(to, converted.here);
    };
    differs(data->place, text, bits, __builtin_return_address(0));
}

// nvcc passes on the lower 32 bits of a count, and a GPU takes them as unsigned.
__attribute__((cold)) void __ubsan_handle_shift_out_of_bounds(cuda_on_cpu::UbsanShift* data, uintptr_t, uintptr_t by) {
    using namespace cuda_on_cpu;
    const unsigned int bits = data->value->bits();
    if (tracing) tracing->check_failed();
    if (!wanted() || bits > 64 || data->by->bits() > 64) return;
    const int64_t count = data->by->value(by);
    if (uint32_t(count) < bits) return;
    auto text = [&] {
        return "shifts a number of " + std::to_string(bits) + " bits by " + number(*data->by, count) +
               ": a GPU shifts all of them out, and the CPU shifts by " + std::to_string(count & (bits - 1));
    };
    differs(data->place, text, uint64_t(count), __builtin_return_address(0));
}
}
