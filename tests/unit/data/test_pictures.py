"""Pictures of every kind are read alike, and what is none is refused in one line."""

import gzip
import io
import struct
import tarfile
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data import pictures
from regard.data.picture_files import Album, by_class, idx_pictures, pictures_in, read_idx
from regard.data.pictures import (
    ArrayPicture,
    EncodedPicture,
    PictureFile,
    all_pixels,
    decode,
    fitted,
    pillow_pixels,
    read_picture,
    stored_pixels,
)

RED, BLUE = (255, 0, 0), (0, 0, 255)


def packed(picture, kind="PNG", **options):
    """The bytes of a file."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def halves(mode="RGB"):
    """Red on the left, blue on the right, 6 × 4."""
    array = np.zeros((4, 6, 3), np.uint8)
    array[:, :3], array[:, 3:] = RED, BLUE
    return Image.fromarray(array).convert(mode)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "TIFF"])
def test_exact_formats_give_the_very_pixels(kind):
    assert np.array_equal(decode(packed(halves(), kind), "x"), np.asarray(halves()))


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_give_nearly_the_pixels(kind):
    large = halves().resize((60, 40), Image.Resampling.NEAREST)
    found = decode(packed(large, kind, quality=95), "x").astype(int)
    assert np.abs(found - np.asarray(large)).mean() < 6


def test_cmyk_grey_palettes_and_sixteen_bits_become_rgb():
    assert np.abs(decode(packed(halves("CMYK"), "TIFF"), "x").astype(int) - halves()).max() < 3
    grey = decode(packed(Image.new("L", (2, 3), 100)), "x")
    assert grey.shape == (3, 2, 3)
    assert (grey == 100).all()
    assert np.array_equal(decode(packed(halves("P")), "x"), np.asarray(halves()))
    deep = Image.fromarray(np.full((2, 2), 300 * 256 // 2, np.uint16))
    assert (decode(packed(deep), "x") == 150).all()


def test_what_is_transparent_shows_white():
    clear = Image.new("RGBA", (2, 2), (*RED, 0))
    assert (decode(packed(clear), "x") == 255).all()
    half = decode(packed(Image.new("RGBA", (1, 1), (0, 0, 0, 128))), "x")
    assert abs(int(half[0, 0, 0]) - 127) <= 1


def test_a_picture_is_turned_as_its_camera_was():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held with its right side down
    found = decode(packed(halves(), exif=exif.tobytes()), "x")
    assert np.array_equal(found, np.rot90(np.asarray(halves()), -1))


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_of_pillow_is_read_as_its_file_is(mode):
    exif = Image.Exif()
    exif[0x0112] = 6
    data = packed(halves(mode), exif=exif.tobytes())
    with Image.open(io.BytesIO(data)) as opened:
        assert np.array_equal(pillow_pixels(opened, "x"), decode(data, "x"))
    clear = Image.new("RGBA", (2, 2), (*RED, 0))
    assert (pillow_pixels(clear, "x") == 255).all()


def test_an_image_of_pillow_that_is_cut_off_is_told():
    noise = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
    cut = Image.open(io.BytesIO(packed(Image.fromarray(noise))[:-2000]))
    with cut, pytest.raises(DataError, match="^x: the picture is damaged or cut off"):
        pillow_pixels(cut, "x")


def test_the_first_frame_of_an_animation_counts():
    frames = [Image.new("RGB", (3, 3), colour) for colour in (RED, BLUE)]
    data = packed(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (decode(data, "x") == RED).all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x: an empty file"),
        (b"hello", "x: not a picture that can be read here"),
        (b"<?xml?><svg onload='a()'/>", "x: SVG is not read, as it may run scripts"),
        (packed(halves(), "JPEG")[:200], "x: the picture is damaged or cut off"),
        (packed(Image.new("1", (20_000, 20_000))), "x: more than 50,000,000 pixels"),
        (packed(Image.new("1", (8000, 8000))), "x: 8,000 × 8,000 are more than 50,000,000"),
    ],
)
def test_what_is_no_picture_is_refused(data, message):
    with pytest.raises(DataError, match=f"^{message}"):
        decode(data, "x")


def test_any_broken_tag_is_told_and_none_is_warned_of(recwarn):
    whole = io.BytesIO()
    Image.new("RGB", (5, 4)).save(whole, "TIFF")
    data = whole.getvalue()
    first = struct.unpack("<I", data[4:8])[0]
    for tag in range(struct.unpack("<H", data[first : first + 2])[0]):
        for kind in range(14):  # bytes, ratios, floats, …
            broken = bytearray(data)
            broken[first + 4 + 12 * tag] = kind
            with suppress(DataError):
                decode(bytes(broken), "a.tif")
    assert not recwarn.list


def test_a_bomb_is_not_decoded(monkeypatch):
    def boom(*_):
        raise AssertionError("it was decoded")

    data = packed(Image.new("1", (20_000, 20_000)))
    monkeypatch.setattr(Image.Image, "load", boom)
    with pytest.raises(DataError, match="more than"):
        decode(data, "x")


def test_a_missing_file_is_told():
    with pytest.raises(DataError, match=r"^list.tsv:3: no picture nowhere.png: No such file"):
        read_picture("nowhere.png", "list.tsv:3")


def test_pictures_are_cropped_squashed_or_padded():
    wide = np.asarray(halves().resize((120, 40), Image.Resampling.NEAREST))
    cropped, squashed, padded = (fitted(wide, 40, fit) for fit in ("crop", "squash", "pad"))
    assert cropped.shape == squashed.shape == padded.shape == (40, 40, 3)
    assert (cropped[20, 5] == RED).all()
    assert (cropped[0, 5] == RED).all()
    assert (padded[0] == 128).all()
    assert (padded[20, 5] == RED).all()
    assert np.array_equal(squashed[:, :15], np.broadcast_to(RED, (40, 15, 3)))
    assert fitted(np.zeros((1, 1, 3), np.uint8), 8).shape == (8, 8, 3)
    same = np.zeros((8, 8, 3), np.uint8)
    assert fitted(same, 8) is same


def some(n):
    rng = np.random.default_rng(0)
    return [ArrayPicture(rng.integers(0, 256, (6, 6), np.uint8), f"number {i}") for i in range(n)]


@pytest.mark.parametrize("shape", [(1, 3000, 3), (3000, 1, 3), (2, 3000, 3)])
@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
def test_pictures_as_thin_as_a_thread_are_fitted(shape, fit):
    found = fitted(np.full(shape, 7, np.uint8), 16, fit)
    assert found.shape == (16, 16, 3)
    assert (found == 7).all(axis=2).any()  # something of it is seen


def test_a_damaged_archive_is_told_in_one_line(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"nothing")
    with pytest.raises(DataError) as caught:
        pictures_in(tmp_path / "a.tar")
    assert "\n" not in str(caught.value)


def test_workers_decode_what_one_process_does(monkeypatch):
    many = some(200)
    alone = all_pixels(many, 4)
    monkeypatch.setattr(pictures, "ALONE", 10)
    assert np.array_equal(all_pixels(many, 4), alone)
    assert np.array_equal(alone[7], fitted(many[7].pixels(), 4))


def test_stored_pixels_are_made_once_and_again_when_anything_changes(tmp_path, monkeypatch):
    many = some(5)
    first = stored_pixels(many, 4, tmp_path)
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr(pictures, "all_pixels", lambda *_: pytest.fail("made again"))
    assert np.array_equal(stored_pixels(many, 4, tmp_path), first)
    monkeypatch.undo()
    file.write_bytes(file.read_bytes()[:-7])
    assert np.array_equal(stored_pixels(many, 4, tmp_path), first)
    assert stored_pixels(many[:4], 4, tmp_path).shape == (4, 4, 4, 3)
    assert stored_pixels(many[:4], 3, tmp_path).shape == (4, 3, 3, 3)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture
def folder(tmp_path):
    for name in ("cats/a.png", "cats/b.JPG", "dogs/a.png", "dogs/notes.txt", "dogs/.hidden.png"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = "JPEG" if name.endswith("JPG") else "PNG"
        path.write_bytes(packed(halves(), kind))
    return tmp_path / "in"


def archived(folder, path):
    """The folder as a zip or a tar."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in folder.rglob("*.*"):
                archive.write(file, file.relative_to(folder))
    else:
        with tarfile.open(path, f"w:{path.suffix.removeprefix('.').replace('tar', '')}") as archive:
            archive.add(folder, ".", recursive=True)
    return path


