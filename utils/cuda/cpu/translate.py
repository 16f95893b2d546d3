"""CUDA C++ in, C++ out: the few things that no header can define.

A launch `kernel<<<grid, block>>>(args)` and a `__shared__` variable are rewritten, and the words with which torch code
asks for a GPU are replaced by those that ask for the CPU. Everything else is left as it was, and every line keeps its
number, so a compiler's message about line 7 is about line 7 of the learner's source.
"""

import contextlib
import re
from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.common.missing import unclosed_brace
from utils.cuda.cpu import (
    bools,
    cases,
    chosen,
    constants,
    designators,
    device_addresses,
    extern_variables,
    host_copies,
    instances,
    kernel_calls,
    launch_bounds,
    long_doubles,
    own_names,
    shared_uses,
    shared_variables,
    spelled,
    torch_places,
)
from utils.cuda.cpu.architecture import with_architecture
from utils.cuda.cpu.missing import without_missing_headers
from utils.cuda.cpu.plain_macros import edited, lines_of, with_plain_macros, with_plain_words
from utils.cuda.cpu.ptx.parse import Refused
from utils.cuda.cpu.ptx.statements import with_statements
from utils.ground.errors import CourseError

__all__ = ["NeedsGPU", "TranslationError", "shared_outside", "translate"]


class TranslationError(CourseError):
    """The source contains something that cannot be translated for the CPU; `.line` is its line, counted from 1."""


class NeedsGPU(TranslationError):
    """It is something that only a GPU can run, if that."""


# What asks for the GPU in torch code, and its replacement here, where CPU tensors pass for CUDA tensors.
_ON_CPU = {"is_cuda": "is_cpu", "kCUDA": "kCPU", "printf": "::cuda_on_cpu::formatted_print"}

_NEEDS_GPU = {
    **dict.fromkeys(["tex1D", "tex2D", "tex3D", "tex1Dfetch", "tex2DLayered", "texCubemap"], "a texture"),
    "cudaTextureObject_t": "a texture",
    "cudaSurfaceObject_t": "a surface",
}

# Calls whose first argument is a kernel; a cast to void* would hide the kernel's type.
_TAKES_KERNEL = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel"}


def translate(source: str, kernels: bool = True, host: bool = True, whole: bool = True, elsewhere=frozenset()) -> str:
    """C++ for the CPU from CUDA C++ text, line for line. Without `kernels`, it is text that nvcc never sees;
    without `host`, it is device code alone, as for NVRTC: the build defines `__CUDA_ARCH__` for all of it. Unless it is
    the `whole` device code, a variable may be defined in another file. `elsewhere` are the names of the `__shared__`
    variables that headers declare outside of functions.

    Raises TranslationError for a launch or a `__shared__` declaration that cannot be read, for what needs a GPU, and
    for what nvcc would refuse and a C++ compiler would not notice.
    """
    _check_braces(source)
    source = _without_asm(without_missing_headers(with_plain_words(source)))
    source = designators.without_designators(own_names.renamed(with_plain_macros(source)))
    tokens, marked = cxx.tokens(source), cxx.declared_kernels(source)
    _check_kernels(marked)
    declared = cxx.declarations(source)
    in_kernels, in_bodies = _bodies(marked), _bodies(declared)
    _check_calls(source, marked, declared)
    if host:
        _check_host(source, declared)
    edits = []  # (start, end, replacement), none inside another
    shared = []  # the declarations of shared variables
    plain, kernel_names = _non_kernel_functions(source, marked), {kernel.name for kernel in marked}
    bounded = launch_bounds.bounded(marked)
    templates = {kernel.name: kernel.template for kernel in marked if kernel.template}
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.text in ("<<<", "__global__") and not kernels:
            raise _error(token, f"`{token.text}` belongs in cuda_src: nvcc does not compile this text")
        if token.text == "<<<":
            if _is_inside(token, in_kernels):
                raise _needs_gpu(token, "a kernel that launches a kernel (dynamic parallelism) needs a GPU")
            i = _launch(source, tokens, i, edits, plain, bounded, templates)
        elif token.text == "__shared__":
            inside = token.directive or _is_inside(token, in_bodies)
            jumped = _may_be_jumped(tokens, i, in_bodies)
            i = _shared(source, tokens, i, edits, inside, jumped, shared)
        else:
            _word(tokens, i, edits)
            _untyped(tokens, i, edits, kernel_names)
            i += 1
    elsewhere = elsewhere & {token.text for token in tokens} - {name for d in declared for name in d.names}
    edits += _uses(source, shared, elsewhere) + cases.edits(tokens) + chosen.edits(source)
    edits += bools.edits(tokens, declared) + long_doubles.edits(tokens, declared)
    edits += constants.edits(source, tokens, lambda token: _is_inside(token, in_bodies))
    edits += spelled.edits(source, tokens)
    edits += extern_variables.edits(declared, host) if whole else []
    edits += device_addresses.edits(declared) if kernels and host else []
    edits += host_copies.edits(declared) if host else []
    edits += torch_places.edits(declared) if host and cxx.uses_torch(source) else []
    edits += launch_bounds.edits(marked) + launch_bounds.uses(tokens, bounded)
    translated = edited(source, edits)
    return with_architecture(translated) if kernels and host else translated


