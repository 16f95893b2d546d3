"""How compile_kernel builds: names and compile errors, the cache, NVRTC."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernels
import utils
from tests.clock import slowdown
from tests.cuda.sources import GRID_SYNC, HALVES, SOURCE, X, line_of
from utils import CompileError, compile_kernel
from utils.cuda.common import cxx, toolchain
from utils.cuda.kernel import compile_kernels

ROOT = Path(utils.__file__).parents[1]


# ---- names and compile errors ---------------------------------------------------------------------------------------

HAS = r"The source has: scale, reversed<...> \(template <int tile, class T = float>\), plain_name, places, last_bytes, "


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scael", rf"the source has no kernel 'scael'. Did you mean 'scale'\? {HAS}"),
        ("nothing", f"the source has no kernel 'nothing'. {HAS}"),
        ("", f"'' is no kernel's name.*{HAS}"),
        ("a b", f"'a b' is no kernel's name.*{HAS}"),
        ("three", f"'three' is a function but no kernel: only a __global__ function can be launched. {HAS}"),
        ("reversed", "'reversed' is a template .template <int tile, class T = float>.: name an instance"),
        ("scale<16>", "'scale' is no template, so 'scale<16>' does not exist"),
    ],
)
def test_names_that_are_no_kernel(backend, name, message):
    with pytest.raises(ValueError, match=message):
        compile_kernel(SOURCE, name)


def test_a_kernel_as_opencl_writes_it(backend):
    with pytest.raises(ValueError, match="only a __global__ function can be launched .`__kernel` is OpenCL's word"):
        compile_kernel("__kernel void k(float* x) { x[0] = 1; }", "k")


def test_an_architecture_that_there_is_not(on_cpu):
    with pytest.raises(CompileError, match="invalid value for -arch: 'sm_999'"):
        compile_kernel(SOURCE, "scale", options=["-arch=sm_999"])


def test_source_or_name_that_is_no_text(backend):
    with pytest.raises(TypeError, match="cuda_src must be text, but it is NoneType"):
        compile_kernel(None, "k")
    with pytest.raises(TypeError, match="name must be text, but it is int: 3"):
        compile_kernel(SOURCE, 3)
    with pytest.raises(ValueError, match="The source has no __global__ function"):
        compile_kernel("int x;", "k")


def test_a_kernel_that_a_macro_defines(backend):
    source = """#define KERNEL(name) __global__ void name
