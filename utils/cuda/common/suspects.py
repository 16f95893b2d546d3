"""Lines that every compiler accepts and that hardly do what is meant: most are right in Python and wrong in C++."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.common.arithmetic import divisions, operators, powers, unset_sums
from utils.cuda.common.cxx import Token, text_at
from utils.cuda.common.missing import indentation

__all__ = ["suspects"]


def suspects(source) -> dict[int, str]:
    """For each suspicious line, what it does and what to write instead."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    found = {}
    for find in (*_FINDERS, *(partial(find, source) for find in _OF_SOURCES)):
        for token, message in find(part):
            found.setdefault(token.line, message)
    return dict(sorted(found.items()))


# ---- reading --------------------------------------------------------------------------------------------------------


_COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
_SAME_WAY = ({"<", "<="}, {">", ">="})


def _conditions(part) -> Iterator[tuple[Token, Sequence[Token]]]:
    """The conditions of `if` and `while`, each with the word before it; not those of `if constexpr`, about types."""
    for k, token in enumerate(part):
        if token.text in ("if", "while") and text_at(part, k + 1) == "(":
            closes = cxx.matching(part, k + 1)
            if closes:
                yield token, part[k + 2 : closes]


def _flat(part) -> list[Token]:
    """The tokens outside brackets, which stay as they are: `a[i] < f(x, y)` is `a [ ] < f ( )`. Template arguments that
    a call or `::` follows are left out: `f<int, 4>(x)` is `f ( )`."""
    found, k = [], 0
    while k < len(part):
        closes = cxx.matching(part, k) if part[k].text == "<" else None
        if closes and text_at(part, closes + 1) in ("(", "::") and text_at(part, k - 1).isidentifier():
            k = closes + 1
            continue
        found.append(part[k])
        closes = cxx.matching(part, k) if part[k].text in ("(", "[", "{") else None
        if closes:
            found.append(part[closes])
        k = closes + 1 if closes else k + 1
    return found


def _pieces(part) -> list[tuple[Token, list[str]]]:
    """A condition in pieces without `&&`, `||` and the like, at every depth: the first token and the operators."""
    found, texts, flat = [], operators(part), _flat(part)
    places = {id(token): k for k, token in enumerate(part)}
    piece = []
    for token in flat:
        text = texts[places[id(token)]]
        if text in ("&&", "||", "and", "or", "?", ":", ",", ";", "=", "return"):
            found.append(piece)
            piece = []
        elif text:
            piece.append((token, text))
    found.append(piece)
    inner = []
    for k, token in enumerate(part):
        if token.text == "(" and (closes := cxx.matching(part, k)):
            inner += _pieces(part[k + 1 : closes]) if places and _outermost(part, k) else []
    return [(piece[0][0], [text for _, text in piece]) for piece in found if piece] + inner


def _outermost(part, at) -> bool:
    """Whether the bracket at index `at` is inside no other one of `part`."""
    return any(token is part[at] for token in _flat(part))


# ---- what is suspicious ---------------------------------------------------------------------------------------------


def _assignments(part):
    """`if (i = n)`"""
    for word, condition in _conditions(part):
        signs = {token.start: text for token, text in zip(condition, operators(condition), strict=True)}
        flat = _flat(condition)
        texts = [signs[token.start] for token in flat]
        if "=" in texts and ";" not in texts:
            left = flat[: texts.index("=")]
            declares = any(
                other.text.isidentifier() and (one.text.isidentifier() or one.text in ("*", "&", ">"))
                for one, other in pairwise(left)
            )
            if left and left[0].text.isidentifier() and not declares:
                shown = f"`{word.text} ({cxx.written(condition)})`"
                yield word, f"{shown} sets `{left[0].text}`, and what it is set to is the condition: `==` compares"


def _chains(part):
    """`0 <= i < n`"""
    for _, condition in _conditions(part):
        for first, texts in _pieces(condition):
            if {"&", "|", "^"} & set(texts):  # they come after comparisons: `a < b & c < d`
                continue
            signs = [text for text in texts if text in _COMPARISONS]
            chains = [
                pair
                for way in _SAME_WAY
                for pair in pairwise(signs)
                if set(pair) <= way and set(signs) <= way | {"==", "!="}
            ]
            for one, other in chains[:1]:
                meant = f"write `a {one} b && b {other} c`"
                yield first, f"`a {one} b {other} c` compares 0 or 1, the result of `a {one} b`, with c: {meant}"


