"""Source text in, something callable out: the same CUDA C++ for a GPU (nvcc) or for the CPU (utils/cuda/cpu).

An earlier build is loaded in some 20 ms, so what only a build or an error needs is imported where it is needed.
"""

import ctypes
import importlib.machinery
import importlib.util
import sys
from functools import partial

from utils.cuda import session
from utils.cuda.common.cache import build_once, hashed, show_warnings
from utils.cuda.common.declared import check_functions, names
from utils.cuda.common.preprocessor import included
from utils.cuda.common.text import plain
from utils.cuda.common.toolchain import cache_folder, device
from utils.cuda.cpu import guard
from utils.cuda.cpu.profile import behave_like_chosen
from utils.cuda.gpu import failures
from utils.cuda.verdict import Judged

guard.guard_tensors()  # those made from now on

__all__ = ["load_cuda", "load_with"]


def load_cuda(cuda_src, cpp_src, funcs, opt=True, verbose=False, trace=False, check=False):
    """Compile CUDA C++ text into a module with the functions `funcs`: for the GPU if there is one, otherwise the CPU.

    `cuda_src` holds the kernels and usually the torch functions that launch them; `cpp_src` holds their declarations,
    or whole functions if `cuda_src` has none. `torch.utils.cpp_extension.load_inline` takes the same two texts, and on
    a GPU they are built as it would build them, by nvcc and the C++ compiler, in a fraction of its time. Without a GPU
    they are built for the CPU, where CPU tensors pass for CUDA tensors.

    `opt=False` compiles the host code without optimisation. `verbose=True` prints the commands. An earlier build of the
    same text on the same machine is loaded from the cache.

    `trace=True` builds for the CPU engine on any machine, and records every access of every launch: what a kernel does
    wrong becomes a `KernelProblem`, whose `.problems` holds every problem found. Tensors on a GPU are copied over and
    back. It is about a hundred times slower, so use sizes just large enough to show the mistake. `check` is its
    earlier name.

    Raises CompileError for a source that does not compile, ValueError for a function that the source does not have,
    ToolchainError if no compiler is found.
    """
    __tracebackhide__ = True  # IPython leaves out our frames: the learner's cell and the message are what helps
    funcs = names(funcs)
    cuda_src, cpp_src = plain("cuda_src", cuda_src), plain("cpp_src", cpp_src)
    check_functions(cuda_src, cpp_src, funcs)
    session.begin()
    traced = trace or check
    module = load_with(_builder(traced), cuda_src, cpp_src, funcs, opt, verbose)
    if not traced:
        return module
    from utils.cuda.cpu.build import Builder
    from utils.cuda.cpu.trace.extension import TracedModule

    as_written = partial(load_with, Builder(traced=True, recorded=True), cuda_src, cpp_src, funcs, opt)
    return TracedModule(module, funcs, cuda_src, as_written)


def load_with(builder, cuda_src, cpp_src, funcs, opt=True, verbose=False):
    """The module that `builder` (gpu.nvcc, cpu.build) makes of load_cuda's arguments, built now or earlier."""
    __tracebackhide__ = True
    headers = included(cuda_src, cpp_src)
    name = f"{funcs[0]}_{hashed(cuda_src, cpp_src, funcs, bool(opt), headers, builder.fingerprint())}"
    folder = cache_folder() / builder.device / name
    if name in sys.modules and not verbose:
        show_warnings(folder)
        if builder.device == "cpu":
            behave_like_chosen(ctypes.CDLL(sys.modules[name].__file__))
        return sys.modules[name]
    sources = {"cuda_src": cuda_src, "cpp_src": cpp_src}

    def build(place):
        __tracebackhide__ = True
        from utils.cuda.common.diagnostics import shorten
        from utils.cuda.cpu.placed import header_texts

        sources.update(header_texts(cuda_src, cpp_src) | sources)
        with open(place / "commands.txt", "w") as commands:
            say = lambda text: print(shorten(text), file=commands)  # noqa: E731
            return builder(name, cuda_src, cpp_src, funcs, place, opt, say)

    what = f"compiling {funcs[0]} for the {'CPU' if builder.device == 'cpu' else 'GPU'}"
    build_once(folder, build, what, sources, builder.expected_seconds(cuda_src), verbose, builder.needs())
    if name not in sys.modules:
        module = _import(name, folder, sources)
        if builder.device == "cpu":
            library = ctypes.CDLL(module.__file__)
            guard.guard_tensors(library)
            behave_like_chosen(library)
        else:
            for function in funcs:
                setattr(module, function, failures.remembered(getattr(module, function)))
    return sys.modules[name]


def _builder(traced):
    """The builder for this machine: nvcc if there is a GPU; otherwise, and for a trace, the CPU engine, with nvcc as
    its judge."""
    __tracebackhide__ = True
    if device().type == "cuda" and not traced:
        from utils.cuda.gpu.nvcc import Builder

        return Builder()
    from utils.cuda.cpu.build import Builder

    return Judged(Builder(traced))


def _import(name, folder, sources):
    """Load the built module from its folder."""
    __tracebackhide__ = True
    import torch  # noqa: F401  the module needs torch's libraries in the process

    path = str(folder / f"{name}.so")
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    try:
        with guard.apart(path):
            module = importlib.util.module_from_spec(spec)
    except ImportError as error:
        (folder / "complete").unlink(missing_ok=True)
        from utils.cuda.common.diagnostics import explained

        raise explained(str(error), sources, folder) from None
    loader.exec_module(module)
    sys.modules[name] = module
    return module
