"""Kernels that are called like functions, or launched as in Python, `k[blocks, threads](x)`. The same name may mean a
variable, a parameter or a member of the source."""

from utils.cuda.common import cxx
from utils.cuda.cpu.meanings import Reader

__all__ = ["calls"]


def calls(source, marked, declared) -> list[cxx.Token]:
    """The names of kernels that are called so, in order. `marked` are its kernels' declarations, `declared`
    all those outside of types and functions."""
    names = {kernel.name for kernel in marked} - {d.name for d in declared if "__global__" not in d.words}
    heads = {token.start for kernel in marked for token in kernel.tokens[: kernel.head]}
    part = [token for token in cxx.tokens(source) if not token.directive]
    if not any(t.text in names and t.start not in heads and _is_called(part, k) for k, t in enumerate(part)):
        return []
    reader = _Calls(source, names)
    reader.read()
    return reader.called


def _is_called(part, k):
    """Whether the arguments of a call come after the name at index k, or after its template arguments or brackets."""
    after = k + 1
    for opener in ("<", "["):
        if cxx.text_at(part, after) == opener:
            after = (cxx.matching(part, after) or after) + 1
    return cxx.text_at(part, after) == "("


class _Calls(Reader):
    def __init__(self, source, names):
        super().__init__(source, names)
        self.called = []

    def used(self, k):
        if self.found(self.part[k].text) == 0 and self.depth() and _is_called(self.part, k):
            self.called.append(self.part[k])
