"""What a trace reads from the learner's C++ text."""

import functools
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.cpu.ptx.headers import WORDS

__all__ = ["LOOPS", "Branch", "alternatives", "array_dimensions", "array_of_line", "assigned", "branches"]
__all__ += ["calls_itself", "code_around", "computed_from", "coordinates", "copies_as_group", "declared_shape"]
__all__ += ["guard", "kernel_parameter", "left_before", "line_of", "lines_of_asm", "loop_around", "parameter_type"]
__all__ += ["parameters_around", "runs_over_all", "takes_remainder", "uses_result", "without_comment"]


@functools.lru_cache(maxsize=8)
def lines_of_asm(source) -> set[int]:
    """The lines of the `asm` statements in functions that kernels call."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    found, kernels = set(), [f for f in cxx.functions(source) if "__global__" in f.words]
    for k, token in enumerate(part):
        if token.text in WORDS:
            opens = next((i for i in range(k + 1, min(k + 4, len(part))) if part[i].text == "("), k)
            found |= {*range(token.line, part[cxx.matching(part, opens) or opens].line + 1)}
    return found - {line for k in kernels for line in range(k.tokens[0].line, k.tokens[-1].line + 1)}


@functools.lru_cache(maxsize=64)
def code_around(source, line) -> str:
    """What the kernel of a line consists of, as far as the text says: without the other kernels of the source."""
    kernels = [f for f in cxx.functions(source) if "__global__" in f.words]
    spans = [(kernel.tokens[0].line, kernel.tokens[-1].line) for kernel in kernels]
    others = {k for first, last in spans if not first <= line <= last for k in range(first, last + 1)}
    kept = (text for k, text in enumerate(source.split("\n"), 1) if k not in others or k == line)
    return "\n".join(kept)


def line_of(lines, asm):
    """The line that a problem names: `lines` are those of functions inlined into one another, the innermost first.

    That is the innermost, but a function that wraps an instruction, `copy_16(to, from)`, is named where it is called:
    its `asm` statement, one of the lines `asm`, is the same for all. None if there is no line.
    """
    outside = [line for line in lines if line not in asm]
    return (outside or lines or [None])[0]


def array_dimensions(type_name) -> tuple[int, ...]:
    """(16, 17) of the compiler's 'float [16][17]', () of a type that is not an array."""
    return tuple(int(n) for n in re.findall(r"\[(\d+)\]", type_name))


def array_of_line(source, line_text, type_name):
    """The array that is indexed in a line and declared with `type_name`, if there is exactly one.

    `type_name` is 'float [17]' for a row of `float tile[16][17]`. Returns the array's name and how many dimensions it
    has before those of `type_name`; None and 0 if the source does not show it.
    """
    element = [token.text for token in cxx.tokens(type_name.strip("'").partition("[")[0])]
    least, part = len(array_dimensions(type_name)), cxx.tokens(source)
    indexed = {token.text for token, after in pairwise(cxx.tokens(line_text)) if after.text == "["}
    dimensions = {name: _declared_dimensions(part, name, element) for name in indexed if name.isidentifier()}
    found = [(name, count - least) for name, count in dimensions.items() if count >= least]
    return found[0] if len(found) == 1 else (None, 0)


def _declared_dimensions(part, name, element) -> int:
    """How many dimensions the array declared with this name and element type has; 0 if there is none."""
    for k, (token, after) in enumerate(pairwise(part)):
        if (token.text, after.text) != (name, "["):
            continue
        first = next((b + 1 for b in range(k - 1, -1, -1) if part[b].text in (*";(){}=",)), 0)
        words = [before.text for before in part[first:k]]
        if not any(words[i : i + len(element)] == element for i in range(len(words))):
            continue
        count, at = 0, k + 1
        while at < len(part) and part[at].text == "[" and (closes := cxx.matching(part, at)) is not None:
            count, at = count + 1, closes + 1
        return count
    return 0


def declared_shape(source, name, count) -> tuple[int, ...]:
    """(4, 3) of `float m[4][N]`, an array of 12 elements; empty if the source does not show it, or shows two."""
    part, found = cxx.tokens(source), set()
    named = {k: int(n) for k, n in re.findall(r"\b(?:define|const(?:expr)? +int) +(\w+)[ =]+(\d+)\b", cxx.code(source))}
    for k, token in enumerate(part):
        sizes, at = [], k + 1
        while token.text == name and cxx.text_at(part, at) == "[":
            size = named.get(part[at + 1].text, part[at + 1].text)
            sizes.append(int(size) if str(size).isdigit() and cxx.text_at(part, at + 2) == "]" else 0)
            at = (cxx.matching(part, at) or len(part)) + 1
        if sizes and math.prod(sizes) == count:
            found.add(tuple(sizes))
    return found.pop() if len(found) == 1 else ()


