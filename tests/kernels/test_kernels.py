"""Every kernel of the course against a float64 reference: awkward sizes, fresh random inputs, poisoned outputs."""

import functools
import re

import pytest
import torch

import kernels
from kernels import functions, host, launched, load, names, source
from tests.kernels.launches import (
    LAUNCHES,
    narrow,
)
from utils.cuda.kernel import Tracer

SIZES = [(0, 5), (5, 0), (1, 1), (1, 17), (17, 1), (13, 19), (16, 16), (65, 100), (150, 225), (257, 31)]
GREY = {  # by the axis that the three colours have in the picture
    "rgb_to_grayscale": 0,
    "rgb_to_grayscale_2d": 0,
    "rgb_to_grayscale_vector": 0,
    "rgb_to_grayscale_hwc": 2,
}
MATRIX_PRODUCTS = ["matmul", "matmul_tiled", "matmul_registers", "matmul_async", "matmul_fast"]  # the ladder
MATRIX_PRODUCTS += ["matmul_rows", "matmul_narrow"]
NORMS = ["layernorm", "layernorm_backward"]
TRANSPOSES = ["naive", "tiled", "padded", "swizzled", "rows", "wide", "large", "registers", "fast"]
MATMULS = [("matmul_tiled", "matmul_tiled")]  # the operation, its function, and a tile
MATMULS += [("matmul_tiled", "matmul_dynamic", tile) for tile in (1, 7, 16, 32)]
MATMULS += [("matmul_tiled", "matmul_template", tile) for tile in (8, 16, 32)]
LADDER = ("matmul", "matmul_registers", "matmul_async", "matmul_fast")
MATMULS += [(name, function) for name in LADDER for function in functions(name)]
NARROW = [(name, function) for name in ("matmul_rows", "matmul_narrow") for function in functions(name)]


@pytest.fixture
def module(backend):
    """`load` for the backend at hand; what load remembers is the other backend's."""
    return lambda name: load.__wrapped__(name)


def places(x):
    """x itself, and the same values one element behind the places where a tensor begins as a rule."""
    behind = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape)
    return x, behind.copy_(x)


def grey_reference(image):
    r, g, b = image.cpu().double()
    return (0.2989 * r + 0.5870 * g + 0.1140 * b).to(torch.uint8)


@pytest.mark.parametrize("function", GREY)
def test_grayscale(module, backend, poison, function):
    rgb_to_grayscale = getattr(module("grayscale"), function)
    pixels = differing = 0
    for h, w in [*SIZES, (10, 10), (48, 35)]:  # 100 pixels are a multiple of 4, 1680 of 16
        planes = torch.randint(0, 256, (3, h, w), dtype=torch.uint8).to(backend)
        for image in places(planes.movedim(0, GREY[function]).contiguous()):
            poison(h * w, torch.uint8, backend)
            grey = rgb_to_grayscale(image)
            assert (grey.dtype, grey.shape, grey.device) == (torch.uint8, (h, w), image.device)
            # Float32 rounds otherwise than float64, and fused multiply-add otherwise than two steps: a value that falls
            # next to a whole number may end one grey level lower or higher.
            apart = (grey.cpu().int() - grey_reference(planes).int()).abs()
            assert not apart.numel() or apart.max() <= 1
            pixels, differing = pixels + h * w, differing + int((apart != 0).sum())
    assert differing <= pixels // 1000, f"{differing} of {pixels} pixels differ by one grey level"


