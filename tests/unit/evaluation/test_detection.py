"""Average precision: by hand, and by an implementation of a few loops."""

import numpy as np
import pytest
import torch

from regard.evaluation.detection import Boxes, ap, ap50
from regard.functional.boxes import iou

A, B, C = (0.1, 0.1, 0.3, 0.3), (0.5, 0.5, 0.9, 0.8), (0.0, 0.6, 0.2, 0.9)


def boxes(corners, labels, scores=None):
    return Boxes(
        np.array(corners, np.float32).reshape(-1, 4),
        np.array(labels, np.int64),
        None if scores is None else np.array(scores, np.float32),
    )


def test_a_perfect_detector_has_everything():
    there = [boxes([A, B], [0, 1]), boxes([C], [0])]
    found = [boxes([A, B], [0, 1], [0.9, 0.8]), boxes([C], [0], [0.7])]
    assert ap(found, there) == pytest.approx(1.0)
    assert ap50(found, there) == pytest.approx(1.0)


def test_nothing_found_or_nothing_there_is_nothing():
    assert ap([boxes([], [], [])], [boxes([A], [0])]) == 0
    assert ap([boxes([A], [0], [0.5])], [boxes([], [])]) == 0


def test_a_wrong_label_and_a_second_box_are_errors():
    there = [boxes([A, B], [0, 0])]
    assert ap50([boxes([A, B], [0, 1], [0.9, 0.8])], there) < 0.6
    twice = ap50([boxes([A, A, B], [0, 0, 0], [0.9, 0.8, 0.7])], there)
    assert 0.5 < twice < 1.0


def by_loops(found, there, threshold):
    """AP at one threshold: greedy matching by score, precision made monotone, 101 recalls."""
    values = []
    for label in sorted({int(x) for one in there for x in one.labels}):
        hits, n_there = [], 0
        for said, gold in zip(found, there, strict=True):
            truth = torch.tensor(gold.corners[gold.labels == label])
            n_there += len(truth)
            free = set(range(len(truth)))
            mine = [i for i in np.argsort(-said.scores, kind="stable") if said.labels[i] == label]
            for i in mine:
                overlaps = (
                    iou(torch.tensor(said.corners[i : i + 1]), truth)[0] if len(truth) else []
                )
                best = max(free, key=lambda j: overlaps[j], default=None)
                hit = best is not None and overlaps[best] >= threshold
                if hit:
                    free.remove(best)
                hits.append((float(said.scores[i]), hit))
        hits.sort(key=lambda one: -one[0])
        right = np.cumsum([hit for _, hit in hits])
        precision = right / np.arange(1, len(hits) + 1)
        recall = right / n_there
        total = 0.0
        for r in np.linspace(0, 1, 101):
            later = precision[recall >= r - 1e-12]
            total += later.max() if len(later) else 0.0
        values.append(total / 101)
    return float(np.mean(values))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_a_few_loops_find(seed):
    rng = np.random.default_rng(seed)
    there, found = [], []
    for _ in range(12):
        low = rng.uniform(0, 0.6, (4, 2))
        corners = np.concatenate((low, low + rng.uniform(0.1, 0.4, (4, 2))), axis=1)
        labels = rng.integers(0, 2, 4)
        there.append(boxes(corners, labels))
        near = corners + rng.normal(0, 0.02, corners.shape)
        said = np.where(rng.random(4) < 0.8, labels, 1 - labels)
        found.append(boxes(near, said, rng.random(4)))
    assert ap50(found, there) == pytest.approx(by_loops(found, there, 0.5), abs=1e-6)
    thresholds = np.arange(0.5, 1.0, 0.05)
    expected = np.mean([by_loops(found, there, t) for t in thresholds])
    assert ap(found, there) == pytest.approx(expected, abs=1e-6)
