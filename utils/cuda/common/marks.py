"""What to do about what belongs to the host in device code, or the other way round, and about what CUDA lacks, in the
way of advice.py."""

import re

from utils.cuda.common import cxx, mixed, standard
from utils.cuda.common.missing import tokens
from utils.cuda.common.names import CONTAINERS, NO_CONTAINERS, PRINTS

__all__ = ["RULES"]  # and the functions that word a hint


def host_function(place, name):
    """A function of the host that a kernel calls."""
    called, line = _called(name), _own_line(place, name)
    base = called.split("::")[-1]
    of_lambda = re.search(rf"\b({'|'.join(_lambdas(place)) or '(?!)'})\s*\(", place.code)
    if of_lambda and base.startswith("operator"):
        mark = "`__device__ constexpr`" if re.search(r"\bconstexpr\b", place.code) else "`__device__`"
        return f"A kernel cannot call a lambda that is defined outside it: make `{of_lambda[1]}` a {mark} function."
    if re.search(rf"\bstd\s*::\s*{re.escape(base)}\b", place.code):
        line = None
    own = [function for function in cxx.functions(place.source) if line and function.name == called]
    unmarked = [function for function in own if "__device__" not in function.words]
    if own and not unmarked:
        return f"This call means another `{called}`, not that of line {line}: give yours another name."
    line = unmarked[0].line if unmarked else line
    if line and any(token.text == "throw" for function in own for token in function.tokens):
        return f"Mark `{called}` (line {line}) with `__device__`, and leave out its `throw`, which kernels do not have."
    if line:
        return f"Mark `{called}` (line {line}) with `__device__`: then kernels can call it."
    if newer := re.search(standard.IN_CPP20, place.code):
        return standard.for_host(newer["name"])
    if base == "__unspec":
        return standard.SPACESHIP
    if base.startswith("__") and base.strip("_").removesuffix("f") in mixed.OF_FLOATS:
        return f"A kernel has no `{base}`: write `{base.strip('_')}`."
    if any(word in name for word in CONTAINERS) and "std" in name:
        return NO_CONTAINERS
    if "ostream" in name:
        return PRINTS
    if called.startswith("cuda"):
        return f"`{called}` is for the host, the code that launches kernels."
    if "swap" in name and "bswap" not in name:
        return "Swap by hand: `auto t = a; a = b; b = t;`."
    if limit := re.search(rf"numeric_limits\s*<([^;]*)>\s*::\s*{re.escape(base)}\b", place.code):
        return _limit(" ".join(limit[1].split()), base)
    if base == "atomic_thread_fence":
        return "In a kernel, `__threadfence();` orders what a thread writes."
    if called in ("max", "min"):
        return f"CUDA has its own: write `{called}(a, b)` without `std::`."
    if called in mixed.OF_FLOATS:
        return mixed.all_of_one_type(place, called)
    return "A kernel can call CUDA's own functions and those that are marked `__device__`."


def _lambdas(place):
    """The lambdas outside of functions."""
    others = (declared for declared in cxx.declarations(place.source) if declared.parameters is None)
    return [
        name for declared in others if {"auto", "["} <= {t.text for t in declared.tokens} for name in declared.names
    ]


def prints(place):
    """`fprintf(stderr, ...)` in a kernel."""
    return PRINTS if place.in_device_code else ""


def _limit(kind, name):
    """`std::numeric_limits<float>::max()` in a kernel."""
    outside = "name the limit by a `constexpr` outside the kernel."
    prefix, of_floats = _PREFIXES.get(kind, ""), kind in ("float", "double")
    macro = {
        "max": f"{prefix}_MAX",
        "lowest": f"-{prefix}_MAX" if of_floats else f"{prefix}_MIN",
        "min": f"{prefix}_MIN",
        "epsilon": f"{prefix}_EPSILON",
        "infinity": "INFINITY",
        "quiet_NaN": "NAN",
    }.get(name)
    if not prefix or not macro or prefix.startswith("U") and name != "max":
        return outside.capitalize()
    header = f" of `<{'cfloat' if of_floats else 'climits'}>`" if "_" in macro else ""
    return f"Write `{macro}`{header}, or {outside}"


_PREFIXES = {"float": "FLT", "double": "DBL", "int": "INT", "unsigned": "UINT", "unsigned int": "UINT", "long": "LONG"}
_PREFIXES |= {"long long": "LLONG", "unsigned long long": "ULLONG"}


