"""What to do about a compile error that comes from a habit of Python's: rules and words, as in hints.py."""

import re
import unicodedata
from itertools import pairwise

from utils.cuda.common import cxx, missing, names
from utils.cuda.common.characters import described, hidden
from utils.cuda.common.missing import tokens

__all__ = ["ANY", "DEREFERENCED", "EXPECTED", "RULES"]

# What the compilers say.
ANY = ""
EXPECTED = r"expected|stray|invalid preprocessing|undefined|not declared|does not name|undeclared|unknown type"
DEREFERENCED = r"""operand of "\*"|unary ['‘]\*|indirection requires"""
_NO_PROSE = (
    "if|while|else|return|for|const|unsigned|static|inline|extern|int|float|double|void|struct|class|typename|template|"
    "using|namespace|auto|long|raise|import|from|lambda|del|assert|yield|global|nonlocal"
)
_INTEGERS_ONLY = r"must have integral or (?:unscoped )?enum|invalid operands"


def statement(place, word, condition):
    """`if i < n:` or `while i < n {`."""
    condition = condition.strip()
    part = cxx.tokens(condition)
    whole = bool(part) and part[0].text == "(" and cxx.matching(part, 0) == len(part) - 1
    condition = condition if whole else f"({condition})"
    return f"In C++, write `{word} {condition} {{` and close the body with `}}`: indentation means nothing."


def without_its_call(place, name, member):
    """`x.dtype` and `x.size`, in host code."""
    if member == "dtype":
        return f"A tensor's type is `{name}.scalar_type()`: compare it with `torch::kFloat32` and the like."
    if member in ("size", "stride"):
        return f"`{member}` is a function: `{name}.{member}(0)` is that of the first dimension."
    return f"`{member}` is a function: write `{name}.{member}()`."


def colon(place):
    """`if (i < n): x[i] = 1;`, on one line."""
    part = cxx.tokens(place.code)
    for k, token in enumerate(part):
        closes = cxx.matching(part, k + 1) if token.text in _HEADS and cxx.text_at(part, k + 1) == "(" else None
        if closes and cxx.text_at(part, closes + 1) == ":" and cxx.text_at(part, closes + 2) != ":":
            head, body = place.text[token.start : part[closes].end], place.text[part[closes + 1].end :].strip()
            return f"In C++, write `{head} {body or '{'}`, without the `:`."
    return ""


_HEADS = {"if", "while", "for", "switch"}


def for_in_range(place, variable, arguments):
    """`for i in range(n):`."""
    values = [value.strip() for value in arguments.split(",")]
    first, end, step = {1: ("0", *values, "1"), 2: (*values, "1"), 3: values}.get(len(values), ("0", "n", "1"))
    on = f"{variable}++" if step == "1" else f"{variable} += {step}"
    return f"In C++, write `for (int {variable} = {first}; {variable} < {end}; {on}) {{`."


def choice(_, a, b, c):
    """`a if c else b`."""
    words = {"True": "true", "False": "false", "and": "&&", "or": "||", "not": "!"}
    text = re.sub(r"\b(?:True|False|and|or|not)\b", lambda found: words[found[0]], f"{c} ? {a} : {b}")
    return f"C++ writes that as `{text}`."


def python_text(place):
    """A docstring or an f-string."""
    if re.search(r'"""|\'\'\'', place.text):
        return 'C++ has no `"""`: a comment is `// ...` or `/* ... */`.'
    part = [token for token in tokens(place.source) if token.line == place.line]
    if any(one.text == "f" and one.end == other.start and other.text[0] in "\"'" for one, other in pairwise(part)):
        return 'C++ has no f-strings: `printf("i = %d\\n", i)` shows an int, `%f` a float.'
    return ""


