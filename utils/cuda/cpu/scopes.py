"""Where the statements of device code begin, and the declarations inside types and host functions, by their scopes."""

from typing import NamedTuple

from utils.cuda.common import cxx

__all__ = ["ALIGNING", "NOT_DECLARATIONS", "TYPES", "Scope", "needs_name_itself", "statements"]

ALIGNING = {"alignas", "__align__"}
TYPES = {"struct", "class", "union", "enum"}
_ATTRIBUTES = {*ALIGNING, "__attribute__", "__builtin_align__"}
_DEVICE = {"__global__", "__device__"}
#: What begins a statement that is not the declaration of a local variable on the stack.
NOT_DECLARATIONS = {"return", "if", "for", "while", "do", "switch", "case", "default", "goto", "break", "continue"}
NOT_DECLARATIONS |= {"using", "typedef", "static", "constexpr", "extern", "else", "template", "delete", "throw", "try"}
NOT_DECLARATIONS |= {"thread_local", "__shared__", "__constant__", "new", "asm", "public", "private", "protected"}
NOT_DECLARATIONS |= {"auto", *TYPES}


class Scope(NamedTuple):
    kind: str  # 'type', 'host', 'device' or 'jumps': device code with labels, into which one can jump
    end: int  # the index of its `}`


def statements(source):
    """The statements and declarations inside the source's braces: each one's first index among the tokens, and scope.

    What is in parentheses is none, such as the head of a `for`, except for the bodies of lambdas.
    """
    part, marks = cxx.tokens(source), _device_words(source)
    scopes, heads, begins, k = [], [], 0, 0  # heads: the ends of parentheses
    while k < len(part):
        token = part[k]
        while scopes and k >= scopes[-1].end:
            scopes.pop()
            begins = k + 1
        while heads and k >= heads[-1]:
            heads.pop()
        if token.text == "{" and not token.directive:
            closes = cxx.matching(part, k)
            if closes is None:
                return
            scopes.append(Scope(_kind(part, begins, k, closes, scopes, marks), closes))
        elif token.text == "(" and not token.directive:
            heads.append(cxx.matching(part, k) or k)
        inside = heads and (not scopes or heads[-1] < scopes[-1].end)  # the parentheses are the innermost brackets
        if token.text in ("{", "}", ";") or token.directive:
            begins = begins if inside and token.text == ";" else k + 1
        elif k == begins and scopes and not inside:
            yield k, scopes[-1]
        k += 1


def needs_name_itself(part, k) -> bool:
    """Whether the use of a variable at index `k` would mean something else if the name were that of a reference: its
    type, or a constant that comes from it."""
    if cxx.text_at(part, k - 1) == "(" and cxx.text_at(part, k - 2) == "decltype":
        return True
    while k >= 0 and part[k].text not in (";", "{", "}"):
        if part[k].text in ("constexpr", "static_assert"):
            return True
        k -= 1
    return False


def _device_words(source):
    """What marks device code: CUDA's words, and macros for them, as in `#define DEVICE __device__ __forceinline__`."""
    macros = cxx.macros(source).items()
    return _DEVICE | {name for name, macro in macros if _DEVICE & {token.text for token in macro.body}}


def _without_attributes(part, begins, opens):
    """The words from one index to another, without `alignas(16)` and `__attribute__((packed))`."""
    words, k = [], begins
    while k < opens:
        if part[k].text in _ATTRIBUTES and part[k + 1].text == "(":
            k = cxx.step_over(part, k + 1)
        else:
            words.append(part[k].text)
            k += 1
    return words


def _kind(part, begins, opens, closes, scopes, marks):
    words = _without_attributes(part, begins, opens)
    if "(" not in words and TYPES & set(words):
        return "type"
    if "namespace" in words or '"C"' in words and "(" not in words:
        return "type"
    if "switch" in words[:1]:
        return "jumps"
    if scopes and scopes[-1].kind in ("host", "device", "jumps"):
        return scopes[-1].kind
    if not marks & set(words) or "constexpr" in words:
        return "host"
    return "jumps" if any(token.text == "goto" for token in part[opens:closes]) else "device"
