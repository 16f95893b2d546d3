// In a trace: what a local variable of device code holds that has no value yet.
//
// `float v;` becomes `float v; CUDA_ON_CPU_UNSET(v)` (unset_locals.py), which reads the value from the runtime. To the
// compiler it is a number like any other. What -ftrivial-auto-var-init would put there is undefined to g++ all the same:
// of `float v; if (c) v = 1;` it makes 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cuda_on_cpu {

// NaN as double, float, half and bfloat16. A NaN keeps its digits in arithmetic, so they are found in the results too.
constexpr uint64_t unset_value = 0x7FFB'7FFB'7FFB'7FFB;
constexpr uint64_t unset_integer = 0x6D3B'A59C'7E41'D287;  // in integers and arrays of them
constexpr size_t most_unset_bytes = 1 << 16;  // of a variable; a larger one gets the compiler's own pattern
constexpr unsigned int most_unset_lines = 4096;
// What variables hold, and what they hold instead where a launch is made again to see whether that matters (again.cpp).
struct alignas(64) UnsetBytes {
    unsigned char any[most_unset_bytes], integers[most_unset_bytes];
};
#ifdef CUDA_ON_CPU_RUNTIME
extern UnsetBytes unset_bytes[2];
extern unsigned char unset_choice[most_unset_lines];  // which of the two, by the line of the declaration
#else
extern const UnsetBytes unset_bytes[2];
extern const unsigned char unset_choice[most_unset_lines];
#endif

// Tells the runtime, when a module is loaded, that it has variables without a value.
void has_unset_locals(const void* of_module);
struct Announced {
    Announced() { has_unset_locals(this); }
};
template <class T>
const Announced announced;

// Whether a float, given without its sign, is half of `unset_value`, or converted from a double, half or bfloat16 that is
// `unset_value`. No branches: in a trace, each would be a step.
constexpr bool is_unset_float(uint32_t bits) {
    constexpr uint32_t infinity = 0x7F800000;
    return (bits == uint32_t(unset_value)) | (bits == (infinity | uint32_t(unset_value >> 29 & 0x7FFFFF))) |
           (bits == (infinity | uint32_t(unset_value & 0x3FF) << 13)) | (bits == uint32_t(unset_value & 0xFFFF) << 16);
}

template <class T>
__attribute__((always_inline)) inline void make_unset(T& v, unsigned int line = __builtin_LINE()) {
    (void)&announced<T>;
    const UnsetBytes& all = unset_bytes[unset_choice[line % most_unset_lines] & 1];
    const auto& bytes = std::is_integral_v<std::remove_all_extents_t<T>> ? all.integers : all.any;
    if constexpr (std::is_scalar_v<T>)
        v = reinterpret_cast<const T&>(bytes);
    else if constexpr (std::is_trivially_default_constructible_v<T> && sizeof(T) <= most_unset_bytes) {
        __builtin_memcpy(static_cast<void*>(&v), bytes, sizeof v);
#if __has_builtin(__builtin_clear_padding)
        if constexpr (std::is_class_v<T>) __builtin_clear_padding(&v);  // which nobody sets
#endif
    }
}

}  // namespace cuda_on_cpu

#ifdef CUDA_ON_CPU_RECORDED  // a player shows a variable only when it has a value
#define CUDA_ON_CPU_UNSET(variable)
#else
#define CUDA_ON_CPU_UNSET(variable) ::cuda_on_cpu::make_unset(variable);
#endif
