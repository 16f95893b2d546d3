"""The kernel that a name means, as compile_kernel is given it: one of the source's, or the reason why none is."""

import re
from difflib import get_close_matches

from utils.cuda.common import cxx
from utils.cuda.common.characters import described, hidden
from utils.cuda.common.lexer import namespaces
from utils.cuda.common.program import headers_of

__all__ = ["chosen_kernel"]


def chosen_kernel(source, name, options=()) -> cxx.SourceKernel:
    """The kernel that `name`, possibly with template arguments, means, of the source or of a header that it includes;
    `options` are NVRTC's. Raises ValueError that lists the source's kernels."""
    __tracebackhide__ = True
    if not isinstance(name, str):
        raise TypeError(f"name must be text, but it is {type(name).__name__}: {name!r:.80}")
    there = cxx.kernels(source)
    shown = ", ".join(k.name + (f"<...> ({k.template})" if k.template else "") for k in there.values())
    have = f" The source has: {shown}." if there else " The source has no __global__ function."
    written = cxx.instance(name)
    if not written:
        raise ValueError(f"{name!r} is no kernel's name, like 'square' or 'matmul_tile<16>'.{have}")
    base, arguments = written
    if base not in there:
        for text in headers_of(source, options=options).values():
            there = cxx.kernels(text) | there
    if base not in there:
        in_macros = any(token.directive and token.text == "__global__" for token in cxx.tokens(source))
        if in_macros or there.keys() & cxx.macros(source).keys():  # __global__ void CAT(my, kernel)(int* x)
            return cxx.SourceKernel(base, "", [], False, 0)  # a macro may define it: the compiler knows
        if found := hidden(cxx.code(source)):
            line, column = _place(cxx.code(source), found)
            what = f"Line {line} has an invisible character in column {column}, {described(found)}: delete it"
            raise ValueError(f"the source has no kernel {base!r}. {what}")
        near = get_close_matches(base, there, 1, cutoff=0.6)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        function = next((f for f in cxx.functions(source) if f.name == base and f.defined), None)
        if function and (mark := _misspelt_mark(source, function)):
            meant = "`__global__ void`, with a space" if mark.text.startswith("__global__") else "`__global__`"
            wrong = f"line {mark.line} has `{mark.text}` before it. Did you mean {meant}?"
            raise ValueError(f"{base!r} is a function but no kernel: {wrong}{have if there else ''}")
        if function:
            opencl = " (`__kernel` is OpenCL's word for it)" if "__kernel" in source else ""
            only = f"only a __global__ function can be launched{opencl}"
            raise ValueError(f"{base!r} is a function but no kernel: {only}.{have}")
        raise ValueError(f"the source has no kernel {base!r}.{meant}{have}")
    kernel = _of_that_form(source, name, arguments, there[base])
    if kernel.template and not arguments:
        starts = [each.tokens[0].start for each in cxx.declared_kernels(source) if each.name == kernel.name]
        if any(re.search(r'extern\s*"C"\s*\{?\s*$', source[:start]) for start in starts):
            wrong = 'a template cannot be extern "C": leave that out'
            raise ValueError(f"{base!r} is a template, and {wrong}. Then name an instance, as in '{base}<...>'")
        raise ValueError(
            f"{base!r} is a template ({kernel.template}): name an instance, its arguments in angle brackets, "
            f"as in '{base}<...>'"
        )
    if arguments and not kernel.template:
        raise ValueError(f"{base!r} is no template, so {name!r} does not exist: leave out {arguments}")
    return kernel


def _place(text, character) -> tuple[int, int]:
    at = text.index(character)
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _misspelt_mark(source, function) -> cxx.Token | None:
    """The word before a function that is close to `__global__`: `_global_`, `__gloabl__`, `__global__void`."""
    for word in function.tokens[: function.head]:
        if word.text == function.name or not word.text.isidentifier():
            break
        close = word.text.startswith("__global__") or get_close_matches(
            word.text.strip("_").lower(), ["global"], 1, 0.7
        )
        if close and word.text not in cxx.macros(source):
            return word
    return None


def _of_that_form(source, name, arguments, kernel):
    """Of the source's kernels with the name of `kernel`, one in the namespaces that `name` has, and a template if
    `arguments` are given, as far as there is one. Raises ValueError if several overload each other."""
    __tracebackhide__ = True
    same = [k for k in cxx.declared_kernels(source) if k.name == kernel.name]
    if len(same) < 2:
        return kernel
    tokens = cxx.tokens(source)
    spaces = [token.text for token in cxx.tokens(name.partition("<")[0]) if token.text != "::"][:-1]
    there = [k for k in same if not spaces or namespaces(tokens, k.tokens[0].start)[-len(spaces) :] == spaces]
    there = [k for k in there if bool(k.template) == bool(arguments)] or there
    if not there:
        return kernel
    overloads = [k for k in there if k.defined and not k.template]
    places = {tuple(namespaces(tokens, k.tokens[0].start)) for k in overloads}
    types = {tuple(map(cxx.parameter_type, k.parameters)) for k in overloads}
    branches = any(line[1].text.startswith(("if", "el")) for line in cxx.directives(source) if len(line) > 1)
    # Each branch may have one. Two of the same types are a mistake that a compiler explains.
    if len(overloads) == len(types) > len(places) == 1 and not branches:
        lines = " and ".join(str(k.line) for k in overloads)
        raise ValueError(
            f"the source has {len(overloads)} kernels {kernel.name!r}, in lines {lines}: give each a name of its own, "
            "or make them one template, whose instance can be named"
        )
    names = [cxx.parameter_name(parameter) for parameter in there[0].parameters]
    return kernel._replace(template=there[0].template, names=names, line=there[0].line)
