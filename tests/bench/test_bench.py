"""bench/measuring.py on the CPU engine: what it computes from times, what it refuses to time, and what it fills."""

import contextlib
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
import utils.cuda.compile
import utils.cuda.kernel
from bench import measuring as bench
from utils.cuda.common.diagnostics import CompileError
from utils.lesson.timing import Timing

ROOT = bench.ROOT
TINY = {"bandwidth": 37, "matmul": 20, "narrow": 33}
GPU = {"device": "NVIDIA Fake", "torch": "9.9", "cuda": "99.0"}


@pytest.fixture(autouse=True)
def on_the_engine(monkeypatch, tmp_path):
    """The CPU engine also where there is a GPU, tiny sizes, and a folder of the test's own for what is written."""
    cpu = torch.device("cpu")
    for module in (utils.cuda.compile, utils.cuda.kernel, bench):
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


def spoil(monkeypatch, group, **changes):
    """The first operation of a group, changed and alone."""
    (operation, *_) = bench.GROUPS[group].operations(TINY[group])
    operation = operation._replace(**changes)
    monkeypatch.setitem(bench.GROUPS, group, bench.GROUPS[group]._replace(operations=lambda _: [operation]))


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
        "| slow | 40.0 ms (40.0 ms to 80.0 ms) | 100 | 0.025 |",
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
        "without TF32. Half of the samples of each row lie within 100.0 % of its median. The roof "
        "is the lower of two: 10.0 TFLOP/s (so many lanes), and 83 and 3,333 FLOP a byte x 6 GB/s, "
        "as a copy had in the same run.",
    ]


def test_without_a_roof_there_is_no_column_of_it():
    table = bench.table("matmul", {"device": "CPU", "torch": "9.9", "matmul": [square_products(100, at=0.002)]})
    assert table.startswith("| 100 x 100 @ 100 x 100 | time | TFLOP/s | of `@` |\n")
    assert "| 0.00100 | 1.00 |" in table and "roof" not in table and "Median of 30" in table


def test_an_unknown_roof_is_said_to_be_one():
    parts = [square_products(100, {"unknown": "nobody knows"}, at=0.002)]
    table = bench.table("matmul", GPU | {"matmul": parts})
    assert "of the roof" not in table and table.endswith(" The roof is not known: nobody knows.")


def test_each_group_has_the_versions_it_was_measured_with():
    found = {"device": "NVIDIA Fake", "torch": "9.8"}  # what a file of before had at its top
    parts = [square_products(size, at=0.002) | {"versions": {"torch": "9.9", "cuda": "99.0"}} for size in (10, 20)]
    rows = [figures("copy", 0.002, bytes=8e9)]
    found |= {"matmul": parts, "bandwidth": {"size": 5, "rows": rows}}
    assert "NVIDIA Fake, torch 9.9, CUDA 99.0. " in bench.table("matmul", found)
    assert "NVIDIA Fake, torch 9.8. " in bench.table("bandwidth", found)


def test_a_terminal_gets_straight_columns_and_a_foot_of_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    rows = [figures("copy", 0.002, bytes=8e9), figures("slow", 0.04, bytes=4e9)]
    found = GPU | {"bandwidth": {"size": 16384, "rows": rows}}
    lines, _, foot = bench.table("bandwidth", found, aligned=True).partition("\n\n")
    assert lines.splitlines() == [
        "| 16,384 x 16,384 |                         time |  GB/s | of the copy |",
        "|-----------------|------------------------------|-------|-------------|",
        "| copy            | 2.00 ms (2.00 ms to 4.00 ms) | 4,000 |        1.00 |",
        "| slow            | 40.0 ms (40.0 ms to 80.0 ms) |   100 |       0.025 |",
    ]
    assert max(map(len, foot.splitlines())) <= 60
    assert foot.replace("\n", " ") == bench.table("bandwidth", found).splitlines()[-1]


def test_the_foot_tells_what_a_graph_launched():
    rows = [figures("sum", 0.02, bytes=4e9), figures("short", 1e-5, bytes=4e4, graph=True)]
    table = bench.table("narrow", GPU | {"narrow": {"size": 50_000, "rows": rows}})
    assert table.startswith("| 50,000 x 784 @ 784 x 10 | time | GB/s | of `m.sum()` |\n")
    rule = "What takes less than 200 µs was launched by a CUDA graph, as a launch from Python would show."
    assert table.endswith(rule)
    rows.append(figures("PyTorch, `m @ n`", 0.01, bytes=1e9))
    assert " | 200 | 1.00 | 2.00 |\n" in bench.table("narrow", GPU | {"narrow": {"size": 50_000, "rows": rows}})


