// Makes C++ functions callable from Python. For functions of tensors, numbers, strings, lists and tuples this file does
// it by itself, in a third of the time that pybind11's headers take to compile. Where another type is met the
// static_assert below says so, and the same text is compiled again with CUDA_COURSE_PYBIND, on pybind11.
//
// CUDA_COURSE_MODULE(CUDA_COURSE_FUNCTION(f), CUDA_COURSE_FUNCTION(g)) defines the module TORCH_EXTENSION_NAME.
#pragma once

#if defined(CUDA_COURSE_PYBIND) || defined(CUDA_COURSE_WHOLE_TORCH)

#include "binding.h"

#include "called.h"

#define CUDA_COURSE_FUNCTION(f) m.def(#f, torch::wrap_pybind_function(CUDA_COURSE_CALLED(f)), #f)
#define CUDA_COURSE_MODULE(...) \
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { __VA_ARGS__; }

#else

#include <Python.h>

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <concepts>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "called.h"

namespace torch {
void translate_exception_to_python(const std::exception_ptr& exception);  // in libtorch_python, as the next two
}  // namespace torch
extern PyObject* THPVariableClass;
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);

namespace cuda_course {

// How a type comes from Python (false where the object is of another type) and goes back (a new reference).
template <class T>
struct Python {
    static_assert(sizeof(T) == 0, "cuda_course: pybind11 is needed for this type");
};

template <>
struct Python<at::Tensor> {
    static std::string name() { return "torch.Tensor"; }
    static bool from(PyObject* object, at::Tensor& value) {
        if (PyObject_IsInstance(object, THPVariableClass) != 1) return false;
        PyObject* address = PyObject_GetAttrString(object, "_cdata");
        if (!address) return false;
        auto* tensor = static_cast<c10::TensorImpl*>(PyLong_AsVoidPtr(address));
        Py_DECREF(address);
        value = at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(tensor));
        return true;
    }
    static PyObject* to(const at::Tensor& value) { return THPVariable_Wrap(value); }
};

template <>
struct Python<bool> {
    static std::string name() { return "bool"; }
    static bool from(PyObject* object, bool& value) {
        value = object == Py_True;
        return PyBool_Check(object);
    }
    static PyObject* to(bool value) { return PyBool_FromLong(value); }
};

template <std::integral T>
struct Python<T> {
    static_assert(sizeof(T) > 1, "cuda_course: pybind11 is needed for this type");  // it makes a character a string
    static std::string name() { return "int"; }
    static bool from(PyObject* object, T& value) {
        PyObject* number = PyIndex_Check(object) ? PyNumber_Index(object) : nullptr;
        if (!number) return false;
        if constexpr (std::is_signed_v<T>) {
            long long wide = PyLong_AsLongLong(number);
            value = T(wide);
            if (value != wide) PyErr_SetString(PyExc_OverflowError, "too large");
        } else {
            unsigned long long wide = PyLong_AsUnsignedLongLong(number);
            value = T(wide);
            if (value != wide) PyErr_SetString(PyExc_OverflowError, "too large");
        }
        Py_DECREF(number);
        return !PyErr_Occurred();
    }
    static PyObject* to(T value) {
        if constexpr (std::is_signed_v<T>) return PyLong_FromLongLong(value);
        return PyLong_FromUnsignedLongLong(value);
    }
};

template <std::floating_point T>
struct Python<T> {
    static std::string name() { return "float"; }
    static bool from(PyObject* object, T& value) {
        value = T(PyFloat_AsDouble(object));
        return !PyErr_Occurred();
    }
    static PyObject* to(T value) { return PyFloat_FromDouble(double(value)); }
};

template <>
struct Python<std::string> {
    static std::string name() { return "str"; }
    static bool from(PyObject* object, std::string& value) {
        Py_ssize_t length = 0;
        const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &length) : nullptr;
        if (text) value.assign(text, size_t(length));
        return text;
    }
    static PyObject* to(const std::string& value) {
        return PyUnicode_DecodeUTF8(value.data(), Py_ssize_t(value.size()), nullptr);
    }
};

template <class T>
struct Python<std::optional<T>> {
    static std::string name() { return Python<T>::name() + " or None"; }
    static bool from(PyObject* object, std::optional<T>& value) {
        value.reset();
        return object == Py_None || Python<T>::from(object, value.emplace());
    }
    static PyObject* to(const std::optional<T>& value) {
        return value ? Python<T>::to(*value) : Py_NewRef(Py_None);
    }
};

