"""Arithmetic that every compiler accepts and that means something else than it seems to: `1 / 2`, `x ^ 2`, or a sum
without a first value.

What suspects.py asks of these lines; the reader of operators is for both.
"""

import re

from utils.cuda.common import cxx
from utils.cuda.common.cxx import text_at
from utils.cuda.common.missing import declared_names

__all__ = ["divisions", "operators", "powers", "unset_sums"]


def operators(part) -> list[str]:
    """The texts of the tokens, with operators of several characters as one, followed by empty ones: '==', ''."""
    texts, k = [token.text for token in part], 0
    while k + 1 < len(texts):
        together = texts[k] + texts[k + 1]
        if part[k].end == part[k + 1].start and together in _TWO_CHARACTERS:
            texts[k], texts[k + 1] = together, ""
            if together in ("<<", ">>") and text_at(part, k + 2) == "=" and part[k + 1].end == part[k + 2].start:
                texts[k], texts[k + 2] = together + "=", ""
                k += 1
            k += 1
        k += 1
    return texts


_TWO_CHARACTERS = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "++", "--"} | {c + "=" for c in "+-*/%&|^"}


def divisions(part):
    """`float v = 1 / 2;`"""
    for k, token in enumerate(part):
        one, other = text_at(part, k - 1), text_at(part, k + 1)
        if (
            token.text != "/"
            or not (one.isdecimal() and other.isdecimal())
            or not int(other)
            or int(one) % int(other) == 0
        ):
            continue
        begins = next((b + 1 for b in range(k, -1, -1) if part[b].text in (";", "{", "}")), 0)
        words = [before.text for before in part[begins:k]]
        inside_index = words.count("[") > words.count("]")
        if text_at(part, k - 2) not in ("*", "/", "%") and not inside_index and not _WHOLE & set(words):
            yield token, f"`{one} / {other}` is {int(one) // int(other)}, a whole number: write `{one}.0f / {other}`"


_WHOLE = {*"int unsigned size_t long dim3 <<< short char int64_t uint32_t enum template".split()}


def powers(source, part):
    """`float area = r ^ 2`, but not the partner of a thread in a butterfly, `lane ^ 2`, or a mask among other bits."""
    indexes = None
    for k, token in enumerate(part):
        before, base, exponent = (text_at(part, k + step) for step in (-2, -1, 1))
        literal = base in ("2", "10") and exponent.isdecimal() and before != "%"  # `% 2 ^ 1`: a parity
        square = exponent == "2" and (base.isidentifier() or base in (")", "]"))
        if token.text != "^" or not literal and not square:
            continue
        begins = next((b + 1 for b in range(k, -1, -1) if part[b].text in (";", "{", "}")), 0)
        ends = next((b for b in range(k, len(part)) if part[b].text in (";", "{", "}")), len(part))
        texts = operators(part[begins:ends])
        of_bits = {"<<", ">>", "&", "|", "~", "^="} & set(texts) or texts.count("^") > 1
        in_brackets = texts[: k - begins].count("[") > texts[: k - begins].count("]")
        if of_bits or in_brackets or any("shfl" in text for text in texts):
            continue
        if indexes is None:
            indexes = _indexes(source, part)
        names = _names(part[begins:k]) | ({_function_at(source, token)} if part[begins].text == "return" else set())
        if literal or not names & indexes:
            yield token, f"`^` is the bitwise XOR, not a power: write `a * a` (if XOR is meant: `^ 0x{exponent}`)"


# What threads, lanes and words of bits are called, and the types of the latter.
_CALLED = re.compile(
    r"[ijkt]|t[xyz]|\w*(?:[it]d|idx|index|lane|thread|warp|rank|self|peer|partner|other|buddy|neighbou?r|sibling|bits?|mask|"
    r"flags?|key|hash|seed|state|parity|code|src|dst|source|target|offset|pos|swizzled?)\d*|threadIdx|blockIdx",
    re.IGNORECASE,
)
_OF_BITS = re.compile(r"unsigned|size_t|uint\d+_t|uint|uchar|ushort|ulong")
_TYPES = {*"int long short char float double bool void const __restrict__ * &".split()}


def _indexes(source, part) -> set[str]:
    """The names, of all scopes, that may be a thread's or an element's index, or hold bits: by their name or type, by
    what they are used for, and by what they are computed from."""
    found = {token.text for token in part if _CALLED.fullmatch(token.text)}
    for k, token in enumerate(part):
        if _OF_BITS.fullmatch(token.text):  # `unsigned long long bits`, `(unsigned)n ^ 2`
            found |= {token.text, next((word.text for word in part[k + 1 :] if word.text not in _TYPES), "")}
        closes = cxx.matching(part, k) if token.text in ("[", "(") else None
        if closes and (token.text == "[" or "shfl" in text_at(part, k - 1)):
            found |= {inside.text for inside in part[k + 1 : closes] if inside.text.isidentifier()}
    found -= _TYPES
    declared = declared_names(source)
    parameters = {f.name: {cxx.parameter_name(p) for p in f.parameters} for f in cxx.functions(source)}
    known = -1
    while known < len(found):
        known = len(found)
        for k, token in enumerate(part):
            if token.text == "=" != text_at(part, k + 1) and text_at(part, k - 1).isidentifier():
                ends = next((b for b in range(k, len(part)) if part[b].text in (";", "{", "}")), len(part))
                found |= {text_at(part, k - 1)} if _names(part[k:ends]) & found else set()
            elif token.text == "(" and text_at(part, k - 1) in parameters:
                closes = cxx.matching(part, k)
                given = _names(part[k + 1 : closes]) if closes and part[k - 1].start not in declared else set()
                found |= parameters[text_at(part, k - 1)] if given & found else set()
    return found