def test_the_roof_is_that_of_the_device(monkeypatch):
    gpu = SimpleNamespace(major=9, minor=0, multi_processor_count=10, clock_rate=2_000_000, uuid="1-2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    monkeypatch.setattr(bench, "row", lambda operation: {"bytes": 8e9, "seconds": 0.002, "name": operation.name})
    words = "10 SMs x 128 lanes x 2 x 2,000 MHz, the highest clock by torch"
    assert bench.roof() == {"peak": 5.12e12, "peak_is": words, "copied": 4e12}
    gpu.clock_rate, no_smi = 0, lambda *_, **__: SimpleNamespace(stdout="[N/A]\n")
    monkeypatch.setattr(subprocess, "run", no_smi)
    assert bench.roof() == {"unknown": "neither torch nor nvidia-smi tells the highest clock"}
    gpu.minor = 9
    assert bench.roof() == {"unknown": "the bench has no number of lanes for compute capability 9.9"}


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
    first = "There is no GPU here: what is timed is the CPU engine, and the figures are kept nowhere."
    assert out.startswith(f"{first}\n\n{group}\n\n| {TINY[group]} x ")
    assert "Median of 5 samples and, in brackets" in " ".join(out.split()) and ", CUDA" not in out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name, told",
    [
        ("square", {"bandwidth": {"copy: PyTorch", "square: PyTorch", "square: 4 bytes a thread"}}),
        ("matmul_narrow", {"narrow": {"reading m alone", "PyTorch, `m @ n`", "made for few columns"}}),
        (
            "matmul_fast",
            {
                "matmul": {"PyTorch, `m @ n`", "the next tiles"},
                "narrow": {"reading m alone", "PyTorch, `m @ n`", "made for large products"},
            },
        ),
    ],
)
def test_an_operation_is_measured_beside_its_peers(monkeypatch, capsys, name, told):
    assert run(monkeypatch, "--only", name) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^(\w+), for (\w+)$", out, re.MULTILINE) == [(group, name) for group in told]
    for group, table in zip(told, out.split(f", for {name}\n")[1:], strict=True):
        rows = re.findall(r"^\| ([^|]+\S) +\|", table, re.MULTILINE)[1:]
        assert len(rows) == len(told[group]) and all(any(row.startswith(k) for k in told[group]) for row in rows)


def test_every_operation_can_be_asked_for_and_no_other_name(monkeypatch, capsys):
    asked = {operation.of for group, size in TINY.items() for operation in bench.GROUPS[group].operations(size)}
    assert asked == {"", *kernels.names()}
    assert run(monkeypatch, "--only", "nonsense") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "'nonsense'" in line and all(name in line for name in (*bench.GROUPS, *kernels.names()))
    with pytest.raises(SystemExit):
        run(monkeypatch, "--only", "square", "--fill", "h200.json")
    assert "not allowed with" in capsys.readouterr().err


PEERS = {  # what each table must have beside our kernels on a GPU
    "bandwidth": [
        *("copy: PyTorch", "square: PyTorch", "grayscale: torchvision", "transpose: PyTorch"),
        *("copy: Triton", "square: Triton", "grayscale: Triton", "transpose: Triton"),
    ],
    "matmul": ["PyTorch, `m @ n`", "Triton, `tl.dot`"],
    "narrow": ["reading m alone: PyTorch", "reading 268,435,456 floats: PyTorch", "PyTorch, `m @ n`"],
}


@pytest.mark.parametrize("group", PEERS)
def test_no_peer_is_left_out(monkeypatch, group):
    pytest.importorskip("triton")
    on_a_gpu(monkeypatch, total_memory=80e9)
    names = [operation.name for operation in bench.GROUPS[group].operations(TINY[group])]
    assert [peer for peer in PEERS[group] if not any(name.startswith(peer) for name in names)] == []
    assert len([name for name in names if "PyTorch" in name or "Triton" in name or "torchvision" in name]) == len(
        PEERS[group]
    )


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


def grey_levels(change):
    """A grayscale that does something else with the exact sum than to cut it."""
    return lambda x: change(sum(w * x[i].double() for i, w in enumerate((0.2989, 0.5870, 0.1140)))).to(torch.uint8)


