"""Where device code may refer to an element of a local array, and of which variables a function gets the address."""

from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.cpu.scopes import NOT_DECLARATIONS

__all__ = ["may_be_referred_to", "own_functions", "passes_address"]

_AFTER_PARAMETERS = {"{", "const", "noexcept", "mutable", "->"}
_BEFORE_WHOLE, _AFTER_WHOLE = {"(", ",", "{", "?", ":", "return"}, {")", ",", "}", ":", ";"}


def may_be_referred_to(part, k, after, of_class) -> bool:
    """Whether a reference may be made to the element named from index `k` to before index `after`, as by `f(a[i])`,
    `auto& x = a[i]` and `a[i].method()`; `of_class`: its type may have operators."""
    before, behind = cxx.text_at(part, k - 1), cxx.text_at(part, after)
    if behind == ".":
        return cxx.text_at(part, after + 2) == "("
    if before == "(" and cxx.text_at(part, k - 2).endswith('"'):  # an operand of `asm`
        return False
    if before == "=" and cxx.text_at(part, k - 3) in ("&", "&&"):
        return True
    return of_class or before in _BEFORE_WHOLE and behind in _AFTER_WHOLE


class Function(NamedTuple):
    parameters: list  # the tokens of each
    body: list  # tokens; none of a function that is only declared

    def may_leave(self, number) -> bool:
        """Whether it uses the parameter with this number other than by `*p` and `p->x`."""
        name = cxx.parameter_name(self.parameters[min(number, len(self.parameters) - 1)]) if self.parameters else ""
        for k, token in enumerate(self.body):
            before, after = cxx.text_at(self.body, k - 1), cxx.text_at(self.body, k + 1)
            if token.text == name and after != "->" and (before != "*" or after in ("[", "++", "--")):
                return True
        return not self.body


def own_functions(part) -> dict[str, list[Function]]:
    """The functions, methods and lambdas that are declared among these tokens, by name."""
    found = {}
    for opens, token in enumerate(part):
        closes = cxx.matching(part, opens) if token.text == "(" and not token.directive else None
        if closes is None:
            continue
        at, after = opens - 1, cxx.text_at(part, closes + 1)
        if cxx.text_at(part, at) == "]":  # auto name = [&](
            at = (cxx.matching(part, at) or 0) - 2
        typed = cxx.text_at(part, at - 1).isidentifier() and part[at - 1].text not in NOT_DECLARATIONS
        name = cxx.text_at(part, at)
        if name in NOT_DECLARATIONS or after not in _AFTER_PARAMETERS and not (after == ";" and typed):
            continue
        begins = next((k for k in range(closes, len(part)) if part[k].text in ("{", ";")), closes)
        body = part[begins + 1 : cxx.step_over(part, begins)]
        found.setdefault(name, []).append(Function(cxx.at_commas(part[opens + 1 : closes]), body))
    return found


def passes_address(part, k, end, functions) -> bool:
    """Whether one of the functions may leave the variable named at index `k`, as an argument `&v` or `&v.x`; or after
    `p = &v`, with p as an argument before index `end`."""
    first, after = k - 1, k + 1
    if part[first].text != "&":
        return False
    while cxx.text_at(part, after) == ".":
        after += 2
    if cxx.text_at(part, first - 1) == ")":  # (float*)&v
        first = cxx.matching(part, first - 1) or first
    if cxx.text_at(part, first - 1) != "=":
        return _may_leave(part, first, after, functions)
    later = (i for i in range(after, end) if part[i].text == part[first - 2].text)
    return any(_may_leave(part, i, i + 1, functions) for i in later)


def _may_leave(part, k, after, functions):
    """Whether the tokens from index `k` to before `after` are an argument of a function that may leave what it is."""
    if cxx.text_at(part, k - 1) not in ("(", ",") or cxx.text_at(part, after) not in (")", ","):
        return False
    opens = k - 1
    while opens > 0 and part[opens].text != "(":
        if part[opens].text in (";", "{", "["):
            return False
        opens = (cxx.matching(part, opens) if part[opens].text in (")", "]", "}") else opens) or 0
        opens -= 1
    name = (cxx.matching(part, opens - 1) or 0) - 1 if cxx.text_at(part, opens - 1) == ">" else opens - 1
    if cxx.text_at(part, name).endswith("_cast"):
        return _may_leave(part, name, after + 1, functions)
    number = max(len(cxx.at_commas(part[opens + 1 : k])) - 1, 0)
    return any(function.may_leave(number) for function in functions.get(cxx.text_at(part, name), ()))