@pytest.mark.parametrize(
    "sizes",
    [
        *[(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (17, 1, 17), (5, 784, 10), (65, 100, 70), (31, 37, 41)],
        *[(128, 64, 128), (130, 20, 260), (257, 9, 129), (66, 101, 68), (66, 100, 69)],  # around the larger tiles
    ],
)
def test_matmul(module, backend, poison, sizes):
    h, k, w = sizes
    for m, n in zip(places(torch.randn(h, k).to(backend)), places(torch.randn(k, w).to(backend)), strict=True):
        for name, function, *tile in MATMULS + (NARROW if w <= 16 else []):
            poison(h * w, torch.float32, backend)
            out = getattr(module(name), function)(m, n, *tile)
            assert (out.dtype, out.shape, out.device) == (torch.float32, (h, w), m.device)
            assert_product(out, m, n)


@pytest.mark.parametrize("w", range(1, 17))
def test_narrow_products(module, backend, poison, w):
    for h, k in ((1, 1), (33, 31), (129, 512), (130, 513), (65, 1100)):
        m, n = torch.randn(h, k).to(backend), torch.randn(k, w).to(backend)
        for name, function in NARROW:
            poison(h * w, torch.float32, backend)
            assert_product(getattr(module(name), function)(m, n), m, n)


def test_products_that_fill_the_gpu_take_large_tiles(module, backend, poison):
    """With a block of 128 x 256 for nearly each SM, matmul_fast takes another kernel than for small matrices."""
    sms = 132 if backend.type == "cpu" else torch.cuda.get_device_properties(backend).multi_processor_count
    for w in (128 * sms, 128 * sms - 1):  # rows of n that begin at multiples of 16 bytes, and others
        m, n = torch.randn(3, 17).to(backend), torch.randn(17, w).to(backend)
        poison(3 * w, torch.float32, backend)
        assert_product(module("matmul_fast").matmul_fast(m, n), m, n)


def assert_product(out, m, n):
    m, n = m.cpu().double(), n.cpu().double()
    # A sum of k products, each rounded: the error grows with the sum of the products' magnitudes.
    bound = 1e-6 * (m.shape[1] + 1) ** 0.5 * (m.abs() @ n.abs()) + 1e-12
    assert ((out.cpu().double() - m @ n).abs() <= bound).all()


@pytest.mark.parametrize("shape", [(0,), (), (1,), (17,), (65, 100, 70), (1031,)])
def test_square(module, backend, poison, shape):
    x = torch.randn(shape).to(backend)
    poison(x.numel(), torch.float32, backend)
    out = module("square").square(x)
    assert out.device == x.device
    torch.testing.assert_close(out.cpu(), x.cpu().double().square().float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("function", ["copy", "copy_vector"])
@pytest.mark.parametrize("shape", [(0,), (), (1,), (2,), (3,), (4,), (17,), (65, 100, 70), (1031,)])
def test_copy(module, backend, poison, function, shape):
    for x in places(torch.randn(shape).to(backend)):
        poison(x.numel(), torch.float32, backend)
        out = getattr(module("copy"), function)(x)
        assert (out.dtype, out.shape, out.device) == (x.dtype, x.shape, x.device)
        assert torch.equal(out, x) and (not x.numel() or out.data_ptr() != x.data_ptr())


@pytest.mark.parametrize("way", TRANSPOSES)
def test_transpose(module, backend, poison, way):
    for h, w in [*SIZES, (4, 8), (64, 128), (68, 132), (4, 1031), (100, 3)]:
        for x in places(torch.randn(h, w).to(backend)):
            poison(h * w, torch.float32, backend)
            out = getattr(module("transpose"), f"transpose_{way}")(x)
            assert (out.dtype, out.shape, out.device) == (x.dtype, (w, h), x.device)
            assert torch.equal(out, x.t()) and out.is_contiguous(), (h, w)


def image(*shape, dtype=torch.uint8):
    return torch.zeros(shape, dtype=dtype)


BAD = {
    "float image": (
        "grayscale",
        "rgb_to_grayscale",
        [image(3, 4, 5, dtype=torch.float32)],
        TypeError,
        "image must be uint8, but it is float32",
    ),
    "two dimensions": (
        "grayscale",
        "rgb_to_grayscale_2d",
        [image(4, 5)],
        ValueError,
        r"3 dimensions, but it has 2: its shape is \[4, 5\]",
    ),
    "RGBA": (
        "grayscale",
        "rgb_to_grayscale",
        [image(4, 6, 5)],
        ValueError,
        r"3 planes.*\[4, 6, 5\]",
    ),
    "grey": (
        "grayscale",
        "rgb_to_grayscale_2d",
        [image(1, 6, 5)],
        ValueError,
        r"3 planes.*\[1, 6, 5\]",
    ),
    "rows and columns swapped": (
        "grayscale",
        "rgb_to_grayscale",
        [image(6, 5, 3).permute(2, 0, 1)],
        ValueError,
        r"contiguous, .*\.contiguous\(\)",
    ),
    "inner sizes": (
        "matmul",
        "matmul",
        [torch.ones(2, 3), torch.ones(4, 5)],
        ValueError,
        "m has 3 columns .*n has 4 rows",
    ),
    "integer matrix": (
        "matmul",
        "matmul",
        [torch.ones(2, 3), torch.ones(3, 5, dtype=torch.int64)],
        TypeError,
        "n must be float32, but it is int64",
    ),
    "vector": (
        "matmul",
        "matmul",
        [torch.ones(3), torch.ones(3, 5)],
        ValueError,
        "m must have 2 dimensions, but it has 1",
    ),
    "transposed": (
        "matmul",
        "matmul",
        [torch.ones(3, 2).t(), torch.ones(3, 5)],
        ValueError,
        "m must be contiguous",
    ),
    "double to copy": (
        "copy",
        "copy_vector",
        [torch.ones(3).double()],
        TypeError,
        "x must be float32, but it is float64",
    ),
    "columns to copy": (
        "copy",
        "copy",
        [torch.ones(2, 3).t()],
        ValueError,
        r"x must be contiguous, but its strides are \[1, 3\] for the shape \[3, 2\]",
    ),
    "a stack to transpose": (
        "transpose",
        "transpose_fast",
        [torch.ones(2, 3, 4)],
        ValueError,
        r"x must have 2 dimensions, but it has 3: its shape is \[2, 3, 4\]",
    ),
    "transposed already": (
        "transpose",
        "transpose_naive",
        [torch.ones(2, 3).t()],
        ValueError,
        "x must be contiguous",
    ),
    "planes for hwc": (
        "grayscale",
        "rgb_to_grayscale_hwc",
        [image(3, 6, 5)],
        ValueError,
        r"3 bytes a pixel, .* shape is \[3, 6, 5\]",
    ),
    "inner sizes of tiles": (
        "matmul_tiled",
        "matmul_tiled",
        [torch.ones(2, 3), torch.ones(4, 5)],
        ValueError,
        "m has 3 columns .*n has 4 rows",
    ),
    "no tile": (
        "matmul_tiled",
        "matmul_dynamic",
        [torch.ones(2, 3), torch.ones(3, 5), 0],
        ValueError,
        "tile must be from 1 to 32, but it is 0",
    ),
    "tile of 1089 threads": (
        "matmul_tiled",
        "matmul_dynamic",
        [torch.ones(2, 3), torch.ones(3, 5), 33],
        ValueError,
        "but it is 33: a block of tile x tile threads may have 1024",
    ),
    "tile that is not compiled": (
        "matmul_tiled",
        "matmul_template",
        [torch.ones(2, 3), torch.ones(3, 5), 12],
        ValueError,
        "tile must be 8, 16 or 32, but it is 12: matmul_dynamic takes others",
    ),
    "17 columns": (
        "matmul_narrow",
        "matmul_narrow",
        [torch.ones(2, 3), torch.ones(3, 17)],
        ValueError,
        "n may have 16 columns here, but it has 17: matmul_fast takes more",
    ),
    "columns beyond the grid": (
        "matmul",
        "matmul_uncoalesced",
        [torch.ones(1, 1), torch.ones(1, 524_281)],
        ValueError,
        "n may have 524280 columns here, but it has 524281",
    ),
    "inner sizes, fast": (
        "matmul_fast",
        "matmul_fast",
        [torch.ones(2, 3), torch.ones(4, 5)],
        ValueError,
        "m has 3 columns .*n has 4 rows",
    ),
    "columns beyond an int": (
        "matmul",
        "matmul",
        [torch.ones(0, 2**31 - 31), torch.ones(2**31 - 31, 0)],
        ValueError,
        "m has 2147483617 columns .*, but at most 2147483616 fit",
    ),
    "half": (
        "square",
        "square",
        [torch.ones(3).half()],
        TypeError,
        "x must be float32, but it is float16",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_values(module, backend, case):
    name, function, args, error, message = BAD[case]
    with pytest.raises(error, match=message) as raised:
        getattr(module(name), function)(*(a.to(backend) if torch.is_tensor(a) else a for a in args))
    assert "Exception raised from" not in str(raised.value), "no C++ stack in the message"


def test_tensor_on_the_wrong_device_is_refused(module, backend):
    elsewhere = "meta" if backend.type == "cpu" else "cpu"
    with pytest.raises(RuntimeError, match=f"x must be a CUDA tensor, but it is on {elsewhere}"):
        module("square").square(torch.ones(3, device=elsewhere))


def test_rows_beyond_the_grid_are_refused(module, backend):
    rows = 65_535 * 16 + 1
    with pytest.raises(ValueError, match=f"there are {rows} rows, but a grid reaches 1048560"):
        module("grayscale").rgb_to_grayscale_2d(torch.zeros(3, rows, 1, dtype=torch.uint8, device=backend))
    grey = module("grayscale").rgb_to_grayscale(torch.full((3, rows, 1), 200, dtype=torch.uint8, device=backend))
    assert set(grey.unique().tolist()) <= {199, 200}


def test_transposes_of_more_rows_than_a_grid_reaches(module, backend):
    rows = 65_535 * 32 + 1
    x = torch.arange(rows, dtype=torch.float32, device=backend)[:, None]
    for way in TRANSPOSES[:-1]:
        with pytest.raises(ValueError, match=f"there are {rows} rows, but a grid reaches {rows - 1} with 32 threads"):
            getattr(module("transpose"), f"transpose_{way}")(x)
    assert torch.equal(module("transpose").transpose_fast(x), x.t())
    x = torch.arange(4.0 * (rows + 3), device=backend).view(-1, 4)
    assert torch.equal(module("transpose").transpose_fast(x), x.t())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_same_source_same_answer_on_both_backends(monkeypatch):
    """The seam: one text, built for the GPU and for the CPU."""
    import utils.cuda.compile

    image = torch.randint(0, 256, (3, 513, 771), dtype=torch.uint8)
    m, n = torch.randn(65, 100), torch.randn(100, 70)
    answers = {}
    for device in ("cuda", "cpu"):
        monkeypatch.setattr(utils.cuda.compile, "device", lambda d=device: torch.device(d))
        grey = load.__wrapped__("grayscale").rgb_to_grayscale(image.to(device)).cpu()
        answers[device] = grey, load.__wrapped__("matmul").matmul(m.to(device), n.to(device)).cpu()
    apart = (answers["cuda"][0].int() - answers["cpu"][0].int()).abs()
    print(f"\n{int((apart != 0).sum())} of {apart.numel()} pixels differ by one grey level between GPU and CPU")
    assert apart.max() <= 1
    torch.testing.assert_close(answers["cuda"][1], answers["cpu"][1], rtol=1e-4, atol=1e-5)


# ---- what a trace says of each kernel -------------------------------------------------------------------------------


@functools.cache
def operations():
    """Which operation each kernel of the course belongs to."""
    return {kernel: name for name in names() for kernel in launched(name)}


def traced(kernel, *sizes):
    """The trace of a kernel of the course, and its tensors after the run."""
    operation = operations()[kernel]
    grid, block, shared, *args = LAUNCHES[kernel][0](*sizes)
    tensors = [arg for arg in args if torch.is_tensor(arg)]
    written = [] if operation == "histogram" else tensors[-1:]  # a histogram adds only to the bins that it meets
    trace = Tracer(source(operation), kernel, together=launched(operation))[grid, block, shared](*args, outputs=written)
    return trace, [arg for arg in trace.args if torch.is_tensor(arg)]


def test_every_kernel_of_the_course_is_traced():
    assert LAUNCHES.keys() == operations().keys()


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_a_trace_finds_nothing_wrong(kernel):
    for sizes in LAUNCHES[kernel][1]:
        trace, (*inputs, out) = traced(kernel, *sizes)
        assert trace.problems == [], sizes
        if len(LAUNCHES[kernel]) == 3:
            LAUNCHES[kernel][2](out, *inputs)
        elif "gray" in kernel:
            planes = inputs[0].t() if "hwc" in kernel else inputs[0]
            assert (out.int() - grey_reference(planes).int()).abs().max() <= 1
        elif "matmul" in kernel:
            assert_product(out, *inputs)
        else:
            expected = {"square": torch.square, "copy": torch.clone, "transpose": torch.t}[kernel.split("_")[0]]
            assert torch.equal(out, expected(inputs[0]))


def counted(kernel, *sizes):
    """What a kernel's accesses cost: the sums of the counts by (space, op)."""
    requests = traced(kernel, *sizes)[0].requests
    return requests.groupby(["space", "op"])[["requests", "sectors", "wavefronts", "bank_conflicts"]].sum()


@pytest.mark.parametrize(
    ("kernel", "a_store", "conflicts"),
    [
        ("naive", 32, None),
        ("tiled", 4, 31),
        ("padded", 4, 0),
        ("swizzled", 4, 0),
        ("rows", 4, 0),
        ("wide", 16, 0),
        ("large", 16, 1),
        ("registers", 16, 0),
        ("fast", 16, 0),
        ("any", 4, 0),
    ],
)
def test_what_a_transpose_costs(kernel, a_store, conflicts):
    h, w, bytes_a_lane = 128, 64, 16 if a_store == 16 else 4
    cost = counted(f"transpose_{kernel}_kernel", h, w, 0)
    for op, sectors in ("load", bytes_a_lane), ("store", a_store):
        requests = h * w * 4 // (32 * bytes_a_lane)
        assert (cost.requests["global", op], cost.sectors["global", op]) == (requests, requests * sectors)
    assert ("shared", "load") in cost.index or conflicts is None
    if conflicts is not None:
        assert cost.bank_conflicts["shared", "load"] == conflicts * cost.requests["shared", "load"]
        assert cost.bank_conflicts["shared", "store"] == 0


def test_odd_transposes_write_whole_sectors():
    """Where rows of out begin within sectors, blocks that meet there write none in parts: each is written once."""
    h, w = 135, 65
    cost = counted("transpose_any_kernel", h, w, 0)
    sectors = sum(-(-(r * h + h) // 8) - r * h // 8 for r in range(w))  # that a row of out touches
    assert cost.sectors["global", "store"] == sectors
    assert counted("transpose_rows_kernel", h, w, 0).sectors["global", "store"] > 1.1 * sectors


def test_what_16_bytes_a_thread_save():
    one, vector = (counted(f"copy{kind}_kernel", 4096, 0, 0) for kind in ("", "_vector"))
    for op in "load", "store":
        assert (one.requests["global", op], one.sectors["global", op]) == (128, 512)
        assert (vector.requests["global", op], vector.sectors["global", op]) == (32, 512)


def test_what_the_layout_of_a_picture_costs():
    """8192 pixels are 256 warps of pixels, or 16 with 16 pixels a thread; each warp loads three times."""
    for kind, requests, sectors in ("", 768, 768), ("vector_", 48, 768), ("hwc_", 768, 2304):
        kernel = f"rgb_to_grayscale_{kind}kernel" + ("<uint4>" if kind == "vector_" else "")
        cost = counted(kernel, 8192, 0, 0)
        assert (cost.requests["global", "load"], cost.sectors["global", "load"]) == (requests, sectors), kernel
        assert cost.sectors["global", "store"] == 256


def test_what_tiles_save():
    size = 64
    naive = counted("matmul_kernel", size, size, size)
    assert (naive.requests["global", "load"], naive.sectors["global", "load"]) == (16384, 32768)
    for tile, kernel in (
        (16, "matmul_tiled_kernel"),
        (16, "matmul_template_kernel<16>"),
        (32, "matmul_template_kernel<32>"),
    ):
        tiled = counted(kernel, size, size, size)
        # Each element is read once for every tile of the other matrix that it meets, not once for every element.
        elements = 2 * size * size * (size // tile)
        assert (tiled.requests["global", "load"], tiled.sectors["global", "load"]) == (elements // 32, elements // 8)
        assert tiled.bank_conflicts["shared", "load"] == 0 and tiled.bank_conflicts["shared", "store"] == 0


# Reads of shared memory and passes for each FMA of a warp. A thread of matmul_square_kernel, say, takes 8 + 8 numbers
# for 64 products; of those of n, 8 apart, four meet in a bank, and of those of m two.
RUNGS = {
    "matmul_column_kernel<64, 64, 8, 8>": (9 / 8, 9 / 8),
    "matmul_square_kernel<128, 128, 8, 8, 8>": (16 / 64, (8 * 4 + 8 * 2) / 64),
    "matmul_vector_kernel<128, 128, 8, 8, 8>": (4 / 64, (2 * 8 + 2 * 2) / 64),
    "matmul_banks_kernel<128, 128, 8, 8, 8>": (4 / 64, (2 * 4 + 2 * 2) / 64),
    "matmul_warp_kernel<128, 128, 8, 8, 8>": (4 / 64, (2 * 2 + 2 * 2) / 64),
    "matmul_async_kernel<128, 128, 8, 8, 8>": (4 / 64, (2 * 2 + 2 * 2) / 64),
    "matmul_async_kernel<128, 256, 8, 16, 8>": (6 / 128, (4 * 2 + 2 * 2) / 128),
    "matmul_pipelined_kernel<64, 128, 8, 8, 8, 4, true>": (4 / 64, (2 * 2 + 2 * 2) / 64),
    "matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, true>": (6 / 128, (4 * 2 + 2 * 2) / 128),
}


@pytest.mark.parametrize("kernel", RUNGS)
def test_what_a_rung_of_the_ladder_costs(kernel):
    h, w, k = 256, 256, 64
    cost, fmas = counted(kernel, h, w, k), h * w * k // 32
    loads = cost.loc["shared", "load"]
    rung = kernel.split("_")[1]
    pipelined, copied = rung == "pipelined", rung in ("async", "pipelined")
    steps = (k + 1) / k if pipelined else 1  # it loads a step ahead, and so once too often
    assert (loads.requests / fmas / steps, loads.wavefronts / fmas / steps) == RUNGS[kernel]
    free = rung in ("column", "banks", "warp", "async", "pipelined")
    conflicts = loads.bank_conflicts if copied else cost.bank_conflicts.sum()  # of its copies: see below
    assert free == (conflicts == 0)
    # A tile of BH x BW reads (BH + BW) * k elements, and every sector that is loaded or stored is used in full.
    bh, bw, bk = [int(number) for number in re.findall(r"\d+", kernel)][:3]
    assert cost.sectors["global", "load"] == (h // bh) * (w // bw) * (bh + bw) * k // 8
    if copied:  # rows of m begin in the same bank: 32 / bk of them meet in a copy. Copies of 16 bytes take no pass
        of_m, of_n = (h * k // 32) * (w // bw) * (32 // bk), (k * w // 32) * (h // bh)
        assert cost.wavefronts["shared", "store"] == of_m + (0 if pipelined else of_n)
    assert (cost.sectors["global", "store"] == h * w // 8) == (rung not in ("square", "vector"))


def test_a_narrow_product_reads_its_large_matrix_once():
    for sizes, w in (((4, 4, 3, 256, 384, 64), 3), ((10, 6, 2, 256, 896, 64), 10), ((16, 6, 2, 256, 1024, 64), 16)):
        h, k = 384, 512
        requests = traced(f"matmul_narrow_kernel<{', '.join(map(str, sizes))}, true>", h, w, k)[0].requests
        loads = requests[(requests.op == "load") & (requests.bytes == 16)]
        of_m = loads[(loads.space == "global") & (loads.line == loads.line.min())]  # its copies stand first
        assert of_m.sectors.tolist() == [h * k // 8] and of_m.requests.tolist() == [h * k // 128]
        assert loads[loads.space == "shared"].bank_conflicts.tolist() == [0, 0]  # of m's pieces and of n


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_blocks_that_do_the_same_cost_the_same(order):
    """The asynchronous copies of a loop, of another loop and of the code before them are not mixed up."""
    name, sizes = "matmul_narrow_kernel<10, 6, 2, 256, 896, 64, true>", (10, 6, 2, 256, 896, 64)
    kernel, costs = Tracer(source("matmul_narrow"), name), []
    for blocks in (1, 3):
        h, k, w = 192 * blocks, 80, 10  # rows that end within a piece
        grid, block, shared, *args = narrow(*sizes)(h, w, k)
        requests = kernel[grid, block, shared](*args, outputs=args[2:3], order=order).requests
        costs.append(requests.set_index(["line", "space", "op"])[["requests", "wavefronts"]])
        copies = requests[requests.bytes == 16].groupby(["line", "op"]).requests.sum().unstack().dropna()
        assert len(copies) == 2 and (copies.load <= copies.store).all()  # each load of a copy is stored
        # Of m: 8 warps copy two pieces of 24 rows each, two rows at once; of the second one most elements are zeros,
        # which make stores of their own.
        assert tuple(copies.iloc[0]) == (8 * blocks * 2 * 12, 8 * blocks * 3 * 12)
        assert copies.load.iloc[1] == copies.store.iloc[1]
    assert (costs[1] == 3 * costs[0]).all(axis=None)


def test_every_operation_is_two_files_and_says_what_it_offers():
    others = ["reduce", "scan", "softmax", "square", "transpose"]
    assert names() == ["copy", "crossentropy", "gelu", "grayscale", "histogram", *NORMS, *MATRIX_PRODUCTS, *others]
    assert functions("grayscale") == list(GREY)
    assert functions("transpose") == [f"transpose_{way}" for way in TRANSPOSES]
    assert launched("matmul_tiled")[-2:] == ["matmul_template_kernel<16>", "matmul_template_kernel<32>"]
    for name in names():
        assert "torch" not in source(name).replace("torchvision", ""), "device code needs no torch header"
        assert '#include "' not in source(name) + host(name), "the texts stand alone"


def test_the_ladder_is_listed_in_its_order():
    numbered = [f"{number}_{name}" for number, name in enumerate(MATRIX_PRODUCTS, start=1)]
    assert sorted(path.stem for path in kernels.folder.glob("matmul/*.cu")) == numbered
    rungs = re.findall(r"^\| (?:`(\w+)` )?\| `(\w+)` \|", (kernels.folder / "matmul" / "README.md").read_text(), re.M)
    assert [file for file, _ in rungs if file] == numbered
    assert [rung for _, rung in rungs] == [rung for name in MATRIX_PRODUCTS for rung in functions(name)]


def test_unknown_operation_names_those_there_are():
    with pytest.raises(
        ValueError, match="no kernel 'greyscale': the course has copy, .*, matmul, matmul_tiled, .*, transpose"
    ):
        kernels.source("greyscale")
