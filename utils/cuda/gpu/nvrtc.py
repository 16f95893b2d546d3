"""A kernel compiled for a GPU by NVRTC, NVIDIA's compiler as a library, and launched through CUDA's driver.

It has the same functions and classes as utils/cuda/cpu/module.py has for the CPU.

NVRTC and the driver are called through cuda-bindings, NVIDIA's own Python bindings: every torch that the course
supports depends on them and brings NVRTC, so nothing more is installed, and their functions are those of the CUDA
manuals. As for alternatives, cuda.core (7 MB) and CuPy (over 100 MB) would be one more package to install and to match
with torch's CUDA, for little beyond these calls; torch.cuda._compile_kernel is private and supports neither templates
nor a kernel's signature.
"""

import contextlib
import ctypes
import functools
import json
import re
from importlib import util
from pathlib import Path

import torch

from utils.cuda.common import cache, cxx
from utils.cuda.common.preprocessor import included
from utils.cuda.common.targets import target_of_text
from utils.cuda.common.toolchain import bindings_hint, cache_folder, cuda_home
from utils.cuda.gpu import cubin, facts, failures
from utils.ground.errors import ToolchainError

try:
    from cuda.bindings import driver, nvrtc
except ImportError as missing:
    raise ToolchainError(f"compile_kernel needs NVIDIA's cuda-bindings ({missing})", bindings_hint()) from None

__all__ = ["Module", "build", "built", "include_folders", "modules", "version"]

# NVRTC has none of the C++ library's headers. Some contain nothing that is not built into it; the others are in CUDA's
# own library. nvcc includes them by default, so they come before the learner's source.
_BEFORE = """
#if __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
#else
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#endif
#ifndef INT_MAX
#define INT_MAX 0x7fffffff
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffffu
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-7f
#define DBL_MAX 1.7976931348623157e+308
#endif
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#line 1 "cuda_src"
"""
_EMPTY_HEADERS = """assert.h cassert cfloat climits cmath cstddef cstdint cstdio cstdlib cstring float.h limits.h math.h
stddef.h stdint.h stdio.h stdlib.h string.h""".split()

# On the line of each kernel's name, so that an error about it is reported there.
_REQUEST = "using cuda_course_asked_{number} = decltype({address});\n"


def modules(source, names, options=(), verbose=False, judge=None) -> "list[Module]":
    """The kernels `names` of CUDA C++ text for the current GPU, built together, now or earlier. Raises CompileError.

    `judge` (verdict.py) knows what NVRTC lets pass and nvcc does not.
    """
    __tracebackhide__ = True
    if verbose:
        built(source, names, options, _capability(torch.device("cuda")), verbose, judge)
    key = cache.hashed(source, names, options, included(source, options=options))
    if key not in _loaded:
        code = _Code(source, names, options, judge)
        _loaded[key] = [Module(code, number, name) for number, name in enumerate(names)]
    return _loaded[key]


_loaded = {}  # modules of this process: running a cell again does not load anything again


class _Code:
    """The compiled text, for each architecture of this machine's GPUs; loaded when one of its kernels is launched."""

    def __init__(self, source, names, options, judge):
        __tracebackhide__ = True
        self._built = functools.partial(built, source, names, options, judge=judge)
        self._modules = {}  # CUDA's, by device
        self.facts = [self._facts(torch.device("cuda"), number) for number in range(len(names))]

    def _facts(self, device, number):
        __tracebackhide__ = True
        return json.loads(facts.facts_file(self._built(_capability(device)), number).read_text())

    def function(self, number, device):
        """Kernel `number` on `device`, whose context must be current."""
        __tracebackhide__ = True
        if device.index not in self._modules:
            code = (self._built(_capability(device)) / "kernel.bin").read_bytes()
            self._modules[device.index] = _result(driver.cuModuleLoadData(code))
        name = self._facts(device, number)["name"].encode()
        return _Function(_result(driver.cuModuleGetFunction(self._modules[device.index], name)))


