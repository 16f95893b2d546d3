"""utils/bench.py on the CPU engine: what it computes from times, what it refuses to time, and what it fills."""

import json
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import kernels
import utils.compile
import utils.kernel
from utils import bench

ROOT = bench.ROOT
TINY = {"bandwidth": 37, "matmul": 20, "narrow": 33}
GPU = {"device": "NVIDIA Fake", "torch": "9.9", "cuda": "99.0"}


@pytest.fixture(autouse=True)
def on_the_engine(monkeypatch, tmp_path):
    """The CPU engine also where there is a GPU, tiny sizes, and a folder of the test's own for what is written."""
    cpu = torch.device("cpu")
    for module in (utils.compile, utils.kernel, bench):
        monkeypatch.setattr(module, "device", lambda: cpu)
    monkeypatch.setattr(kernels, "load", kernels.load.__wrapped__)  # it remembers modules of the other device
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "bench")
    (tmp_path / "bench").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "README.md").write_text("no tables here\n")
    for name, size in TINY.items():
        monkeypatch.setitem(bench.GROUPS, name, bench.GROUPS[name]._replace(sizes=lambda size=size: [size]))


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    return bench.main()


def figures(name, seconds, samples=30, **counts):
    return {"name": name, "seconds": seconds, "quartiles": [seconds, 2 * seconds], "samples": samples} | counts


def square_products(size, roof=None, **seconds):
    counts = {"bytes": 12 * size**2, "flops": 2 * size**3}
    return {"size": size, "rows": [figures(name, took, **counts) for name, took in seconds.items()], "roof": roof}


# ---- tables ---------------------------------------------------------------------------------------------------------


def test_rates_and_ratios_of_one_size():
    rows = [figures("copy", 0.002, bytes=8e9), figures("slow", 0.04, bytes=4e9)]
    assert bench.table("bandwidth", GPU | {"bandwidth": {"size": 16384, "rows": rows}}).splitlines() == [
        "| 16,384 x 16,384 | time | GB/s | of the copy |",
        "|---|---|---|---|",
        "| copy | 2.00 ms (2.00 ms to 4.00 ms) | 4,000 | 1.00 |",
        "| slow | 40.0 ms (40.0 ms to 80.0 ms) | 100 | 0.03 |",
        "",
        "NVIDIA Fake, torch 9.9, CUDA 99.0. Median of 30 samples and, in brackets, the quartiles. "
        "GB/s counts what must be read and written.",
    ]


def test_two_sizes_stand_side_by_side_below_the_roof():
    roof = {"peak": 10e12, "peak_is": "so many lanes", "copied": 6e9}  # memory limits 500 cubed to 500 / 6 * 6e9
    parts = [square_products(500, roof, at=0.001, ours=0.002), square_products(20_000, roof, at=2.0, ours=8.0)]
    parts[1]["rows"][1] |= {"samples": 5}
    assert bench.table("matmul", GPU | {"matmul": parts}).splitlines() == [
        "| n x n @ n x n | n = 500: TFLOP/s | of `@` | of the roof | n = 20,000: TFLOP/s | of `@` | of the roof |",
        "|---|---|---|---|---|---|---|",
        "| at | 0.250 | 1.00 | 0.50 | 8.00 | 1.00 | 0.80 |",
        "| ours | 0.125 | 0.50 | 0.25 | 2.00 | 0.25 | 0.20 |",
        "",
        "NVIDIA Fake, torch 9.9, CUDA 99.0. Median of 5 to 30 samples. TFLOP/s counts 2 n³ operations, in float32 "
        "without TF32. The roof is the lower of two: 10.0 TFLOP/s (so many lanes), and 83 and 3,333 FLOP a byte x "
        "6 GB/s, as a copy had in the same run.",
    ]


def test_without_a_roof_there_is_no_column_of_it():
    table = bench.table("matmul", {"device": "CPU", "torch": "9.9", "matmul": [square_products(100, at=0.002)]})
    assert table.startswith("| 100 x 100 @ 100 x 100 | time | TFLOP/s | of `@` |\n")
    assert "| 0.00100 | 1.00 |" in table and "roof" not in table and "Best of 30" in table


def test_the_foot_tells_what_a_graph_launched():
    rows = [figures("sum", 0.02, bytes=4e9), figures("short", 1e-5, bytes=4e4, graph=True)]
    table = bench.table("narrow", GPU | {"narrow": {"size": 50_000, "rows": rows}})
    assert table.startswith("| 50,000 x 784 @ 784 x 10 | time | GB/s | of `m.sum()` |")
    rule = "What takes less than 200 µs was launched by a CUDA graph"
    assert table.endswith(f"{rule}, as a launch from Python would show.")
    rows.append(figures("stubborn", 2e-5, bytes=4e4))
    assert f"{rule} (but for stubborn)" in bench.table("narrow", GPU | {"narrow": {"size": 50_000, "rows": rows}})


