"""Boxes: areas by counting pixels, and laws of IoU and GIoU."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.functional.boxes import giou, iou, overlap, replaced, to_corners, to_middles

SIDE = 12


def whole(n, seed):
    """Corners on a grid of 12 × 12 pixels."""
    rng = torch.Generator().manual_seed(seed)
    low = torch.randint(0, SIDE - 1, (n, 2), generator=rng)
    size = torch.randint(1, 6, (n, 2), generator=rng)
    return torch.cat((low, (low + size).clamp(max=SIDE)), dim=1).float()


def filled(box):
    picture = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    left, top, right, bottom = (int(x) for x in box)
    picture[top:bottom, left:right] = True
    return picture


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 500))
def test_areas_are_those_of_counted_pixels(seed):
    a, b = whole(3, seed), whole(4, seed + 1000)
    inside, union = overlap(a, b)
    for i in range(3):
        for j in range(4):
            both, either = filled(a[i]) & filled(b[j]), filled(a[i]) | filled(b[j])
            assert inside[i, j] == both.sum()
            assert union[i, j] == either.sum()
            assert iou(a, b)[i, j] == pytest.approx((both.sum() / either.sum()).item())
            columns, rows = either.any(dim=0).nonzero(), either.any(dim=1).nonzero()
            hull = (columns.max() - columns.min() + 1) * (rows.max() - rows.min() + 1)
            expected = both.sum() / either.sum() - (hull - either.sum()) / hull
            assert giou(a, b)[i, j] == pytest.approx(expected.item(), abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 200))
def test_laws(seed):
    a, b = whole(3, seed), whole(3, seed + 7)
    torch.testing.assert_close(to_corners(to_middles(a)), a)
    torch.testing.assert_close(giou(a, b), giou(b, a).mT)
    assert (giou(a, b) <= iou(a, b) + 1e-6).all()
    assert (giou(a, b) > -1).all()
    torch.testing.assert_close(giou(a, a).diagonal(), torch.ones(3))


def test_empty_boxes_and_their_gradients_are_finite():
    a = torch.zeros(2, 4, requires_grad=True)
    b = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.4, 0.4]])
    for score in (iou, giou):
        found = score(a, b)
        assert found.isfinite().all()
        (gradient,) = torch.autograd.grad(found.sum(), a)
        assert gradient.isfinite().all()


def test_batches_are_compared_row_by_row():
    a, b = whole(6, 1).view(2, 3, 4), whole(8, 2).view(2, 4, 4)
    for i in range(2):
        torch.testing.assert_close(giou(a, b)[i], giou(a[i], b[i]))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 500), st.booleans(), st.booleans())
def test_boxes_go_where_their_pixels_go(seed, left_right, upside_down):
    """Pixels of a box in a mirrored and cut picture, counted, against its new corners."""
    (box,) = whole(1, seed)
    rng = torch.Generator().manual_seed(seed)
    low = torch.randint(0, 4, (2,), generator=rng)
    side = torch.randint(6, SIDE - 4, (2,), generator=rng)
    seen = filled(box)[low[1] : low[1] + side[1], low[0] : low[0] + side[0]]
    a, b = side / SIDE, low / SIDE
    for axis, flips in enumerate((left_right, upside_down)):
        if flips:
            seen = seen.flip(1 - axis)
            b[axis], a[axis] = b[axis] + a[axis], -a[axis]
    placement = torch.stack((a, b), dim=-1)
    found = replaced(box.view(1, 1, 4) / SIDE, placement[None])[0, 0].clamp(0, 1)
    left, top, right, bottom = (found * side.repeat(2)).round().int().tolist()
    expected = torch.zeros_like(seen)
    expected[top:bottom, left:right] = True
    assert torch.equal(seen, expected)
