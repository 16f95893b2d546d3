"""CUDA's libraries that the engine does not have: what a compiler's "no such file" means to a learner."""

import re

__all__ = ["explained_includes"]

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
_MISSING = re.compile(r"fatal error: '?(?P<header>[\w./+-]+)'?(?:: No such file or directory| file not found)")


def explained_includes(log) -> str:
    """The compilers' log, with the name of the library wherever a header of CUDA's is missing."""

    def said(found):
        for form, (library, instead) in _LIBRARIES.items():
            if re.fullmatch(form, found["header"]):
                return f"fatal error: <{found['header']}>: the CPU engine does not have {library}: {instead}"
        return found[0]

    return _MISSING.sub(said, log)
