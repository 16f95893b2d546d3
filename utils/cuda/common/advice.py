"""What to do about a compile error, worded for one place of the source: what the rules of hints.py call.

Each function returns a sentence or two, or "" if it cannot say what to do.
"""

import re

from utils.cuda.common import cxx
from utils.cuda.common.lexer import namespaces
from utils.cuda.common.missing import declared_line, tokens

__all__ = []  # the functions that word a hint


def same_name(place, **names):
    """A function or a kernel of the source that has the name of something in CUDA."""
    name = next(filter(None, names.values()))
    there = [function for function in cxx.functions(place.source) if function.name == name]
    if len(there) > 1 and "more than one instance" in place.message:
        return _several(place, there)
    if "no instance" in place.message:
        later = next((one.line for one in there if one.line > place.line), 0)
        return f"The `{name}` of line {later} comes too late: declare it before line {place.line}." if later else ""
    if len(there) > 1:
        return f"Line {there[0].line} has a `{name}` already: remove one, or give it another name."
    if there and "more than one instance" in place.message and "using namespace std" in cxx.code(place.source):
        return f"With `using namespace std;`, the library's `{name}` fits too: remove that line, or rename yours."
    if "instance" not in place.message and (other := declared_line(place.source, name, place.line)):
        return f"The name `{name}` is already used in line {other}: give one of the two another name."
    own_type = any(name == declaration.name for declaration in cxx.declarations(place.source))
    article = "an" if name[0] in "aeio" else "a"
    return f"CUDA has {article} `{name}` of its own: give yours another name." if there or own_type else ""


def _several(place, there):
    """Functions of the source that fit a call equally well."""
    kinds = [[re.sub(r"\bconst\b|&|\s", "", cxx.parameter_type(each)) for each in one.parameters] for one in there]
    types = place.message.partition("argument types are: (")[2].rstrip(")")
    given = len(cxx.at_commas(cxx.tokens(types))) if types else 0
    longer = [one for one in there if len(one.parameters) > given and "=" in [t.text for t in one.parameters[given]]]
    if longer and all(kind[:given] == kinds[0][:given] for kind in kinds):
        which = f"the `{there[0].name}` of line {longer[0].line}"
        return f"With its default argument, {which} fits this call, too: remove the default, or rename one of the two."
    if kinds.count(kinds[0]) < len(kinds):
        return f"Several fit equally well: convert the arguments to the types of one, as of `{there[0].signature}`."
    name, spaces = there[0].name, ["::".join(namespaces(tokens(place.source), one.tokens[0].start)) for one in there]
    if len(set(spaces)) < len(spaces):
        lines = " and ".join(str(one.line) for one in there)
        return f"No call tells the functions of lines {lines} apart: remove one, or give it another name."
    return f"Several namespaces have a function `{name}`: say which one is meant, as in `{spaces[0]}::{name}`."


# ---- CUDA -----------------------------------------------------------------------------------------------------------


def part_of_index(place):
    """threadIdx without .x."""
    if written := re.search(rf"\b({_BUILT_IN})\s*[-+*/%]?=(?!=)", place.code):
        return only_read(written[1])
    found = re.search(rf"\b({_BUILT_IN})\b(?!\s*\.)", place.code)
    if found:
        return f"`{found[1]}` has three parts: write `{found[1]}.x` (or .y, .z)."
    called = re.search(rf"\b((?:{_BUILT_IN})\s*\.\s*[xyz])\s*\(", place.code)
    return f"`{called[1]}` is a number, not a function: leave out the parentheses." if called else ""


_BUILT_IN = "threadIdx|blockIdx|blockDim|gridDim"


def only_read(name):
    """A write to a built-in variable."""
    return f"`{name}` can only be read: the launch sets it. Use a variable of your own."


def returned(place):
    """A value that the function returns although its type is another one, or none."""
    for function in cxx.functions(place.source):
        if function.line <= place.line <= function.tokens[-1].line:
            if "__global__" not in function.returns:
                return f"Line {function.line} declares `{function.signature}`."
            return "A kernel returns nothing: write the result to memory, `out[i] = ...;`, and leave with `return;`."
    return ""


def launch(place, name, sizes):
    """A launch as compile_kernel's kernels have it, or with `<<`."""
    return f"In C++, a launch is `{name}<<<{sizes.strip()}>>>(...)`." if name in cxx.kernels(place.source) else ""


def spaced_launch(place, name, sizes):
    """`k<<<1, 32> >>(x)`, whose brackets are one token for the engine and not for nvcc."""
    return launch(place, name, sizes) if re.search(r">\s+>>", place.text) else ""


def launch_arguments(place, wanted, given):
    """A kernel's arguments of other types than its parameters."""
    bare = (re.sub(r"\bconst\b|&", "", kinds).replace("*", " *").split(",") for kinds in (wanted, given))
    types = [[" ".join(kind.split()).replace(" *", "*") for kind in kinds] for kinds in bare]
    if types[0] != types[1] and sorted(types[0]) == sorted(types[1]):
        return f"The arguments are in another order than the kernel's parameters, `({wanted})`."
    part = cxx.tokens(place.code.partition(">>>")[2])
    passed = [cxx.written(each) for each in cxx.at_commas(part[1 : cxx.matching(part, 0)])] if part else []
    for kind, other, value in zip(*types, passed, strict=False):
        pointer = re.fullmatch(r"(.*\.(?:mutable_|const_)?data_ptr)\s*<.*>\s*\(\s*\)", value)
        if pointer and kind != other and kind.removesuffix("*") in _OF_TENSORS:
            return f"The kernel takes `{kind}`: for a tensor of that type, write `{pointer[1]}<{kind[:-1]}>()`."
    return ""


