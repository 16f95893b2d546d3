"""What a launch and a trace say of kernels that use wgmma against its rules; they say nothing of right ones."""

import pytest
import torch

from tests.cuda.cpu.warpgroups.pipelines import PRODUCT, SPECIALISED, TOGETHER
from utils import compile_kernel
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

K = 256


def product_of(kernel, source=PRODUCT, rows=64, threads=128, trace=False):
    a, b, d = torch.randn(rows, K).bfloat16(), torch.randn(8, K).bfloat16(), torch.full((rows, 8), -1.0)
    if trace:
        return Tracer(source, kernel)[1, threads](a, b, d, K, outputs=[d])
    compile_kernel(source, kernel)[1, threads](a, b, d, K)
    return d, a.double() @ b.double().T


def test_a_pipeline_with_one_group_in_flight():
    d, expected = product_of("product<right>")
    torch.testing.assert_close(d.double(), expected, rtol=1e-4, atol=1e-4)
    assert product_of("product<right>", trace=True).ok


def test_a_warpgroup_fills_while_another_multiplies():
    d, expected = product_of("alternate<false>", SPECIALISED, rows=128, threads=256)
    torch.testing.assert_close(d.double(), expected, rtol=1e-4, atol=1e-4)
    assert product_of("alternate<false>", SPECIALISED, rows=128, threads=256, trace=True).ok


@pytest.mark.parametrize("mistake", ["no_wait", "too_lax", "no_commit"])
def test_sums_that_nobody_waits_for_are_nan(mistake):
    assert product_of(f"product<{mistake}>")[0].isnan().all()


def test_sums_that_are_moved_before_the_wait_stay_nan():
    assert product_of("product<moved_early>")[0].isnan().all()


@pytest.mark.parametrize(
    "mistake, kind, says, hint",
    [
        ("no_fence", "warpgroup", "and no wgmma.fence comes between", "C7519"),
        ("fence_too_early", "warpgroup", "with registers that it touched in line", "wgmma.fence"),
        ("no_proxy_fence", "race", "with no `fence.proxy.async` after that", "every thread that writes executes"),
        ("no_barrier", "race", "nothing orders the two", "a barrier"),
        ("no_wait", "warpgroup", "reads an accumulator", "leaves out the newest groups"),
        ("too_lax", "warpgroup", "reads an accumulator", "`wgmma.wait_group 1` leaves out"),
        ("no_commit", "warpgroup", "there is nothing to wait for", "wgmma.commit_group"),
        ("read_early", "warpgroup", "reads an accumulator", "C7517"),
        ("moved_early", "warpgroup", "reads an accumulator", "C7517"),
        ("overwritten", "race", "may still read", "wgmma.wait_group"),
        ("wrong_stride", "uninitialized", "before any thread has written it", "Write all that it reads"),
        ("misaligned", "warpgroup", "starts 512 bytes into the 1,024 bytes", "alignas(1024)"),
        ("strays", "warpgroup", "starts in tiles_a and reads", "offsets"),
        ("part_filled", "uninitialized", "before any thread has written it", "Write all that it reads"),
    ],
)
def test_what_a_trace_says_of_mistakes(mistake, kind, says, hint):
    found = product_of(f"product<{mistake}>", trace=True).problems
    fitting = [p for p in found if p.kind == kind and says in p.message]
    assert fitting and fitting[0].line and hint in fitting[0].hint, found


def test_the_wrong_stage():
    found = product_of("alternate<true>", SPECIALISED, rows=128, threads=256, trace=True).problems
    assert found and found[0].kind in ("race", "uninitialized") and "wgmma" in found[0].message


@pytest.mark.parametrize(
    "mistake, says",
    [
        ("a_warp_is_absent", r"waits in vain at wgmma\.mma_async.*96 of 128 threads.*thread \(96, 0, 0\) waits at"),
        ("a_warp_has_ended", r"thread \(96, 0, 0\) has left the kernel"),
        ("other_descriptor", r"thread \(96, 0, 0\) brings another descriptor of A than thread \(0, 0, 0\)"),
        ("other_scale", r"thread \(96, 0, 0\) brings another scale-d"),
        ("far_away", r"a descriptor of A that reaches byte \d+ of shared memory, which the block does not have"),
    ],
)
def test_what_a_warpgroup_must_do_together(mistake, says):
    d = torch.full((64, 8), -1.0)
    kernel = compile_kernel(TOGETHER, f"together<{mistake}>")
    kernel[1, 128](d, 0)
    assert (d == 16).all()
    with pytest.raises(RuntimeError, match=says):
        kernel[1, 128](d, 1)
    with pytest.raises(RuntimeError, match="its warpgroup has only 64 threads"):
        kernel[1, 64](d, 0)
    (problem, *_) = Tracer(TOGETHER, f"together<{mistake}>")[1, 128](d, 1).problems
    assert problem.line, problem
