"""The one reader of CUDA C++: declarations, kernels, launches, and what a source uses, on the tokens of lexer.py.

It reads without judging: a source that does not compile is read as far as its brackets allow, and nothing here raises.
Nor is it a compiler: a macro is expanded only where it makes a kernel, and every branch of an `#if` counts.
Offsets are those of the source; lines count from 1.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import launched, lexer
from utils.cuda.common.lexer import (
    Macro,
    Token,
    at_commas,
    code,
    directives,
    expanded,
    included,
    macros,
    matching,
    step_over,
    text_at,
    tokens,
    unmatched,
    written,
)

__all__ = ["Macro", "Token", "at_commas", "code", "directives", "included", "macros", "matching", "tokens"]
__all__ += ["unmatched", "written", "Declaration", "declarations", "declared_at", "declared_kernels", "functions"]
__all__ += [
    "parameter_name",
    "parameter_type",
    "Launch",
    "SourceKernel",
    "address",
    "called",
    "instance",
    "kernels",
    "launch",
    "launches",
]
__all__ += [
    "FILES",
    "TORCH_HEADERS",
    "includes_torch",
    "own_names",
    "step_over",
    "text_at",
    "uses_python",
    "uses_torch",
    "uses_volatile",
]

#: The reader's own text, on which everything built with its help depends.
FILES = (Path(__file__), Path(launched.__file__), Path(lexer.__file__))


# ---- declarations ---------------------------------------------------------------------------------------------------


class Declaration(NamedTuple):
    """A function, a variable or a type of a source or of a namespace, without the preprocessor lines inside it."""

    tokens: Sequence[Token]
    head: int  # how many tokens come before its body, `{`
    template: str  # 'template <int tile>', empty if it is not a template
    names: list[str]  # what it declares: one name except for variables; none if it cannot be read
    line: int  # of a function's name, otherwise of its first token
    returns: str  # of a function: everything between template and name, 'static __global__ void'; otherwise empty
    parameters: list[Sequence[Token]] | None  # of a function; None if it is not one

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""

    @property
    def words(self) -> list[str]:
        """The texts of the tokens before the body."""
        return [token.text for token in self.tokens[: self.head]]

    @property
    def defined(self) -> bool:
        """Whether it has a body."""
        return self.head < len(self.tokens)

    @property
    def exported(self) -> bool:
        """Whether it is a host function that other files can call."""
        own = {"__global__", "__device__", "inline", "static", "__forceinline__"}
        if not self.returns or self.returns.endswith("::") or self.template:
            return False
        return not own & set(self.words)

    @property
    def signature(self) -> str:
        """A function without its body: 'torch::Tensor square(torch::Tensor x)'."""
        return written(self.tokens[: self.head]).removesuffix(";")


_WITH_PARENTHESES = {"alignas", "decltype", "__declspec", "noexcept", "throw", "requires"}  # and __launch_bounds__
_AFTER_PARAMETERS = {"const", "volatile", "noexcept", "override", "final", "throw", "requires", "try", "__attribute__"}


@lru_cache(64)  # as tokens: several parts of a build ask
def declarations(source) -> tuple[Declaration, ...]:
    """What the source declares and defines, including in its namespaces."""
    part = [token for token in tokens(source) if not token.directive]
    found, at = [], 0
    while at < len(part):
        inside = _after_namespace(part, at)
        if inside is not None:
            at = inside
        elif part[at].text in (";", ")", "]", "}"):  # `}` ends a namespace
            at += 1
        else:
            found.append(_declaration(part, at))
            at += len(found[-1].tokens)
    return tuple(found)


def _after_namespace(part, at):
    """The index after the `{` of a namespace, or of an `extern "C"`, that begins at index `at`; otherwise None."""
    words = [token.text for token in part[at : at + 3]]
    if words == ["extern", '"C"', "{"]:
        return at + 3
    if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"]:
        opens = next((k for k in range(at, len(part)) if part[k].text in ("{", ";", "=", "(")), len(part))
        return opens + 1 if text_at(part, opens) == "{" else None
    return None


def functions(source) -> list[Declaration]:
    """The functions among the declarations, kernels included."""
    return [declaration for declaration in declarations(source) if declaration.parameters is not None]


def _declaration(part, first, mark=None):
    """The declaration that begins at index `first`. A function's name is searched for from index `mark` on."""
    begins = _after_template(part, first)
    mark = begins if mark is None else mark
    k, head, function = mark, None, None
    while k < len(part) and part[k].text not in (")", "]", "}"):
        text, opens = part[k].text, k
        if text == "{" and head is None:
            function = _function(part[mark:k])
            initializers = function and text_at(part, mark + function[2] + 1) == ":"  # S::S() : member{1} { ... }
            head = None if initializers and part[k - 1].text not in (")", "}") else k
        k = step_over(part, k)
        if text == "{" and part[k - 1].text != "}":  # it is not closed
            k = len(part)
        if text == ";" or text == "{" and opens == head and function or k == len(part):
            break
    head = k if head is None else head
    function = function or _function(part[mark:head])
    mine, template = part[first:k], written(part[first:begins])
    if not function:
        return Declaration(mine, head - first, template, _names(part[begins:head]), part[first].line, "", None)
    at, opens, closes = (mark + index for index in function)
    parameters = [p for p in at_commas(part[opens + 1 : closes]) if [t.text for t in p] != ["void"]]
    returns = written(part[begins:at])
    return Declaration(mine, head - first, template, [part[at].text], part[at].line, returns, parameters)


