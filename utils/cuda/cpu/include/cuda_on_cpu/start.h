// How a launch in the source starts a grid (run_grid in launch.h).
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "launch.h"

namespace cuda_on_cpu {

// kernel<<<grid, block>>>(args) is translated to
// ::cuda_on_cpu::start_kernel("kernel", ::cuda_on_cpu::Configuration(grid, block), CUDA_ON_CPU_CALL(kernel))(args)
// so that the compiler picks the overload or the template instance, and converts the arguments, as for any call. The
// second function of CUDA_ON_CPU_CALL gives the kernel's address, where it has one without its arguments. If the kernel
// has __launch_bounds__ or __cluster_dims__, CUDA_ON_CPU_BOUNDS of its companion follows (launch_bounds.py).
// Where an expression gives the kernel's address, as in table[i]<<<grid, block>>>(args), it becomes
// ::cuda_on_cpu::ThroughPointer{"table[i]", ::cuda_on_cpu::Configuration(grid, block), table[i]}(args)
#define CUDA_ON_CPU_CALL(...)                                  \
    [&](auto... cuda_on_cpu_a) { __VA_ARGS__(cuda_on_cpu_a...); }, \
        [&](auto cuda_on_cpu_a) -> decltype(cuda_on_cpu_a(__VA_ARGS__)) { return cuda_on_cpu_a(__VA_ARGS__); }
// Of a template with a parameter pack: its address would be that of an instance with an empty one.
#define CUDA_ON_CPU_CALL_DEDUCED(...) [&](auto... cuda_on_cpu_a) { __VA_ARGS__(cuda_on_cpu_a...); }, nullptr
#define CUDA_ON_CPU_BOUNDS(...) \
    [](auto... cuda_on_cpu_a) -> decltype(__VA_ARGS__(cuda_on_cpu_a...)) { return {}; }
struct Address {  // two templates: of overloads, of which one takes nothing, neither is the better one
    template <class A, class... More>
    auto operator()(void (*kernel)(A, More...)) const { return kernel; }
    template <class Nothing>
    auto operator()(Nothing (*kernel)()) const { return kernel; }
};

// A GPU copies an argument's bytes for each thread. Its copy constructor and its destructor belong to the host, which
// has copied it once. C++ passes an object of such a class by its address (Itanium C++ ABI, "Value Parameters").
template <class T>
inline constexpr bool goes_by_address =
    !(std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T>);
template <class T>
struct BytesOf {
    alignas(T) char bytes[sizeof(T)];
    explicit BytesOf(const T& v) { __builtin_memcpy(bytes, &v, sizeof v); }
    decltype(auto) passed() {
        T& object = reinterpret_cast<T&>(bytes);
        if constexpr (goes_by_address<T>) return (object);
        else return T(object);
    }
};
template <class... A>
struct WithBytes {
    void (*kernel)(A...);
    CUDA_ON_CPU_OWN_FRAME void operator()(const A&... a) const {
        using Kernel = void (*)(std::conditional_t<goes_by_address<A>, A&, A>...);
        reinterpret_cast<Kernel>(kernel)(BytesOf<A>(a).passed()...);
    }
};
template <class Kernel, class... A>
auto with_bytes(Kernel kernel, void (*address)(A...)) {
    if constexpr ((goes_by_address<A> || ...) && !(std::is_reference_v<A> || ...)) return WithBytes<A...>{address};
    else return kernel;
}

// A kernel with copies of its arguments: what each thread calls. Every launch in a source pays for what this takes to
// compile, which is less than std::tuple does.
template <size_t i, class A>
struct Argument {
    A value;
};
template <class Numbers, class... A>
struct Arguments;
template <size_t... i, class... A>
struct Arguments<std::index_sequence<i...>, A...> : Argument<i, A>... {
    template <class Kernel>
    __attribute__((always_inline)) void passed_to(Kernel& kernel) { kernel(Argument<i, A>::value...); }
    CUDA_ON_CPU_OPAQUE void look(const char* name, const void* code) const {
        const void* const places[] = {&this->Argument<i, A>::value..., nullptr};
        look_at_arguments(name, parameters<A...>, places, sizeof...(A), code);
#ifdef CUDA_ON_CPU_TRACE
        name_arguments(name, parameters<A...>, places, sizeof...(A));
#endif
    }
};
template <class Kernel, class Arguments>
struct Call {
    Kernel kernel;
    Arguments arguments;
    CUDA_ON_CPU_OWN_FRAME void operator()() { arguments.passed_to(kernel); }
};

// In host/graphs.cpp: while a stream is captured, a launch on it is noted with a copy of its Call, or refused.
extern int captures_under_way;
struct Copies {  // of a Call; without them, its bytes suffice
    void* (*copy)(const void*) = nullptr;
    void (*destroy)(void*) = nullptr;
};
template <class Call>
Copies copies_of() {
    if constexpr (std::is_trivially_copyable_v<Call> || !std::is_copy_constructible_v<Call>)
        return {};
    else
        return {[](const void* call) -> void* { return new Call(*static_cast<const Call*>(call)); },
                [](void* call) { delete static_cast<Call*>(call); }};
}
bool captured(const char* name, const Launch& launch, void (*run_threads)(void*), Copies copies, const void* call);

template <class Bounds, class Kernel>
struct Start {
    const char* name;
    Configuration configuration;
    Kernel kernel;