@pytest.mark.parametrize("name", ["one more", "rounded", "other weights", "one less"])
def test_grey_levels_that_are_nearly_right_are_wrong(name):
    ways = {
        "one more": grey_levels(lambda exact: exact + 1),
        "one less": grey_levels(lambda exact: exact.clamp(min=1) - 1),
        "rounded": grey_levels(torch.round),
        "other weights": lambda x: sum(w * x[i].double() for i, w in enumerate((0.299, 0.587, 0.114))).to(torch.uint8),
    }
    (operation,) = (each for each in bench.bandwidth(200) if each.name == "grayscale: torchvision")
    bench.check(operation._replace(run=grey_levels(lambda exact: exact)), operation.inputs())
    with pytest.raises(bench.WrongResult, match="wrong by up to"):
        bench.check(operation._replace(run=ways[name]), operation.inputs())


def test_all_grays_of_all_pixels_are_right():
    """Every sum of three levels in steps of five, and of levels near 0 and 255."""
    some = torch.tensor(sorted({*range(0, 256, 5), *range(8), *range(248, 256)}), dtype=torch.uint8)
    planes = torch.cartesian_prod(some, some, some).t().reshape(3, len(some), -1).contiguous()
    for operation in bench.bandwidth(37):
        if operation.of == "grayscale":
            by_pixel = operation.inputs()[0].shape[-1] == 3
            bench.check(operation, (planes.permute(1, 2, 0).contiguous() if by_pixel else planes,))


@pytest.mark.parametrize(
    "spoiled", [lambda x: x.mul_(x), lambda x: x.abs_().square(), lambda x: [x.square(), x.zero_()][0]]
)
def test_an_operation_that_changes_its_inputs_is_wrong(spoiled):
    (operation,) = (each for each in bench.bandwidth(37) if each.name.startswith("square: PyTorch"))
    with pytest.raises(bench.WrongResult, match="changes its inputs"):
        bench.check(operation._replace(run=spoiled), operation.inputs())


def test_a_sum_that_leaves_out_an_element_is_wrong():
    torch.manual_seed(0)
    (operation, *_) = bench.narrow(50_000)
    (x,) = operation.inputs()
    x[7, 7] = x[-1, 0] = 0.5
    x[-1, 1:] = 0  # the last row is 0.5, and no sum that is small by chance
    bench.check(operation, (x,))
    for short in (lambda x: x.sum() - x[7, 7], lambda x: x[:-1].sum(), lambda x: x.bfloat16().sum()):
        with pytest.raises(bench.WrongResult):
            bench.check(operation._replace(run=short), (x,))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            RuntimeError("operation not permitted\nwhen stream is capturing"),
            "@: no CUDA graph can launch it: operation",
        ),
        (torch.OutOfMemoryError("tried to allocate"), "@ needs more memory than the GPU has free"),
    ],
)
def test_what_cannot_be_captured_is_told(monkeypatch, error, told):
    on_a_gpu(monkeypatch, L2_cache_size=1)

    @contextlib.contextmanager
    def capture(_):
        yield
        raise error

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    operation = bench.product("@", torch.matmul, 5, 5, 5)._replace(inputs=lambda: (torch.rand(5, 5), torch.rand(5, 5)))
    with pytest.raises(bench.Refused, match=told):
        bench.row(operation)


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
    first, second = operation.inputs(), operation.inputs()

    def runs(*inputs):
        expected = operation.run(*inputs)
        return (
            expected
            if at_first == "right" and any(inputs[0] is known[0] for known in (first, second))
            else expected + 2
        )

    made = iter([first, second])
    spoil(monkeypatch, group, run=runs, inputs=lambda: next(made, operation.inputs()))
    assert run(monkeypatch, "--only", group) == 1
    out, err = capsys.readouterr()
    assert "| " not in out and err.startswith(f"No time is told of a wrong result: {operation.name} is wrong by up to ")


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


def numbered(sets):
    """An operation on inputs that say which set they are of, the sets, and those that were used."""
    used = []
    operation = bench.product("`@`", lambda m, n: used.append(int(m[0, 0])) or m @ n, 1, 1, 1)
    return operation, [(torch.full((1, 1), float(i)), torch.ones(1, 1)) for i in range(sets)], used