def _negations(part):
    """`not i < n`"""
    for _, condition in _conditions(part):
        for first, texts in _pieces(condition):
            template = {"<", ">"} <= set(texts)
            negations = [text for text in texts if text in ("not", "!")]  # `!a != !b` is logical XOR
            if texts[0] in negations and len(negations) == 1 and _COMPARISONS & set(texts) and not template:
                yield first, f"`{texts[0]}` comes before a comparison in C++: write `!(a < b)` to negate one"


def _masks(part):
    """`i & 1 == 0`"""
    for _, condition in _conditions(part):
        for first, texts in _pieces(condition):
            bits = [k for k, text in enumerate(texts) if text in ("&", "|", "^") and texts[k - 1 : k] != [")"]]
            equal = [k for k, text in enumerate(texts) if text in ("==", "!=")]
            if bits and equal and bits[0] < equal[0] and not set(texts[: bits[0]]) & _COMPARISONS and bits[0]:
                sign, test = texts[bits[0]], texts[equal[0]]
                yield first, f"`{test}` comes before `{sign}` in C++: write `(a {sign} b) {test} c`"


def _empty_bodies(source, part):
    """`if (i < n);`, and a loop that ends in a `;` before what looks like its body, or that cannot have any effect"""
    for k, token in enumerate(part):
        if token.text not in ("if", "for", "while") or text_at(part, k + 1) != "(":
            continue
        closes = cxx.matching(part, k + 1)
        if not closes or text_at(part, closes + 1) != ";" or _ends_do(part, k):
            continue
        after = part[closes + 2] if closes + 2 < len(part) else None
        if token.text == "if":
            meant = not after or after.text != "else"
        else:
            below = after and (k == 0 or part[k - 1].line < token.line < after.line)
            indented = below and indentation(source, after.line) > indentation(source, token.line)
            header = part[k + 2 : closes]
            meant = indented or after and after.text == "{" or _is_without_effect(header)
            meant = meant and not _has_effect(header)
        if meant:
            does = "decides nothing" if token.text == "if" else "repeats nothing"
            yield token, f"the `;` after `{token.text} (...)` ends it, so it {does}: remove the `;`"


def _uncalled(source, part):
    """`__syncthreads;`, or the name of a function of the source alone"""
    own = {function.name: "..." if function.parameters else "" for function in cxx.functions(source)}
    calls = dict.fromkeys(_WAIT, "") | own
    for k, token in enumerate(part):
        of_type = text_at(part, k - 1) == "}"  # `struct { int a; } scan;`
        if token.text in calls and text_at(part, k + 1) == ";" and _starts_statement(part, k) and not of_type:
            yield token, f"`{token.text};` calls nothing: write `{token.text}({calls[token.text]});`"


_WAIT = {"__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block", "__threadfence_system"}


def _starts_statement(part, at) -> bool:
    """Whether a statement starts at index `at`: a `)` before it closes the head of another one, and no cast."""
    if text_at(part, at - 1) == ")":
        opens = cxx.matching(part, at - 1)
        return opens is not None and text_at(part, opens - 1) in ("if", "constexpr", "for", "while")
    return text_at(part, at - 1) in (";", "{", "}", "else", "do")


def _ends_do(part, at) -> bool:
    """Whether the `while` at index `at` ends a `do { ... } while (...);`, or may end a `do` without braces."""
    opens = cxx.matching(part, at - 1) if text_at(part, at - 1) == "}" else None
    if opens is not None:
        return text_at(part, opens - 1) == "do"
    statement = next((k for k in range(at - 2, -1, -1) if part[k].text in (";", "{", "}")), -1)
    return part[at].text == "while" and text_at(part, statement + 1) == "do"


def _has_effect(header) -> bool:
    """Whether the condition of a `for` or `while` calls a function or sets something, as that of a spin lock does."""
    ends = [k for k, token in enumerate(header) if token.text == ";"] or [-1, len(header)]
    texts = operators(header[ends[0] + 1 : ends[-1]])
    calls = any(one.isidentifier() and other == "(" for one, other in pairwise(texts))
    return calls or any(text in ("++", "--") or text.endswith("=") and text not in _COMPARISONS for text in texts)


