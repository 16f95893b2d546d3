"""Uses of `__shared__` variables that a local name does not reach: in lambdas, in local classes, outside of functions.

For nvcc such a variable is static, so a lambda uses it without capturing it. Here it is a local name for a part of the
block's memory (shared_variables.py). So each body of a lambda, of a local class's function, and of a function that uses
a variable from outside begins with a name of its own; elsewhere an expression replaces the name.
"""

from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.common.cxx import matching, step_over, text_at

__all__ = ["Captured", "Shared", "edits", "reference"]

_CLASSES = {"struct", "class", "union"}
_ALIGNMENT = {"alignas", "__align__", "__attribute__", "__builtin_align__"}
_NO_TYPES = {"return", "case", "else", "throw", "sizeof", "delete", "new", "do", "and", "or", "not", "goto"}
_UNEVALUATED = {"sizeof", "decltype", "alignof", "__alignof__", "noexcept", "typeof", "__typeof__"}
_WITH_STATEMENT = {"for", "if", "while", "switch", "catch", "constexpr"}
_BEFORE_BODY = {"mutable", "constexpr", "consteval", "static", "noexcept", "__device__", "__host__", "__forceinline__"}
_BEFORE_BODY |= {"__attribute__", "__noinline__", "inline"}
_FUNCTION = ("body", "head", "class")


class Captured(Exception):
    """A lambda's `[...]` names a shared variable; `.token` is where."""

    def __init__(self, token):
        super().__init__(f"`{token.text}` is a __shared__ variable: a lambda uses it without capturing it")
        self.token = token


class Shared(NamedTuple):
    """A declaration of shared variables."""

    start: int  # offsets in the source
    end: int
    names: list[str]
    macro: str  # whose body it is in, so that its names may be made of the macro's parameters; otherwise empty
    jumped: bool = False  # whether a jump may lead over it, so that an expression replaces its names


class _Scope:
    def __init__(self, kind, end, names=()):
        self.kind = kind  # 'file', 'class', 'body' (of a function), 'head' (of a lambda), 'braces' (a value), 'block'
        self.end = end  # index of its last token
        self.names = dict.fromkeys(names, False)  # whether each is a shared variable
        self.is_lambda = False
        self.begins = None  # index of the first token of the current statement
        self.parentheses = -1  # index where the current ones end
        self.used = {}  # of a body: the shared variables from outside, in order


def reference(name, paste="") -> str:
    """The declaration of the local name; in a macro, `paste` is '##'."""
    return f"auto& {name} = {name}{paste}__shared.of_this_block()"


def edits(source, declared) -> list[tuple[int, int, str]]:
    """What makes all uses of the shared variables right, as (start, end, text). Raises Captured."""
    return _Reader(source, declared).edits() if declared else []


