"""kernel.ptx, kernel.sass and kernel.resources(): what NVIDIA's compiler makes of a kernel, on any machine."""

import os
import re
import subprocess
import sys

import pytest

from utils import compile_kernel
from utils.cuda.common import toolchain
from utils.ground.errors import CourseError, ToolchainError

pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVIDIA's cuda-bindings")
try:
    toolchain.disassembler()
except ToolchainError as missing:
    pytest.skip(str(missing), allow_module_level=True)

SOURCE = """
template <int TILE>
__global__ void tiled(const float* __restrict__ x, float* out, int n) {
    __shared__ float tile[TILE];
    float sum = 0;
    for (int start = 0; start < n; start += TILE) {
        tile[threadIdx.x] = x[start + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += tile[i] * tile[TILE - 1 - i];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
__global__ void __launch_bounds__(128) bounded(float* x) { x[threadIdx.x] *= 2.0f; }
"""
LINES = SOURCE.splitlines()


def line_of(text):
    return next(number for number, line in enumerate(LINES, 1) if text in line)


@pytest.fixture(scope="module")
def tiled():
    return compile_kernel(SOURCE, "tiled<16>")


@pytest.fixture(scope="module")
def bounded():
    return compile_kernel(SOURCE, "bounded")


@pytest.fixture(autouse=True)
def default_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_COURSE_GPU", raising=False)


def test_resources_of_a_block(tiled):
    found = tiled.resources("T4", threads=(16, 8), shared_bytes=1024)
    assert (found.kernel, found.gpu, found.threads) == ("tiled<16>", "T4", 128)
    assert (found.shared_bytes, found.dynamic_shared_bytes) == (64, 1024)
    assert (found.stack_bytes, found.spill_stores, found.spill_loads) == (0, 0, 0)
    assert 16 <= found.registers <= 64
    assert (found.blocks_per_sm, found.occupancy, found.limited_by) == (8, 1.0, "threads")
    few = tiled.resources("sm_86", threads=128, shared_bytes=60_000)
    assert (few.blocks_per_sm, few.limited_by) == (1, "shared memory") and few.occupancy == pytest.approx(4 / 48)


def test_a_block_without_threads(tiled):
    with pytest.raises(ValueError, match="threads must be at least 1"):
        tiled.resources("T4", threads=0)


def test_the_table_of_resources(tiled):
    table = tiled.resources("A100")
    assert [row.threads for row in table] == [64, 128, 256, 512, 1024]
    lines = repr(table).splitlines()
    assert re.match(
        r"tiled<16> on A100: \d+ registers per thread, 64 bytes of shared memory per block, nothing spill", lines[0]
    )
    assert lines[1].split("  ")[-1] == "limited by" and lines[-1].split()[:4] == ["1024", "2", "64", "100%"]
    assert "<td>1024</td>" in table._repr_html_() and "tiled&lt;16&gt;" in table._repr_html_()


def test_a_launch_that_the_kernel_does_not_allow(bounded):
    too_many = bounded.resources("H200", threads=256)
    assert (too_many.blocks_per_sm, too_many.occupancy) == (0, 0)
    assert "cannot be launched: too many threads" in repr(too_many)
    assert bounded.resources("H200", threads=128).blocks_per_sm == 16
    with pytest.raises(CourseError, match=r"no GPU 'K80'.*T4, A100, H100, H200"):
        bounded.resources("K80")


def test_spills_are_reported():
    many = ", ".join(f"x[{i}]" for i in range(60))
    source = f"""__global__ void spill(float* x, int n) {{
        x += threadIdx.x;  // what is the same for all threads of a warp would not take their registers
        float v[60] = {{{many}}};
        for (int k = 0; k < n; k++) {{
            float sum = 0;
            for (int i = 0; i < 60; i++) sum += v[i];
            for (int i = 0; i < 60; i++) v[i] *= sum;
        }}
        for (int i = 0; i < 60; i++) x[i] = v[i];
    }}"""
    tight, free = (
        compile_kernel(source, "spill", options).resources("T4", 64) for options in (["--maxrregcount=32"], [])
    )
    assert tight.registers <= 32 and tight.spill_stores > 0 and tight.spill_loads > 0 == free.spill_stores
    assert "bytes per thread spilled" in repr(tight)


