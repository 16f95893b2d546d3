"""A source's own variables that are named like CUDA's built-in ones: `dim3 gridDim(64)` in a host function.

For nvcc such a variable hides the built-in one. Here the built-in ones are macros, so a source's own get another name.
So does a variable `printf`, since the function has another name here (translate.py).
"""

from utils.cuda.common import cxx
from utils.cuda.common.cxx import matching, step_over, text_at
from utils.cuda.cpu.meanings import Reader, Scope

__all__ = ["BUILT_IN", "is_scope", "renamed"]

#: Macros in include/cuda_on_cpu/launch.h.
BUILT_IN = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_TRACKED = BUILT_IN | {"printf"}
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


def renamed(source) -> str:
    """The source with `gridDim_` wherever gridDim is a variable, a parameter or a member of its own."""
    tokens = cxx.tokens(source)
    if not any(token.text in _TRACKED and _may_be_own(tokens, k) for k, token in enumerate(tokens)):
        return source
    reader = _Names(source)
    reader.read()
    own, names = set(), set()
    for k, token in enumerate(tokens):
        if token.text in _TRACKED:
            is_member = cxx.text_at(tokens, k - 1) in (".", "->")
            if is_member or not token.directive and token.start not in reader.built_in:
                own.add(token.start)
                names |= set() if is_member else {token.text}
    own |= _in_macros(source, tokens, names)
    if own:  # the source may also have a `gridDim_`
        own |= {token.start for token in tokens if token.text[-1] == "_" and token.text.rstrip("_") in _TRACKED}
    pieces, at = [], 0
    for token in tokens:
        if token.start in own:
            pieces += [source[at : token.end], "_"]
            at = token.end
    return "".join(pieces) + source[at:]


def _may_be_own(tokens, k):
    """Whether the name at index k is more than the usual `threadIdx.x`: what declares a name has no `.` behind it. Of
    `printf`, more than the usual call."""
    before, behind = cxx.text_at(tokens, k - 1), cxx.text_at(tokens, k + 1)
    if before in (".", "->"):
        return True
    if tokens[k].text == "printf" and behind == "(":
        is_type = before.isidentifier() and before not in _NO_TYPES
        return before in ("*", "&", ">") or is_type and tokens[k - 1].line == tokens[k].line  # else it is a macro
    return behind != "."


def is_scope(word) -> bool:
    """Whether a word before `::` is what has the name behind it."""
    return word == ">" or word.isidentifier() and word not in _NO_TYPES


class _Names(Reader):
    """Finds where the names mean the built-in variables."""

    def __init__(self, source):
        super().__init__(source, _TRACKED)
        self.built_in = set()  # offsets in the source
        self.spaces = {}  # what each namespace declares

    def special(self, k):
        scope = self.scopes[-1]
        if scope.begins == k and scope.kind in ("file", "class"):
            self._declaration(k)
        if self.part[k].text == "enum":
            self._enumerators(k)

    def _declaration(self, k):
        """What a head declares is known in the head already: template <int gridDim> void f(int (&x)[gridDim])."""
        end = k
        while end < len(self.part) and self.part[end].text not in ("{", ";", "}"):
            end = step_over(self.part, end)
        names = self._known(self.part[k:end]) & _TRACKED
        if names:
            self.scopes.append(Scope("head", end - 1, names))
            self.scopes[-1].begins = k

    def _enumerators(self, k):
        opens = next((j for j in range(k, len(self.part)) if self.part[j].text in ("{", ";", ")")), k)
        if self.part[opens].text != "{":
            return
        at = opens + 1
        for enumerator in cxx.at_commas(self.part[at : matching(self.part, opens)]):
            self.no_uses.add(at)
            if enumerator and enumerator[0].text in _TRACKED and text_at(self.part, k + 1) not in ("class", "struct"):
                self.declared(at, self.scopes[-1])
            at += len(enumerator) + 1

    def _opened(self, k):
        scope = super()._opened(k)
        if scope.kind == "file":
            scope.names = self.spaces.setdefault(text_at(self.part, k - 1), scope.names)
        return scope

    def declared(self, k, scope):
        if len(self.scopes) > 1:  # or the built-in one could have no other declaration
            scope.names[self.part[k].text] = False

    def used(self, k):
        if self.found(self.part[k].text) is not None:
            self.built_in.add(self.part[k].start)

    def qualified(self, k):
        scope = self.scopes[-1]
        space = text_at(self.part, k - 2)
        if not is_scope(space) or space == "std":  # ::threadIdx, std::printf
            self.built_in.add(self.part[k].start)
        elif self.part[scope.begins].text == "using":
            self.declared(k, scope)


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
    return {token.text for token in line[3:end]} & _TRACKED
