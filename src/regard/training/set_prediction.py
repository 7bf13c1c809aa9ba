"""The loss of a set: what a model found is matched with what is there, one to one, and compared.

Of all one-to-one matchings of queries with objects the cheapest is taken (the Hungarian algorithm,
by scipy); a query that is matched should say its object's class and box, all others that there is
none (Carion et al. 2020). This is repeated after every layer of the decoder and in every group of
queries, each with a matching of its own.

Sums are over all objects of a batch, those of classes too, so that batches can be added up. (DETR's
code divides the loss of classes by the sum of its weights, and that of boxes by their number.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.functional.boxes import giou, to_corners
from regard.models.detection import Detections
from regard.training.losses import Losses

NO_OBJECT = -1
"""The label of padding, where a picture has fewer objects than another of its batch."""
L1_WEIGHT, GIOU_WEIGHT = 5.0, 2.0
"""Of a box's distance and overlap, in the cost of a match and in the loss; a class weighs 1."""
FOCAL_WEIGHT = 2.0
"""What a class weighs by the focal loss, both times."""
NO_OBJECT_WEIGHT = 0.1
"""Of a query that should say that there is nothing, by the cross-entropy."""
ALPHA, GAMMA = 0.25, 2.0
"""Of the focal loss (Lin et al. 2017): what is there weighs α, and by γ the easy weighs little."""


class Matching(NamedTuple):
    """Pairs of a query and an object, for rows of queries: three index tensors (n,)."""

    row: Tensor
    query: Tensor
    object: Tensor


def detection_losses(
    found: Detections, labels: Tensor, boxes: Tensor, *, classes: str, n_groups: int = 1
) -> Losses:
    """``classes``, ``l1`` and ``giou`` of the last layer; ``auxiliary`` of those before together.

    Labels (B, M), NO_OBJECT being padding, and boxes (B, M, 4), middle and size. What groups give
    is averaged; pictures are counted.
    """
    n_layers = len(found.boxes)
    logits, places = (_by_group(x, n_groups) for x in found)
    gold, there = (_for_each(x, n_layers, n_groups) for x in (labels, boxes))
    matching = match(logits, places, gold, there, classes=classes)
    wanted = _wanted(logits.shape[1], gold, matching)
    rows = (
        class_losses(logits, wanted, classes=classes),
        *_matched_boxes(places, there, matching),
    )  # three of (L · B · G,)
    sums = torch.stack(rows).unflatten(1, (n_layers, -1)).sum(dim=-1) / n_groups  # (3, L)
    named = dict(zip(("classes", "l1", "giou"), sums[:, -1], strict=True))
    if n_layers > 1:
        named["auxiliary"] = sums[:, :-1].sum()
    return Losses(named, dict.fromkeys(named, len(labels)))


@torch.no_grad()
def match(
    logits: Tensor, boxes: Tensor, labels: Tensor, there: Tensor, *, classes: str
) -> Matching:
    """The cheapest pairs: logits (R, Q, C), boxes (R, Q, 4), labels (R, M), there (R, M, 4)."""
    from scipy.optimize import linear_sum_assignment

    cost = matching_cost(logits, boxes, labels, there, classes=classes).cpu().numpy()
    pairs = [np.empty((3, 0), np.int64)]
    for row, n in enumerate((labels != NO_OBJECT).sum(dim=1).tolist()):
        queries, objects = linear_sum_assignment(cost[row, :, :n])
        pairs.append(np.stack((np.full_like(queries, row), queries, objects)))
    return Matching(*torch.from_numpy(np.concatenate(pairs, axis=1)).to(logits.device))


def matching_cost(
    logits: Tensor, boxes: Tensor, labels: Tensor, there: Tensor, *, classes: str
) -> Tensor:
    """(R, Q, M): how ill each query fits each object."""
    if classes == "sigmoid":
        present, absent = focal(logits)
        kinds = FOCAL_WEIGHT * (present - absent)
    else:
        kinds = -logits.softmax(dim=-1)
    index = labels.clamp(min=0).unsqueeze(1).expand(-1, logits.shape[1], -1)  # (R, Q, M)
    apart = (boxes.unsqueeze(2) - there.unsqueeze(1)).abs().sum(dim=-1)
    overlap = giou(to_corners(boxes), to_corners(there))
    return kinds.gather(2, index) + L1_WEIGHT * apart - GIOU_WEIGHT * overlap


def class_losses(logits: Tensor, wanted: Tensor, *, classes: str) -> Tensor:
    """Logits (R, Q, C), wanted labels (R, Q), NO_OBJECT being none -> sums of each row (R,)."""
    if classes == "sigmoid":
        here = wanted.unsqueeze(-1) == torch.arange(logits.shape[-1], device=logits.device)
        return FOCAL_WEIGHT * torch.where(here, *focal(logits)).sum(dim=(1, 2))
    none = logits.shape[-1] - 1
    weight = logits.new_ones(none + 1)
    weight[none] = NO_OBJECT_WEIGHT
    wanted = wanted.masked_fill(wanted == NO_OBJECT, none)
    return F.cross_entropy(logits.mT, wanted, weight, reduction="none").sum(dim=1)


def focal(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The focal loss of each chance σ(logit), if the class should be there and if it should not."""
    chance = logits.sigmoid()
    present = ALPHA * (1 - chance) ** GAMMA * F.softplus(-logits)
    return present, (1 - ALPHA) * chance**GAMMA * F.softplus(logits)


def _matched_boxes(boxes: Tensor, there: Tensor, matching: Matching) -> tuple[Tensor, Tensor]:
    """Distance and lack of overlap of matched boxes, each as sums of rows (R,)."""
    row, query, one = matching
    said, gold = boxes[row, query], there[row, one]  # (n, 4)
    apart = L1_WEIGHT * (said - gold).abs().sum(dim=-1)
    overlap = giou(to_corners(said).unsqueeze(1), to_corners(gold).unsqueeze(1))  # (n, 1, 1)
    nothing = boxes.new_zeros(len(boxes))
    missing = GIOU_WEIGHT * (1 - overlap.flatten())
    return nothing.index_add(0, row, apart), nothing.index_add(0, row, missing)


def _wanted(n_queries: int, labels: Tensor, matching: Matching) -> Tensor:
    """The label that each query should say (R, Q); NO_OBJECT where it is matched with none."""
    wanted = labels.new_full((len(labels), n_queries), NO_OBJECT)
    row, query, one = matching
    wanted[row, query] = labels[row, one]
    return wanted


def _by_group(said: Tensor, n_groups: int) -> Tensor:
    """(L, B, G · Q, …) -> (L · B · G, Q, …)"""
    return said.unflatten(2, (n_groups, -1)).flatten(0, 2)


def _for_each(gold: Tensor, n_layers: int, n_groups: int) -> Tensor:
    """(B, M, …) -> (L · B · G, M, …), the same for every layer and every group."""
    rows = gold.repeat_interleave(n_groups, dim=0)
    return rows.repeat(n_layers, *(1 for _ in gold.shape[1:]))