def _error(token, message):
    return TranslationError(message, line=token.line)


def _needs_gpu(token, message):
    return NeedsGPU(message, line=token.line)


def _without_asm(source):
    try:
        return with_statements(source)
    except Refused as refused:
        kind = NeedsGPU if refused.needs_gpu else TranslationError
        raise kind(str(refused), line=refused.line) from None


def _check_braces(source):
    """Report an unclosed `{` here: a compiler would report it somewhere after the source."""
    if any(line[1].text.startswith(("if", "el")) for line in cxx.directives(source) if len(line) > 1):
        return  # either branch may open or close braces
    if line := unclosed_brace(source):
        raise TranslationError("this `{` is never closed", line=line)


# What a kernel's return type may end in that is no other name for `void`.
_VALUES = {*"int unsigned signed char short long float double bool half size_t __global__ static inline".split()}


def _check_kernels(marked):
    """A kernel returns nothing and takes no tensors. A C++ compiler says nothing, or something about our headers."""
    for kernel in marked:
        for parameter in kernel.parameters:
            texts = [token.text for token in parameter]
            if texts[:3] in (["torch", "::", "Tensor"], ["at", "::", "Tensor"]):
                raise _error(
                    parameter[0],
                    f"device code cannot use a `{''.join(texts[:3])}`: take a pointer, as in `float* {texts[-1]}`, and "
                    f"launch with `{texts[-1]}.data_ptr<float>()`",
                )
        returned = [token.text for token in cxx.tokens(kernel.returns)]
        named = "typename" in returned or (returned and returned[-1].isidentifier() and returned[-1] not in _VALUES)
        if not ("void" in returned or named or ("->", "void") in pairwise(kernel.words)):  # another name may mean void
            mark = next(token for token in kernel.tokens if token.text == "__global__")
            raise _error(
                mark, f"a kernel returns nothing: write `__global__ void {kernel.name}(...)` and store the result"
            )


def _check_calls(source, marked, declared):
    """A kernel that is called like a function would run on the host, as no thread of any block."""
    device = [d for d in declared if {"__global__", "__device__"} & {*d.words}]
    for token in kernel_calls.calls(source, marked, declared):
        do = "mark it with __device__ in place of __global__, then kernels can call it"
        if not any(d.tokens[0].start < token.start < d.tokens[-1].end for d in device):
            do = f"launch it, {token.text}<<<blocks, threads>>>(...)"
        if source[token.end :].lstrip().startswith("["):
            raise _error(token, f"{token.text}[...](...) is Python's launch: in C++, {do}")
        raise _error(token, f"{token.text} is a kernel and not a function: {do}")


def _check_host(source, declared):
    """CUDA's built-in variables have no place in host code: nvcc compiles it, and what it made cannot be loaded.

    A function whose mark may be behind a macro passes, and a method, whose mark is in its class.
    """
    macros = {line[2].text for line in cxx.directives(source) if cxx.text_at(line, 1) == "define"}
    for function in (d for d in declared if d.parameters is not None and d.defined):
        words = {token.text for token in function.tokens}
        marked = words & {"__device__", "__global__", "constexpr"} or function.returns.endswith("::")
        if marked:
            continue
        if any(word in macros or word.isupper() for word in (*function.returns.split(), function.name)):
            continue
        if re.search(rf"\b{function.name}\s*<<<", source):  # another message says what it lacks
            continue
        for token in function.tokens[function.head :]:
            if token.text in own_names.BUILT_IN:
                mark = "" if function.name == "main" else "mark it __device__, or "
                where = f"but `{function.name}` is a function of the host: {mark}read it in a kernel"
                raise _error(token, f"`{token.text}` exists in device code only, {where}")


def _bodies(declarations):
    """Where the bodies of functions and types are, as (start, end)."""
    return [(d.tokens[d.head].start, d.tokens[-1].end) for d in declarations if d.defined]


