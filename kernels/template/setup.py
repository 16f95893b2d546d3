"""Builds csrc/ into the module my_kernels._C: by nvcc for a GPU, or by the C++ compiler for the CPU.

For the GPU if there is one, otherwise for the CPU; FORCE_CUDA=1 or FORCE_CPU=1 decides instead.
TORCH_CUDA_ARCH_LIST=9.0 chooses the GPU architecture. On the CPU, the CUDA course's engine runs the kernels; only that
build needs the course. CUDA_COURSE=folder says where the course is, if it is not installed.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import util
from pathlib import Path

from setuptools import setup

try:
    import torch
    from torch.utils import cpp_extension
except ImportError as error:
    sys.exit(f"{error}: install torch first, and this with `pip install . --no-build-isolation`, so that torch is seen")

HERE = Path(__file__).parent
MODULE = "my_kernels._C"
API, KERNELS = "csrc/api.cpp", ["csrc/vector_add.cu", "csrc/square.cu", "csrc/matmul.cu"]
HEADERS = ["csrc/common.h"]
# With these, torch has nvcc compile every extension: half has no operators and no conversions but the named functions.
HALF_MACROS = [flag for flag in cpp_extension.COMMON_NVCC_FLAGS if flag.startswith("-D")]


def for_cuda() -> bool:
    """Whether to build for a GPU."""
    forced = [name for name in ("FORCE_CUDA", "FORCE_CPU") if os.environ.get(name, "0") != "0"]
    if len(forced) == 2:
        sys.exit("FORCE_CUDA and FORCE_CPU are both set: unset one")
    return forced == ["FORCE_CUDA"] if forced else torch.cuda.is_available()


def cuda_extension():
    """The extension by nvcc. Without a GPU to ask, it is built for some usual architectures."""
    cpp_extension.CUDA_HOME = home = cuda_home() or sys.exit(missing_nvcc())
    if not torch.cuda.is_available():
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "7.5;8.0;8.6;9.0+PTX")  # T4, A100, RTX 30, H100 and later
    return cpp_extension.CUDAExtension(
        MODULE,
        [API, *KERNELS],
        depends=HEADERS,
        library_dirs=cudart_folder(home),
        extra_compile_args={
            "cxx": ["-O2", "-g0"],
            "nvcc": ["-O3", "-lineinfo"],
        },  # -lineinfo: ncu shows the source's lines
    )


def cuda_home() -> str:
    """The folder of CUDA's toolkit: $CUDA_HOME, the pip wheel's, the one that torch finds, or the usual place; "" if
    there is none for this torch."""
    if torch.version.cuda is None:
        return ""
    wheels, generation = util.find_spec("nvidia"), f"cu{torch.version.cuda.split('.')[0]}"
    places = [os.environ.get("CUDA_HOME")]
    places += [f"{folder}/{generation}" for folder in wheels.submodule_search_locations] if wheels else []
    places += [cpp_extension.CUDA_HOME, "/usr/local/cuda"]
    for place in filter(None, places):
        headers = [*Path(place).glob("include/cuda_runtime.h"), *Path(place).glob("targets/*/include/cuda_runtime.h")]
        if headers and Path(place, "bin/nvcc").exists():  # an nvcc without them is a script that calls another one
            return place
    return ""


def missing_nvcc() -> str:
    """What to do where `cuda_home` finds nothing."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} was built without CUDA: install one with it, or set FORCE_CPU=1"
    return (
        f"there is no nvcc: pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]=={torch.version.cuda}.*', "
        "or set CUDA_HOME to a toolkit's folder, or build for the CPU with FORCE_CPU=1"
    )


def cudart_folder(home) -> list[str]:
    """Where the linker finds libcudart.so. The pip wheel has only libcudart.so.13: then a link to it, in build/."""
    folders = [folder for name in ("lib64", "lib", "targets/*/lib") for folder in Path(home).glob(name)]
    libraries = [path for folder in folders for path in folder.glob("libcudart.so*")]
    if not libraries or any(path.name == "libcudart.so" for path in libraries):
        return []
    link = HERE / "build" / "cudart" / "libcudart.so"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(libraries[0])
    return [str(link.parent)]


