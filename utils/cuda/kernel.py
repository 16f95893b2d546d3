"""compile_kernel: one `__global__` function, callable from Python, on a GPU or the CPU, without any host code."""

import functools
import math
from operator import index

from utils.cuda import session, verdict
from utils.cuda.common.arguments import packed, parameters
from utils.cuda.common.chosen import chosen_kernel
from utils.cuda.common.grid import launch_sizes
from utils.cuda.common.text import check_options, plain
from utils.cuda.common.toolchain import device
from utils.cuda.cpu import guard
from utils.cuda.gpu import failures

guard.guard_tensors()  # those made from now on

__all__ = ["Kernel", "Tracer", "compile_kernel", "compile_kernels", "compiled_for_gpu"]


def compile_kernel(source, name, options=(), verbose=False):
    """Compile the kernel `name` of CUDA C++ text: a `Kernel`, for the GPU if there is one, otherwise for the CPU.

    `name` is a `__global__` function of `source`, or an instance of a template such as 'matmul_tile<16>'. The text may
    contain host code under `#ifndef __CUDACC_RTC__`; it is left out. `options` are NVRTC's, for instance
    `('-DTILE=32', '--use_fast_math', '--gpu-architecture=sm_90')`; those for macros and include folders apply on the
    CPU as well. `verbose=True` prints the commands. An earlier build is loaded from the cache.

    Raises ValueError for a name that is not a kernel of the source, CompileError for a source that does not compile,
    ToolchainError if no compiler is found.
    """
    __tracebackhide__ = True  # IPython leaves out our frames: the learner's cell and the message are what helps
    return compile_kernels(source, [name], options, verbose)[0]


def compile_kernels(source, names, options=(), verbose=False):
    """The same for several kernels of one source, as a list of `Kernel`: they are compiled together, in one go, and
    share the source's `__device__` variables."""
    __tracebackhide__ = True
    options = (options,) if isinstance(options, str) else tuple(options or ())
    source, names = plain("cuda_src", source), list(names)
    check_options(options)
    chosen = [chosen_kernel(source, name, options) for name in names]
    on, judge = device().type, verdict.on_kernels(source, names, options)
    if on == "cuda":
        from utils.cuda.gpu.nvrtc import modules
    else:
        from utils.cuda.cpu.module import modules
    compiled = modules(source, names, options, verbose=verbose, judge=judge)
    session.begin()
    return [Kernel(source, *which, options, on, names) for which in zip(names, chosen, compiled, strict=True)]


class Kernel:
    """A compiled kernel. `kernel[blocks, threads](*args)` launches it, `kernel[blocks, threads, shared_bytes]` with
    that much dynamic shared memory; `blocks` and `threads` are an int, a tuple of up to three, or a `dim3`.

    A pointer takes a contiguous tensor of its type on the kernel's device, or None; a pointer to a struct, a vector
    type or void takes any tensor. Numbers go to numbers, if they fit; a struct goes as a ctypes.Structure or bytes, a
    `const __grid_constant__ CUtensorMap` as what `tensor_map` returns.
    On a GPU the launch goes to torch's current stream and returns at once. On the CPU it returns when all is done.

    Raises TypeError or ValueError, before anything runs, for a launch or for arguments that the kernel does not take,
    and RuntimeError for what the GPU or the CPU engine refuses, or for a fault on the CPU. A launch on the CPU that has
    computed a number which a GPU computes differently ends with a `utils.cuda.cpu.differences.KernelWarning`.
    """

    def __init__(self, source, name, chosen, module, options, device, together=()):
        __tracebackhide__ = True
        self.source, self.name, self.options, self.device = source, name, options, device
        self._together = together
        self.cooperative, self._module = chosen.cooperative, module
        self.parameters = parameters(module.signature, module.sizes, chosen.names)

    def __repr__(self):
        return f"<kernel {self.name}({', '.join(p.text for p in self.parameters)}) for {self.device}>"

    def __reduce__(self):
        raise TypeError(
            f"the kernel {self.name} can be neither pickled nor copied: call compile_kernel where you need it, which "
            "finds the build in the cache"
        )

    def __call__(self, *args):
        raise TypeError(f"{self.name} needs a launch: {self.name}[blocks, threads](...), not {self.name}(...)")

    def __getitem__(self, launch):
        __tracebackhide__ = True
        blocks, threads, shared_bytes = _launch(launch, self.name)

        def run(*args):
            __tracebackhide__ = True
            pack = functools.partial(packed, self.name, self.parameters, args, self.device, self._module.encoded)
            p = pack()
            with self._module.reachable(args) as addresses:
                p = pack(addresses) if addresses else p
                if self.device == "cuda":
                    failures.launched(self.name, args, (blocks, threads, shared_bytes), self.parameters)
                self._module.launch(blocks, threads, shared_bytes, self.cooperative, p.pointers, p.device)

        run.__name__ = run.__qualname__ = f"{self.name}[...]"
        return run

    @property
    def trace(self):
        """`kernel.trace[blocks, threads, shared_bytes](*args, outputs=())` runs the kernel on the CPU engine, on any
        machine, with every access recorded, and reports what went wrong and what the accesses cost.

        It works on copies of the tensors, which may be on any device: the tensors themselves do not change, and `.args`
        of what it returns holds the copies after the run. `outputs` is a list of the tensors that the kernel must write
        in full. `order` is the order of blocks and threads: 'forward', 'reversed', or a seed to shuffle them. `gpu` is
        the GPU whose limits apply, as 'T4' or 'H100', by default that of CUDA_COURSE_GPU. It stops after
        `max_problems` problems, and gives up on a thread after `max_steps` steps (basic blocks of the compiled code).
        Returns a `utils.cuda.cpu.trace.trace.Trace`.
        """
        return Tracer(self.source, self.name, self.options, self._together)

    @property
    def ptx(self):
        """What NVIDIA's compiler makes of the kernel, on any machine: PTX, the assembly language that every GPU's code
        is made from, with the lines of the source as comments.

        It is for this machine's GPU, otherwise for the one that the CPU engine behaves like (CUDA_COURSE_GPU). Raises
        ToolchainError if NVRTC is missing.
        """
        __tracebackhide__ = True
        return self._compiled().ptx

    @property
    def sass(self):
        """The machine code that a GPU runs, beside the lines of the source: a `utils.cuda.gpu.sass.Sass`.

        `.sass.loop` is the innermost loop, `.sass.line(12)` what comes from one line, `.sass.text` the whole listing.
        Raises ToolchainError if NVRTC or nvdisasm is missing.
        """
        __tracebackhide__ = True
        return self._compiled().sass

    def resources(self, gpu=None, threads=None, shared_bytes=0):
        """What the kernel takes on a GPU, on any machine: registers, shared memory and spills, and how many blocks a
        multiprocessor then holds, which part of its warps they fill (occupancy), and what limits it.

        `gpu` is 'T4', 'A100', 'H100', 'H200' or an architecture such as 'sm_75'; by default as for `ptx`. `threads` is
        the size of a block, an int or a tuple, and `shared_bytes` its dynamic shared memory. Returns a
        `utils.cuda.gpu.resources.Resources`; without `threads`, a table of them for the usual sizes of a block.
        """
        __tracebackhide__ = True
        _, sizes, shared_bytes = _launch((1, 1 if threads is None else threads, shared_bytes), self.name)
        return self._compiled(gpu).resources(None if threads is None else math.prod(sizes), shared_bytes)

    def _compiled(self, gpu=None):
        __tracebackhide__ = True
        return compiled_for_gpu(self.source, self.name, self.options, gpu)


