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

struct Stopped {};  // Python's exception is set

[[noreturn]] inline void leave() {
#ifdef PYBIND11_VERSION_MAJOR
    throw pybind11::error_already_set();
#else
    throw Stopped();
#endif
}

// `error` is what CUDA_COURSE_GUARDED_CALL returns for the function `name`.
inline void check(const char* name, const char* error) {
    if (!error) return;
    if (*error) throw std::runtime_error(error);
    if (PyErr_CheckSignals()) leave();
    throw std::runtime_error(std::string(name) + " was interrupted");  // in a thread to which Python shows no signals
}

#ifdef CUDA_COURSE_GUARDED_CALL
// What Python is to be warned of after a call.
inline void show_warnings() {
    while (const char* text = CUDA_COURSE_TAKE_WARNING()) {
        PyObject* module = PyImport_ImportModule(CUDA_COURSE_SHOWS_WARNING);
        PyObject* shown = module ? PyObject_CallMethod(module, "show", "y", text) : nullptr;
        Py_XDECREF(module);
        Py_XDECREF(shown);
        if (!shown) leave();
    }
}

template <auto function>
struct Called;

template <class R, class... A, R (*function)(A...)>
struct Called<function> {
    static inline const char* name = "";

    static std::decay_t<R> call(A... arguments) {
        std::optional<std::conditional_t<std::is_void_v<R>, bool, std::decay_t<R>>> result;
        auto run = [&] {
            if (PyErr_CheckSignals()) leave();  // of an interruption just before the call, only Python knows
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
        check(name, CUDA_COURSE_GUARDED_CALL(name, reinterpret_cast<const void*>(function),
                                             [](void* data) { (*static_cast<decltype(run)*>(data))(); }, &run));
        show_warnings();
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
