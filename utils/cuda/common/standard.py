"""What to do about a name of C++'s library that is not declared: its header, or the version of C++ that has it."""

import re
from difflib import get_close_matches
from itertools import pairwise

from utils.cuda.common import cxx

__all__ = ["ADD_THE_FLAG", "IN_CPP20", "RULES", "SPACESHIP", "for_host", "header"]  # and those that word a hint

ADD_THE_FLAG = 'nvcc takes C++17 unless told: add `-std=c++20` (for `compile_kernel`, `options=["-std=c++20"]`).'
# The headers, and what is used of each.
_NAMES = {
    "algorithm": "all_of any_of copy count equal fill fill_n find for_each generate max_element min_element "
    "minmax_element nth_element remove_if replace reverse shuffle sort stable_sort transform unique",
    "atomic": "atomic",
    "bitset": "bitset",
    "chrono": "chrono",
    "complex": "complex",
    "deque": "deque",
    "fstream": "fstream ifstream ofstream",
    "functional": "function greater less minus multiplies plus",
    "future": "async future promise",
    "iomanip": "setfill setprecision setw",
    "iostream": "cerr cin cout endl",
    "limits": "numeric_limits",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex scoped_lock unique_lock",
    "numeric": "accumulate gcd inner_product iota lcm partial_sum reduce",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": "bernoulli_distribution default_random_engine mt19937 mt19937_64 normal_distribution random_device "
    "uniform_int_distribution uniform_real_distribution",
    "set": "multiset set",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument out_of_range runtime_error",
    "string": "getline stof stoi string to_string",
    "thread": "this_thread thread",
    "tuple": "make_tuple tie tuple",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "variant": "get_if variant visit",
    "vector": "vector",
}
_HEADERS = {name: header for header, names in _NAMES.items() for name in names.split()}
_NEWER = {
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount rotl rotr",
    "cmath": "lerp",
    "concepts": "convertible_to floating_point integral same_as",
    "format": "format",
    "iterator": "ssize",
    "numbers": "numbers",
    "numeric": "midpoint",
    "ranges": "ranges views",
    "source_location": "source_location",
    "span": "span",
    "thread": "jthread",
    "type_traits": "is_constant_evaluated remove_cvref remove_cvref_t type_identity type_identity_t",
}
_NEWER_HEADERS = {name: header for header, names in _NEWER.items() for name in names.split()}
#: A pattern of what C++20 adds to the library.
IN_CPP20 = rf"std\s*::\s*(?P<name>{'|'.join(_NEWER_HEADERS)})\b"
# What is no function, or only read by the compiler: a kernel can use it.
_FOR_KERNELS = {*_NEWER["concepts"].split(), *_NEWER["type_traits"].split()[1:], "numbers"}
# What CUDA has instead.
_INSTEAD = {
    "bit_cast": "`__int_as_float(i)`, `__float_as_int(x)`",
    "countl_zero": "`__clz(x)`",
    "format": "`printf`",
    "lerp": "`a + t * (b - a)`",
    "popcount": "`__popc(x)`",
    "span": "a pointer and the number of elements",
    "ssize": "`sizeof(a) / sizeof(a[0])`",
}
# Headers of CUDA's own library that kernels can use, `<cuda/std/array>`, and what is used of them besides.
_CUDA_STD = {
    "array": "array",
    "atomic": "atomic_ref",
    "bit": "",
    "cmath": "",
    "complex": "",
    "functional": "",
    "iterator": "",
    "limits": "",
    "numbers": "",
    "numeric": "",
    "optional": "",
    "source_location": "",
    "span": "",
    "tuple": "apply get tuple_size",
    "type_traits": "",
    "utility": "forward make_pair move pair swap",
    "variant": "",
}
_OF_CUDA_STD = {name: header for name, header in (_HEADERS | _NEWER_HEADERS).items() if header in _CUDA_STD}
del _OF_CUDA_STD["function"]
_OF_CUDA_STD |= {name: header for header, names in _CUDA_STD.items() for name in names.split()}
_OF_CUDA = {
    "atomic": "atomic atomic_ref",
    "barrier": "barrier",
    "cmath": "ceil_div",
    "latch": "latch",
    "pipeline": "make_pipeline pipeline pipeline_shared_state",
    "semaphore": "binary_semaphore counting_semaphore",
}
_CUDA_HEADERS = {name: header for header, names in _OF_CUDA.items() for name in names.split()}


