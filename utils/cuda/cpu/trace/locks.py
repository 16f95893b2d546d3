"""Locks of the learner's source: `atomicCAS(lock, 0, 1)` takes one, `atomicExch(lock, 0)` releases it."""

import re
from typing import NamedTuple

from utils.cuda.common import cxx

__all__ = ["Lock", "lock_around", "never_met"]


class Lock(NamedTuple):
    """A lock that a thread has at a line."""

    name: str  # as `atomicExch` takes it: 'lock', '&locks[b]'
    behind: bool  # whether there is a fence behind the line that takes it,
    before: bool  # and before the one that releases it
    stored: str  # the line that releases it, if that is a plain store: '*lock = 0;'
    free: str  # the value of a free one


class _Use(NamedTuple):
    """Where a function takes or releases a lock."""

    function: cxx.Declaration
    at: int  # the index of the token
    argument: list
    free: str
    stored: str = ""

    def places(self, own):
        """Where another function, or this one, does so."""
        return (
            [self.at] if self.function is own else [k for k, t in enumerate(own.tokens) if t.text == self.function.name]
        )


def lock_around(source, line, array) -> Lock | None:
    """The lock that a thread has taken before it comes to `array` in a line, and releases after it, as far as the text
    says. The lines that take and release it count, too."""
    functions = [d for d in cxx.functions(source) if d.defined]
    own = next((d for d in functions if d.tokens[0].line <= line <= d.tokens[-1].line), None)
    if not own:
        return None
    here = [k for k, token in enumerate(own.tokens) if token.line == line]
    at = next((k for k in here if own.tokens[k].text == array), here[0] if here else 0)
    for take in (use for d in functions for use in _takes(d)):
        for release in (use for d in functions for use in _releases(d, take.free)):
            taken = max((k for k in take.places(own) if k <= at), default=None)
            released = min((k for k in release.places(own) if k >= at), default=None)
            together = take.function is release.function
            if None in (taken, released) or (
                _name(take.argument) != _name(release.argument) if together else release.stored
            ):
                continue
            behind, before = own.tokens[taken:at], own.tokens[at:released]
            behind = [*behind, *(take.function.tokens[take.at :] if take.function is not own else ())]
            before = [*before, *(release.function.tokens[: release.at] if release.function is not own else ())]
            fenced = [any(t.text.startswith("__threadfence") for t in part) for part in (behind, before)]
            return Lock(cxx.written(take.argument), *fenced, release.stored, take.free)
    return None


def never_met(source, loop) -> str:
    """Why a loop that takes a lock, or a place in a table, may not end, as a question; empty of another loop."""
    part = [token for token in cxx.tokens(source) if loop.line <= token.line <= loop.last]
    for _, arguments in _calls(part, "atomicCAS"):
        if len(arguments) == 3 and _is_constant(arguments[1]):
            takes = _is_constant(arguments[2])
            return "does every thread that takes the lock release it?" if takes else "is the table full?"
    return ""


def _takes(function):
    """Where `atomicCAS(lock, 0, 1)` compares with a constant and sets another one."""
    for k, arguments in _calls(function.tokens, "atomicCAS"):
        if len(arguments) == 3 and all(_is_constant(one) for one in arguments[1:]):
            yield _Use(function, k, arguments[0], cxx.written(arguments[1]))


def _releases(function, free):
    part = function.tokens
    for k, arguments in _calls(part, "atomicExch"):
        if len(arguments) == 2 and cxx.written(arguments[1]) == free:
            yield _Use(function, k, arguments[0], free)
    for k, token in enumerate(part):
        if token.text == "=" and (cxx.text_at(part, k + 1), cxx.text_at(part, k + 2)) == (free, ";"):
            first = k
            while first and part[first - 1].text not in (";", "{", "}", ")", "else"):
                first -= 1
            yield _Use(function, k, part[first:k], free, cxx.written(part[first : k + 3]))


def _calls(part, name):
    """The index of each call of a function, with its arguments."""
    for k, token in enumerate(part):
        closes = cxx.matching(part, k + 1) if token.text == name and cxx.text_at(part, k + 1) == "(" else None
        if closes:
            yield k, [*cxx.at_commas(part[k + 2 : closes])]


def _is_constant(expression):
    return re.fullmatch(r"-?\d\w*|[A-Z][A-Z\d_]*", "".join(token.text for token in expression)) is not None


def _name(expression):
    """'lock' of `lock`, `*lock`, `&lock` and `lock[0]`."""
    return "".join(token.text for token in expression).lstrip("&*").removesuffix("[0]")