def _after_template(part, at):
    while [token.text for token in part[at : at + 2]] == ["template", "<"]:
        end = matching(part, at + 1)
        if end is None:
            break
        at = end + 1
    return at


def _function(head):
    """The indices of a function's name and of its parameters' parentheses; None if the head is not a function's.

    Something with its own parentheses may come before the name: __launch_bounds__(256), alignas(16), a macro.
    """
    found, k = None, 0
    while k < len(head) and head[k].text != "=":
        text = head[k].text
        if text == "operator":
            opens = next((o for o in range(k + 2, len(head)) if head[o].text == "("), None)
            closes = None if opens is None else matching(head, opens)
            return None if closes is None else (k, opens, closes)
        if text == "(":
            closes = matching(head, k)
            closes = len(head) if closes is None else closes
            name = k - 1
            while name > 0 and head[name].text in (">", "]"):  # f<float>(, f [[maybe_unused]] (
                name = (matching(head, name) or 0) - 1
            word = text_at(head, name)
            attribute = word in _WITH_PARENTHESES or word.startswith("__") and word.endswith("__")
            if word.isidentifier() and not attribute and text_at(head, k + 1) not in ("*", "&"):
                found, after = (name, k, closes), text_at(head, closes + 1)
                if not after.isidentifier() or after in _AFTER_PARAMETERS:
                    break
        k = step_over(head, k)
    return found


def declared_at(declarator: Sequence[Token]) -> int | None:
    """The index of the name after a type, followed by a value, a size or the end; None without a name."""
    name, k = None, 0
    while k < len(declarator) and declarator[k].text not in ("=", "{", ":", ";"):
        if declarator[k].text == "[" and name is not None:  # [[maybe_unused]] comes before the name
            break
        name = k if declarator[k].text.isidentifier() and text_at(declarator, k - 1) != "::" else None
        k = step_over(declarator, k)
    return name


def _names(head):
    """What a declaration declares that is not a function's: a type, or variables."""
    places = ((part, declared_at(part)) for part in at_commas(head))
    names = [part[at].text for part, at in places if at is not None]
    return [name for name in names if name not in ("struct", "class", "union", "enum")]


# ---- kernels and launches -------------------------------------------------------------------------------------------


class SourceKernel(NamedTuple):
    """A `__global__` function as its text declares it."""

    name: str
    template: str  # 'template <int tile>', empty if it is not a template
    names: list[str]  # of its parameters, each empty if it has none
    cooperative: bool  # whether threads of different blocks wait for each other
    line: int  # of its name


