"""`__shared__` variables: each becomes a reference into the running block's memory.

`__shared__ float tile[16][16];` becomes a type, the variable's place in that memory, and the reference:

    typedef float tile__type_on_cpu[16][16];
    static ::cuda_on_cpu::SharedOf<tile__type_on_cpu> tile__shared_on_cpu("tile");
    auto& tile = tile__shared_on_cpu.of_this_block();

all on one line. Outside of functions, the first two are where the variable was. What the reference does not reach is
in shared_uses.py. A macro's body is rewritten like any other text.
"""

from itertools import pairwise
from typing import NamedTuple

from utils.cuda.common import cxx

__all__ = ["PLACE", "Shared", "Unreadable", "is_in_switch", "is_member", "is_parameter", "reference", "rewrite"]

#: What the names of a variable's type and of its place end in: as a source's own names hardly do.
_TYPE, PLACE = "__type_on_cpu", "__shared_on_cpu"
_ALIGNMENT = ("alignas", "__align__", "__attribute__", "__builtin_align__")
_TYPE_OF = {"decltype", "typeof", "__typeof__"}
_CLASSES = {"struct", "union", "class", "enum"}
_ENDS = (";", "{", "}", "(", ",", ":", "#", "else", "do")


class Unreadable(Exception):
    """A `__shared__` declaration that cannot be read; the text says why."""


class Shared(NamedTuple):
    """A declaration of shared variables."""

    start: int  # offsets in the source
    end: int
    names: list[str]
    macro: str  # whose body it is in, so that its names may be made of the macro's parameters; otherwise empty
    jumped: bool = False  # whether a jump may lead over it, so that an expression replaces its names


def reference(name, paste="", within="") -> str:
    """The declaration of the local name; in a macro, `paste` is '##'. The variable may be `within` a namespace."""
    return f"auto& {name} = {within}{name}{paste}{PLACE}.of_this_block()"


def rewrite(source, tokens, at, inside_function, jumped=False):
    """The declaration with `__shared__` as token `at`: (first token, end token, C++ text, Shared). `jumped`: a jump may
    lead over it, which C++ allows for the type and the static place, and not for the reference.

    Raises Unreadable.
    """
    first, end = _begins(tokens, at), _ends(tokens, at)
    words = [token.text for token in tokens[first:end]]
    dynamic, directive = "extern" in words, tokens[at].directive
    if end == len(tokens) and not directive:
        raise Unreadable("this __shared__ declaration has no `;`")
    kept = _without_qualifiers(tokens[first:end])
    body = next((k for k, token in enumerate(kept) if token.text == "{"), None)
    parameters = _macro_parameters(tokens, at) if directive else ()
    names = []
    for number, declarator in enumerate(cxx.at_commas(kept)):
        texts = [token.text for token in declarator]
        in_braces = number == 0 and body is not None and bool(_CLASSES & set(texts[:body]))
        outside = _outside_brackets(declarator)
        if "=" in outside or outside.count("{") > in_braces:
            raise Unreadable("a __shared__ variable cannot have an initial value: let one thread write it")
        name = _name(declarator[(cxx.matching(kept, body) or 0) + 1 :] if in_braces else declarator)
        if not name or number == 0 and len(texts) == 1:
            raise Unreadable(f"cannot read this __shared__ declaration: {' '.join(words)}")
        names.append(name)
    paste = "##" if directive else ""
    parts = ["typedef " + _type(kept, {name.split("##")[-1] for name in names}, f"{paste}{_TYPE}")]
    for name in names:
        kind, place, quoted = f"{name}{paste}{_TYPE}", f"{name}{paste}{PLACE}", f'"{name}"'
        quoted = f"#{name}" if name in parameters else quoted
        holder = "constexpr ::cuda_on_cpu::DynamicShared" if dynamic else "::cuda_on_cpu::SharedOf"
        parts.append(f"static {holder}<{kind}> {place}({quoted})")
        if inside_function and not jumped:
            parts.append(reference(name, paste))
        elif dynamic and not inside_function:  # for the files that include this one
            parts[-1] += f", {name}({quoted})"
    ended = end < len(tokens) and tokens[end].text == ";"
    text = "; ".join(parts) + (";" if ended else "")
    macro = _macro(tokens, at) if directive else ""
    offsets = tokens[first].start, tokens[end + ended - 1].end
    return first, end + ended, text, Shared(*offsets, names, macro, jumped)


def is_in_switch(tokens, at) -> bool:
    """Whether the declaration is directly in the braces of a `switch`."""
    k = _braces(tokens, at)
    opens = cxx.matching(tokens, k - 1) if k > 0 and tokens[k - 1].text == ")" else None
    return bool(opens) and tokens[opens - 1].text == "switch"


def is_member(tokens, at) -> bool:
    """Whether the `__shared__` is a member's of a class, which nvcc allows and which means nothing (warning 1835)."""
    opens = _braces(tokens, at)
    first = next((k + 1 for k in range(opens - 1, -1, -1) if tokens[k].text in (";", "{", "}")), 0)
    head = [token.text for token in tokens[first:opens]]
    return (
        not tokens[at].directive
        and bool({"struct", "class", "union"} & set(head))
        and "(" not in head
        and "=" not in head
    )


