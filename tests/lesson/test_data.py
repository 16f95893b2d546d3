"""Pictures and digits: what is loaded, and what is said when it cannot be."""

import hashlib
import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate

from utils.lesson import data
from utils.lesson.data import IMAGES, load_digits, load_image


def picture(path, mode="RGB", size=(17, 13), **kwargs):
    """A picture of random pixels, written to `path`; returns its values."""
    shape = (size[1], size[0]) + ((len(mode),) if len(mode) in (3, 4) else (2,) if mode == "LA" else ())
    values = np.random.default_rng().integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(values, mode if mode == "LA" else None).save(path, **kwargs)
    return values


@pytest.mark.parametrize(
    "name, shape", [("chelsea", (3, 300, 451)), ("grace_hopper", (3, 600, 512)), ("hubble_deep_field", (3, 872, 1000))]
)
def test_bundled_pictures(name, shape):
    x = load_image(name)
    assert x.dtype == torch.uint8 and tuple(x.shape) == shape
    assert x.is_contiguous() and x.device.type == "cpu"
    assert x.float().std() > 20  # a photograph, not one colour
    (file,) = IMAGES.glob(f"{name}.*")
    np.testing.assert_array_equal(x.permute(1, 2, 0).numpy(), np.array(Image.open(file)))


def test_every_bundled_file_is_known_and_credited():
    files = {path.name for path in IMAGES.iterdir() if path.suffix in (".png", ".jpg", ".npz")}
    assert set(data.SHA256) <= files
    credits = (IMAGES / "CREDITS.md").read_text()
    assert all(f"`{name}`" in credits for name in data.SHA256)


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_path_gives_the_values_of_the_file(tmp_path, as_path):
    values = picture(tmp_path / "a.png")
    x = load_image(as_path(tmp_path / "a.png"))
    torch.testing.assert_close(x, torch.from_numpy(values).permute(2, 0, 1))


@pytest.mark.parametrize("wide, high, size, expected", [(1280, 1014, 512, (512, 646)), (300, 451, 150, (225, 150))])
def test_size_is_the_short_side(tmp_path, wide, high, size, expected):
    Image.new("RGB", (wide, high)).save(tmp_path / "a.png")
    assert tuple(load_image(tmp_path / "a.png", size=size).shape) == (3, *expected)


def test_size_keeps_the_picture_and_may_enlarge():
    x, small, large = load_image("chelsea"), load_image("chelsea", size=75), load_image("chelsea", size=600)
    assert tuple(small.shape) == (3, 75, 112) and tuple(large.shape) == (3, 600, 902)
    expected = interpolate(x[None].float(), (75, 112), mode="bilinear", antialias=True)[0]
    assert (small.float() - expected).abs().max() <= 1.01  # Pillow rounds twice
    assert load_image("chelsea", size=np.int64(75)).equal(small)


@pytest.mark.parametrize(
    "size, kind", [(0, ValueError), (-5, ValueError), (1.5, TypeError), ("150", TypeError), (10**6, ValueError)]
)
def test_bad_size(size, kind):
    with pytest.raises(kind, match=f"size.*{size}"):
        load_image("chelsea", size=size)