def _is_inside(token, spans):
    return any(start < token.start < end for start, end in spans)


def _non_kernel_functions(source, marked):
    """Names of the functions that return void and are not marked `__global__`, unless a pointer has the name too."""
    plain = {function.name for function in cxx.functions(source) if function.returns.endswith("void")}
    tokens = cxx.tokens(source)
    pointers = {before.text for before, after in pairwise(tokens) if after.text == "="}
    pointers |= {after.text for before, after in pairwise(tokens) if before.text == "*"}
    return plain - pointers - {kernel.name for kernel in marked}


def _word(tokens, i, edits):
    token = tokens[i]
    before = tokens[i - 1].text if i else ""
    after = tokens[i + 1].text if i + 1 < len(tokens) else ""
    if token.text in _NEEDS_GPU:
        raise _needs_gpu(token, f"`{token.text}`: {_NEEDS_GPU[token.text]} needs a GPU")
    if token.text in _TAKES_KERNEL and after == "(":
        cast = _cast_to_void(tokens, i + 2)
        if cast:
            edits.append((tokens[i + 2].start, tokens[cast].start, ""))
    elif token.text == "func" and before in (".", "->") and after == "=":  # of cudaKernelNodeParams
        cast = _cast_to_void(tokens, i + 2)
        if cast:
            edits.append((tokens[i + 2].start, tokens[cast].start, ""))
    elif token.text == "printf":
        first = i
        while tokens[first - 1].text == "::":  # ::printf, ::std::printf
            first -= 2 if tokens[first - 2].text == "std" else 1
        edits.append((tokens[first].start, token.end, _ON_CPU["printf"]))
    elif token.text == "::" and after in own_names.BUILT_IN and not own_names.is_scope(before):  # ::threadIdx
        edits.append((token.start, token.end, ""))
    elif token.text == "decltype" and after == "(":
        inside = cxx.written(tokens[i + 2 : cxx.matching(tokens, i + 1)])
        name = inside.strip("()")
        if name in own_names.BUILT_IN and inside in (name, f"({name})"):  # here it is a function's result
            kind = f"const {'dim3' if name.endswith('Dim') else 'uint3'}{'&' * (inside != name)}"
            edits.append((token.start, tokens[cxx.matching(tokens, i + 1)].end, kind))
    elif token.text == "extern" and _words(tokens, i + 1, 2) == ['"C"', "static"]:  # g++ refuses both together
        edits.append((token.start, tokens[i + 1].end, ""))
    elif token.text == "__inline_hint__" or token.text.startswith("__restrict") and before == "[":
        edits.append((token.start, token.end, ""))
    elif token.text == "__noinline__" and before != "(":  # a macro of that name would break the standard library
        edits.append((token.start, token.end, "__attribute__((noinline))"))
    elif token.text in _ON_CPU:
        edits.append((token.start, token.end, _ON_CPU[token.text]))
    elif token.text == "CUDA" and (_words(tokens, i - 2, 2) == ["DeviceType", "::"] or _is_dispatch_key(tokens, i)):
        edits.append((token.start, token.end, "CPU"))
    elif token.text == "cuda" and before in (".", "->") and after == "(" and not _declares_cuda(tokens):
        edits.append((token.start, token.end, "cpu"))


def _declares_cuda(tokens):
    """Whether a class of the source has a method of this name, which is torch's otherwise."""
    named = (k for k, token in enumerate(tokens) if token.text == "cuda" and cxx.text_at(tokens, k + 1) == "(")
    return any(tokens[k - 1].text.isidentifier() and tokens[k - 1].text != "return" for k in named if k)


def _words(tokens, first, count):
    return [token.text for token in tokens[max(0, first) : max(0, first + count)]]


def _is_dispatch_key(tokens, i):
    """Whether token i is the key in `TORCH_LIBRARY_IMPL(name, CUDA, m)`."""
    return _words(tokens, i - 4, 2) == ["TORCH_LIBRARY_IMPL", "("]


def _untyped(tokens, i, edits, kernel_names):
    """Rewrite the cast `(void*)` at token i if a kernel's name follows."""
    end = _cast_to_void(tokens, i) if tokens[i].text == "(" else None
    named = end is not None and end + (cxx.text_at(tokens, end) == "&")
    if named and cxx.text_at(tokens, named) in kernel_names and cxx.text_at(tokens, i - 2) not in _TAKES_KERNEL:
        edits.append((tokens[i].start, tokens[end].start, "::cuda_on_cpu::Untyped() ->* "))


