"""Pictures: decoded by Pillow, upright, RGB, 8 bits a channel; and many of them as one array.

Whatever a picture comes from (a file, an archive, an array, a scene), it is a ``Picture``: it knows
where it stands, for messages, and gives its pixels (H, W, 3). ``stored_pixels`` brings all pictures
of a data set to one size, decodes them in worker processes, and keeps the array in a file: an epoch
reads it and decodes nothing.
"""

from __future__ import annotations

import io
import os
import struct
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.files import telling, whole_file
from regard.data.records import Fit, Resample
from regard.data.workers import mapped

if TYPE_CHECKING:
    from PIL import Image

Pixels = NDArray[np.uint8]
"""(H, W, 3)"""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 50_000_000
"""A picture that says it is larger is not decoded."""
PAPER, GREY = (255, 255, 255), (128, 128, 128)
"""What shows through where a picture is transparent; what stands beside one that is padded."""
BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    struct.error,
)
"""What Pillow's decoders raise when the bytes of a picture are not what its head says."""
ALONE = 2000
"""Fewer pictures than this are decoded here: workers take a second to start."""
TURNED, SIDEWAYS = 0x0112, (5, 6, 7, 8)
"""The tag that says how a camera was held, and its values where width and height change places."""
AT_ONCE = 64
"""Pictures that a worker is handed together."""


class Picture(Protocol):
    """Something that can be looked at."""

    @property
    def where(self) -> str:
        """A file, a line or an address, for messages."""
        ...

    @property
    def fingerprint(self) -> bytes:
        """Differs where the pixels do."""
        ...

    def pixels(self) -> Pixels:
        """(H, W, 3), upright."""
        ...


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A file with one picture in it."""

    path: Path
    where: str

    @property
    def fingerprint(self) -> bytes:
        """The file's name, its size, and when it was written."""
        try:
            known = self.path.stat()
        except OSError as error:
            raise DataError(f"{self.where}: {error.strerror}: {self.path}") from None
        return f"{self.path} {known.st_size} {known.st_mtime_ns}".encode()

    @property
    def content(self) -> bytes:
        """Of the file's bytes: the same wherever it lies, and whenever it was written."""
        return blake2b(_bytes_of(self), digest_size=16).digest()

    def pixels(self) -> Pixels:
        """Read and decode it."""
        return read_picture(self.path, self.where)


@dataclass(frozen=True, slots=True)
class EncodedPicture:
    """A picture as it is packed: the bytes of a PNG, a JPEG, …"""

    data: bytes
    where: str

    @property
    def fingerprint(self) -> bytes:
        """Of the bytes."""
        return blake2b(self.data, digest_size=16).digest()

    def pixels(self) -> Pixels:
        """Decode it."""
        return decode(self.data, self.where)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPicture:
    """A picture that is an array already: (H, W) of grey, or (H, W, 3)."""

    array: Pixels
    where: str

    @property
    def fingerprint(self) -> bytes:
        """Of all pixels."""
        return blake2b(self.array.tobytes(), digest_size=16).digest()

    def pixels(self) -> Pixels:
        """Grey is red, green and blue alike."""
        grey = self.array.ndim == 2
        return np.repeat(self.array[..., None], 3, axis=2) if grey else self.array


def _bytes_of(picture: PictureFile) -> bytes:
    try:
        return picture.path.read_bytes()
    except OSError as error:
        raise DataError(f"{picture.where}: {error.strerror}: {picture.path}") from None


def content_of(picture: Picture) -> bytes:
    """A fingerprint that goes neither by a picture's name nor by when it was written."""
    return picture.content if isinstance(picture, PictureFile) else picture.fingerprint


