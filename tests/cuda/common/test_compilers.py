"""A source on which a compiler would work without end, or in which memory would not suffice."""

import pytest

from utils import CompileError, compile_kernel
from utils.cuda.common import compilers

KERNEL = "__global__ void k(long* x) { x[0] = T<40>::value; }"
# 2^40 different types, each with its own value.
EXPLODES = f"""
template <int depth, long at = 0> struct T {{
    static const long value = T<depth - 1, 2 * at>::value + T<depth - 1, 2 * at + 1>::value;
}};
template <long at> struct T<0, at> {{ static const long value = at; }};
{KERNEL}
"""


@pytest.mark.parametrize(("name", "limit"), [("MOST_SECONDS", 2), ("most_bytes", lambda: 400 * 10**6)])
def test_templates_without_end_are_an_error(on_cpu, fresh, monkeypatch, name, limit):
    compile_kernel("__global__ void k(int* x) {}", "k")  # the engine itself is built without the limit
    monkeypatch.setattr(compilers, name, limit)
    with pytest.raises(CompileError, match="a compiler was ended: .* multiply without end|out of memory"):
        compile_kernel(EXPLODES, "k")