    template <class... Args>
    CUDA_ON_CPU_OPAQUE void operator()(Args&&... args) const {
        Launch launch = configuration;
        if constexpr (std::is_invocable_v<Bounds, std::decay_t<Args>...>)
            std::invoke_result_t<Bounds, std::decay_t<Args>...>::value().limit(launch);
        using Thread = Call<Kernel, Arguments<std::index_sequence_for<Args...>, std::decay_t<Args>...>>;
        Thread thread{kernel, {{std::forward<Args>(args)}...}};
        launch.argument_bytes = sizeof thread;
#ifdef CUDA_ON_CPU_TRACE
        launch.launched_at = __builtin_return_address(0);
#endif
        thread.arguments.look(name, launch.launched_at);
        CUDA_ON_CPU_CONSTANTS();
        if (captures_under_way && captured(name, launch, &run_threads<Thread>, copies_of<Thread>(), &thread)) return;
        run_grid(name, launch, &run_threads<Thread>, &thread);
    }
};
// What follows only hands on its arguments, inside the function with the launch: that line is named.
// Where the kernel's type is known, its arguments become what it takes before they are copied: 0 a pointer, for one.
template <class Bounds, class Kernel, class... A>
struct StartOf : Start<Bounds, Kernel> {
    __attribute__((always_inline)) void operator()(A... args) const {
        Start<Bounds, Kernel>::operator()(static_cast<A&&>(args)...);
    }
    template <class... Fewer, class = std::enable_if_t<sizeof...(Fewer) < sizeof...(A)>>
    __attribute__((always_inline)) void operator()(Fewer&&... args) const {  // the others have a default
        Start<Bounds, Kernel>::operator()(std::forward<Fewer>(args)...);
    }
};
template <class Bounds, class Kernel, class... A>
StartOf<Bounds, Kernel, A...> start_of(Start<Bounds, Kernel> start, void (*)(A...)) {
    return {std::move(start)};
}

// In host/kernels.cpp. The name is `otherwise` if the linker knows none; valid until this CPU thread asks again.
const char* kernel_name(const void* kernel, const char* otherwise = "the kernel");
KernelBounds bounds_of(const void* kernel);  // as far as remembered (host/kernels.h)

// What host code gets as the address of a __device__ function (device_addresses.py).
const void* address_on_host(const void* function);
template <class R, class... A>
auto host_address(R (*function)(A...)) {
    using Function = decltype(function);
    return reinterpret_cast<Function>(const_cast<void*>(address_on_host(reinterpret_cast<const void*>(function))));
}

// A launch through a pointer, which is read once, before the arguments.
template <class... A>
struct ThroughPointer {
    const char* expression;
    Launch launch;
    void (*kernel)(A...);

    __attribute__((always_inline)) void operator()(A... args) const {
        const void* address = reinterpret_cast<const void*>(kernel);
        auto called = with_bytes(kernel, kernel);
        Start<std::nullptr_t, decltype(called)> start{expression, launch, called};
#ifdef CUDA_ON_CPU_TRACE  // the name leads to the names of the kernel's parameters
        start.name = kernel_name(address, expression);
#endif
#ifdef CUDA_ON_CPU_IN_STEP  // the source says `volatile` (build.py)
        start.configuration.in_step = true;
#endif
        if (!launch.kernel) start.configuration.kernel = address;
        bounds_of(address).limit(start.configuration);
        start(static_cast<A&&>(args)...);
    }
};
template <class... A>
ThroughPointer(const char*, Launch, void (*)(A...)) -> ThroughPointer<A...>;

// A kernel whose template arguments the launch leaves to the compiler. The mark has its name, for instances.py.
template <class Mark, class Kernel>
struct Marked : Kernel {};

template <class Mark = void, class Kernel, class AddressOf, class Bounds = std::nullptr_t>
auto start_kernel(const char* name, Launch launch, Kernel kernel, AddressOf address_of, Bounds = {}) {
#ifdef CUDA_ON_CPU_IN_STEP
    launch.in_step = true;
#endif
    if constexpr (std::is_invocable_v<AddressOf, Address>) {
        auto address = address_of(Address());
        if constexpr (std::is_empty_v<Kernel>) {
            if (!launch.kernel) launch.kernel = reinterpret_cast<const void*>(address);
            auto called = with_bytes(kernel, address);
            return start_of(Start<Bounds, decltype(called)>{name, launch, called}, address);
        } else {  // the name is a variable's
            return ThroughPointer{name, launch, address};
        }
    } else {
        return Start<Bounds, Marked<Mark, Kernel>>{name, launch, {kernel}};
    }
}

}  // namespace cuda_on_cpu