@pytest.mark.parametrize("name", ["all.zip", "all.tar", "all.tar.gz", "all.tar.xz"])
def test_archives_hold_what_their_folder_does(folder, tmp_path, name):
    inside = pictures_in(archived(folder, tmp_path / name))
    beside = pictures_in(folder)
    assert [one.removeprefix("./") for one in inside] == list(beside)
    assert list(beside) == ["cats/a.png", "cats/b.JPG", "dogs/a.png"]
    for one, other in zip(inside.values(), beside.values(), strict=True):
        assert isinstance(one, EncodedPicture)
        assert isinstance(other, PictureFile)
        assert np.array_equal(one.pixels(), other.pixels())
    labels = [label for label, _ in by_class(tmp_path / name)]
    assert labels == ["cats", "cats", "dogs"]


def test_an_album_finds_pictures_by_any_name_that_is_their_own(folder):
    album = Album(folder)
    assert album.find("cats/a.png", "x:1").where.endswith("cats/a.png")
    assert album.find("b.JPG", "x:1") == album.find("b", "x:1") == album.find("./b.JPG", "x:1")
    with pytest.raises(DataError, match=r"x:2: 2 pictures .* are called 'a', cats/a.png and dogs"):
        album.find("a", "x:2")
    with pytest.raises(DataError, match=r"x:3: no picture 'cats/c.png' in .*did you mean 'cats/"):
        album.find("cats/c.png", "x:3")