def test_ptx_is_of_this_kernel_alone(tiled):
    ptx = tiled.ptx
    assert ptx.startswith("//") and repr(ptx) == ptx and ".target sm_" in ptx
    assert re.findall(r"\.entry (\w+)\(", ptx) == ["_Z5tiledILi16EEvPKfPfi"]
    assert f"// line {line_of('out[threadIdx.x]')}: out[threadIdx.x] = sum;" in ptx
    assert ".loc" not in ptx and ".file" not in ptx and "st.global.f32" in ptx


@pytest.mark.skipif(toolchain.device().type == "cuda", reason="a GPU decides by itself")
def test_the_chosen_gpu_decides(tiled, monkeypatch):
    assert ".target sm_90" in tiled.ptx and tiled.resources(threads=128).gpu == "sm_90"
    monkeypatch.setenv("CUDA_COURSE_GPU", "T4")
    assert ".target sm_75" in tiled.ptx and tiled.sass.gpu == "T4" == tiled.resources(threads=128).gpu


@pytest.mark.parametrize("gpu", ["T4", "A100", "H200"])
def test_sass_beside_its_lines(tiled, monkeypatch, gpu):
    monkeypatch.setenv("CUDA_COURSE_GPU", gpu)
    sass = tiled.sass
    product = line_of("sum += tile[i]")
    assert {each.line for each in sass} >= {line_of("x[start"), product, line_of("out[threadIdx.x]")}
    assert sass[-1].opcode != "NOP" and not any("/*" in each.text or ".reuse" in each.text for each in sass)
    loop = sass.loop
    # The products of a tile are unrolled, and perhaps several rounds of the loop: each loads once and waits twice.
    rounds = loop.counts["global memory"]
    assert loop.counts["waits"] == 2 * rounds and loop.line(product).counts["arithmetic"] == 16 * rounds
    assert line_of("out[threadIdx.x]") not in {each.line for each in loop}
    assert loop[-1].opcode.startswith("BRA") and "back to line" in loop[-1].text
    text = repr(sass)
    assert f"{product:4} | {LINES[product - 1].strip()}" in sass.text and "more: .text has all" in text
    assert len(text.splitlines()) < 160 and len(sass.text) > len(text)
    assert "color:" in sass._repr_html_() and "&#9632; shared memory" in sass._repr_html_()
    with pytest.raises(ValueError, match="no instruction comes from line 1: "):
        sass.line(1)


def test_code_without_a_loop(bounded):
    assert bounded.sass.loops == []
    with pytest.raises(ValueError, match="bounded has no loop: its source has none"):
        _ = bounded.sass.loop
    source = """__device__ int twice(int v) { for (int i = 0; i < 1; i++) v *= 2; return v; }
    __global__ void unrolled(int* x) { *x = twice(*x); }"""
    with pytest.raises(ValueError, match="unrolled has no loop: the compiler has unrolled every loop of its source"):
        _ = compile_kernel(source, "unrolled").sass.loop


def test_without_a_disassembler(bounded, monkeypatch):
    _ = bounded.ptx  # compiled while everything is there
    monkeypatch.setattr(toolchain, "cuda_home", lambda: None)
    monkeypatch.setattr(toolchain.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    with pytest.raises(ToolchainError, match="there is no nvdisasm.*pip install triton"):
        _ = bounded.sass


def test_without_nvrtc():
    code = """
import sys
sys.modules["cuda.bindings"] = None
from utils import compile_kernel
kernel = compile_kernel("__global__ void k(float* x) { x[0] = 1; }", "k")
try:
    kernel.resources("T4")
except RuntimeError as error:
    print(error)
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "cuda-bindings" in done.stdout and "pip install" in done.stdout, done.stdout + done.stderr
