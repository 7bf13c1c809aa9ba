"""A trained model of pictures, and pictures in any form in which it may be given them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import DataError
from regard.data.picture_records import PictureRecord
from regard.data.pictures import (
    ArrayPicture,
    EncodedPicture,
    Picture,
    PictureFile,
    Pixels,
    fitted,
    pillow_pixels,
)
from regard.evaluation.saliency import attention_distance, position_similarities
from regard.inspection.capture import watch
from regard.layers.patches import PatchEmbedding
from regard.layers.positions import LearnedPositions
from regard.models.vision import PictureConfig
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.opening import TrainedRun
from regard.tasks.requests import URL
from regard.visual.patch_figures import attention_distances, position_tiles
from regard.visual.payload import Axis

READ_AT_ONCE = 64
"""Pictures that are read in one batch where nothing is learned."""
PIXELS_AT_ONCE = 64 * 256 * 256
"""The most pixels that such a batch has, if it has more than one picture."""


def as_picture(given: Any) -> Picture:
    """A picture in any form: a path, a data URL, bytes, an array, an image of Pillow, a record."""
    if isinstance(given, str) and given.startswith(URL):
        return EncodedPicture(url_bytes(given), "the picture")
    if isinstance(given, str | Path):
        return PictureFile(Path(given), str(given))
    if isinstance(given, bytes):
        return EncodedPicture(given, "the picture")
    if isinstance(given, PictureRecord):
        return given.picture
    if hasattr(given, "pixels") and hasattr(given, "fingerprint"):
        return given
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().numpy()
    pillow = hasattr(given, "getexif")
    array = pillow_pixels(given, "the picture") if pillow else np.asarray(given)
    if array.dtype != np.uint8 or not (array.ndim == 2 or array.shape[2:] == (3,)):
        raise DataError(
            "expected a picture (a file's name, bytes, an image of Pillow, or an array (H, W, 3) "
            f"of uint8), found {type(given).__name__}"
            + (f" of {array.dtype} {array.shape}" if array.ndim else "")
        )
    return ArrayPicture(array, "the picture")


def url_bytes(url: str) -> bytes:
    """What is in a data URL: ``data:image/png;base64,…``."""
    head, comma, body = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise DataError(f"expected a picture as {URL}…;base64,…, found {url[:40]!r}")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("the picture's data URL is not base64") from None


def is_one(given: Any) -> bool:
    """Whether this is one picture, and no list of them."""
    return not isinstance(given, list | tuple)


class PictureRun(TrainedRun):
    """A trained model of pictures."""

    __slots__ = ()

    @property
    def config(self) -> PictureConfig:
        """Of the model."""
        config: PictureConfig = self.model.config
        return config

    def fitted(self, given: Any) -> Pixels:
        """A picture in any form as the model sees it, (S, S, 3), or (H, W, 3) with fit keep."""
        data = self.recipe.data
        how = data.fit, data.resample, data.longest_edge
        return fitted(as_picture(given).pixels(), self.config.image_size, *how)

    def seen(self, given: Any, changes: Sequence[edits.AnyEdit]) -> Pixels:
        """The same under what-ifs that change the picture."""
        pixels = self.fitted(given)
        return edits.occluded(pixels, self.config.grid_of(*pixels.shape[:2]), changes)

    def batches(self, pictures: Sequence[Any], size: int = READ_AT_ONCE) -> Iterator[Tensor]:
        """Pictures as the model reads them, (B, 3, H, W) of bytes on its device, in their order.

        The pictures of a batch are of one size. The larger they are, the fewer they are.
        """
        for shape, some in groupby(map(self.fitted, pictures), key=np.shape):
            at_once = max(1, min(size, PIXELS_AT_ONCE // (shape[0] * shape[1])))
            while several := [*islice(some, at_once)]:
                yield self.pixels(np.stack(several))

    def pixels(self, found: Pixels) -> Tensor:
        """Fitted pictures (B, H, W, 3) -> (B, 3, H, W) on the device."""
        return torch.from_numpy(np.array(found)).permute(0, 3, 1, 2).to(self.device)

    def patches(self, *before: str, grid: tuple[int, int] | None = None) -> Axis:
        """The axis of the model's patches, or of the cells of its convolutional network."""
        return Axis.patches(*(grid or self.config.grid), before=before)

    @property
    def cell(self) -> float:
        """Pixels from one patch to the next."""
        return self.config.image_size / self.config.grid[1]

    def position_similarities(self) -> NDArray[np.float64] | None:
        """(R, C, R, C): cosines of the learned positions of patches; None where none are."""
        for module in self.model.modules():
            if isinstance(module, PatchEmbedding) and isinstance(
                module.positions, LearnedPositions
            ):
                n = int(module.class_token is not None)
                table = module.positions.table[n:].detach().double().cpu().numpy()
                return position_similarities(table, module.grid)
        return None

    def figures(self, pictures: Sequence[Any]) -> list[str]:
        """How far the encoder's heads look in some pictures, and how alike its positions are."""
        grid = self.config.grid
        n_patches, found = grid[0] * grid[1], []
        with torch.no_grad(), watch(self.model.encoder) as views:
            for pixels in self.batches(pictures):
                self.model.encoder(pixels)
            for (_, layer), view in sorted(views.items(), key=lambda one: one[0][1]):
                weights = view.weights()[..., -n_patches:, -n_patches:].float().cpu().numpy()
                far = np.mean([attention_distance(one, grid, self.cell) for one in weights], axis=0)
                found += [(layer, float(one)) for one in far]
        alike = self.position_similarities()
        drawn = [attention_distances(found, name="encoder.self")] if found else []
        return drawn + ([] if alike is None else [position_tiles(alike)])

    def evaluation(
        self, split: str, n: int, scores: Mapping[str, Any], outputs: Sequence[str] = ()
    ) -> Evaluation:
        """Scores of ``n`` examples, and what came out of each."""
        return Evaluation({"task": self.task, "split": split, "n": n, **scores}, list(outputs))

    def scored(self, examples: Sequence[Any], split: str) -> Evaluation:
        """Scores on any records of the task."""
        raise NotImplementedError
