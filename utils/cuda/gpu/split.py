"""One CUDA C++ text for two compilers: its kernels for nvcc, everything that uses torch for the C++ compiler.

nvcc takes half a minute for torch's headers, and a kernel needs none of them. So the text is cut at its functions: nvcc
gets those that run on the GPU, the C++ compiler gets the others, in which a launch `kernel<<<b, t>>>(x)` becomes a call
(torch_headers/cuda_course/launch.h). Both texts keep every line where it was. A text that cannot be cut safely is not
cut: then `split` says why, and stock load_inline builds the whole.
"""

import functools
import re
from collections import deque
from importlib import util
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx, extension
from utils.cuda.common.diagnostics import refused
from utils.ground.errors import CourseError

__all__ = ["DeviceCode", "NotSplit", "Split", "device_code", "split"]


class NotSplit(CourseError):
    """The source cannot be cut; the message says why."""


class Split(NamedTuple):
    """`device` is nvcc's text and `host` the C++ compiler's. `kernels` are names of kernels, and `host_names` are names
    that only the host text defines: if nvcc does not find one of these, the cut is at fault, not the source."""

    device: str
    host: str
    kernels: list[str]
    host_names: set[str]


# The types for which torch's macros repeat the code inside them, each under the name scalar_t.
_DISPATCHED = {
    "AT_DISPATCH_FLOATING_TYPES": ["double", "float"],
    "AT_DISPATCH_FLOATING_TYPES_AND_HALF": ["double", "float", "at::Half"],
    "AT_DISPATCH_INTEGRAL_TYPES": ["uint8_t", "int8_t", "int64_t", "int", "int16_t"],
    "AT_DISPATCH_ALL_TYPES": ["uint8_t", "int8_t", "int64_t", "int", "int16_t", "double", "float"],
}
# What device code may use of torch and still be judged, by the header that has it: nvcc reads one in 0.3 to 1.5 s.
_FOR_KERNELS = {
    "c10/macros/Macros.h": re.compile(r"\bC10_(?:LAUNCH_BOUNDS_\d|WARP_SIZE|RESTRICT|UNLIKELY|LIKELY)\b"),
    "c10/util/BFloat16.h": re.compile(r"\b(?:at|c10|torch)\s*::\s*BFloat16\b"),
    "c10/util/Half.h": re.compile(r"\b(?:at|c10|torch)\s*::\s*Half\b"),
    "c10/util/complex.h": re.compile(r"\b(?:at|c10|torch)\s*::\s*complex\b"),
    "ATen/OpMathType.h": re.compile(r"\b(?:at|torch)\s*::\s*opmath_type\b"),
    "ATen/AccumulateType.h": re.compile(r"\b(?:at|torch)\s*::\s*acc_type\b"),
    "ATen/core/TensorAccessor.h": re.compile(
        r"\b(?:at|torch)\s*::\s*(?:(?:Generic)?PackedTensorAccessor(?:32|64)?|TensorAccessor|\w+PtrTraits)\b"
    ),
}
# The same for names without a prefix, which a source may well define itself.
_UNPREFIXED = {
    "ATen/cuda/Atomic.cuh": re.compile(r"\bgpuAtomic\w+"),
    "ATen/cuda/detail/KernelUtils.h": re.compile(r"\bCUDA_KERNEL_LOOP(?:_TYPE)?\b"),
}
_ONLY_ON_GPU = {"threadIdx", "blockIdx", "blockDim", "gridDim", "__shared__", "__syncthreads", "__ldg"}


