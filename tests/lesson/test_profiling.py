"""The timeline and the roofline are drawn from the right numbers."""

import json
import os

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.text import Text

import kernels
from tests.figures import clean, drawn  # noqa: F401  clean runs by itself
from utils import compile_kernel
from utils.lesson import plots
from utils.lesson.figures import nsight_counters
from utils.lesson.profiling import Bar, bars_of, counted, short, show_roofline, show_trace


def readable():
    """The axes of the one figure, after it has been drawn in full: no text in it is too small."""
    ax = drawn()
    found = [text for text in plt.gcf().findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in found if not text.get_text().startswith("$")) >= plots.TEXT
    return ax


# ---- the timeline ---------------------------------------------------------------------------------------------------

KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::F, Array<char*, 2ul> >(int)"
)


def event(name, ts, dur, cat="cpu_op", tid=11):
    return {"ph": "X", "name": name, "cat": cat, "pid": 0 if cat == "kernel" else 1, "tid": tid, "ts": ts, "dur": dur}


def trace(tmp_path, *events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1}, *events]}))
    return path


@pytest.fixture
def example(tmp_path):
    """Step 2: linear calls addmm on thread 11, mm runs on thread 12, and a kernel on stream 7."""
    return trace(
        tmp_path,
        event(KERNEL, 1300, 400, "kernel", 7),
        event("aten::addmm", 1100, 300),
        event("aten::linear", 1100, 500),
        event("ProfilerStep#2", 1000, 1000, "user_annotation"),
        event("aten::relu", 1600, 200),
        event("cudaLaunchKernel", 1150, 10, "cuda_runtime"),
        event("aten::mm", 1700, 100, tid=12),
        event("PyTorch Profiler (0)", 900, 5000, "Trace"),
        event("ProfilerStep#2", 1300, 400, "gpu_user_annotation", 7),
        event("nothing", 1800, 0),
    )


def test_bars_have_a_row_for_each_thread_and_stream_and_lanes_for_what_is_called(example):
    assert bars_of(example) == [
        Bar("thread 1", 0, "ProfilerStep#2", 0, 1000, True),
        Bar("thread 1", 1, "aten::linear", 100, 500, False),
        Bar("thread 1", 2, "aten::addmm", 100, 300, False),
        Bar("thread 1", 3, "cudaLaunchKernel", 150, 10, False),
        Bar("thread 1", 1, "aten::relu", 600, 200, False),
        Bar("thread 2", 0, "aten::mm", 700, 100, False),
        Bar("stream 7", 0, "vectorized_elementwise_kernel", 300, 400, False),
    ]


def test_the_timeline_shows_the_bars(example):
    assert show_trace(example) is None
    ax = readable()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["thread 1", "thread 2", "stream 7"]
    boxes = [path.get_extents() for drawn in ax.collections for path in drawn.get_paths()]
    assert len(boxes) == len(bars_of(example))
    spans = sorted((round(box.x0, 3), round(box.x1, 3)) for box in boxes)
    assert spans == sorted((bar.begin / 1e3, (bar.begin + bar.length) / 1e3) for bar in bars_of(example))
    assert {"ProfilerStep#2", "aten::linear", "aten::addmm"} <= {text.get_text() for text in ax.texts}
    (legend,) = plt.gcf().legends
    named = [text.get_text() for text in legend.get_texts()]
    assert named[:2] == ["aten::linear", "aten::addmm"] and "ProfilerStep#2" not in named
    assert named[-1] == "vectorized_elementwise_kernel"
    assert ax.get_xlim() == (0, 1.0)


def test_three_kernels_have_a_colour_however_long_the_operators_take(tmp_path):
    operators = [event(f"aten::op{i}", 1000 * i, 900 - i) for i in range(9)]
    launched = [event(f"kernel{i}", 1000 * i, 10 - i, "kernel", 7) for i in range(4)]
    show_trace(trace(tmp_path, *operators, *launched))
    (legend,) = plt.gcf().legends
    named = [text.get_text() for text in legend.get_texts()]
    assert named == [f"aten::op{i}" for i in range(5)] + [f"kernel{i}" for i in range(3)]


def test_few_operators_leave_their_colours_to_kernels(tmp_path):
    launched = [event(f"kernel{i}", 1000 * i, 10 - i, "kernel", 7) for i in range(7)]
    show_trace(trace(tmp_path, event("aten::op", 0, 900), *launched))
    (legend,) = plt.gcf().legends
    assert [text.get_text() for text in legend.get_texts()] == ["aten::op", *(f"kernel{i}" for i in range(7))]


def test_the_legend_is_no_wider_than_the_timeline(tmp_path):
    names = [f"sm80_xmma_gemm_f32f32_nt_n_tilesize32x128x8_stage3_execute_kernel_{i}" for i in range(8)]
    show_trace(trace(tmp_path, *(event(name, 10 * i, 9, "kernel", 7) for i, name in enumerate(names))))
    fig = plt.gcf()
    (legend,) = fig.legends
    assert legend.get_window_extent().x1 <= fig.bbox.x1
    named = [text.get_text() for text in legend.get_texts()]
    assert named[3] == "sm80_xmma_gemm..._execute_kernel_3"