def test_the_roof_is_that_of_the_device(monkeypatch):
    gpu = SimpleNamespace(major=9, minor=0, multi_processor_count=10, clock_rate=2_000_000, uuid="1-2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    monkeypatch.setattr(bench, "row", lambda operation: {"bytes": 8e9, "seconds": 0.002, "name": operation.name})
    words = "10 SMs x 128 lanes x 2 x 2,000 MHz, the highest clock by torch"
    assert bench.roof() == {"peak": 5.12e12, "peak_is": words, "copied": 4e12}
    gpu.minor = 9
    assert bench.roof() is None, "nobody knows its lanes"


def test_where_torch_has_no_clock_nvidia_smi_is_asked(monkeypatch):
    asked = []

    def answer(command, **_):
        asked.append(command)
        return SimpleNamespace(stdout="1980\n")

    monkeypatch.setattr(subprocess, "run", answer)
    assert bench.max_clock(SimpleNamespace(uuid="1-2")) == (1.98e9, "nvidia-smi") and "--id=GPU-1-2" in asked[0]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="[N/A]\n"))
    assert bench.max_clock(SimpleNamespace(uuid="1-2")) == (0.0, "")


# ---- measuring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", TINY)
def test_a_group_alone_is_measured_and_kept_nowhere(monkeypatch, tmp_path, capsys, group):
    before = sorted(tmp_path.rglob("*"))
    assert run(monkeypatch, "--only", group) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{group}, on the CPU engine\n\n| {TINY[group]} x ") and "kept nowhere" in out
    assert "samples and, in brackets" in out and "CUDA" not in out
    assert sorted(tmp_path.rglob("*")) == before


def test_every_function_of_the_kernels_is_measured(monkeypatch):
    called = set()

    class Recorded:
        def __init__(self, name, load=kernels.load):
            self._module = load(name)

        def __getattr__(self, function):
            def call(*arguments):
                called.add(function)
                return getattr(self._module, function)(*arguments)

            return call

    monkeypatch.setattr(kernels, "load", Recorded)
    for group, size in TINY.items():
        names = [row["name"] for row in bench.measured(group, size)["rows"]]
        assert len(names) == len(set(names))
    assert called == {function for name in kernels.names() for function in kernels.functions(name)}


@pytest.mark.parametrize("group", TINY)
def test_no_operation_passes_with_a_wrong_result(group):
    for operation in bench.GROUPS[group].operations(TINY[group]):
        inputs = operation.inputs()
        bench.check(operation, inputs)
        memory = operation.run(*inputs).clone()

        def wrong(*inputs, right=operation.run):
            out = right(*inputs).clone()
            out.view(-1)[-1] += 2  # the last element alone
            return out

        for spoiled in (wrong, lambda *_, memory=memory: memory):  # the second writes nothing
            with pytest.raises(bench.WrongResult, match=re.escape(operation.name)):
                bench.check(operation._replace(run=spoiled), inputs)


def test_a_result_of_too_few_rows_is_wrong(monkeypatch):
    monkeypatch.setattr(bench, "ROWS", 10)
    (copy, *_) = bench.bandwidth(37)
    for rows in (0, 5, 10, 36):
        with pytest.raises(bench.WrongResult, match="elements"):
            bench.check(copy._replace(run=lambda x, rows=rows: x[:rows].clone()), copy.inputs())


def test_a_product_with_tf32_is_wrong():
    operation = bench.product("`@`", torch.matmul, 64, 256, 64)

    def tf32(x):
        return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    bench.check(operation, operation.inputs())
    with pytest.raises(bench.WrongResult):
        bench.check(operation._replace(run=lambda m, n: tf32(m) @ tf32(n)), operation.inputs())


@pytest.mark.parametrize("group", TINY)
@pytest.mark.parametrize("at_first", ["wrong", "right"])
def test_no_figure_of_a_wrong_result(monkeypatch, capsys, group, at_first):
    """Wrong at once, and wrong on the inputs that come after the times were taken."""
    (operation, *_) = bench.GROUPS[group].operations(TINY[group])
    first = operation.inputs()

    def runs(*inputs):
        expected = operation.run(*inputs)
        return expected if at_first == "right" and inputs[0] is first[0] else expected + 2

    made = iter([first])
    spoiled = operation._replace(run=runs, inputs=lambda: next(made, operation.inputs()))
    monkeypatch.setitem(bench.GROUPS, group, bench.GROUPS[group]._replace(operations=lambda _: [spoiled]))
    assert run(monkeypatch, "--only", group) == 1
    out, err = capsys.readouterr()
    assert "|" not in out and err.startswith(f"No time is told of a wrong result: {operation.name} is wrong by up to ")


