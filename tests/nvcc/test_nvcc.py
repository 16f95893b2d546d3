"""Every kernel of the course through nvcc, for four architectures and without a GPU, and what each needs of one."""

import json
import sys

import pytest

from bench.recorded import resources as record
from bench.recorded.resources import ARCHITECTURES, Needs, compile_all, missing, new_spills, table
from tests.nvcc.sources import Source, Unreadable, course, texts
from utils.cuda.common import cxx
from utils.cuda.common.toolchain import cuda_home, nvcc_hint, nvcc_release

COURSE = course()

pytestmark = pytest.mark.alone  # it uses all cores by itself, and shows a table


@pytest.fixture(scope="session")
def nvcc():
    home = cuda_home()
    if home is None and sys.platform != "linux":
        pytest.skip("NVIDIA has no nvcc for this system")
    assert home, f"there is no nvcc, which the extra [test] brings: {nvcc_hint()}"
    return home


@pytest.fixture(scope="session")
def compiled(nvcc, summary):
    """What became of each of COURSE, by where it stands. The table is shown when all tests are done."""
    done = compile_all(COURSE, together=10)
    release, recorded = record.read()
    needs = [n for c in done for n in c.needs]
    summary["what the course's kernels need"] = table(needs, recorded, nvcc_release(nvcc), release)
    return dict(zip((source.where for source in COURSE), done, strict=True))


# ---- the course's kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", COURSE, ids=lambda source: source.where)
def test_kernels_compile_without_a_warning_for_every_architecture(compiled, source):
    assert not compiled[source.where].log, compiled[source.where].log
    lacking = missing(source, compiled[source.where])
    assert not lacking, f"templates of which no instance is compiled: {lacking}. Launch one, or name it: 'kernel<16>'"


@pytest.mark.parametrize("source", COURSE, ids=lambda source: source.where)
def test_no_kernel_spills_that_did_not_before(compiled, source):
    spills = new_spills(compiled[source.where].needs, record.read()[1])
    assert not spills, "\n".join(spills)


def test_what_is_recorded_is_of_the_course():
    _, recorded = record.read()
    assert {n.file for n in recorded.values()} <= {source.file for source in COURSE}, "run bench.recorded.resources"
    assert {n.arch for n in recorded.values()} == set(ARCHITECTURES)


# ---- what would be wrong is noticed ---------------------------------------------------------------------------------

SPILLS = """
template <int count>
__global__ void __launch_bounds__(512, 2) many(const float* x, float* out, int rounds) {  // 64 registers a thread
    float sums[count];
    for (int k = 0; k < count; ++k) sums[k] = x[k * blockDim.x + threadIdx.x];
    for (int i = 0; i < rounds; ++i)
#pragma unroll
        for (int k = 0; k < count; ++k) sums[k] = sums[k] * sums[(k + 1) % count] + x[i];
    for (int k = 0; k < count; ++k) out[k * blockDim.x + threadIdx.x] = sums[k];
}
"""
TILE = """
template <int tile>
__global__ void transposed(const float* x, float* out) {
    __shared__ float rows[tile][tile];
    rows[threadIdx.y][threadIdx.x] = x[threadIdx.y * tile + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * tile + threadIdx.x] = rows[threadIdx.x][threadIdx.y];
}
void launch(const float* x, float* out) { transposed<16><<<1, dim3(16, 16)>>>(x, out); }
"""


@pytest.fixture(scope="module")
def planted(nvcc):
    sources = {
        "few and many": Source("a.cu", SPILLS, ["many<4>", "many<96>"]),
        "tiles": Source("b.cu", TILE, ["transposed<32>"]),
        "no instance": Source("c.cu", SPILLS),
        "warning": Source("d.cu", "__global__ void k(float* x) { int unused = 3; x[0] = 1; }"),
        "error": Source("e.cu", "__global__ void k(float* x) { x[0] = y; }"),
        "sm_90a": Source("h.cu", '__global__ void k() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }'),
        "twice": Source("f.ipynb, 1", "__global__ void k(float* x) { x[0] = 1; }"),
        "and again": Source("f.ipynb, 2", "__global__ void k(float* x) { x[0] = 2; }"),
        "with torch": Source("g.cu", TILE + "torch::Tensor f(torch::Tensor x) { transposed<8><<<1, 8>>>(0, 0); }"),
    }
    return sources, dict(zip(sources, compile_all(sources.values()), strict=True))


