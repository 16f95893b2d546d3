// In a trace: what a local variable of device code holds that has no value yet.
//
// `float v;` becomes `float v; CUDA_ON_CPU_UNSET(v)` (unset_locals.py), which reads the value from the runtime. To the
// compiler it is a number like any other. What -ftrivial-auto-var-init would put there is undefined to g++ all the same:
// of `float v; if (c) v = 1;` it makes 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace cuda_on_cpu {

// NaN as double, float, half and bfloat16. A NaN keeps its digits in arithmetic, so they are found in the results too.
constexpr uint64_t unset_value = 0x7FFB'7FFB'7FFB'7FFB;
constexpr uint64_t unset_integer = 0x6D3B'A59C'7E41'D287;  // in integers and arrays of them
constexpr size_t most_unset_bytes = 1 << 16;  // of a variable; a larger one gets the compiler's own pattern
// A declaration's number: its line, and which of the line's variables it is (unset_locals.py).
constexpr unsigned int unset_in_line = 8, most_unset = unset_in_line << 12;
constexpr unsigned int unset_in_asm = 6;  // of what an asm statement leaves unwritten
constexpr unsigned int unset_number(unsigned int line, unsigned int which) {
    return (line * unset_in_line + which % unset_in_line) % most_unset;
}
// What variables hold, and what they hold instead where a launch is made again to see whether that matters (again.cpp).
struct alignas(64) UnsetBytes {
    unsigned char any[most_unset_bytes], integers[most_unset_bytes];
};
#ifdef CUDA_ON_CPU_RUNTIME
extern UnsetBytes unset_bytes[2];
extern unsigned char unset_choice[most_unset];  // which of the two, by the declaration's number
#else
extern const UnsetBytes unset_bytes[2];
extern const unsigned char unset_choice[most_unset];
#endif

template <class T>
constexpr bool holds_integers = std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;

// Tells the runtime, when a module is loaded, that it has variables without a value; whether all hold integers.
void has_unset_locals(const void* of_module, bool integers);
struct Announced {
    Announced(bool integers) { has_unset_locals(this, integers); }
};
template <class T>
const Announced announced(holds_integers<T>);

// Whether a float, given without its sign, is half of `unset_value`, or converted from a double, half or bfloat16 that is
// `unset_value`. No branches: in a trace, each would be a step.
constexpr bool is_unset_float(uint32_t bits) {
    constexpr uint32_t infinity = 0x7F800000;
    return (bits == uint32_t(unset_value)) | (bits == (infinity | uint32_t(unset_value >> 29 & 0x7FFFFF))) |
           (bits == (infinity | uint32_t(unset_value & 0x3FF) << 13)) | (bits == uint32_t(unset_value & 0xFFFF) << 16);
}

// Whether a class's constructor can be called once more, on filled memory, to see which members it leaves alone. That it
// does nothing else is for unset_locals.py to see.
template <class T, class Element = std::remove_all_extents_t<T>>
constexpr bool can_be_constructed_again =
    std::is_class_v<Element> && std::is_default_constructible_v<Element> && std::is_trivially_copyable_v<Element>;

template <class T>
__attribute__((always_inline)) inline void make_unset(T& v, unsigned int which = 0,
                                                     unsigned int line = __builtin_LINE()) {
    using Value = std::remove_cv_t<T>;
    using Element = std::remove_all_extents_t<Value>;
    (void)&announced<Element>;
    const UnsetBytes& all = unset_bytes[unset_choice[unset_number(line, which)] & 1];
    const auto& bytes = holds_integers<Element> ? all.integers : all.any;
    if constexpr (std::is_scalar_v<T>) {  // two integers are seldom equal: their difference shows, too
        v = reinterpret_cast<const Value&>(bytes[holds_integers<T> && sizeof(T) <= 4 ? 4 * ((line + which) & 1) : 0]);
    } else if constexpr (sizeof(T) <= most_unset_bytes && !std::is_volatile_v<T> &&
                         (std::is_trivially_default_constructible_v<T> || can_be_constructed_again<T>)) {
        __builtin_memcpy(static_cast<void*>(&v), bytes, sizeof v);
#if __has_builtin(__builtin_clear_padding)
        if constexpr (std::is_class_v<Element>) __builtin_clear_padding(&v);  // which nobody sets
#endif
        if constexpr (!std::is_trivially_default_constructible_v<T>)
            for (size_t at = 0; at < sizeof v; at += sizeof(Element)) ::new (reinterpret_cast<char*>(&v) + at) Element;
    }
}

template <class T>
__attribute__((always_inline)) inline T made_unset(unsigned int which = 0, unsigned int line = __builtin_LINE()) {
    T v;
    make_unset(v, which, line);
    return v;
}

// Before `make` constructs the value once more: members that the constructor leaves alone are without a value.
template <class T, class Make>
__attribute__((always_inline)) inline void make_members_unset(T& v, unsigned int which, Make make,
                                                             unsigned int line = __builtin_LINE()) {
    if constexpr (std::is_class_v<T> && std::is_trivially_copyable_v<T> && !std::is_const_v<T> &&
                  !std::is_volatile_v<T> && sizeof(T) <= most_unset_bytes) {
        (void)&announced<T>;
        __builtin_memcpy(static_cast<void*>(&v), unset_bytes[unset_choice[unset_number(line, which)] & 1].any, sizeof v);
#if __has_builtin(__builtin_clear_padding)
        __builtin_clear_padding(&v);
#endif
        make(static_cast<void*>(&v));
    }
}

}  // namespace cuda_on_cpu

#ifdef CUDA_ON_CPU_RECORDED  // a player shows a variable only when it has a value
#define CUDA_ON_CPU_UNSET(...)
#define CUDA_ON_CPU_UNSET_VALUE(...)
#define CUDA_ON_CPU_UNSET_MEMBERS(...)
#else
#define CUDA_ON_CPU_UNSET(...) ::cuda_on_cpu::make_unset(__VA_ARGS__);
#define CUDA_ON_CPU_UNSET_MEMBERS(variable, which, ...) \
    ::cuda_on_cpu::make_members_unset(variable, which, [&](void* place) { ::new (place) __VA_ARGS__; });
#define CUDA_ON_CPU_UNSET_VALUE(variable, ...) = ::cuda_on_cpu::made_unset<decltype(variable)>(__VA_ARGS__)
#endif
