"""What to do about a compile error that is about pointers, numbers or vectors, in the way of advice.py."""

import re

from utils.cuda.common import cxx
from utils.cuda.common.advice import ONLY_AN_ARRAY, only_read
from utils.cuda.common.missing import declared_names, tokens
from utils.cuda.common.names import KNOWN

__all__ = ["RULES"]  # and the functions that word a hint


def member(place, nvidia, gcc, clang, name, member):
    """`x.shape` of a pointer, `y[i].sqrt()` of a number."""
    if (nvidia or gcc or clang).endswith(")"):
        return _function(place, name, member)
    if "*" in (kind := nvidia or gcc or clang):
        vector = re.match(r"(?:const |volatile )*(\w*[a-z][1-4])(?:, \w+)? ?\*", kind)
        if kind := vector[1] if vector and member in "xyzw"[: int(vector[1][-1])] else _struct_with(place, member):
            return f"`{name}` is a pointer to a `{kind}`: write `{name}->{member}`, or `{name}[i].{member}`."
        sizes = " Pass the sizes as arguments." if _SIZES.fullmatch(member) else ""
        return f"`{name}` is a pointer, the address of an array: it has no `{member}`.{sizes}"
    if not re.search(rf"\.\s*{member}\s*\(", place.code):
        return ""
    if said := _conversion(member):
        return said
    instead = f"write `{member}f({name})`" if f"{member}f" in KNOWN else "a function takes it, as in `sqrtf(x)`"
    return f"A number has no methods: {instead}."


_SIZES = re.compile("shape|size|dims?|ndim|numel|len|length|strides?|rows|cols|columns|width|height|n|end|begin")


def _function(place, name, member):
    """`s.a` after `S s();`, which declares a function."""
    functions = {function.name for function in cxx.functions(place.source)}
    for kind, declared in re.findall(r"\b([\w:]+(?:<[^;<>]*>)?)\s+(\w+)\s*\(\s*\)\s*;", cxx.code(place.source)):
        if re.search(rf"\b{declared}\s*\.\s*\w", place.code) and declared not in functions:
            return f"`{kind} {declared}();` declares a function: write `{kind} {declared};`."
    return f"`{name}` is a function: call it, `{name}(...).{member}`."


def member_of_result(place, nvidia, gcc, clang, member):
    """`float(x[i]).item()`"""
    return "" if "*" in (nvidia or gcc or clang) else _conversion(member)


def _conversion(member):
    """What PyTorch and NumPy call conversions of a number."""
    if member == "item":
        return "A number has no methods: leave out `.item()`."
    if member in ("astype", "to", "type", "float", "int", "long", "double"):
        return f"A number has no methods: instead of `.{member}(...)`, convert it by `(float)value` or `(int)value`."
    return ""


def arrow(place, kind, name, member):
    """`x->y`, where x is a number or points to numbers."""
    if not re.fullmatch(rf"(?:const |volatile |unsigned )*{_NUMBERS}(?: \*)?", kind):
        return ""
    if kind.endswith("*") and not re.search(rf"\b{name}\s*\[[^\]]*\]\s*->", place.code):
        return f"`{name}` points to numbers, which have no `{member}`: an element is `{name}[i]`."
    return f"A number has no members, such as `{member}`."


def loop_over(place, variable, name):
    """`for (float v : x)` over a pointer or up to a number."""
    code = cxx.code(place.source)
    if re.search(rf"\*\s*(?:const\s+)?(?:__restrict__\s+)?{name}\b", code):
        j = "i" if variable == "j" else "j"
        return f"A pointer has no length: count, `for (int {j} = 0; {j} < n; {j}++)`, and read `{name}[{j}]`."
    if re.search(rf"\b{_NUMBERS}\s+{name}\s*[,;)=]", code):
        counted = f"for (int {variable} = 0; {variable} < {name}; {variable}++)"
        return f"`{name}` is a number: write `{counted}`."
    return ""


def _struct_with(place, member):
    """The struct of the source that has a member of this name."""
    for declaration in cxx.declarations(place.source):
        texts = [token.text for token in declaration.tokens]
        if texts[:1] in (["struct"], ["class"]) and member in texts[2:]:
            return texts[1]
    return ""