def test_a_spill_is_noticed_once_until_it_is_recorded(planted):
    needs = planted[1]["few and many"].needs
    assert {n.kernel for n in needs} == {"many<4>", "many<96>"} and {n.arch for n in needs} == set(ARCHITECTURES)
    spilled = [n for n in needs if n.spill_stores]
    assert {n.kernel for n in spilled} == {"many<96>"}
    first = new_spills(needs, {})
    assert len(first) == len(spilled)
    assert first[0].startswith(f"a.cu: many<96> on {spilled[0].arch} spills {spilled[0].spill_stores} bytes and loads")
    assert "before, it was 0 and 0" in first[0] and "python -m bench.recorded.resources" in first[0]
    assert new_spills(needs, {n.key: n for n in needs}) == []
    less = {n.key: n._replace(spill_stores=max(0, n.spill_stores - 4)) for n in needs}
    assert len(new_spills(needs, less)) == len(spilled)


def test_what_needs_sm_90a_is_compiled_for_that_alone(planted):
    sources, done = planted
    assert not done["sm_90a"].log and {n.arch for n in done["sm_90a"].needs} == {"sm_90a"}
    assert missing(sources["sm_90a"], done["sm_90a"]) == []


def test_every_instance_is_compiled_whether_launched_or_asked_for(planted):
    needs = planted[1]["tiles"].needs
    assert {(n.kernel, n.shared) for n in needs} == {("transposed<16>", 4 * 16 * 16), ("transposed<32>", 4 * 32 * 32)}
    assert {n.kernel for n in planted[1]["with torch"].needs} == {"transposed<16>", "transposed<8>"}
    assert all(n.registers > 0 for n in needs)


def test_a_template_without_an_instance_is_missing(planted):
    sources, done = planted
    assert missing(sources["no instance"], done["no instance"]) == ["many"]
    assert missing(sources["tiles"], done["tiles"]) == []


def test_warnings_are_errors(planted):
    assert "unused" in planted[1]["warning"].log and not planted[1]["warning"].needs
    assert 'identifier "y" is undefined' in planted[1]["error"].log


def test_kernels_of_one_name_in_one_lesson_are_told_apart(planted):
    assert {n.kernel for n in planted[1]["twice"].needs} == {"k"}
    assert {n.kernel for n in planted[1]["and again"].needs} == {"k (2)"}


def test_texts_that_are_compiled_together_need_what_they_need_alone(planted):
    sources, compiled = planted
    names = ["twice", "and again"]
    assert compile_all([sources[name] for name in names], together=2) == [compiled[name] for name in names]
    wrong = Source("f.ipynb, 3", sources["warning"].text)
    right, refused = compile_all([sources["twice"], wrong], together=2)
    assert right == compiled["twice"] and refused == compiled["warning"] and "unused" in refused.log


def test_the_table_shows_now_and_then():
    now = [Needs("kernels/a.cu", "k", arch, 40, 1024, 0, 8, 4) for arch in ARCHITECTURES]
    then = {n.key: n._replace(registers=38 if n.arch == "sm_80" else 40, spill_stores=0, spill_loads=0) for n in now}
    lines = table(now, then, "13.2", "13.0")
    assert lines[0].startswith("nvcc 13.2 (recorded: 13.0)")
    assert lines[1].split() == [*ARCHITECTURES, "shared", "stack", "spilled"]
    assert lines[2] == "kernels/a.cu"
    assert lines[3].split() == ["k", "40", "40", "(38)", "40", "40", "1024", "0", "12", "(0)"]
    new = table(now, {}, "13.2", "13.2")
    assert new[0].startswith("nvcc 13.2:") and new[3].split() == ["k", "40", "40", "40", "40", "1024", "0", "12"]


