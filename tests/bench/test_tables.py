"""The benchmark's tables: rates and ratios, where they are filled in, and what the pages say of recorded figures."""

import json
import re
import shutil
from itertools import pairwise

import pytest
import torch

from bench import measuring, operations, tables
from tests.bench.setting import GPU, made_up, on_a_gpu, run
from utils.lesson import figures
from utils.lesson.timing import format_seconds

pytestmark = pytest.mark.usefixtures("on_the_engine")


def square_products(size, roof=None, **seconds):
    counts = {"bytes": 12 * size**2, "flops": 2 * size**3}
    return {"size": size, "rows": [made_up(name, took, **counts) for name, took in seconds.items()], "roof": roof}


def test_rates_and_ratios_of_one_size():
    rows = [made_up("copy", 0.002, bytes=8e9), made_up("slow", 0.04, bytes=4e9)]
    assert tables.table("bandwidth", GPU | {"bandwidth": {"size": 16384, "rows": rows}}).splitlines() == [
        "| 16,384 x 16,384 | time | GB/s | of the copy |",
        "|---|---|---|---|",
        "| copy | 2.00 ms (2.00 ms to 4.00 ms) | 4,000 | 1.00 |",
        "| slow | 40.0 ms (40.0 ms to 80.0 ms) | 100 | 0.025 |",
        "",
        "NVIDIA Fake, torch 9.9, CUDA 99.0. Median of 30 samples and, in brackets, the quartiles. "
        "GB/s counts what must be read and written.",
    ]


def test_sizes_of_matrices_are_written_out():
    part = {"size": [8192, 1024], "rows": [made_up("all", 0.5, bytes=1e9)]}
    assert tables.table("rows", GPU | {"rows": part}).startswith("| 8,192 x 1,024 | time | GB/s | of the copy |\n")
    parts = [part, part | {"size": [5, 7]}]
    columns = "| h x w | 8,192 x 1,024: GB/s | of the copy | 5 x 7: GB/s | of the copy |\n"
    assert tables.table("rows", GPU | {"rows": parts}).startswith(columns)


def test_a_row_that_only_one_size_has_leaves_a_cell_empty_at_the_others():
    seconds = {"copy": 1.0, "warps": 2.0, "any": 4.0}
    rows = [
        {"name": name, "bytes": 8e9, "seconds": s, "quartiles": [s, s], "samples": 30} for name, s in seconds.items()
    ]
    parts = [{"size": [9, 9], "rows": rows[::2]}, {"size": [9, 1], "rows": rows}]
    assert tables.table("rows", GPU | {"rows": parts}).splitlines()[2:5] == [
        "| copy | 8.00 | 1.00 | 8.00 | 1.00 |",
        "| warps |  |  | 4.00 | 0.50 |",
        "| any | 2.00 | 0.25 | 2.00 | 0.25 |",
    ]


def test_two_sizes_stand_side_by_side_below_the_roof():
    roof = {"peak": 10e12, "peak_is": "so many lanes", "copied": 6e9}  # memory limits 500 cubed to 500 / 6 * 6e9
    parts = [square_products(500, roof, at=0.001, ours=0.002), square_products(20_000, roof, at=2.0, ours=8.0)]
    parts[1]["rows"][1] |= {"samples": 5}
    assert tables.table("matmul", GPU | {"matmul": parts}).splitlines() == [
        "| n x n @ n x n | n = 500: TFLOP/s | of `@` | of the roof | n = 20,000: TFLOP/s | of `@` | of the roof |",
        "|---|---|---|---|---|---|---|",
        "| at | 0.250 | 1.00 | 0.50 | 8.00 | 1.00 | 0.80 |",
        "| ours | 0.125 | 0.50 | 0.25 | 2.00 | 0.25 | 0.20 |",
        "",
        "NVIDIA Fake, torch 9.9, CUDA 99.0. Median of 5 to 30 samples. TFLOP/s counts 2 n³ operations, in float32 "
        "without TF32. Half of the samples of each row lie within 100.0 % of its median. The roof "
        "is the lower of two: 10.0 TFLOP/s (so many lanes), and 83 and 3,333 FLOP per byte x 6 GB/s, "
        "as a copy reached in the same run.",
    ]


