"""Labels that nvcc accepts and C++ compilers reject.

A `case` may jump over a variable with an initial value. So what comes between two labels is put into braces. If a
later part of the `switch` uses what it declares, `int a = 1;` becomes `int a; a = 1;` instead. A label may be the last
thing in a block: it gets a `;`.
"""

from utils.cuda.common import cxx

__all__ = ["edits"]

_NUMBERS = {*"signed unsigned char short int long float double bool size_t".split()}
_NO_TYPES = {"return", "goto", "break", "continue", "case", "default", "else", "delete", "throw", "using", "typedef"}


def edits(tokens) -> list[tuple[int, int, str]]:
    """The braces and semicolons that a source needs, as (start, end, text)."""
    found = []
    for k, token in enumerate(tokens):
        if token.text == ":" and cxx.text_at(tokens, k + 1) == "}":
            found.append((token.end, token.end, ";"))
        if token.text != "switch" or token.directive or cxx.text_at(tokens, k + 1) != "(":
            continue
        opens = (cxx.matching(tokens, k + 1) or k) + 1
        closes = cxx.matching(tokens, opens) if cxx.text_at(tokens, opens) == "{" else None
        if closes is not None:
            found += _in_switch(tokens, opens, closes)
    return found


def _in_switch(tokens, opens, closes):
    found, parts = [], _parts(tokens, opens, closes)
    for first, end in parts[:-1]:
        declared = [_declared(statement) for statement in _statements(tokens, first, end)]
        names = {name for some, _ in declared for name in some}
        later = {token.text for token in tokens[end:closes]}
        if any(initial for _, initial in declared) and not names & later:
            found += [(tokens[first].start, tokens[first].start, "{ "), (tokens[end].start, tokens[end].start, "} ")]
        elif any(initial for _, initial in declared):
            sets = [_set_apart(statement) for statement in _statements(tokens, first, end)]
            found += [(token.start, token.end, f"; {name} =") for name, token in filter(None, sets)]
    return found


def _set_apart(statement):
    """The name in `unsigned int a = 1` or `float* p = x`, and the `=`; None for any other statement."""
    equals = next((k for k, token in enumerate(statement) if token.text == "="), 0)
    words = [token.text for token in statement[:equals]]
    plain = words and (_NUMBERS >= {*words[:-1]} - {"*"}) and words[-1].isidentifier() and words[-1] not in _NUMBERS
    return (words[-1], statement[equals]) if plain and len(words) > 1 and len(cxx.at_commas(statement)) == 1 else None


def _parts(tokens, opens, closes):
    """What follows each label of a switch, up to the next label, as (first token, end token)."""
    parts, k, first = [], opens + 1, None
    while k < closes:
        if tokens[k].text in ("case", "default"):
            if first is not None and first < k:
                parts.append((first, k))
            while k < closes and tokens[k].text != ":":
                k = cxx.step_over(tokens, k) if tokens[k].text in "([{" else k + 1
            first = k + 1
            k += 1
        else:
            k = cxx.step_over(tokens, k) if tokens[k].text in "([{" else k + 1
    return [*parts, (first, closes)] if first is not None else parts


def _statements(tokens, first, end):
    at = k = first
    while k < end:
        if tokens[k].text == ";":
            yield tokens[at:k]
            at = k = k + 1
        elif tokens[k].text == "{":
            in_value = any(token.text == "=" for token in tokens[at:k])  # a lambda
            k = cxx.step_over(tokens, k)
            at = at if in_value or cxx.text_at(tokens, k) == ";" else k
        else:
            k = cxx.step_over(tokens, k) if tokens[k].text in "([" else k + 1


def _declared(statement):
    """The names that a statement may declare, and whether one of them may have an initial value."""
    words = [token.text for token in statement]
    if len(words) < 2 or words[0] in _NO_TYPES or not words[0].isidentifier():
        return set(), False
    if not words[1].isidentifier() and words[1] not in ("::", "<", "*", "&"):
        return set(), False
    ends = next((k for k, word in enumerate(words) if word in ("=", "(", "{")), len(words))
    if ends < 2 or not words[ends - 1].isidentifier() and words[ends - 1] != "]":
        return set(), False
    # `S s;` of a class may have a constructor.
    initial = ends < len(words) or (words[0] not in _NUMBERS and words[0] not in ("const", "volatile", "struct"))
    places = [(part, cxx.declared_at(part)) for part in cxx.at_commas(statement)]
    names = {part[at].text for part, at in places if at is not None}
    return names | {words[ends - 1]} if ends < len(words) else names, initial
