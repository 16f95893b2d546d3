"""A source's own variables that are named like CUDA's built-in ones: `dim3 gridDim(64)` in a host function.

For nvcc such a variable hides the built-in one. Here the built-in ones are macros, so a source's own get another name.
"""

from utils.cuda.common import cxx

__all__ = ["BUILT_IN", "is_scope", "renamed"]

#: Macros in include/cuda_on_cpu/launch.h.
BUILT_IN = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_NO_TYPES = {
    "return",
    "case",
    "else",
    "throw",
    "sizeof",
    "delete",
    "new",
    "goto",
    "do",
    "and",
    "or",
    "not",
    "co_return",
}
_CLASSES = {"struct", "class", "union"}


def renamed(source) -> str:
    """The source with `gridDim_` wherever gridDim is a variable, a parameter or a member of its own."""
    tokens = cxx.tokens(source)
    if not any(token.text in BUILT_IN for token in tokens):
        return source
    units = [unit for declaration in cxx.declarations(source) for unit in _units(declaration)]
    of_classes = {}
    for unit, kind, heads in units:
        if kind == "members":
            of_classes.setdefault(heads[0], set()).update(_declared(unit))
    members = set().union(*of_classes.values())
    own, host = set(), set()
    for unit, kind, heads in units:
        inherited = set().union(*(of_classes.get(name, set()) for name in heads))
        names = _declared(unit) | (members if kind != "function" else inherited)
        kind = "method" if inherited else kind
        host |= names
        since = {name: 0 for name in names} if kind != "function" else _begin(unit, names)
        own |= {token.start for token in unit if token.text in names and token.start >= since[token.text]}
    for k, token in enumerate(tokens):
        if token.text in BUILT_IN and cxx.text_at(tokens, k - 1) in (".", "->"):
            own.add(token.start)
    own |= _in_macros(source, tokens, host)
    places = [token for token in tokens if token.start in own]
    pieces, at = [], 0
    for token in places:
        pieces += [source[at : token.end], "_"]
        at = token.end
    return "".join(pieces) + source[at:]


def is_scope(word) -> bool:
    """Whether a word before `::` is what has the name behind it."""
    return word == ">" or word.isidentifier() and word not in _NO_TYPES


def _units(declaration):
    """The parts of a declaration whose names are their own: (tokens, 'function', 'method' or 'members', the names of
    its class and of those it inherits from)."""
    tokens = declaration.tokens
    if declaration.parameters is not None or not _CLASSES & set(declaration.words) or not declaration.defined:
        yield tokens, "method" if declaration.returns.endswith("::") else "function", ()
        return
    in_template = ("<", ",")  # before the `class` of `template <class T>`
    begins = next(
        k for k, t in enumerate(tokens) if t.text in _CLASSES and cxx.text_at(tokens, k - 1) not in in_template
    )
    heads = [token.text for token in tokens[begins + 1 : declaration.head] if token.text.isidentifier()] or [""]
    members, at, k = [], declaration.head + 1, declaration.head + 1
    while k < len(tokens) - 1:
        if tokens[k].text == "{" and any(token.text == "(" for token in tokens[at:k]):
            end = cxx.step_over(tokens, k)
            device = any(token.text in ("__device__", "__global__") for token in tokens[at:k])
            yield tokens[at:end], "function" if device and not _declared(tokens[at:end]) else "method", heads
            at = k = end
        elif tokens[k].text == ";":
            members += tokens[at : k + 1]
            at = k = k + 1
        else:
            k = cxx.step_over(tokens, k) if tokens[k].text in "([{" else k + 1
    yield members, "members", heads


def _declared(part) -> set[str]:
    """The built-in names that these tokens declare."""
    return {token.text for k, token in enumerate(part) if token.text in BUILT_IN and _is_declared(part, k)}


def _begin(part, names) -> dict[str, int]:
    """Where each name is first declared: before that, a function means the built-in one."""
    return {
        name: min(token.start for k, token in enumerate(part) if token.text == name and _is_declared(part, k))
        for name in names
    }


def _is_declared(part, k):
    before, after = cxx.text_at(part, k - 1), cxx.text_at(part, k + 1)
    if after not in ("=", ";", ",", ")", "(", "{", "[", ":"):
        return False
    if before == ",":
        return after in ("=", "(", "{", "[") or _is_in_declaration(part, k)
    while before in ("*", "&", "const", "__restrict__"):  # `const dim3& gridDim`
        k -= 1
        before = cxx.text_at(part, k - 1)
    return before == ">" or before.isidentifier() and before not in _NO_TYPES


def _is_in_declaration(part, k):
    """Whether token k is declared in a statement such as `dim3 grid, gridDim;`."""
    first = k
    while first and part[first - 1].text not in (";", "{", "}", "("):
        opens = cxx.matching(part, first - 1) if part[first - 1].text == ")" else None
        first = first - 1 if opens is None else opens
    words = [token.text for token in part[first : first + 2]]
    return first < k and words[0] not in _NO_TYPES and all(word.isidentifier() for word in words)


def _in_macros(source, tokens, host) -> set[int]:
    """Where macros mean host variables: their own parameters, and in `<<<...>>>`."""
    found = {token.start for line in cxx.directives(source) for token in line if token.text in _own_parameters(line)}
    for launch in cxx.launches(source):
        if tokens[launch.opens].directive and not launch.problem:
            inside = tokens[launch.opens : launch.closes]
            found |= {token.start for token in inside if token.text in host}
    return found


def _own_parameters(line):
    if len(line) < 4 or line[1].text != "define" or line[3].text != "(" or line[3].start != line[2].end:
        return set()
    end = cxx.matching(line, 3) or 0
    return {token.text for token in line[3:end]} & BUILT_IN
