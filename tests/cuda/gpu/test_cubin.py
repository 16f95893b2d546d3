"""Kernels that NVRTC refuses and nvcc compiles, and those that both compile. Needs no GPU."""

import json

import pytest

from utils import CompileError, compile_kernel
from utils.cuda.common import toolchain
from utils.cuda.gpu import cubin
from utils.cuda.gpu.facts import facts_file

nvrtc = pytest.importorskip("utils.cuda.gpu.nvrtc", reason="needs NVIDIA's cuda-bindings")
if not toolchain.nvcc_candidates():
    pytest.skip("needs nvcc", allow_module_level=True)

SOURCE = """
struct Pair { float a; int b; };
template <int N, class T> __global__ void scaled(const T* x, T* out, size_t n) { if (n) out[0] = x[0] * T(N); }
extern "C" __global__ void plain(const int* x, double2 d) {}
namespace outer { namespace { __global__ void inner(int x) {} } }
__global__ void log(float* x) { x[0] = 1; }
static __global__ void hidden(Pair pair, float (*rows)[16]) { rows[0][1] = pair.a; }
"""
NAMES = ["scaled<3, float>", "plain", "outer::inner", "log", "hidden", "scaled<4, double>"]
HOST = """
#include <vector>
#include <cstdio>
#include <algorithm>
__global__ void twice(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }
float run(std::vector<float>& v) {
    float* x;
    cudaMalloc(&x, v.size() * sizeof(float));
    twice<<<1, 32>>>(x, (int)v.size());
    std::sort(v.begin(), v.end());
    return v[0];
}
"""


def test_the_facts_are_those_of_nvrtc(tmp_path):
    options = ["--gpu-architecture=sm_80"]
    for compile, folder in ((nvrtc.build, tmp_path / "nvrtc"), (nvcc, tmp_path / "nvcc")):
        folder.mkdir()
        given = ["-default-device", *options] if compile is nvrtc.build else options
        assert compile(SOURCE, NAMES, folder, given) == ""
    for number in range(len(NAMES)):
        first, second = (json.loads(facts_file(tmp_path / made, number).read_text()) for made in ("nvrtc", "nvcc"))
        if NAMES[number] == "outer::inner":  # the name of an unnamed namespace is the compiler's choice
            assert first.pop("name")[-7:] == second.pop("name")[-7:] == "innerEi"
        assert first == second
    code = [(tmp_path / made / "kernel.bin").read_bytes()[:4] for made in ("nvrtc", "nvcc")]
    assert code == [b"\x7fELF", b"\x7fELF"]


def nvcc(source, names, folder, options):
    return cubin.build(source, names, folder, options, "refused")


def test_host_code_and_the_cpp_library(fresh):
    kernel = compile_kernel(HOST, "twice", ("-DUNUSED=1", "--std=c++17"))
    assert ".entry _Z5twicePfi" in kernel.ptx
    assert kernel.resources("T4", threads=64).registers > 0
    assert "FADD" in kernel.sass.text or "FMUL" in kernel.sass.text
    folder = nvrtc.built(HOST, "twice", (), 75)
    facts = json.loads(facts_file(folder, 0).read_text())
    assert facts == {"name": "_Z5twicePfi", "signature": "void (*)(float*, int)", "sizes": [8, 4]}


def test_a_virtual_architecture_gives_ptx(tmp_path):
    assert nvcc(HOST, ["twice"], tmp_path, ["--gpu-architecture=compute_75"]) == ""
    assert (tmp_path / "kernel.bin").read_bytes() == (tmp_path / "kernel.ptx").read_bytes()
    assert ".target sm_75" in (tmp_path / "kernel.ptx").read_text()


def test_what_both_refuse_is_an_error_in_the_words_of_nvcc(fresh):
    wrong = HOST.replace("x[threadIdx.x] *= 2", "x[threadIdx.x] *= printed(2)")
    with pytest.raises(CompileError) as raised:
        nvrtc.built(wrong, "twice", (), 75)
    assert [error[:2] for error in raised.value.errors] == [("cuda_src", 5)]
    assert '"printed" is undefined' in str(raised.value)


@pytest.mark.parametrize("options", [["--minimal"], ["--gpu-architecture=sm_75", "--split-compile=2"]])
def test_an_option_that_only_nvrtc_knows_leaves_its_refusal(options, tmp_path):
    assert nvcc(HOST, ["twice"], tmp_path, options) == "refused"


def test_an_option_and_its_value_may_be_apart(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "own.h").write_text("const float factor = 2 * HALF;")
    source = HOST.replace("x[threadIdx.x] *= 2", "x[threadIdx.x] *= factor")
    for apart in (
        ["-I", str(tmp_path / "folder"), "-D", "HALF=1"],
        [f"--include-path={tmp_path / 'folder'}", "-DHALF=1"],
    ):
        options = ["-arch", "sm_75", "--define-macro", "UNUSED", *apart]
        assert nvcc(f'#include "own.h"\n{source}', ["twice"], tmp_path, options) == ""