def subscript(place):
    """A subscript of something that is not a pointer."""
    twice = re.search(r"\b(\w+)\s*\[([^\[\]]+)\]\s*\[([^\[\]]+)\]", place.code)
    if twice:
        name, row, column = twice.groups()
        width = "width" if re.search(r"\bcolumns\b", place.source) else "columns"
        index = f"{name}[{row} * {width} + {column}]"
        return f"`{name}` is a pointer, with one index: `{index}`, where a row of the matrix has `{width}` elements."
    if re.search(r"\[float\]|\[double\]", place.message):
        return whole_numbers(place)
    indexed = re.findall(r"\b(\w+)\s*\[", place.code)
    alone = [name for name in indexed if re.search(rf"\b{_NUMBERS}\s+{name}\s*[,;)=]", cxx.code(place.source))]
    if not alone:
        return ""
    name, code = alone[0], cxx.code(place.source)
    if shared := re.search(rf"\b(extern\s+)?__shared__\s+(\w+)\s+{name}\b", code):
        size = "" if shared[1] else "64"
        array = f"{'extern ' if shared[1] else ''}__shared__ {shared[2]} {name}[{size}];"
        return f"`{name}` is one number, not an array: declare it as in `{array}`."
    return f"`{name}` is one number, not an array: is a `*` missing where it is declared?"


def read_only(place):
    """A write to something that is const, or that is no variable."""
    target = re.match(r"\s*(?:(?:if|else|for|while)\b\s*(?:\(.*\))?\s*\{?\s*)*\(*\*?(\w+)", place.code)
    name = target[1] if target else ""
    changed = re.findall(r"(?<![\w.>])(\w+)(?:\[[^\]]*\])?\s*(?:\+\+|--)|(?:\+\+|--)\s*(\w+)", place.code)
    if name in ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"):
        return only_read(name)
    for written in filter(None, (name, *(one or other for one, other in changed))):
        if re.search(rf"\bconst\b[^;(){{}},]*\b{written}\b", cxx.code(place.source)):
            return f"`{written}` is declared `const`, for reading only: write to another array, or remove the `const`."
    return ""


def arguments(place):
    """A call with too few or too many arguments."""
    if re.search(r"\b__syncthreads_\w+\s*\(\s*\)", place.code):
        return "It takes a condition, as in `__syncthreads_count(x[i] > 0)`."
    if "__syncthreads" in place.code:
        return "`__syncthreads()` takes no argument."
    if "<<<" in place.code and len(cxx.at_commas(cxx.tokens(place.code.partition("<<<")[2].partition(">>>")[0]))) > 4:
        return "A launch takes `<<<blocks, threads, bytes of shared memory, stream>>>`: the last two may be left out."
    functions = cxx.functions(place.source)
    for name, given in _calls(place):
        there = [function for function in functions if function.name == name]
        if there and not any(_fits(function, given) for function in there):
            return f"Line {there[0].line} declares `{there[0].signature}`."
    return ""


def _calls(place):
    """The functions that a line calls and the kernels that it launches, with the number of their arguments."""
    part, declared = tokens(place.source), declared_names(place.source)
    for k, token in enumerate(part):
        closes = cxx.matching(part, k) if token.text == "(" else None
        if token.line != place.line or closes is None:
            continue
        name = k - 1
        if cxx.text_at(part, name) == ">>>":
            name = next((at for at in range(k, 0, -1) if part[at].text == "<<<"), 1) - 1
        name = (cxx.matching(part, name) or 0) - 1 if cxx.text_at(part, name) == ">" else name  # k<16>
        if name >= 0 and part[name].start not in declared:
            yield cxx.text_at(part, name), len([1 for argument in cxx.at_commas(part[k + 1 : closes]) if argument])


def _fits(function, given):
    least = len([1 for parameter in function.parameters if not any(token.text == "=" for token in parameter)])
    return least <= given <= len(function.parameters)


def star_of_each(place):
    """`float* a, b;`, where a pointer `b` is needed: the line passes `b`, or `&b` to cudaMalloc."""
    given = re.search(
        r"""["'‘](?P<value>\w+)["'’].*\*\s*["'’]|argument types are: \((?P<address>\w+) \*,""", place.message
    )
    kind = given and (given["value"] or given["address"])
    declared = rf"\b{kind}\s*\*\s*(\w+(?:\s*,\s*\w+)+)\s*;"
    for names in re.findall(declared, cxx.code(place.source)) if kind else ():
        names = re.findall(r"\w+", names)
        if any(re.search(rf"\b{name}\b", place.code) for name in names[1:]):
            each = ", ".join(f"*{name}" for name in names)
            return f"In `{kind}* {', '.join(names)};` only `{names[0]}` is a pointer: write `{kind} {each};`."
    return ""


