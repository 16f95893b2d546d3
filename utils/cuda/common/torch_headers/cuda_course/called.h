// An extension's function as Python calls it. If a builder has <cuda_course/guarded_call.h>, a fault in the function's
// own code ends the call and becomes an exception.
#pragma once

#include <Python.h>

#include <cxxabi.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if __has_include(<cuda_course/guarded_call.h>)
#include <cuda_course/guarded_call.h>
#endif

namespace cuda_course {

struct Stopped {};  // Python's KeyboardInterrupt is set

inline void check(const char* error) {
    if (!error) return;
    if (*error) throw std::runtime_error(error);
    if (!PyErr_CheckSignals()) return;
#ifdef PYBIND11_VERSION_MAJOR
    throw pybind11::error_already_set();
#else
    throw Stopped();
#endif
}

#ifdef CUDA_COURSE_GUARDED_CALL
template <auto function>
struct Called;

template <class R, class... A, R (*function)(A...)>
struct Called<function> {
    static inline const char* name = "";

    static std::decay_t<R> call(A... arguments) {
        std::optional<std::conditional_t<std::is_void_v<R>, bool, std::decay_t<R>>> result;
        auto run = [&] {
            try {
                if constexpr (std::is_void_v<R>)
                    function(std::forward<A>(arguments)...);
                else
                    result.emplace(function(std::forward<A>(arguments)...));
            } catch (const std::exception&) {
                throw;
            } catch (abi::__forced_unwind&) {  // Python ends this CPU thread
                throw;
            } catch (...) {  // Python could not translate it
                throw std::runtime_error(std::string(name) + " throws what is not a std::exception");
            }
        };
        check(CUDA_COURSE_GUARDED_CALL(name, reinterpret_cast<const void*>(function),
                                       [](void* data) { (*static_cast<decltype(run)*>(data))(); }, &run));
        if constexpr (!std::is_void_v<R>) return std::move(*result);
    }
};
template <class R, class... A, R (*function)(A...) noexcept>
struct Called<function> : Called<static_cast<R (*)(A...)>(function)> {};

#define CUDA_COURSE_CALLED(f) (::cuda_course::Called<f>::name = #f, &::cuda_course::Called<f>::call)
#else
#define CUDA_COURSE_CALLED(f) f
#endif

}  // namespace cuda_course