def read_picture(path: str | Path, where: str | None = None) -> Pixels:
    """The picture in a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        at = f"{where}: " if where else ""
        raise DataError(f"{at}no picture {path}: {error.strerror}") from None
    return decode(data, where or str(path))


def decode(data: bytes, where: str) -> Pixels:
    """A PNG, JPEG, WebP, GIF, BMP or TIFF: its first frame, as its camera was held, on white."""
    with _opened(data, where) as picture:
        return pillow_pixels(picture, where)


def picture_size(picture: Picture) -> tuple[int, int]:
    """Width and height, upright; of many files the head alone is decoded."""
    if not isinstance(picture, PictureFile | EncodedPicture):
        height, width = picture.pixels().shape[:2]
        return width, height
    data = picture.data if isinstance(picture, EncodedPicture) else _bytes_of(picture)
    with _opened(data, picture.where) as opened:
        width, height = opened.size
        return (height, width) if opened.getexif().get(TURNED) in SIDEWAYS else (width, height)


@contextmanager
def _opened(data: bytes, where: str) -> Iterator[Image.Image]:
    """The first frame of a file; what is wrong with it inside the block is told in one line."""
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of tags that are broken
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                _check_size(picture.size, where)
                picture.seek(0)
                yield picture
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise DataError(
                f"{where}: more than {MOST_PIXELS:,} pixels; make the picture smaller"
            ) from None
        except DataError:
            raise
        except UnidentifiedImageError:
            raise DataError(f"{where}: {_not_a_picture(data)}") from None
        except BROKEN as error:
            raise _damaged(where, error) from None


def pillow_pixels(picture: Image.Image, where: str) -> Pixels:
    """An image of Pillow, as its camera was held, on white."""
    from PIL import ImageOps

    try:
        return np.asarray(_on_paper(ImageOps.exif_transpose(picture)))
    except BROKEN as error:
        raise _damaged(where, error) from None


def _damaged(where: str, error: Exception) -> DataError:
    return DataError(f"{where}: the picture is damaged or cut off ({error})")


def _not_a_picture(data: bytes) -> str:
    known = ", ".join(FORMATS)
    if b"<svg" in data[:1000].lower():
        return f"SVG is not read, as it may run scripts; save the picture as one of {known}"
    return f"not a picture that can be read here ({known})" if data else "an empty file"


def _check_size(size: tuple[int, int], where: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise DataError(
            f"{where}: {width:,} × {height:,} are more than {MOST_PIXELS:,} pixels; make the "
            "picture smaller"
        )


def _on_paper(picture: Image.Image) -> Image.Image:
    """RGB; what is transparent shows white, and 16 bits become 8."""
    from PIL import Image

    if picture.mode.startswith("I;16") or picture.mode == "I":
        return Image.fromarray((np.asarray(picture) >> 8).clip(0, 255).astype(np.uint8)).convert(
            "RGB"
        )
    if picture.has_transparency_data:
        paper = Image.new("RGBA", picture.size, (*PAPER, 255))
        return Image.alpha_composite(paper, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")


def fitted(
    pixels: Pixels,
    size: int,
    fit: Fit = "crop",
    resample: Resample = "bicubic",
    longest: int | None = None,
) -> Pixels:
    """A picture of any size -> (size, size, 3), or as ``kept_size`` says with the fit ``keep``."""
    from PIL import Image, ImageOps

    height, width = pixels.shape[:2]
    rows = columns = size
    if fit == "keep":
        assert longest is not None, "the settings have asked for it"
        rows, columns = kept_size(height, width, size, longest)
    if (height, width) == (rows, columns):
        return pixels
    thin, long = sorted(pixels.shape[:2])
    if fit == "pad" and thin * size < long:  # less than a pixel wide: made one
        pixels = pixels.repeat(-(-long // (thin * size)), axis=pixels.shape[:2].index(thin))
    picture, how = Image.fromarray(pixels), Image.Resampling[resample.upper()]
    if fit == "crop":
        found = ImageOps.fit(picture, (columns, rows), how)
    elif fit == "pad":
        found = ImageOps.pad(picture, (columns, rows), how, color=GREY)
    else:
        found = picture.resize((columns, rows), how)
    return np.asarray(found)


def kept_size(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """Rows and columns of a picture in proportion: its shorter side is ``shortest`` long.

    It is less where the other side would be longer than ``longest``. The fractions are cut off, as
    those who trained detectors with it do.

    >>> kept_size(480, 640, 800, 1333), kept_size(100, 1000, 800, 1333)
    ((800, 1066), (133, 1333))
    """
    thin, long = sorted((height, width))
    side: float = shortest
    if long / thin * shortest > longest:
        side = longest * thin / long
    short, other = round(side), int(side * long / thin)
    if thin == short:
        return height, width
    short, other = max(1, short), max(1, other)
    return (short, other) if height <= width else (other, short)


def all_pixels(
    pictures: Sequence[Picture], size: int, fit: Fit = "crop", resample: Resample = "bicubic"
) -> Pixels:
    """(N, size, size, 3): every picture, decoded by worker processes where there are many."""
    found = np.empty((len(pictures), size, size, 3), np.uint8)
    for i, pixels in enumerate(_decoded(pictures, size, fit, resample)):
        found[i] = pixels
    return found


def _decoded(
    pictures: Sequence[Picture], size: int, fit: Fit, resample: Resample
) -> Iterable[Pixels]:
    one = partial(_fitted_picture, size=size, fit=fit, resample=resample)
    if len(pictures) < ALONE or os.cpu_count() == 1:
        return map(one, pictures)
    return mapped(one, pictures, at_once=AT_ONCE)


def _fitted_picture(picture: Picture, size: int, fit: Fit, resample: Resample) -> Pixels:
    return fitted(picture.pixels(), size, fit, resample)


def stored_pixels(
    pictures: Sequence[Picture],
    size: int,
    folder: Path,
    fit: Fit = "crop",
    resample: Resample = "bicubic",
) -> Pixels:
    """The same from the file in ``folder``, which is made if it is not there.

    It is named after the pictures, so it is never out of date; it is written whole or not at all,
    and one that is damaged is made again. Other files of pixels there are deleted.
    """
    hashed = blake2b(f"{size} {fit} {resample} ".encode(), digest_size=16)
    for picture in pictures:
        hashed.update(picture.fingerprint)
    path = folder / f"{hashed.hexdigest()}.pixels.npy"
    kept = _kept(path, (len(pictures), size, size, 3))
    if kept is not None:
        return kept
    with telling(folder):
        for other in folder.glob("*.pixels.npy"):
            other.unlink()
    found = all_pixels(pictures, size, fit, resample)
    with whole_file(path) as file:
        np.save(file, found)
    return found


def _kept(path: Path, shape: tuple[int, ...]) -> Pixels | None:
    """The array in a file, read as it is needed; None where there is none, or another one."""
    try:
        found = np.load(path, mmap_mode="r")
    except (ValueError, OSError, EOFError):
        return None
    return found if found.shape == shape and found.dtype == np.uint8 else None