def test_without_a_roof_there_is_no_column_of_it():
    text = tables.table("matmul", {"device": "CPU", "torch": "9.9", "matmul": [square_products(100, at=0.002)]})
    assert text.startswith("| 100 x 100 @ 100 x 100 | time | TFLOP/s | of `@` |\n")
    assert "| 0.00100 | 1.00 |" in text and "roof" not in text and "Median of 30" in text


def test_an_unknown_roof_is_said_to_be_one():
    parts = [square_products(100, {"unknown": "nobody knows"}, at=0.002)]
    text = tables.table("matmul", GPU | {"matmul": parts})
    assert "of the roof" not in text and text.endswith(" The roof is not known: nobody knows.")


def test_each_group_has_the_versions_it_was_measured_with():
    found = {"device": "NVIDIA Fake", "torch": "9.8"}  # what a file of before had at its top
    parts = [square_products(size, at=0.002) | {"versions": {"torch": "9.9", "cuda": "99.0"}} for size in (10, 20)]
    rows = [made_up("copy", 0.002, bytes=8e9)]
    found |= {"matmul": parts, "bandwidth": {"size": 5, "rows": rows}}
    assert "NVIDIA Fake, torch 9.9, CUDA 99.0. " in tables.table("matmul", found)
    assert "NVIDIA Fake, torch 9.8. " in tables.table("bandwidth", found)


def test_a_terminal_gets_straight_columns_and_a_foot_of_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    rows = [made_up("copy", 0.002, bytes=8e9), made_up("slow", 0.04, bytes=4e9)]
    found = GPU | {"bandwidth": {"size": 16384, "rows": rows}}
    lines, _, foot = tables.table("bandwidth", found, aligned=True).partition("\n\n")
    assert lines.splitlines() == [
        "| 16,384 x 16,384 |                         time |  GB/s | of the copy |",
        "|-----------------|------------------------------|-------|-------------|",
        "| copy            | 2.00 ms (2.00 ms to 4.00 ms) | 4,000 |        1.00 |",
        "| slow            | 40.0 ms (40.0 ms to 80.0 ms) |   100 |       0.025 |",
    ]
    assert max(map(len, foot.splitlines())) <= 60
    assert foot.replace("\n", " ") == tables.table("bandwidth", found).splitlines()[-1]


def test_the_foot_says_what_a_graph_launched():
    rows = [made_up("sum", 0.02, bytes=4e9), made_up("short", 1e-5, bytes=4e4, graph=True)]
    text = tables.table("narrow", GPU | {"narrow": {"size": 50_000, "rows": rows}})
    assert text.startswith("| 50,000 x 784 @ 784 x 10 | time | GB/s | of `m.sum()` |\n")
    rule = (
        "What takes less than 200 µs was launched by a CUDA graph, since the time of a launch from Python would show."
    )
    assert text.endswith(rule)
    rows.append(made_up("PyTorch, `m @ n`", 0.01, bytes=1e9))
    assert " | 200 | 1.00 | 2.00 |\n" in tables.table("narrow", GPU | {"narrow": {"size": 50_000, "rows": rows}})


# ---- filling --------------------------------------------------------------------------------------------------------

