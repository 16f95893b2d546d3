"""What to do about a name of C++'s library that is not declared: its header, or the version of C++ that has it."""

from difflib import get_close_matches

from utils.cuda.common import cxx

__all__ = ["ADD_THE_FLAG", "IN_CPP20", "header", "in_cpp20"]

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
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount",
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
    "type_traits": "is_constant_evaluated remove_cvref remove_cvref_t type_identity",
}
_NEWER_HEADERS = {name: header for header, names in _NEWER.items() for name in names.split()}
#: A pattern of what C++20 adds to the library.
IN_CPP20 = rf"std\s*::\s*(?P<name>{'|'.join(_NEWER_HEADERS)})\b"


def in_cpp20(place, name):
    """`std::numbers::pi_v<float>`"""
    header = _NEWER_HEADERS[name]
    included = name == "ranges" or any(cxx.included(line) == header for line in cxx.directives(place.source))
    return f"`std::{name}` is C++20{'' if included else f', of `<{header}>`'}, and {ADD_THE_FLAG}"


def header(name):
    """`std::thread` without its header, or misspelt."""
    if name in _HEADERS:
        return f"It needs `#include <{_HEADERS[name]}>` at the top of the source."
    return next((f"Did you mean `std::{near}`?" for near in get_close_matches(name, _HEADERS, 1, cutoff=0.75)), "")