def in_cpp20(place, name):
    """`std::numbers::pi_v<float>`"""
    if place.in_device_code and name not in _FOR_KERNELS:
        return for_host(name)
    header = _NEWER_HEADERS[name]
    included = name == "ranges" or _includes(place, header)
    return f"`std::{name}` is C++20{'' if included else f', of `<{header}>`'}, and {ADD_THE_FLAG}"


def for_host(name):
    """`std::popcount` in a kernel."""
    header = _OF_CUDA_STD.get(name)
    instead = [_INSTEAD.get(name), header and f"`cuda::std::{name}`, of `<cuda/std/{header}>`"]
    write = f": use {' or '.join(filter(None, instead))}" if any(instead) else ""
    return f"A kernel cannot use `std::{name}`, which is for the host{write}."


def word_of_cpp20(place, word):
    """`consteval`, `<=>`"""
    if word == "<=>" and not place.in_host_code:
        return SPACESHIP
    if word.startswith("co_") and place.in_device_code:
        return "Device code has no coroutines."
    if word == "char8_t" and re.search(r"__global__[^{;]*\bchar8_t\s*(?:const\s*)?[*&]", place.code):
        return "nvcc compiles no kernel with a `char8_t*`, not even as C++20: use `unsigned char*`."
    return f"`{word}` is C++20, and {ADD_THE_FLAG}"


def parentheses(place, kind, name, values):
    """`A a(1, 2);` of a struct without a constructor."""
    part = next((each.tokens for each in cxx.declarations(place.source) if each.name == kind), ())
    texts = [token.text for token in part]
    body = " ".join(texts[texts.index("{") + 1 : -1]) if "{" in texts else ""
    while (without := re.sub(r"\([^()]*\)|\{[^{}]*\}", "", body)) != body:
        body = without
    members = len(re.findall("[;,]", body))
    if texts[:1] != ["struct"] or (kind, "(") in pairwise(texts) or len(cxx.at_commas(cxx.tokens(values))) > members:
        return ""
    return f"Without a constructor, that takes braces: `{kind} {name}{{{values}}};`. With parentheses, it is C++20."


SPACESHIP = (
    "A kernel cannot use what `<=>` returns: for numbers, write `(a > b) - (a < b)`, and give a struct a "
    "`__device__ bool operator<`."
)


def cuda_header(place):
    """`cuda::std::array<int, 2> a;` without its header."""
    for prefix, name in re.findall(r"\bcuda\s*::\s*(std\s*::\s*)?(\w+)", place.code):
        header = (_OF_CUDA_STD if prefix else _CUDA_HEADERS).get(name)
        header = header and f"cuda/{'std/' if prefix else ''}{header}"
        if header and not _includes(place, header):
            return f"`cuda::{'std::' if prefix else ''}{name}` needs `#include <{header}>` at the top of the source."
    return ""


def _includes(place, header):
    return any(cxx.included(line) == header for line in cxx.directives(place.source))


def header(name):
    """`std::thread` without its header, or misspelt."""
    if name in _HEADERS:
        return f"It needs `#include <{_HEADERS[name]}>` at the top of the source."
    return next((f"Did you mean `std::{near}`?" for near in get_close_matches(name, _HEADERS, 1, cutoff=0.75)), "")


# What the compilers say of it, in the way of hints.py.
RULES = [
    ("expected an identifier|only available with", r"\busing\s+enum\b", f"`using enum` is C++20, and {ADD_THE_FLAG}"),
    (
        '"= default" can only appear on|cannot be defaulted|only available with',
        r"\boperator\s*(?:==|!=|<=?|>=?)\s*\(",
        f"A comparison by `= default` is C++20, and {ADD_THE_FLAG}",
    ),
    (
        "too many initializer values|no instance of constructor|no matching function for call to",
        r"\b(?P<kind>\w+)\s+(?P<name>\w+)\s*\((?P<values>[^();]+)\)\s*;",
        parentheses,
    ),
    (
        "expected",
        r"\bif\s+(?:!\s*)?consteval\b",
        "`if consteval` is C++23, which nvcc does not have: write `if (__builtin_is_constant_evaluated())`.",
    ),
    (
        "expected",
        r"\(\s*this\s+(?:const\s+)?\w+\s*[&,)\w]",
        "A `this` parameter is C++23, which nvcc does not have: a method uses the members of its object by name.",
    ),
    (
        r'name followed by "::"|not a class or namespace|namespace "cuda.* has no member|incomplete type "cuda::|'
        "has not been declared",
        r"\bcuda\s*::",
        cuda_header,
    ),
]
