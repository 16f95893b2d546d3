// One kernel, made callable from Python (utils/cuda/cpu/module.py): what compile_kernel puts behind the learner's
// source. Every compilation pays for what is included here, so the work is done in runtime/launch.cpp.
#pragma once

#include <typeinfo>

#include "start.h"

namespace cuda_on_cpu {

struct Parameter {
    size_t bytes, pointee_alignment, pointee_bytes;  // the last two are 0 for what is not a pointer
};

// In runtime/launch.cpp. The texts live as long as the runtime.
const char* signature_text(const std::type_info& kernel);
const char* parameters_text(const Parameter* parameters, size_t count);
// Runs a launch; the text of what went wrong, or nullptr.
const char* guarded(void (*run)(void*), void* data);

template <class T>
constexpr Parameter parameter() {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_pointer_v<T> && is_complete<Pointee>)
        return {sizeof(T), alignof(Pointee), sizeof(Pointee)};
    else
        return {sizeof(T), 0, 0};
}

template <class... A>
const char* parameters_of(void (*)(A...)) {
    static constexpr Parameter all[] = {parameter<A>()..., {}};
    return parameters_text(all, sizeof...(A));
}

template <auto kernel, class Bounds, class... A, size_t... i>
void call(void (*)(A...), const char* name, Bounds bounds, const Launch& launch, void** args,
          std::index_sequence<i...>) {
    (void)args;
    start_kernel(name, launch, CUDA_ON_CPU_CALL(kernel), bounds)(
        *static_cast<std::remove_const_t<std::remove_reference_t<A>>*>(args[i])...);
}

template <auto kernel, class Bounds, class... A>
const char* launch_kernel(void (*type)(A...), const char* name, Bounds bounds, const unsigned grid[3],
                          const unsigned block[3], size_t bytes, bool cooperative, void** args) {
    Launch launch({grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, bytes);
    launch.cooperative = cooperative;
    launch.any_shared_bytes = true;
    if constexpr ((std::is_array_v<std::remove_reference_t<A>> || ...)) {
        return "a reference is no argument of a launch";  // nor of any, as utils/cuda/common/arguments.py says before
    } else {
        auto run = [&] { call<kernel>(type, name, bounds, launch, args, std::index_sequence_for<A...>()); };
        return guarded([](void* data) { (*static_cast<decltype(run)*>(data))(); }, &run);
    }
}

}  // namespace cuda_on_cpu

// What module.py looks for, a set for each kernel of a library. `address` is in parentheses, since it may hold commas, as
// the name may: (&matmul_tile<16, 4>), matmul_tile<16, 4>. `bounds` is CUDA_ON_CPU_BOUNDS, or nullptr.
#define CUDA_ON_CPU_KERNEL(number, address, bounds, ...)                                                           \
    extern "C" const char* cuda_on_cpu_signature_##number() {                                                      \
        return ::cuda_on_cpu::signature_text(typeid(address));                                                     \
    }                                                                                                              \
    extern "C" const char* cuda_on_cpu_parameters_##number() { return ::cuda_on_cpu::parameters_of(address); }     \
    extern "C" const char* cuda_on_cpu_launch_##number(const unsigned grid__[3], const unsigned block__[3],        \
                                                       size_t bytes__, int cooperative__, void** args__) {         \
        return ::cuda_on_cpu::launch_kernel<address>(address, #__VA_ARGS__, bounds, grid__, block__, bytes__,      \
                                                     cooperative__, args__);                                       \
    }
