// In a trace: a local array of device code with marks on both sides. The trace knows where it is, and to which thread
// it belongs.
//
// `float part[4] = {1, 2};` becomes
// `Local<float[4]> cuda_on_cpu_room_of_part{{"part", sizeof(float[4])}, {1, 2}, {}}; auto& part = ...value;`
// where the array is passed on or its address is taken (local_arrays.py); likewise other variables whose address a
// function gets, and those of types with arrays among their members (array_members.py).
#pragma once

#include <cstddef>
#include <type_traits>

#include "unset.h"

namespace cuda_on_cpu {

constexpr size_t local_marks = 1024;  // bytes on either side

void local_begins(const char* name, void* front, size_t bytes, size_t element, size_t alignment);
void local_ends(void* front);
void local_is_unset(void* value, size_t bytes, bool integers, unsigned int number);

template <class T>
struct alignas(alignof(T) < 16 ? 16 : alignof(T)) LocalFront {
    unsigned char marks[local_marks];
    CUDA_ON_CPU_OPAQUE LocalFront(const char* name, size_t bytes) {
        using Element = std::remove_all_extents_t<T>;
        local_begins(name, this, bytes, std::is_array_v<T> ? sizeof(Element) : 0, alignof(Element));
    }
    CUDA_ON_CPU_OPAQUE ~LocalFront() { local_ends(this); }
};
struct LocalBack {
    unsigned char marks[local_marks];
    LocalBack() {}
};

template <class T>
struct Local {
    LocalFront<T> front;
    T value;
    LocalBack back;
};

// The same without an initial value: its constructor fills in what a trace recognises (unset.h).
template <class T>
struct UnsetLocal {
    LocalFront<T> front;
    T value;
    LocalBack back;
    UnsetLocal(const char* name, unsigned int which = unset_in_line - 1, unsigned int line = __builtin_LINE())
        : front(name, sizeof(T)) {
        using Element = std::remove_all_extents_t<T>;
        (void)&announced<Element>;
        if (!std::is_trivially_default_constructible_v<T>) return;
        local_is_unset(&value, sizeof(T), holds_integers<Element>, unset_number(line, which));
#if __has_builtin(__builtin_clear_padding)
        if constexpr (std::is_class_v<Element> && std::is_trivially_copyable_v<Element>) __builtin_clear_padding(&value);
#endif
    }
};

// a[i], to which something may refer. The compiler checks the index of a value that is read, and then reads none.
template <class T, size_t n, class Index>
__attribute__((always_inline)) inline T& element(T (&a)[n], Index i) {
#ifndef CUDA_ON_CPU_RECORDED
    using Value = std::remove_all_extents_t<T>;
    if constexpr (std::is_trivially_copyable_v<Value> && !std::is_volatile_v<Value>) {
        if constexpr (std::rank_v<T> == 0) [[maybe_unused]] Value value = a[i];
        if constexpr (std::rank_v<T> == 1) [[maybe_unused]] Value value = a[i][0];
        if constexpr (std::rank_v<T> == 2) [[maybe_unused]] Value value = a[i][0][0];
    }
#endif
    return a[i];
}
template <class Other, class Index>
__attribute__((always_inline)) inline decltype(auto) element(Other&& a, Index i) {
    return a[i];
}

}  // namespace cuda_on_cpu
