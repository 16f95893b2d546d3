// One kernel, made callable from Python (utils/cuda/cpu/module.py): what compile_kernel puts behind the learner's
// source. Every compilation pays for what is included here, so the work is done in runtime/launch.cpp.
#pragma once

#include <typeinfo>

#include "start.h"

namespace cuda_on_cpu {

// In runtime/launch.cpp. The texts live as long as the runtime.
const char* signature_text(const std::type_info& kernel);
const char* parameters_text(const Parameter* parameters, size_t count);

// A launch that Python asks for. The arguments' own bytes: Python keeps them as long as it runs.
struct PythonLaunch {
    const char* name;
    Launch launch;
    void** arguments;
};
// Runs it; the text of what went wrong, or nullptr.
const char* guarded(void (*run)(const PythonLaunch&), const char* name, const unsigned grid[3], const unsigned block[3],
                    size_t shared_bytes, bool cooperative, void** arguments);

template <class... A>
const char* parameters_of(void (*)(A...)) {
    return parameters_text(parameters<A...>, sizeof...(A));
}

template <auto kernel, class... A>
struct KnownKernel {
    void operator()(A... a) const { kernel(static_cast<A&&>(a)...); }
};
template <auto kernel, class Bounds, class... A, size_t... i>
CUDA_ON_CPU_OPAQUE void run_kernel(const PythonLaunch& asked, std::index_sequence<i...>) {
    Launch launch = asked.launch;
    launch.kernel = reinterpret_cast<const void*>(kernel);
#ifdef CUDA_ON_CPU_IN_STEP
    launch.in_step = true;
#endif
    auto called = with_bytes(KnownKernel<kernel, A...>(), kernel);
    Start<Bounds, decltype(called)>{asked.name, launch, called}(
        *static_cast<std::remove_const_t<std::remove_reference_t<A>>*>(asked.arguments[i])...);
}
template <auto kernel, class Bounds, class... A>
const char* launch_kernel(void (*)(A...), Bounds, const char* name, const unsigned grid[3], const unsigned block[3],
                          size_t bytes, bool cooperative, void** args) {
    if constexpr ((std::is_array_v<std::remove_reference_t<A>> || ...))
        return "a reference is no argument of a launch";  // nor of any, as utils/cuda/common/arguments.py says before
    else
        return guarded([](const PythonLaunch& asked) {
            run_kernel<kernel, Bounds, A...>(asked, std::index_sequence_for<A...>());
        }, name, grid, block, bytes, cooperative, args);
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
        return ::cuda_on_cpu::launch_kernel<address>(address, bounds, #__VA_ARGS__, grid__, block__, bytes__,      \
                                                     cooperative__, args__);                                       \
    }