class Module:
    """A kernel for the GPUs of this machine, compiled for each architecture when it is first launched there.

    `.signature` is the type of a pointer to the kernel, as 'void (*)(float const*, int)'. For each parameter, `.sizes`
    has its size in bytes, then zeros for what only the CPU engine reports.
    """

    def __init__(self, code, number, name):
        self._code, self._number, self.name = code, number, name
        self._functions = {}  # by device
        self.signature = code.facts[number]["signature"]
        self.sizes = [(size, 0, 0) for size in code.facts[number]["sizes"]]

    def encoded(self, tensor_map, address) -> bytes:
        """CUDA's own map, 128 bytes, for a tensor at `address`."""
        __tracebackhide__ = True
        sizes = [driver.cuuint64_t(size) for size in tensor_map.sizes]
        strides = [driver.cuuint64_t(stride) for stride in tensor_map.strides or (16,)]  # one dimension has none
        box = [driver.cuuint32_t(size) for size in tensor_map.box]
        steps = [driver.cuuint32_t(1)] * len(box)
        kind = driver.CUtensorMapDataType(tensor_map.type)
        layout = (
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle(tensor_map.swizzle_number),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        with _context(tensor_map.tensor.device.index):
            made = driver.cuTensorMapEncodeTiled(kind, len(sizes), address, sizes, strides, box, steps, *layout)
        return ctypes.string_at(int(_result(made).getPtr()), 128)

    def reachable(self, args):
        """A context for a launch with these arguments: a GPU reaches the tensors themselves."""
        return contextlib.nullcontext({})

    def launch(self, blocks, threads, shared_bytes, cooperative, args, device=None):
        """Launch on torch's current stream of `device`, and return without waiting.

        Raises RuntimeError for a launch that CUDA refuses. A fault in the kernel shows at a later call, as in CUDA
        (utils/cuda/gpu/failures.py).
        """
        __tracebackhide__ = True
        device = device or torch.device("cuda", torch.cuda.current_device())
        stream = torch.cuda.current_stream(device).cuda_stream
        with _context(device.index):
            function = self._function(device)
            if shared_bytes > function.shared_bytes:
                function.allow(shared_bytes, self.name)
            start = driver.cuLaunchCooperativeKernel if cooperative else driver.cuLaunchKernel
            pointers = ctypes.addressof(args)
            extra = () if cooperative else (0,)
            (error,) = start(function.handle, *blocks, *threads, shared_bytes, stream, pointers, *extra)
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(
                failures.message(_text(error))
                or f"{_text(error)}: {self.name}[{tuple(blocks)}, {tuple(threads)}, {shared_bytes}]{_advice(error)}"
            )

    def _function(self, device):
        if device.index not in self._functions:
            self._functions[device.index] = self._code.function(self._number, device)
        return self._functions[device.index]


class _Function:
    """A kernel loaded into the current context."""

    shared_bytes = 0  # dynamic shared memory that it may use so far

    def __init__(self, handle):
        self.handle = handle

    def allow(self, shared_bytes, name):
        """Opt in to more dynamic shared memory: otherwise a kernel has 48 KB, static and dynamic together."""
        __tracebackhide__ = True
        wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (error,) = driver.cuFuncSetAttribute(self.handle, wanted, shared_bytes)
        if error != driver.CUresult.CUDA_SUCCESS:
            static = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
            limit = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            most = _result(driver.cuDeviceGetAttribute(limit, _result(driver.cuCtxGetDevice())))
            most -= _result(driver.cuFuncGetAttribute(static, self.handle))
            raise RuntimeError(
                f"{_text(error)}: {shared_bytes} bytes of dynamic shared memory are more than the {most} that {name} "
                "may have"
            )
        self.shared_bytes = shared_bytes


class _context:
    """Temporarily makes a device's primary context, which torch also uses, the current one."""

    def __init__(self, index):
        self.context = _primary_context(index)

    def __enter__(self):
        _result(driver.cuCtxPushCurrent(self.context))

    def __exit__(self, *raised):
        driver.cuCtxPopCurrent()


@functools.cache
def _primary_context(index):
    _result(driver.cuInit(0))
    return _result(driver.cuDevicePrimaryCtxRetain(_result(driver.cuDeviceGet(index))))


def _capability(device):
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def _result(answer):
    """The value that a driver or NVRTC call returned. Raises RuntimeError if it failed."""
    __tracebackhide__ = True
    error, *values = answer
    if int(error):
        raise RuntimeError(failures.message(_text(error)) or _text(error))
    return values[0] if values else None


def _text(error):
    if isinstance(error, nvrtc.nvrtcResult):
        return f"NVRTC: {nvrtc.nvrtcGetErrorString(error)[1].decode()}"
    words = driver.cuGetErrorString(error)[1]
    return f"CUDA error: {words.decode() if words else error.name}"


def _advice(error):
    """What to do next, for the errors that a learner may see."""
    advice = {
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": ". Take fewer threads per block: together they need too many registers",
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": ". All blocks of a cooperative launch must run at once: take fewer",
    }
    return advice.get(error.name, "")


# ---- compiling ------------------------------------------------------------------------------------------------------


def built(source, names, options, capability, verbose=False, judge=None) -> Path:
    """The folder with one or more kernels compiled for a GPU of `capability` (75 for 7.5), now or earlier. For 9.0 that
    is sm_90a if the source needs it."""
    __tracebackhide__ = True
    names = [names] if isinstance(names, str) else names
    options = [*_architecture(source, options, capability), *options]
    includes = include_folders()
    headers = included(source, options=options)
    made_by = (
        version(),
        Path(__file__).read_text(),
        cubin.fingerprint(),
        [(str(p), p.stat().st_mtime_ns) for p in includes],
    )
    key = cache.hashed(source, names, options, headers, made_by, judge and judge.fingerprint)
    folder = cache_folder() / "cuda" / f"{cache.file_name(names[0])}_{key}"
    sources = {"cuda_src": source, "name": "\n".join(names)}
    what = f"compiling {', '.join(names)} for the GPU"

    def compiled(place):
        __tracebackhide__ = True

        def compile():
            __tracebackhide__ = True
            log = build(source, names, place, ["-default-device", *options, *(f"-I{path}" for path in includes)])
            return cubin.build(source, names, place, options, log) if log else ""

        return judge.by_rule(compile) if judge else compile()

    cache.build_once(folder, compiled, what, sources, 1, verbose)
    return folder


def build(source, names, folder, options) -> str:
    """Compile the kernels `names` into `folder`: `kernel.ptx`, `kernel.bin` (a cubin, or the same PTX if `options` name
    no real architecture) and, for each kernel, its `facts_file` (its mangled name, its signature and its parameters'
    sizes).

    Needs no GPU. Returns the compiler's log, empty on success.
    """
    (folder / "cuda.cu").write_text(source)
    (folder / "commands.txt").write_text(f"nvrtc {' '.join(options)} cuda.cu  # {', '.join(names)}\n")
    addresses = [cxx.address(source, name) for name in names]
    requests = [_REQUEST.format(number=number, address=address) for number, address in enumerate(addresses)]
    text = _BEFORE + source + facts.AFTER + "".join(requests)
    headers = [header.encode() for header in _EMPTY_HEADERS]
    create = nvrtc.nvrtcCreateProgram
    program = _result(create(text.encode(), b"cuda_src", len(headers), [b""] * len(headers), headers))
    kernels = [address.encode() for address in addresses]
    asked = [facts.SIGNATURE.format(address=f"cuda_course_asked_{n}()", number=n) for n in range(len(names))]
    signatures = [signature.encode() for signature in asked]
    try:
        for expression in [*kernels, *signatures]:
            _result(nvrtc.nvrtcAddNameExpression(program, expression))
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _written(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        printed = log.decode(errors="replace").strip("\0 \n")
        if int(error):
            return printed or _text(error)
        if printed:
            (folder / "warnings.log").write_text(printed)
        mangled, typed = (
            [_result(nvrtc.nvrtcGetLoweredName(program, expression)).decode() for expression in expressions]
            for expressions in (kernels, signatures)
        )
        ptx = _written(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        code = _written(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program) or ptx
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    (folder / "kernel.ptx").write_bytes(ptx.rstrip(b"\0"))
    (folder / "kernel.bin").write_bytes(code)
    for number, (name, symbol) in enumerate(zip(mangled, typed, strict=True)):
        facts.write_facts(folder, number, name, symbol)
    return ""


def _written(size, write, program) -> bytes:
    """What NVRTC's function `write` puts into a buffer of as many bytes as its function `size` gives."""
    count = _result(size(program))
    buffer = bytes(max(count, 2))  # NVRTC changes it, and Python has only one object for each bytes of length 1
    if count:
        _result(write(program, buffer))
    return buffer[:count]


def version() -> list[int]:
    """NVRTC's version, as [13, 0]."""
    error, *numbers = nvrtc.nvrtcVersion()
    return numbers


def _architecture(source, options, capability):
    """The option that names the GPU's architecture, unless `options` do. Raises ToolchainError for a GPU too old."""
    __tracebackhide__ = True
    if any(re.match(r"--gpu-architecture|-arch", option) for option in options):
        return []
    known = _result(nvrtc.nvrtcGetSupportedArchs())
    if capability in known:
        return [f"--gpu-architecture=sm_{target_of_text(capability, source, options)}"]
    older = [arch for arch in known if arch < capability]
    if not older:
        release = ".".join(map(str, version()))
        wrong = f"this GPU (sm_{capability}) is older than what NVRTC {release} supports (sm_{min(known)} and up)"
        raise ToolchainError(wrong, "install a torch that was built for an older CUDA")
    return [f"--gpu-architecture=compute_{max(older)}"]  # PTX, which the driver of a newer GPU compiles


@functools.cache
def include_folders() -> list[Path]:
    """Where cuda_fp16.h and cooperative_groups.h are: in torch's own wheels, like NVRTC, otherwise in the toolkit."""
    wheel = util.find_spec("nvidia")
    folders = []
    for place in wheel.submodule_search_locations if wheel else ():
        folders += sorted(Path(place).glob("cu[0-9]*/include"), reverse=True)
        folders.append(Path(place) / "cuda_runtime" / "include")
    if home := cuda_home():
        folders += [home / "include", *sorted(home.glob("targets/*/include"))]  # the second is conda's
    there = [folder for folder in folders if (folder / "cuda_fp16.h").exists()]
    # cooperative_groups.h needs CUDA's C++ library (nv/target), which torch's wheels leave out.
    library = [part for folder in folders for part in (folder / "cccl", folder) if (part / "nv" / "target").exists()]
    whole = [folder for folder in there if any(part.is_relative_to(folder) for part in library)]
    return [*(whole or there)[:1], *library[:1]]