def test_a_turned_photo_is_turned_back(tmp_path):
    values = np.zeros((8, 16, 3), dtype=np.uint8)
    values[:, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    Image.fromarray(values).save(tmp_path / "a.png", exif=exif)
    x = load_image(tmp_path / "a.png")
    assert tuple(x.shape) == (3, 16, 8)
    assert (x[:, :8] == 255).all() and (x[:, 8:] == 0).all()


def test_missing_picture_names_what_is_bundled(tmp_path):
    for name in ("chelsae", str(tmp_path / "no" / "such.png"), "http://127.0.0.1/a.png"):
        with pytest.raises(FileNotFoundError) as caught:
            load_image(name)
        for word in (repr(name), "chelsea", "grace_hopper", "hubble_deep_field"):
            assert word in str(caught.value)


def test_an_empty_name_and_a_huge_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the name of a picture is empty: bundled are chelsea, grace_hopper"):
        load_image("")
    with open(tmp_path / "huge.png", "wb") as huge:
        huge.truncate(10**12)  # takes no room on the disk
    with pytest.raises(ValueError, match=r"has 1,000,000,000,000 bytes, more than [\d,]+: is it a picture"):
        load_image(tmp_path / "huge.png")
    for name in ("no\0name", "\ud800", b"bytes.png"):
        with pytest.raises(FileNotFoundError, match="bundled are chelsea"):
            load_image(name)


def test_what_is_no_file_is_refused_and_never_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")  # to read it would be to wait for ever
    (tmp_path / "link.png").symlink_to("/dev/zero")
    for path, kind in [(tmp_path, "is a folder"), (tmp_path / "pipe.png", "a pipe"), (tmp_path / "link.png", "device")]:
        with pytest.raises(ValueError, match=kind) as caught:
            load_image(path)
        assert repr(str(path)) in str(caught.value)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_truncated_pictures(tmp_path, suffix):
    whole, cut = tmp_path / f"a.{suffix}", tmp_path / f"cut.{suffix}"
    picture(whole, size=(170, 130))
    content = whole.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    load_image(whole)
    for convert in (False, True):
        with pytest.raises(ValueError, match="damaged or cut short.* 170 x 130") as caught:
            load_image(cut, convert=convert)
        assert f"{len(content) // 2:,} bytes" in str(caught.value) and "cut." in str(caught.value)


def test_what_is_no_picture(tmp_path):
    (tmp_path / "a.png").write_text("<html>not found</html>")
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(ValueError, match="a.png' is not a picture.* 22 bytes and begins with b'<html>"):
        load_image(tmp_path / "a.png")
    with pytest.raises(ValueError, match="b.png' is not a picture.*empty"):
        load_image(tmp_path / "b.png")


def test_too_many_pixels(tmp_path, monkeypatch):
    picture(tmp_path / "a.png", size=(17, 13))
    monkeypatch.setattr(data, "MOST_PIXELS", 200)
    with pytest.raises(ValueError, match="17 x 13 pixels, more than 200"):
        load_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    "mode, channels", [("L", "1 channel of 8"), ("LA", "2 channels of 8"), ("RGBA", "4 channels of 8")]
)
def test_other_channels_are_refused_or_converted(tmp_path, mode, channels):
    values = picture(tmp_path / "a.png", mode).astype(float)
    with pytest.raises(ValueError) as caught:
        load_image(tmp_path / "a.png")
    for word in (channels, f"mode {mode}", "convert=True", "a.png"):
        assert word in str(caught.value)
    x = load_image(tmp_path / "a.png", convert=True)
    assert x.dtype == torch.uint8 and tuple(x.shape) == (3, 13, 17)
    colour, alpha = (values[..., :-1], values[..., -1:] / 255) if mode.endswith("A") else (values[..., None], 1.0)
    expected = np.broadcast_to(colour * alpha + 255 * (1 - alpha), (13, 17, 3))  # over white
    np.testing.assert_allclose(x.permute(1, 2, 0).numpy(), expected, atol=1.01)


def png16(path, values):
    """A PNG file of 16-bit values (H, W) or (H, W, 3), which Pillow itself cannot write in colour."""
    import zlib

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    high, wide = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", wide, high, 16, 0 if values.ndim == 2 else 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


@pytest.mark.parametrize("shape, channels", [((5, 7), "1 channel of 16"), ((5, 7, 3), "3 channels of 16")])
def test_16_bits_are_refused_or_scaled(tmp_path, shape, channels):
    values = np.random.default_rng().integers(0, 65_536, shape)
    values.flat[:2] = 0, 65_535
    png16(tmp_path / "a.png", values)
    with pytest.raises(ValueError, match=f"{channels} bits.*convert=True"):
        load_image(tmp_path / "a.png")
    x = load_image(tmp_path / "a.png", convert=True).permute(1, 2, 0).numpy()
    expected = np.broadcast_to(values[..., None] if len(shape) == 2 else values, (5, 7, 3)) / 257
    np.testing.assert_allclose(x, expected, atol=1)


