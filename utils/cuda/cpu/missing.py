"""The parts of CUDA that the engine lacks: explains a compiler's "no such file" or "not declared" to the reader."""

import re
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx

__all__ = ["explained_missing", "without_missing_headers"]


class _Missing(NamedTuple):
    """A missing part of CUDA: the patterns of its headers, and of the names of its functions and types."""

    headers: str
    names: str
    what: str
    instead: str


_ARRAYS = r"cuda(\w*Arrays?|\w*Array_(const_)?t|\w*Mipmapped\w*|\w*Channel(Format)?Desc|ChannelFormat\w*"
_TEXTURES = r"\w*(Texture|Surface)\w*|Resource(Desc|Type|View)\w*|(Address|Filter|Read)Mode\w+)"
_PARTS = [
    _Missing(
        r"curand\w*\.h",
        r"curand\w*|CURAND\w*",
        "cuRAND, random numbers",
        "make them on the host, with <random>, and copy them over",
    ),
    _Missing(
        r"thrust/.*", "thrust", "Thrust", "write the kernel, or use the standard library's algorithms on the host"
    ),
    _Missing(
        r"cub/.*", "cub", "CUB", "write the reduction, scan or sort as a kernel, with cooperative groups for the warps"
    ),
    _Missing(r"cuda/(std/)?\w+", "", "this header of libcu++", "write the part that you need"),
    _Missing(
        r"(cuda_texture_types|texture_\w+|cuda_surface_types|surface_\w+)\.h",
        rf"{_ARRAYS}|{_TEXTURES}|tex\w*[1-3]D\w*|surf[1-3]D\w*|texture|surface",
        "textures",
        "read the array by index",
    ),
    _Missing(r"cufft\w*\.h", r"cufft\w*|CUFFT\w*", "cuFFT", "it needs a GPU"),
    _Missing(r"cusparse\w*\.h", r"cusparse\w*|CUSPARSE\w*", "cuSPARSE", "it needs a GPU"),
    _Missing(r"cusolver\w*\.h", r"cusolver\w*|CUSOLVER\w*", "cuSOLVER", "it needs a GPU"),
    _Missing(r"cublas(Xt)?\.h", "", "this interface of cuBLAS", "use cublas_v2.h"),
    _Missing(
        "",
        r"cublas([SDCZ]?(getr[fsi]|gels|geqrf|matinv|trs[mv]|trm[mv]|sym[mv]|syr|hem[mv]|her|gbmv|rot|dgmm)|DotEx)\w*",
        "this function of cuBLAS",
        "write the kernel, or use torch's",
    ),
    _Missing(r"cudnn\w*\.h", r"cudnn\w*|CUDNN\w*", "cuDNN", "use PyTorch's own layers"),
    _Missing(
        r"cuda_fp[46]\.h",
        r"__nv_fp[46]\w*|__nv_cvt_\w*fp[46]\w*",
        "floats of 4 and 6 bits",
        "use those of 8 bits, of cuda_fp8.h",
    ),
    _Missing(r"nccl\.h", r"nccl\w*", "NCCL", "it needs several GPUs"),
    _Missing(r"(nvrtc|cupti|nvml|nvJitLink)\.h", "", "this part of CUDA", "it needs a GPU"),
    _Missing(r"(cutlass|cute)/.*", "cutlass|cute", "CUTLASS", "it needs a GPU"),
    _Missing(r"cuda_gl_interop\.h", r"cudaGraphics\w+|cudaGL\w+", "graphics", "copy the pixels to the host"),
    _Missing(
        "",
        r"(PFN_)?cuTensorMapEncodeIm2col\w*|CUtensorMapIm2Col\w*",
        "tensor maps that copy pixels by im2col",
        "copy tiles, with cuTensorMapEncodeTiled",
    ),
    _Missing(
        "",
        r"cu(?!Complex|FloatComplex|DoubleComplex)[A-Z]\w+|CU(?!DA)[a-z_]\w+|CUDA_(ERROR|SUCCESS|MEM|LAUNCH)\w*",
        "the driver's own functions",
        "use the runtime's, whose names begin with cuda",
    ),
    _Missing(
        "", r"cuda\w*External(Memory|Semaphore)\w*|cuda\w*NvSci\w*", "memory of other interfaces", "it needs a GPU"
    ),
    _Missing(
        "",
        r"cudaMemPool(Export|Import|PtrExport)\w*|cudaMem(HandleType|Access)\w+|cudaIpc\w+",
        "memory that processes share",
        "it needs a GPU",
    ),
    _Missing("", r"cudaGraph\w+", "this part of graphs", "capture a stream instead"),
    _Missing(
        "",
        r"__is(Grid)?Constant|__cvta_\w*constant\w*",
        "address spaces of constants and arguments",
        "remember in a variable which kind each pointer is",
    ),
]
# What sources use of libcu++'s other headers, without which they need none of them.
_LIBCU = {
    r"cuda/(std/)?mdspan": r"\w*mdspan\w*|d?extents|dims|layout_\w+",
    r"cuda/std/(inplace_vector|linalg)": r"inplace_vector|linalg",
    r"cuda/std/ranges": "ranges|views",
    r"cuda/annotated_ptr": r"annotated_ptr|\w*access_property",
    r"cuda/memory_resource": r"mr|\w*resource\w*",
    r"cuda/\w+|cuda/std/\w+": "cuda",
}
_INCLUDE = Path(__file__).parent / "include"
_HEADER = re.compile(r"(?:fatal )?error: '?(?P<header>[\w./+-]+)'?(?:: No such file or directory| file not found)")
_UNDECLARED = re.compile(
    r"error: ['‘](?P<gcc>\w+)['’] (?:was not declared|does not name a|has not been declared|is not a namespace)[^\n]*"
    r"|error: (?:use of undeclared identifier|unknown type name|no namespace named) '(?P<clang>\w+)'[^\n]*"
)


def without_missing_headers(source) -> str:
    """The source without `#include`s of libraries that the engine lacks: many sources do not use all they include.

    If the source does use such a library, that is an error, which `explained_missing` explains. What the source uses of
    libcu++ stays: the error is at its `#include`.
    """
    lines = [(line, cxx.included(line)) for line in cxx.directives(source)]
    for line, name in reversed(lines):
        if not name or (_INCLUDE / name).exists():
            continue
        used = next((names for headers, names in _LIBCU.items() if re.fullmatch(headers, name)), None)
        if used:
            unneeded = not _names(source, used)
        else:
            unneeded = any(part.names and re.fullmatch(part.headers, name) for part in _PARTS)
        if unneeded:
            source = source[: line[0].start] + source[line[-1].end :]
    return source


def _names(source, pattern):
    """Whether the source names something like this outside its `#include`s."""
    included = {token.start for line in cxx.directives(source) if cxx.included(line) for token in line}
    names = (token.text for token in cxx.tokens(source) if token.start not in included)
    return any(re.fullmatch(pattern, name) for name in names)


def explained_missing(log) -> str:
    """The compilers' log; if the engine lacks what the source needs, only an error for each missing part."""
    lacking = {}
    for line in log.splitlines():
        header, name = _HEADER.search(line), _UNDECLARED.search(line)
        found = header or name
        wanted = found and next(filter(None, found.groups()))
        part = wanted and next((p for p in _PARTS if re.fullmatch(p.headers if header else p.names, wanted)), None)
        if part:
            shown = f"<{wanted}>" if header else f"`{wanted}`"
            said = f"error: {shown}: the CPU engine does not have {part.what}: {part.instead}"
            lacking.setdefault(part, line[: found.start()] + said)
    return "\n".join(lacking.values()) or log
