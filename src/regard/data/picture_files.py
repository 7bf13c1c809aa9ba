"""Many pictures at one place: a folder, a tar or zip archive that is read where it lies, IDX files.

``pictures_in`` gives all pictures of a folder or an archive by their names; ``Album`` finds the one
that a line of a file names, by its whole name, its last part, or that without its ending.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np

from regard.core.errors import DataError
from regard.core.registry import did_you_mean
from regard.data.lines import read_bytes
from regard.data.pictures import (
    ArrayPicture,
    EncodedPicture,
    Picture,
    PictureFile,
    Pixels,
    picture_size,
)

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
IDX_TYPES = {0x08: np.uint8}
"""What the third byte of an IDX file says, of the types that pictures and labels have."""


def pictures_in(path: Path) -> dict[str, Picture]:
    """Name inside a folder or an archive -> picture, in the order of the names.

    The bytes of an archive's pictures are kept in memory as they are packed.
    """
    if path.is_dir():
        found: Iterator[tuple[str, Picture]] = _in_folder(path)
    elif zipfile.is_zipfile(path):
        found = _in_zip(path)
    elif path.is_file():
        found = _in_tar(path)
    else:
        raise DataError(f"no folder and no archive {path}")
    pictures = dict(sorted(found, key=lambda one: one[0]))
    if not pictures:
        raise DataError(f"{path}: no pictures in it; known endings: {', '.join(ENDINGS)}")
    return pictures


def _in_folder(path: Path) -> Iterator[tuple[str, Picture]]:
    for file in path.rglob("*"):
        if is_picture(file.name):
            yield file.relative_to(path).as_posix(), PictureFile(file, str(file))


def _in_zip(path: Path) -> Iterator[tuple[str, Picture]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in filter(is_picture, archive.namelist()):
                yield name, EncodedPicture(archive.read(name), f"{path}/{name}")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path}: the archive is damaged or locked ({error})") from None


def _in_tar(path: Path) -> Iterator[tuple[str, Picture]]:
    """Packed with gzip, bzip2, xz or not at all; members are read, never written anywhere."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if is_picture(member.name) else None
                if file is not None:
                    yield member.name, EncodedPicture(file.read(), f"{path}/{member.name}")
    except (tarfile.TarError, EOFError, OSError) as error:
        told = str(error).splitlines()[0].rstrip(":")  # more lines say what each packing found
        raise DataError(f"{path}: neither a tar nor a zip archive, or damaged ({told})") from None


def is_picture(name: str) -> bool:
    """Whether a file is one by its name; hidden files are none."""
    last = PurePosixPath(name)
    return last.suffix.lower() in ENDINGS and not last.name.startswith(".")


class Album:
    """Pictures by name, for files whose lines name them; read when the first is looked up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sizes: dict[str, tuple[int, int]] = {}

    def size(self, picture: Picture) -> tuple[int, int]:
        """Width and height of one of them, which many lines may be about."""
        if picture.where not in self._sizes:
            self._sizes[picture.where] = picture_size(picture)
        return self._sizes[picture.where]

    @cached_property
    def _pictures(self) -> dict[str, Picture]:
        return pictures_in(self.path)

    @cached_property
    def _short(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._pictures:
            last = PurePosixPath(name)
            for short in {last.name, last.stem}:
                found[short].append(name)
        return found

    def find(self, name: str, where: str) -> Picture:
        """The picture that a line at ``where`` names; one that is not there is told."""
        if name in self._pictures:
            return self._pictures[name]
        found = self._short.get(PurePosixPath(name).name, [])
        if len(found) == 1:
            return self._pictures[found[0]]
        if found:
            raise DataError(
                f"{where}: {len(found)} pictures of {self.path} are called {name!r}, {found[0]} "
                f"and {found[1]} among them; give the whole name"
            )
        hint = did_you_mean(name, self._pictures)
        raise DataError(f"{where}: no picture {name!r} in {self.path}{hint}")


def by_class(path: Path) -> list[tuple[str, Picture]]:
    """Class -> picture, for every picture of a folder or an archive that lies in a folder."""
    found = []
    for folder in sorted(path.iterdir()) if path.is_dir() else ():
        if folder.is_dir() and not any(is_picture(file.name) for file in folder.rglob("*")):
            raise DataError(f"{folder}: a class without pictures; add some, or take it away")
    for name, picture in pictures_in(path).items():
        parent = PurePosixPath(name).parent.name
        if not parent:
            raise DataError(
                f"{picture.where}: in no folder; pictures of a class lie in a folder of its name"
            )
        found.append((parent, picture))
    return found


def read_idx(path: Path) -> Pixels:
    """The array of an IDX file, as MNIST has them: of pictures (n, H, W), or of labels (n,)."""
    data = read_bytes(path)
    kind, n_axes = (data[2], data[3]) if data[:2] == b"\0\0" and len(data) > 4 else (0, 0)
    if kind not in IDX_TYPES:
        raise DataError(f"{path}: not an IDX file of bytes")
    shape = np.frombuffer(data, ">u4", n_axes, offset=4).astype(int)
    values = np.frombuffer(data, IDX_TYPES[kind], offset=4 + 4 * n_axes)
    if len(values) != shape.prod():
        raise DataError(f"{path}: {len(values):,} bytes where {shape.prod():,} were announced")
    return values.reshape(shape)


def idx_pictures(images: Path, labels: Path) -> list[tuple[str, Picture]]:
    """Class -> picture, for two IDX files with one entry each a picture."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or classes.ndim != 1:
        raise DataError(
            f"expected pictures and then labels, but {images} has {pixels.ndim} axes and {labels} "
            f"has {classes.ndim}"
        )
    if len(pixels) != len(classes):
        raise DataError(f"{images} has {len(pixels)} pictures, but {labels} {len(classes)} labels")
    return [
        (str(label), ArrayPicture(picture, f"{images}: picture number {i}"))
        for i, (picture, label) in enumerate(zip(pixels, classes, strict=True), start=1)
    ]
