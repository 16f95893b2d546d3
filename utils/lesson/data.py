"""The pictures and digits of the course, which are in `images/`, and pictures of your own."""

import hashlib
import os
from io import BytesIO
from operator import index
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps

IMAGES = Path(__file__).resolve().parents[2] / "images"

PICTURES = {
    "chelsea": "chelsea.png",
    "grace_hopper": "grace_hopper.jpg",
    "hubble_deep_field": "hubble_deep_field.jpg",
}
SHA256 = {
    "chelsea.png": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "digits.npz": "b2dab7b501728c22e9119ad76740b2e17c77a231e42d1e592380d90886f1a05e",
    "grace_hopper.jpg": "a8ca6d734765703b09728ab47fe59f473d93ae3967fc24c7c0288c3c7adb7130",
    "hubble_deep_field.jpg": "3a19c5dd8a927a9334bb1229a6d63711b1c0c767fb27e2286e7c84a3e2c2f5f4",
}

MOST_PIXELS = 80_000_000  # of a picture
MOST_BYTES = 8 * MOST_PIXELS  # of its file: 4 channels of 16 bits, not compressed


def load_image(name: str | os.PathLike, size: int | None = None, convert: bool = False) -> torch.Tensor:
    """Load a picture as a uint8 tensor (3, H, W) with values 0 to 255, on the CPU.

    `name` is one of the bundled pictures ('chelsea', 'grace_hopper', 'hubble_deep_field') or the path of your own.
    `size` is the new length of the short side in pixels; the long side follows, rounded down as torchvision's
    `resize` does it. A photo that a camera marked as rotated is rotated back.

    A picture that is not three channels of 8 bits is refused, unless `convert` is true: then grey becomes three
    equal channels, transparent parts become white, and 16 bits are scaled to 8.

    Raises FileNotFoundError for a picture that is not there, and ValueError for one that cannot be used, for a bundled
    one that was changed and for a bad `size`.
    """
    size = None if size is None else _whole(size, "size (the new short side in pixels)", least=1)
    name = os.fsdecode(name)
    if name in PICTURES:
        content = _read_bundled(PICTURES[name])
    else:
        content = _read_path(name)
    picture = _to_rgb(_decode(content, name), name, convert)
    if size is not None:
        picture = _resize(picture, size, name)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()


