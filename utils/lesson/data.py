"""The pictures and digits of the course. They lie in `images/`; nothing is fetched unless an address is asked for."""

import gzip
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
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

TIMEOUT = 20.0  # seconds for an address to answer, and again for the whole answer to arrive
MOST_BYTES = 50_000_000  # of a picture or an archive from an address
MOST_PIXELS = 80_000_000  # of a picture
USER_AGENT = "cuda-course-notebooks/1.0 (a learner opening one file; Python urllib)"


def load_image(name: str | os.PathLike, size: int | None = None, convert: bool = False) -> torch.Tensor:
    """Load a picture as a uint8 tensor (3, H, W) with values 0 to 255, on the CPU.

    `name` is one of the bundled pictures ('chelsea', 'grace_hopper', 'hubble_deep_field'), a path, or an address
    that begins with http:// or https://. `size` is the new length of the short side in pixels; the long side
    follows, rounded down as torchvision's `resize` does it. A photo that a camera marked as turned is turned back.

    A picture that is not three channels of 8 bits is refused, unless `convert` is true: then grey becomes three
    equal channels, what is transparent shows white behind it, and 16 bits are scaled to 8.

    Raises FileNotFoundError for a picture that is not there, ValueError for one that cannot be used, for a bundled
    one that was changed and for a bad `size`, and OSError for an address that does not answer.
    """
    size = None if size is None else _whole(size, "size (the new short side in pixels)", least=1)
    name = os.fspath(name)
    if name in PICTURES:
        content = _read_bundled(PICTURES[name])
    elif name.lower().startswith(("http://", "https://")):
        content = _fetch(name, MOST_BYTES)
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
    in the same order, each moved by -2 to 2 pixels in both directions, chosen by `seed`; what comes in is black.
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


def load_mnist(folder: str | os.PathLike) -> tuple[torch.Tensor, torch.Tensor]:
    """The 60,000 training digits of MNIST: images float32 (60000, 784) with values 0 to 1, labels int64 (60000,).

    Optional: the course itself uses `load_digits`. What is missing in `folder`/MNIST/raw, where torchvision keeps
    it too, is fetched from the addresses that torchvision knows, and compared with torchvision's checksums. Only
    the raw arrays of bytes are read: a `training.pt` that lies in the folder is never opened.

    Raises OSError when the files cannot be fetched, and ValueError when they are not what they should be.
    """
    raw = Path(folder).expanduser() / "MNIST" / "raw"
    labels = _mnist_array(raw, "train-labels-idx1-ubyte", (60_000,))
    if labels.max() > 9:
        raise ValueError(
            f"the labels in {raw} should be 0 to 9, but one is {labels.max()}: delete that folder and try again"
        )
    images = _mnist_array(raw, "train-images-idx3-ubyte", (60_000, 28, 28))
    return torch.from_numpy(images.reshape(-1, 784)).float().div_(255), torch.from_numpy(labels).long()


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
    mend = f"Restore it with `git checkout -- images/{file}`, or fetch the course again."
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(
            f"{path} belongs to the course but cannot be read ({error.strerror}). {mend}"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[file]:
        raise ValueError(
            f"{path} was changed: it has {len(content):,} bytes with sha256 {found[:16]}..., "
            f"expected {SHA256[file][:16]}... {mend}"
        )
    return content


def _read_path(name: str) -> bytes:
    path = Path(name).expanduser()
    if path.is_dir():
        raise ValueError(f"{name!r} is a folder: load_image takes one picture")
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"no picture {name!r}: bundled are {', '.join(PICTURES)}; as a path it was looked for at "
            f"{path.absolute()}. An address begins with http:// or https://"
        ) from None


def _fetch(address: str, most: int) -> bytes:
    """The content that an address answers with, in bounded time and size."""
    try:
        request = urllib.request.Request(address, headers={"User-Agent": USER_AGENT})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            end, content = time.monotonic() + TIMEOUT, bytearray()
            while block := answer.read1(65_536):
                content += block
                if len(content) > most:
                    raise OSError(f"it sends more than {most:,} bytes")
                if time.monotonic() > end:
                    raise TimeoutError(f"only {len(content):,} bytes came in {TIMEOUT:.0f} s")
            expected = answer.headers.get("Content-Length")
            if expected and expected.isdigit() and len(content) < int(expected):
                raise OSError(f"{len(content):,} of {int(expected):,} bytes came before the connection ended")
            return bytes(content)
    except urllib.error.HTTPError as error:
        raise OSError(f"{address} answered {error.code} ({error.reason}): check the address in a browser") from error
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: an address that makes no sense
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise OSError(
            f"{address} could not be fetched: {reason}. Check the address and the network; "
            f"bundled pictures need neither: {', '.join(PICTURES)}"
        ) from error


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
    # Pillow reads 16-bit colour as 8 bits without a word: note it before decoding, which forgets it
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

    The centre of output pixel j lies at (j + 0.5) * 8/28 - 0.5 = (4j - 5) / 14 input pixels. All weights are thus
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


def _mnist_array(raw: Path, file: str, shape: tuple[int, ...]) -> np.ndarray:
    """One idx file as a uint8 array: a magic number, the sizes, then the bytes (described by torchvision's reader)."""
    content = _mnist_bytes(raw, file)
    begin = 4 + 4 * len(shape)
    header = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(0, begin, 4))
    expected = (0x0800 + len(shape), *shape)  # 0x08: the values are unsigned bytes
    if header != expected or len(content) != begin + int(np.prod(shape)):
        raise ValueError(
            f"{raw / file} should hold {shape} bytes, but its header says {header[1:]} and it has "
            f"{len(content):,} bytes: delete it and try again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=begin).reshape(shape).copy()


def _mnist_bytes(raw: Path, file: str) -> bytes:
    from torchvision.datasets import MNIST  # here, since only this function needs torchvision and it loads slowly

    archive, unpacked = raw / f"{file}.gz", raw / file
    md5 = dict(MNIST.resources)[archive.name]
    if not archive.exists():
        if unpacked.exists():
            return unpacked.read_bytes()
        failed = []
        for mirror in MNIST.mirrors:
            try:
                content = _fetch(mirror + archive.name, MOST_BYTES)
            except OSError as error:
                failed.append(str(error))
                continue
            if hashlib.md5(content).hexdigest() == md5:
                raw.mkdir(parents=True, exist_ok=True)
                part = archive.with_name(f"{archive.name}.{os.getpid()}.part")
                part.write_bytes(content)
                part.replace(archive)
                break
            failed.append(f"{mirror}{archive.name} answered with something else: {_beginning(content)}")
        else:
            raise OSError(
                f"MNIST could not be fetched. {' '.join(failed)} Without a network, copy {archive.name} to {raw}, "
                "or use load_digits(), which needs none."
            )
    content = archive.read_bytes()
    if hashlib.md5(content).hexdigest() != md5:
        raise ValueError(f"{archive} was changed ({_beginning(content)}): delete it and try again")
    return gzip.decompress(content)