def _is_without_effect(header) -> bool:
    """Whether the header of a `for` changes only what it declares: `int j = 0; j < n; j++`."""
    texts = operators(header)
    reads = {"(", "[", "!", ".", "->", "*", "&", "="} & set(texts[texts.index(";") :]) if ";" in texts else set()
    if texts.count(";") != 2 or reads or "volatile" in texts:  # it may wait for another thread
        return False
    declared = {header[k - 1].text for k, text in enumerate(texts[: texts.index(";")]) if text == "=" and k > 1}
    changed = {
        name
        for k, text in enumerate(texts)
        if text in ("++", "--") or text.endswith("=") and text not in (*_COMPARISONS, "=")
        for name in (text_at(header, k - 1), text_at(header, k + 2) if text in ("++", "--") else "")
        if name.isidentifier() or name == "]"
    }
    return bool(declared) and changed <= declared


def _indexes(part):
    """`x[i, j]`"""
    for k, token in enumerate(part):
        before = text_at(part, k - 1)
        if token.text != "[" or not (before.isidentifier() or before in ("]", ")")) or before in ("auto", "return"):
            continue
        closes = cxx.matching(part, k)
        inside = cxx.at_commas(part[k + 1 : closes]) if closes else []
        if len(inside) == 1 and text_at(inside[0], 0) == "(" and cxx.matching(inside[0], 0) == len(inside[0]) - 1:
            inside = cxx.at_commas(inside[0][1:-1])  # x[(i, j)]
        if len(inside) > 1 and text_at(part, closes + 1) not in ("(", "{"):
            dropped = f"the comma drops what is before it: this is `[{cxx.written(inside[-1])}]`"
            yield token, f"{dropped}. Element (r, c) of a matrix with w columns is `x[r * w + c]`"


def _tuples(part):
    """`<<<(1, 1), (16, 16)>>>`, `dim3 b = (16, 16)`, `dim3 b((16, 16))` and `b = (16, 16)`"""
    sizes = set()  # the names that are declared as dim3
    for k, token in enumerate(part):
        given = []
        if token.text == "<<<":
            given = cxx.at_commas(part[k + 1 : cxx.launch(part, k).closes])[:2]
        elif token.text == "dim3":
            ends = k
            while ends < len(part) and part[ends].text not in (";", ")"):
                ends = cxx.step_over(part, ends)
            for declared in cxx.at_commas(part[k + 1 : ends]):
                sizes |= {declared[0].text} if declared and declared[0].text.isidentifier() else set()
                given += [_initial(declared)]
        elif token.text in sizes and text_at(part, k + 1) == "=":
            ends = cxx.step_over(part, k + 2)
            given = [part[k + 2 : ends]] if text_at(part, ends) in (";", ",", ")") else []
        for argument in given:
            closes = cxx.matching(argument, 0) if text_at(argument, 0) == "(" else None
            values = cxx.at_commas(argument[1:closes]) if closes and closes == len(argument) - 1 else []
            if len(values) > 1:
                inside = cxx.written(argument[1:closes])
                yield argument[0], f"`({inside})` is {cxx.written(values[-1])} in C++: write `dim3({inside})`"


def _initial(declared):
    """What a `dim3` is made of: `(1, 2)` of `b = (1, 2)` and of `b((1, 2))`."""
    k = int(bool(declared) and declared[0].text.isidentifier())
    closes = cxx.matching(declared, k) if text_at(declared, k) in ("(", "{") else None
    if text_at(declared, k) == "=":
        return declared[k + 1 :]
    return declared[k + 1 : closes] if closes else ()


def _case_ranges(part):
    """`case 1 ... 5:` nvcc 13.0 takes it and compiles it as `case 1:`, as its PTX shows."""
    for k, token in enumerate(part):
        if token.text != "case":
            continue
        label = next((part[k + 1 : j] for j in range(k + 1, len(part)) if part[j].text in (":", ";", "{")), ())
        dots = [j for j in range(len(label) - 2) if all(word.text == "." for word in label[j : j + 3])]
        if dots:
            first, last = cxx.written(label[: dots[0]]), cxx.written(label[dots[0] + 3 :])
            yield token, f"nvcc compiles `case {first} ... {last}` as `case {first}`: name each value"


