"""One CUDA C++ text for two compilers: its kernels for nvcc, all that speaks of torch for the C++ compiler.

nvcc takes half a minute for torch's headers, and a kernel needs none of them. So the text is cut at its functions: nvcc
gets those that run on the GPU, the C++ compiler gets the others, in which a launch `kernel<<<b, t>>>(x)` becomes a call
(torch_headers/cuda_course/launch.h). Both texts keep every line where it was. What cannot be cut without a doubt is not
cut: then `split` says why, and stock load_inline builds the whole.
"""

import re
from typing import NamedTuple

from utils.cuda.common.extension import speaks_of_python, speaks_of_torch
from utils.cuda.cpu.translate import Token, launch_parts, tokenize

__all__ = ["NotSplit", "Split", "split"]


class NotSplit(Exception):
    """The source cannot be cut; the message says why."""


class Split(NamedTuple):
    """`device` is nvcc's text and `host` the C++ compiler's. `kernels` are names of kernels, and `host_names` names
    that only the host text defines: where nvcc misses one of these, the cut was wrong and not the source."""

    device: str
    host: str
    kernels: list[str]
    host_names: set[str]


class _Item(NamedTuple):
    """A declaration or a function of the text, outside any other: its tokens, and how many of them come before `{`."""

    tokens: list[Token]
    head: int
    directives: int  # how many preprocessor lines stand inside

    @property
    def words(self):
        return [token.text for token in self.tokens]


# The types for which torch's macros repeat what stands in them, by the name scalar_t.
_DISPATCHED = {
    "AT_DISPATCH_FLOATING_TYPES": ["double", "float"],
    "AT_DISPATCH_INTEGRAL_TYPES": ["uint8_t", "int8_t", "int64_t", "int", "int16_t"],
    "AT_DISPATCH_ALL_TYPES": ["uint8_t", "int8_t", "int64_t", "int", "int16_t", "double", "float"],
}
_ONLY_ON_GPU = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim|__shared__|__syncthreads|__ldg|atomic[A-Z]\w+)\b")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_INCLUDE_OF_TORCH = re.compile(r"\s*#\s*include\s*[<\"](?:torch|ATen|c10|caffe2|pybind11|Python\.h)")


def split(source) -> Split:
    """Cut CUDA C++ text, with kernels and the torch functions that launch them. Raises NotSplit."""
    tokens = tokenize(source)
    if re.search(r"__CUDACC__|__CUDACC_RTC__", source):
        raise NotSplit("it asks which compiler reads it (__CUDACC__)")
    directives = _directives(source, tokens)
    for start, end in directives:
        if re.search(r"<<<|\b__global__\b|\b__device__\b", source[start:end]):
            raise NotSplit("a macro holds a kernel or a launch")
    items = list(_items(source, tokens, directives))
    kernels = _kernels(items)
    if not kernels:
        raise NotSplit("it has no kernel")

    from_device, from_host, instances = [], [], []  # what is left out of each, as (start, end, new)
    host_names, gpu_names = set(), set()
    on_gpu = " ".join(word for item in items if _runs_on_gpu(item) for word in item.words)
    for item in items:
        start, end = item.tokens[0].start, item.tokens[-1].end
        text, head = source[start:end], item.words[: item.head]
        if "__global__" in head:
            if item.head < len(item.tokens):  # the host is told of the kernel; its body is nvcc's
                at = item.tokens[item.head].start
                from_host.append((at, end, ";" + _lines(source[at:end])))
        elif _runs_on_gpu(item):
            if "__host__" in head and item.head < len(item.tokens):
                if not {"inline", "static", "template", "constexpr"} & set(head):
                    from_host.append((start, start, "inline "))  # both texts define it
            else:
                from_host.append((start, end, _lines(text)))
                gpu_names |= set(_defined(item))
        elif _is_for_host(item, text, on_gpu):
            if item.directives:
                raise NotSplit("a preprocessor line stands in a function of the host")
            from_device.append((start, end, _lines(text)))
            host_names |= set(_defined(item))
            instances += _instances(source, item, kernels)
            from_host += _launches(source, item)
        elif _ONLY_ON_GPU.search(text):
            raise NotSplit("a type has functions for the GPU alone")
    for name in gpu_names & {token.text for token in tokenize(_replaced(source, from_host))}:
        raise NotSplit(f"the host speaks of {name}, which lives on the GPU")
    for start, end in directives:
        if _INCLUDE_OF_TORCH.match(source[start:end]):
            from_device.append((start, end, _lines(source[start:end])))
    device = _replaced(source, from_device)
    if instances:
        kept = "\n".join(
            f"static void* const cuda_course_instance_{i} __attribute__((used)) = (void*)&{name};"
            for i, name in enumerate(dict.fromkeys(instances))
        )
        device += f'\n#line 1 "instances"\n{kept}\n'
    if speaks_of_torch(_without_comments(device)) or speaks_of_python(_without_comments(device)):
        raise NotSplit("a kernel speaks of torch")
    return Split(device, _replaced(source, from_host), list(kernels), host_names)


def _without_comments(text):
    """The code of a text, and what its macros hold only if a function uses them."""
    text = _DIRECTIVE.sub("", text)
    return " ".join(token.text for token in tokenize(text) if token.text[0] != '"').replace(" :: ", "::")


def _directives(source, tokens):
    """Where preprocessor lines stand, as (start, end)."""
    starts = {token.start for token in tokens if token.text == "#"}
    found = []
    for line in _DIRECTIVE.finditer(source):
        if line.start() + line[0].index("#") in starts:
            found.append(line.span())
    return found


