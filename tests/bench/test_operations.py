"""What the benchmark times is computed right, and what is nearly right is found to be wrong."""

import os
import re
import subprocess
import sys
from functools import partial
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
        *(f"copy, {size}: PyTorch" for size in ("4,095 x 4,097", "100,003 x 257")),
        *(
            f"transpose, {size}: {peer}"
            for size in ("4,095 x 4,097", "100,003 x 257")
            for peer in ("PyTorch", "Triton")
        ),
    ],
    "matmul": ["PyTorch, `m @ n`", "Triton, `tl.dot`"],
    "narrow": ["reading m alone: PyTorch", "reading 268,435,456 floats: PyTorch", "PyTorch, `m @ n`"],
    "reduce": [
        *("copy: PyTorch", "sum: PyTorch", "argmax: PyTorch", "cumsum: PyTorch"),
        *(f"{name}: {peer}" for name in ("sum", "argmax", "cumsum") for peer in ("torch.compile", "Triton")),
    ],
    "histogram": [
        *(f"{kind}: {peer}" for kind in ("uniform", "skewed", "all equal") for peer in ("PyTorch", "Triton")),
        *("uniform float32: PyTorch", "65,536 bins, int32: PyTorch"),
    ],
    "rows": [
        f"{name}: {peer}, {dtype}"
        for dtype in ("float32", "bfloat16")
        for name, peers in (
            ("copy", ["PyTorch, `out.copy_(x)`"]),
            ("softmax", ["PyTorch", "torch.compile", "Triton"]),
            ("softmax's gradient", ["PyTorch", "torch.compile", "Triton"]),
            ("layer norm", ["PyTorch", "torch.compile", "Triton"]),
            ("RMS norm", ["PyTorch", "torch.compile", "Triton"]),
            ("layer norm's gradients", ["PyTorch", "torch.compile", "Triton"]),
            ("RMS norm's gradients", ["PyTorch", "torch.compile"]),
        )
        for peer in peers
    ],
    "fused": [
        *("copy: PyTorch", "bias and GELU: PyTorch", "bias and GELU: torch.compile", "bias and GELU: Triton"),
        *("bias and GELU, gradient: PyTorch", "bias and GELU, gradient: torch.compile"),
        *(
            f"cross-entropy{more}: {peer}"
            for more in ("", " and its gradient")
            for peer in ("PyTorch", "torch.compile", "Triton")
        ),
    ],
}


@pytest.mark.parametrize("group", PEERS)
def test_no_peer_is_left_out(monkeypatch, group):
    pytest.importorskip("triton")
    on_a_gpu(monkeypatch, total_memory=80e9)
    names = [operation.name for operation in operations.GROUPS[group].operations(TINY[group])]
    assert [peer for peer in PEERS[group] if not any(name.startswith(peer) for name in names)] == []
    known = "PyTorch", "Triton", "torch.compile", "torchvision"
    assert sum(any(peer in name for peer in known) for name in names) == len(PEERS[group])


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


def cloned(result):
    """A copy of what an operation returned."""
    return tuple(map(torch.clone, result)) if isinstance(result, tuple) else result.clone()


@pytest.mark.parametrize("group", TINY)
def test_no_operation_passes_with_a_wrong_result(group):
    for operation in operations.GROUPS[group].operations(TINY[group]):
        inputs = operation.inputs()
        measuring.verify(operation, inputs)
        memory = cloned(operation.run(*inputs))

        def wrong(*inputs, right=operation.run, of=0):
            out = cloned(right(*inputs))
            measuring.tensors(out)[of].view(-1)[-1] += 2  # the last element alone
            return out

        wrongs = [partial(wrong, of=i) for i in range(len(measuring.tensors(memory)))]
        for spoiled in (*wrongs, lambda *_, memory=memory: memory):  # the last writes nothing
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


def test_each_tensor_of_a_tuple_is_compared():
    (copy, *_) = operations.bandwidth(37)
    both = copy._replace(run=lambda x: (x.clone(), x.sum(0)), right=(copy.right, lambda rows, x: (x.sum(0)[rows], 0.0)))
    measuring.verify(both, both.inputs())
    for run, words in (
        (lambda x: (x.clone(), x.sum(1)), "output 2 of 2, is wrong by up to"),
        (lambda x: (x + 1, x.sum(0)), "output 1 of 2, is wrong by up to"),
        (lambda x: x.clone(), "returns 1 and not 2 tensors"),
    ):
        with pytest.raises(measuring.WrongResult, match=words):
            measuring.verify(both._replace(run=run), both.inputs())


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
        from bench import triton_kernels, triton_rows
        from bench import fused, measuring, operations, rows
        def tried(kernel, sizes):  # what the functions do, without a choice of tiles
            class Launched:
                def __getitem__(self, grid):
                    def launch(*inputs, **more):
                        more.pop("enable_fp_fusion", None)
                        kernel.fn[grid(sizes) if callable(grid) else grid](*inputs, **sizes, **more)
                    return launch
            return Launched()
        def each(name, peers=triton_kernels, called=None):
            kernel = getattr(peers, f"{name}_kernel")
            for sizes in [config.kwargs for config in kernel.configs]:
                setattr(peers, f"{name}_kernel", tried(kernel, sizes))
                yield getattr(peers, called or name)
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
        float32, inputs = torch.float32, fused.logits_and_target(5, 2500)
        loss = (fused.mean_loss(1e-6), fused.logsumexps)
        for name, made, right in (
            ("softmax", operations.floats((5, 37)), rows.shares(float32)),
            ("softmax_backward", rows.with_shares((5, 37), float32), rows.gradients(float32)),
            ("bias_gelu", operations.floats((5, 3000), (3000,)), fused.gelu_values(1)),
            ("cross_entropy", lambda: (inputs()[0].float(), inputs()[1]), loss),
        ):
            for run in each(name, triton_rows):
                measuring.verify(operations.Operation(f"{name}: Triton", run, made, right, 0), made())
        triton_rows.cross_entropy_kernel = tried(triton_rows.cross_entropy_kernel, {"BLOCK": 2048})
        for run in each("cross_entropy_backward", triton_rows, "cross_entropy_gradient"):
            made = lambda: (inputs()[0].float(), inputs()[1])
            measuring.verify(operations.Operation("Triton", run, made, fused.loss_slopes(0), 0), made())
    """
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    root = Path(operations.__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True)
    if "only 0-dimensional arrays can be converted" in run.stderr:
        pytest.skip("this Triton's interpreter does not work with this NumPy: it converts an array of one element")
    assert run.returncode == 0, run.stderr


def test_too_little_memory_leaves_the_smallest_size(monkeypatch):
    on_a_gpu(monkeypatch, total_memory=1e6)
    assert operations.sides([4096, 8192], 256) == [4096]
    on_a_gpu(monkeypatch, total_memory=80e9)
    assert operations.sides([4096, 8192], 256) == [4096, 8192]
