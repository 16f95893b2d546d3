"""What to do about a compile error that is about a name, in the way of advice.py."""

import re
from difflib import get_close_matches
from itertools import accumulate

from utils.cuda.common import cxx, standard
from utils.cuda.common.lexer import namespaces
from utils.cuda.common.missing import tokens

__all__ = ["CONTAINERS", "KNOWN", "NO_CONTAINERS", "PRINTS"]  # and the functions that word a hint


KNOWN = """threadIdx blockIdx blockDim gridDim warpSize __syncthreads __syncwarp __shared__ __global__ __device__
__constant__ __host__ __restrict__ __ldg atomicAdd atomicMax atomicMin atomicCAS atomicExch atomicOr atomicAnd float
double int unsigned char bool void const size_t sqrtf rsqrtf expf logf powf fabsf fmaxf fminf floorf ceilf sinf cosf
tanhf roundf sqrt float2 float4 int4 dim3 printf __shfl_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __any_sync
__all_sync return while struct template nullptr true false
cudaMemcpyHostToDevice cudaMemcpyDeviceToHost cudaMemcpyDeviceToDevice""".split()

# What Python and other languages call it: what C++ calls it.
_CALLED = {
    "True": "`true`",
    "False": "`false`",
    "None": "`nullptr` for a pointer, `0` for a number",
    "null": "`nullptr`",
    "print": '`printf("i = %d\\n", i)`; `%d` shows an int, `%f` a float',
    "range": "a `for` with three parts, `for (int i = 0; i < n; i++)`",
    "pass": "`{}`, empty braces",
    "then": "the statement itself, without it",
    "inf": "`INFINITY`",
    "nan": "`NAN`",
    "raise": "`assert(condition);` to end a launch, `return;` to leave the kernel",
    "lambda": "`auto f = [](float a) { return 2 * a; };`",
    "string": "`const char*`",
    "str": "`const char*`",
    "byte": "`unsigned char`",
    "sum": "a loop, `for (int i = 0; i < n; i++) total += x[i];`",
    "divmod": "`a / b` and `a % b`",
    "bfloat16": "`__nv_bfloat16`, of `cuda_bf16.h`",
    "let": "`auto`",
    "var": "`auto`",
    "PI": "`3.14159265f`",
    "clamp": "`min(max(x, low), high)`",
    "sign": "`(x > 0) - (x < 0)`",
    "sgn": "`(x > 0) - (x < 0)`",
    "mix": "`a + t * (b - a)`",
    "atomicLoad": "`atomicAdd(address, 0)`, which changes nothing",
    "atomicStore": "`atomicExch(address, value)`",
    "saturate": "`__saturatef(x)`",
    "restrict": "`__restrict__`",
    "get_global_id": "`blockIdx.x * blockDim.x + threadIdx.x`",
    **dict.fromkeys(
        ["__global", "__local", "__kernel"], "CUDA's words: `__global__` marks a kernel, a pointer has none"
    ),
    **dict.fromkeys(["float32", "float32_t", "f32"], "`float`"),
    **dict.fromkeys(["float64", "float64_t", "f64"], "`double`"),
    **dict.fromkeys(["int32", "i32"], "`int`"),
    **dict.fromkeys(["int64", "i64"], "`long long`"),
    **dict.fromkeys(["uint8", "u8", "uchar"], "`unsigned char`"),
    **{"int128_t": "`__int128`", "uint128_t": "`unsigned __int128`"},
    **dict.fromkeys(["half3", "half4"], "two `half2`, of `cuda_fp16.h`"),
}
# Names from older versions of CUDA, and what to write now.
_REMOVED = {
    "cudaThreadSynchronize": "cudaDeviceSynchronize()",
    "cudaThreadExit": "cudaDeviceReset()",
    "clockRate": "cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device)",
    "memoryClockRate": "cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device)",
    "deviceOverlap": "asyncEngineCount",
}
_HEADERS = {"half": "cuda_fp16.h", "half2": "cuda_fp16.h", "__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}
_HEADERS |= dict.fromkeys(("__half2float", "__float2half", "__hadd", "__hmul", "__hfma", "__hmax"), "cuda_fp16.h")
_HEADERS |= dict.fromkeys(("__bfloat162float", "__float2bfloat16"), "cuda_bf16.h")
_HEADERS |= {"assert": "cassert", "CUDAGuard": "c10/cuda/CUDAGuard.h"}
_HEADERS |= {"getCurrentCUDAStream": "ATen/cuda/CUDAContext.h"}
_HEADERS |= dict.fromkeys(("FLT_MAX", "FLT_MIN", "FLT_EPSILON", "DBL_MAX", "DBL_EPSILON"), "cfloat")
_HEADERS |= dict.fromkeys(("CUDART_INF_F", "CUDART_NAN_F", "CUDART_PI_F", "CUDART_INF"), "math_constants.h")
_HEADERS |= dict.fromkeys(("printf", "fprintf", "snprintf", "puts", "fflush", "stdout", "stderr"), "cstdio")
_INTEGERS = [f"{sign}int{of}" for sign in ("", "u") for of in ("8", "16", "32", "64", "ptr", "max")]
_HEADERS |= dict.fromkeys([f"{name}_t" for name in _INTEGERS] + ["SIZE_MAX", "PTRDIFF_MAX"], "cstdint")
_HEADERS |= dict.fromkeys((f"{name.upper()}_{end}" for name in _INTEGERS for end in ("MIN", "MAX")), "cstdint")
_MODULES = {"math", "np", "numpy", "torch", "cp", "tl"}
_STREAMS = {"cout", "cerr", "cin", "endl"}
PRINTS = 'A kernel prints with `printf("i = %d\\n", i)`.'
CONTAINERS = {"vector", "array", "list", "map", "string"}
NO_CONTAINERS = "A kernel has pointers, shared memory and arrays of fixed size (`float a[8];`), no `std` containers."


def unknown(place, nvidia, member, gcc, clang):
    """A name that is not declared at this place, as each compiler says it."""
    name = nvidia or member or gcc or clang
    of_std = re.search(r"namespace [\"']std[\"']|member of ['‘]std['’]", place.message)
    if of_std and name in KNOWN:
        return f"Write `{name}` without `std::`."
    contains = name in CONTAINERS and re.search(rf"\bstd::{name}\b|\b{name}\s*<", place.code)
    if (contains or name in _STREAMS) and place.in_host_code:
        return f"It needs `#include <{name if contains else 'iostream'}>` at the top of the source."
    if contains:
        return NO_CONTAINERS
    if re.search(rf"\b{name}\s*<<<", place.code):
        if name in cxx.kernels(place.source):
            return _declared_elsewhere(place, name)
        return f"The source has no kernel `{name}`. It has: {', '.join(cxx.kernels(place.source)) or 'none'}."
    if name in ("cout", "cerr"):
        return PRINTS
    if of_std and _HEADERS.get(name) != "cstdint":
        return standard.header(name) if place.in_host_code else ""
    if name in _CALLED and not _is_variable(place, name):
        return f"C++ has no `{name}`: write {_CALLED[name]}."
    if kind := _enumeration(place, name):
        return f"The names of an `enum class` need its name before them: write `{kind}::{name}`."
    if _follows(place, name):
        return ""
    if upper := next((t.text for t in tokens(place.source) if t.text != name and t.text.lower() == name.lower()), ""):
        return f"Upper and lower case differ in C++: did you mean `{upper}`?"
    if name in _REMOVED:
        return removed(name)
    if _may_be_of_a_base(place, name):
        return f"A member of a base that is a template needs `this->`: write `this->{name}`."
    if name.startswith("__pipeline_"):
        return f"`{name}` needs `#include <cuda_pipeline.h>` at the top of the source."
    if name in _HEADERS:
        return f"`{name}` needs `#include <{_HEADERS[name]}>` at the top of the source."
    if name in _MODULES and re.search(rf"\b{name}\s*(?:\.|::)", place.code):
        return f"A kernel has no `{name}`: CUDA's functions need no prefix, as in `sqrtf(x)`, `expf(x)`, `fmaxf(a, b)`."
    if name in ("cdiv", "ceil_div", "ceildiv"):
        return f"Define it first: `inline int {name}(int a, int b) {{ return (a + b - 1) / b; }}`."
    if name == "len" and place.in_host_code:
        return "C++ has no `len`: a tensor's is `x.size(0)`, a vector's is `v.size()`."
    if name == "len":
        return "A pointer has no length: pass the number of elements as one more argument, such as `int n`."
    if name.isupper() and len(name) == 1 and re.search(rf"\b{name}\s+\w+\s*\(", place.code):
        return f"Before a template comes `template <typename {name}>`."
    if re.search(rf"\btemplate\s*<[^>]*\b{name}\b", place.code):
        return f"A template's parameter needs a kind: `template <typename {name}>` or `template <int {name}>`."
    parameters = [parameter for function in cxx.functions(place.source) for parameter in function.parameters]
    if any(cxx.written(parameter) == name and parameter[0].line == place.line for parameter in parameters):
        return f"Each parameter needs its type: `float* {name}` or `int {name}`."
    if _is_set(place, name) and not _declared_elsewhere(place, name):
        return without_a_type(place, name)
    full = re.search(rf"(?:\w+\s*::\s*)+{name}\b", cxx.code(place.source))
    if full and re.search(rf"(?<![:\s])\s*\b{name}\s*[(<]", place.code):
        return f"Did you mean `{full[0]}`?"
    if elsewhere := _declared_elsewhere(place, name):
        return elsewhere
    if _is_in_constant(place, name):
        return similar(place, name, ()) or (
            f"Only a number that the compiler knows can be here: is `constexpr int {name} = 256;` or a macro missing?"
        )
    return similar(place, name) or _not_passed(place, name)


def _is_in_constant(place, name):
    """Whether a name is in the size of an array, or where else only constants can be."""
    size, no_type = r"\[[^\[\]]*\]\s*", "return|else|case|throw|delete|do|goto"
    declares = rf"(?:^|[;{{}}])\s*(?!(?:{no_type})\b)(?:[\w:]+\s+)*[\w:]+(?:<[^<>]*>)?[\s*]+\w+\s*"
    places = [
        rf"{declares}(?:{size})*\[[^\[\]]*\b{name}\b[^\[\]]*\]\s*(?:{size})*[;,={{]",
        rf"__launch_bounds__\s*\([^;{{}}]*?\b{name}\b",
        rf"\bcase\s+{name}\s*:",
        rf"\bconstexpr\b[^;()]*=[^;()]*\b{name}\b",
    ]
    return any(re.search(each, place.code) for each in places)


def _enumeration(place, name):
    """The `enum class` that has a name; empty if none has, or a `using enum` is meant to bring it."""
    if re.search(r"\busing\s+enum\b", place.source):
        return ""
    for found in re.finditer(r"\benum\s+(?:class|struct)\s+(\w+)[^{;]*\{([^}]*)", cxx.code(place.source)):
        if name in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", found[2]):
            return "::".join([*namespaces(tokens(place.source), found.start()), found[1]])
    return ""


def _follows(place, name):
    """Whether a name is unknown only because the compiler has rejected its declaration, which precedes this use."""
    around = (f for f in cxx.functions(place.source) if f.line <= place.line <= f.tokens[-1].line)
    if any(cxx.parameter_name(parameter) == name for function in around for parameter in function.parameters):
        return not re.search(r"\*\s*restrict\b", place.code)
    part = tokens(place.source)
    used = max((k for k, token in enumerate(part) if token.text == name and token.line == place.line), default=0)
    for k in range(1, used + 1):
        if part[k].text == name and _is_typed(part, k) and cxx.text_at(part, k + 1) in ("=", ";", "{", "(", "["):
            depths = accumulate((token.text == "{") - (token.text == "}") for token in part[k:used])
            if min(depths, default=0) >= 0:
                return True
    return False


def _is_typed(part, k) -> bool:
    """Whether a type precedes token k, from where the statement begins."""
    begins = next((b + 1 for b in range(k - 1, -1, -1) if part[b].text in (";", "{", "}", "(", "=")), 0)
    before = [token.text for token in part[begins:k]]
    if not before or cxx.text_at(part, begins - 1) in ("(", "="):
        return False
    plain = all(text.isidentifier() or text in ("::", "<", ">", ",", "*", "&") or text.isdigit() for text in before)
    return plain and before[0] not in _NO_TYPES and before[-1] not in ("::", "<", ",")


_NO_TYPES = {"return", "else", "case", "do", "goto", "new", "delete", "throw", "sizeof", "using", "namespace"}


def _is_set(place, name):
    return bool(re.search(rf"(?:^|[;{{(])\s*{name}\s*=[^=]", place.code))


def _is_variable(place, name):
    """Whether the source uses a name as one: the first lesson's loops count in a `sum`."""
    return _is_set(place, name) or _declared_elsewhere(place, name)


def without_a_type(place, name):
    """`total = 0;` of a name that is declared nowhere."""
    return f"A variable needs a type where it is first set: `int {name} = ...` or `float {name} = ...`."


# What a lesson calls the index of a thread, and how it is computed.
_INDICES = dict.fromkeys(("i", "idx", "index", "tid", "gid"), "x") | dict.fromkeys(("c", "col", "column"), "x")
_INDICES |= dict.fromkeys(("r", "row"), "y")


def _not_passed(place, name):
    """What may be a variable of Python's."""
    if re.search(r"\*\s*restrict\b", place.code):
        return "C++ and CUDA spell it `__restrict__`."
    is_value = not name.isupper() and re.search(rf"\b{name}\b(?!\s*(?:[(\w]|::|<[^<>;]*>\s*\())", place.code)
    heads = (parameter[:-1] for function in cxx.functions(place.source) for parameter in function.parameters)
    is_value = is_value and not any(token.text == name for head in heads for token in head)
    if not is_value or not place.in_device_code:
        return ""
    if axis := _INDICES.get(name):
        index = f"blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis}"
        return f"`{name}` is not declared. Is it meant to be the thread's index, `int {name} = {index};`?"
    return f"A kernel does not see Python's variables: if `{name}` is one, pass it as an argument."


def _may_be_of_a_base(place, name):
    """Whether, before this place, a class template has such a member and another has a template as its base."""
    begun = "\n".join(place.source.splitlines()[: place.line])
    derived = re.search(r"\btemplate\s*<[^{};]*\b(?:struct|class)\s+\w+\s*:[^:;{]*<", begun)
    return bool(derived and re.search(rf"\btemplate\s*<[^{{;]*\{{[^}}]*\b{name}\s*[;,=(\[]", begun))


def _declared_elsewhere(place, name):
    """A variable whose scope has ended, that comes later, or that is another function's."""
    part, functions, others = tokens(place.source), cxx.functions(place.source), {}
    for k in range(1, len(part) - 1):
        line, before, behind = part[k].line, part[k - 1].text, part[k + 1].text
        if part[k].text != name or not (before.isidentifier() or before in "*&") or before in ("return", "else"):
            continue
        if before in "*&" and behind in ("=", ";", "[") and not _is_typed(part, k):
            continue  # a product
        owner = next((f for f in functions if f.tokens[0].start < part[k].start < f.tokens[-1].start), None)
        if owner and behind in (",", ")", "=", ";", "[") and not owner.line <= place.line <= owner.tokens[-1].line:
            hint = f"`{name}` of line {line} is known only in `{owner.name}`: pass it on as an argument."
            others[abs(line - place.line)] = hint
            continue
        is_type = before in ("struct", "class", "union", "enum") and behind in ("{", ":")
        if line > place.line and (is_type or behind in ("(", "=", ";", "[")):
            return f"`{name}` is declared only in line {line}: declare it before its use."
        again = any(token.text == name and token.line == line for token in part[k + 1 :])
        if behind in ("=", ";", "[") and (line < place.line or line == place.line and again):
            if _is_of_an_ended_loop(part, k):
                return f"The `;` of line {line} ends the loop, and `{name}` with it: remove the `;`."
            where = "inside the braces or the single statement where it is declared"
            return f"`{name}` of line {line} exists only {where}: declare it before them."
    return others[min(others)] if others else ""  # what is nearest is the likeliest


def _is_of_an_ended_loop(part, k):
    """Whether token k is in the parentheses of `for (...);`."""
    opens = next((j for j in range(k, 0, -1) if part[j].text == "(" and part[j - 1].text == "for"), None)
    closes = opens and cxx.matching(part, opens)
    return bool(closes and k < closes and cxx.text_at(part, closes + 1) == ";")


def removed(name):
    """A name from older versions of CUDA."""
    return f"CUDA 13 has no `{name}` any more: write `{_REMOVED[name]}`."


def no_member(place, nvidia, gnu):
    """A member that a class lacks: what Python calls it is beside the point."""
    name = nvidia or gnu
    if name in _REMOVED:
        return removed(name)
    types = {declaration.name: declaration.tokens for declaration in cxx.declarations(place.source) if declaration.name}
    own = re.findall(r"\w+", " ".join(re.findall(r"""["'‘][^"'’]*["'’]""", place.message)))
    return similar(place, name, (), [token for word in own for token in _with_bases(types, word)])


def _with_bases(types, name) -> list[cxx.Token]:
    """The tokens of a type of the source and of the types that it is made of."""
    part = [*types.pop(name, ())]
    opens = next((k for k, token in enumerate(part) if token.text == "{"), 0)
    if not {"struct", "class", "union"} & {token.text for token in part[:opens]}:
        return []
    return part[opens:] + [token for base in part[:opens] for token in _with_bases(types, base.text)]


_TYPES = {"float", "double", "int", "unsigned", "char", "bool", "void", "size_t", "float2", "float4", "int4", "dim3"}


def similar(place, name, known=KNOWN, part=None):
    """A name that is close to another one, of the source or of `part` of it."""
    bare = {word.strip("_").lower(): word for word in [*known, "min", "max", "abs"]}  # too short for what comes below
    part = tokens(place.source) if part is None else part
    mine = sorted({token.text for token in part if token.text.isidentifier()} - {name, *KNOWN})
    near = [bare[name.strip("_").lower()]] if name.strip("_").lower() in bare else []
    others = [w for w in [*known, *mine] if len(w) > 2 and (w.startswith(name) or abs(len(w) - len(name)) < 3)]
    declares = rf"(?:^|[;{{}}(,<]|\bconst|\bunsigned|__)\s*{name}\s*[*&]*\s*\w+\s*[;=,()[{{]|<\s*{name}\s*>"
    if not re.search(rf"{declares}|[=+\-*/(,]\s*\(\s*{name}\s*\**\s*\)\s*[\w(]", place.code):
        others = [word for word in others if word not in _TYPES]
    near = near or get_close_matches(name, others, 2, cutoff=0.65)
    return next((f"Did you mean `{word}`?" for word in near if word != name), "")