def pointer_or_value(place):
    """A pointer where a number is needed, or the other way round; a pointer to const; a pointer to another type."""
    if "const char" in place.message:
        if re.search(r"const char ?\*['\"’][^'\"‘]*$", place.message) and re.search(r"\bprintf\s*\(", place.code):
            return 'The first argument of `printf` is a text: `printf("i = %d\\n", i)`.'
        sized = re.search(r"\bchar\s+\w+\s*\[\s*\d+\s*\]\s*=", place.code)
        return "The array is too short for the text and the 0 at its end." if sized else "A text is not a number."
    types = re.findall(r"""["'‘]([^"'’]*)["'’]""", place.message)
    if given_volatile := _volatile(place, types):
        return given_volatile
    bare = (re.sub(r"\bconst\b|__restrict__", "", kind) for kind in types)
    given, wanted = [*(" ".join(kind.replace("*", "* ").split()).replace(" *", "*") for kind in bare), "", ""][:2]
    if given.endswith("*") and given != wanted and (variable := _addressed(place, given[:-1])):
        if wanted == given[:-1]:
            return f"`&{variable}` is an address: pass the value, `{variable}`."
        if wanted.endswith("*") and {given[:-1], wanted[:-1]} <= _ELEMENTS:
            return f"`{variable}` is of type `{given[:-1]}`: declare it as `{wanted[:-1]}`."
    if given.endswith("*") and wanted.endswith("*"):
        if given == wanted:
            return f"That pointer is for reading only: declare what takes it as `const {wanted}`."
        if allocates := re.search(r"\b(?:malloc|calloc|realloc)\s*\(", place.code):
            return f"C++ needs a cast: `({wanted}){allocates[0]}...)`."
        if given == "void*":
            return f"That pointer may point to anything: declare it as `{wanted}`, or cast it, `({wanted})pointer`."
        if given[:-1] in _ELEMENTS and wanted[:-1] in _ELEMENTS:
            called = [name for name, _ in _calls(place)]
            own = not called or set(called) & {function.name for function in cxx.functions(place.source)}
            constant = "const " if re.match(r"const\b|\w+ const\b", types[0]) else ""
            pointer = f", or the pointer `{constant}{given}`" if own else ""
            return f"The elements are of type `{given[:-1]}`: make them `{wanted[:-1]}`{pointer}."
        if wanted == "void*" and re.search(r"[mM]em(?:cpy|move)", place.code):
            return "What is written to must not be `const`: are the arguments in the right order?"
        if wanted == "void*":
            return f"That pointer is for reading only: remove the `const`, or cast it, `const_cast<{given}>(pointer)`."
        if "**" in given + wanted:
            return f"`{wanted}` points to `{wanted[:-1]}`: pass the address of one, or declare it as `{given}`."
        return f"To read several numbers at once, cast: `reinterpret_cast<{wanted}>(...)`."
    if given.endswith("*") and wanted:
        return "A pointer is the address of an array: write `[i]` after it to get an element."
    if wanted.endswith("**") and (rows := re.fullmatch(r"(.*)\(\*\s?\)((?:\[\d+\])+)", given)):
        return f"An array of arrays has no pointers to its rows: declare what takes it as `{rows[1]}(*m){rows[2]}`."
    if re.fullmatch(rf"{re.escape(wanted[:-1])}\s?\(\*\s?\)\[\d+\]", given):
        more = ". A kernel needs memory of the GPU, from `cudaMalloc`" if "<<<" in place.code else ""
        return f"That is an array of arrays: `&x[0][0]` is the address of its first element{more}."
    if "(&)[" in given and wanted.endswith("*"):
        return ONLY_AN_ARRAY
    if given == wanted[:-1] and (set_by_call := re.search(r"\*\s*(\w+)\s*=\s*\w+\s*\(", place.code)):
        return f"The value is no address: declare `{given} {set_by_call[1]}`, without the `*`."
    if wanted.endswith("*") and given and not given.rstrip("& ").endswith("*"):
        if re.search(r"^\s*\w+\s*=", place.code):
            return "A pointer is the address of an array: write `[i]` after it to set an element."
        return "A pointer is needed here: pass the array itself, or the address of an element, `&x[i]`."
    return ""


