"""What the benchmark times is computed right, and what is nearly right is found to be wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernels
from bench import measuring, operations
from tests.bench.setting import TINY, on_a_gpu

pytestmark = pytest.mark.usefixtures("on_the_engine")


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
    names = [operation.name for operation in operations.GROUPS[group].operations(TINY[group])]
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
        names = [row["name"] for row in measuring.measured(group, size)["rows"]]
        assert len(names) == len(set(names))
    assert called == {function for name in kernels.names() for function in kernels.functions(name)}


@pytest.mark.parametrize("group", TINY)
def test_no_operation_passes_with_a_wrong_result(group):
    for operation in operations.GROUPS[group].operations(TINY[group]):
        inputs = operation.inputs()
        measuring.verify(operation, inputs)
        memory = operation.run(*inputs).clone()

        def wrong(*inputs, right=operation.run):
            out = right(*inputs).clone()
            out.view(-1)[-1] += 2  # the last element alone
            return out

        for spoiled in (wrong, lambda *_, memory=memory: memory):  # the second writes nothing
            with pytest.raises(measuring.WrongResult, match=re.escape(operation.name)):
                measuring.verify(operation._replace(run=spoiled), inputs)


def test_a_result_of_too_few_rows_is_wrong(monkeypatch):
    monkeypatch.setattr(measuring, "ROWS", 10)
    (copy, *_) = operations.bandwidth(37)
    for rows in (0, 5, 10, 36):
        with pytest.raises(measuring.WrongResult, match="elements"):
            measuring.verify(copy._replace(run=lambda x, rows=rows: x[:rows].clone()), copy.inputs())


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
    (operation,) = (each for each in operations.bandwidth(200) if each.name == "grayscale: torchvision")
    measuring.verify(operation._replace(run=grey_levels(lambda exact: exact)), operation.inputs())
    with pytest.raises(measuring.WrongResult, match="wrong by up to"):
        measuring.verify(operation._replace(run=ways[name]), operation.inputs())


def test_all_grays_of_all_pixels_are_right():
    """Every sum of three levels in steps of five, and of levels near 0 and 255."""
    some = torch.tensor(sorted({*range(0, 256, 5), *range(8), *range(248, 256)}), dtype=torch.uint8)
    planes = torch.cartesian_prod(some, some, some).t().reshape(3, len(some), -1).contiguous()
    for operation in operations.bandwidth(37):
        if operation.of == "grayscale":
            by_pixel = operation.inputs()[0].shape[-1] == 3
            measuring.verify(operation, (planes.permute(1, 2, 0).contiguous() if by_pixel else planes,))


@pytest.mark.parametrize(
    "spoiled", [lambda x: x.mul_(x), lambda x: x.abs_().square(), lambda x: [x.square(), x.zero_()][0]]
)
def test_an_operation_that_changes_its_inputs_is_wrong(spoiled):
    (operation,) = (each for each in operations.bandwidth(37) if each.name.startswith("square: PyTorch"))
    with pytest.raises(measuring.WrongResult, match="changes its inputs"):
        measuring.verify(operation._replace(run=spoiled), operation.inputs())


def test_a_sum_that_leaves_out_an_element_is_wrong():
    torch.manual_seed(0)
    (operation, *_) = operations.narrow(50_000)
    (x,) = operation.inputs()
    x[7, 7] = x[-1, 0] = 0.5
    x[-1, 1:] = 0  # the last row is 0.5, and no sum that is small by chance
    measuring.verify(operation, (x,))
    for short in (lambda x: x.sum() - x[7, 7], lambda x: x[:-1].sum(), lambda x: x.bfloat16().sum()):
        with pytest.raises(measuring.WrongResult):
            measuring.verify(operation._replace(run=short), (x,))


def test_a_product_with_tf32_is_wrong():
    operation = operations.product("`@`", torch.matmul, 64, 256, 64)

    def tf32(x):
        return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    measuring.verify(operation, operation.inputs())
    with pytest.raises(measuring.WrongResult):
        measuring.verify(operation._replace(run=lambda m, n: tf32(m) @ tf32(n)), operation.inputs())


def test_tritons_operations_are_right():
    """Its interpreter runs them here; a GPU also tries which tiles are the fastest."""
    pytest.importorskip("triton")
    program = """if True:
        import torch
        from bench import triton_kernels as peers
        from bench import measuring, operations
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
                operation = operations.product("Triton", run, h, k, w)
                measuring.verify(operation, operation.inputs())
        for h, w in ((70, 131), (1, 1), (128, 64)):
            for name, made, right in (
                ("copy", operations.floats((h, w)), operations.same),
                ("square", operations.floats((h, w)), operations.squares),
                ("grayscale", operations.levels(3, h, w), operations.grey_levels),
                ("transpose", operations.floats((h, w)), operations.flipped),
            ):
                for run in each(name):
                    measuring.verify(operations.Operation(f"{name}: Triton", run, made, right, 0), made())
    """
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(
        [sys.executable, "-c", program], cwd=Path(operations.__file__).parents[1], env=environment, check=True
    )


def test_too_little_memory_leaves_the_smallest_size(monkeypatch):
    on_a_gpu(monkeypatch, total_memory=1e6)
    assert operations.sides([4096, 8192], 256) == [4096]
    on_a_gpu(monkeypatch, total_memory=80e9)
    assert operations.sides([4096, 8192], 256) == [4096, 8192]