def copies_as_group(source) -> bool:
    """Whether its asynchronous copies are those of cooperative groups: `cg::memcpy_async(block, ...)`."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    if any(token.text.startswith("__pipeline_") or "cp.async" in token.text for token in part):
        return False
    return any(token.text == "memcpy_async" and cxx.text_at(part, k - 2) != "cuda" for k, token in enumerate(part))


def calls_itself(source, line) -> bool:
    """Whether the function that a line is in calls itself by its name."""
    around = [d for d in cxx.functions(source) if d.defined and d.tokens[0].line <= line <= d.tokens[-1].line]
    return any(a.text == d.name and b.text in "(<" for d in around for a, b in pairwise(d.tokens[d.head :]))


def uses_result(source, line) -> bool:
    """Whether the source does something with what the CUDA calls in a line return, as `if (cudaFree(p))` does."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    calls = [k for k, token in enumerate(part) if token.line == line and re.match("cu[a-z]+[A-Z]", token.text)]
    calls = [k for k in calls if cxx.text_at(part, k + 1) in ("(", "<")]
    return bool(calls) and all(cxx.text_at(part, k - 1) not in (*";{}):?", "else", "do", "") for k in calls)


def without_comment(line_text):
    """A line without the comment at its end; a comment alone stays."""
    part = cxx.tokens(line_text)
    return line_text[: part[-1].end] if part else line_text


def kernel_parameter(region, kernels):
    """What a kernel calls the tensor that the runtime calls 'square_kernel<float>#1': the name of its second parameter.

    `kernels` is what `cxx.kernels` finds in the source. Returns `region` itself if it is not such a name.
    """
    name, _, number = (region or "").rpartition("#")
    asked = cxx.instance(name)
    kernel = asked and kernels.get(asked[0])
    if not kernel or not number.isdigit() or int(number) >= len(kernel.names):
        return region
    return kernel.names[int(number)] or f"argument {int(number) + 1}"


def parameter_type(region, source) -> str:
    """The type that a kernel's parameter points to, as the source writes it: 'float' for 'square_kernel#1', the second
    one of `const float* x, float* out`. Empty if `region` is not such a name."""
    name, _, number = (region or "").rpartition("#")
    kernel = next((k for k in cxx.declared_kernels(source) if k.name == name.partition("<")[0]), None)
    if not kernel or not number.isdigit() or int(number) >= len(kernel.parameters):
        return ""
    text = cxx.written(kernel.parameters[int(number)]).partition("*")[0]
    return re.sub(r"\b(?:const|volatile|__restrict__|__restrict)\b", "", text).strip()


# ---- what surrounds a line ------------------------------------------------------------------------------------------


class Branch(NamedTuple):
    """An `if`, an `else` or a loop, or what depends on a condition before `?`."""

    word: str  # 'if', 'else', 'for', 'while', 'do', '?'
    line: int  # of the word
    first: int  # line of its statement
    last: int
    divergent: bool  # whether threads of a block may decide differently, as far as its condition shows
    returns: bool  # whether the statement leaves the kernel
    begins: int = 0  # line of the first `if` in a chain of `if ... else if ... else`, and otherwise its own
    condition: Sequence[cxx.Token] = ()  # with its parentheses, except in a `for` with semicolons

    def holds(self, line) -> bool:
        """Whether its statement has a line. Its condition may be there too, if the whole is one line."""
        return self.first <= line <= self.last and (line > self.line or self.last == self.line)


LOOPS = ("for", "while", "do")