KERNEL(made)(int* out) { out[0] = 7; }
#define JOIN(a, b) a##b
__global__ void JOIN(my, kernel)(int* out) { out[1] = 8; }"""
    out = torch.zeros(2, dtype=torch.int32, device=backend)
    for kernel in compile_kernels(source, ["made", "mykernel"]):
        kernel[1, 1](out)
    assert out.tolist() == [7, 8]


IN_NAMESPACES = """namespace a { __global__ void k(float* x) { x[0] = 1; } }
namespace b { template <int n> __global__ void k(float* x) { x[1] = n; } }
namespace b::c { __global__ void k(float* x, int m) { x[2] = m; } }
__global__ void twice(float* x) {}
__global__ void twice(int* x) {}
"""


def test_kernels_named_in_a_tuple_are_the_same_build(backend, monkeypatch):
    (first,) = compile_kernels(IN_NAMESPACES, ("a::k",))
    monkeypatch.setattr(subprocess, "Popen", None)  # nothing is compiled again
    x = torch.zeros(3, device=backend)
    for kernel in (first, compile_kernel(IN_NAMESPACES, "a::k")):
        kernel[1, 1](x)
    assert x.tolist() == [1, 0, 0]


def test_kernels_of_one_name_in_several_namespaces(backend):
    x = torch.zeros(3, device=backend)
    first, second, third = compile_kernels(IN_NAMESPACES, ["a::k", "b::k<9>", "b::c::k"])
    first[1, 1](x)
    second[1, 1](x)
    third[1, 1](x, 5)
    assert x.tolist() == [1, 9, 5]
    with pytest.raises(ValueError, match="'k' is a template .template <int n>.: name an instance"):
        compile_kernel(IN_NAMESPACES, "b::k")
    with pytest.raises(ValueError, match="'k' is no template, so 'a::k<3>' does not exist"):
        compile_kernel(IN_NAMESPACES, "a::k<3>")
    with pytest.raises(ValueError, match="the source has 2 kernels 'twice', in lines 4 and 5"):
        compile_kernel(IN_NAMESPACES, "twice")


C_NAMES = (
    "log index min max round time select abs exp pow y0 y1 j0 jn gamma div rand signal link read write clock".split()
)


def test_kernels_with_the_names_of_c_functions(backend):
    """A kernel is one more overload, for nvcc as for us."""
    text = "__global__ void {}(int* out, const float (*rows)[4], int n = 3) {{ out[threadIdx.x] = {}; }}\n"
    source = "".join(text.format(name, number) for number, name in enumerate(C_NAMES))
    rows = torch.zeros(1, 4, device=backend)
    for number, kernel in enumerate(compile_kernels(source, C_NAMES)):
        out = torch.full((2,), -1, dtype=torch.int32, device=backend)
        kernel[1, 2](out, rows, 3)
        assert out.tolist() == [number, number], kernel.name


def test_a_compile_error_shows_the_learner_s_line(backend):
    bad = SOURCE.replace("out[i] = three() * x[i];", "out[i] = four() * x[i];")
    with pytest.raises(CompileError, match="four") as raised:
        compile_kernel(bad, "scale")
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("three() * x[i]"))
    assert "if (i < n) out[i] = four() * x[i];" in str(raised.value) and "build.log" in str(raised.value)


def test_a_wrong_template_argument_is_shown_in_the_name(backend):
    with pytest.raises(CompileError, match="tyle") as raised:
        compile_kernel(SOURCE, "reversed<tyle>")
    assert raised.value.errors[0][:2] == ("name", 1)
    assert "reversed<tyle>" in str(raised.value)


def test_what_the_cpu_cannot_run_names_its_line(on_cpu):
    with pytest.raises(CompileError, match="`ret` needs a GPU") as raised:
        compile_kernel(SOURCE.replace("out[at] = at;", 'asm("ret;");'), "places")
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("out[at] = at;"))


def test_a_function_that_is_defined_nowhere(on_cpu):
    with pytest.raises(CompileError, match=r"`lost\(int\)` is declared and called, but no source defines it"):
        compile_kernel("__device__ int lost(int);\n__global__ void k(int* x) { x[0] = lost(3); }", "k")


def test_kernels_of_a_source():
    found = cxx.kernels(r"""
        /* __global__ void no(); */ const char* s = "__global__ void no() {";
        namespace n { template <class T, int (*f)(int)> static __global__ void __launch_bounds__(64, 2)
            one(const T* __restrict__ a, unsigned long long b, float (*c)[16], int d[4]); }
        extern "C" __global__ __launch_bounds__(K(1, 2)) void two(void) { if (1) { } }
        void __global__ three(float x) { grid.sync(); }
        template <> __global__ void four<float>(float x) {}
        __global__ void five(int *p) { auto g = cooperative_groups::this_grid(); g.sync(); }
    """)
    assert list(found) == ["one", "two", "three", "four", "five"]
    assert found["one"].template == "template <class T, int (*f)(int)>" and not found["two"].template
    assert found["one"].names[:2] == ["a", "b"] and found["one"].names[3] == "d"
    assert found["two"].names == [] and found["three"].names == ["x"] and found["five"].names == ["p"]
    assert [name for name, kernel in found.items() if kernel.cooperative] == ["five"]
    assert cxx.kernels(GRID_SYNC)["waits"].cooperative, "a function that the kernel calls waits for the grid"


# ---- the cache ------------------------------------------------------------------------------------------------------


def test_an_unchanged_source_is_not_built_again_and_a_changed_one_is(fresh, on_cpu, monkeypatch):
    from utils.cuda.cpu import module

    compile_kernel(SOURCE, "scale")
    monkeypatch.setattr(module, "build_kernels", lambda *a, **k: pytest.fail("built again"))
    x = torch.zeros(8)
    compile_kernel(SOURCE, "scale")[1, 8](X, x, 8)
    assert x.tolist() == [3] * 8
    for changed in ((SOURCE + "\n", "scale"), (SOURCE, "places"), (SOURCE, "scale", "-DN")):
        with pytest.raises(pytest.fail.Exception, match="built again"):
            compile_kernel(*changed)


def test_two_versions_of_one_kernel_live_side_by_side(backend):
    out = torch.zeros(2, dtype=torch.int32, device=backend)
    template = "template <int n> __global__ void k(int* out) {{ __shared__ int s; s = {}; out[n] = s + n; }}"
    one, two = (compile_kernel(template.format(value), "k<1>") for value in (10, 20))
    for kernel, value in ((one, 11), (two, 21), (one, 11)):
        kernel[1, 1](out)
        assert out.tolist() == [0, value]


def test_two_versions_of_a_template_are_traced_side_by_side(on_cpu):
    """Each with its own shared memory: g++ merges what two libraries call the same, unless told otherwise."""
    version = """
        template <int N>
        __global__ void places(float* y) {
            __shared__ float kept[SIZE][N];
            kept[threadIdx.x / N][threadIdx.x % N] = threadIdx.x;
            y[threadIdx.x] = kept[threadIdx.x / N][threadIdx.x % N];
        }"""
    for size in (2, 3):
        kernel, y = compile_kernel(version.replace("SIZE", str(size)), "places<4>"), torch.empty(4 * size)
        trace = kernel.trace[1, 4 * size](y, outputs=[y])
        assert trace.ok, trace.problems
        assert trace.args[0].tolist() == list(range(4 * size))


def test_what_a_killed_build_left_or_a_disk_damaged_is_built_anew(fresh, on_cpu, monkeypatch):
    from utils.cuda.cpu import module

    compile_kernel(SOURCE, "scale")
    (folder,) = (f for f in (fresh / "cpu").iterdir() if f.is_dir())
    for damage in (
        lambda: (folder / "complete").unlink(),
        lambda: (folder / "kernel.so").write_bytes(b"\x7fELF"),
        lambda: (folder / "kernel.so").unlink(),
    ):
        damage()
        monkeypatch.setattr(module, "_loaded", {})
        x = torch.zeros(8)
        compile_kernel(SOURCE, "scale")[1, 8](X, x, 8)
        assert x.tolist() == [3] * 8
        assert (folder / "complete").exists()


@pytest.mark.alone
def test_a_new_process_loads_it_in_milliseconds(fresh, on_cpu):
    compile_kernel(SOURCE, "scale")
    script = f"""