def cpu_extension():
    """The extension by the C++ compiler: the kernels translated to C++, linked to the library that runs them."""
    translate, headers, runtime = course_engine()
    sources = [API]
    for kernel in KERNELS:
        text = f'#include <cuda_runtime.h>\n#line 1 "{kernel}"\n' + translate((HERE / kernel).read_text())
        sources.append(written(f"build/cpu/{Path(kernel).stem}.cpp", text))
    flags = ["-std=c++20", "-O2", "-g0", "-DKERNELS_ON_CPU", "-fno-semantic-interposition", "-fno-math-errno"]
    flags += HALF_MACROS
    flags += ["-U_FORTIFY_SOURCE"]  # it mistakes the engine's jumps from stack to stack for an attack
    if cpp_extension.check_compiler_is_gcc(cpp_extension.get_cxx_compiler()):
        flags += ["-fno-gnu-unique"]  # otherwise two packages built from these sources share variables
    Build.runtime = runtime
    return cpp_extension.CppExtension(
        MODULE,
        sources,
        depends=[*HEADERS, str(runtime)],
        # headers that replace CUDA's, and torch's about CUDA: they come first
        include_dirs=[str(headers), str(HERE / "csrc")],
        extra_compile_args=flags,
        extra_link_args=[str(runtime), "-Wl,-rpath,$ORIGIN", "-pthread"],
    )


class Build(cpp_extension.BuildExtension):
    """Builds the extension. If it runs on the CPU, the engine's library is copied beside it, where it looks for it."""

    runtime = None

    def run(self):
        if self.runtime:
            ask_nvcc()
        super().run()
        if self.runtime:
            folder = Path(self.get_ext_fullpath(MODULE)).parent
            for older in folder.glob("libcuda_on_cpu-*.so"):
                older.unlink()
            shutil.copy(self.runtime, folder)


def ask_nvcc():
    """Compile the kernels with nvcc too, if it is there, and stop at what it rejects: about a second each, no GPU."""
    home = cuda_home()
    for kernel in KERNELS if home else ():
        command = [f"{home}/bin/nvcc", "-std=c++20", "-arch=sm_75", "-allow-unsupported-compiler", "-ptx", kernel]
        command += [*cpp_extension.COMMON_NVCC_FLAGS, "-o", os.devnull]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if re.search(r"\(\d+\): error", said):  # about a line; what nvcc itself lacks here is another matter
            sys.exit(f"nvcc rejects {kernel}, so it cannot be built for a GPU:\n{said}")


def course_engine():
    """The function that translates CUDA C++ to C++, the folder of the engine's headers, and the engine's library."""
    if os.environ.get("CUDA_COURSE"):
        sys.path.insert(0, os.environ["CUDA_COURSE"])
    try:
        from utils.cuda import cpu as cuda_on_cpu
        from utils.cuda.cpu.build import build_kernels, needs
        from utils.cuda.cpu.translate import translate
    except ImportError:
        place = os.environ.get("CUDA_COURSE")
        missing = f"which is not in CUDA_COURSE={place}" if place else "which is not installed"
        sys.exit(
            f"the build for the CPU needs the CUDA course, {missing}: set CUDA_COURSE to its folder (the one with "
            "kernels/ and utils/), or `pip install -e` that folder; with nvcc, FORCE_CUDA=1 builds for a GPU without it"
        )
    runtime = needs()[0]
    if not runtime.exists():  # it is built with the first kernel
        with tempfile.TemporaryDirectory() as folder:
            if log := build_kernels("__global__ void nothing() {}", ["nothing"], Path(folder)):
                sys.exit(f"the course's engine cannot be built here:\n{log}")
    return translate, Path(cuda_on_cpu.__file__).parent / "include", runtime


def written(place, text) -> str:
    """Write `text` to `place` unless it is there already: a file that is not touched is not compiled again."""
    path = HERE / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return place


# ninja compiles in parallel, and only what has changed. It may be beside this Python and not on PATH.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
minor = ".".join(torch.__version__.split(".")[:2])
setup(
    ext_modules=[cuda_extension() if for_cuda() else cpu_extension()],
    cmdclass={"build_ext": Build},
    install_requires=[f"torch=={minor}.*"],  # torch's C++ interface changes from version to version
)