def _items(source, tokens, directives):
    """The declarations and functions of the text, in namespaces too."""
    inside = iter(directives)
    span, count = next(inside, None), 0
    item, depth, head = [], 0, None
    for k, token in enumerate(tokens):
        while span and token.start >= span[1]:
            span, count = next(inside, None), count + bool(item)
        if span and token.start >= span[0]:
            continue
        item.append(token)
        if token.text in ("(", "[", "{"):
            if depth == 0 and token.text == "{":
                words = [t.text for t in item[:-1]]
                if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"] or words == ["extern", '"C"']:
                    if words == ["namespace"]:
                        raise NotSplit("a namespace without a name keeps kernels to itself")
                    item, count = [], 0
                    continue
                head = head if head is not None else len(item) - 1
            depth += 1
        elif token.text in (")", "]", "}"):
            if depth == 0 and token.text == "}":  # of a namespace
                item, head, count = [], None, 0
                continue
            depth -= 1
            if depth < 0:
                raise NotSplit("its brackets do not match")
        ends = token.text == ";" and depth == 0
        if token.text == "}" and depth == 0:
            after = tokens[k + 1].text if k + 1 < len(tokens) else ""
            words = [t.text for t in item[:head]]
            ends = "(" in words and not _assigns(words) or not after
        if ends:
            yield _Item(item, head if head is not None else len(item), count)
            item, head, count = [], None, 0
    if item or depth:
        raise NotSplit("its end is missing")


def _assigns(words):
    """Whether a variable is set here: an `=` that is neither a default of a parameter nor an operator's name."""
    depth = 0
    for before, word, after in zip(["", *words[:-1]], words, [*words[1:], ""], strict=True):
        if before == "template" and word == "<":
            depth += 1
        elif depth and word in "<>":
            depth += 1 if word == "<" else -1
        elif word in ("(", "["):
            depth += 1
        elif word in (")", "]"):
            depth -= 1
        elif word == "=" and not depth and before != "operator" and after != "=":
            return True
    return False


def _kernels(items):
    """The kernels, by name: whether each is a template."""
    found = {}
    for item in items:
        words = item.words[: item.head]
        if "__global__" not in words:
            continue
        if {"static", "inline", "__forceinline__"} & set(words):
            raise NotSplit("a kernel is static or inline, so no other file can call it")
        opens = words.index("(", words.index("__global__"))
        while re.fullmatch(r"__launch_bounds__|__\w+__|alignas", words[opens - 1]):
            opens = words.index("(", opens + 1)
        name = words[opens - 1]
        if name in found and item.head < len(item.tokens):
            raise NotSplit(f"there are several kernels {name}")
        found[name] = words[0] == "template"
    return found


def _runs_on_gpu(item):
    """Whether nvcc makes code or memory for the GPU of it."""
    marks = {"__global__", "__device__", "__constant__", "__managed__"}
    head = item.words[: item.head]
    return bool(marks & set(head))


def _is_for_host(item, text, on_gpu):
    """Whether nvcc needs nothing of it: it speaks of torch, it launches, or it is a function that no kernel names."""
    if speaks_of_torch(text) or speaks_of_python(text) or "<<<" in item.words:
        return True
    head = item.words[: item.head]
    is_function = "(" in head and item.head < len(item.tokens) and "operator" not in head
    return is_function and not any(re.search(rf"\b{name}\b", on_gpu) for name in _defined(item))


def _defined(item):
    """The name that a function or variable has, as far as a glance tells."""
    head = item.words[: item.head]
    if "(" in head and head.index("(") and re.fullmatch(r"\w+", head[head.index("(") - 1]):
        return [head[head.index("(") - 1]]
    before = head[: head.index("=")] if "=" in head else head
    return [word for word in before if re.fullmatch(r"[A-Za-z_]\w*", word)][-1:]


def _launches(source, item):
    """Each launch of a function of the host as an edit."""
    edits = []
    for i, token in enumerate(item.tokens):
        if token.text == "<<<":
            first, end = launch_parts(source, item.tokens, i)
            start = item.tokens[first].start
            kernel = source[start : token.start].strip()
            config = source[token.end : item.tokens[end].start]
            edits.append((start, item.tokens[end].end, f"::cuda_course::launch({kernel}, {config})"))
    return edits


def _instances(source, item, kernels):
    """The instances of template kernels that a function of the host names, with every type that a macro gives."""
    found, words = [], item.words
    dispatch = [word for word in words if word.startswith("AT_DISPATCH")]
    for i, word in enumerate(words):
        if not kernels.get(word):
            continue
        if words[i + 1 : i + 2] != ["<"]:
            raise NotSplit(f"the template arguments of {word} are left to the compiler")
        angles, end = 0, i + 1
        while end < len(words):
            angles += {"<": 1, ">": -1}.get(words[end], 0)
            if angles == 0 or words[end] in ("<<<", ";"):
                break
            end += 1
        if angles:
            raise NotSplit(f"the template arguments of {word} cannot be read")
        name = source[item.tokens[i].start : item.tokens[end].end]
        if not re.search(r"\bscalar_t\b", name):
            found.append(name)
        elif len(set(dispatch)) == 1 and dispatch[0] in _DISPATCHED:
            found += [re.sub(r"\bscalar_t\b", kind, name) for kind in _DISPATCHED[dispatch[0]]]
        else:
            raise NotSplit(f"{', '.join(dispatch) or 'what defines scalar_t'} stands for types that are not listed")
    return found


def _lines(text):
    return "\n" * text.count("\n")


def _replaced(source, edits):
    """The source with every edit (start, end, replacement) made; of edits inside another only the outer is."""
    pieces, at = [], 0
    for start, end, replacement in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start < at:
            continue
        pieces += [source[at:start], replacement]
        at = end
    return "".join(pieces) + source[at:]