import time, torch
start = time.perf_counter()
from utils import compile_kernel
compile_kernel({SOURCE!r}, "scale")
print(time.perf_counter() - start)
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", script]
    slower = slowdown()
    ran = [subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True) for _ in range(3)]
    assert all(r.returncode == 0 for r in ran), ran[0].stderr
    seconds = min(float(r.stdout) for r in ran)
    print(f"\nwarm compile_kernel in a new process: {1000 * seconds:.1f} ms")
    assert seconds < 0.05 * max(slower, slowdown())


def test_verbose_prints_the_command(fresh, on_cpu, capsys):
    compile_kernel(SOURCE, "scale", verbose=True)
    assert "-O3" in capsys.readouterr().out
    compile_kernel(SOURCE, "scale", verbose=True)
    assert "already built in" in capsys.readouterr().out


# ---- NVRTC, which compiles on a machine without a GPU too -----------------------------------------------------------


@pytest.fixture
def nvrtc(fresh):
    pytest.importorskip("cuda.bindings.nvrtc")
    if not any(place.exists() for place in _nvrtc_libraries()):
        pytest.skip("torch brings no NVRTC here")
    from utils.cuda.gpu import nvrtc

    return nvrtc


def _nvrtc_libraries():
    from importlib import util

    wheel = util.find_spec("nvidia")
    for place in wheel.submodule_search_locations if wheel else ():
        yield from Path(place).glob("*/lib/libnvrtc.so*")