def test_launches_take_the_inputs_by_turns(monkeypatch):
    on_a_gpu(monkeypatch)
    operation, sets, used = numbered(3)
    graphs = []
    monkeypatch.setattr(bench, "captured", lambda launches: graphs.append(launches) or launches)
    timing, graph = bench.timed(operation, sets)
    assert used == [i % 3 for i in range(len(used))] and graph and len(graphs) == 1
    assert len(used) == 1 + 3 + 21 * (1 + bench.SAMPLES + 2)  # at least 20, and as many of each; two are compared
    assert len(timing.samples) == bench.SAMPLES and timing.device == "cuda"
    used.clear()
    monkeypatch.setattr(bench, "SHORT", 0)
    timing, graph = bench.timed(operation, sets)
    assert len(used) == 1 + 3 + 6 * (1 + bench.SAMPLES) and not graph and len(graphs) == 1


def test_long_operations_are_launched_less_often(monkeypatch):
    on_a_gpu(monkeypatch)
    for name, value in (("LONG", 0), ("SHORT", 0), ("BUDGET", 0)):
        monkeypatch.setattr(bench, name, value)
    operation, sets, used = numbered(2)
    timing, _ = bench.timed(operation, sets)
    assert len(timing.samples) == 5 and len(used) == 3 + 6


def test_the_engine_takes_inputs_by_turns_too_and_its_figure_is_the_median(monkeypatch):
    operation, sets, used = numbered(2)
    timing, graph = bench.timed(operation, sets)
    assert used == [0, 1, 0, 1, 0, 1] and len(timing.samples) == 5 and not graph
    assert len(bench.input_sets(operation)) == 2
    monkeypatch.setattr(bench, "timed", lambda *_: (Timing((1.0, 9.0, 5.0)), False))
    assert bench.row(operation)["seconds"] == 5


@pytest.mark.parametrize("wrong", ["stale", "another", "spoils"])
def test_what_a_graph_replays_is_compared(monkeypatch, wrong):
    """A graph writes its result where it lay. Here it writes nothing, that of other inputs, or into its inputs."""
    on_a_gpu(monkeypatch)
    operation, sets, _ = numbered(3)

    def captured(run):
        (m, n), kept, out = run()

        def replay():
            if wrong == "another":
                out.copy_(m @ n + 1)
            elif wrong == "spoils":
                out.copy_(kept[0] @ kept[1])
                m.fill_(7)
            return (m, n), kept, out

        return replay

    monkeypatch.setattr(bench, "captured", captured)
    with pytest.raises(bench.WrongResult, match="changes its inputs" if wrong == "spoils" else "wrong by up to"):
        bench.timed(operation, sets)


def test_tritons_operations_are_right():
    """Its interpreter runs them here; a GPU also tries which tiles are the fastest."""
    pytest.importorskip("triton")
    program = """if True:
        import torch
        from bench import triton_kernels as peers
        from bench import measuring as bench
        def tried(kernel, sizes):  # what the functions do, without a choice of tiles
            class Launched:
                def __getitem__(self, grid):
                    return lambda *inputs, **_: kernel.fn[grid(sizes)](*inputs, **sizes)
            return Launched()
        def each(name):
            kernel = getattr(peers, f"{name}_kernel")
            for sizes in [config.kwargs for config in kernel.configs]:
                setattr(peers, f"{name}_kernel", tried(kernel, sizes))
                yield getattr(peers, name)
            setattr(peers, f"{name}_kernel", kernel)
        for h, k, w in ((70, 45, 130), (64, 64, 64), (1, 1, 1)):
            for run in each("matmul"):
                operation = bench.product("Triton", run, h, k, w)
                bench.check(operation, operation.inputs())
        for h, w in ((70, 131), (1, 1), (128, 64)):
            for name, made, right in (
                ("copy", bench.floats((h, w)), bench.same),
                ("square", bench.floats((h, w)), bench.squares),
                ("grayscale", bench.levels(3, h, w), bench.grey_levels),
                ("transpose", bench.floats((h, w)), bench.flipped),
            ):
                for run in each(name):
                    bench.check(bench.Operation(f"{name}: Triton", run, made, right, 0), made())
    """
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True)


# ---- what stops it --------------------------------------------------------------------------------------------------