def test_places_without_pictures_are_refused(folder, tmp_path):
    (folder / "lost.png").write_bytes(packed(halves()))
    with pytest.raises(DataError, match=r"lost.png: in no folder"):
        by_class(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no pictures in it"):
        pictures_in(tmp_path / "empty")
    with pytest.raises(DataError, match="no folder and no archive"):
        pictures_in(tmp_path / "nowhere")
    (tmp_path / "bad.tar").write_bytes(b"nothing of the kind" * 50)
    with pytest.raises(DataError, match="neither a tar nor a zip archive"):
        pictures_in(tmp_path / "bad.tar")


def idx(array):
    """An array as an IDX file."""
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def test_idx_files_hold_pictures_and_labels(tmp_path):
    digits = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    images, labels = tmp_path / "images.gz", tmp_path / "labels"
    images.write_bytes(gzip.compress(idx(digits)))
    labels.write_bytes(idx(np.array([7, 1], np.uint8)))
    assert np.array_equal(read_idx(images), digits)
    (first, picture), (second, _) = idx_pictures(images, labels)
    assert (first, second) == ("7", "1")
    assert np.array_equal(picture.pixels()[..., 2], digits[0])
    with pytest.raises(DataError, match="expected pictures and then labels"):
        idx_pictures(labels, images)
    labels.write_bytes(idx(np.array([7], np.uint8)))
    with pytest.raises(DataError, match="has 2 pictures, but .* 1 labels"):
        idx_pictures(images, labels)
    labels.write_bytes(idx(digits)[:-1])
    with pytest.raises(DataError, match="23 bytes where 24 were announced"):
        read_idx(labels)
    labels.write_bytes(b"text")
    with pytest.raises(DataError, match="not an IDX file"):
        read_idx(labels)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((480, 640), (60, 80)), ((640, 480), (80, 60)), ((60, 70), (60, 70)), ((20, 200), (10, 100)),
     ((1, 2000), (1, 100)), ((7, 7), (60, 60))],
)  # fmt: skip
@pytest.mark.parametrize("resample", ["bicubic", "bilinear"])
def test_pictures_may_keep_their_proportions(shape, expected, resample):
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    found = fitted(pixels, 60, "keep", resample, 100)
    assert found.shape == (*expected, 3)
    how = Image.Resampling[resample.upper()]
    scaled = np.asarray(Image.fromarray(pixels).resize(expected[::-1], how))
    assert np.array_equal(found, scaled)


def test_stored_pixels_go_by_how_they_were_resampled(tmp_path):
    many = [ArrayPicture(np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8), "here")]
    cubic, linear = (
        stored_pixels(many, 4, tmp_path, "crop", how) for how in ("bicubic", "bilinear")
    )
    assert not np.array_equal(cubic, linear)
