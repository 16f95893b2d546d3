"""CUDA C++ in, C++ out: the few things that no header can define.

A launch `kernel<<<grid, block>>>(args)` and a `__shared__` variable are rewritten, and the words by which torch code
asks for a GPU are replaced by those that ask for the CPU. All else is left as it was, and every line keeps its number,
so that a compiler's message about line 7 is about line 7 of the learner's source.
"""

import re
from typing import NamedTuple

__all__ = ["Token", "TranslationError", "launch_parts", "tokenize", "translate"]


class TranslationError(Exception):
    """The source holds something that cannot be brought to the CPU; `.line` is its line, counted from 1."""

    def __init__(self, message, line):
        super().__init__(message)
        self.line = line


class Token(NamedTuple):
    text: str
    start: int  # offset in the source
    end: int


# Comments and strings come first, so that nothing inside them is taken for code.
_TOKEN = re.compile(
    r"""(?P<skip> \s+ | //(?:\\\n|[^\n])* | /\*.*?\*/ )
      | (?P<token> (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"   # raw string
                 | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"
                 | (?:u8|[uUL])?'(?:\\.|[^'\\\n])*'
                 | \.?\d(?:[eEpP][+-]|'?[\w.])*                                # number
                 | [^\W\d]\w*                                                  # word
                 | <<< | >>> | :: | -> | . )""",
    re.VERBOSE | re.DOTALL,
)

_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPENS = {opener: closer for closer, opener in _CLOSES.items()}

# What asks for the GPU in torch code, and what stands for it here, where CPU tensors pass for CUDA tensors.
_ON_CPU = {"is_cuda": "is_cpu", "kCUDA": "kCPU", "printf": "::cuda_on_cpu::print"}

_NEEDS_GPU = {
    **dict.fromkeys(["asm", "__asm__", "__asm"], "inline PTX"),
    **dict.fromkeys(["wmma", "nvcuda"], "the tensor cores' wmma"),
    **dict.fromkeys(["tex1D", "tex2D", "tex3D", "tex1Dfetch", "tex2DLayered", "texCubemap"], "a texture"),
    **dict.fromkeys(["cudaTextureObject_t", "cudaSurfaceObject_t"], "a texture"),
    **dict.fromkeys(["cp_async_bulk", "CUtensorMap", "cp_async_bulk_tensor"], "the bulk copy engine"),
    **dict.fromkeys(
        [f"cp_async_bulk_{way}" for way in ("global_to_shared", "shared_to_global")], "the bulk copy engine"
    ),
    **dict.fromkeys(["cluster_group", "this_cluster", "__cluster_dims__"], "a cluster of blocks"),
}

# Calls whose first argument is a kernel, whose type a cast to void* would hide.
_TAKES_KERNEL = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel"}


def translate(source: str, kernels: bool = True) -> str:
    """C++ for the CPU from CUDA C++ text, line for line. Without `kernels` it is text that nvcc never sees.

    Raises TranslationError for a launch or a `__shared__` declaration that cannot be read, for what needs a GPU, and
    for what nvcc would refuse and a C++ compiler would not notice.
    """
    tokens = tokenize(source)
    _check_braces(source, tokens)
    _check_kernels(source, tokens)
    edits = []  # (start, end, replacement), none inside another
    depth_is_code = _function_depths(tokens)
    on_device = _in_kernels(tokens)
    plain = _functions_that_are_no_kernels(tokens)
    i = 0
    while i < len(tokens):
        text = tokens[i].text
        if text in ("<<<", "__global__") and not kernels:
            raise _error(source, tokens[i], f"`{text}` belongs in cuda_src: nvcc does not compile this text")
        if text == "<<<":
            if on_device[i]:
                raise _error(source, tokens[i], "a kernel that launches a kernel (dynamic parallelism) needs a GPU")
            i = _launch(source, tokens, i, edits, plain)
        elif text == "__shared__":
            i = _shared(source, tokens, i, edits, depth_is_code[i])
        else:
            _word(source, tokens, i, edits)
            i += 1
    pieces, at = [], 0
    for start, end, replacement in sorted(edits):
        pieces += [source[at:start], replacement]
        at = end
    return "".join(pieces) + source[at:]


