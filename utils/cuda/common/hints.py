"""What to do about a compile error: one line for the learner, found from the compilers' words and from the source.

A rule has a pattern for the message of nvcc, NVRTC, g++ or clang++, a pattern for the line without its comments and
strings, and words, in which `{name}` is what a pattern found under that name; instead of words, a function of the place
and of what was found. The first rule that gives words gives the hint.
"""

import re

from utils.cuda.common import advice, halves, marks, missing, mixed, names, python_habits, standard, stricter, values
from utils.cuda.common.missing import Place
from utils.cuda.common.python_habits import ANY, DEREFERENCED, EXPECTED

__all__ = ["hint"]


def hint(source, line, message) -> str:
    """What to do about a compiler's message on a line of the source; empty if that is not known."""
    place = Place(source, line, message)
    code = place.code
    for said, written, words in _RULES:
        of_message = re.search(said, message)
        of_line = of_message and re.search(written, code)
        if of_line:
            found = {**of_message.groupdict(), **of_line.groupdict()}
            if told := words(place, **found) if callable(words) else words.format(**found):
                return told
    return ""


# What the compilers say.
_UNDECLARED = "|".join(
    [
        r'identifier "(?:\w+::)*(?P<nvidia>\w+)" is undefined$',
        r'^namespace .* has no member "(?P<member>\w+)"$',
        r"^['‘](?P<gcc>\w+)['’] (?:was not declared|does not name a|is not a member of|has not been declared)",
        r"(?:undeclared identifier|unknown type name|(?<!has )no member named) '(?P<clang>\w+)'(?! in ')",
    ]
)
_NO_MEMBER = r"""^(?!namespace).* has no member "(?P<nvidia>\w+)"$|no member named ['‘](?P<gnu>\w+)"""
_NO_CLASS = "|".join(
    [
        r'expression must have class type but it has type "(?P<nvidia>[^"]*)"',
        r"request for member .*, which is of (?:pointer|non-class) type ['‘](?P<gcc>[^'’]*)",
        r"member reference (?:base )?type '(?P<clang>[^']*)'",
    ]
)
_SUBSCRIPT = r"must have pointer-to-object type|invalid types .* for array subscript|subscripted value is not"
_READ_ONLY = r"modifiable lvalue|read-only|cannot assign to|is not assignable"
_NOT_ASSIGNABLE = "modifiable lvalue|lvalue required|is not assignable"
_NO_CONVERSION = 'no suitable conversion function from "(?:const )?'
_RETURNED = r"return value type|return-statement with a value|should not return|in return$"
_ARGUMENTS = r"(?:few|many) arguments (?:in|to) (?:function )?call|(?:few|many) arguments to function"
_ANGLES = r"<\s*<\s*<?(?P<sizes>[^<>;]*)>\s*>(?:\s*>)?"  # `<<1, 32>>`, `< <<1, 32>>>`
_OLD_SHUFFLES = r"""["'‘]__(?:ballot|any|all|shfl(?:_up|_down|_xor)?)["'’] (?:is undefined|was not declared)"""
_TO_POINTER = r"value of type|cannot convert|incompatible with parameter of type|invalid conversion|cannot initialize"