def load_digits(rows: int = 1797, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Handwritten digits: images float32 (rows, 784) with values 0 to 1, and labels int64 (rows,).

    Each row is a picture of 28x28 pixels, laid out row after row, enlarged (bilinear) from the 8x8 pixels of the
    bundled file and rounded to 256 levels. The first 1,797 rows are the file's digits. Rows past those repeat them
    in the same order, each moved by -2 to 2 pixels in both directions, chosen by `seed`; new pixels are black.
    The same `seed` gives the same rows on any machine, and fewer `rows` are the beginning of more.

    Raises ValueError or TypeError for bad `rows`, and ValueError when the file was changed.
    """
    rows = _whole(rows, "rows", least=0)
    with np.load(BytesIO(_read_bundled("digits.npz")), allow_pickle=False) as file:
        small, labels = file["images"], file["labels"]

    count, margin = len(small), 2
    large = np.pad(_enlarge(small), ((0, 0), (margin, margin), (margin, margin)))
    # windows[d, y, x] is digit d seen through a frame of 28x28 at row y and column x of the padded picture
    windows = np.lib.stride_tricks.sliding_window_view(large, (28, 28), axis=(1, 2))
    digit = np.arange(rows) % count
    shift = np.full((rows, 2), margin)
    if rows > count:
        # RandomState, not default_rng: NumPy promises that its stream never changes
        shift[count:] = np.random.RandomState(seed).randint(0, 2 * margin + 1, (rows - count, 2))
    images = windows[digit, shift[:, 0], shift[:, 1]].reshape(rows, 784)
    return torch.from_numpy(images).float().div_(255), torch.from_numpy(labels[digit]).long()


def _whole(value, name: str, least: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, but it is {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, but it is {number}")
    return number


def _read_bundled(file: str) -> bytes:
    path = IMAGES / file
    fix = f"Restore it with `git checkout -- images/{file}`, or fetch the course again."
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"{path} belongs to the course but cannot be read ({error.strerror}). {fix}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[file]:
        raise ValueError(
            f"{path} was changed: it has {len(content):,} bytes with sha256 {found[:16]}..., "
            f"expected {SHA256[file][:16]}... {fix}"
        )
    return content


def _read_path(name: str) -> bytes:
    if not name:
        raise ValueError(f"the name of a picture is empty: bundled are {', '.join(PICTURES)}")
    path = Path(name).expanduser()
    if not path.exists():
        raise FileNotFoundError(
            f"no picture {name!r}: bundled are {', '.join(PICTURES)}; as a path it was looked for at {path.absolute()}"
        )
    if not path.is_file():  # reading a pipe or a device might never end
        kind = "a folder" if path.is_dir() else "not a file but a pipe or a device"
        raise ValueError(f"{name!r} is {kind}: load_image takes one picture")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{name!r} has {size:,} bytes, more than {MOST_BYTES:,}: is it a picture?")
    return path.read_bytes()


def _decode(content: bytes, name: str) -> Image.Image:
    try:
        picture = Image.open(BytesIO(content))
    except Image.DecompressionBombError as error:
        raise ValueError(f"{name!r} has more than {MOST_PIXELS:,} pixels: make it smaller first") from error
    except Exception as error:  # the decoders raise many types for a file that is no picture
        raise ValueError(f"{name!r} is not a picture that can be read: {_beginning(content)}") from error
    wide, high = picture.size
    if wide * high > MOST_PIXELS:
        raise ValueError(f"{name!r} has {wide} x {high} pixels, more than {MOST_PIXELS:,}: make it smaller first")
    # Pillow silently reads 16-bit colour as 8 bits: note it before decoding, which forgets it
    sixteen = picture.mode.startswith("I") or any(";16" in str(tile) for tile in picture.tile)
    try:
        picture.load()
        picture = ImageOps.exif_transpose(picture)
    except Exception as error:
        raise ValueError(
            f"{name!r} is damaged or cut short: its {picture.format} header promises {wide} x {high} pixels, "
            f"but its {len(content):,} bytes cannot be decoded ({error})"
        ) from error
    picture.info["bits"] = 16 if sixteen else 8
    return picture


def _beginning(content: bytes) -> str:
    if not content:
        return "it is empty"
    return f"it has {len(content):,} bytes and begins with {content[:40]!r}"


def _to_rgb(picture: Image.Image, name: str, convert: bool) -> Image.Image:
    mode, bits, channels = picture.mode, picture.info["bits"], len(picture.getbands())
    if mode == "RGB" and bits == 8:
        return picture
    if not convert:
        raise ValueError(
            f"{name!r} has {channels} {'channel' if channels == 1 else 'channels'} of {bits} bits (mode {mode}), "
            f"but 3 of 8 bits (RGB) are needed: load_image({name!r}, convert=True) makes it RGB"
        )
    if mode == "F":
        raise ValueError(
            f"{name!r} holds floating-point numbers (mode F): their range is unknown, so convert it yourself"
        )
    if mode.startswith("I"):
        levels = np.array(picture).astype(np.int64)
        if levels.min() < 0 or levels.max() > 65_535:
            raise ValueError(f"{name!r} has levels {levels.min()} to {levels.max()}, not 16 bits: convert it yourself")
        picture = Image.fromarray(((levels + 128) // 257).astype(np.uint8))  # 65535 = 255 * 257
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def _resize(picture: Image.Image, size: int, name: str) -> Image.Image:
    wide, high = picture.size
    short = min(wide, high)
    wide, high = size * wide // short, size * high // short
    if wide * high > MOST_PIXELS:
        raise ValueError(f"size={size} would make {name!r} {wide} x {high} pixels, more than {MOST_PIXELS:,}")
    return picture.resize((wide, high), Image.Resampling.BILINEAR)  # averages when it makes smaller


def _enlarge(small: np.ndarray) -> np.ndarray:
    """Bilinear enlargement of uint8 (n, 8, 8) with values 0..16 to uint8 (n, 28, 28) with values 0..255.

    The centre of output pixel j is at (j + 0.5) * 8/28 - 0.5 = (4j - 5) / 14 input pixels. All weights are thus
    14ths, the sums are whole numbers, and the result is the same on every machine.
    """
    position = np.clip(4 * np.arange(28) - 5, 0, 7 * 14)
    left, rest = position // 14, position % 14
    weights = np.zeros((28, 8), dtype=np.int64)
    weights[np.arange(28), left] = 14 - rest
    weights[np.arange(28), np.minimum(left + 1, 7)] += rest
    top = 16 * 14 * 14
    sums = weights @ small.astype(np.int64) @ weights.T
    return ((255 * sums + top // 2) // top).astype(np.uint8)