def tokenize(source) -> list[Token]:
    """The words and signs of C++ text, without comments."""
    return [Token(m["token"], *m.span("token")) for m in _TOKEN.finditer(source) if m["token"]]


def _error(source, token, message):
    return TranslationError(message, source.count("\n", 0, token.start) + 1)


def _check_braces(source, tokens):
    """Where nothing else tells which `{` is not closed, a compiler misses it somewhere behind the source."""
    if re.search(r"^\s*#\s*(?:el|if)", source, re.MULTILINE):
        return  # braces may stand in either branch
    opened = []
    for token in tokens:
        if token.text == "{":
            opened.append(token)
        elif token.text == "}" and opened:
            opened.pop()
    if opened:
        raise _error(source, opened[-1], "this `{` is never closed")


def _check_kernels(source, tokens):
    """A kernel returns nothing and takes pointers and values. A C++ compiler would speak of our headers instead."""
    macros = [found.span() for found in re.finditer(r"^[ \t]*#(?:\\\n|[^\n])*", source, re.MULTILINE)]
    for i, token in enumerate(tokens):
        if token.text != "__global__" or any(start <= token.start < end for start, end in macros):
            continue
        first = i
        while first and tokens[first - 1].text not in (";", "{", "}"):
            first -= 1
        opens = next((k for k in range(i, len(tokens)) if tokens[k].text == "(" and not _is_mark(tokens[k - 1])), None)
        if opens is None:
            continue
        name, words = tokens[opens - 1].text, [t.text for t in tokens[first:opens]]
        if "void" not in words:
            raise _error(
                source, token, f"a kernel returns nothing: write `__global__ void {name}(...)` and store the result"
            )
        parameter, depth = opens + 1, 0  # the parameter begins there
        for k in range(opens, len(tokens)):
            text = tokens[k].text
            depth += (text in "([{<") - (text in ")]}>")
            if depth == 0:
                break
            if text == "," and depth == 1:
                parameter = k + 1
            elif text == "&" and "=" not in (t.text for t in tokens[parameter:k]):
                end = next((j for j in range(k, len(tokens)) if tokens[j].text in (",", ")")), k)
                declared = source[tokens[parameter].start : tokens[end].start].strip()
                raise _error(
                    source, tokens[k], f"`{declared}` is a reference: the kernel {name} can take pointers and values"
                )


def _is_mark(token):
    """Whether parentheses behind the word belong to an attribute, as in __launch_bounds__(256)."""
    return bool(re.fullmatch(r"__\w+__|alignas", token.text))


def _function_depths(tokens):
    """For every token, whether it stands inside a function: within braces other than a namespace's or extern "C"."""
    inside, stack, statement = [], [], []
    for token in tokens:
        inside.append(any(stack))
        if token.text == "{":
            stack.append(
                bool(statement) and statement[0] not in ("namespace", "inline") and statement != ["extern", '"C"']
            )
            statement = []
        elif token.text in "};":
            if token.text == "}" and stack:
                stack.pop()
            statement = []
        else:
            statement.append(token.text)
    return inside


def _in_kernels(tokens):
    """For every token, whether it stands in the body of a function marked `__global__`."""
    inside, depth, statement, kernel_at = [], 0, [], None
    for token in tokens:
        inside.append(kernel_at is not None)
        if token.text == "{":
            if kernel_at is None and "__global__" in statement:
                kernel_at = depth
            depth += 1
            statement = []
        elif token.text == "}":
            depth -= 1
            if kernel_at is not None and depth <= kernel_at:
                kernel_at = None
            statement = []
        elif token.text == ";":
            statement = []
        else:
            statement.append(token.text)
    return inside


def _functions_that_are_no_kernels(tokens):
    """Names of the functions that return void and are not marked `__global__`."""
    plain, marked, is_marked = set(), set(), False
    words = [token.text for token in tokens]
    for word, name, after in zip(words, words[1:], words[2:], strict=False):
        if word in (";", "{", "}"):
            is_marked = False
        elif word == "__global__":
            is_marked = True
        elif word == "void" and after == "(":
            (marked if is_marked else plain).add(name)
    return plain - marked


