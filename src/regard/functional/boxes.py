"""Boxes in a picture: (cx, cy, w, h) as a model says them, (left, top, right, bottom) as measured.

All lengths are shares of the picture's sides, from 0 to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor


def to_corners(boxes: Tensor) -> Tensor:
    """(…, 4) middle and size -> left, top, right, bottom.

    >>> to_corners(torch.tensor([0.5, 0.5, 0.25, 0.5])).tolist()
    [0.375, 0.25, 0.625, 0.75]
    """
    cx, cy, w, h = boxes.unbind(-1)
    return torch.stack((cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), dim=-1)


def to_middles(corners: Tensor) -> Tensor:
    """(…, 4) left, top, right, bottom -> middle and size."""
    left, top, right, bottom = corners.unbind(-1)
    return torch.stack(((left + right) / 2, (top + bottom) / 2, right - left, bottom - top), dim=-1)


def overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Corners a (…, N, 4) and b (…, M, 4) -> the areas of intersection and union (…, N, M)."""
    a, b = a.unsqueeze(-2), b.unsqueeze(-3)
    inside = (_lower(a, b) - _upper(a, b)).clamp(min=0).prod(dim=-1)
    return inside, _area(a) + _area(b) - inside


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of corners (…, N, 4) and (…, M, 4) -> (…, N, M)."""
    inside, union = overlap(a, b)
    return inside / union.clamp(min=torch.finfo(union.dtype).tiny)


def giou(a: Tensor, b: Tensor) -> Tensor:
    """IoU minus the share of the hull that neither box fills (Rezatofighi et al. 2019).

    Below 0 where boxes lie apart: the farther, the nearer to -1.
    """
    inside, union = overlap(a, b)
    least = torch.finfo(union.dtype).tiny
    a, b = a.unsqueeze(-2), b.unsqueeze(-3)
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = (high - low).prod(dim=-1)
    return inside / union.clamp(min=least) - (hull - union) / hull.clamp(min=least)


def replaced(corners: Tensor, placements: Tensor) -> Tensor:
    """Where boxes lie once pictures are mirrored, moved or enlarged, also beyond their edges.

    Corners (B, M, 4); placements (B, 2, 2), (a, b) of x and of y: what is at x now was at a·x + b.

    >>> mirrored = torch.tensor([[[-1.0, 1.0], [1.0, 0.0]]])
    >>> replaced(torch.tensor([[[0.125, 0.25, 0.5, 0.75]]]), mirrored).tolist()
    [[[0.5, 0.25, 0.875, 0.75]]]
    """
    a, b = placements.unsqueeze(1).unbind(-1)  # (B, 1, 2)
    one, other = ((corner - b) / a for corner in corners.chunk(2, dim=-1))
    return torch.cat((torch.minimum(one, other), torch.maximum(one, other)), dim=-1)


def _upper(a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a[..., :2], b[..., :2])


def _lower(a: Tensor, b: Tensor) -> Tensor:
    return torch.minimum(a[..., 2:], b[..., 2:])


def _area(corners: Tensor) -> Tensor:
    return (corners[..., 2:] - corners[..., :2]).prod(dim=-1)