template <class T>
struct Python<std::vector<T>> {
    static std::string name() { return "a list of " + Python<T>::name(); }
    static bool from(PyObject* object, std::vector<T>& value) {
        if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
            T element;
            if (!Python<T>::from(PySequence_Fast_GET_ITEM(object, i), element)) return false;
            value.push_back(std::move(element));
        }
        return true;
    }
    static PyObject* to(const std::vector<T>& value) {
        PyObject* list = PyList_New(Py_ssize_t(value.size()));
        for (size_t i = 0; list && i < value.size(); i++) {
            PyObject* element = Python<T>::to(value[i]);
            if (!element) return Py_DECREF(list), nullptr;
            PyList_SET_ITEM(list, Py_ssize_t(i), element);
        }
        return list;
    }
};

template <class... T>
struct Python<std::tuple<T...>> {
    static PyObject* to(const std::tuple<T...>& value) {
        PyObject* all = PyTuple_New(sizeof...(T));
        Py_ssize_t i = 0;
        auto add = [&](PyObject* element) {
            if (all && element) PyTuple_SET_ITEM(all, i++, element);
            if (all && !element) Py_CLEAR(all);
        };
        std::apply([&](const T&... element) { (add(Python<T>::to(element)), ...); }, value);
        return all;
    }
};

// What TORCH_WARN says while a function runs becomes Python's warnings when it has returned.
struct Warnings : c10::WarningHandler {
    std::vector<c10::Warning> warnings;
    c10::WarningUtils::WarningHandlerGuard guard{this};
    void process(const c10::Warning& warning) override { warnings.push_back(warning); }
    bool tell() const {  // false where Python makes an exception of one
        for (const auto& warning : warnings) {
            bool deprecated = std::holds_alternative<c10::Warning::DeprecationWarning>(warning.type());
            PyObject* category = deprecated ? PyExc_DeprecationWarning : PyExc_UserWarning;
            if (PyErr_WarnEx(category, warning.msg().c_str(), 1)) return false;
        }
        return true;
    }
};

template <class T>
bool read_argument(const char* function, size_t i, PyObject* object, T& value) {
    if (Python<T>::from(object, value)) return true;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: argument %zu must be %s, but it is %.200R (%s)", function, i + 1,
                 Python<T>::name().c_str(), object, Py_TYPE(object)->tp_name);
    return false;
}

template <class R, class... A, size_t... I>
PyObject* call_with(const char* name, R (*function)(A...), PyObject* const* objects, std::index_sequence<I...>) {
    std::tuple<std::decay_t<A>...> values;
    if (!(read_argument(name, I, objects[I], std::get<I>(values)) && ...)) return nullptr;
    (void)objects;
    try {
        Warnings warnings;
        if constexpr (std::is_void_v<R>) {
            function(static_cast<A&&>(std::get<I>(values))...);
            return warnings.tell() ? Py_NewRef(Py_None) : nullptr;
        } else {
            std::decay_t<R> result = function(static_cast<A&&>(std::get<I>(values))...);
            return warnings.tell() ? Python<std::decay_t<R>>::to(result) : nullptr;
        }
    } catch (const Stopped&) {
        return nullptr;
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
        return nullptr;
    }
}

template <class R, class... A>
PyObject* call(const char* name, R (*function)(A...), PyObject* const* objects, Py_ssize_t count) {
    if (count == Py_ssize_t(sizeof...(A)))
        return call_with(name, function, objects, std::index_sequence_for<A...>());
    return PyErr_Format(PyExc_TypeError, "%s takes %zu argument%s, but %zd %s given", name, sizeof...(A),
                        sizeof...(A) == 1 ? "" : "s", count, count == 1 ? "was" : "were");
}

}  // namespace cuda_course

#define CUDA_COURSE_FUNCTION(f)                                                                               \
    PyMethodDef {                                                                                             \
        #f, (PyCFunction)(void (*)()) +[](PyObject*, PyObject* const* objects, Py_ssize_t count) {            \
            return ::cuda_course::call(#f, CUDA_COURSE_CALLED(f), objects, count);                                                \
        }, METH_FASTCALL, #f                                                                                  \
    }
#define CUDA_COURSE_MODULE(...)                                                                               \
    CUDA_COURSE_INIT(TORCH_EXTENSION_NAME) {                                                                  \
        static PyMethodDef functions[] = {__VA_ARGS__, {}};                                                   \
        static PyModuleDef module = {PyModuleDef_HEAD_INIT, C10_STRINGIZE(TORCH_EXTENSION_NAME), nullptr, -1, functions, \
                                     nullptr,               nullptr,     nullptr, nullptr};                   \
        return PyModule_Create(&module);                                                                      \
    }
#define CUDA_COURSE_INIT(name) CUDA_COURSE_INIT_OF(name)
#define CUDA_COURSE_INIT_OF(name) PyMODINIT_FUNC PyInit_##name()

#endif