def _word(source, tokens, i, edits):
    token = tokens[i]
    before = tokens[i - 1].text if i else ""
    after = tokens[i + 1].text if i + 1 < len(tokens) else ""
    if token.text in _NEEDS_GPU:
        raise _error(source, token, f"`{token.text}`: {_NEEDS_GPU[token.text]} needs a GPU")
    if token.text in _TAKES_KERNEL and after == "(":
        cast = _cast_to_void(tokens, i + 2)
        if cast:
            edits.append((tokens[i + 2].start, tokens[cast].start, ""))
    elif token.text == "printf":
        start = tokens[i - 2].start if before == "::" and tokens[i - 2].text == "std" else token.start
        edits.append((start, token.end, _ON_CPU["printf"]))
    elif token.text == "__noinline__" and before != "(":  # a macro of that name would break the standard library
        edits.append((token.start, token.end, "__attribute__((noinline))"))
    elif token.text in _ON_CPU:
        edits.append((token.start, token.end, _ON_CPU[token.text]))
    elif token.text == "CUDA" and before == "::" and tokens[i - 2].text == "DeviceType":
        edits.append((token.start, token.end, "CPU"))
    elif token.text == "cuda" and before in (".", "->") and after == "(":
        edits.append((token.start, token.end, "cpu"))


def _cast_to_void(tokens, i):
    """Index behind a cast to a pointer to void that begins at token i; None where there is none."""
    words = [t.text for t in tokens[i : i + 6]]
    for cast in (["(", "void", "*", ")"], ["(", "const", "void", "*", ")"], ["(", "void", "const", "*", ")"]):
        if words[: len(cast)] == cast:
            return i + len(cast)
    if words[:1] == ["reinterpret_cast"]:  # what it casts stands in parentheses, and may stay in them
        return next((k + 1 for k in range(i, len(tokens)) if tokens[k].text == ">"), None)
    return None


def _launch(source, tokens, i, edits, plain):
    """Rewrite the launch whose `<<<` is token i; the index of the first token of its arguments."""
    if tokens[i - 1].text in plain:
        raise _error(source, tokens[i], f"`{tokens[i - 1].text}` is launched like a kernel, but not marked __global__")
    first, end = launch_parts(source, tokens, i)
    kernel = source[tokens[first].start : tokens[i].start]
    config = translate(source[tokens[i].end : tokens[end].start])
    name = " ".join(kernel.split()).replace("\\", "\\\\").replace('"', '\\"')
    start = f'::cuda_on_cpu::start("{name}", ::cuda_on_cpu::Launch({config}), CUDA_ON_CPU_CALL({kernel.strip()}))'
    # A name in the kernel's template arguments was already looked at, as a word; the launch replaces it whole.
    while edits and edits[-1][0] >= tokens[first].start:
        edits.pop()
    edits.append((tokens[first].start, tokens[end].end, start))
    return end + 1


def launch_parts(source, tokens, i) -> tuple[int, int]:
    """Of the launch whose `<<<` is token i: the indices of the kernel's first token and of `>>>`.

    Raises TranslationError for a launch that is not complete.
    """
    first = _kernel_start(source, tokens, i)
    end, depth = i + 1, 0
    while end < len(tokens) and (depth or tokens[end].text != ">>>"):
        depth += (tokens[end].text in _OPENS) - (tokens[end].text in _CLOSES)
        if depth < 0 or tokens[end].text == ";":
            break
        end += 1
    if end == len(tokens) or tokens[end].text != ">>>":
        raise _error(source, tokens[i], "this launch has `<<<` but no `>>>`")
    if end + 1 == len(tokens) or tokens[end + 1].text != "(":
        raise _error(source, tokens[end], "after `>>>` come the kernel's arguments in parentheses")
    return first, end


def _kernel_start(source, tokens, i):
    """Index of the first token of what stands before `<<<`: a name, with its namespaces and template arguments."""
    at = i - 1
    if at >= 0 and tokens[at].text in (">", ">>>"):
        angles = 0
        while at >= 0:
            text = tokens[at].text
            if text in _CLOSES:
                at = _opening(tokens, at)
            angles += {">": 1, ">>>": 3, "<": -1, "<<<": -3}.get(text, 0)
            if angles == 0 or at < 0:
                break
            at -= 1
        at -= 1
    while at >= 0 and tokens[at].text in (")", "]"):  # (*chosen)<<<...>>>, table[k]<<<...>>>
        closer, at = tokens[at].text, _opening(tokens, at)
        if closer == ")":
            return at
        at -= 1
    if at < 0 or not re.fullmatch(r"[^\W\d]\w*", tokens[at].text):
        raise _error(source, tokens[i], "`<<<` stands behind no kernel's name")
    while at >= 1 and tokens[at - 1].text == "::":
        qualified = at >= 2 and re.fullmatch(r"[^\W\d]\w*", tokens[at - 2].text) and tokens[at - 2].text != "return"
        at -= 2 if qualified else 1
    return at