_CUDA = [
    (
        EXPECTED,
        r"(?P<word><=>|\b(?:consteval|constinit|concept|requires|co_await|co_yield|co_return|char8_t)\b)",
        standard.word_of_cpp20,
    ),
    (
        r"""name followed by "::"|namespace ["']std["']|of ['‘]std['’]|has not been declared""",
        standard.IN_CPP20,
        standard.in_cpp20,
    ),
    (
        r'expected a "\]"|expected [\'‘]\][\'’]|not a constant',
        r"\b\w+\s+(?P<name>\w+)\[(?P<a>[\w ]+),\s*(?P<b>[\w ]+)\]\s*[;,]",
        "C++ gives each size its own brackets: `{name}[{a}][{b}]`.",
    ),
    (
        f"{_READ_ONLY}|value of type|invalid (?:array assignment|conversion)|incompatible types",
        r"\[(?P<r>[^\[\],()]+),\s*(?P<c>[^\[\],()]+)\]",
        "The comma drops `{r}`: write `[{r}][{c}]` for an array of arrays, `[({r}) * w + {c}]` through a pointer.",
    ),
    (
        "attributes are not permitted in a function definition",
        r"\)\s*__launch_bounds__",
        "It comes before the kernel's name: `__global__ void __launch_bounds__(128) k(...)`.",
    ),
    (
        "attributes are not permitted in a function definition",
        r"\)\s*(?P<mark>__(?:global|device|host|noinline|forceinline)__)",
        "`{mark}` comes before the type that the function returns: `{mark} void f(...)`.",
    ),
    (
        "insufficient contextual information",
        r"template\s*<[^>]*[*&]",
        "The address of a `__device__` or `__constant__` variable cannot be a template argument of a kernel: let the "
        "kernel name the variable.",
    ),
    (
        r"no matching function for call to .(?P<type>\w+)::\w+\(\)",
        r"__(?:device|constant|managed)__",
        "nvcc declares the variable for the host, too, without its initial value: give {type} a constructor without "
        "arguments.",
    ),
    (
        "incomplete type|size missing|storage size",
        r"^(?!.*extern).*__shared__.*\[\s*\]",
        "Give the array a size, or write `extern __shared__` if the launch gives its bytes: `<<<1, 32, bytes>>>`.",
    ),
    (
        "cudaMalloc",
        r"(?P<name>\w+)\s*=\s*(?:\([^()]*\)\s*)?(?P<call>cudaMalloc\w*)\(",
        "`{call}` sets a pointer whose address it gets, and returns an error code: `{call}(&{name}, bytes);`.",
    ),
    (
        "cudaStream_t.*(?:size_t|unsigned)",
        "<<<",
        "The stream comes fourth, after the bytes of shared memory: `<<<blocks, threads, 0, stream>>>`.",
    ),
    (
        "annotation on lambda requires --extended-lambda|"
        r'(?:\("(?P<kind>[^"]*)"\) )?cannot be used in the template argument type of a __global__',
        "",
        marks.type_for_a_kernel,
    ),
    (
        r'calling a __device__ function\("(?P<name>[^"]+).*from a __host__ function\("(?P<host>[^"]+)',
        "",
        marks.device_function,
    ),
    (ANY, r"__shared__\s+\w+\s*[\[;]", "A variable needs a type: `__shared__ float s[32];`."),
    (
        "texture",
        r"\btexture\s*<",
        "CUDA 12 removed texture references: a GPU has `cudaTextureObject_t` instead, which the CPU engine lacks. A "
        "pointer works on both: `x[r * w + c]`.",
    ),
    (ANY, r"<<<\s*>>>", "Between `<<<` and `>>>` come the blocks and the threads per block, as in `<<<1, 32>>>`."),
    (ANY, r">>>\s*;", "After `>>>` come the kernel's arguments in parentheses."),
    (
        "void",
        r"=\s*\w+\s*(?:<[^<>]*>)?\s*<<<",
        "A launch returns nothing: the kernel writes its result to memory.",
    ),
    (
        r'"(?:max|min)"|[\'‘](?:max|min)\(',
        r"\b(?P<name>max|min)\s*\([^()]*,[^()]*,",
        advice.nested,
    ),
    (
        "atomic",
        r"\b(?P<name>atomic(?:Add|Sub|Exch|Min|Max|Inc|Dec|And|Or|Xor)\w*)\s*\([^,]*\)\s*;",
        "`{name}` takes an address and a value.",
    ),
    (r'type "(?P<name>\w+)" has already been defined', "", advice.same_name),
    (ANY, r"\b(?P<name>\w+)\s*\[(?P<sizes>[^\[\]]*,[^\[\]]*)\]\s*\(", advice.launch),
    (ANY, rf"\b(?P<name>\w+)\s*(?!<<<[^<>;]*>>>){_ANGLES}\s*\(", advice.launch),
    ("expected an expression", r"\b(?P<name>\w+)\s*<<<(?P<sizes>[^<>;]*)>>>\s*\(", advice.spaced_launch),
    (
        r'namespace "std" has no member "mem(?:cpy|move|set)"',
        "",
        "Write `memcpy` without `std::`, or include `<cstring>`.",
    ),
    (
        r"(?:uint3|dim3)\W* has no member|no member named .* in .*(?:uint3|dim3)",
        "",
        "The parts are `.x`, `.y` and `.z`.",
    ),
    (r"uint3|dim3|no operator|operator[+*\-/\[]|apparent call|used as a function", "", advice.part_of_index),
    (
        r"explicit type is missing",
        r"__global__\s+(?:static\s+|inline\s+)*\w+\s*\(",
        "A kernel returns nothing: write `__global__ void`.",
    ),
    (_RETURNED, r"\breturn\b.*;", advice.returned),
    (r'calling a (?:constexpr )?__host__ function\("(?P<name>[^"]*)"\)', "", marks.host_function),
    (
        "a __global__ function call must be configured",
        "",
        "A kernel is launched with `<<<blocks, threads>>>`. A function that a kernel calls is marked `__device__`.",
    ),
    (
        "host function call cannot be configured|launched like a kernel",
        r"\b(?P<name>\w+)\s*<<<",
        "Mark `{name}` with `__global__`: only kernels are launched.",
    ),
    (
        "kernel launch from __device__ or __global__|linked with cudadevrt",
        "",
        "The host does it: before or after this kernel, on the same stream.",
    ),
    (r'identifier "(?P<name>\w+)" is undefined in device code', "", marks.host_name),
    (
        "instance|matching function|cannot convert|no match",
        r"\b(?P<name>atomic\w+)\s*\(\s*(?!&)\w+\s*\[",
        "`{name}` takes an address: `{name}(&x[i], ...)`.",
    ),
    (r'overloaded function "(?P<name>atomicM(?:ax|in))"', "", "`{name}` takes whole numbers only, no floats."),
    (r'(?:more than one instance of .* "|no instance of .* "std::)(?P<name>min|max)"', "", mixed.two_types),
    (
        r'instance of overloaded function "(?:min|max)".*\([\w ]+ \*,',
        r"\b(?P<name>min|max)\((?P<array>\w+)",
        "`{array}` is a pointer, the address of an array: write `{name}({array}[i], ...)`.",
    ),
    (r'no instance of overloaded function "(?P<name>atomic\w+)"', "", values.atomic),
    (
        r"unsigned int ?\*",
        r"\b(?P<name>atomic(?:Inc|Dec))\s*\(",
        "`{name}` counts in `unsigned int` only: make the elements `unsigned int`, or cast, `(unsigned int*)&x[i]`.",
    ),
    (
        r'overloaded function "(?P<name>__(?:ld[a-z]+|st[a-z]+|shfl_\w+|shfl))" .*\b(?P<kind>[a-z]+[1-4])\b',
        "",
        values.members_of,
    ),
    (
        r'overloaded function "(?P<name>(?:tex|surf)\w+)" .*\b(?P<kind>[a-z]+)3\b',
        "",
        "A texture has no elements of three numbers: use `{kind}4` with `{name}`.",
    ),
    (
        r'overloaded function "__(?:shfl|match|reduce)\w*_sync" matches',
        r"_sync\s*\(\s*(?!0x|mask|FULL|~0|-1|__activemask)\w",
        "Its first argument is the mask of the lanes that take part: `0xffffffff` for all 32.",
    ),
    (
        r'overloaded function "(?P<name>__reduce_\w+)"',
        "",
        "`{name}` takes int and unsigned int only. For other types, use rounds of `__shfl_xor_sync`.",
    ),
    (
        rf"without '\.sync' is not supported|{_OLD_SHUFFLES}",
        r"\b(?P<name>__(?:ballot|any|all|shfl(?:_up|_down|_xor)?))\s*\(",
        "Write `{name}_sync(0xffffffff, ...)`: its first argument is the mask of the lanes that take part.",
    ),
    *halves.RULES,
    (
        'name followed by "::" must be a class or namespace|is not a class or namespace|has not been declared',
        r"\bcg\s*::|\bcooperative_groups\s*::",
        "Put `#include <cooperative_groups.h>` and `namespace cg = cooperative_groups;` in front.",
    ),
    (
        r'"cooperative_groups" has no member|is not a member of .*cooperative_groups',
        r"::\s*(?:reduce|plus|less|greater|inclusive_scan|exclusive_scan)\b",
        "That needs `#include <cooperative_groups/reduce.h>` (for scans, `scan.h`).",
    ),
    (
        'name followed by "::" must be a class or namespace|is not a class or namespace|has not been declared',
        r"\bwmma\s*::",
        "Put `#include <mma.h>` and `using namespace nvcuda;` in front.",
    ),
    (r'incompatible with previous "(?P<name>\w+)"', r"extern\s+__shared__|\b__shared__", values.shared_of_two_types),
    (
        r"cudaMalloc|void ?\*\*",
        r"\bcudaMalloc\w*\(\s*(?P<name>[a-zA-Z_]\w*(?:\[\w+\])?)\s*,",
        "It sets the pointer, so it takes the pointer's address: `cudaMalloc(&{name}, ...)`.",
    ),
    (
        "cudaMemLocation",
        r"cudaMem(?:PrefetchAsync|Advise)",
        "CUDA 13 takes a place: `cudaMemLocation{{cudaMemLocationTypeDevice, device}}`, and for a prefetch 0 flags.",
    ),
    (
        "narrowing conversion.*does not fit",
        "",
        "The type's range is smaller than that value: take another type, or cast, as in `(unsigned char)value`.",
    ),
    (
        r"user-defined literal|literal operator",
        r"(?<![\w.])(?P<number>\d+\.?\d*)(?P<name>[a-eg-zA-Z]\w*)",
        advice.factor,
    ),
    (
        r"apparent call must have|cannot be used as a function|is not a function",
        r"\b(?P<name>\w+)\((?P<index>\w+)\)",
        "An element is `{name}[{index}]`, with brackets. If they are factors, C++ needs the `*` between them.",
    ),
    ("expected", r"\)\s*(?P<name>[a-zA-Z_]\w*)\s*\[", values.missing_operator),
    (
        "range-based|[\"'‘]begin[\"'’]|invalid range expression",
        r"\bfor\s*\([^;:]*?(?P<variable>\w+)\s*:\s*(?P<name>\w+)\s*\)",
        values.loop_over,
    ),
    (r"the kernel takes \((?P<wanted>.*)\), but this launch passes \((?P<given>.*)\)", "", advice.launch_arguments),
    (f"launch passes .*vector|{_NO_CONVERSION}std::vector", "<<<", advice.vector_for_a_kernel),
    (
        f"(?:{_NO_CONVERSION}|cannot convert ['‘])(?:at|torch)::Tensor[\"'’] to [\"'‘](?P<kind>[a-z ]+)[\"'’]",
        r"=\s*(?:[\d.f]+\s*[-+*/]\s*)?(?P<name>\w+(?:\[[^\]]*\])+(?!\s*\.)|[\w:.\[\]]+\([^()]*\))",
        "`{name}` is a tensor too: its value is `{name}.item<{kind}>()`.",
    ),
    (f"{_NO_CONVERSION}(?:at|torch)::Tensor", "<<<", "A kernel takes a tensor's address: `x.data_ptr<float>()`."),
    (
        r'(?:must have pointer-to-class type but it has type|operator ->.* applied to) "(?P<kind>[^"]*)"',
        r"(?P<name>\w+)(?:\[[^\]]*\])?\s*->\s*(?P<member>\w+)",
        values.arrow,
    ),
    (
        _NOT_ASSIGNABLE,
        r"^\s*&\s*(?P<name>\w+(?:\[[^\]]*\])?)\s*=[^=]",
        "`&{name}` is an address: to set what is there, write `{name} = ...`.",
    ),
    (
        _NOT_ASSIGNABLE,
        r"^\s*\*\s*(?P<name>\w+)\s*\+\s*(?P<index>\w+(?:\.[xyz])?)\s*=[^=]",
        "`*` comes before `+`: write `*({name} + {index}) = ...` or `{name}[{index}] = ...`.",
    ),
    (
        "modifiable lvalue|invalid array assignment",
        r"^\s*(?:.*[;{{])?\s*(?P<name>\w+)\s*=",
        values.whole_array,
    ),
    (
        r"structured binding|expected unqualified-id before",
        r"\b(?P<kind>float|int|double|char)\s*\[(?P<size>\w*)\]\s*(?P<name>\w+)",
        "The brackets come after the name: `{kind} {name}[{size}]`.",
    ),
    (
        r'function "(?P<nvidia>\w+)[("].*(?:has already been defined|matches the argument list)|'
        r"['‘][\w ]+ (?P<gcc>\w+)\(.*conflicts with a previous declaration",
        "",
        advice.same_name,
    ),
    (
        r'incompatible with ".* (?P<variable>\w+)"|"(?P<type>\w+)" has already been declared',
        "__global__|__device__",
        advice.same_name,
    ),
]

