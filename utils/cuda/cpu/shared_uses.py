"""Uses of `__shared__` variables that a local name does not reach: in lambdas, in local classes, outside of functions.

For nvcc such a variable is static, so a lambda uses it without capturing it. Here it is a local name for a part of the
block's memory (shared_variables.py). So each body of a lambda, of a local class's function, and of a function that uses
a variable from outside begins with a name of its own; elsewhere an expression replaces the name.
"""

from collections import defaultdict

from utils.cuda.common import cxx
from utils.cuda.common.cxx import matching, step_over, text_at
from utils.cuda.common.lexer import expand, macros_with, namespaces
from utils.cuda.cpu.meanings import Reader
from utils.cuda.cpu.shared_variables import PLACE, Unreadable, reference, rewrite

__all__ = ["Captured", "edits"]

_UNEVALUATED = {"sizeof", "decltype", "alignof", "__alignof__", "noexcept", "typeof", "__typeof__"}
_FUNCTION = ("body", "head", "class")


class Captured(Exception):
    """A lambda's `[...]` names a shared variable; `.token` is where."""

    def __init__(self, token):
        super().__init__(f"`{token.text}` is a __shared__ variable: a lambda uses it without capturing it")
        self.token = token


def edits(source, declared, elsewhere=frozenset()) -> list[tuple[int, int, str]]:
    """What makes all uses of the shared variables right, as (start, end, text). Raises Captured.

    `elsewhere` are the names of those that other files declare outside of functions.
    """
    return _Uses(source, declared, elsewhere).edits() if declared or elsewhere else []


class _Uses(Reader):
    def __init__(self, source, declared, elsewhere):
        super().__init__(source)
        self.scopes[0].names.update(dict.fromkeys(elsewhere, True))
        self.macros = cxx.macros(source)
        self.at_start = {shared.start: shared for shared in declared if not shared.macro}
        self.makers = macros_with({"__shared__"}, self.macros)
        made = (self._made(k) for k, token in enumerate(self.part) if token.text in self.makers)
        names = [*(shared.names for shared in self.at_start.values()), *made]
        self.tracked = {name for some in names for name in some} | elsewhere
        self.jumped = {name for shared in declared if shared.jumped for name in shared.names}
        self.in_macros = self._in_macros()
        self.places = defaultdict(set)  # the namespaces of each variable outside of functions, as prefixes
        self.namespaces = {text_at(self.part, k + 1) for k, t in enumerate(self.part) if t.text == "namespace"} | {""}
        self.operand = -1  # where the current unevaluated operand ends
        self.constant = (-1, 0)  # the same of a constant expression, with the number of bodies around it
        self.replaced = []

    def edits(self):
        self.read()
        found = [(token.start, token.end, text) for token, text in self.replaced]
        for opens, scope in self.bodies:
            if scope.used:
                names = [reference(name, within=space) for name, space in scope.used.items()]
                after, before = self.part[opens].end, self.part[scope.end].start
                found += [(after, after, f" {'; '.join(names)}; {{"), (before, before, "}")]
        return found

    def _made(self, k):
        """The names that the macro at index k declares."""
        end = step_over(self.part, k + 1) if text_at(self.part, k + 1) == "(" else k + 1
        ends, names = self.part[k]._replace(text=";"), []
        text = [token._replace(directive=0) for token in (*expand(self.part[k:end], self.macros), ends)]
        for at, token in enumerate(text):
            if token.text == "__shared__":
                try:
                    names += rewrite("", text, at, True)[3].names
                except Unreadable:
                    continue
        return names

    def _in_macros(self):
        """The shared variables that macros' bodies use, directly or through other macros."""
        texts = {name: {token.text for token in macro.body} for name, macro in self.macros.items()}
        found = {name: words & self.tracked for name, words in texts.items() if name not in self.makers}
        while True:
            more = {name: used.union(*(found.get(w, ()) for w in texts[name])) for name, used in found.items()}
            if more == found:
                return {name: used for name, used in found.items() if used}
            found = more

    def special(self, k):
        scope, token, text = self.scopes[-1], self.part[k], self.part[k].text
        if shared := self.at_start.get(token.start):
            holder = self.scopes[0] if scope.kind == "file" else scope  # a namespace has no end
            holder.names.update(dict.fromkeys(shared.names, True))
            if scope.kind == "file":
                around = "".join(f"{space}::" for space in namespaces(self.part, token.start))
                for name in shared.names:
                    self.places[name].add(around and f"::{around}")
            scope.begins = None
            return next((j for j in range(k, len(self.part)) if self.part[j].start >= shared.end), len(self.part))
        if text in self.makers:
            scope.names.update(dict.fromkeys(self._made(k), True))
            return step_over(self.part, k + 1) if text_at(self.part, k + 1) == "(" else k + 1
        if text in _UNEVALUATED:
            operand = matching(self.part, k + 1) if text_at(self.part, k + 1) == "(" else k + 1
            self.operand = max(self.operand, operand or k)
        elif text in ("static_assert", "constexpr"):
            self._constant(k)
        for name in self.in_macros.get(text, ()):
            self._use(k, name)

    def _constant(self, k):
        """Note a constant expression, if one begins with the word at index k."""
        after, end = text_at(self.part, k + 1), k + 1
        if after == "(":  # static_assert, `if constexpr`
            end = matching(self.part, k + 1) or k
        elif self.scopes[-1].kind in ("body", "block") and text_at(self.part, k - 1) != ")":
            while end < len(self.part) and self.part[end].text not in (";", "}"):
                end = step_over(self.part, end)
        self.constant = (end, self.depth())

    def captured(self, token):
        raise Captured(token)

    def qualified(self, k):
        space, name = text_at(self.part, k - 2), self.part[k].text
        is_outside = self.scopes[0].names.get(name)
        first = self.scopes[-1].begins
        if is_outside and text_at(self.part, first) == "using" and text_at(self.part, first + 2) != "=":  # using q::t;
            self.replaced.append((self.part[k], f"{name}{PLACE}"))
        elif is_outside and (space in self.namespaces or space != ">" and not space.isidentifier()):
            self.replaced.append((self.part[k], _expression(name)))

    def used(self, k):
        self._use(k, self.part[k].text, self.part[k])

    def _use(self, k, name, token=None):
        """Note a use of a variable at index k, by its token or, without one, by a macro."""
        at = self.found(name)
        if at is None:
            return
        within = next((s for s in reversed(self.scopes[at + 1 :]) if s.kind in _FUNCTION), None)
        is_constant = k <= self.constant[0] and self.depth() == self.constant[1]
        if token and (k <= self.operand or is_constant):
            self.replaced.append((token, f"{name}{PLACE}.unplaced"))
        elif within and within.kind == "body":
            places = self.places[name] if self.scopes[at].kind == "file" else ()
            within.used[name] = next(iter(places)) if len(places) == 1 else ""  # before a `using` in the body
        elif token and (within or self.scopes[at].kind == "file" or name in self.jumped):
            self.replaced.append((token, _expression(name)))


def _expression(name):
    return f"{name}{PLACE}.of_this_block()"