def split(source) -> Split:
    """Cut CUDA C++ text, with kernels and the torch functions that launch them. Raises NotSplit."""
    tokens, directives = cxx.tokens(source), cxx.directives(source)
    _check_whole(tokens, directives)
    items = cxx.declarations(source)
    kernels = _kernels(items)
    if not kernels:
        raise NotSplit("it has no kernel")

    from_device, from_host, instances = [], [], []  # what is cut from each, as (start, end, new)
    host_names, gpu_names = set(), set()
    on_gpu = {token.text for item in items if _runs_on_gpu(item) for token in item.tokens}
    for item in items:
        start, end = item.tokens[0].start, item.tokens[-1].end
        text, head = source[start:end], item.words
        if "__global__" in head:
            if item.defined:  # the host needs the kernel's name; its body is nvcc's
                at = item.tokens[item.head].start
                from_host.append((at, end, ";" + _lines(source[at:end])))
        elif _runs_on_gpu(item):
            if "__host__" in head and item.defined:
                if not {"inline", "static", "template", "constexpr"} & set(head):
                    from_host.append((start, start, "inline "))  # both texts define it
            else:
                from_host.append((start, end, _lines(text)))
                gpu_names |= set(item.names)
        elif _is_for_host(item, text, on_gpu):
            if any(start < line[0].start < end for line in directives):
                raise NotSplit("a preprocessor line is inside a function of the host")
            from_device.append((start, end, _lines(text)))
            host_names |= set(item.names)
            instances += _instances(item, kernels)
            from_host += _launches(source, item)
        elif any(_is_only_on_gpu(token.text) for token in item.tokens):
            raise NotSplit("a type has functions for the GPU alone")
    for name in sorted(gpu_names & {token.text for token in cxx.tokens(_replaced(source, from_host))}):
        raise NotSplit(f"the host uses {name}, which is on the GPU")
    from_device += _without_torch(source, directives)
    device = _replaced(source, from_device)
    if instances:
        kept = "\n".join(
            f"static void* const cuda_course_instance_{i} __attribute__((used)) = (void*)&{name};"
            for i, name in enumerate(dict.fromkeys(instances))
        )
        device += f'\n#line 1 "instances"\n{kept}\n'
    if cxx.uses_torch(device, in_macros=False) or cxx.uses_python(device, in_macros=False):
        raise NotSplit("a kernel uses torch")
    return Split(device, _replaced(source, from_host), list(kernels), host_names)


class DeviceCode(NamedTuple):
    """What a GPU's compiler has to judge of a source, line for line: `text`, the `instances` of its template kernels
    that the host launches, the names that were `cut` with the host's code, and the `headers` of torch that it needs.
    Of the template kernels in `unread`, it does not show which instances there are. With "using" among the cut names,
    any name that is missing may be torch's."""

    text: str
    instances: list[str]
    cut: frozenset[str]
    headers: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()


def device_code(source) -> DeviceCode:
    """The source without the host's code and torch: a text to judge, which nothing is linked with.

    So nearly every source can be cut this way. Raises NotSplit for one whose kernels use torch themselves, other than
    what a small header has: `at::Half`, say, or an accessor.
    """
    items, directives = cxx.declarations(source), cxx.directives(source)
    kernels = {item.name: bool(item.template) for item in items if "__global__" in item.words}
    used = {token.text for item in items if _runs_on_gpu(item) for token in item.tokens}
    used |= {token.text for line in directives for token in line}
    edits, instances, unread = [], [], set()
    cut = {"torch", "at", "c10", "std", "::"} if cxx.includes_torch(source) else set()
    macros = _macros_of_torch(source, directives)
    for item in items:
        words = [token.text for token in item.tokens]
        torch = _uses_torch(source[item.tokens[0].start : item.tokens[-1].end]) or macros & set(words)
        if words[:2] == ["using", "namespace"] and words[2] in ("torch", "at", "c10"):
            torch = True
            cut.add("using")
        if _runs_on_gpu(item):
            if torch:
                raise NotSplit("a kernel uses torch", line=item.line)
        elif torch or "<<<" in words or item.names and not _is_type(item) and not used & set(item.names):
            edits += _without_code(item, directives)
            cut |= set(item.names)
            try:
                instances += _instances(item, kernels)
            except NotSplit:
                unread |= {word for word in words if kernels.get(word)}
    edits += _without_torch(source, directives)
    text, instances = _replaced(source, edits), list(dict.fromkeys(instances))
    whole = "\n".join([text, *instances])
    headers = [header for header, names in _FOR_KERNELS.items() if names.search(whole)]
    if cxx.includes_torch(source):
        own = {*cxx.macros(source), *(function.name for function in cxx.functions(source))}
        headers += [h for h, names in _UNPREFIXED.items() if {*names.findall(whole)} - own]
    return DeviceCode(text, instances, frozenset(cut), tuple(headers), frozenset(unread))


