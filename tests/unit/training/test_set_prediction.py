"""Matching and the loss of a set: every matching tried, and the loss by plain loops."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.detection import Detections
from regard.training.set_prediction import (
    NO_OBJECT,
    detection_losses,
    match,
    matching_cost,
)

L, B, Q, C, M = 2, 3, 5, 4, 3
KINDS = ["sigmoid", "softmax"]


def boxes(*shape, rng):
    """Middle and size of boxes that lie inside the picture."""
    size = 0.1 + 0.3 * torch.rand(*shape, 2, generator=rng, dtype=torch.float64)
    middle = size / 2 + torch.rand(*shape, 2, generator=rng, dtype=torch.float64) * (1 - size)
    return torch.cat((middle, size), dim=-1)


def example(seed, classes, *, layers=L, queries=Q):
    """What a model says, and what is there: 0 to M objects a picture."""
    rng = torch.Generator().manual_seed(seed)
    width = C + (classes == "softmax")
    logits = torch.randn(layers, B, queries, width, generator=rng, dtype=torch.float64)
    found = Detections(logits, boxes(layers, B, queries, rng=rng))
    labels = torch.randint(0, C, (B, M), generator=rng)
    n = torch.randint(0, M + 1, (B, 1), generator=rng)
    labels[torch.arange(M) >= n] = NO_OBJECT
    return found, labels, boxes(B, M, rng=rng)


# ------------------------------------------------------------------ by loops, sharing nothing


def chance(logits, label, classes):
    if classes == "sigmoid":
        return 1 / (1 + math.exp(-logits[label]))
    return math.exp(logits[label]) / sum(math.exp(x) for x in logits)


def distance(a, b):
    return sum(abs(x - y) for x, y in zip(a, b, strict=True))


def generalised(a, b):
    (al, at, ar, ab), (bl, bt, br, bb) = (
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, w, h in (a, b)
    )
    inside = max(0, min(ar, br) - max(al, bl)) * max(0, min(ab, bb) - max(at, bt))
    union = (ar - al) * (ab - at) + (br - bl) * (bb - bt) - inside
    hull = (max(ar, br) - min(al, bl)) * (max(ab, bb) - min(at, bt))
    return inside / union - (hull - union) / hull


def focal(p, there):
    return -0.25 * (1 - p) ** 2 * math.log(p) if there else -0.75 * p**2 * math.log(1 - p)


def cost_by_loops(logits, box, label, gold, classes):
    p = chance(logits, label, classes)
    kind = 2 * (focal(p, True) - focal(p, False)) if classes == "sigmoid" else -p
    return kind + 5 * distance(box, gold) - 2 * generalised(box, gold)


def kind_by_loops(logits, label, classes):
    """The loss of a query that should say this label, or none."""
    if classes == "sigmoid":
        return 2 * sum(focal(chance(logits, c, classes), c == label) for c in range(C))
    wanted = C if label is None else label
    return -math.log(chance(logits, wanted, classes)) * (0.1 if label is None else 1)


def row_by_loops(logits, said, labels, gold, classes):
    """classes, l1 and giou of one picture, of one layer; the best of all matchings."""
    n = sum(label != NO_OBJECT for label in labels)

    def total(choice):
        return sum(
            cost_by_loops(logits[q], said[q], labels[m], gold[m], classes)
            for m, q in enumerate(choice)
        )

    best = min(itertools.permutations(range(len(said)), n), key=total)
    of = {q: m for m, q in enumerate(best)}
    kinds = [
        kind_by_loops(logits[q], labels[of[q]] if q in of else None, classes)
        for q in range(len(said))
    ]
    apart = [5 * distance(said[q], gold[m]) for q, m in of.items()]
    missing = [2 * (1 - generalised(said[q], gold[m])) for q, m in of.items()]
    return sum(kinds), sum(apart), sum(missing)


# ------------------------------------------------------------------ tests


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.sampled_from(KINDS))
def test_no_matching_of_all_is_cheaper(seed, classes):
    found, labels, gold = example(seed, classes, layers=1)
    cost = matching_cost(found.logits[0], found.boxes[0], labels, gold, classes=classes)
    matching = match(found.logits[0], found.boxes[0], labels, gold, classes=classes)
    for row in range(B):
        n = int((labels[row] != NO_OBJECT).sum())
        mine = matching.row == row
        queries, objects = matching.query[mine].tolist(), matching.object[mine].tolist()
        assert sorted(objects) == list(range(n))
        assert len(set(queries)) == n
        paid = sum(cost[row, q, m] for q, m in zip(queries, objects, strict=True))
        least = min(
            sum(cost[row, q, m] for m, q in enumerate(choice))
            for choice in itertools.permutations(range(Q), n)
        )
        assert float(paid) == pytest.approx(float(least))


@pytest.mark.parametrize("classes", KINDS)
def test_the_cost_is_that_of_loops(classes):
    found, labels, gold = example(1, classes)
    labels = labels.clamp(min=0)
    cost = matching_cost(found.logits[0], found.boxes[0], labels, gold, classes=classes)
    logits, said, label, place = (
        x.tolist() for x in (found.logits[0], found.boxes[0], labels, gold)
    )
    for b, q, m in itertools.product(range(B), range(Q), range(M)):
        expected = cost_by_loops(logits[b][q], said[b][q], label[b][m], place[b][m], classes)
        assert cost[b, q, m] == pytest.approx(expected)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.sampled_from(KINDS))
def test_losses_are_those_of_loops(seed, classes):
    found, labels, gold = example(seed, classes)
    losses = detection_losses(found, labels, gold, classes=classes)
    rows = [
        [
            row_by_loops(*(x.tolist() for x in (logits, said, label, place)), classes)
            for logits, said, label, place in zip(*layer, labels, gold, strict=True)
        ]
        for layer in zip(*found, strict=True)
    ]
    for i, name in enumerate(("classes", "l1", "giou")):
        assert losses.sums[name] == pytest.approx(sum(row[i] for row in rows[-1]))
    assert losses.sums["auxiliary"] == pytest.approx(sum(map(sum, rows[0])))
    assert set(losses.counts.values()) == {B}


@pytest.mark.parametrize("classes", KINDS)
def test_the_order_of_objects_does_not_matter(classes, rng):
    found, labels, gold = example(3, classes)
    labels = labels.clamp(min=0)
    order = torch.tensor([2, 0, 1])
    losses = detection_losses(found, labels, gold, classes=classes)
    moved = detection_losses(found, labels[:, order], gold[:, order], classes=classes)
    for name, value in losses.sums.items():
        torch.testing.assert_close(moved.sums[name], value)


@pytest.mark.parametrize("classes", KINDS)
def test_more_padding_changes_nothing(classes):
    found, labels, gold = example(4, classes)
    losses = detection_losses(found, labels, gold, classes=classes)
    wider = torch.nn.functional.pad(labels, (0, 2), value=NO_OBJECT)
    padded = torch.nn.functional.pad(gold, (0, 0, 0, 2))
    again = detection_losses(found, wider, padded, classes=classes)
    torch.testing.assert_close(dict(again.sums), dict(losses.sums))
    assert again.counts == losses.counts


@pytest.mark.parametrize("classes", KINDS)
def test_groups_are_matched_each_for_itself_and_averaged(classes):
    found, labels, gold = example(5, classes, queries=3 * Q)
    losses = detection_losses(found, labels, gold, classes=classes, n_groups=3)
    apart = [
        detection_losses(
            Detections(*(x[:, :, Q * g : Q * (g + 1)] for x in found)), labels, gold,
            classes=classes,
        )
        for g in range(3)
    ]  # fmt: skip
    for name, value in losses.sums.items():
        torch.testing.assert_close(value, sum(one.sums[name] for one in apart) / 3)
    assert losses.counts == apart[0].counts


@pytest.mark.parametrize("classes", KINDS)
def test_batches_add_up(classes):
    found, labels, gold = example(6, classes)
    whole = detection_losses(found, labels, gold, classes=classes)
    first, rest = (
        detection_losses(
            Detections(*(x[:, part] for x in found)), labels[part], gold[part], classes=classes
        )
        for part in (slice(0, 1), slice(1, None))
    )
    torch.testing.assert_close(dict((first + rest).sums), dict(whole.sums))


@pytest.mark.parametrize("classes", KINDS)
def test_pictures_without_objects_teach_that_nothing_is_there(classes):
    found, labels, gold = example(7, classes)
    found.logits.requires_grad_()
    losses = detection_losses(found, torch.full_like(labels, NO_OBJECT), gold, classes=classes)
    assert losses.sums["l1"] == losses.sums["giou"] == 0
    losses.total.backward()
    said = found.logits.grad[..., :C]
    assert (said > 0).all()  # every label becomes less likely


@pytest.mark.parametrize("classes", KINDS)
def test_what_is_right_costs_almost_nothing(classes):
    _, labels, gold = example(8, classes)
    labels = labels.clamp(min=0)
    logits = torch.full((1, B, M, C + (classes == "softmax")), -20.0, dtype=torch.float64)
    logits[0].scatter_(2, labels.unsqueeze(-1), 20.0)
    losses = detection_losses(Detections(logits, gold[None]), labels, gold, classes=classes)
    assert losses.total < 1e-6
    assert "auxiliary" not in losses.sums