def host_name(place, name):
    """A variable of the host that device code uses, or a function whose address it takes."""
    if any(function.name == name and not _has_values(function) for function in cxx.functions(place.source)):
        return host_function(place, name)
    before, behind = _declared(place, name)
    if "extern" in before and behind == "[":
        return "Shared memory whose size the launch gives is `extern __shared__ float s[];`."
    if CONTAINERS & set(before):
        return NO_CONTAINERS
    where = f"`{name}` is in the host's memory"
    if behind == "[":
        return f"{where}: mark it with `__constant__` or `__device__`, or pass a pointer to a copy on the GPU."
    if re.search(rf"\b{name}\b[\w.]*\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)|(?:\+\+|--|[(,=]\s*&)\s*{name}\b", place.code):
        return f"{where}: mark it with `__device__`, or pass a pointer to a copy on the GPU."
    if "*" in before:
        text = "write the text where it is used."
        return f"{where}: {text if 'char' in before else 'if it points to memory of the GPU, pass it as an argument.'}"
    return f"{where}: pass its value to the kernel, as an argument."


def _has_values(function) -> bool:
    """Whether it is a variable that only looks like a function: `dim3 grid(4, 4);`"""
    return any(parameter[0].text[0].isdigit() for parameter in function.parameters if parameter)


def _declared(place, name):
    """Where a variable is declared, first of all outside of functions: the words before its name, and what follows."""
    outside = [declaration.tokens for declaration in cxx.declarations(place.source) if name in declaration.names]
    part = [*(outside[0] if outside else tokens(place.source))]
    for k, token in enumerate(part[1:-1], 1):
        if token.text == name and (part[k - 1].text.isidentifier() or part[k - 1].text in ("*", "&", ">", ",")):
            begins = next((b + 1 for b in range(k, -1, -1) if part[b].text in (";", "{", "}")), 0)
            return [before.text for before in part[begins:k]], part[k + 1].text
    return [], ""


def device_function(place, name, host):
    """A function of the device that host code calls."""
    what = f"`{_called(name)}` is for kernels"
    if _own_line(place, name):
        return f"{what}: mark it with `__host__ __device__`, and the host can call it, too."
    caller = _called(host)
    if caller == "main" or not _own_line(place, host):
        return f"{what}: call it in one."
    return f"{what}: call it in one, or mark `{caller}` with `__device__` if only kernels call that."


def _called(name):
    """The name in a message's signature: `Add::operator()` of `Add::operator ()(float) const`."""
    name = re.sub(r"^.*\)::(?=\w)|<[^<>]*>\s*(?=::)|(?<=::)__\w+::", "", name)  # of a class in a kernel, of a template
    if found := re.match(rf"([\w:]*){_OPERATOR}", name):
        return found[1] + re.sub(r"operator\s+(?=\W)", "operator", found[0].removeprefix(found[1])).strip()
    words = re.match(r"[^<(]*", name)[0].split()  # a template's begin with what it returns: `T1 ::f<int>(T1)`
    return words[-1].removeprefix("::") if words else name


_OPERATOR = r"\boperator\b\s*(?:\(\s*\)|[^\w\s(]+|[\w *]+)"


def _own_line(place, name):
    """The line of the function in a message's signature if the source has it; None for CUDA's and the library's."""
    parts = re.split(r"\s*::\s*", _called(name))
    if parts[0] in ("std", "cuda", "cooperative_groups", "nvcuda", "__gnu_cxx"):
        return None
    own = next((function.line for function in cxx.functions(place.source) if function.name == parts[-1]), None)
    return own or _line_of_method(place.source, parts) or _line_of_constexpr(place, parts[-1])


def _line_of_constexpr(place, name):
    """The line of a `constexpr` method that the line calls: nvcc leaves out the class of these."""
    heads = re.finditer(rf"[^;{{}}()]*\bconstexpr\b[^;{{}}()]*\b{re.escape(name)}(?=\s*\()", cxx.code(place.source))
    head = next((head for head in heads if "__device__" not in head[0]), None)
    called = re.search(rf"(?:::|\.|->)\s*{re.escape(name)}\b", place.code)
    return place.source.count("\n", 0, head.end()) + 1 if head and called else None


def _line_of_method(source, parts):
    """The line of a method `P::twice`, of a constructor or of an operator that the source defines; None otherwise."""
    code, name = cxx.code(source), parts[-1]
    head = r"\b(?:struct|class)\s+(?:(?:alignas|__align__)\s*\([^()]*\)\s*)?"
    of_class = re.search(rf"{head}{parts[-2]}\b", code) if parts[1:] else None
    written = r"\s*".join(re.escape(piece) for piece in re.findall(r"~?\w+|[^\w\s]", name))
    method = re.compile(rf"(?<![\w.>]){written}\s*\(").search(code, of_class.end() if of_class else 0)
    own = method and (of_class or name.startswith("operator"))
    return source.count("\n", 0, method.start()) + 1 if own else None


