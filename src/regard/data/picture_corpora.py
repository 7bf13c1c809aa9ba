"""Files with pictures as records.

Lines of a file name their pictures, which lie beside it or where ``data.images`` says. Pictures of
a class may also lie in a folder or an archive, in folders of the classes' names, or in two IDX
files; captions and boxes may be in one JSON as COCO has them. A column ``split`` divides a file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from regard.core.errors import ConfigError, DataError
from regard.data.lines import excerpt, read_bytes
from regard.data.picture_files import Album, by_class, idx_pictures
from regard.data.picture_records import (
    BoxedPicture,
    CaptionedPicture,
    LabelledPicture,
    PictureQuestion,
    PictureRecord,
)
from regard.data.readers import Row, an_object, ending, text_value
from regard.data.settings import DataSettings, Files

ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz")
NAMES_OF_IMAGES = ("image", "image_name", "file_name", "file")
"""What a column or a key with a picture's name may be called."""
SPLIT_NAMES = {"train": "train", "val": "valid", "valid": "valid", "dev": "valid", "test": "test"}
Values = Mapping[str, Any]
R = TypeVar("R", bound=PictureRecord)


def picture_fields(where: str, values: Values, album: Album) -> dict[str, Any]:
    """The fields that all records with a picture have."""
    given = values["image"]
    if not hasattr(given, "pixels"):
        given = album.find(text_value(given, "image", where), where)
    name = str(values.get("split") or "").strip().lower()
    if name and name not in SPLIT_NAMES:
        raise DataError(f"{where}: split {name!r} is none of {', '.join(SPLIT_NAMES)}")
    return {"picture": given, "where": where, "split": SPLIT_NAMES.get(name, "")}


def labelled_picture(where: str, values: Values, album: Album) -> LabelledPicture | None:
    """None where the line has no label."""
    label = values["label"].strip()
    return LabelledPicture(**picture_fields(where, values, album), label=label) if label else None


def captioned_picture(where: str, values: Values, album: Album) -> CaptionedPicture | None:
    """One caption, or a list of them; None where there is none."""
    given = values["caption"]
    texts = given if isinstance(given, list) else [given]
    said = [text_value(text, "caption", where).strip() for text in texts]
    found = tuple(text for text in said if text)
    return (
        CaptionedPicture(**picture_fields(where, values, album), captions=found) if found else None
    )


def picture_question(where: str, values: Values, album: Album) -> PictureQuestion | None:
    """None where the question or its answer is empty."""
    given = values["answer"]  # JSON may have several, of which the first is learned
    texts = [given] if isinstance(given, str) else [*given, ""]
    question, answer = values["question"].strip(), texts[0].strip()
    if not question or not answer:
        return None
    kind = str(values.get("kind", "")).strip()
    fields = {"question": question, "answer": answer, "kind": kind}
    return PictureQuestion(**picture_fields(where, values, album), **fields)


def together(records: Sequence[R]) -> tuple[R, ...]:
    """Lines about one picture are one record, where that has captions or boxes."""
    if not records or not isinstance(records[0], CaptionedPicture | BoxedPicture):
        return tuple(records)
    groups: dict[str, list[Any]] = defaultdict(list)
    for one in records:
        groups[one.picture.where].append(one)
    return tuple(cast(R, _joined(group)) for group in groups.values())


def _joined(group: Sequence[Any]) -> Any:
    first = group[0]
    if len(group) == 1:
        return first
    if isinstance(first, CaptionedPicture):
        return replace(first, captions=tuple(text for one in group for text in one.captions))
    boxes = np.concatenate([one.boxes for one in group])
    return replace(first, boxes=boxes, labels=tuple(x for one in group for x in one.labels))


# ------------------------------------------------------------------ rows


def is_pictures(files: Files) -> bool:
    """Whether files are pictures with their classes, and no lines that name pictures."""
    if not isinstance(files, str):
        return True  # of IDX
    return Path(files).is_dir() or ending(Path(files)) in ARCHIVES


def check_lines(settings: DataSettings, files: Mapping[str, Files]) -> None:
    """Refuse settings about lines of a split's files where these are pictures."""
    for split, some in files.items():
        images = settings.images
        if isinstance(images, Mapping) and split not in images:
            images = None
        about = {"images": images, "columns": settings.columns}
        asked = next((name for name, value in about.items() if value is not None), None)
        if asked is not None and is_pictures(some):
            named = some if isinstance(some, str) else " and ".join(some)
            raise ConfigError(
                f"data.{asked}={about[asked]} is about pictures that lines name, and {named} is "
                "pictures by itself; leave it out"
            )


