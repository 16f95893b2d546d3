"""Macros that make `asm` statements: expanded where they are used if the PTX depends on their arguments.

`#define ADD(type) asm("add." #type " %0, %1, %2;" : ...)` has no PTX before it is used. A macro whose PTX is complete
stays a macro, and the statement in its body is replaced like any other.
"""

from collections.abc import Sequence

from utils.cuda.common import cxx
from utils.cuda.common.cxx import Macro, Token

__all__ = ["template_tokens", "with_macros"]

_DEEPEST = 20  # macros within macros


def template_tokens(part: Sequence[Token], macros: dict[str, Macro], depth=0) -> list[Token]:
    """The tokens of a statement's PTX, with macros such as `#define SHAPE "m16n8k16"` replaced."""
    found, k = [], 0
    while k < len(part):
        token = part[k]
        macro = macros.get(token.text) if depth < _DEEPEST else None
        if macro is None:
            found.append(token)
            k += 1
            continue
        end, given = k, {}
        if macro.parameters is not None:
            end = cxx.matching(part, k + 1) if cxx.text_at(part, k + 1) == "(" else None
            if end is None:
                found.append(token)
                k += 1
                continue
            given = _arguments(macro, part[k + 2 : end])
        plain = {name: template_tokens(tokens, macros, depth + 1) for name, tokens in given.items()}
        for inner in template_tokens(_substituted(macro, given, plain), macros, depth + 1):
            found.append(inner._replace(line=token.line, directive=token.directive))
        k = end + 1
    return found


def with_macros(source, words) -> str:
    """The source with the macros expanded whose PTX depends on their arguments, directly or through other macros."""
    macros = cxx.macros(source)
    wanted = {name for name, macro in macros.items() if _depends(macro, words)}
    while more := {n for n, m in macros.items() if wanted & {t.text for t in m.body}} - wanted:
        wanted |= more
    source = _without_definitions(source, wanted) if wanted else source
    for _ in range(_DEEPEST if wanted else 0):
        expanded = _expanded(source, wanted, macros)
        if expanded == source:
            break
        source = expanded
    return source


def _arguments(macro, part):
    parts = cxx.at_commas(part)
    given = {name: () for name in macro.parameters} | dict(zip(macro.parameters, parts, strict=False))
    if macro.parameters[-1:] == ["..."]:
        rest = parts[len(macro.parameters) - 1 :]
        given["__VA_ARGS__"] = part[len(part) - _length(rest) :] if rest else ()
    return given


def _length(parts):
    return sum(map(len, parts)) + max(len(parts) - 1, 0)


def _substituted(macro, given, plain=None):
    """The body of a macro with its arguments: `#x` becomes a string, and `a ## b` one word. Elsewhere, the arguments
    are those of `plain`, in which macros are replaced."""
    plain = given if plain is None else plain
    found, k, body = [], 0, macro.body
    while k < len(body):
        token = body[k]
        if token.text == "#" and cxx.text_at(body, k + 1) in given:
            text = cxx.written(given[body[k + 1].text]).replace("\\", "\\\\").replace('"', '\\"')
            found.append(token._replace(text=f'"{text}"'))
            k += 2
        elif token.text == "##" and found and k + 1 < len(body):
            after = given.get(body[k + 1].text, [body[k + 1]])
            if found[-1].text == "," and body[k + 1].text == "__VA_ARGS__":  # the comma goes if there are none
                found = [*found, *after] if after else found[:-1]
            elif after:
                found[-1] = found[-1]._replace(text=found[-1].text + after[0].text)
                found += after[1:]
            k += 2
        else:
            pasted = cxx.text_at(body, k + 1) == "##"
            found += (given if pasted else plain).get(token.text, [token])
            k += 1
    return found


def _depends(macro, words):
    """Whether the PTX of an asm statement in a macro's body has a parameter of the macro in it."""
    names = {*(macro.parameters or ()), "__VA_ARGS__"}
    for k, token in enumerate(macro.body):
        if token.text not in words:
            continue
        opens = next((o for o in range(k + 1, len(macro.body)) if macro.body[o].text == "("), None)
        if opens is None:
            continue
        at = opens + 1
        while at < len(macro.body) and macro.body[at].text not in (":", "::", ")"):
            if macro.body[at].text in names or macro.body[at].text == "#":
                return True
            at += 1
        # operand lists that are made of parameters with `#` or whole lists
        closes = cxx.matching(macro.body, opens) or len(macro.body)
        depth_zero, at = [], opens + 1
        while at < closes:
            depth_zero.append(macro.body[at].text)
            at = cxx.step_over(macro.body, at)
        if names & set(depth_zero):
            return True
    return False


def _without_definitions(source, names):
    """The source without the definitions of some macros; their lines stay."""
    pieces, at = [], 0
    for line in cxx.directives(source):
        if cxx.text_at(line, 1) in ("define", "undef") and cxx.text_at(line, 2) in names:
            lines = "\n" * source.count("\n", line[0].start, line[-1].end)
            pieces += [source[at : line[0].start], lines]
            at = line[-1].end
    return "".join(pieces) + source[at:]


def _expanded(source, wanted, macros):
    """The source with the uses of some macros replaced."""
    tokens, pieces, at = cxx.tokens(source), [], 0
    for k, token in enumerate(tokens):
        before = cxx.text_at(tokens, k - 1)
        if token.text not in wanted or token.start < at or before in ("ifdef", "ifndef", "defined"):
            continue
        macro, last, given = macros[token.text], k, {}
        if macro.parameters is not None:
            last = cxx.matching(tokens, k + 1) if cxx.text_at(tokens, k + 1) == "(" else None
            if last is None:
                continue
            given = _arguments(macro, tokens[k + 2 : last])
        body = cxx.written(_substituted(macro, given))
        lines = source.count("\n", token.start, tokens[last].end)
        pieces += [source[at : token.start], body + ("\\\n" if token.directive else "\n") * lines]
        at = tokens[last].end
    return "".join(pieces) + source[at:]
