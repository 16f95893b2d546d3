// Two shorts or four bytes in one unsigned int, each handled by itself ("CUDA Math API", SIMD Intrinsics).
//
// A name ends in the number of parts; before it comes u or s where the sign matters, and us or ss where a result that
// does not fit becomes the nearest that does. Comparisons give all ones in a part (vcmp) or a one (vset).
#pragma once

#include "types.h"

namespace cuda_on_cpu {

template <class T>
__forceinline__ int saturated(int x) {
    constexpr int bits = 8 * sizeof(T), low = T(-1) < 0 ? -(1 << (bits - 1)) : 0, high = low + (1 << bits) - 1;
    return x < low ? low : x > high ? high : x;
}

}  // namespace cuda_on_cpu

// What `expression` makes of each pair of parts of type T, cut to the part's bits. No template: see rounding.h.
#define CUDA_ON_CPU_PARTS(name, T, expression)                                    \
    inline unsigned int name(unsigned int a, unsigned int b) {                    \
        constexpr int bits = 8 * sizeof(T);                                       \
        unsigned int result = 0;                                                  \
        for (int i = 0; i < 32; i += bits) {                                      \
            const int x = (T)(a >> i), y = (T)(b >> i);                           \
            result |= (unsigned int)((expression) & ((1 << bits) - 1)) << i;      \
        }                                                                         \
        return result;                                                            \
    }
#define CUDA_ON_CPU_ANY_SIGN(name, expression)             \
    CUDA_ON_CPU_PARTS(name##2, unsigned short, expression) \
    CUDA_ON_CPU_PARTS(name##4, unsigned char, expression)
#define CUDA_ON_CPU_BY_SIGN(name, unsigned_end, signed_end, expression)           \
    CUDA_ON_CPU_PARTS(name##unsigned_end##2, unsigned short, expression)          \
    CUDA_ON_CPU_PARTS(name##unsigned_end##4, unsigned char, expression)           \
    CUDA_ON_CPU_PARTS(name##signed_end##2, short, expression)                     \
    CUDA_ON_CPU_PARTS(name##signed_end##4, signed char, expression)
#define CUDA_ON_CPU_SATURATING(name, expression)                                             \
    CUDA_ON_CPU_PARTS(name##us2, unsigned short, cuda_on_cpu::saturated<unsigned short>(expression)) \
    CUDA_ON_CPU_PARTS(name##us4, unsigned char, cuda_on_cpu::saturated<unsigned char>(expression))   \
    CUDA_ON_CPU_PARTS(name##ss2, short, cuda_on_cpu::saturated<short>(expression))                   \
    CUDA_ON_CPU_PARTS(name##ss4, signed char, cuda_on_cpu::saturated<signed char>(expression))

CUDA_ON_CPU_ANY_SIGN(__vadd, x + y)
CUDA_ON_CPU_ANY_SIGN(__vsub, x - y)
CUDA_ON_CPU_SATURATING(__vadd, x + y)
CUDA_ON_CPU_SATURATING(__vsub, x - y)
CUDA_ON_CPU_BY_SIGN(__vmin, u, s, x < y ? x : y)
CUDA_ON_CPU_BY_SIGN(__vmax, u, s, x < y ? y : x)
CUDA_ON_CPU_BY_SIGN(__vabsdiff, u, s, x < y ? y - x : x - y)
CUDA_ON_CPU_BY_SIGN(__vavg, u, s, (x + y + (x + y >= 0)) >> 1)  // halves are rounded away from zero
CUDA_ON_CPU_PARTS(__vhaddu2, unsigned short, (x + y) >> 1)
CUDA_ON_CPU_PARTS(__vhaddu4, unsigned char, (x + y) >> 1)
CUDA_ON_CPU_ANY_SIGN(__vcmpeq, -(x == y))
CUDA_ON_CPU_ANY_SIGN(__vcmpne, -(x != y))
CUDA_ON_CPU_BY_SIGN(__vcmplt, u, s, -(x < y))
CUDA_ON_CPU_BY_SIGN(__vcmple, u, s, -(x <= y))
CUDA_ON_CPU_BY_SIGN(__vcmpgt, u, s, -(x > y))
CUDA_ON_CPU_BY_SIGN(__vcmpge, u, s, -(x >= y))
CUDA_ON_CPU_ANY_SIGN(__vseteq, x == y)
CUDA_ON_CPU_ANY_SIGN(__vsetne, x != y)
CUDA_ON_CPU_BY_SIGN(__vsetlt, u, s, x < y)
CUDA_ON_CPU_BY_SIGN(__vsetle, u, s, x <= y)
CUDA_ON_CPU_BY_SIGN(__vsetgt, u, s, x > y)
CUDA_ON_CPU_BY_SIGN(__vsetge, u, s, x >= y)

inline unsigned int __vneg2(unsigned int a) { return __vsub2(0, a); }
inline unsigned int __vneg4(unsigned int a) { return __vsub4(0, a); }
inline unsigned int __vnegss2(unsigned int a) { return __vsubss2(0, a); }
inline unsigned int __vnegss4(unsigned int a) { return __vsubss4(0, a); }
inline unsigned int __vabs2(unsigned int a) { return __vabsdiffs2(a, 0); }
inline unsigned int __vabs4(unsigned int a) { return __vabsdiffs4(a, 0); }
inline unsigned int __vabsss2(unsigned int a) { return __vmaxs2(a, __vnegss2(a)); }
inline unsigned int __vabsss4(unsigned int a) { return __vmaxs4(a, __vnegss4(a)); }

namespace cuda_on_cpu {
__forceinline__ unsigned int sum2(unsigned int a) { return (a & 0xffff) + (a >> 16); }
__forceinline__ unsigned int sum4(unsigned int a) { return sum2((a & 0xff00ff) + (a >> 8 & 0xff00ff)); }
}  // namespace cuda_on_cpu

// Sums of the parts' distances.
inline unsigned int __vsadu2(unsigned int a, unsigned int b) { return cuda_on_cpu::sum2(__vabsdiffu2(a, b)); }
inline unsigned int __vsads2(unsigned int a, unsigned int b) { return cuda_on_cpu::sum2(__vabsdiffs2(a, b)); }
inline unsigned int __vsadu4(unsigned int a, unsigned int b) { return cuda_on_cpu::sum4(__vabsdiffu4(a, b)); }
inline unsigned int __vsads4(unsigned int a, unsigned int b) { return cuda_on_cpu::sum4(__vabsdiffs4(a, b)); }

#undef CUDA_ON_CPU_SATURATING
#undef CUDA_ON_CPU_BY_SIGN
#undef CUDA_ON_CPU_ANY_SIGN
#undef CUDA_ON_CPU_PARTS
