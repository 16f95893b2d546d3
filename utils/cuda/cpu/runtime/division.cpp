// The smallest integer divided by -1. On a GPU the quotient wraps around to the smallest integer, and the remainder is
// 0 (so it is on an H200). An x86-64 processor raises the same signal as for a division by zero.
#include <cstring>

#include "runtime.h"

namespace cuda_on_cpu {

#if defined(__linux__) && defined(__x86_64__)
// `idiv` of 32 or 64 bits (Intel SDM, volume 2, "IDIV" and "Instruction Format").
struct Division {
    bool known = false, wide = false;
    int64_t divisor = 0;
    size_t bytes = 0;  // of the instruction

    explicit Division(const greg_t* registers) {
        static constexpr int by_number[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        const auto* begin = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
        const unsigned char *code = begin, prefix = *code >> 4 == 4 ? *code++ : 0;
        wide = prefix & 8;
        if (*code++ != 0xf7 || (*code >> 3 & 7) != 7) return;
        const unsigned int mode = *code >> 6, number = *code++ & 7;
        auto value_of = [&](unsigned int low, unsigned int bit) {
            return registers[by_number[low | (prefix & bit ? 8 : 0)]];
        };
        if (mode == 3) {
            divisor = value_of(number, 1);
        } else {
            int64_t address = 0;
            bool far = mode == 2, relative = false;  // far: a distance of four bytes follows, not of one
            if (number == 4) {
                const unsigned int scale = *code >> 6, index = *code >> 3 & 7, base = *code++ & 7;
                if (index != 4 || prefix & 2) address = value_of(index, 2) << scale;
                if (base == 5 && !mode) far = true;
                else address += value_of(base, 1);
            } else if (number == 5 && !mode) {
                far = relative = true;
            } else {
                address = value_of(number, 1);
            }
            if (far) {
                int32_t distance;
                memcpy(&distance, code, 4);
                code += 4;
                address += distance;
            } else if (mode == 1) {
                address += static_cast<signed char>(*code++);
            }
            if (relative) address += reinterpret_cast<int64_t>(code);
            memcpy(&divisor, reinterpret_cast<const void*>(address), wide ? 8 : 4);
        }
        if (!wide) divisor = static_cast<int32_t>(divisor);
        bytes = code - begin;
        known = true;
    }

    bool overflows(const greg_t* registers) const {  // not by zero: the quotient is one too large
        const uint64_t low = registers[REG_RAX], high = registers[REG_RDX];
        return known && divisor == -1 &&
               (wide ? low == uint64_t(1) << 63 && high == ~uint64_t(0)
                     : uint32_t(low) == uint32_t(1) << 31 && uint32_t(high) == ~uint32_t(0));
    }
};

static greg_t* registers_of(const void* context) {
    return const_cast<ucontext_t*>(static_cast<const ucontext_t*>(context))->uc_mcontext.gregs;
}

bool quotient_overflows(const void* context) {
    const greg_t* registers = registers_of(context);
    return Division(registers).overflows(registers);
}

bool divide_as_gpu(void* context) {
    greg_t* registers = registers_of(context);
    const Division division(registers);
    if (!division.overflows(registers)) return false;
    registers[REG_RAX] = division.wide ? INT64_MIN : greg_t(uint32_t(1) << 31);
    registers[REG_RDX] = 0;
    registers[REG_RIP] += division.bytes;
    return true;
}
#else  // an Arm processor does as a GPU does
bool quotient_overflows(const void*) { return false; }
bool divide_as_gpu(void*) { return false; }
#endif

}  // namespace cuda_on_cpu