def _tensor_maps(part):
    """`__global__ void k(const CUtensorMap map)`: nvcc gives `&map` the address of a copy in local memory."""
    for k, token in enumerate(part):
        if token.text != "__global__":
            continue
        opens = next((at for at in range(k, len(part)) if text_at(part, at) == "(" and _is_name(part, at - 1)), None)
        closes = cxx.matching(part, opens) if opens else None
        for parameter in cxx.at_commas(part[opens + 1 : closes]) if closes else ():
            words = {word.text for word in parameter}
            if "CUtensorMap" in words and not words & {"*", "&", "__grid_constant__"}:
                what = f"the copy engine cannot read `{cxx.written(parameter)}`, of which each thread has a copy"
                yield (
                    parameter[0],
                    f"{what}: write `const __grid_constant__ CUtensorMap {cxx.parameter_name(parameter)}`",
                )


def _references(source, part):
    """`__global__ void k(float& x)`, or `(std::vector<float> v)`, which refers to the host's memory"""
    for kernel in cxx.declared_kernels(source):
        for parameter in kernel.parameters:
            words = {token.text for token in _flat(parameter)}
            if "&" in words or "*" not in words and "std" in words and words & _CONTAINERS:
                what = f"a GPU cannot reach what `{cxx.written(parameter)}` refers to"
                yield parameter[0], f"{what}: take a pointer{' or a value' * (not words & _CONTAINERS)}"


def _copies_of_the_host(source, part):
    """`k<<<1, 32>>>(table)` or `cudaMemcpy(table, ...)` of a `__device__` array, or `&total`: the host's own copy"""
    variables = [d for d in cxx.declarations(source) if d.parameters is None and "__managed__" not in d.words]
    marked = [d for d in variables if _OF_DEVICE & set(d.words)]
    names = {name for declaration in marked for name in declaration.names}
    arrays = {a.text for declaration in marked for a, b in pairwise(declaration.tokens) if b.text == "["}
    declared = [b.text for a, b in pairwise(part) if a.text.isidentifier() or a.text in ("*", "&", ">")]
    for k, token in enumerate(part if names else ()):
        opens = k + 1 if token.text in _MOVING and text_at(part, k + 1) == "(" else None
        if token.text == "<<<" and not (launch := cxx.launch(part, k)).problem:
            opens = launch.closes + 1
        closes = cxx.matching(part, opens) if opens else None
        for argument in cxx.at_commas(part[opens + 1 : closes]) if closes else ():
            name, by_address = argument[-1].text if argument else "", text_at(argument, len(argument) - 2) == "&"
            if name in (names if by_address else arrays) and declared.count(name) - by_address <= 1:
                instead = f"`cudaGetSymbolAddress((void**)&p, {name})` gives the GPU's address"
                instead += ", and cudaMemcpyToSymbol copies to it" if token.text in _MOVING else ""
                yield argument[-1], f"in host code, `{name}` is a copy of the host's own: {instead}"


def _copies_to_a_vector(part):
    """`cudaMemcpy(&v, ...)` of a std::vector: of the object itself, which holds a pointer to its elements"""
    vectors = set()  # the names whose last declaration so far is of one
    for k, token in enumerate(part):
        if token.text.isidentifier() and (text_at(part, k - 1).isidentifier() or text_at(part, k - 1) in (">", "*")):
            opens = cxx.matching(part, k - 1) if text_at(part, k - 1) == ">" else None
            is_vector = opens is not None and text_at(part, opens - 1) == "vector"
            (vectors.add if is_vector else vectors.discard)(token.text)
        closes = cxx.matching(part, k + 1) if token.text in _MOVING and text_at(part, k + 1) == "(" else None
        for argument in cxx.at_commas(part[k + 2 : closes])[:2] if closes else ():
            if text_at(argument, len(argument) - 2) == "&" and argument[-1].text in vectors:
                name = argument[-1].text
                what = f"`&{name}` is the address of the std::vector itself, which only points to its elements"
                yield argument[-1], f"{what}: write `{name}.data()`"


_CONTAINERS = {"vector", "string", "map", "unordered_map", "set", "list", "deque"}
_OF_DEVICE = {"__device__", "__constant__"}
_MOVING = {"cudaMemcpy", "cudaMemcpyAsync", "cudaMemset", "cudaMemsetAsync"}


def _is_name(part, at):
    return text_at(part, at).isidentifier() and not text_at(part, at).startswith("__")


_FINDERS = [_assignments, _chains, _negations, _masks, _indexes, _tuples, divisions]
_FINDERS += [_tensor_maps, _case_ranges, _copies_to_a_vector]
# These ask what the source declares.
_OF_SOURCES = [powers, unset_sums, _empty_bodies, _uncalled, _references, _copies_of_the_host]