ROOT = tables.ROOT
PAGES = [path for path in (ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb"))]
PAGES = [path for path in PAGES if "<!-- bench:" in path.read_text()]
DEVICE = re.search(r"<!-- bench:[^>]*-->.*?\n\n(.+?), torch ", (ROOT / "README.md").read_text(), re.DOTALL)[1]
FILE = figures.file_of(DEVICE)  # `make bench` fills the pages from the file of its GPU
RECORDED = json.loads(FILE.read_text())
H200 = figures.benchmark("H200")  # what the lessons' words are about


def test_files_without_markers_stay_as_they_are(tmp_path):
    text = json.dumps({"cells": [{"source": "| no table |"}]}, indent=3)
    (tmp_path / "notebooks" / "01.ipynb").write_text(text)
    assert tables.fill(RECORDED) == []
    assert (tmp_path / "notebooks" / "01.ipynb").read_text() == text


def test_markers_without_figures_stay_as_they_are(tmp_path):
    text = "<!-- bench:narrow -->\nnothing yet\n<!-- /bench:narrow -->\n"
    (tmp_path / "README.md").write_text(text)
    assert tables.fill({key: RECORDED[key] for key in RECORDED if key != "narrow"}) == []
    assert (tmp_path / "README.md").read_text() == text


def test_the_recorded_figures_are_those_of_the_pages(monkeypatch, tmp_path, capsys):
    assert ROOT / "README.md" in PAGES
    shutil.copy(FILE, tmp_path / "bench" / "recorded")
    for path in PAGES:
        copy = tmp_path / path.relative_to(ROOT)
        copy.write_text(re.sub(r"\| (?:copy: PyTorch|reading m).*?\|(?=\n|\\n)", "| gone |", path.read_text()))
        assert copy.read_text() != path.read_text()
    assert run(monkeypatch, "--fill", FILE.name) == 0
    for path in PAGES:
        assert (tmp_path / path.relative_to(ROOT)).read_text() == path.read_text(), path.name
    named = re.findall(rf"(\S+\.ipynb) prints figures of {FILE.name}", capsys.readouterr().out)
    asking = [path for path in PAGES[1:] if 'benchmark(\\"H200\\")' in path.read_text()]
    assert named == sorted(str(path.relative_to(ROOT)) for path in asking)


def test_another_gpu_fills_its_own_tables(fake_gpu, monkeypatch, tmp_path, capsys):
    """A T4's figures get a file of their own and a name below each table; those of the H200 stay as they are."""
    folder = tmp_path / "bench" / "recorded"
    (folder / "h200.json").write_text(before := json.dumps(H200))
    on_a_gpu(monkeypatch, total_memory=16e9)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    part = {"size": 1, "versions": {"torch": "9.9"}, "rows": [made_up("copy", 0.5, bytes=4)]}
    monkeypatch.setattr(measuring, "measured", lambda group, size, of: part)
    (tmp_path / "README.md").write_text("<!-- bench:bandwidth -->\n<!-- /bench:bandwidth -->\n")
    assert run(monkeypatch, "--only", "bandwidth") == 0
    found = json.loads((folder / "t4.json").read_text())
    assert found["device"] == "Tesla T4" and (folder / "h200.json").read_text() == before
    page = (tmp_path / "README.md").read_text()
    assert "\nTesla T4, torch 9.9. " in page and "H200" not in page
    (tmp_path / "README.md").write_text("<!-- bench:bandwidth -->\n<!-- /bench:bandwidth -->\n")
    assert run(monkeypatch, "--fill", "t4.json") == 0  # the same, from the file
    assert (tmp_path / "README.md").read_text() == page and "filled in README.md" in capsys.readouterr().out


def test_what_the_pages_say_of_the_recorded_figures_holds():
    """Lesson 11 puts into words what its tables show; another recording may ask for other words."""
    for size in tables.parts_of(H200["matmul"]):
        rates = {row["name"]: row["flops"] / row["seconds"] for row in size["rows"]}
        assert max(rates, key=rates.get).endswith("`matmul_fast`")  # ahead of the library's
    reading, *_, narrow = (row["bytes"] / row["seconds"] for row in H200["narrow"]["rows"])
    assert narrow > 0.9 * reading
    lessons = H200["lessons"]
    ladder = lessons["ladder"]
    *rungs, library = ladder.values()  # of lesson 11: every rung gains, but the last
    gains = [later / earlier for earlier, later in pairwise(rungs)]
    assert min(gains[:-1]) > 1 and 0.99 < gains[-1] < 1.01 and rungs[-1] > 6 * ladder["naive"]
    wide, padded, apart = (ladder[name] for name in ("16-byte reads", "padded rows", "no conflicts"))
    assert padded - wide < 0.2 * (apart - wide)  # "nearly all of it from the reads"
    assert 0.62 < rungs[-1] / library < 0.72 and ladder["column"] > 1.85 * ladder["tile"]
    tensor_cores = lessons["number formats"]  # the README's words
    peak = tables.parts_of(H200["matmul"])[0]["roof"]["peak"] / 1e12
    assert 5 < tensor_cores["TF32"] / peak < 6 and 9.5 < tensor_cores["bfloat16"] / peak < 10.5
    counters = lessons["loop counter"]  # of lesson 06: "nearly doubles"
    assert 1.7 < counters["size_t"] / counters["int"] < 2


def test_what_lesson_12_says_of_its_figures_holds():
    lessons = H200["lessons"]
    warp, at_once, in_flight, large, _ = lessons["copies in flight"].values()
    assert 0 < at_once - warp < in_flight - at_once  # "the flight brings most"
    assert in_flight < large < 1.05 * in_flight  # "so little"
    *gaps, library = lessons["no gaps"].values()
    gains = [after / before for before, after in pairwise(gaps)]
    assert min(gains) > 1 and gains[1] == min(gains)  # "each pays, the copies least"
    assert gaps[-2] < library < gaps[-1]
    sides = {side: speeds["64 x 128"] > speeds["128 x 256"] for side, speeds in lessons["two tiles"].items()}
    assert [side for side, small in sides.items() if small] == ["512", "1024", "1536", "3072"]
    reading, library, *steps = lessons["steps of a narrow product"].values()
    assert steps == sorted(steps, reverse=True) and steps[-1] < 1.15 * reading and steps[-1] < library


def test_what_lesson_09_says_of_each_transpose_holds():
    took = {row["name"]: row["seconds"] for row in H200["bandwidth"]["rows"]}
    copied = took["copy: PyTorch, `out.copy_(x)`"]
    assert copied / took["transpose: fast"] > 0.95
    if "transpose: rows" not in took:
        pytest.skip("`make bench` has not timed these kernels yet")
    naive, tiled, padded, swizzled, *rest = (took[f"transpose: {way}"] for way in operations.TRANSPOSES)
    rows, wide, large, registers, fast = rest
    assert naive > tiled > 3 * copied and padded < tiled / 1.5 and 0.97 < padded / swizzled < 1.03
    assert 1.8 < swizzled / rows < 2.2 and 1.01 < rows / wide < 1.2 and wide > 1.05 * large
    assert 0.98 < large / registers < 1.02 and 1.01 < registers / fast < 1.1


def test_figures_that_stand_in_the_text_are_the_recorded_ones():
    def text(lesson):
        (path,) = (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
        return "".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])

    took = {row["name"]: format_seconds(row["seconds"]) for row in H200["bandwidth"]["rows"]}
    ours = "grayscale: 1 byte per thread"
    words = f"{took['grayscale: torchvision']} for torchvision, {took[ours]} for our kernel"
    assert f"{words}, and {took[ours + ', blocks of 16 x 16']} with blocks of 16 x 16" in text("03")


def test_what_lesson_16_says_of_kernels_alone_holds():
    softmaxes = H200["lessons"]["softmax curves"]
    copied = max(row["bytes"] / row["seconds"] / 1e9 for row in H200["bandwidth"]["rows"] if "copy" in row["name"])
    assert all(max(rates) < 1.03 * copied for way, rates in softmaxes.items() if way != "w")
    large, *_ = tables.parts_of(H200["matmul"])
    rates = {row["name"].split(", ")[-1]: row["flops"] / row["seconds"] for row in large["rows"]}
    assert rates["`matmul`"] < rates["`tl.dot`"] < rates["`matmul_fast`"]


def test_what_lesson_16_says_of_launches_holds():
    squares = H200["lessons"]["square curves"]
    if not squares["h"]:
        pytest.skip("no GPU has measured them yet: `make outputs LESSON=16`")
    for way, seconds in squares.items():
        if way != "h":
            assert max(seconds[:3]) < 2 * min(seconds[:3]) and seconds[-1] > 3 * seconds[-2], way  # flat, then a slope
    by_python, by_cpp = (squares[f"CUDA C++, launched by {language}"] for language in ("Python", "C++"))
    assert by_python[0] > 1.3 * by_cpp[0] and 0.97 < by_python[-1] / by_cpp[-1] < 1.03
