// What a `__shared__` variable is translated to.
#pragma once
#include <cstddef>
#include <type_traits>
#include <typeinfo>

namespace cuda_on_cpu {

// A __shared__ variable: one of these is where it was declared, and every thread asks it for the block's copy.
// `__shared__ float tile[16][16];` is translated to
// `typedef float tile__type[16][16]; static ::cuda_on_cpu::SharedOf<tile__type> tile__shared("tile");
// auto& [tile] = tile__shared.of_this_block();` on one line.
struct SharedVariable {
    const char* name;
    size_t bytes, alignment, element_bytes, element_alignment;
    const std::type_info* type;
};
// const: a thread finds the same variable at the same place whenever it asks.
__attribute__((const)) void* static_shared(const SharedVariable* variable);

// What a variable's name is bound to. The bits without a name let the compiler check the last array's indexes.
template <class T>
struct Placed {
    T value;
    int : 8;
};

// An array whose size the launch chooses: C++ wants something before it in the struct.
template <class T>
struct Placed<T[]> {
    alignas(T) char before[alignof(T)];
    T value[];
};

template <class T>
struct SharedOf : SharedVariable {
    static_assert(sizeof(T) <= 48 * 1024, "a block has 48 KB of static shared memory: this variable is larger");
    using Element = std::remove_all_extents_t<T>;
    static T unplaced;  // in constant expressions, which only want its type
    constexpr SharedOf(const char* name)
        : SharedVariable{name, sizeof(T), alignof(T), sizeof(Element), alignof(Element), &typeid(T)} {}
    Placed<T>& of_this_block() const { return *static_cast<Placed<T>*>(static_shared(this)); }
};

// The same for `extern __shared__ float s[];`: what the launch asked for.
void* dynamic_shared(const char* name, size_t element_bytes, size_t element_alignment);

template <class T>
struct DynamicShared {
    using Element = std::remove_all_extents_t<T>;
    static T unplaced;
    const char* name;
    constexpr DynamicShared(const char* name) : name(name) {}
    void* begin() const { return dynamic_shared(name, sizeof(Element), alignof(Element)); }
    Placed<T>& of_this_block() const {
        constexpr bool is_array = std::is_array_v<T> && std::extent_v<T> == 0;
        return *reinterpret_cast<Placed<T>*>(static_cast<char*>(begin()) - (is_array ? alignof(Element) : 0));
    }
    operator std::remove_extent_t<T>*() const { return static_cast<std::remove_extent_t<T>*>(begin()); }
    template <class P>
    explicit operator P*() const {
        return (P*)begin();
    }
};

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_DYNAMIC(name) auto& [name##__before, name]