_CPP = [
    ("expected|is undefined|declared", "", missing.parameters),
    (EXPECTED, r"^\s*include\b", "It is `#include`, with `#`."),
    ("include is not a template", "", "It is `#include`, with `#`."),
    (
        "expected",
        r"\bif\s*\([^()]*\)\s*(?:&&|\|\||and\b|or\b)",
        "One pair of parentheses encloses the whole condition: `if (a && b)`.",
    ),
    ("expected", "", advice.macro),
    (
        "expected|need 'typename'",
        r"(?<!typename )\b(?P<name>(?P<base>\w+)(?:<(?P<arguments>[^<>;]*)>)?::\w+)\s*[*&]?\s+\w+\s*[=;,(){{]",
        advice.typename,
    ),
    (
        r'expected a "\{"|expected initializer before|member initializers|expected .*[\'‘]\{[\'’]',
        r"\)\s*:?\s*$",
        missing.body,
    ),
    ("member initializers", "", "After a function's parentheses comes `{{`, not `:`."),
    (r"function-definition is not allowed", "", missing.semicolon),
    (r"operator ->|operand of .->", "->", "`->` is for pointers: write `.`."),
    (
        r'argument list for (?:\w+ )*template "(?P<name>\w+)" is missing',
        "",
        "`{name}` is a template: write its arguments between `<` and `>` after its name.",
    ),
    ("no instance of function template|no matching function", "", advice.template_arguments),
    (_UNDECLARED, "", names.unknown),
    (_NO_MEMBER, "", names.no_member),
    ("no storage class|does not name a type", r"^\s*(?P<name>_\w+)", names.similar),
    (_NO_CLASS, r"(?P<name>\w+)(?:\[[^\]]*\])?\s*\.\s*(?P<member>\w+)", values.member),
    (_NO_CLASS, r"\)\s*\.\s*(?P<member>\w+)\s*\(", values.member_of_result),
    (_SUBSCRIPT, "", values.subscript),
    (_READ_ONLY, "", values.read_only),
    (DEREFERENCED, "", "Only a pointer has a `*` before it: a number is used as it is."),
    ("literal operator", r"\b(?P<whole>\d+),(?P<rest>\d+f)\b", "A number has a point, not a comma: `{whole}.{rest}`."),
    ("literal operator", r"(?P<number>\d+\.\d*f)f+\b", "A float has one `f`: `{number}`."),
    ("literal operator", r"(?<![\w.])(?P<number>\d+)f\b", "A float needs a point before its `f`: `{number}.0f`."),
    (_ARGUMENTS, "", values.arguments),
    (_TO_POINTER, "", values.pointer_or_value),
    (
        r"must have integral or|arithmetic or unscoped|invalid operands",
        "",
        values.pointer_arithmetic,
    ),
    (r"constant value|variably modified|not a constant", "", advice.array_size),
    (
        "already been declared|redeclaration|shadows a parameter",
        r"\b(?:int|float|double|auto|size_t)\s+(?P<name>\w+)\s*[=;\[]",
        "The name `{name}` is taken: to change that variable, leave out the type; otherwise choose another name.",
    ),
    ("No such file", r"#\s*include", "Is the name right? `-I FOLDER` names another place to look."),
    ("break statement|continue statement", "", "To leave the kernel, write `return;`. A `case` ends with `break;`."),
    (r"\b(?:float|int|double|char)[1-4]\b", "", values.vectors),
    (f"expected|{_RETURNED}", "", missing.brackets),
    (f"{missing.NO_SEMICOLON.pattern}|{_RETURNED}", "", missing.semicolon),
]
_IN_ORDER = [standard.RULES, stricter.RULES, python_habits.RULES, missing.RULES, marks.RULES, values.RULES, _CUDA, _CPP]
_RULES = [rule for rules in _IN_ORDER for rule in rules]