def double_quotes(place):
    """A text in single quotes."""
    found = re.search(r"'((?:[^'\\\n]|\\.){2,})'", re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", place.text))
    return f'In C++, a text needs double quotes: "{found[1]}". Single quotes are for one character.' if found else ""


def character(place):
    """A character that only looks like one of C++'s: from a web page, or of another keyboard."""
    mark = "\ufeff" if "feff" in place.message else ""  # the lexer takes it for a space
    if found := hidden(place.code) or mark:
        column = (place.text if found == mark else place.code).find(found) + 1
        return f"Column {column} of this line has an invisible character, {described(found)}: delete it."
    for found in re.findall(r"[^\w\x00-\x7f]", place.code):
        plain = _LOOKS_LIKE.get(found) or unicodedata.normalize("NFKC", found)
        if plain.isascii() and (found in place.message or not found.isspace()):  # a comment may have such spaces
            name, write = unicodedata.name(found, "").lower(), f"`{plain}`" if plain.strip() else "a space"
            return f"`{found}` is the character {name}: write {write}."
    return ""


def hosts_torch(place, name, member):
    """`torch.relu(x)` in host code: kernels have no torch."""
    return "" if place.in_device_code else f"In C++, it is `{name}::{member}(...)`, with `::`."


def numba(place):
    """`cuda.syncthreads()`, as Numba writes it in Python."""
    for name, part in re.findall(r"\bcuda\s*\.\s*(\w+)(?:\s*\.\s*(\w+))?", place.code):
        if name in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            return f"C++ has no `cuda.{name}`: write `{name}.{part or 'x'}`."
        known = next((known for known in (f"{name}.{part}", name) if known in _NUMBA), "")
        if known:
            return f"C++ has no `cuda.{known}`: write `{_NUMBA[known]}`."
    return ""


_NUMBA = {
    "grid": "blockIdx.x * blockDim.x + threadIdx.x",
    "gridsize": "gridDim.x * blockDim.x",
    "syncthreads": "__syncthreads()",
    "syncwarp": "__syncwarp()",
    "threadfence": "__threadfence()",
    "shared.array": "__shared__ float s[32];",
    "local.array": "float a[8];",
    "atomic.add": "atomicAdd(&x[i], value)",
}


def digits(place, number):
    """`1_000`"""
    plain, separated = number.replace("_", ""), number.replace("_", "'")
    return f"C++ has no `_` in numbers: write `{plain}` or `{separated}`."


_LOOKS_LIKE = dict(zip("“”‘’−–—×÷≤≥≠", ['"', '"', "'", "'", "-", "-", "-", "*", "/", "<=", ">=", "!="], strict=True))


# What Python's statements would be in C++, by the line alone: no C++ has them.
RULES = [
    (ANY, r"[^\x00-\x7f]", character),
    (r"\\(?:u|U0000)feff", "", character),
    (
        ANY,
        r"\bfor\s*\(?\s*(?:int |auto )?\s*(?P<variable>\w+)\s+in\s+range\s*\((?P<arguments>[^()]*)\)",
        for_in_range,
    ),
    (ANY, r"\bfor\s*\(?\s*(?:\w+ )?\w+\s+in\b", "In C++, a `for` counts: `for (int i = 0; i < n; i++) {{`."),
    (ANY, r"^\s*(?P<word>if|while)\b(?P<condition>[^{;]*):\s*$", statement),
    (
        EXPECTED,
        r"^\s*(?P<word>if|while)\s+(?!\(|constexpr)(?P<condition>[^:{;?]+):(?!:)\s*\w",
        "In C++, write `{word} ({condition})` and the statement with its `;`, without the `:`.",
    ),
    (
        EXPECTED,
        r"^\s*\}?\s*(?:else\s+)?(?P<word>if|while)\s+(?!\(|constexpr)(?P<condition>[^{;]*?)\s*\{?\s*$",
        statement,
    ),
    (
        "expected",
        r"^\s*\}?\s*(?:else\s+)?(?P<word>if|while)\s+(?!\(|constexpr)(?P<condition>[^{};]*?)\s*\{",
        "In C++, the condition needs parentheses: `{word} ({condition}) {{`.",
    ),
    (
        r"expected (?:a )?[\"'‘]\([\"'’]",
        r"^\s*\}?\s*(?:else\s+)?(?P<word>if|while)\s+(?!\(|constexpr)",
        "In C++, the condition needs parentheses: `{word} (...)`.",
    ),
    ("expected", "", colon),
    (ANY, r"^\s*\}?\s*else\s*:", "In C++, write `else {{` and close the body with `}}`."),
    (ANY, r"\b(?P<word>elif|elseif|elsif)\b", "C++ writes `{word}` as two words: `else if (...) {{`."),
    (
        ANY,
        r"(?<!\.)\bdef\b",
        "C++ has no `def`: a kernel begins with `__global__ void`, a function that kernels call with `__device__` and "
        "the type that it returns.",
    ),
    ("undefined|declared", r"\bcuda\s*\.\s*[a-zA-Z]", numba),
    (
        "recognized token|stray|expected",
        r"\b(?P<a>\w+)(?:\[[^\]]*\])?\s*@\s*(?P<b>\w+)",
        "C++ has no `@`: an element of the product is a sum, in a loop over `j`, of `{a}[r * n + j] * {b}[j * w + c]`.",
    ),
    (
        f"{EXPECTED}|already been declared",
        r"^\s*(?P<word>global|nonlocal)\s+(?P<name>\w+(?:\s*,\s*\w+)*)\s*;?\s*$",
        "C++ has no `{word}`: remove this line. A function can use `{name}` without it.",
    ),
    ("recognized token|stray|expected", r"^\s*@\s*\w", "C++ has no decorators: `__global__ void` makes a kernel."),
    (
        EXPECTED,
        r"^\s*(?:from\s+\w+\s+)?import\b",
        "CUDA C++ has no `import`: remove it, or include a header, `#include <cstdio>`.",
    ),
    (
        ANY,
        r"(?:=|\breturn|\()\s*(?P<a>[^=;()]+?)\s+if\s+(?P<c>[^;]+?)\s+else\s+(?P<b>[^;]+?)\s*;",
        choice,
    ),
    (
        EXPECTED,
        rf"^\s*(?!.*\b(?:{_NO_PROSE})\b)[a-zA-Z]+(?:,?\s+[a-z]+){{3,}}[.!?]?\s*$",
        "Is this line a comment? Then it begins with `//`.",
    ),
    (EXPECTED, r"[\w\])]\s+is\s+(?:not\s+)?\w+", "C++ has no `is`: compare with `==`, a pointer with `nullptr`."),
    (EXPECTED, r"\b\w+\s+(?:not\s+)?in\s+[\w(\[{]", "C++ has no `in`: compare with each element in a loop."),
    (EXPECTED, r"\w\[[^\[\]?:]*:[^\[\]:]*\]", "C++ has no slices: write a loop over the elements."),
    (ANY, r"=\s*\[[^\]]*\]\s*;", "C++ writes a list of values in braces: `{{1, 2, 3}}`."),
    (ANY, "", python_text),
    (
        ANY,
        r"^\s*#\s*(?!include|define|undef|if|else|elif|endif|pragma|line|error|warning)\w",
        "A comment begins with `//` in C++. A line that begins with `#` is for the preprocessor.",
    ),
    (
        ANY,
        r"^\s*#\s*(?:(?:el)?if\s+(?!defined\b|not\b|compl\b)[a-zA-Z]\w*\s+(?!and\b|x?or\b|bit|not_)[a-zA-Z]|include\s+\w+\s+\w|"
        r"line\s+[a-zA-Z]\w*\s+\w)",
        "A comment begins with `//` in C++. A line that begins with `#` is for the preprocessor.",
    ),
    (
        "#endif|unterminated",
        r"^\s*#\s*if",
        "This `#if` has no `#endif`. If it is a comment, begin it with `//`.",
    ),
    (ANY, r"^\s*(?P<text>pragma\s+\w+(?:\s+\w+)?)\s*;?\s*$", "It begins with `#` and ends without `;`: `#{text}`."),
    ("#", r"\S.*#\s*(?P<text>pragma\s+\w+(?:\s+\w+)?)", "`#{text}` needs a line of its own."),
    ("#", r"\S.*#", "A comment begins with `//` in C++, not with `#`."),
    ("expected", r"\*\*=", "C++ has no `**=`: write `a = a * a` for a square, `a = powf(a, b)` for any other power."),
    (
        EXPECTED,
        r"^\s*(?P<name>\w+)\s*:\s*(?P<type>int|float|bool)\b(?!\s*[\w*&(])",
        "In C++, the type comes before the name: `{type} {name}`.",
    ),
    (DEREFERENCED, r"\*\*", "C++ has no `**`: write `a * a` for a square, `powf(a, b)` for any other power."),
    (_INTEGERS_ONLY, r"\^", "`^` is the bitwise XOR: write `a * a` for a square, `powf(a, b)` for any other power."),
    (
        r"expected (?:an |primary-)?expression",
        r"=\s*<|(?<!<)=\s*>|<\s*>(?!>)",
        "C++ compares with `<`, `<=`, `>`, `>=`, `==` and `!=`.",
    ),
    ("expected|already", r"\bfor\s*\([^;]*(?:,[^;]*){2}\)", "The three parts of a `for` are separated by `;`."),
    (
        "expected",
        r"\bfor\s*\([^;]*(?:;[^;]*)?\)\s*\{?\s*$",
        "A `for` has three parts, separated by `;`: `for (int i = 0; i < n; i++)`.",
    ),
    (
        "expected|already",
        r"^\s*(?:int|float|double|auto)\s+\w+\s*(?:,\s*\w+\s*)+=",
        "C++ sets one variable at a time: `int a = 0, b = 0;`.",
    ),
    (EXPECTED, r"\w\s*\(\s*\w+\s*:\s*\w+", "In C++, the type comes before the name: `float* x, int n`."),
    (r"const char|multi-?character|character constant|expected", "", double_quotes),
    ("expected|has `<<<` but no", "", missing.division),
    (
        EXPECTED,
        r"\b(?P<name>torch|at)\s*\.\s*(?P<member>\w+)\s*\(",
        hosts_torch,
    ),
    (
        r"Tensor\W* has no member .*shape",
        "",
        "A tensor's sizes are `x.size(0)`, `x.size(1)`, ...; `x.numel()` is their product.",
    ),
    (
        "non-static member function|from type '.*::",
        r"\b(?P<name>\w+)\.(?P<member>size|stride|dtype|device|dim|numel)\b(?!\s*\()",
        without_its_call,
    ),
    (r"literal operator|invalid suffix", r"(?<![\w.])(?P<number>\d+(?:_\d+)+)\b", digits),
    (
        r"type name is not allowed|expected (?:primary-)?expression|function-style cast|type-construction",
        r"(?P<type>\b(?:(?:un)?signed\s+(?:long\s+long|char|short|int|long)|long\s+(?:long|double)))\s*"
        r"\((?P<value>[^()]*)\)",
        lambda place, type, value: (
            f"Only a type of one word can be written like a function: `({type})"
            + (f"{value}`." if value.isidentifier() else f"({value})`.")
        ),
    ),
    (
        r"type name is not allowed|expected (?:primary-)?expression|function-style cast|type-construction",
        r"(?:=|\breturn|[-+*/%])\s*(?P<type>(?:unsigned\s+)?(?:long\s+long|int|float|double|long|short|char|bool))\s+"
        r"(?P<value>\w+(?:\[[^\[\]]*\])?)",
        "A conversion needs parentheses: `({type}){value}`.",
    ),
    (
        EXPECTED,
        r"(?P<type>\b(?:int|float|double|auto))\s+(?P<name>\w+)\s*(?P<op>[-+*/])=",
        "A new variable has no value yet: declare `{type} {name} = 0;` before the loop, and write `{name} {op}= ...` "
        "without the type.",
    ),
    (
        "which instance of overloaded function",
        r"(?:^|[;{(])\s*(?P<name>\w+)\s*=[^=]",
        names.without_a_type,
    ),
    (EXPECTED, r"^\s*%%cuda\b", "`%%cuda` starts a notebook cell: leave this line out of source text."),
    (
        '"restrict" is not allowed|invalid use of .restrict|restrict requires a pointer',
        r"(?P<type>\w+)\s+__restrict(?:__)?\s+(?P<name>\w+)",
        "`__restrict__` applies to a pointer, and the `*` is missing: `{type}* __restrict__ {name}`.",
    ),
    (r"launch passes .*Tensor", "", "A kernel takes a tensor's address: `x.data_ptr<float>()`."),
    (r"no return statement|non-void function", "", "End the function with `return out;`, where `out` is its result."),
    (r"missing (?:closing quote|terminating)", "", 'A text begins and ends with `"`, both on one line.'),
]