class _Reader:
    def __init__(self, source, declared):
        self.part = [token for token in cxx.tokens(source) if not token.directive]
        self.macros = cxx.macros(source)
        self.at_start = {shared.start: shared for shared in declared if not shared.macro}
        self.makers = {shared.macro: shared for shared in declared if shared.macro}
        made = (self._made(k) for k, token in enumerate(self.part) if token.text in self.makers)
        names = [*(shared.names for shared in self.at_start.values()), *made]
        self.tracked = {name for some in names for name in some}
        self.jumped = {name for shared in declared if shared.jumped for name in shared.names}
        self.in_macros = self._in_macros()
        self.namespaces = {text_at(self.part, k + 1) for k, t in enumerate(self.part) if t.text == "namespace"} | {""}
        self.scopes = [_Scope("file", len(self.part))]
        self.later = {}  # scopes that begin later, by the index of their first token
        self.no_uses = set()  # indices of names that declare parameters or captures
        self.operand = -1  # where the current unevaluated operand ends
        self.constant = (-1, 0)  # the same of a constant expression, with the number of bodies around it
        self.bodies, self.replaced = [], []

    def edits(self):
        k = 0
        while k < len(self.part):
            k = self._step(k)
        found = [(token.start, token.end, text) for token, text in self.replaced]
        for opens, scope in self.bodies:
            if scope.used:
                names = [reference(name) for name in scope.used]
                after, before = self.part[opens].end, self.part[scope.end].start
                found += [(after, after, f" {'; '.join(names)}; {{"), (before, before, "}")]
        return found

    def _made(self, k):
        """The names that the macro at index k declares."""
        shared, given = self.makers[self.part[k].text], {}
        parameters = self.macros[shared.macro].parameters
        if parameters and text_at(self.part, k + 1) == "(":
            parts = cxx.at_commas(self.part[k + 2 : matching(self.part, k + 1)])
            given = dict(zip(parameters, map(cxx.written, parts), strict=False))
        return ["".join(given.get(w, w) for w in name.split("##")) for name in shared.names]

    def _in_macros(self):
        """The shared variables that macros' bodies use, directly or through other macros."""
        texts = {name: {token.text for token in macro.body} for name, macro in self.macros.items()}
        found = {name: words & self.tracked for name, words in texts.items() if name not in self.makers}
        while True:
            more = {name: used.union(*(found.get(w, ()) for w in texts[name])) for name, used in found.items()}
            if more == found:
                return {name: used for name, used in found.items() if used}
            found = more

    # ---- one token after the other ----------------------------------------------------------------------------------

    def _step(self, k):
        """Read the token at index k; returns the index of the next one."""
        while len(self.scopes) > 1 and k > self.scopes[-1].end:
            ended = self.scopes.pop()
            if ended.kind in ("body", "class", "block") and not ended.is_lambda:
                self.scopes[-1].begins = None
        opened = self.later.pop(k, [])
        self.scopes += opened
        scope, token, text = self.scopes[-1], self.part[k], self.part[k].text
        scope.begins = k if scope.begins is None else scope.begins
        if shared := self.at_start.get(token.start):
            holder = self.scopes[0] if scope.kind == "file" else scope  # a namespace has no end
            holder.names.update(dict.fromkeys(shared.names, True))
            scope.begins = None
            return next((j for j in range(k, len(self.part)) if self.part[j].start >= shared.end), len(self.part))
        if text in self.makers:
            scope.names.update(dict.fromkeys(self._made(k), True))
            return step_over(self.part, k + 1) if text_at(self.part, k + 1) == "(" else k + 1
        if text == "{":
            if not opened:
                scope = self._opened(k)
                self.scopes.append(scope)
            scope.begins = None
            if scope.kind == "body":
                self.bodies.append((k, scope))
        elif text == ";":
            scope.begins = None
        elif text == "[":
            self._bracket(k)
        elif text == "(":
            self._parenthesis(k)
        elif text in _UNEVALUATED:
            operand = matching(self.part, k + 1) if text_at(self.part, k + 1) == "(" else k + 1
            self.operand = max(self.operand, operand or k)
        elif text in ("static_assert", "constexpr"):
            self._constant(k)
        elif text in self.tracked:
            self._name(k)
        for name in self.in_macros.get(text, ()):
            self._use(k, name)
        return k + 1

    def _opened(self, k):
        """The scope that begins with the `{` at index k."""
        outer, closes = self.scopes[-1], matching(self.part, k)
        closes = len(self.part) if closes is None else closes
        head = _without_alignment(self.part[outer.begins : k])
        words, before = _outside_brackets(head), text_at(self.part, k - 1)
        in_function = outer.kind not in ("file", "class")
        if "(" not in words and "=" not in words and _CLASSES & set(words) and "enum" not in words:
            return _Scope("class", closes, _parameters(head))
        if in_function:
            is_block = before in (")", "else", "do", "try", "{", "}", ";", ":") or outer.begins == k
            return _Scope("block" if is_block else "braces", closes)
        if "(" not in words and ("namespace" in words or '"C"' in words):
            return _Scope("file", closes)
        named = before.isidentifier() and before not in (*_BEFORE_BODY, "const", "override", "final", "try")
        if "(" not in words or "=" in words and "operator" not in words or named and ":" in words:
            return _Scope("braces", closes)
        return _Scope("body", closes, _parameters(head))

    def _parenthesis(self, k):
        scope, closes = self.scopes[-1], matching(self.part, k) or k
        if text_at(self.part, k - 1) in _WITH_STATEMENT and scope.kind not in ("file", "class"):
            self.scopes.append(_Scope("block", self._statement_end(closes + 1)))
            return
        scope.parentheses = max(scope.parentheses, closes)
        if scope.kind in ("file", "class", "head"):
            self._no_uses(k, closes)

    def _no_uses(self, opens, closes):
        """Note where the names of parameters are, in the brackets at these indices."""
        at = opens + 1
        for parameter in cxx.at_commas(self.part[opens + 1 : closes]):
            name = cxx.parameter_name(parameter)
            places = [at + j for j, token in enumerate(parameter) if token.text == name]
            if len(parameter) > 1:
                self.no_uses.update(places[-1:])
            at += len(parameter) + 1

    def _statement_end(self, k):
        """The index of the last token of the statement that begins at index k."""
        if text_at(self.part, k) == "{":
            return matching(self.part, k) or k
        while k < len(self.part) and self.part[k].text not in (";", "}"):
            k = step_over(self.part, k)
            if self.part[k - 1].text == "}" and text_at(self.part, k) not in (";", ",", ")", "(", ".", "else"):
                return k - 1
        return k

    def _constant(self, k):
        """Note a constant expression, if one begins with the word at index k."""
        after, end = text_at(self.part, k + 1), k + 1
        if after == "(":  # static_assert, `if constexpr`
            end = matching(self.part, k + 1) or k
        elif self.scopes[-1].kind in ("body", "block") and text_at(self.part, k - 1) != ")":
            while end < len(self.part) and self.part[end].text not in (";", "}"):
                end = step_over(self.part, end)
        self.constant = (end, self._depth())

    def _depth(self):
        return sum(scope.kind == "body" for scope in self.scopes)

    # ---- lambdas ----------------------------------------------------------------------------------------------------

    def _bracket(self, k):
        closes, before = matching(self.part, k), text_at(self.part, k - 1)
        if closes is None:
            return
        if before == "auto" or before == "&" and "auto" in (text_at(self.part, k - 2), text_at(self.part, k - 3)):
            names = [token.text for token in self.part[k + 1 : closes]]  # auto& [a, b] = ...
            self.scopes[-1].names.update(dict.fromkeys((name for name in names if name != ","), False))
            self.no_uses.update(range(k, closes))
            return
        is_operand = before.isidentifier() and before not in _NO_TYPES or before in (")", "]")
        if before == ")":  # for (...) [&] { ... }();
            is_operand = text_at(self.part, (matching(self.part, k - 1) or 0) - 1) not in _WITH_STATEMENT
        opens = None if is_operand else self._lambda_body(closes + 1)
        if opens is None:
            return
        names, at = _parameters(self.part[closes + 1 : opens]), k + 1
        for capture in cxx.at_commas(self.part[k + 1 : closes]):
            j = next((j for j, token in enumerate(capture) if token.text.isidentifier()), None)
            if j is not None and len(capture) > j + 1 and capture[j + 1].text in ("=", "{", "("):
                names.add(capture[j].text)
                self.no_uses.add(at + j)
            elif j is not None and self._found(capture[j].text) is not None:
                raise Captured(capture[j])
            at += len(capture) + 1
        body = _Scope("body", matching(self.part, opens) or len(self.part), names)
        body.is_lambda = True
        self.later[opens] = [body]
        if opens > closes + 1:
            self.later[closes + 1] = [_Scope("head", opens - 1, names)]

    def _lambda_body(self, k):
        """The index of the `{` of a lambda whose `[...]` ends before index k; None if it is not a lambda."""
        for opener in ("<", "("):
            if text_at(self.part, k) == opener:
                k = (matching(self.part, k) or len(self.part)) + 1
        while text_at(self.part, k) in (*_BEFORE_BODY, "("):
            k = step_over(self.part, k) if self.part[k].text == "(" else k + 1
        if text_at(self.part, k) == "->":
            while k < len(self.part) and self.part[k].text not in ("{", ";", ")", "}"):
                k = step_over(self.part, k)
        return k if text_at(self.part, k) == "{" else None

    # ---- names ------------------------------------------------------------------------------------------------------

    def _name(self, k):
        scope, before = self.scopes[-1], text_at(self.part, k - 1)
        if k in self.no_uses or before in (".", "->"):
            return
        if before == "::":
            space, name = text_at(self.part, k - 2), self.part[k].text
            is_outside = self.scopes[0].names.get(name)
            first = k - 2
            while text_at(self.part, first - 1) == "::":
                first -= 2
            if is_outside and "using" in (text_at(self.part, first), text_at(self.part, first - 1)):  # using q::t;
                self.replaced.append((self.part[k], f"{name}__shared"))
            elif is_outside and (space in self.namespaces or space != ">" and not space.isidentifier()):
                self.replaced.append((self.part[k], _expression(name)))
        elif not self._is_declared(k, scope):
            self._use(k, self.part[k].text, self.part[k])
        elif scope.kind != "file" and k > scope.parentheses:
            scope.names[self.part[k].text] = False

    def _is_declared(self, k, scope):
        """Whether the name at index k declares a variable, a parameter or a type."""
        before, after = text_at(self.part, k - 1), text_at(self.part, k + 1)
        if before.isidentifier():
            return before not in _NO_TYPES
        if before not in ("*", "&", ">", ",") or k <= scope.parentheses:
            return False
        end = _type_end(self.part, scope.begins)
        if end is None or after == "=" and text_at(self.part, k + 2) == "=":
            return False
        j = k - 1
        while text_at(self.part, j) in ("*", "&", "const"):
            j -= 1
        if text_at(self.part, j) == ",":  # float a, *t
            return end < j and self.part[end].text.isidentifier()
        if end < k and self.part[end].text == "(" and text_at(self.part, k + 1) == ")":  # float (&t)[4]
            return text_at(self.part, k + 2) in ("[", "(")
        return end == k

    def _found(self, name):
        """The index of the scope that declares a shared variable of this name; None if the name is another's."""
        at = next((j for j in range(len(self.scopes) - 1, -1, -1) if name in self.scopes[j].names), None)
        return at if at is not None and self.scopes[at].names[name] else None

    def _use(self, k, name, token=None):
        """Note a use of a variable at index k, by its token or, without one, by a macro."""
        at = self._found(name)
        if at is None:
            return
        within = next((s for s in reversed(self.scopes[at + 1 :]) if s.kind in _FUNCTION), None)
        is_constant = k <= self.constant[0] and self._depth() == self.constant[1]
        if token and (k <= self.operand or is_constant):
            self.replaced.append((token, f"{name}__shared.unplaced"))
        elif within and within.kind == "body":
            within.used[name] = True
        elif token and (within or self.scopes[at].kind == "file" or name in self.jumped):
            self.replaced.append((token, _expression(name)))