def _is_type(item):
    return bool({"enum", "struct", "class", "union"} & set(item.words[:1]))


def _uses_torch(text):
    """Whether it uses torch or Python, other than what a kernel may have of torch."""
    for names in _FOR_KERNELS.values():
        text = names.sub("float", text)
    return cxx.uses_torch(text) or cxx.uses_python(text)


def _macros_of_torch(source, directives):
    """The names of the macros that use torch themselves, such as `#define FUNCTION(name) torch::Tensor name(...)`."""
    defined = [line for line in directives if [token.text for token in line[:2]] == ["#", "define"]]
    return {line[2].text for line in defined if line[2:] and _uses_torch(source[line[0].start : line[-1].end])}


def _without_torch(source, directives):
    """Edits that leave, of torch's headers, the types of 16 bits that they bring for nvcc, if the source names any."""
    names_halves = any(re.search("half|bfloat16", token.text) for token in cxx.tokens(source))
    edits = []
    for line in directives:
        if (header := cxx.included(line)).startswith(cxx.TORCH_HEADERS):
            kept = _HALVES.get(halves_in(header) if names_halves else frozenset(), "")
            edits.append((line[0].start, line[-1].end, kept + _lines(source[line[0].start : line[-1].end])))
    return edits


_HALVES = {frozenset({name}): f"#include <{name}>" for name in ("cuda_fp16.h", "cuda_bf16.h")}
_HALVES[frozenset({"cuda_fp16.h", "cuda_bf16.h"})] = f'#include "{extension.HEADERS}/cuda_course/halves.h"'
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)', re.MULTILINE)


@functools.cache
def halves_in(header) -> frozenset[str]:
    """Which of CUDA's two headers for 16-bit types torch's `header` includes for nvcc, itself or through others."""
    torch = Path(util.find_spec("torch").origin).parent / "include"
    folders = [torch, torch / "torch/csrc/api/include"]
    found, seen, ahead = set(), set(), deque([header])
    while ahead and len(found) < 2:
        name = ahead.popleft()
        if name in ("cuda_fp16.h", "cuda_bf16.h"):
            found.add(name)
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path and path not in seen:
            seen.add(path)
            ahead.extendleft(reversed(_INCLUDED.findall(path.read_text(errors="replace"))))  # as a compiler reads them
    return frozenset(found)


def _without_code(item, directives):
    """Edits that remove a declaration but leave the preprocessor lines inside it: an #if and its #endif."""
    edits, (start, end) = [], (item.tokens[0].start, item.tokens[-1].end)
    inside = [(line[0].start, line[-1].end) for line in directives if start < line[0].start < end]
    for stop, after in [*inside, (end, end)]:
        edits.append((start, stop, None))
        start = after
    return edits


def _check_whole(tokens, directives):
    """Raises NotSplit for a text whose parts do not keep their meaning when separated."""
    for token in tokens:
        if token.text in ("__CUDACC__", "__CUDACC_RTC__"):
            raise NotSplit("it asks which compiler reads it (__CUDACC__)", line=token.line)
    for line in directives:
        if {"<<<", "__global__", "__device__"} & {token.text for token in line}:
            raise NotSplit("a macro holds a kernel or a launch", line=line[0].line)
    code = [token for token in tokens if not token.directive]
    for token, after in pairwise(code):
        if (token.text, after.text) == ("namespace", "{"):
            raise NotSplit("a namespace without a name keeps kernels to itself", line=token.line)
    for token in cxx.unmatched(code):
        raise NotSplit("its brackets do not match", line=token.line)
    if code and code[-1].text not in (";", "}"):
        raise NotSplit("its end is missing", line=code[-1].line)