def _volatile(place, types):
    """A pointer to volatile where one to the same elements, but not volatile, is declared."""
    given, wanted = (" ".join(kind.replace("*", " *").split()) for kind in (*types, "", "")[:2])
    plain = [re.sub(r"\b(?:const|volatile) ", "", kind) for kind in (given, wanted)]
    if not given.startswith(("volatile ", "const volatile ")) or "volatile" in wanted or not wanted.endswith("*"):
        return ""
    called = {name for name, _ in _calls(place)}
    if plain[0] == plain[1] and (not called or called & {function.name for function in cxx.functions(place.source)}):
        return f"That pointer is volatile: declare what takes it as `{given.replace(' *', '*')}`."
    return f"That pointer is volatile: cast it, `({wanted.replace(' *', '*')})pointer`."


_ELEMENTS = {"float", "double", "int", "unsigned int", "char", "long long", "half", "__half"}


def _addressed(place, kind):
    """A variable of a type whose address the line takes: n of `f(&n)`, where there is `int n`."""
    for name in re.findall(r"[(,=]\s*&\s*(\w+)\b(?!\s*[\[.(-])", place.code):
        if kind and re.search(
            rf"\b{re.escape(kind)}\s+(?:\w[^;(){{}}]*,\s*)?{name}\s*[,;=){{]", cxx.code(place.source)
        ):
            return name
    return ""


_NUMBERS = r"(?:float|double|int|unsigned|long|size_t|half|char)"


def pointer_arithmetic(place):
    """Arithmetic with a whole array."""
    texts = [token.text[-1] for token in tokens(place.source) if token.line == place.line]
    if any(texts[k : k + 3] == ['"', "+", '"'] for k in range(len(texts))):
        return 'C++ does not join texts with `+`: write them side by side, `"a" "b"`.'
    if index := _float_index(place):
        return index
    declared = set(re.findall(r"\*\s*(?:const\s+)?(?:__restrict__\s+)?([a-zA-Z]\w*)", cxx.code(place.source)))
    declared -= {"threadIdx", "blockIdx", "blockDim", "gridDim"}
    for name in re.findall(r"\b(\w+)\b(?!\s*[\[(])", place.code):
        if name in declared and not re.search(rf"\*\s*{name}\b\s*[,)]", place.code):
            return f"`{name}` is a pointer, the address of an array: write `{name}[i]` for an element."
    return whole_numbers(place)


def whole_numbers(place):
    """A float where only a whole number can be: as an index, in `%`, in `<<`."""
    if index := _float_index(place):
        return index
    if re.search(r"%", place.code):
        return "`%` takes whole numbers: for floats there is `fmodf(a, b)`."
    return "That operator takes whole numbers." if re.search(r"<<(?!<)|>>(?!>)|[&|]", place.code) else ""


def _float_index(place):
    """`x[i]` and `x[2 * i]`, where `float i` was declared, and `x[2.0f * i]`."""
    for name in (name for index in re.findall(r"\[([^\[\]]*)\]", place.code) for name in re.findall(r"\w+", index)):
        if re.search(rf"\b(?:float|double)\s+{name}\b", cxx.code(place.source)):
            return (
                f"An index is a whole number, but `{name}` is not: declare it as `int {name}`, or write `(int){name}`."
            )
    if number := re.search(r"\[[^\[\]]*(?<![\w.])(\d+\.\d*|\d*\.\d+)f?(?![\w.])[^\[\]]*\]", place.code):
        return f"An index is a whole number: `{number[1]}` in it makes it a `float` or `double`."
    return ""


def atomic(place, name):
    """An atomic function for a type that CUDA has none for."""
    kind = place.message.partition("argument types are: (")[2].partition(",")[0].replace("__nv_bool", "bool").strip()
    if kind in ("long long *", "int64_t *", "long *", "size_t *", "unsigned long *", "uint64_t *"):
        more = ", too: adding is the same for both" if name == "atomicAdd" else ""
        return f"CUDA has it for `unsigned long long`: cast the pointer, `(unsigned long long*)&x[i]`{more}."
    if kind in ("unsigned char *", "char *", "bool *", "signed char *", "uint8_t *", "int8_t *", "short *"):
        return f"CUDA has no `{name}` for `{kind}`: use an array of `int`."
    return ""