def _expression(name):
    return f"{name}__shared.of_this_block()"


def _without_alignment(part):
    kept, k = [], 0
    while k < len(part):
        closes = matching(part, k + 1) if part[k].text in _ALIGNMENT and text_at(part, k + 1) == "(" else None
        if closes is None:
            kept.append(part[k])
        k = k + 1 if closes is None else closes + 1
    return kept


def _outside_brackets(part):
    """The texts of the tokens outside brackets, with the brackets themselves."""
    texts, k = [], 0
    while k < len(part):
        texts.append(part[k].text)
        k = step_over(part, k)
    return texts


def _parameters(head):
    """The names of a function's parameters and template parameters."""
    names, k = set(), 0
    while k < len(head):
        closes = matching(head, k) if head[k].text in ("(", "<") else None
        if closes is not None:
            names |= {cxx.parameter_name(parameter) for parameter in cxx.at_commas(head[k + 1 : closes])}
        k = k + 1 if closes is None else closes + 1
    return names


def _type_end(part, k):
    """The index after the type with which the statement at index k begins; None if it begins with something else."""
    named = False
    while k < len(part):
        text, after = part[k].text, text_at(part, k + 1)
        if text in _NO_TYPES or not text.isidentifier() and text not in ("*", "&", "::", "<"):
            break
        if text == "<":
            closes = matching(part, k)
            if closes is None or any(token.text == "|" or token.text == "&" for token in part[k:closes]):
                return None  # i < n && a > t
            k = closes
        elif text.isidentifier() and named and after in ("=", ";", "[", "(", "{", ",", ":"):
            break
        named = named or text.isidentifier()
        k += 1
    return k if named and k < len(part) else None