def test_products_are_measured_in_full_float32_and_the_setting_comes_back(monkeypatch):
    seen = []

    def state():
        return torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()

    before = state()
    try:
        torch.set_float32_matmul_precision("medium")
        looking = bench.product("`@`", lambda m, n: seen.append(state()) or m @ n, 5, 5, 5)
        monkeypatch.setitem(bench.GROUPS, "matmul", bench.GROUPS["matmul"]._replace(operations=lambda _: [looking]))
        bench.measured("matmul", 5)
        assert set(seen) == {(False, "highest")} and state() == (True, "medium")
    finally:
        torch.set_float32_matmul_precision(before[1])


def on_a_gpu(monkeypatch, **properties):
    """Let the bench believe that there is a GPU; its tensors stay on the CPU."""
    monkeypatch.setattr(bench, "device", lambda: SimpleNamespace(type="cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties))


def test_small_inputs_are_many_so_that_the_cache_cannot_hold_them(monkeypatch):
    operation = bench.product("`@`", torch.matmul, 10, 10, 10)._replace(
        inputs=lambda: (torch.zeros(100), torch.zeros(100))  # 800 bytes
    )
    for cache, sets in ((1, 2), (400, 2), (401, 3), (2000, 10)):
        on_a_gpu(monkeypatch, L2_cache_size=cache)
        assert len(bench.input_sets(operation)) == sets


def test_launches_take_the_inputs_by_turns(monkeypatch):
    on_a_gpu(monkeypatch)
    used, graphs = [], []
    operation = bench.product("`@`", lambda m, n: used.append(m) or m, 1, 1, 1)

    def captured(launches):
        graphs.append(launches)
        return launches

    monkeypatch.setattr(bench, "captured", captured)
    timing, graph = bench.timed(operation, [(i, i) for i in range(3)])
    assert used == [i % 3 for i in range(len(used))] and graph and len(graphs) == 1
    assert len(used) == 1 + 3 + 21 * (1 + bench.SAMPLES)  # at least 20, and as many of each
    assert len(timing.samples) == bench.SAMPLES and timing.device == "cuda"
    used.clear()
    monkeypatch.setattr(bench, "SHORT", 0)
    timing, graph = bench.timed(operation, [(i, i) for i in range(3)])
    assert len(used) == 1 + 3 + 6 * (1 + bench.SAMPLES) and not graph and len(graphs) == 1


def test_long_operations_are_launched_less_often(monkeypatch):
    on_a_gpu(monkeypatch)
    for name, value in (("LONG", 0), ("SHORT", 0), ("BUDGET", 0)):
        monkeypatch.setattr(bench, name, value)
    used = []
    timing, _ = bench.timed(bench.product("`@`", lambda m, n: used.append(m) or m, 1, 1, 1), [(0, 0), (1, 1)])
    assert len(timing.samples) == 5 and len(used) == 3 + 6


def test_tritons_product_is_right():
    """Its interpreter runs it here; a GPU also tries which tiles are the fastest."""
    pytest.importorskip("triton")
    program = """if True:
        import torch
        from bench.triton_matmul import TILES, product_kernel
        from utils import bench
        for h, k, w in ((70, 45, 130), (64, 64, 64), (1, 1, 1)):
            for bh, bw, bk, _ in TILES:
                def run(m, n):
                    out = torch.empty(h, w)
                    product_kernel.fn[(-(-h // bh) * -(-w // bw),)](m, n, out, h, w, k, BH=bh, BW=bw, BK=bk)
                    return out
                operation = bench.product("Triton", run, h, k, w)
                bench.check(operation, operation.inputs())
    """
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True)


# ---- filling --------------------------------------------------------------------------------------------------------

RECORDED = json.loads((ROOT / "bench" / "h200.json").read_text())


def test_files_without_markers_stay_as_they_are(tmp_path):
    text = json.dumps({"cells": [{"source": "| no table |"}]}, indent=3)
    (tmp_path / "notebooks" / "01.ipynb").write_text(text)
    assert bench.fill(RECORDED) == []
    assert (tmp_path / "notebooks" / "01.ipynb").read_text() == text


def test_markers_without_figures_stay_as_they_are(tmp_path):
    text = "<!-- bench:narrow -->\nnothing yet\n<!-- /bench:narrow -->\n"
    (tmp_path / "README.md").write_text(text)
    assert bench.fill({key: RECORDED[key] for key in RECORDED if key != "narrow"}) == []
    assert (tmp_path / "README.md").read_text() == text


def test_the_recorded_figures_are_those_of_the_pages(monkeypatch, tmp_path, capsys):
    pages = [path for path in (ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb"))]
    pages = [path for path in pages if "<!-- bench:" in path.read_text()]
    assert ROOT / "README.md" in pages
    shutil.copy(ROOT / "bench" / "h200.json", tmp_path / "bench")
    for path in pages:
        copy = tmp_path / path.relative_to(ROOT)
        copy.write_text(re.sub(r"\| (?:copy: PyTorch|reading m).*?\|(?=\n|\\n)", "| gone |", path.read_text()))
        assert copy.read_text() != path.read_text()
    assert run(monkeypatch, "--fill", "h200.json") == 0
    for path in pages:
        assert (tmp_path / path.relative_to(ROOT)).read_text() == path.read_text(), path.name
    told = re.findall(r"(\d+)_\w+\.ipynb prints figures of h200\.json", capsys.readouterr().out)
    assert told == ["10"]  # of the lessons that were copied; lesson 09 has no table


def test_what_the_pages_say_of_the_recorded_figures_holds():
    """Lesson 10 puts into words what its tables show; another recording may ask for other words."""
    for size in RECORDED["matmul"]:
        rates = {row["name"]: row["flops"] / row["seconds"] for row in size["rows"]}
        assert max(rates, key=rates.get).endswith("`matmul_fast`")  # ahead of the library's
    reading, *_, narrow = (row["bytes"] / row["seconds"] for row in RECORDED["narrow"]["rows"])
    assert narrow > 0.9 * reading
    lessons = RECORDED["lessons"]
    orders, tiles, ladder = (lessons[name] for name in ("orders of products", "tiles", "ladder"))
    as_it_is, _, _, down, _ = orders.values()
    assert sorted(orders.values())[-1] == as_it_is and 0.85 * as_it_is < down < 0.92 * as_it_is
    names, rates = list(tiles), list(tiles.values())
    assert min(rates[-2:]) > max(0.99 * max(rates), *rates[:-2]) and min(tiles, key=tiles.get) == names[0]
    assert rates[-3] < 0.97 * rates[-1]
    *steps, library = ladder.values()
    assert steps == sorted(steps) and steps[-2] < library < steps[-1]
    pieces, _ = lessons["pieces of a narrow product"]
    short, long = pieces.values()
    assert all(long[rows] < short[rows] for rows in long) and min(long, key=long.get) == "6 rows"


# ---- figures of lessons ---------------------------------------------------------------------------------------------


@pytest.fixture
def fake_gpu(monkeypatch):
    on_a_gpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: GPU["device"])


def test_what_a_lesson_measures_on_a_gpu_is_kept_if_outputs_are_made(fake_gpu, monkeypatch, tmp_path):
    file = tmp_path / "bench" / "fake.json"
    monkeypatch.delenv("COURSE_RECORD", raising=False)
    assert bench.recorded("curve", lambda: {"a": [1, 2.5]}) == ({"a": [1, 2.5]}, "NVIDIA Fake")
    assert not file.exists()
    file.write_text(json.dumps(GPU | {"narrow": 7, "lessons": {"curve": 0, "other": 3}}))
    monkeypatch.setenv("COURSE_RECORD", "1")
    assert bench.recorded("curve", lambda: {"a": [1, 2.5]}) == ({"a": [1, 2.5]}, "NVIDIA Fake")
    assert json.loads(file.read_text()) == GPU | {"narrow": 7, "lessons": {"curve": {"a": [1, 2.5]}, "other": 3}}


def test_without_a_gpu_a_lesson_gets_what_a_gpu_measured(tmp_path):
    def never():
        raise AssertionError("it should not measure")

    with pytest.raises(LookupError, match="no GPU has measured 'curve' yet"):
        bench.recorded("curve", never)
    (tmp_path / "bench" / "a.json").write_text(json.dumps(GPU | {"device": "another"}))
    (tmp_path / "bench" / "b.json").write_text(json.dumps(GPU | {"lessons": {"curve": [3, 4]}}))
    assert bench.recorded("curve", never) == ([3, 4], "NVIDIA Fake")


def test_a_group_that_fails_does_not_take_the_figures_of_another(fake_gpu, monkeypatch, tmp_path):
    def measured(group, size):
        if group == "matmul":
            raise bench.WrongResult("it is wrong by up to 3")
        return {"size": size, "rows": [figures("all", 0.5, bytes=4)]}

    monkeypatch.setattr(bench, "where", lambda: dict(GPU))
    monkeypatch.setattr(bench, "measured", measured)
    assert run(monkeypatch) == 1
    kept = json.loads((tmp_path / "bench" / "fake.json").read_text())
    assert kept["bandwidth"]["rows"][0]["name"] == "all" and "matmul" not in kept
