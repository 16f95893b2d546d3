"""What a name means wherever it stands: the tracked thing, or a variable, a parameter or a member that hides it.

A reader goes through the tokens of a source once, and keeps the scopes that it is in. What the tracked names are, and
what becomes of their uses, is up to its subclasses.
"""

from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.common.cxx import matching, step_over, text_at

__all__ = ["Reader", "Scope"]

_CLASSES = {"struct", "class", "union"}
_ALIGNMENT = {"alignas", "__align__", "__attribute__", "__builtin_align__"}
_NO_TYPES = {"return", "case", "else", "throw", "sizeof", "delete", "new", "do", "and", "or", "not", "goto"}
_WITH_STATEMENT = {"for", "if", "while", "switch", "catch", "constexpr"}
_BEFORE_BODY = {"mutable", "constexpr", "consteval", "static", "noexcept", "__device__", "__host__", "__forceinline__"}
_BEFORE_BODY |= {"__attribute__", "__noinline__", "inline"}


class Scope:
    def __init__(self, kind, end, names=()):
        self.kind = kind  # 'file', 'class', 'body' (of a function), 'head' (of a lambda), 'braces' (a value), 'block'
        self.end = end  # index of its last token
        self.names = dict.fromkeys(names, False)  # whether each is the tracked thing
        self.is_lambda = False
        self.begins = None  # index of the first token of the current statement
        self.parentheses = -1  # index where the current ones end
        self.used = {}  # of a body: what it uses from outside, in order, with what the subclass notes of each