def vectors(place):
    """CUDA's small vectors: float4 and the like."""
    if re.search(r"has (?:no|a) member|no member named", place.message):
        kind = re.search(r"""["'‘](?:const |struct )*(\w*[a-z]([1-4]))["'’]""", place.message)
        if not kind:
            return "The parts of CUDA's vectors are `.x`, `.y` and so on."
        parts = ", ".join(f"`.{part}`" for part in "xyzw"[: int(kind[2])])
        which = "only the part" if kind[2] == "1" else "the parts"
        return f"{'An' if kind[1][0] == 'i' else 'A'} `{kind[1]}` has {which} {parts}."
    if "operator" in place.message:
        return "CUDA's vectors have no operators: compute with their parts, `.x`, `.y`, `.z` and `.w`."
    if read := re.search(r"""["'](?:const )?(\w+[234])["'] (?:to|.*of type) ["'](\w+)["']""", place.message):
        parts = ", ".join(f"v.{part}" for part in "xyzw"[: int(read[1][-1])])
        if read[2] == "dim3":
            return f"The sizes of a launch are numbers or a `dim3`: write `dim3({parts})` for the vector `v`."
        if read[2][-1] in "234":
            return f"Vectors are converted number by number: `make_{read[2]}(v.x, ...)`."
        return f"{'An' if read[1][0] == 'i' else 'A'} `{read[1]}` has several numbers: take one, such as `.x`."
    if made := re.search(r"\b((?:float|int|double|char|uint)[234])\s*[({]", place.code):
        return f"`make_{made[1]}(...)` makes one."
    if not re.search(r"""(?:to|of type) ["'](?:const )?\w+[234][ *]*["']""", place.message):
        return ""
    return "`make_float4(a, b, c, d)` makes a vector; `reinterpret_cast<const float4*>(x)[i]` reads four numbers."


def members_of(place, name, kind):
    """A vector for a function that takes numbers and perhaps other vectors."""
    if name.startswith("__ld"):
        return f"`{name}` reads no `{kind}`: read it member by member, `{name}(&p->x)`, `{name}(&p->y)` and so on."
    if name.startswith("__st"):
        return f"`{name}` writes no `{kind}`: write it member by member, `{name}(&p->x, v.x)` and so on."
    if re.search(rf"types are: \({kind}\b", place.message):
        return ""  # the mask is missing, too
    return f"`{name}` takes no `{kind}`: pass it on member by member, `{name}(mask, v.x, ...)` and so on."


def shared_of_two_types(place, name):
    """`extern __shared__ T s[];` in a template that is used with two types."""
    if not re.search(rf"extern\s+__shared__[^;]*\b{name}\b", cxx.code(place.source)):
        return ""
    return (
        f"All kernels share one `extern __shared__` array of a name: declare `extern __shared__ unsigned char raw[];`, "
        f"and `T* {name} = reinterpret_cast<T*>(raw);`."
    )


def missing_operator(place, name):
    """`(1 - t) x[i]`, and `f(t) x[i] = 1;`, where a statement has no end."""
    if re.search(r"\b(?:if|for|while|switch)\b", place.code):
        return ""
    part = tokens(place.source)
    here = (k for k, token in enumerate(part) if token.line == place.line and token.text == name)
    closes = next((k - 1 for k in here if part[k - 1].text == ")" and cxx.text_at(part, k + 1) == "["), 0)
    opens = cxx.matching(part, closes) or 0
    begins = next((k + 1 for k in range(opens, -1, -1) if part[k].text in (";", "{", "}")), 0)
    called = [token.text for token in part[begins:opens]]  # `asm volatile`, `n::f`
    if meant := [word for word in ("if", "for", "while") if len(called) == 1 and sorted(called[0]) == sorted(word)]:
        return f"Did you mean `{meant[0]}`?"
    if called and "return" not in called and all(text.isidentifier() or text == "::" for text in called):
        return f"Put a `;` between `)` and `{name}`."
    return f"C++ needs the `*` between two factors: `(...) * {name}[...]`."


def whole_array(place, name):
    """`a = b;` of two arrays."""
    if not re.search(rf"\b{_NUMBERS}\b[^;]*\b{name}\s*\[", cxx.code(place.source)):
        return ""
    return f"`{name}` is an array, which cannot be assigned as a whole: copy its elements in a loop."


# What the compilers say of vectors, in the way of hints.py.
RULES = [
    ("cudaMalloc|is incompatible with parameter|cannot convert", "", star_of_each),
    (
        r'no operator "=" .*types are: volatile (?P<kind>\w+[1-4]) = ',
        "",
        "A volatile vector cannot be assigned as a whole: set its parts, `.x`, `.y` and so on.",
    ),
]
