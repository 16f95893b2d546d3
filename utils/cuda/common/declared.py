"""What load_cuda asks of its texts: one of them defines the functions that Python calls, and `cpp_src` declares them as
they are defined.
"""

from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import product

from utils.cuda.common import cxx

__all__ = ["check_functions", "names"]


def names(funcs) -> list[str]:
    """load_cuda's `funcs`, a name or several. Raises TypeError for anything else, ValueError for none."""
    __tracebackhide__ = True
    if not isinstance(funcs, Iterable):
        wanted = "funcs must be a function's name, such as 'square', or a list of names"
        raise TypeError(f"{wanted}, but it is {type(funcs).__name__}: {funcs!r:.80}")
    found = [funcs] if isinstance(funcs, str) else list(funcs)
    if not found:
        raise ValueError("funcs is empty: name at least one function to call from Python")
    return found


def check_functions(cuda_src, cpp_src, funcs):
    """Every function must be in the text; for a misspelt one the error suggests the nearest name."""
    __tracebackhide__ = True
    called = cxx.called(cuda_src) | cxx.called(cpp_src)
    both = [*cxx.functions(cuda_src), *cxx.functions(cpp_src)]
    for name in funcs:
        if not str(name).isidentifier():
            raise ValueError(f"{name!r} is not a function name")
        if name in called:
            _check_kernel(name, cuda_src, cpp_src, both)
            _check_declared(name, cuda_src, cpp_src)
            continue
        declared = list(dict.fromkeys(function.name for function in both if function.exported))
        near = get_close_matches(name, declared, 1, cutoff=0.6)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        have = f" It has: {', '.join(declared)}." if declared else ""
        raise ValueError(f"the source has no function {name!r}.{meant}{have}")
    _check_returns(cuda_src, cpp_src)


def _check_kernel(name, cuda_src, cpp_src, functions):
    """Python calls a function of the host, which launches kernels."""
    __tracebackhide__ = True
    there = [function for function in functions if function.name == name]
    if not there or any("__global__" not in function.words for function in there):
        return
    if _own_headers(cuda_src) or _own_headers(cpp_src):  # one may have a function of that name
        return
    launching = [f.name for f in functions if f.exported and f.defined and _launches(f, name)]
    such = f", here {launching[0]!r}" if launching else ""
    raise ValueError(
        f"{name!r} is a kernel, which Python cannot call through load_cuda: name a host function that launches "
        f"it{such}. compile_kernel makes a kernel callable by itself"
    )


def _own_headers(source) -> bool:
    """Whether the text includes a header of the learner's: `#include "mine.h"`."""
    return any(line[-1].text.endswith('"') for line in cxx.directives(source) if cxx.included(line))


def _launches(function, kernel) -> bool:
    launches = (cxx.launch(function.tokens, k) for k, token in enumerate(function.tokens) if token.text == "<<<")
    return any(cxx.instance(launch.kernel or "-") and cxx.instance(launch.kernel)[0] == kernel for launch in launches)


def _check_declared(name, cuda_src, cpp_src):
    """A function of `cuda_src` is called from Python through its declaration in `cpp_src`."""
    __tracebackhide__ = True
    defined = [function for function in cxx.functions(cuda_src) if function.name == name and function.defined]
    if not defined or not defined[0].exported or name in cxx.called(cpp_src) or _own_headers(cpp_src):
        return
    from utils.cuda.common.diagnostics import CompileError, excerpt

    function = defined[0]
    wrong = f"cpp_src does not declare `{name}`, so Python cannot call it. cuda_src, line {function.line}, defines it:"
    declaration = " ".join(function.signature.split())
    raise CompileError(
        f"{wrong}\n{excerpt(cuda_src, function.line, 0)}",
        [("cpp_src", 1, wrong)],
        hint=f"Write into cpp_src: `{declaration};`",
    )


# ---- what a function returns ----------------------------------------------------------------------------------------


def _check_returns(cuda_src, cpp_src):
    """What a function returns is no part of its name for the linker: a text that calls it by a declaration with another
    type is linked with it, and the call ends Python."""
    __tracebackhide__ = True
    declarations = _by_parameters(cpp_src, defined=False)
    definitions = _by_parameters(cuda_src, defined=True)
    for key in declarations.keys() & definitions.keys():
        pairs = list(product(declarations[key], definitions[key]))
        kinds = [(_returned(one), _returned(other)) for one, other in pairs]
        if any(not one or not other or one == other for one, other in kinds):
            continue  # in some branch of an `#if`, they are the same; or a type cannot be told
        from utils.cuda.common.diagnostics import CompileError, excerpt

        (declared, defined), (here, there) = pairs[0], kinds[0]
        wrong = f"`{declared.name}` returns {here} here, but {there} where cuda_src defines it: a call would end Python"
        declaration = " ".join(defined.signature.split())
        raise CompileError(
            f"cpp_src, line {declared.line}: {wrong}\n{excerpt(cpp_src, declared.line, 0)}\n"
            f"cuda_src, line {defined.line}:\n{excerpt(cuda_src, defined.line, 0)}",
            [("cpp_src", declared.line, wrong)],
            hint=f"Write into cpp_src: `{declaration};`",
        )


def _by_parameters(source, defined) -> dict[tuple, list[cxx.Declaration]]:
    """The functions that other files can call, defined or only declared, by name and types of their parameters."""
    found = defaultdict(list)
    for function in cxx.functions(source):
        if function.exported and function.defined == defined:
            types = (cxx.tokens(cxx.parameter_type(parameter)) for parameter in function.parameters)
            found[(function.name, *("".join(_plain(part)) for part in types))].append(function)
    return found


_NAMESPACES = {"torch", "at", "c10", "std", "::"}
_SAME = {"int64_t": "long", "signed": "", "const": ""}
_NO_TYPE = {"extern", '"C"', "__host__", "constexpr", "const", "C10_EXPORT", "TORCH_API"}
_NUMBERS = {*"bool char short int long float double unsigned signed size_t half __half __nv_bfloat16".split()}
_NUMBERS |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_CONTAINERS = {*"vector tuple pair array optional string map unordered_map".split()}


def _plain(part) -> list[str]:
    """The texts of a type's tokens, without namespaces and `const`."""
    texts = [_SAME.get(token.text, token.text) for token in part if token.text not in _NAMESPACES]
    return [f"{text} " if text.isidentifier() else text for text in texts if text]


def _returned(function) -> str:
    """What a function returns, as far as it matters to a call: 'nothing', 'a number', 'a Tensor', 'a std::vector', 'an
    address'; empty if that cannot be told."""
    texts = [token.text for token in cxx.tokens(function.returns) if token.text not in _NAMESPACES | _NO_TYPE]
    if texts and texts[-1] in ("*", "&"):
        return "an address"
    if texts in (["void"], ["Tensor"]):
        return {"void": "nothing", "Tensor": "a Tensor"}[texts[0]]
    if texts and set(texts) <= _NUMBERS:
        return "a number"
    if len(texts) > 1 and texts[0] in _CONTAINERS and texts[1] == "<" or texts == ["string"]:
        return f"a std::{texts[0]}"
    return ""
