// What a failed check of the compilers says about itself: the interface between them and their sanitizers' runtime
// (compiler-rt), which is not linked here. Its functions are in numbers.cpp and trace/hooks.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace cuda_on_cpu {

struct UbsanPlace { const char* file; uint32_t line, column; };
struct UbsanType {
    uint16_t kind, info;
    char name[1];  // in quotation marks
    std::string plain_name() const {  // 'const struct float2': float2
        std::string plain(name + 1, strlen(name) - 2);
        for (const char* word : {"const ", "volatile ", "struct "})
            if (plain.starts_with(word)) plain.erase(0, strlen(word));
        return plain;
    }
    // Of an integer:
    unsigned int bits() const { return 1u << (info >> 1); }
    bool is_signed() const { return info & 1; }
    // Its value, where it has 64 bits at most: what the compilers pass on may have other bits above its own.
    int64_t value(uint64_t passed) const {
        const unsigned int unused = 64 - bits();
        return is_signed() ? int64_t(passed << unused) >> unused : int64_t(passed << unused >> unused);
    }
};
struct UbsanIndex { UbsanPlace place; UbsanType *array, *index; };
struct UbsanPointer { UbsanPlace place; UbsanType* type; unsigned char log_alignment, kind; };
struct UbsanConversion { UbsanPlace place; UbsanType *from, *to; };
struct UbsanShift { UbsanPlace place; UbsanType *value, *by; };
// In messages.cpp: the running thread accesses this address, and is not in a trace. It returns if nobody runs there.
void fail_misaligned(const UbsanPointer& access, const void* address);

}  // namespace cuda_on_cpu