_OF_TENSORS = {"float", "double", "int", "long", "long int", "short", "short int", "unsigned char", "bool"}


def vector_for_a_kernel(place):
    """A `std::vector` as an argument of a kernel."""
    if cxx.uses_torch(place.source):
        copied = "pass the address of a copy on the GPU, such as `torch::tensor(v).cuda()`"
    else:
        copied = "copy its elements by `cudaMemcpy` to memory from `cudaMalloc`, and pass that pointer"
    return f"A vector is in the host's memory: {copied}."


def factor(place, number, name):
    """`2r`, and `1.0i` where there is no `i`."""
    if name in ("i", "j") and not any(token.text == name for token in tokens(place.source)):
        return f"Numbers have no suffix `{name}`: keep the real and the imaginary part in a `float2`."
    return f"C++ needs the `*`: `{number} * {name}`."


def nested(place, name):
    """`max(a, b, c)`, and `std::max({a, b, c})` in a kernel."""
    without = " without `std::`" if re.search(rf"\bstd\s*::\s*{name}\b", place.code) and place.in_device_code else ""
    return f"`{name}` takes two arguments: nest it{without}, `{name}({name}(a, b), c)`."


def _constant(place):
    """What only a constant may be, other than the size of an array."""
    if "inline assembly" in place.message:
        return "A `constexpr` function cannot have `asm`: leave out its `constexpr`."
    if re.search(r"\bconstexpr\b[^;]*=", place.code) and not (place.in_device_code or place.in_host_code):
        return "The compiler cannot compute that: write the number itself, or compute it where it is used."
    places = ((r"\bif\s+constexpr\b", "`if`"), (r"\bconstexpr\b", "`const`"), (r"\bcase\b", "`if` and `else if`"))
    for where, instead in places:
        if re.search(where, place.code):
            return f"What is known only when the kernel runs needs {instead} instead."
    return "It must be known to the compiler: a number, a `constexpr`, a macro or a template's parameter."


def array_size(place):
    """An array, or a template, whose size is known only at run time."""
    if "__shared__" in place.code:
        return ""
    for name, index in re.findall(r"\b(\w+)\s*\[(\d+)\](?!\s*=\s*\{)", place.code):
        size = re.search(rf"\bconstexpr\s+(?:[\w:]+\s+)+{name}\s*\[(\d+)\]\s*=", cxx.code(place.source))
        if size and int(index) >= int(size[1]):
            return f"`{name}` has {size[1]} elements: there is no `{name}[{index}]`."
    if not re.search(r"\w\s+\w+\s*\[(?!\s*\d*\s*\])|\w\s*<[^;<>]*>", place.code):
        return _constant(place)
    what = "a template's argument" if re.search(r"\w\s*<\s*\w+\s*>", place.code) else "the size of an array"
    return f"The compiler must know {what}: use a number, a constexpr or a template's parameter."


def template_arguments(place):
    """A function template whose arguments do not follow from the call."""
    for function in cxx.functions(place.source):
        said = re.search(rf"\b{function.name}\b", place.message)
        if function.template and said and re.search(rf"\b{function.name}\s*(?:<<<|\()", place.code):
            parameters = cxx.at_commas(cxx.tokens(function.template)[2:-1])
            of_any_size = rf"\(\s*&\s*\w*\s*\)\s*\[\s*{parameters[0][-1].text}\s*\]"
            if re.search(r"\*&?\)", place.message) and re.search(of_any_size, place.source):
                return ONLY_AN_ARRAY
            kinds = [parameter[0].text for parameter in parameters if not any(word.text == "=" for word in parameter)]
            if {"requires", "enable_if_t"} & set(function.words) or not kinds or not set(kinds) <= _EXAMPLES.keys():
                return ""  # the types do not meet a condition
            named = f"{function.name}<{', '.join(_EXAMPLES[kind] for kind in kinds)}>"
            return f"`{function.name}` is a `{function.template}`: name the arguments, as in `{named}`."
    return ""


def typename(place, name, base, arguments):
    """`T::value_type v;` in a template."""
    lists = re.findall(r"\btemplate\s*<([^;{}]*?)>\s*[\w_]", cxx.code(place.source))
    parameters = {parameter for each in lists for parameter in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", each)}
    if not parameters & {base, *re.findall(r"\w+", arguments or "")}:
        return ""
    return f"A type that depends on a template's parameter needs `typename`: `typename {name}`."


#: `float (&a)[N]`, and a pointer is passed.
ONLY_AN_ARRAY = "A pointer does not know how many elements it has: only an array itself fits `(&name)[N]`."
_EXAMPLES = {"class": "float", "typename": "float", "bool": "true"}
_EXAMPLES |= dict.fromkeys(("int", "unsigned", "size_t", "long", "short", "char", "const", "auto"), "16")


def macro(place):
    """A `#define` with `=` or `;`."""
    for found in cxx.macros(place.source).values():
        texts = [token.text for token in found.body]
        if texts and (texts[0] == "=" or texts[-1] == ";") and re.search(rf"\b{found.name}\b", place.code):
            return f"`#define {found.name}` takes neither `=` nor `;`: write `#define {found.name} 3`."
    return ""
