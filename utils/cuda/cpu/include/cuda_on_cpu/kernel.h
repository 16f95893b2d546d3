// One kernel, made callable from Python (utils/cuda/cpu/module.py): what compile_kernel puts behind the learner's
// source. Every compilation pays for what is included here, so the work is done in runtime/launch.cpp.
#pragma once

#include <typeinfo>

#include "launch.h"

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
    if constexpr (std::is_pointer_v<T> && !std::is_void_v<Pointee> && !std::is_function_v<Pointee>)
        return {sizeof(T), alignof(Pointee), sizeof(Pointee)};
    else
        return {sizeof(T), 0, 0};
}

template <class... A>
const char* parameters(void (*)(A...)) {
    static constexpr Parameter all[] = {parameter<A>()..., {}};
    return parameters_text(all, sizeof...(A));
}

template <auto kernel, class... A, size_t... i>
void call(void (*)(A...), const char* name, const Launch& launch, void** args, std::index_sequence<i...>) {
    (void)args;
    start(name, launch, CUDA_ON_CPU_CALL(kernel))(*static_cast<std::remove_const_t<std::remove_reference_t<A>>*>(args[i])...);
}

template <auto kernel, class... A>
const char* launch(void (*type)(A...), const char* name, const unsigned grid[3], const unsigned block[3], size_t bytes,
                   bool cooperative, void** args) {
    Launch launch({grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, bytes);
    launch.cooperative = cooperative;
    launch.any_shared_bytes = true;
    auto run = [&] { call<kernel>(type, name, launch, args, std::index_sequence_for<A...>()); };
    return guarded([](void* data) { (*static_cast<decltype(run)*>(data))(); }, &run);
}

}  // namespace cuda_on_cpu

// What module.py looks for, a set for each kernel of a library. `address` is in parentheses, since it may hold commas, as
// the name may: (&matmul_tile<16, 4>), matmul_tile<16, 4>.
#define CUDA_ON_CPU_KERNEL(number, address, ...)                                                                   \
    extern "C" const char* cuda_on_cpu_signature_##number() {                                                      \
        return ::cuda_on_cpu::signature_text(typeid(address));                                                     \
    }                                                                                                              \
    extern "C" const char* cuda_on_cpu_parameters_##number() { return ::cuda_on_cpu::parameters(address); }        \
    extern "C" const char* cuda_on_cpu_launch_##number(const unsigned grid[3], const unsigned block[3],            \
                                                       size_t shared_bytes, int cooperative, void** args) {        \
        return ::cuda_on_cpu::launch<address>(address, #__VA_ARGS__, grid, block, shared_bytes, cooperative, args); \
    }