def test_nvrtc_leaves_pythons_own_bytes_alone(nvrtc):
    nvrtc.built(SOURCE, "scale", (), 75)  # its log has one byte
    assert b" "[0] == 32 and b"\0"[0] == 0 and b" " == bytes([32])


@pytest.mark.parametrize("capability", [75, 90])
def test_every_kernel_of_the_course_compiles_with_nvrtc(nvrtc, capability):
    for name in kernels.names():
        folder = nvrtc.built(kernels.source(name), list(kernels.launched(name)), (), capability)
        assert (folder / "kernel.bin").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "name", ["scale", "reversed<16>", "reversed<8, double>", "plain_name", "last_bytes", "by_value", "empty"]
)
def test_both_compilers_tell_the_same_signature(nvrtc, on_cpu, name):
    import json

    facts = json.loads((nvrtc.built(SOURCE, name, (), 75) / "kernel.json").read_text())
    on_cpu = compile_kernel(SOURCE, name)._module
    assert facts["signature"] == on_cpu.signature
    assert facts["sizes"] == [size for size, _, _ in on_cpu.sizes]


@pytest.mark.parametrize("source", [SOURCE, HALVES, GRID_SYNC, "#include <cstdint>\n#include <cmath>\n" + SOURCE])
def test_nvrtc_finds_the_headers(nvrtc, source):
    nvrtc.built(source, list(cxx.kernels(source))[0], (), 75)


@pytest.mark.parametrize("options", [("-DN=5",), ("-D", "N=5"), ("--define-macro=N=5", "--use_fast_math")])
def test_options_reach_nvrtc(nvrtc, options):
    nvrtc.built("__global__ void k(int* out) { out[0] = N; }", "k", options, 75)
    with pytest.raises(CompileError, match="N"):
        nvrtc.built("__global__ void k(int* out) { out[0] = N; }", "k", (), 75)


def test_nvrtc_knows_what_nvcc_knows_without_an_include(nvrtc):
    body = "p[0] = INFINITY + FLT_MAX + NAN + INT_MAX; q[0] = UINT_MAX;"
    nvrtc.built(f"__global__ void k(float* p, uint32_t* q, int64_t n) {{ {body} }}", "k", (), 75)


def test_nvrtc_errors_are_told_as_those_of_the_cpu_are(nvrtc):
    bad = SOURCE.replace("out[i] = three() * x[i];", "out[i] = four() * x[i];")
    with pytest.raises(CompileError, match="four") as raised:
        nvrtc.built(bad, "scale", (), 75)
    assert raised.value.errors[0][:2] == ("cuda_src", line_of("three() * x[i]"))
    with pytest.raises(CompileError, match="tyle") as raised:
        nvrtc.built(SOURCE, "reversed<tyle>", (), 75)
    assert [error[:2] for error in raised.value.errors] == [("name", 1)]


def test_the_architecture_can_be_chosen_and_newer_gpus_get_ptx(nvrtc):
    chosen = nvrtc.built(SOURCE, "scale", ("--gpu-architecture=compute_80",), 75)
    newer = nvrtc.built(SOURCE, "scale", (), 999)
    for folder, target in ((chosen, b".target sm_80"), (newer, b".target sm_")):
        assert target in (folder / "kernel.bin").read_bytes()
    with pytest.raises(toolchain.ToolchainError, match=r"this GPU \(sm_30\) is older than what NVRTC"):
        nvrtc.built(SOURCE, "scale", (), 30)