def declared_kernels(source) -> list[Declaration]:
    """Every declaration of a `__global__` function, wherever it is, including those that the source's macros make."""
    plain, found = expanded(source), []
    for k, token in enumerate(plain):
        if token.text == "__global__":
            first = next((b + 1 for b in range(k, -1, -1) if plain[b].text in (";", "{", "}")), 0)
            first = next((b for b in range(first, k) if plain[b].text == "template"), first)
            found.append(_declaration(plain, first, k))
    return [kernel for kernel in found if kernel.parameters is not None]


def kernels(source) -> dict[str, SourceKernel]:
    """Every `__global__` function of CUDA C++ text, by name, in text order."""
    found, bodies = {}, []
    for kernel in declared_kernels(source):
        names = [parameter_name(parameter) for parameter in kernel.parameters]
        found.setdefault(kernel.name, SourceKernel(kernel.name, kernel.template, names, False, kernel.line))
        if kernel.defined:
            bodies.append((kernel.name, kernel.tokens[kernel.head].start, kernel.tokens[-1].end))
    for place in (token.start for token in tokens(source) if token.text in ("this_grid", "grid_group")):
        # A function that waits for the grid may be called by any kernel; a kernel's body is its own.
        inside = {name for name, start, end in bodies if start <= place < end}
        for name in inside or found:
            found[name] = found[name]._replace(cooperative=True)
    return found


_OF_TYPES = {"const", "volatile", "unsigned", "signed", "bool", "char", "short", "int", "long", "float", "double"}
_OF_TYPES |= {"void", "auto", "struct", "typename", "__restrict__", "__restrict"}


_NO_TYPES = {"return", "case", "else", "do", "new", "delete", "throw", "goto", "sizeof"}
_AFTER_NAME = {"=", ",", ";", "{", "(", ")"}


def parameter_name(parameter: Sequence[Token]) -> str:
    """'x' of `const float* __restrict__ x = nullptr`; empty if the parameter has no name."""
    for k, token in enumerate(parameter[:-1]):
        if token.text == "(" and parameter[k + 1].text in "*&":  # float (*rows)[16]
            parameter = [*parameter[:k], *parameter[k + 1 : matching(parameter, k)]]
            break
    at = declared_at(parameter)
    if at is None or {token.text for token in parameter[:at]} <= {"const", "volatile", "struct", "typename"}:
        return ""
    return "" if parameter[at].text in _OF_TYPES else parameter[at].text


def own_names(function) -> set[str]:
    """The names that a function declares for itself: what its template takes, parameters, variables, types."""
    names = set()
    for parameter in at_commas(tokens(function.template)[2:-1]):  # template <class T, int N = 4>
        names |= {t.text for t in list(takewhile(lambda t: t.text != "=", parameter))[-1:]}
    for before, token, after in zip(function.tokens, function.tokens[1:], function.tokens[2:], strict=False):
        typed = before.text.isidentifier() and before.text not in _NO_TYPES
        if typed and after.text in _AFTER_NAME or before.text in (">", "*", "&") and after.text in ("=", ";", "{"):
            names.add(token.text)
    return {name for name in names if name.isidentifier()} - {function.name}


def address(source, name) -> str:
    """The C++ expression for a pointer to the kernel `name`, where the source ends.

    A kernel may have the name of one of the C library's functions, such as `log` or `index`: then its parameters tell
    which is meant.
    """
    declared = [kernel.parameters for kernel in declared_kernels(source) if kernel.name == name and not kernel.template]
    types = {", ".join(map(parameter_type, parameters)) for parameters in declared}
    return f"static_cast<void (*)({types.pop()})>(&{name})" if len(types) == 1 else f"&{name}"