def _braces(tokens, at):
    """The index of the `{` around the token at index `at`; -1 without one."""
    k = at
    while k and tokens[k - 1].text != "{":
        k = (cxx.matching(tokens, k - 1) or 0) if tokens[k - 1].text in (")", "]", "}") else k - 1
    return k - 1


def is_parameter(tokens, at) -> bool:
    """Whether the `__shared__` is a parameter's, which nvcc allows and which means nothing."""
    first = _begins(tokens, at)
    opens = next((k for k in range(first - 1, -1, -1) if tokens[k].text in (";", "{", "}", "(")), None)
    closes = cxx.matching(tokens, opens) if opens is not None and tokens[opens].text == "(" else None
    follows = closes and cxx.text_at(tokens, closes + 1)
    return bool(follows in (";", "{") and opens and tokens[opens - 1].text.isidentifier() and first <= at < closes)


def _outside_brackets(declarator):
    """The texts of the tokens outside brackets, with those that open brackets."""
    texts, k = [], 0
    while k < len(declarator):
        texts.append(declarator[k].text)
        k = cxx.step_over(declarator, k)
    return texts


def _name(declarator):
    """'x' of `float x[16]`, of `(*x)[16]` and of `(x)[16]`; empty if there is none."""
    sizes = next((k for k, token in enumerate(declarator) if token.text == "["), len(declarator) - 1)
    for k, token in enumerate(declarator[:sizes]):
        if token.text == "(" and declarator[k + 1].text in "*&":
            return _name(declarator[k + 2 : cxx.matching(declarator, k)])
        if token.text == "(" and cxx.text_at(declarator, k + 2) == ")" and declarator[k - 1].text not in _TYPE_OF:
            return declarator[k + 1].text
    at = first = cxx.declared_at(declarator)
    while first and declarator[first - 1].text == "##":  # in a macro: name##_tile
        first -= 2
    return "" if at is None else "".join(token.text for token in declarator[first : at + 1])


def _begins(tokens, at):
    """The index of the declaration's first token: `__shared__` may come after its type."""
    k = at
    while k:
        before = tokens[k - 1]
        if before.text in _ENDS or before.directive != tokens[at].directive:
            break
        if before.text == ")":
            opens = cxx.matching(tokens, k - 1)
            while opens and tokens[opens - 1].text == "(":  # __attribute__((aligned(16)))
                opens -= 1
            if not opens or tokens[opens - 1].text not in _ALIGNMENT:
                break
            k = opens - 1
        elif before.text in (">", "]"):
            opens = cxx.matching(tokens, k - 1)
            if opens is None:
                break
            k = opens
        elif before.text.isidentifier() or before.text in ("::", "*", "&"):
            k -= 1
        else:
            break
    if tokens[at].directive:  # not the macro's name
        defined = [j for j in range(k, at) if tokens[j].text == "define"]
        k = max([k, *(j + 2 for j in defined)])
    return k


def _ends(tokens, at):
    """The index of the `;` after token `at`, or of the end of the macro."""
    k = at
    while k < len(tokens) and tokens[k].text != ";" and tokens[k].directive == tokens[at].directive:
        k = cxx.step_over(tokens, k) if tokens[k].text in "([{" else k + 1
    return k


def _without_qualifiers(declaration):
    """Without what a typedef cannot have, and without alignments: the arena aligns every variable to 16 bytes."""
    kept, k = [], 0
    while k < len(declaration):
        if declaration[k].text in _ALIGNMENT and cxx.text_at(declaration, k + 1) == "(":
            k = cxx.matching(declaration, k + 1) or k
        elif [token.text for token in declaration[k : k + 2]] == ["[", "["]:
            k = cxx.matching(declaration, k) or k
        elif declaration[k].text not in ("__shared__", "static", "extern", "__device__", "inline"):
            kept.append(declaration[k])
        k += 1
    return kept


def _type(declaration, names, ending):
    """The text of a declaration whose `names`, outside of braces, get an ending."""
    pieces, depth, brackets = [], 0, 0
    for before, token in pairwise((None, *declaration)):
        pieces.append(" " if before and before.end != token.start else "")
        known = depth == 0 and token.text in names and not (before and before.text == "::")
        if known and brackets:  # float a[4], b[sizeof(a) / sizeof(a[0])]
            pieces.append(f"(*({token.text}{ending}*)nullptr)")
        else:
            pieces.append(token.text + (ending if known else ""))
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        brackets += {"[": 1, "]": -1}.get(token.text, 0)
    return "".join(pieces)


def _macro(tokens, at):
    return next((t.text for b, t in pairwise(tokens) if b.text == "define" and t.directive == tokens[at].directive), "")


def _macro_parameters(tokens, at):
    line = [token for token in tokens if token.directive == tokens[at].directive]
    if len(line) > 3 and line[1].text == "define" and line[3].text == "(" and line[3].start == line[2].end:
        return {token.text for token in line[4 : cxx.matching(line, 3) or 4]}
    return set()