def stopped(monkeypatch, capsys, *arguments):
    """The exit status, and what is told in the end."""
    status = run(monkeypatch, *arguments)
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    "error, status, told",
    [
        (KeyboardInterrupt(), 130, "Stopped: what was not printed is not measured.\n"),
        (CompileError("copy.cu, line 3: no semicolon"), 1, "copy.cu, line 3: no semicolon\n"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried"),
            1,
            "copy: PyTorch, `out.copy_(x)` needs more memory than ",
        ),
    ],
)
def test_what_stops_it_is_told_in_a_line(monkeypatch, capsys, error, status, told):
    def fails(x):
        raise error

    spoil(monkeypatch, "bandwidth", run=fails)
    got, err = stopped(monkeypatch, capsys, "--only", "bandwidth")
    assert got == status and err.startswith(told) and err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"torch": 3}', "\xff"])
def test_a_damaged_file_is_named(monkeypatch, capsys, tmp_path, text):
    (tmp_path / "bench" / "broken.json").write_text(text, encoding="latin-1")
    status, err = stopped(monkeypatch, capsys, "--fill", "broken.json")
    assert status == 1 and "broken.json is damaged (" in err and "`git checkout " in err and err.count("\n") == 1
    with pytest.raises(bench.Refused, match="damaged"):
        bench.recorded("curve", None)


def test_a_file_that_is_not_there_is_named(monkeypatch, capsys):
    assert stopped(monkeypatch, capsys, "--fill", "x.json") == (1, "there is no x.json in bench/, only \n")


def test_what_cannot_be_written_is_found_before_anything_is_measured(fake_gpu, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "measured", None)
    monkeypatch.setattr(os, "access", lambda folder, _: folder != tmp_path / "bench")
    status, err = stopped(monkeypatch, capsys)
    assert status == 1 and err.startswith(f"nothing can be written to {tmp_path}/bench: ")


def test_too_little_memory_leaves_the_smallest_size(monkeypatch):
    on_a_gpu(monkeypatch, total_memory=1e6)
    assert bench.sides([4096, 8192], 256) == [4096]
    on_a_gpu(monkeypatch, total_memory=80e9)
    assert bench.sides([4096, 8192], 256) == [4096, 8192]


# ---- filling --------------------------------------------------------------------------------------------------------

PAGES = [path for path in (ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb"))]
PAGES = [path for path in PAGES if "<!-- bench:" in path.read_text()]
DEVICE = re.search(r"<!-- bench:[^>]*-->.*?\n\n(.+?), torch ", (ROOT / "README.md").read_text(), re.DOTALL)[1]
FILE = bench.file_of(DEVICE)  # `make bench` fills the pages from the file of its GPU
RECORDED = json.loads(FILE.read_text())


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
    assert ROOT / "README.md" in PAGES
    shutil.copy(FILE, tmp_path / "bench")
    for path in PAGES:
        copy = tmp_path / path.relative_to(ROOT)
        copy.write_text(re.sub(r"\| (?:copy: PyTorch|reading m).*?\|(?=\n|\\n)", "| gone |", path.read_text()))
        assert copy.read_text() != path.read_text()
    assert run(monkeypatch, "--fill", FILE.name) == 0
    for path in PAGES:
        assert (tmp_path / path.relative_to(ROOT)).read_text() == path.read_text(), path.name
    told = re.findall(rf"(\S+\.ipynb) prints figures of {FILE.name}", capsys.readouterr().out)
    assert told == sorted(str(path.relative_to(ROOT)) for path in PAGES[1:] if FILE.name in path.read_text())


def test_what_the_pages_say_of_the_recorded_figures_holds():
    """Lesson 10 puts into words what its tables show; another recording may ask for other words."""
    for size in bench.parts_of(RECORDED["matmul"]):
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


def test_figures_that_stand_in_the_text_are_the_recorded_ones():
    def text(lesson):
        (path,) = (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
        return "".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])

    took = {row["name"]: bench.format_seconds(row["seconds"]) for row in RECORDED["bandwidth"]["rows"]}
    ours = "grayscale: 1 byte a thread"
    told = f"torchvision {took['grayscale: torchvision']}, our kernel {took[ours]}"
    assert f"{told}, and {took[ours + ', blocks of 16 x 16']} with blocks of 16 x 16" in text("03")
    curves = RECORDED["lessons"]["softmax curves"]
    last = {way: f"{round(rates[-1], -1):,.0f}" for way, rates in curves.items()}
    told = f"Triton {last['Triton']} GB/s, CUDA C++ {last['CUDA C++']}, PyTorch and `torch.compile` "
    assert f"{told}1,900, Numba {last['Numba']}." in text("11")
    assert {round(curves[way][-1], -2) for way in ("PyTorch", "torch.compile")} == {1900}
    launch = [8 * 4096 * w / rate / 1e3 for w, rate in zip(curves["w"], curves["CUDA C++"], strict=True) if w <= 5120]
    assert 53 <= min(launch) and max(launch) < 77 and "between 53 and 77 µs at every size up to 5,120" in text("11")


# ---- figures of lessons ---------------------------------------------------------------------------------------------


@pytest.fixture
def fake_gpu(monkeypatch):
    on_a_gpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: GPU["device"])
    monkeypatch.setattr(bench, "versions", lambda: {"torch": "9.9", "cuda": "99.0"})