def parameter_type(parameter):
    """'float (*)[16]' of `float (*rows)[16] = nullptr`."""
    ends = next((k for k, token in enumerate(parameter) if token.text == "="), len(parameter))
    # `__shared__` means nothing there, as nvcc warns, and `__restrict__` nothing to the type of the function.
    no_type = (parameter_name(parameter), "__shared__", "__restrict__", "__restrict")
    return written([token for token in parameter[:ends] if token.text not in no_type]).strip()


class Launch(NamedTuple):
    """A launch `kernel<<<grid, block>>>(...)`, given by token indices."""

    kernel: str  # with namespaces and template arguments, 'my::matmul_tile<16>'; or an expression, 'table[i]'
    named: bool  # whether that is a name, and no expression to evaluate
    first: int  # where it begins
    opens: int  # where `<<<` is
    closes: int  # where `>>>` is
    line: int  # of the problem if there is one, otherwise of `<<<`
    problem: str  # a sentence saying why it cannot be read; empty if it can


def launches(source) -> list[Launch]:
    """Every launch of a source, including those in macros and what only looks like one."""
    part = tokens(source)
    return [launch(part, k) for k, token in enumerate(part) if token.text == "<<<"]


def launch(part: Sequence[Token], at) -> Launch:
    """The launch whose `<<<` is at index `at`."""
    first = launched.begins(part, at)
    closes = at + 1
    while closes < len(part) and part[closes].text not in (">>>", ";", ")", "]", "}"):
        ends = matching(part, closes) if part[closes].text in ("(", "[", "{") else closes
        closes = len(part) if ends is None else ends + 1
    line, problem = part[at].line, ""
    if first is None:
        problem = "`<<<` has no kernel's name in front of it"
    elif text_at(part, closes) != ">>>":
        problem = "this launch has `<<<` but no `>>>`"
    elif text_at(part, closes + 1) != "(":
        line, problem = part[closes].line, "after `>>>` come the kernel's arguments in parentheses"
    elif closes == at + 1:
        problem = "this launch lacks the numbers of blocks and of threads per block"
    kernel = () if problem else part[first:at]
    return Launch(written(kernel), launched.is_name(kernel), first or 0, at, closes, line, problem)


def instance(name) -> tuple[str, str] | None:
    """The kernel and the template arguments in a name: ('tiled', '<16>') of 'n::tiled<16>'; otherwise None."""
    found = re.fullmatch(r"\s*(?:::)?\s*(?:\w+\s*::\s*)*(\w+)\s*(<.*>)?\s*", name, re.DOTALL)
    return found and (found[1], found[2] or "")


# ---- what a source uses ---------------------------------------------------------------------------------------------


def called(source) -> set[str]:
    """Every word before a parenthesis: what the source declares, defines or calls, and its macros."""
    return {token.text for token, after in pairwise(tokens(source)) if after.text == "(" and token.text.isidentifier()}


TORCH_HEADERS = ("torch", "ATen", "c10", "caffe2", "pybind11", "Python.h")


def includes_torch(source) -> bool:
    """Whether the source includes one of torch's headers, or Python's."""
    return any(included(line).startswith(TORCH_HEADERS) for line in directives(source))


def uses_torch(source, in_macros=True) -> bool:
    """Whether the source names something in torch's C++ library; without `in_macros`, only outside its macros."""
    return _uses(source, {"torch", "at", "c10"}, ("TORCH_", "AT_", "C10_"), in_macros)


def uses_python(source, in_macros=True) -> bool:
    """The same for Python's C API and pybind11."""
    return _uses(source, {"py", "pybind11"}, ("PYBIND11_", "Py"), in_macros)


def uses_volatile(source) -> bool:
    """Whether the source has volatile memory: `asm volatile` is something else."""
    pairs = pairwise(tokens(source))
    return any(token.text == "volatile" and "asm" not in before.text for before, token in pairs)


def _uses(source, namespaces, prefixes, in_macros):
    part = [token for token in tokens(source) if in_macros or not token.directive]
    if any(token.text.startswith(prefixes) for token in part):
        return True
    return any(token.text in namespaces and after.text == "::" for token, after in pairwise(part))
