"""Every kernel of the course against a float64 reference: awkward sizes, fresh random inputs, poisoned outputs."""

import pytest
import torch

import kernels
from kernels import functions, host, load, names, source

SIZES = [(0, 5), (5, 0), (1, 1), (1, 17), (17, 1), (13, 19), (16, 16), (65, 100), (150, 225), (257, 31)]


@pytest.fixture
def module(backend):
    """`load` for the backend at hand; what load remembers is the other backend's."""
    return lambda name: load.__wrapped__(name)


def grey_reference(image):
    r, g, b = image.cpu().double()
    return (0.2989 * r + 0.5870 * g + 0.1140 * b).to(torch.uint8)


@pytest.mark.parametrize("function", ["rgb_to_grayscale", "rgb_to_grayscale_2d"])
def test_grayscale(module, backend, poison, function):
    rgb_to_grayscale = getattr(module("grayscale"), function)
    pixels = differing = 0
    for h, w in SIZES:
        image = torch.randint(0, 256, (3, h, w), dtype=torch.uint8).to(backend)
        poison(h * w, torch.uint8, backend)
        grey = rgb_to_grayscale(image)
        assert (grey.dtype, grey.shape, grey.device) == (torch.uint8, (h, w), image.device)
        # Float32 rounds otherwise than float64, and fused multiply-add otherwise than two steps: a value that falls
        # next to a whole number may end one grey level lower or higher.
        apart = (grey.cpu().int() - grey_reference(image).int()).abs()
        assert not apart.numel() or apart.max() <= 1
        pixels, differing = pixels + h * w, differing + int((apart != 0).sum())
    assert differing <= pixels // 1000, f"{differing} of {pixels} pixels differ by one grey level"


@pytest.mark.parametrize(
    "sizes", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (17, 1, 17), (5, 784, 10), (65, 100, 70), (31, 37, 41)]
)
def test_matmul(module, backend, poison, sizes):
    h, k, w = sizes
    m, n = torch.randn(h, k).to(backend), torch.randn(k, w).to(backend)
    poison(h * w, torch.float32, backend)
    out = module("matmul").matmul(m, n)
    assert (out.dtype, out.shape, out.device) == (torch.float32, (h, w), m.device)
    reference = m.cpu().double() @ n.cpu().double()
    # A sum of k products, each rounded: the error grows with the sum of the products' magnitudes.
    bound = 1e-6 * (k + 1) ** 0.5 * (m.cpu().double().abs() @ n.cpu().double().abs()) + 1e-12
    assert ((out.cpu().double() - reference).abs() <= bound).all()


@pytest.mark.parametrize("shape", [(0,), (), (1,), (17,), (65, 100, 70), (1031,)])
def test_square(module, backend, poison, shape):
    x = torch.randn(shape).to(backend)
    poison(x.numel(), torch.float32, backend)
    out = module("square").square(x)
    assert out.device == x.device
    torch.testing.assert_close(out.cpu(), x.cpu().double().square().float(), rtol=1e-6, atol=0)


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
        getattr(module(name), function)(*(a.to(backend) for a in args))
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_same_source_same_answer_on_both_backends(monkeypatch):
    """The seam: one text, built for the GPU and for the CPU."""
    import utils.compile

    image = torch.randint(0, 256, (3, 513, 771), dtype=torch.uint8)
    m, n = torch.randn(65, 100), torch.randn(100, 70)
    answers = {}
    for device in ("cuda", "cpu"):
        monkeypatch.setattr(utils.compile, "device", lambda d=device: torch.device(d))
        grey = load.__wrapped__("grayscale").rgb_to_grayscale(image.to(device)).cpu()
        answers[device] = grey, load.__wrapped__("matmul").matmul(m.to(device), n.to(device)).cpu()
    apart = (answers["cuda"][0].int() - answers["cpu"][0].int()).abs()
    print(f"\n{int((apart != 0).sum())} of {apart.numel()} pixels differ by one grey level between GPU and CPU")
    assert apart.max() <= 1
    torch.testing.assert_close(answers["cuda"][1], answers["cpu"][1], rtol=1e-4, atol=1e-5)


def test_every_operation_is_two_files_and_says_what_it_offers():
    assert names() == ["grayscale", "matmul", "square"]
    assert functions("grayscale") == ["rgb_to_grayscale", "rgb_to_grayscale_2d"]
    for name in names():
        assert "torch" not in source(name).replace("torchvision", ""), "device code needs no torch header"
        assert '#include "' not in source(name) + host(name), "the texts stand alone"


def test_unknown_operation_names_those_there_are():
    with pytest.raises(ValueError, match="no kernel 'greyscale': the course has grayscale, matmul, square"):
        kernels.source("greyscale")
