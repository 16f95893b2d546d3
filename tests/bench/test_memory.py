"""bench/recorded/memory.py: what ncu prints is read, the kernels are lesson 08's, and the lesson's words hold."""

import json
from pathlib import Path

import pytest

import kernels
from bench.recorded import memory
from tests.notebooks.test_notebooks import code_cells, global_functions
from utils import compile_kernel

(LESSON,) = (Path(kernels.__file__).parents[1] / "notebooks").glob("08_*.ipynb")
RECORDED = json.loads(memory.RECORDING.read_text())["launches"]


def seconds(name):
    return RECORDED[name]["seconds"]


def dram(name):
    return RECORDED[name]["dram_bytes_read"]


def csv(unit="byte"):
    units = [unit if name.startswith("dram") else "" for name in memory.METRICS]
    rows = [
        ["ID", "Kernel Name", *memory.METRICS.values()],
        ["", "", *units],
        ["0", "strided", *["1,024"] * len(units)],
    ]
    return "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)


def test_a_raw_page_is_read():
    assert memory.counted(csv()) == [dict.fromkeys(memory.METRICS, 1024)]
    with pytest.raises(RuntimeError, match="units"):
        memory.counted(csv("Kbyte"))


def test_the_recording_is_of_these_launches():
    assert list(RECORDED) == list(memory.CASES)
    assert all(entry.keys() == {*memory.METRICS, "seconds"} for entry in RECORDED.values())


def test_the_kernels_are_those_of_the_lesson():
    shown = {name: text for cell in code_cells(LESSON) for name, text in global_functions(cell).items()}
    ours = global_functions(memory.SOURCE)
    assert list(ours) == ["strided", "copy", "copy_four"]
    for name, text in ours.items():
        assert text == shown[name], f"lesson 08 has another {name}"


def test_a_thread_of_copy_four_asks_for_all_before_it_stores():
    opcodes = [each.opcode.split(".")[0] for each in compile_kernel(memory.SOURCE, "copy_four").sass]
    assert [each for each in opcodes if each in ("LDG", "STG")] == ["LDG"] * 4 + ["STG"] * 4


def test_what_lesson_08_says_of_offsets_and_strides():
    l2 = RECORDED["copy float, offset 1"]["l2_load_sectors"] / RECORDED["copy float"]["l2_load_sectors"]
    assert round(l2, 2) == 1.03
    assert 1.8 < seconds("stride 16") / seconds("stride 8") < 2  # "nearly twice"
    rates = {f"stride {s}": (dram(f"stride {s}") + 4 * memory.READS) / seconds(f"stride {s}") for s in (1, 2, 4, 8, 16)}
    assert rates["stride 8"] == pytest.approx(rates["stride 16"], rel=0.01)
    assert min(rates["stride 8"], rates["stride 16"]) > 1.05 * rates["stride 4"]
    wide, narrow = "stride 32, fetching 128", "stride 32, fetching 32"
    assert dram(wide) == pytest.approx(2 * dram("stride 32"), rel=0.001)
    assert dram(narrow) == pytest.approx(dram("stride 32") / 2, rel=0.001)
    assert round(seconds(wide) / seconds("stride 32"), 1) == 1.7
    assert round(seconds(narrow) / seconds("stride 32"), 1) == 0.9


def test_what_lesson_08_says_of_wide_loads():
    assert seconds("copy four floats") == pytest.approx(seconds("copy float4"), rel=0.02)
    assert RECORDED["copy four floats"]["load_requests"] == 4 * RECORDED["copy float4"]["load_requests"]
    assert 2.9 < seconds("planes") / seconds("planes, 16 bytes") < 3.1
    moved = {"planes, 16 bytes": 4 * memory.SIDE**2, "copy float4": 2 * memory.BYTES}
    rates = {name: size / seconds(name) for name, size in moved.items()}
    assert rates["planes, 16 bytes"] >= rates["copy float4"]