def _kernels(items):
    """The kernels by name, with whether each is a template."""
    found = {}
    for item in items:
        if "__global__" not in item.words:
            continue
        if {"static", "inline", "__forceinline__"} & set(item.words):
            raise NotSplit("a kernel is static or inline, so no other file can call it", line=item.line)
        if item.name in found and item.defined:
            raise NotSplit(f"there are several kernels {item.name}", line=item.line)
        found[item.name] = bool(item.template)
    return found


def _runs_on_gpu(item):
    """Whether nvcc turns it into code or memory on the GPU."""
    return bool({"__global__", "__device__", "__constant__", "__managed__"} & set(item.words))


def _is_only_on_gpu(word):
    return word in _ONLY_ON_GPU or word.startswith("atomic") and word[6:7].isupper()  # atomicAdd


def _is_for_host(item, text, on_gpu):
    """Whether nvcc can do without it: it uses torch, it launches, or it is a function that no kernel names."""
    if cxx.uses_torch(text) or cxx.uses_python(text) or any(token.text == "<<<" for token in item.tokens):
        return True
    is_function = item.parameters is not None and item.defined and item.name != "operator"
    return is_function and not on_gpu & set(item.names)


def _launches(source, item):
    """Each launch in a host function, as an edit."""
    edits = []
    for i, token in enumerate(item.tokens):
        if token.text == "<<<":
            launch = cxx.launch(item.tokens, i)
            if launch.problem:
                raise refused("cuda_src", source, launch.line, launch.problem)
            begins, closes = item.tokens[launch.first].start, item.tokens[launch.closes]
            kernel = source[begins : token.start].rstrip(" \t")  # keep line ends
            config = source[token.end : closes.start]
            edits.append((begins, closes.end, f"::cuda_course::launch({kernel}, {config})"))
    return edits


def _instances(item, kernels):
    """The instances of template kernels that a host function names, with every type that a macro supplies."""
    found = []
    dispatch = {token.text for token in item.tokens if token.text.startswith("AT_DISPATCH")}
    for i, token in enumerate(item.tokens):
        if not kernels.get(token.text):
            continue
        if i + 1 == len(item.tokens) or item.tokens[i + 1].text != "<":
            raise NotSplit(f"the template arguments of {token.text} are left to the compiler", line=token.line)
        end = cxx.matching(item.tokens, i + 1)
        if end is None:
            raise NotSplit(f"the template arguments of {token.text} cannot be read", line=token.line)
        name = item.tokens[i : end + 1]
        if cxx.own_names(item) & {part.text for part in name[1:]}:
            raise NotSplit("a template kernel's arguments mean something only where it is launched", line=token.line)
        if not any(part.text == "scalar_t" for part in name):
            found.append(cxx.written(name))
        elif len(dispatch) == 1 and _DISPATCHED.keys() >= dispatch:
            for kind in _DISPATCHED[min(dispatch)]:
                found.append(cxx.written([t._replace(text=kind) if t.text == "scalar_t" else t for t in name]))
        else:
            macros = ", ".join(sorted(dispatch)) or "what defines scalar_t"
            raise NotSplit(f"{macros} repeats the code for types that are not listed", line=token.line)
    return found


def _lines(text):
    return "\n" * text.count("\n")


def _replaced(source, edits):
    """The source with every edit (start, end, replacement) applied; of nested edits, only the outer one. A replacement
    None leaves the lines empty."""
    pieces, at = [], 0
    for start, end, replacement in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start < at:
            continue
        pieces += [source[at:start], _lines(source[start:end]) if replacement is None else replacement]
        at = end
    return "".join(pieces) + source[at:]
