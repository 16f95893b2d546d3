"""The ladder of lessons 11 and 12: costs from a trace, what they leave of the peak, and the picture."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch

from utils.lesson import ladder


class Launches:
    """A kernel whose launch does `work(m, n, out)`, and which notes the grids."""

    def __init__(self, work):
        self.work, self.grids = work, []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda m, n, out, h, w, k: self.work(m, n, out)


def multiply(m, n, out):
    out.copy_(m @ n)


def test_a_right_product_passes_and_a_wrong_one_does_not():
    kernel = Launches(multiply)
    ladder.assert_right(kernel, lambda h, w: (h, w))
    assert kernel.grids == [(h, w) for h, _, w in ladder.SIZES]
    for wrong in (lambda m, n, out: None, lambda m, n, out: out.copy_(2 * m @ n)):
        with pytest.raises(AssertionError):
            ladder.assert_right(Launches(wrong), lambda h, w: (h, w))


def trace(*rows):
    columns = ["space", "op", "source", "requests", "sectors", "wavefronts"]
    return SimpleNamespace(requests=pd.DataFrame(rows, columns=columns))


def test_costs_are_counted_per_fma_of_a_warp():
    found = trace(
        ("global", "load", "x", 10, 80, 0),  # 80 sectors are 20 passes of 128 bytes
        ("global", "store", "y", 6, 8, 0),
        ("shared", "load", "s", 40, 0, 60),
        ("shared", "store", "s", 8, 0, 16),
    )
    assert ladder.costs(found, 32, 10, 10) == (64 / 100, (60 + 16 + 22) / 100)


def test_a_request_with_few_sectors_is_a_pass_all_the_same():
    assert ladder.costs(trace(("global", "load", "x", 50, 50, 0)), 32, 10, 10) == (0.5, 0.5)


def test_an_asynchronous_copy_is_one_read_and_costs_the_passes_of_its_store():
    copy = "__pipeline_memcpy_async(to, from, 4)"
    found = trace(("global", "load", copy, 10, 320, 0), ("shared", "store", copy, 10, 0, 40))
    assert ladder.costs(found, 32, 10, 10) == (0.1, 0.4)


@pytest.mark.parametrize("reads, passes, share", [(1, 0.25, 1 / 2), (2, 2, 1 / 8), (0, 0.1, 1), (0.25, 0.25, 0.8)])
def test_what_is_left_of_the_peak(reads, passes, share):
    assert ladder.share_of_peak(reads, passes) == share


def test_how_fast_a_kernel_runs(monkeypatch):
    monkeypatch.setattr(ladder, "measure", lambda f, *arguments: SimpleNamespace(seconds=f(*arguments) or 0.5))
    m, n = torch.rand(3, 5), torch.rand(5, 7)
    assert ladder.tflops(Launches(multiply), lambda h, w: (h, w), m, n, torch.empty(3, 7)) == 2 * 3 * 5 * 7 / 0.5 / 1e12


@pytest.mark.parametrize("gpus", [["NVIDIA H200"], ["NVIDIA H200", "Tesla T4"]])
def test_the_picture_names_every_gpu(gpus):
    speeds = {gpu: {"tile": 8.7, "square": 23.8, "@": 51.4} for gpu in gpus}
    ladder.show_ladder(speeds, {"tile": 7.8, "square": 18.5}, 66.9)
    (ax,) = plt.gcf().axes
    legend = [text.get_text() for text in plt.gcf().legends[0].get_texts()]
    assert all(f"measured, {gpu}" in legend for gpu in gpus) and "estimate, NVIDIA H200" in legend
    assert [label.get_text() for label in ax.get_yticklabels()] == ["tile", "square", "@"]
    assert "TFLOP/s" in ax.get_xlabel() and "square 23.8" in plt.gcf().get_label()
    plt.close("all")


def test_all_rungs_are_measured_and_compared_with_a_product_in_float64(monkeypatch):
    monkeypatch.setattr(ladder, "measure", lambda f, *arguments: SimpleNamespace(seconds=f(*arguments) is None or 0.5))
    monkeypatch.setattr(ladder, "device", lambda: torch.device("cpu"))
    rungs = {"ours": (Launches(multiply), lambda h, w: (h, w))}
    assert ladder.measure_rungs(rungs, 8) == {"ours": 2 * 8**3 / 1e12, "@": 2 * 8**3 / 0.5 / 1e12}
    with pytest.raises(AssertionError):
        ladder.measure_rungs({"nothing": (Launches(lambda m, n, out: None), lambda h, w: (h, w))}, 8)


def test_the_formats_of_a_product_are_measured_and_tf32_is_off_again(monkeypatch):
    used = []

    def measure(f, x, y):
        used.append((torch.backends.cuda.matmul.allow_tf32, x.dtype, y.dtype))
        return SimpleNamespace(seconds=1)

    monkeypatch.setattr(ladder, "measure", measure)
    monkeypatch.setattr(ladder, "device", lambda: torch.device("cpu"))
    assert list(ladder.measure_formats(8)) == ["float32", "TF32", "bfloat16"]
    half = torch.bfloat16
    assert used == [(False, torch.float32, torch.float32), (True, torch.float32, torch.float32), (False, half, half)]
    assert not torch.backends.cuda.matmul.allow_tf32


def test_the_passes_of_every_rung_were_counted():
    found = {rung: ladder.hardware_passes(rung) for rung in ladder.COUNTED}
    assert found["uncoalesced"] > 8 > 3 > found["naive"] > found["tile"] > found["column"] > found["warp tiles"] > 0.1


TWO_KERNELS = """template <int N>
__global__ void first_kernel(float* x) {
    int i = N;
    x[i] = 1.0f;
}

template <int N>
__global__ void second_kernel(float* x) {
    int i = N;
    x[i] = 2.0f;
}
"""


def test_the_lines_in_which_two_kernels_differ(capsys):
    ladder.changes(TWO_KERNELS, "first_kernel", "second_kernel")
    assert capsys.readouterr().out == "-    x[i] = 1.0f;\n+    x[i] = 2.0f;\n"
    assert ladder.kernel_of(TWO_KERNELS, "first_kernel") == TWO_KERNELS.split("\n\n")[0]


def test_the_picture_of_owners_has_a_panel_for_each_layout():
    rows = "rows", lambda lane: [lane], lambda lane: range(128)
    ladder.show_owners([rows, ("turned", lambda lane: range(128), lambda lane: [lane])])
    left, right = (ax.images[0].get_array() for ax in plt.gcf().axes)
    assert (
        [int(left[i, 5]) for i in (0, 1, 2, 31, 32)] == [0, 1, 2, 2, 3] == [int(right[5, i]) for i in (0, 1, 2, 31, 32)]
    )
    assert [ax.get_title() for ax in plt.gcf().axes] == ["rows", "turned"]