def picture_rows(path: Path) -> Iterator[Row] | None:
    """Those of a folder or an archive of classes, or of COCO's JSON; None of any other file."""
    if is_pictures(str(path)):
        return (
            Row(picture.where, values={"image": picture, "label": label})
            for label, picture in by_class(path)
        )
    return coco_rows(path) if ending(path) == ".json" else None


def idx_rows(images: Path, labels: Path) -> Iterator[Row]:
    """Pictures and labels of two IDX files."""
    for label, picture in idx_pictures(images, labels):
        yield Row(picture.where, values={"image": picture, "label": label})


def coco_rows(path: Path) -> Iterator[Row]:
    """An entry a picture: its ``caption`` (a list), its ``boxes`` and their ``labels``."""
    try:
        whole = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    known = an_object(whole, ("images",), str(path))
    named = (
        an_object(one, ("id", "name"), str(path)) for one in _listed(known, "categories", path)
    )
    categories = {json.dumps(one["id"]): one["name"] for one in named}
    said: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    images = _listed(known, "images", path)
    ids = {json.dumps(one.get("id")) for one in images if isinstance(one, dict)}
    lists = (_listed(known, name, path) for name in ("annotations", "captions", "boxes"))
    for one in chain(*lists):
        about = json.dumps(an_object(one, ("image_id",), str(path))["image_id"])
        if about not in ids:
            raise DataError(f"{path}: an annotation of image_id {about}, and no image has it")
        said[about].append(one)
    for number, image in enumerate(images, start=1):
        where = f"{path}: image number {number}"
        keys = NAMES_OF_IMAGES if isinstance(image, dict) else ()
        name = next((image[key] for key in keys if key in image), None)
        if name is None or "id" not in image:
            raise DataError(f"{where}: no 'id' or no 'file_name' in {excerpt(json.dumps(image))}")
        where = f"{path}: image {name}"
        yield Row(where, values=_coco_values(image, name, said, categories, where))


def _listed(known: Mapping[str, Any], key: str, path: Path) -> list[Any]:
    """What stands in a list of COCO's JSON; nothing where the key is missing."""
    found = known.get(key, [])
    if not isinstance(found, list):
        shown = excerpt(json.dumps(found))
        raise DataError(f"{path}: expected a list of {key!r}, but found {shown}")
    return found


def _coco_values(
    image: Mapping[str, Any],
    name: str,
    said: Mapping[str, Sequence[Mapping[str, Any]]],
    categories: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """COCO's boxes are left, top, width, height in pixels; ids are compared as JSON."""
    mine = said.get(json.dumps(image["id"]), ())
    values: dict[str, Any] = {"image": name}
    values |= {key: image[key] for key in ("split", "width", "height") if key in image}
    if texts := [one["caption"] for one in mine if "caption" in one]:
        values["caption"] = texts
    sides = [one.get("bbox", one.get("bbox_xywh")) for one in mine]
    boxed = [one for one, side in zip(mine, sides, strict=True) if side is not None]
    sides = [side for side in sides if side is not None]
    values["boxes"] = [_corners(side) for side in sides]
    values["labels"] = [_category(one, categories, where) for one in boxed]
    return values


def _corners(side: Any) -> Any:
    """Left, top, width, height -> left, top, right, bottom; what is no box is left to be told."""
    numbers = isinstance(side, list) and all(isinstance(x, int | float) for x in side)
    if not numbers or len(side) != 4:
        return side
    x, y, w, h = side
    return [x, y, x + w, y + h]


def _category(annotation: Mapping[str, Any], categories: Mapping[str, Any], where: str) -> str:
    """Its name, of an annotation that has a name or a number; empty where it has neither."""
    named = annotation.get("category") or annotation.get("label")
    if named is not None or annotation.get("category_id") is None:
        return str(named or "")
    number = json.dumps(annotation["category_id"])
    if number not in categories:
        raise DataError(
            f"{where}: a box with category_id {number}, and no entry of 'categories' has that id"
        )
    return str(categories[number])


def album_of(images: str | Mapping[Any, str] | None, split: str, folder: str, path: str) -> Album:
    """Where the pictures of a split are looked up: as ``data.images`` says, or beside the file."""
    named = images if isinstance(images, str) or images is None else images.get(split)
    if named is None and isinstance(images, Mapping):
        raise DataError(f"data.images names no pictures for the split {split}")
    return Album(Path(path).parent if named is None else Path(folder) / named)
