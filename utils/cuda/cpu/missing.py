"""What the engine does not have: what a compiler's "no such file" or "not declared" means to a reader."""

import re

__all__ = ["explained_missing"]

# By the header's name: what it is, and what to use instead.
_LIBRARIES = {
    r"curand\w*\.h": ("cuRAND, random numbers", "make them on the host, with <random>, and copy them over"),
    r"thrust/.*": ("Thrust", "write the kernel, or use the standard library's algorithms on the host"),
    r"cub/.*": ("CUB", "write the reduction, scan or sort as a kernel, with cooperative groups for the warps"),
    r"cuda/(std/)?\w+": ("libcu++", "use __syncthreads, cooperative groups, atomicAdd and __pipeline_memcpy_async"),
    r"(cuda_texture_types|texture_\w+|cuda_surface_types|surface_\w+)\.h": ("textures", "read the array by index"),
    r"cufft\w*\.h": ("cuFFT", "it needs a GPU"),
    r"cusparse\w*\.h": ("cuSPARSE", "it needs a GPU"),
    r"cusolver\w*\.h": ("cuSOLVER", "it needs a GPU"),
    r"cublas(Xt)?\.h": ("this interface of cuBLAS", "use cublas_v2.h"),
    r"cudnn\w*\.h": ("cuDNN", "use PyTorch's own layers"),
    r"nccl\.h": ("NCCL", "it needs several GPUs"),
    r"(nvrtc|cupti|nvml|nvJitLink)\.h": ("this part of CUDA", "it needs a GPU"),
    r"(cutlass|cute)/.*": ("CUTLASS", "it needs a GPU"),
    r"mma\.h": ("the tensor cores' wmma", "it needs a GPU"),
    r"cuda_gl_interop\.h": ("graphics", "it needs a GPU"),
}
# By a name that is not declared, although its header is here: the same.
_NAMES = {
    r"cu(?!Complex|FloatComplex|DoubleComplex)[A-Z]\w+|CU(?!DA)[a-z_]\w+|CUDA_(ERROR|SUCCESS|MEM|LAUNCH)\w*": (
        "the driver's own functions",
        "use the runtime's, whose names begin with cuda",
    ),
    r"cuda(\w*Arrays?|\w*Array_(const_)?t|ArrayDefault|\w*Mipmapped\w*|\w*Channel(Format)?Desc|ChannelFormat\w*"
    r"|\w*(Texture|Surface)\w*|Resource(Desc|Type|View)\w*|(Address|Filter|Read)Mode\w+)"
    r"|tex\w*[1-3]D\w*|surf[1-3]D\w*": (
        "textures",
        "read the array by index",
    ),
    r"cudaGraphics\w+|cudaGL\w+": ("graphics", "copy the pixels to the host"),
    r"cuda\w*External(Memory|Semaphore)\w*|cuda\w*NvSci\w*": ("memory of other interfaces", "it needs a GPU"),
    r"cudaMemPool(Export|Import|PtrExport)\w*|cudaMem(HandleType|Access)\w+|cudaIpc\w+": (
        "memory that processes share",
        "it needs a GPU",
    ),
    r"cudaLaunch(KernelEx|Config|Attribute)\w*": ("launches with attributes", "launch with <<<...>>>"),
    r"cudaGraph\w+": ("this part of graphs", "capture a stream instead"),
    r"cublas([SDCZ]?(getr[fsi]|gels|geqrf|matinv|trs[mv]|trm[mv]|sym[mv]|syr|hem[mv]|her|gbmv|rot|dgmm)|DotEx)\w*": (
        "this function of cuBLAS",
        "write the kernel, or use torch's",
    ),
}
_MISSING = re.compile(r"(?:fatal )?error: '?(?P<header>[\w./+-]+)'?(?:: No such file or directory| file not found)")

_UNDECLARED = re.compile(
    r"error: ['‘](?P<gcc>\w+)['’] (?:was not declared|does not name a|has not been declared)[^\n]*"
    r"|error: (?:use of undeclared identifier|unknown type name) '(?P<clang>\w+)'[^\n]*"
)


def explained_missing(log) -> str:
    """The compilers' log; if the engine lacks what the source needs, only the errors that say so, each thing once."""
    lacking = {}
    for line in log.splitlines():
        header, name = _MISSING.search(line), _UNDECLARED.search(line)
        found, table = (header, _LIBRARIES) if header else (name, _NAMES)
        wanted = found and next(filter(None, found.groups()))
        what = wanted and next((what for form, what in table.items() if re.fullmatch(form, wanted)), None)
        if what:
            shown = f"<{wanted}>" if header else f"`{wanted}`"
            said = f"error: {shown}: the CPU engine does not have {what[0]}: {what[1]}"
            lacking.setdefault(what, line[: found.start()] + said)
    return "\n".join(lacking.values()) or log