def test_a_recording_reads_back(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESOURCES", tmp_path / "resources.json")
    needs = [Needs("kernels/a.cu", "k<16>", arch, 40, 1024, 0, 8, 4) for arch in ARCHITECTURES]
    record.write(needs, "13.2")
    assert record.read() == ("13.2", {n.key: n for n in needs})


# ---- texts are found in cells ---------------------------------------------------------------------------------------

KERNEL = "__global__ void {}(float* x) {{ x[0] = 1; }}"
ONE, TWO = KERNEL.format("one"), KERNEL.format("two")
BRACED = ONE.replace("{", "{{").replace("}", "}}")  # as it stands in an f-string


def cell(code, kind="code", tags=()):
    return {"cell_type": kind, "id": "c", "metadata": {"tags": list(tags)}, "source": code}


def found(*codes):
    return [source.text for source in texts([c if isinstance(c, dict) else cell(c) for c in codes], "n.ipynb")]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([f"src = {ONE!r}"], [ONE]),
        ([f"load_cuda({ONE!r}, cpp, ['f'])", f"src = {TWO!r}"], [ONE, TWO]),
        ([f"a = {ONE!r}", f"b = a + '\\n' + {TWO!r}"], [ONE + "\n" + TWO]),
        ([f"src = {ONE!r}", f"src += {TWO!r}"], [ONE + TWO]),
        ([f"src = {ONE!r}", "fast = src.replace('one', 'two')"], [ONE, TWO]),
        (["n = 16", f"src = f'const int n = {{n}};{BRACED}'"], ["const int n = 16;" + ONE]),
        ([f"%%cuda\n{ONE}"], [ONE + "\n"]),
        ([f"%%time\nsrc = {ONE!r}"], [ONE]),
        ([f"%time load_cuda(src)\nsrc = {ONE!r}"], [ONE]),
        ([f"try:\n    load_cuda({ONE!r})\nexcept CompileError as error:\n    print(error)"], []),
        ([cell(f"src = {ONE!r}", tags=["does-not-compile"])], []),
        ([cell(f"Solution\n\n```python\nsrc = {ONE!r}\n```\n", "markdown")], [ONE]),
        ([cell(f"`{ONE}` is a kernel", "markdown")], []),
        (["print('mark it with __global__')"], []),
        (["import kernels\nkernel = compile_kernel(kernels.source('square'), 'square_kernel')"], None),
    ],
)  # fmt: skip
def test_texts_are_put_together_as_the_cells_do_it(codes, expected):
    if expected is None:
        expected = [next(source.text for source in COURSE if source.where == "kernels/square.cu")]
    assert found(*codes) == expected


def test_a_text_that_only_a_run_knows_is_refused():
    code = "for t in (8, 16):\n    src = f'#define T {t}\\n__global__ void k(float* x) {{ x[0] = T; }}'"
    with pytest.raises(Unreadable, match="n.ipynb, c: this text has a kernel and depends on what only a run knows"):
        found(code)


def test_instances_that_a_lesson_asks_for_go_with_the_text():
    code = f"part = {TILE!r}\nwhole = part + '// more'\nk = compile_kernel(whole, 'transposed<8>')\n"
    code += "compile_kernel(part, f'transposed<{4 * 8}>')"
    (source,) = texts([cell(code)], "n.ipynb")
    assert sorted(source.instances) == ["transposed<32>", "transposed<8>"]


def test_no_kernel_of_a_lesson_is_overlooked():
    """Every kernel that a code cell or a solution writes down is in one of the texts."""
    from tests.nvcc.sources import NOTEBOOKS

    for path in NOTEBOOKS:
        ours = [s for s in COURSE if s.file.endswith(path.name) or s.file.startswith("kernels/")]
        collected = {name for s in ours for name in cxx.kernels(s.text)}
        for c in json.loads(path.read_text())["cells"]:
            text = "".join(c["source"])
            fenced = "```python" in text and "__global__" in text
            if (c["cell_type"] == "code" or fenced) and "does-not-compile" not in c["metadata"].get("tags", ()):
                assert set(cxx.kernels(text)) <= collected, f"{path.name}, {c['id']}"