class Reader:
    def __init__(self, source, tracked=()):
        self.part = [token for token in cxx.tokens(source) if not token.directive]
        self.tracked = set(tracked)
        self.scopes = [Scope("file", len(self.part))]
        self.scopes[0].names = dict.fromkeys(tracked, True)
        self.later = {}  # scopes that begin later, by the index of their first token
        self.members = {}  # of classes, the tracked names that they declare or inherit
        self.no_uses = set()  # indices of names that declare parameters or captures
        self.bodies = []  # (the index of its `{`, its scope) of each function and lambda

    def read(self):
        """Go through all tokens."""
        k = 0
        while k < len(self.part):
            k = self._step(k)

    # ---- what subclasses add ----------------------------------------------------------------------------------------

    def special(self, k) -> int | None:
        """Whatever else the token at index k may mean; returns the index of the next token if this one is done."""

    def used(self, k):
        """The name at index k is used; `found` says what it means."""

    def qualified(self, k):
        """The same behind `::`."""

    def captured(self, token):
        """A lambda's `[...]` names what is tracked."""

    def declared(self, k, scope):
        """The name at index k declares something else, which hides what is tracked."""
        if scope.kind != "file":
            scope.names[self.part[k].text] = False

    # ---- one token after the other ----------------------------------------------------------------------------------

    def _step(self, k):
        """Read the token at index k; returns the index of the next one."""
        while len(self.scopes) > 1 and k > self.scopes[-1].end:
            ended = self.scopes.pop()
            if ended.kind in ("file", "body", "class", "block") and not ended.is_lambda:
                self.scopes[-1].begins = None
        opened = self.later.pop(k, [])
        self.scopes += opened
        scope, text = self.scopes[-1], self.part[k].text
        scope.begins = k if scope.begins is None else scope.begins
        after = self.special(k)
        if after is not None:
            return after
        if text == "{":
            if not opened:
                scope = self._opened(k)
                self.scopes.append(scope)
            scope.begins = None
            if scope.kind == "body":
                self.bodies.append((k, scope))
        elif text == ";" or text == ":" and self._ends_label(k, scope):
            scope.begins = None
        elif text == "[":
            self._bracket(k)
        elif text == "(":
            self._parenthesis(k)
        elif text in self.tracked:
            self._name(k)
        return k + 1

    def _opened(self, k):
        """The scope that begins with the `{` at index k."""
        outer, closes = self.scopes[-1], matching(self.part, k)
        closes = len(self.part) if closes is None else closes
        head = _without_alignment(self.part[outer.begins : k])
        words, before = _outside_brackets(head), text_at(self.part, k - 1)
        in_function = outer.kind not in ("file", "class")
        if "(" not in words and "=" not in words and _CLASSES & set(words) and "enum" not in words:
            own = next(k for k, word in enumerate(words) if word in _CLASSES) + 1
            inherited = [self.members.get(word, set()) for word in words[own + 1 :]]
            members = self._members(k, closes).union(*inherited)
            self.members.setdefault("".join(words[own : own + 1]), set()).update(members)
            return Scope("class", closes, _parameters(head) | members)
        if in_function:
            is_block = before in (")", "else", "do", "try", "{", "}", ";", ":") or outer.begins == k
            return Scope("block" if is_block else "braces", closes)
        if "(" not in words and ("namespace" in words or '"C"' in words):
            return Scope("file", closes)
        named = before.isidentifier() and before not in (*_BEFORE_BODY, "const", "override", "final", "try")
        if "(" not in words or "=" in words and "operator" not in words or named and ":" in words:
            return Scope("braces", closes)
        return Scope("body", closes, self._known(head))

    def _known(self, head):
        """The names that a function's head declares, and the members of the class that it belongs to."""
        words = (word for word in _outside_brackets(head) if word != "<")
        around = [word for word, after in pairwise(words) if after == "::"]  # T of T<F>::f()
        return _parameters(head).union(*(self.members.get(word, set()) for word in around))

    def _ends_label(self, k, scope):
        """Whether the `:` at index k ends a label or a `case`."""
        if scope.kind not in ("body", "block"):
            return False
        first = self.part[scope.begins].text
        return first == "case" or scope.begins == k - 1 and first not in (*_CLASSES, "enum")

    def _members(self, opens, closes):
        """The tracked names that a class declares: they are known in all of it, also above their declarations."""
        names, k, inside = set(), opens + 1, Scope("class", closes)
        inside.begins = k
        while k < closes:
            text = self.part[k].text
            if text in self.tracked and self._is_declared(k, inside):
                names.add(text)
            k = step_over(self.part, k)
            if self.part[k - 1].text in (";", "}", ":"):
                inside.begins = k
        return names

    def _parenthesis(self, k):
        scope, closes = self.scopes[-1], matching(self.part, k) or k
        if text_at(self.part, k - 1) in _WITH_STATEMENT and scope.kind not in ("file", "class"):
            end = self._with_else(self._statement_end(closes + 1), text_at(self.part, k - 1))
            self.scopes.append(Scope("block", end))
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
        text = text_at(self.part, k)
        if text == "{":
            return matching(self.part, k) or k
        if text in _WITH_STATEMENT:  # it ends with the statement in it
            opens = next((j for j in (k + 1, k + 2) if text_at(self.part, j) == "("), None)
            if opens is not None:
                return self._with_else(self._statement_end((matching(self.part, opens) or opens) + 1), text)
        while k < len(self.part) and self.part[k].text not in (";", "}"):
            k = step_over(self.part, k)
            if self.part[k - 1].text == "}" and text_at(self.part, k) not in (";", ",", ")", "(", ".", "else"):
                return k - 1
        return k

    def _with_else(self, end, word):
        """The index of the last token of a statement that begins with `word`, without its `else` up to index end."""
        has = word in ("if", "constexpr") and text_at(self.part, end + 1) == "else"
        return self._statement_end(end + 2) if has else end

    def depth(self):
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
            elif j is not None and self.found(capture[j].text) is not None:
                self.captured(capture[j])
            at += len(capture) + 1
        body = Scope("body", matching(self.part, opens) or len(self.part), names)
        body.is_lambda = True
        self.later[opens] = [body]
        if opens > closes + 1:
            self.later[closes + 1] = [Scope("head", opens - 1, names)]

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
        after = text_at(self.part, k + 1)
        if k in self.no_uses or before in (".", "->", "goto"):
            return
        if after == ":" and scope.begins == k and scope.kind in ("body", "block"):  # a label
            return
        if before == "::":
            self.qualified(k)
        elif not self._is_declared(k, scope):
            self.used(k)
        elif k > scope.parentheses or self._is_enclosed(k):
            self.declared(k, scope)

    def _is_declared(self, k, scope):
        """Whether the name at index k declares a variable, a parameter or a type."""
        before, after = text_at(self.part, k - 1), text_at(self.part, k + 1)
        if after in (".", "->"):
            return False
        if before.isidentifier():
            return before not in _NO_TYPES
        if before not in ("*", "&", ">", ",") or k <= scope.parentheses and not self._is_enclosed(k):
            return False
        end = _type_end(self.part, scope.begins)
        if end is None or after == "=" and text_at(self.part, k + 2) == "=":
            return False
        j = k - 1
        while text_at(self.part, j) in ("*", "&", "const"):
            j -= 1
        if text_at(self.part, j) == ",":  # float a, *t
            return end < j and self.part[end].text.isidentifier()
        return end == (k - 2 if self._is_enclosed(k) else k)

    def _is_enclosed(self, k):
        """Whether the name at index k could be declared in parentheses of its own: float (&t)[4], int (*f)(int)."""
        words = [text_at(self.part, at) for at in (k - 2, k - 1, k + 1, k + 2)]
        return words[0] == "(" and words[1] in ("*", "&") and words[2] == ")" and words[3] in ("[", "(")

    def found(self, name):
        """The index of the scope that declares the tracked thing of this name; None if the name is another's."""
        at = next((j for j in range(len(self.scopes) - 1, -1, -1) if name in self.scopes[j].names), None)
        return at if at is not None and self.scopes[at].names[name] else None


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