def test_what_a_lesson_measures_on_a_gpu_is_kept_if_outputs_are_made(fake_gpu, monkeypatch, tmp_path):
    file = tmp_path / "bench" / "fake.json"
    monkeypatch.delenv("COURSE_RECORD", raising=False)
    assert bench.recorded("curve", lambda: {"a": [1, 2.5]}) == ({"a": [1, 2.5]}, "NVIDIA Fake")
    assert not file.exists()
    file.write_text(json.dumps(GPU | {"narrow": 7, "lessons": {"curve": 0, "other": 3}}))
    monkeypatch.setenv("COURSE_RECORD", "1")
    assert bench.recorded("curve", lambda: {"a": [1, 2.5]}) == ({"a": [1, 2.5]}, "NVIDIA Fake")
    kept = GPU | {"narrow": 7, "lessons": {"curve": {"a": [1, 2.5]}, "other": 3}}
    assert json.loads(file.read_text()) == kept | {"versions of lessons": {"curve": {"torch": "9.9", "cuda": "99.0"}}}


def test_without_a_gpu_a_lesson_gets_what_a_gpu_measured(tmp_path):
    def never():
        raise AssertionError("it should not measure")

    with pytest.raises(LookupError, match="no GPU has measured 'curve' yet"):
        bench.recorded("curve", never)
    (tmp_path / "bench" / "a.json").write_text(json.dumps(GPU | {"device": "another"}))
    (tmp_path / "bench" / "b.json").write_text(json.dumps(GPU | {"lessons": {"curve": [3, 4]}}))
    assert bench.recorded("curve", never) == ([3, 4], "NVIDIA Fake")


def measured(group, size, of=""):
    if group == "matmul":
        raise bench.WrongResult("it is wrong by up to 3")
    return {"size": size, "versions": bench.versions(), "rows": [figures("all", 0.5, bytes=4)]}


def test_a_group_that_fails_does_not_take_the_figures_of_another(fake_gpu, monkeypatch, tmp_path, capsys):
    """Nor its place in the pages."""
    file = tmp_path / "bench" / "fake.json"
    old = {"size": 1, "versions": {"torch": "9.8"}, "rows": [figures("old", 0.5, bytes=4)]}
    file.write_text(json.dumps({"device": "NVIDIA Fake", "narrow": old, "lessons": {"curve": 1}}))
    for group in TINY:
        (tmp_path / "notebooks" / f"{group}.ipynb").write_text(json.dumps({"cells": [{"source": []}]}))
    (tmp_path / "README.md").write_text("<!-- bench:bandwidth -->\n<!-- /bench:bandwidth -->\n")
    on_a_gpu(monkeypatch, total_memory=80e9)
    monkeypatch.setattr(bench, "measured", measured)
    assert run(monkeypatch) == 1
    kept = json.loads(file.read_text())
    assert kept["bandwidth"]["rows"][0]["name"] == "all" and "matmul" not in kept
    assert kept["bandwidth"]["versions"]["torch"] == "9.9" and kept["narrow"] == old and kept["lessons"] == {"curve": 1}
    assert "torch" not in kept
    assert "NVIDIA Fake, torch 9.9, CUDA 99.0. " in (tmp_path / "README.md").read_text()
    assert "filled in README.md" in capsys.readouterr().out


def test_an_operation_alone_is_written_nowhere(fake_gpu, monkeypatch, tmp_path, capsys):
    on_a_gpu(monkeypatch, total_memory=80e9)
    monkeypatch.setattr(bench, "measured", measured)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run(monkeypatch, "--only", "square") == 0
    assert "bandwidth, for square" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
