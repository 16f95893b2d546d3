// What a `__shared__` variable is translated to.
#pragma once
#include <cstddef>
#include <type_traits>
#include <typeinfo>

namespace cuda_on_cpu {

// A __shared__ variable: one of these is where it was declared, and every thread asks it for the block's copy.
// `__shared__ float tile[16][16];` is translated to
// `typedef float tile__type_on_cpu[16][16];
// static ::cuda_on_cpu::SharedOf<tile__type_on_cpu> tile__shared_on_cpu("tile");
// auto& tile = tile__shared_on_cpu.of_this_block();` on one line.
struct SharedVariable {
    const char* name;
    size_t bytes, alignment, element_bytes, element_alignment;
    const std::type_info* type;
    void (*clear_padding)(void* element);  // sets the bytes between its members to 0; nullptr if there are none
};
// const: a thread finds the same variable at the same place whenever it asks.
__attribute__((const)) void* static_shared(const SharedVariable* variable);

#if defined(CUDA_ON_CPU_TRACE) && __has_builtin(__builtin_clear_padding)
template <class T>
CUDA_ON_CPU_OPAQUE void clear_padding(void* element) { __builtin_clear_padding(static_cast<T*>(element)); }
template <class T>
constexpr auto padding_of() -> void (*)(void*) {
    constexpr bool may_have_some = std::is_class_v<T> && std::is_trivially_copyable_v<T>;
    if constexpr (may_have_some && !std::has_unique_object_representations_v<T>) return clear_padding<T>;
    return nullptr;
}
#else
template <class T>
constexpr auto padding_of() -> void (*)(void*) { return nullptr; }
#endif

template <class T>
struct SharedOf : SharedVariable {
    static_assert(sizeof(T) <= 48 * 1024, "a block has 48 KB of static shared memory: this variable is larger");
    using Element = std::remove_all_extents_t<T>;
    static T unplaced;  // never defined: stands for the variable where only its type matters, as in `decltype(tile)`
    constexpr SharedOf(const char* name)
        : SharedVariable{name, sizeof(T), alignof(T), sizeof(Element), alignof(Element), &typeid(T), padding_of<Element>()} {}
    T& of_this_block() const { return *static_cast<T*>(static_shared(this)); }
};

// The same for `extern __shared__ float s[];`: what the launch asked for. The runtime reads what is in here, since a read
// by device code would be one in a trace.
struct DynamicVariable {
    const char* name;
    size_t element_bytes, element_alignment;
    void (*clear_padding)(void* element);
};
void* dynamic_shared(const DynamicVariable* variable);

template <class T>
struct DynamicShared : DynamicVariable {
    using Element = std::remove_all_extents_t<T>;
    static T unplaced;
    constexpr DynamicShared(const char* name) : DynamicVariable{name, sizeof(Element), alignof(Element), padding_of<Element>()} {}
    void* begin() const { return dynamic_shared(this); }
    T& of_this_block() const { return *reinterpret_cast<T*>(begin()); }
    operator std::remove_extent_t<T>*() const { return static_cast<std::remove_extent_t<T>*>(begin()); }
    template <class P>
    explicit operator P*() const {
        return (P*)begin();
    }
};

}  // namespace cuda_on_cpu