@functools.lru_cache(maxsize=8)  # asked several times about each problem
def branches(source) -> list[Branch]:
    """Every branch and loop of a source, in text order: an inner one comes after the one around it."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    part = [b for a, b in pairwise([part[0], *part]) if (a.text, b.text) != ("if", "constexpr")] if part else []
    found, chains = [], {}  # by the index of a word that continues a chain: the line where that begins
    for k, token in enumerate(part):
        if token.text not in ("if", "else", *LOOPS):
            continue
        head = [] if token.text in ("else", "do") else _head(part, k)
        ends = _statement_ends(part, k + 1 + len(head))
        statement = part[k + 1 + len(head) : ends]
        if token.text == "do" and cxx.text_at(part, ends) == "while":
            head = _head(part, ends)
        begins = chains.get(k, token.line)
        if token.text == "else" or (token.text == "if" and cxx.text_at(part, ends) == "else"):
            chains[k + 1 if token.text == "else" else ends] = begins
        if statement and (token.text, statement[0].text) != ("else", "if"):  # covered by its `if`
            divergent = token.text == "else" or _differs(source, token.line, head)
            returns = any(inner.text == "return" for inner in statement)
            lines = statement[0].line, statement[-1].line
            found.append(Branch(token.text, token.line, *lines, divergent, returns, begins, _condition(head)))
    return found


def left_before(source, line) -> list[Branch]:
    """The branches before a line in which a thread returns from the line's function."""
    begins = next((token.line for token in _function_around(source, line)), line)
    return [b for b in branches(source) if b.word not in LOOPS and b.returns and begins <= b.line and b.last < line]


def alternatives(source, first, last) -> tuple[Branch, Branch] | None:
    """The two branches of one `if ... else` that hold two lines, of which a thread takes only one."""
    one, other = ([b for b in branches(source) if b.word not in LOOPS and b.holds(line)] for line in (first, last))
    pairs = ((a, b) for a in one for b in other if a.begins == b.begins and a not in other and b not in one)
    return next(pairs, None)


def _head(part, k):
    """The parentheses after the word at index `k`, with what they hold."""
    return part[k + 1 : (cxx.matching(part, k + 1) or k + 1) + 1]


def _condition(head):
    ends = [k for k, token in enumerate(head) if token.text == ";"]
    return head[ends[0] + 1 : ends[1]] if len(ends) == 2 else head


def _statement_ends(part, k):
    """The index after the statement that begins at index `k`."""
    if k >= len(part):
        return len(part)
    if part[k].text in ("if", "for", "while") and cxx.text_at(part, k + 1) == "(":
        ends = _statement_ends(part, (cxx.matching(part, k + 1) or k + 1) + 1)
        alternative = part[k].text == "if" and cxx.text_at(part, ends) == "else"
        return _statement_ends(part, ends + 1) if alternative else ends
    if part[k].text == "{":
        return (cxx.matching(part, k) or len(part) - 1) + 1
    return _expression_ends(part, k, ";") + 1


def _expression_ends(part, k, ends):
    """The index of the first token from index `k` on that is one of `ends`, outside the brackets that open there."""
    while k < len(part) and part[k].text not in ends:
        closes = cxx.matching(part, k) if part[k].text in ("(", "[", "{") else None
        k = k + 1 if closes is None else closes + 1
    return k


def _differs(source, line, condition):
    reached = _reached(source, line, condition)
    return "?" in reached or any(name.startswith("threadIdx") for name in reached)


def loop_around(source, first, last) -> Branch | None:
    """The innermost loop that two lines are in."""
    loops = [b for b in branches(source) if b.word in LOOPS and b.line <= first and last <= b.last]
    return loops[-1] if loops else None


def guard(source, line, array=None) -> Branch | None:
    """The innermost condition or loop that `array[...]` in a line depends on; None if it is always reached."""
    if question := _question(source, line, array):
        return Branch("?", question, line, line, divergent=False, returns=False)
    starts = {token.start for token in cxx.tokens(source) if token.line == line and token.text == array}
    asks = {b.line for b in branches(source) if starts and starts <= {token.start for token in b.condition}}
    inside = [b for b in branches(source) if b.holds(line) and b.line not in asks and not _picks_one(b.condition)]
    before = [b for b in left_before(source, line) if b.word == "if" and not _picks_one(b.condition)]
    return (inside or before or [None])[-1]


def _picks_one(condition) -> bool:
    """Whether a condition such as `(lane == 0)` says nothing about a limit."""
    text = "".join(token.text for token in condition)
    return "==" in text and not any(sign in text for sign in ("<", ">", "!", "&&", "||"))


def _question(source, line, array):
    """The line of the `?` that decides whether `array[...]` in a line is reached; None if there is none.

    If the array has another name there, that is so for everything that the line indexes.
    """
    part = [token for token in cxx.tokens(source) if not token.directive]
    here = [k for k, token in enumerate(part) if token.line == line]
    indexed = [k for k in here if part[k].text.isidentifier() and cxx.text_at(part, k + 1) == "["]
    lines = [_question_before(part, k) for k in [k for k in indexed if part[k].text == array] or indexed]
    return lines[0] if lines and all(lines) else None