def test_a_trace_without_operators_is_refused(tmp_path):
    with pytest.raises(ValueError, match="trace.json holds no operators"):
        show_trace(trace(tmp_path, event("PyTorch Profiler (0)", 0, 5, "Trace")))
    with pytest.raises(ValueError, match="the trace holds no operators"):
        show_trace({"traceEvents": []})
    assert not plt.get_fignums()


def test_a_trace_of_this_torch_can_be_drawn(tmp_path):
    layer, x = torch.nn.Linear(30, 20), torch.rand(64, 30)
    recorded = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[recorded], acc_events=True) as found:  # without, torch 2.11 warns
        with torch.profiler.record_function("mine"):
            layer(x).sum().backward()
    path = tmp_path / "trace.json"
    found.export_chrome_trace(str(path))
    lanes = {bar.name: bar.lane for bar in bars_of(path) if bar.name in ("mine", "aten::linear", "aten::addmm")}
    assert lanes == {"mine": 0, "aten::linear": 1, "aten::addmm": 2}
    show_trace(path)
    readable()


def test_the_profiler_is_quiet(capfd):
    assert int(os.environ["KINETO_LOG_LEVEL"]) > 5
    with torch.autograd.profiler.profile():
        torch.rand(3) * 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name, expected",
    {
        KERNEL: "vectorized_elementwise_kernel",
        "square_kernel(float const*, float*, unsigned long)": "square_kernel",
        "void matmul_template_kernel<16>(float const*)": "matmul_template_kernel",
        "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n": "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n",
        "autograd::engine::evaluate_function: MulBackward0": "autograd::engine::evaluate_function: MulBackward0",
        "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
        "<lambda>": "<lambda>",
    }.items(),
)
def test_short_names(name, expected):
    assert short(name) == expected


# ---- the roofline ---------------------------------------------------------------------------------------------------


def test_the_roof_and_the_dots_stand_where_they_should():
    points = {"square": (0.125, None), "naive": ((0.5, 40.0), 3e12), "product": (500, None), "gray": (1.25, 2e12)}
    assert show_roofline(60e12, 4e12, points, title="a machine") is None
    ax = readable()
    roof = ax.lines[0].get_xydata()
    np.testing.assert_allclose(roof[:, 1], np.minimum(60e12, 4e12 * roof[:, 0]))
    assert roof[0, 0] < 0.125 and roof[-1, 0] > 500
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    at = [tuple(line.get_xydata()[0]) for line in dots]
    assert at == [(0.125, 0.5e12), (40.0, 3e12), (500, 60e12), (1.25, 2e12)]
    assert [line.get_markerfacecolor() == "white" for line in dots] == [True, False, True, False]
    (line,) = [line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 5]
    assert line.get_xydata().tolist() == [[0.5, 3e12], [40.0, 3e12]]
    (legend,) = plt.gcf().legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "1  square: 500 GFLOP/s at most",
        "2  naive: 3 TFLOP/s",
        "3  product: 60 TFLOP/s at most",
        "4  gray: 2 TFLOP/s",
    ]
    assert ax.get_title() == "a machine: 60 TFLOP/s, 4,000 GB/s, ridge at 15 FLOP per byte"
    low, high = ax.get_ylim()
    assert low < 0.5e12 and high > 60e12


def test_a_roof_without_kernels():
    show_roofline(1e11, 2e10, {})
    assert "100 GFLOP/s, 20 GB/s, ridge at 5" in readable().get_title()


@pytest.mark.parametrize(
    "peak, bandwidth, kernels",
    [(0, 1, {}), (1, -1, {}), (1, 1, {"copy": (0, None)}), (1, 1, {"x": (1, 0)}), (float("nan"), 1, {})],
)
def test_a_roofline_needs_numbers_above_0(peak, bandwidth, kernels):
    with pytest.raises(ValueError, match="above 0"):
        show_roofline(peak, bandwidth, kernels)
    assert not plt.get_fignums()


# ---- counts ---------------------------------------------------------------------------------------------------------


def test_a_trace_is_counted_under_the_names_of_the_recording():
    recorded = nsight_counters()["launches"]
    copy = compile_kernel(kernels.source("copy"), "copy_kernel")
    assert counted(copy.trace[4, 256](torch.rand(1024), torch.empty(1024), 1024)) == recorded["copy_float"]
    padded = compile_kernel(kernels.source("transpose"), "transpose_padded_kernel")
    found = counted(padded.trace[(4, 2), (32, 32)](torch.rand(64, 128), torch.empty(128, 64), 64, 128))
    assert found == recorded["transpose_32x33"] and found["shared_load_wavefronts"] == 256