def type_for_a_kernel(place, kind):
    """A type that a kernel's template argument cannot be: a lambda's, a private, a local or an unnamed one."""
    if not kind and place.in_device_code:
        return "A lambda in a kernel needs no mark: leave the `__device__` out."
    if not kind and not place.in_host_code and (lambdas := re.search(r"\bauto\s+(\w+)\s*=\s*\[", place.code)):
        return f"Make it a function: `__device__ auto {lambdas[1]}(...)`."
    if not kind or "lambda" in kind:
        return (
            "Outside the function, write a struct whose `operator()` is marked `__device__`, and pass an object of it."
        )
    name = "" if "<unnamed>" in kind else kind
    if "private or protected" in place.message:
        return f"Make `{name}` public: a kernel's template argument cannot be a private type." if name else ""
    what = "the enum" if "enum" in kind else "the struct"
    if "inside a __host__ function" in place.message:
        move = f"Move `{name}` out of the function" if name else f"Move {what} out of the function and give it a name"
        return f"{move}: a kernel's template argument cannot be a local type."
    return f"Give {what} a name: a kernel's template argument cannot be an unnamed type."


def lacking(place, name):
    """`atomicMul`, `__float2int`: what CUDA might have, and has not."""
    if any(function.name == name for function in cxx.functions(place.source)):
        return ""
    if not name.startswith("atomic"):
        return f"CUDA has no `{name}`: `{name}_rz(x)` cuts the fraction off, `{name}_rn(x)` rounds."
    return f"CUDA has no `{name}`: loop with `atomicCAS` until no other thread has changed the number in between."


def launched(place, name):
    """`h<<<1, 1>>>(a)`, where h is a `__device__` function."""
    if not any(f.name == name and "__device__" in f.words for f in cxx.functions(place.source)):
        return ""
    if place.in_device_code:
        return f"`{name}` is not a kernel: call it without `<<<...>>>`, as `{name}(...)`."
    return f"Only kernels are launched: mark `{name}` with `__global__` instead of `__device__`."


def exceptions(place):
    """`throw`, `try` and `catch` in device code."""
    if re.search(r"\b(?:try|catch)\b", place.code):
        return "Device code has no exceptions: check before, as in `if (b != 0)`, and remove `try` and `catch`."
    kinds = {"void" in function.words and "*" not in function.returns for function in place.functions}
    leave = {(True,): "leave with `return;`", (False,): "return a value that says so"}.get((*kinds,), "return instead")
    return f"Device code cannot throw: {leave}, or end the launch with `assert(condition);` of `<cassert>`."


def constexpr_for_the_host(place, name):
    """`__popc` in a `constexpr` function."""
    if not any("constexpr" in function.words for function in place.functions):
        return ""
    return f"A `constexpr` function is compiled for the host, too, which has no `{name}`: leave out `constexpr`."


_TO_WHOLE = "__(?:float|double|half)2u?(?:int|ll)"
_OF_FILES = "v?fprintf|vprintf|fputs|fputc|puts|putchar|fwrite|fflush"
# What the compilers say of the host's functions in a kernel, in the way of hints.py.
RULES = [
    (
        rf"""["'‘](?:std(?:err|out)|{_OF_FILES})["'’]|__host__ function\("(?:{_OF_FILES})\W|__va_list_tag""",
        rf"\b(?:{_OF_FILES}|stderr|stdout)\b",
        prints,
    ),
    (
        r"call `(?P<name>cuda(?!DeviceSynchronize)(?:Get|Peek|Device|Func|Occupancy|Runtime)\w*)` only where",
        "",
        "Call `{name}` on the host, in the code that launches the kernels.",
    ),
    ("exception handling", "", exceptions),
    ('extern "C" linkage|with C linkage', r"\btemplate\b", 'A template cannot be `extern "C"`: leave that out.'),
    (r"^['‘](?P<name>__\w+)['’] was not declared", "", constexpr_for_the_host),
    ("kernel launch from|function call cannot be configured", r"\b(?P<name>\w+)\s*<<<", launched),
    ("undefined|not declared|undeclared", rf"\b(?P<name>atomic(?:Mul|Div|Mod)|{_TO_WHOLE})\s*\(", lacking),
]