def compiled_for_gpu(source, name, options=(), gpu=None):
    """What NVIDIA's compiler makes of a kernel, as `Kernel.ptx`, `.sass` and `.resources` show it, without building it
    for the CPU: a `utils.cuda.gpu.compiled.Compiled`."""
    __tracebackhide__ = True
    from utils.cuda.gpu.compiled import compiled

    return compiled(plain("cuda_src", source), name, options, gpu)


class Tracer:
    """`Kernel.trace` without a compiled kernel: only the traced one is built, when it is first launched, with the
    kernels of `together`, of which it is one."""

    def __init__(self, source, name, options=(), together=()):
        __tracebackhide__ = True
        self.source, self.name, self.options = plain("cuda_src", source), name, options
        self.chosen = chosen_kernel(self.source, name, self.options)
        self.together = list(together) or [name]

    @property
    def judge(self):
        """What has NVIDIA's compiler judge the text, for the GPU that the engine behaves like now (verdict.py)."""
        return verdict.on_kernels(self.source, self.together, self.options)

    def __repr__(self):
        return f"<trace of {self.name}: call it as a launch, {self.name}.trace[blocks, threads](...)>"

    def __call__(self, *args, **options):
        raise TypeError(f"a trace needs a launch: {self.name}.trace[blocks, threads](...), not {self.name}.trace(...)")

    def __getitem__(self, launch):
        __tracebackhide__ = True
        blocks, threads, shared_bytes = _launch(launch, self.name)
        from utils.cuda.cpu.profile import behaving_like
        from utils.cuda.cpu.trace.problems import MAX_PROBLEMS, MAX_STEPS
        from utils.cuda.cpu.trace.run import trace

        def trace_of_kernel(
            *args, outputs=(), order="forward", gpu=None, max_problems=MAX_PROBLEMS, max_steps=MAX_STEPS
        ):
            __tracebackhide__ = True
            with behaving_like(gpu):
                return trace(self, blocks, threads, shared_bytes, args, outputs, order, max_problems, max_steps)

        trace_of_kernel.__name__ = trace_of_kernel.__qualname__ = f"{self.name}.trace[...]"
        return trace_of_kernel


def _launch(launch, name):
    """Check what is in the brackets of a launch; returns blocks, threads and bytes of dynamic shared memory."""
    __tracebackhide__ = True
    if not isinstance(launch, tuple) or len(launch) not in (2, 3):
        raise TypeError(f"{name}[...] takes [blocks, threads] or [blocks, threads, shared_bytes], but got {launch!r}")
    blocks, threads = launch_sizes(*(_with_axes(size) for size in launch[:2]))
    try:
        shared_bytes = index(launch[2]) if len(launch) == 3 else 0
    except TypeError:
        raise TypeError(f"shared_bytes must be a whole number of bytes, but got {launch[2]!r}") from None
    if shared_bytes < 0:
        raise ValueError(f"shared_bytes must not be negative, but it is {shared_bytes}")
    if shared_bytes >= 2**31:
        raise ValueError(f"shared_bytes is {shared_bytes:,}, but no GPU gives a block more than some 230,000 bytes")
    return blocks, threads, shared_bytes


def _with_axes(size):
    """Any library's `dim3` as a tuple."""
    return (size.x, size.y, size.z) if all(hasattr(size, axis) for axis in "xyz") else size
