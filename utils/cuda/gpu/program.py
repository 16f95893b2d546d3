"""Builds whole programs for a GPU: nvcc compiles and links them, as it would by hand."""

import re

from utils.cuda.common import extension, toolchain
from utils.cuda.common.cache import hashed
from utils.cuda.common.targets import target
from utils.cuda.gpu.nvcc import cudart_link

__all__ = ["build", "expected_seconds", "fingerprint"]

# The library that a header's functions are in. nvcc itself links the runtime alone.
_LIBRARIES = {
    r"cublas(_v2|_api)?\.h": "cublas",
    r"cublasLt\.h": "cublasLt",
    r"curand\.h": "curand",
    r"cufft\w*\.h": "cufft",
    r"cusparse\w*\.h": "cusparse",
    r"cusolver\w*\.h": "cusolver",
    r"nvrtc\.h": "nvrtc",
    r"cuda\.h": "cuda",
}


def build(program, folder, say) -> str:
    """Compile a program (common/program.py) into `folder/program` for this machine's GPU; the log, empty on success.

    Raises ToolchainError if nvcc or the C++ compiler is missing, or does not suit the GPU.
    """
    home = toolchain.cuda_toolkit()
    compiler = toolchain.host_compiler(home)
    real = target(toolchain.gpu_architecture(), *program.sources.values(), *program.headers.values())
    common = [str(home / "bin" / "nvcc"), f"-std={program.standard}", f"-gencode=arch=compute_{real},code=sm_{real}"]
    common += [
        "-ccbin",
        compiler,
        "-O3",
        *program.nvcc_flags,
        *program.macros,
        *(f"-I{place}" for place in program.folders),
    ]
    common += [word for flag in program.host_flags for word in ("-Xcompiler", flag)]
    if len(program.sources) > 1:
        common.append("-rdc=true")  # device code of one file may call that of another
    objects = [str(folder / f"{number}.o") for number in range(len(program.sources))]
    commands = [[*common, "-c", str(path), "-o", made] for path, made in zip(program.sources, objects, strict=True)]
    libraries = [f"-l{name}" for name in program.libraries] + _libraries(program, folder, home)
    link = [*common, "--cudart=shared", *objects, *libraries, "-o", str(folder / "program")]
    return extension.run(commands, say, folder / "warnings.log") or extension.run([link], say)


def _libraries(program, folder, home):
    """The linker's flags for CUDA's runtime and for the libraries whose headers the program includes."""
    flags = cudart_link(folder, home)
    wanted = {name for form, name in _LIBRARIES.items() for header in program.includes if re.fullmatch(form, header)}
    places = [home / "lib64", home / "lib", *home.glob("targets/*/lib")]
    for name in sorted(wanted):
        files = [file for place in places for file in sorted(place.glob(f"lib{name}.so*"))]
        flags += [f"-L{files[0].parent}", f"-l:{files[0].name}"] if files else [f"-l{name}"]
    found = dict.fromkeys(str(place) for place in places if place.is_dir())
    return [*flags, *(f"-Xlinker=-rpath,{place}" for place in found)]


def fingerprint() -> str:
    """What a program depends on besides its files: the GPU, nvcc and the C++ compiler."""
    home = toolchain.cuda_home() or toolchain.cuda_toolkit()
    programs = [
        extension.identity(program) for program in (home / "bin" / "nvcc", toolchain.chosen_compiler()) if program
    ]
    return hashed(programs, toolchain.gpu_architecture(), _LIBRARIES)


def expected_seconds() -> int:
    """About how long a build takes."""
    return 10