def _question_before(part, k):
    """The line of the nearest `?` before index `k` of whose two sides the token there is a part."""
    beside = False  # behind a comma, in the same brackets: what comes before it decides nothing here
    while k > 0 and part[k - 1].text not in (";", "{", "}"):
        k -= 1
        if part[k].text in (")", "]"):
            k = cxx.matching(part, k) or 0
        elif part[k].text in ("(", "["):
            beside = False
        elif part[k].text == ",":
            beside = True
        elif part[k].text == "?" and not beside:
            return part[k].line
    return None


# ---- what an index depends on ---------------------------------------------------------------------------------------


def coordinates(source, line, array) -> tuple[str, ...]:
    """What the index of `array[...]` in a line is computed from: ('blockIdx.x', 'threadIdx.x').

    Empty if it cannot be read: other functions may be involved, or the array has another name there.
    """
    found = set().union(*(_reached(source, line, index) for index in _indexes(source, line, array)))
    return () if "?" in found else tuple(sorted(found))


def runs_over_all(source, line, array, loop) -> bool:
    """Whether a loop counts the index of `array[...]` in a line, which depends on no coordinate: so in all threads."""
    indexes = list(_indexes(source, line, array)) if loop else []
    counted = {token.text for token in loop.condition} & assigned(source, line).keys() if loop else set()
    return bool(indexes) and all(
        not _reached(source, line, index) and counted & {token.text for token in index} for index in indexes
    )


def takes_remainder(source, line, array) -> bool:
    """Whether the index of `array[...]` in a line is computed with `%`."""
    parts = [part for index in _indexes(source, line, array) for part in computed_from(source, line, index)]
    return any(token.text == "%" for part in parts for token in part)


def _indexes(source, line, array):
    """What is between the brackets of `array[...][...]` in a line."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    for k, token in enumerate(part):
        at = k + 1
        while token.line == line and token.text == array and cxx.text_at(part, at) == "[":
            closes = cxx.matching(part, at) or len(part)
            yield part[at + 1 : closes]
            at = closes + 1


_COORDINATES = ("threadIdx", "blockIdx")
_CALLS = {"min", "max", "int", "size_t", "if", "for", "while", "sizeof", "unsigned", "long"}


def _reached(source, line, expression) -> set[str]:
    """The coordinates that an expression depends on, through the variables of its function; '?' for other calls."""
    found = set()
    for part in computed_from(source, line, expression):
        for k, token in enumerate(part):
            if token.text in _COORDINATES:
                found.add(f"{token.text}.{cxx.text_at(part, k + 2)}")
            elif token.text.isidentifier() and cxx.text_at(part, k + 1) == "(" and token.text not in _CALLS:
                found.add("?")
    return found


def computed_from(source, line, expression):
    """An expression, and those that the variables in it get in the function around a line, and so on."""
    given = assigned(source, line)
    seen, todo = set(), [list(expression)]
    while todo:
        part = todo.pop()
        yield part
        names = {token.text for k, token in enumerate(part) if cxx.text_at(part, k - 1) not in (".", "->")}
        for name in names & given.keys() - seen:
            seen.add(name)
            todo += given[name]


def assigned(source, line) -> dict[str, list]:
    """The expressions that each variable gets in the function around a line."""
    body, given = _function_around(source, line), {}
    for k, token in enumerate(body):
        texts = cxx.text_at(body, k - 1), cxx.text_at(body, k + 1)
        if token.text == "=" and texts[1] != "=" and texts[0] not in ("=", "!", "<", ">"):
            at = k - 2 if texts[0] in tuple("+-*/%&|^") else k - 1
            while cxx.text_at(body, at - 1) == ".":  # `p.x = 1` changes `p`
                at -= 2
            given.setdefault(cxx.text_at(body, at), []).append(body[k + 1 : _expression_ends(body, k + 1, (*";,)]}",))])
    return given


def parameters_around(source, line) -> set[str]:
    """The names of the parameters of the function that a line is in."""
    around = _definition_around(source, line)
    return {cxx.parameter_name(parameter) for parameter in around.parameters or ()} if around else set()


def _function_around(source, line):
    """The tokens of the function that a line is in; all of them if there is none."""
    around = _definition_around(source, line)
    return around.tokens if around else [token for token in cxx.tokens(source) if not token.directive]


def _definition_around(source, line):
    return next((d for d in _defined(source) if d.tokens[0].line <= line <= d.tokens[-1].line), None)


@functools.lru_cache(maxsize=8)
def _defined(source):
    """The functions and the kernels that the source defines."""
    return [d for d in (*cxx.functions(source), *cxx.declared_kernels(source)) if d.defined]