def _opening(tokens, at):
    """Index of the bracket that the one at `at` closes; -1 where there is none."""
    depth = 0
    while at >= 0:
        depth += (tokens[at].text in _CLOSES) - (tokens[at].text in _OPENS)
        if depth == 0:
            return at
        at -= 1
    return -1


def _shared(source, tokens, i, edits, inside_function):
    """Rewrite the declaration with `__shared__` as token i; the index of the first token behind it."""
    first = i
    while first and tokens[first - 1].text in ("static", "extern", "volatile", "const"):
        first -= 1
    end = i
    while end < len(tokens) and tokens[end].text != ";":
        end += 1
    if end == len(tokens):
        raise _error(source, tokens[i], "this __shared__ declaration has no `;`")
    words = [t.text for t in tokens[first:end]]
    dynamic = "extern" in words
    if not inside_function and not dynamic:
        raise _error(source, tokens[i], "declare __shared__ variables inside the kernel that uses them")
    declared, base = [], None
    for declarator in _split(_without_alignment([w for w in words if w not in ("__shared__", "static", "extern")])):
        if "=" in declarator or "{" in declarator:
            raise _error(
                source, tokens[i], "a __shared__ variable cannot have an initial value: let one thread write it"
            )
        at = next((k for k in range(len(declarator) - 1, -1, -1) if _is_name(declarator, k)), None)
        if at is None:
            raise _error(source, tokens[i], f"cannot read this __shared__ declaration: {' '.join(words)}")
        before, name, dims = declarator[:at], declarator[at], "".join(declarator[at + 1 :])
        if base is None:
            kind = len(before)
            while kind and before[kind - 1] in ("*", "&"):
                kind -= 1
            base, before = " ".join(before[:kind]), before[kind:]
        declared.append((base + "".join(before), name, dims))
    parts = []
    for kind, name, dims in declared:
        if dynamic:
            if inside_function:
                parts.append(f'auto* {name} = ::cuda_on_cpu::dynamic_shared<{kind}{dims}>("{name}");')
            else:
                parts.append(f'static const ::cuda_on_cpu::DynamicShared<{kind}{dims}> {name}{{"{name}"}};')
        else:
            parts.append(f'static ::cuda_on_cpu::Shared<{kind}{dims}> {name}_shared("{name}"); ')
            parts.append(f"auto& {name} = {name}_shared.of_this_block();")
    lines = source.count("\n", tokens[first].start, tokens[end].start)
    while edits and edits[-1][0] >= tokens[first].start:
        edits.pop()
    edits.append((tokens[first].start, tokens[end].end, "".join(parts) + "\n" * lines))
    return end + 1


def _is_name(declarator, k):
    """Whether word k is the declared name: at the end, or before the first `[`, outside any brackets."""
    outside = sum((w in "([<") - (w in ")]>") for w in declarator[:k]) == 0
    return outside and re.fullmatch(r"[^\W\d]\w*", declarator[k]) and (declarator[k + 1 :] or ["["])[0] == "["


def _without_alignment(words):
    """Leaves out alignas(...) and __align__(...): the arena aligns every variable to 16 bytes at least."""
    while (at := next((k for k, w in enumerate(words) if w in ("alignas", "__align__")), None)) is not None:
        close = at + 1
        depth = 0
        while close < len(words):
            depth += (words[close] == "(") - (words[close] == ")")
            close += 1
            if depth == 0:
                break
        words = words[:at] + words[close:]
    return words


def _split(words):
    """Split a declaration at the commas that separate declarators."""
    parts, depth = [[]], 0
    for word in words:
        depth += (word in "([{<") - (word in ")]}>")
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