def _names(part) -> set[str]:
    """The names in an expression outside `[...]`: of `x[i] + n`, x and n."""
    found, k = set(), 0
    while k < len(part):
        closes = cxx.matching(part, k) if part[k].text == "[" else None
        found |= {part[k].text} if part[k].text.isidentifier() else set()
        k = closes + 1 if closes else k + 1
    return found


def _function_at(source, token) -> str:
    """The name of the function around a token; empty outside of functions."""
    around = (f for f in cxx.functions(source) if f.tokens[0].start <= token.start < f.tokens[-1].end)
    return next((f.name for f in around), "")


# ---- sums without a first value -------------------------------------------------------------------------------------


def unset_sums(source, part):
    """`float sum; for (int j = 0; j < n; j++) sum += x[j];`, where nothing can have set `sum` when it is first read.

    The compilers say so of straight code alone: a loop might not run.
    """
    texts, macros = operators(part), cxx.macros(source)
    directives = [token.start for token in cxx.tokens(source) if token.directive]
    for k, token in enumerate(part):
        if token.text not in _NUMBERS or not _in_function(part, k):
            continue
        names = next(j for j in range(k, len(part) + 1) if text_at(part, j) not in _NUMBERS)
        ends = names
        while text_at(part, ends) not in (";", ""):
            ends = cxx.step_over(part, ends)
        scope = next(_closing(part, ends), len(part))
        for name in _without_value(part[names:ends]):
            named = (j for j in range(names, scope) if part[j].text == name)
            uses = [j for j in named if part[j - 1].text not in _OF_ANOTHER][1:]
            if not uses or uses[0] < ends or not _is_updated(texts, uses[0]):
                continue
            first, between = uses[0], set(texts[ends : uses[0]])
            hidden = any(part[ends].start < start < part[first].start for start in directives)
            hidden |= any(name in {t.text for t in macros[word].body} for word in between & macros.keys())
            hidden |= bool({"goto", "asm"} & set(texts[ends:scope])) or _in_lambda_or_head(part, ends, first)
            again = between & {"for", "while", "do"} and between & {"if", "else", "switch", "?", "&&", "||"}
            if not hidden and not (again and any(_may_set(texts, use) for use in uses[1:])):
                meant = f"{cxx.written(part[k:names])} {name} = ..."
                yield part[first], f"this reads `{name}`, which has no value yet: declare it as `{meant};`"


_NUMBERS = {"char", "short", "int", "long", "float", "double", "signed", "unsigned", "size_t"}
_OF_ANOTHER = {".", "->", "::"}
_UPDATES = {"++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


def _in_function(part, k) -> bool:
    """Whether the word at index `k` begins a statement inside a function."""
    if text_at(part, k - 1) not in (";", "{", "}"):
        return False
    while k > 0:
        k -= 1
        if part[k].text == "{":
            head = cxx.matching(part, k - 1) if text_at(part, k - 1) == ")" else None
            if head and text_at(part, head - 1) in ("__align__", "alignas"):  # typedef struct __align__(16) { ... } P;
                return False
            return text_at(part, k - 1) in (")", "else", "do", ";", "{", "}", "const")
        if part[k].text in ("}", ")", "]"):
            opens = cxx.matching(part, k)
            if opens is None:
                return False
            k = opens
    return False


def _closing(part, k):
    """The indices of the brackets that close around index `k`, innermost first."""
    while k < len(part):
        if part[k].text in ("}", ")", "]"):
            yield k
        k = cxx.step_over(part, k)


def _without_value(declarators) -> list[str]:
    """'a', 'c' of `a, b = 1, c, *d, e[4]`."""
    return [each[0].text for each in cxx.at_commas(declarators) if len(each) == 1 and each[0].text.isidentifier()]


def _value(texts, k) -> list[str]:
    """What the `=` after the name at index `k` sets it to."""
    ends, depth = k + 2, 0
    while ends < len(texts) and not (depth <= 0 and texts[ends] in (";", ",", ")", "]", "{", "}")):
        depth += (texts[ends] in ("(", "[")) - (texts[ends] in (")", "]"))
        ends += 1
    return texts[k + 2 : ends]


def _is_updated(texts, k) -> bool:
    """Whether the name at index `k` is read there, to be set: `s += 1`, `++s`, `s = max(s, 1)`."""
    if texts[k + 1] == "=":
        value = _value(texts, k)
        reads = [j for j, text in enumerate(value) if text == texts[k] and value[j - 1] not in _OF_ANOTHER]
        return bool(reads) and not any(value[j - 1] == "&" or "=" in value[j + 1 : j + 2] for j in reads)
    beside = [text for text in (texts[k - 1] or texts[k - 2], texts[k + 1]) if text]
    return bool(_UPDATES & set(beside[-1:])) or beside[0] in ("++", "--")


def _may_set(texts, k) -> bool:
    """Whether the name at index `k` may get a value there that does not depend on its own."""
    if texts[k + 1] == "=":
        return not _is_updated(texts, k)
    return texts[k - 1] == "&" or texts[k - 1] in ("(", ",", ">>") and texts[k + 1] in (")", ",", ";")


def _in_lambda_or_head(part, begins, k) -> bool:
    """Whether the place at index `k` is inside a lambda that begins after index `begins`, or in the head of a `for`,
    whose last part runs after what follows it."""
    for j in range(begins, k):
        opens = text_at(part, j - 1)
        if part[j].text == "[" and not (opens.isidentifier() or opens in ("]", ")")):
            return True
        closes = cxx.matching(part, j + 1) if part[j].text == "for" else None
        if closes and j < k < closes:
            return True
    return False