def _cast_to_void(tokens, i):
    """The index after a cast to a pointer to void that begins at token i; None if there is none."""
    words = [t.text for t in tokens[i : i + 6]]
    for cast in (["(", "void", "*", ")"], ["(", "const", "void", "*", ")"], ["(", "void", "const", "*", ")"]):
        if words[: len(cast)] == cast:
            return i + len(cast)
    if words[:1] == ["reinterpret_cast"]:  # what it casts is in parentheses, and may stay in them
        return next((k + 1 for k in range(i, len(tokens)) if tokens[k].text == ">"), None)
    return None


def _launch(source, tokens, i, edits, plain, bounded, templates):
    """Rewrite the launch whose `<<<` is token i; returns the index of the first token of its arguments."""
    launch = cxx.launch(tokens, i)
    if launch.problem:
        raise TranslationError(launch.problem, line=launch.line)
    if launch.named and tokens[i - 1].text in plain:
        raise _error(tokens[i], f"`{tokens[i - 1].text}` is launched like a kernel, but not marked __global__")
    begins, ends = tokens[launch.first].start, tokens[i - 1].end
    config = translate(source[tokens[i].end : tokens[launch.closes].start], host=False)
    config = f"::cuda_on_cpu::Configuration({config})"
    name = launch.kernel.replace("\\", "\\\\").replace('"', '\\"')
    kernel, lines = source[begins:ends], lines_of(source[ends : tokens[i].start], tokens[i])
    if launch.named:
        bounds = launch_bounds.argument(launch.kernel.strip("(&)"), bounded)
        deduced = "..." in templates.get(re.split(r"[<&()]|::", launch.kernel.partition("<")[0])[-1], "")
        call = f"CUDA_ON_CPU_CALL{'_DEDUCED' * deduced}({kernel}{lines})" + (f", {bounds}" if bounds else "")
        mark = f"<struct {instances.MARK}{launch.kernel}>" if launch.kernel in templates else ""
        start = f'::cuda_on_cpu::start_kernel{mark}("{name}", {config}, {call})'
    else:
        start = f'::cuda_on_cpu::ThroughPointer{{"{name}", {config}, {translate(kernel, host=False)}{lines}}}'
    # A name in the kernel's template arguments was already processed as a word; the launch replaces all of it.
    while edits and edits[-1][0] >= begins:
        edits.pop()
    edits.append((begins, tokens[launch.closes].end, start))
    return launch.closes + 1


def _may_be_jumped(tokens, i, in_bodies):
    """Whether a `case` or a `goto` may jump over the declaration at token i."""
    if tokens[i].directive:
        return False
    around = [(start, end) for start, end in in_bodies if start < tokens[i].start < end]
    gotos = (token for token in tokens if token.text == "goto")
    return shared_variables.is_in_switch(tokens, i) or any(_is_inside(token, around) for token in gotos)


def _shared(source, tokens, i, edits, inside_function, jumped, shared):
    """Rewrite the declaration with `__shared__` as token i; returns the index of the first token after it."""
    if _words(tokens, i - 2, 2) in (["#", "define"], ["#", "undef"]):  # for an editor, which reads another branch
        return i + 1
    if shared_variables.is_parameter(tokens, i) or shared_variables.is_member(tokens, i):
        edits.append((tokens[i].start, tokens[i].end, ""))
        return i + 1
    try:
        first, end, text, declared = shared_variables.rewrite(source, tokens, i, inside_function, jumped)
    except shared_variables.Unreadable as error:
        raise _error(tokens[i], str(error)) from None
    shared.append(declared)
    lines = lines_of(source[tokens[first].start : tokens[end - 1].end], tokens[i])
    while edits and edits[-1][0] >= tokens[first].start:
        edits.pop()
    edits.append((tokens[first].start, tokens[end - 1].end, text + lines))
    return end


def shared_outside(source) -> set[str]:
    """The names of the `__shared__` variables that a source declares outside of functions."""
    if "__shared__" not in source:
        return set()
    tokens, in_bodies, found = cxx.tokens(source), _bodies(cxx.declarations(source)), set()
    for i, token in enumerate(tokens):
        inside = token.directive or _is_inside(token, in_bodies) or shared_variables.is_member(tokens, i)
        if token.text == "__shared__" and not inside and not shared_variables.is_parameter(tokens, i):
            with contextlib.suppress(shared_variables.Unreadable):
                found.update(shared_variables.rewrite(source, tokens, i, False)[3].names)
    return found


def _uses(source, shared, elsewhere):
    try:
        return shared_uses.edits(source, shared, elsewhere)
    except shared_uses.Captured as captured:
        raise _error(captured.token, str(captured)) from None