def test_palette_and_float_pictures(tmp_path):
    Image.new("RGB", (4, 3), (200, 10, 30)).quantize(4).save(tmp_path / "a.gif")
    with pytest.raises(ValueError, match="mode P.*convert=True"):
        load_image(tmp_path / "a.gif")
    x = load_image(tmp_path / "a.gif", convert=True)
    assert x[:, 0, 0].tolist() == [200, 10, 30]
    Image.fromarray(np.ones((3, 4), dtype=np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(ValueError, match="floating-point"):
        load_image(tmp_path / "a.tiff", convert=True)


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """The bundled files in a folder where they may be damaged."""
    for name in data.SHA256:
        (tmp_path / name).write_bytes((IMAGES / name).read_bytes())
    monkeypatch.setattr(data, "IMAGES", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(data.SHA256))
def test_changed_and_missing_bundled_files(copies, name):
    def load():
        return load_digits(3) if name == "digits.npz" else load_image(name.split(".")[0])

    load()
    content = bytearray((copies / name).read_bytes())
    content[-1] ^= 1
    (copies / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} was changed.*sha256.*git checkout -- images/{name}"):
        load()
    (copies / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} belongs to the course.*git checkout"):
        load()


def test_digits_are_the_enlarged_file():
    images, labels = load_digits()
    assert images.dtype == torch.float32 and tuple(images.shape) == (1797, 784) and images.is_contiguous()
    assert labels.dtype == torch.int64 and tuple(labels.shape) == (1797,)
    with np.load(IMAGES / "digits.npz", allow_pickle=False) as file:
        small, expected_labels = torch.from_numpy(file["images"]), torch.from_numpy(file["labels"])
    torch.testing.assert_close(labels, expected_labels.long())
    large = interpolate(small[:, None].double() / 16, (28, 28), mode="bilinear").reshape(-1, 784)
    assert (images - large).abs().max() <= 0.5 / 255 + 1e-6  # rounded to 256 levels
    assert images.min() == 0 and images.max() == 1


def test_repeated_digits_are_shifted_copies():
    images, labels = load_digits(4000)
    torch.testing.assert_close(labels, labels[:1797].repeat(3)[:4000])
    first = torch.nn.functional.pad(images[:1797].reshape(-1, 28, 28), (2, 2, 2, 2))
    shifts = set()
    for row in np.random.default_rng().choice(np.arange(1797, 4000), 300, replace=False):
        here = images[row].reshape(28, 28)
        source = first[row % 1797]
        found = [(y, x) for y in range(5) for x in range(5) if source[y : y + 28, x : x + 28].equal(here)]
        assert found, f"row {row} is no shifted copy of row {row % 1797}"
        shifts.update(found[:1] if len(found) == 1 else [])
    assert len(shifts) > 15  # of 25


def test_digits_follow_the_seed():
    images, labels = load_digits(3000, seed=5)
    again, labels_again = load_digits(3000, seed=5)
    other, other_labels = load_digits(3000, seed=6)
    assert images.equal(again) and labels.equal(labels_again)
    assert images[:1797].equal(other[:1797]) and labels.equal(other_labels)
    assert not images[1797:].equal(other[1797:])
    longer, _ = load_digits(5000, seed=5)
    assert longer[:3000].equal(images)
    # the same numbers on every machine, so that lessons can state sums
    digest = hashlib.sha256((images * 255).round().to(torch.uint8).numpy().tobytes()).hexdigest()
    assert digest.startswith("56612a53f1cbc5b7")


@pytest.mark.parametrize("rows", [0, 1, 17, 1797, 1798])
def test_any_number_of_digits(rows):
    images, labels = load_digits(rows)
    assert tuple(images.shape) == (rows, 784) and tuple(labels.shape) == (rows,)
    assert images.equal(load_digits(2000)[0][:rows])


def test_bad_rows():
    with pytest.raises(ValueError, match="rows must be at least 0, but it is -1"):
        load_digits(-1)
    with pytest.raises(TypeError, match="rows must be a whole number, but it is 10.5"):
        load_digits(10.5)


def test_many_digits_come_quickly():
    load_digits(10)
    start = time.process_time()
    images, _ = load_digits(50_000)
    assert time.process_time() - start < 4  # about 0.5 s
    assert tuple(images.shape) == (50_000, 784)


class Touch:
    """Unpickled, this leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_digits_are_not_unpickled(copies, monkeypatch):
    witness = copies / "it was unpickled"
    trap = np.empty(1, dtype=object)
    trap[0] = Touch(witness)
    np.savez(copies / "digits.npz", images=trap, labels=trap)
    digest = hashlib.sha256((copies / "digits.npz").read_bytes()).hexdigest()
    monkeypatch.setitem(data.SHA256, "digits.npz", digest)  # even when the checksum is right
    with pytest.raises(ValueError, match="allow_pickle"):
        load_digits(3)
    assert not witness.exists()
