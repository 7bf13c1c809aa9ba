"""Average precision of boxes, as COCO counts it, by ``faster-coco-eval``.

That package gives the numbers of ``pycocotools`` to the last digit, several times faster, and needs
no compiler. AP is the mean over IoU thresholds .50, .55, … .95 and over classes; AP50 is that of
the first threshold alone.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.metrics import check_parallel, metric

SCALE = 1000.0
"""Boxes are shares of a picture; COCO's sizes (small, large) are meant for pixels."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """What is in one picture, or what a model found in it."""

    corners: NDArray[np.float32]
    """(n, 4): left, top, right, bottom, as shares of the sides."""
    labels: NDArray[np.int64]
    """(n,)"""
    scores: NDArray[np.float32] | None = None
    """(n,): how sure the model is; None of what is truly there."""


@metric("ap", title="AP", unit="share", better="higher", takes="boxes", signature="COCO, .50:.95")
def ap(found: Sequence[Boxes], there: Sequence[Boxes]) -> float:
    """Average precision over ten IoU thresholds."""
    return _coco(found, there)[0]


@metric("ap50", title="AP50", unit="share", better="higher", takes="boxes", signature="COCO, .50")
def ap50(found: Sequence[Boxes], there: Sequence[Boxes]) -> float:
    """Average precision where a box counts that overlaps the true one by half."""
    return _coco(found, there)[1]


def _coco(found: Sequence[Boxes], there: Sequence[Boxes]) -> tuple[float, float]:
    """AP and AP50; 0 where nothing is there or nothing was found."""
    from faster_coco_eval import COCO, COCOeval_faster

    check_parallel(found=found, there=there)
    gold = [
        {"image_id": i, "category_id": int(label), "iscrowd": 0, **_box(box)}
        for i, one in enumerate(there)
        for box, label in zip(one.corners, one.labels, strict=True)
    ]
    said = [
        {"image_id": i, "category_id": int(label), "score": float(score), **_box(box)}
        for i, one in enumerate(found)
        for box, label, score in zip(one.corners, one.labels, _scores(one), strict=True)
    ]
    if not gold or not said:
        return 0.0, 0.0
    labels = sorted({int(label) for one in there for label in one.labels})
    with contextlib.redirect_stdout(io.StringIO()):  # it reports its progress
        truth = COCO(
            {
                "images": [{"id": i} for i in range(len(there))],
                "categories": [{"id": label, "name": str(label)} for label in labels],
                "annotations": [{"id": n, **entry} for n, entry in enumerate(gold, start=1)],
            }
        )
        judge = COCOeval_faster(truth, truth.loadRes(said), iouType="bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0]), float(judge.stats[1])


def _scores(found: Boxes) -> NDArray[np.float32]:
    assert found.scores is not None, "what a model found has scores"
    return found.scores


def _box(corners: NDArray[np.float32]) -> dict[str, object]:
    """COCO's form: left, top, width, height."""
    left, top, right, bottom = (SCALE * float(x) for x in corners)
    width, height = right - left, bottom - top
    return {"bbox": [left, top, width, height], "area": width * height}
