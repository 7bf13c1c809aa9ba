"""Every measure of a head against loops over hand-made weights."""

import math

import numpy as np
import pytest

from regard.core.errors import ShapeError
from regard.inspection.heads import MEASURES, tally

PAD, BEGIN, END = 0, 1, 2


def made(shape, seed=0):
    """Rows of positive weights that sum to 1."""
    weights = np.random.default_rng(seed).random(shape) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


def hidden(weights, columns):
    """Padding gets no weight."""
    weights = weights * (columns != PAD)[:, None, None, :]
    return weights / weights.sum(axis=-1, keepdims=True)


def by_loops(weights, rows, columns, *, same):
    """Slow and obvious; head -> measure -> mean."""
    B, H, T, S = weights.shape
    results = []
    for h in range(H):
        seen = {name: [] for name in MEASURES}
        far = mass = 0.0
        for b in range(B):
            word = [columns[b, s] not in (PAD, BEGIN, END) for s in range(S)]
            for t in range(T):
                if rows[b, t] in (PAD, BEGIN, END) or weights[b, h, t].sum() == 0:
                    continue
                row = (weights[b, h, t] / weights[b, h, t].sum()).tolist()
                seen["entropy"].append(-sum(w * math.log2(w) for w in row if w > 0))
                seen["confidence"].append(max(row))
                seen["first"].append(row[0])
                if END in columns[b]:
                    seen["separator"].append(row[columns[b].tolist().index(END)])
                for name, s in (("self", t), ("previous", t - 1), ("next", t + 1)):
                    if same and 0 <= s < S and word[s]:
                        seen[name].append(row[s])
                for s in range(S):
                    if word[s]:
                        far, mass = far + row[s] * abs(t - s), mass + row[s]
        means = {name: sum(found) / len(found) if found else None for name, found in seen.items()}
        results.append({**means, "distance": far / mass if mass else None})
    return results


def assert_same(got, wanted):
    for name in MEASURES:
        for head, one in enumerate(wanted):
            if one[name] is None:
                assert got[name][head] is None, name
            else:
                assert got[name][head] == pytest.approx(one[name]), (name, head)


SOURCE = np.array([[7, 8, 9, 5, END], [6, 4, END, PAD, PAD]])
WRITTEN = np.array([[5, 6, 7, END], [9, END, PAD, PAD]])
READ = np.array([[BEGIN, 5, 6, 7], [BEGIN, 9, PAD, PAD]])


def test_self_attention_of_an_encoder_is_measured_as_loops_do():
    weights = hidden(made((2, 3, 5, 5)), SOURCE)
    got = tally(weights, SOURCE, SOURCE, same=True).means()
    assert_same(got, by_loops(weights, SOURCE, SOURCE, same=True))
    assert None not in [value for values in got.values() for value in values]


def test_self_attention_of_a_decoder_never_sees_what_comes_and_has_no_end_token():
    weights = made((2, 3, 4, 4)) * np.tril(np.ones((4, 4)))
    weights /= weights.sum(axis=-1, keepdims=True)
    got = tally(weights, READ, READ, same=True).means()
    assert_same(got, by_loops(weights, READ, READ, same=True))
    assert got["next"] == [0.0] * 3
    assert got["separator"] == [None] * 3


def test_cross_attention_has_no_self_and_no_neighbours():
    weights = hidden(made((2, 3, 4, 5)), SOURCE)
    got = tally(weights, WRITTEN, SOURCE, same=False).means()
    assert_same(got, by_loops(weights, WRITTEN, SOURCE, same=False))
    for name in ("self", "previous", "next"):
        assert got[name] == [None] * 3


def test_what_a_head_does_can_be_read_off():
    """Three heads on four words and an end: one looks back, one ahead, one at the end token."""
    ids = np.array([[4, 5, 6, 7, END]])
    back, ahead, end = np.eye(5, k=-1), np.eye(5, k=1), np.eye(5)[[4] * 5]
    got = tally(np.stack([back, ahead, end])[None], ids, ids, same=True).means()
    assert got["previous"] == [1.0, 0.0, 0.0]
    assert got["next"] == [0.0, 1.0, 0.0]
    assert got["separator"] == [0.0, 0.25, 1.0]  # the last word's next is the end token
    assert got["entropy"] == [0.0, 0.0, 0.0]
    assert got["confidence"] == [1.0, 1.0, 1.0]
    assert got["distance"] == [1.0, 1.0, None]  # a head that sees no word is nowhere


def test_even_weights_have_the_entropy_of_their_number():
    ids = np.array([[4, 5, 6, 7]])
    got = tally(np.full((1, 1, 4, 4), 0.25), ids, ids, same=True).means()
    assert got["entropy"] == [2.0]
    assert got["confidence"] == [0.25]


def test_rows_that_see_nothing_do_not_count_and_faint_ones_count_in_full():
    ids = np.array([[4, 5, 6]])
    weights = np.array([[0, 0, 0], [1, 0, 0], [0, 0.1, 0]])[None, None]
    got = tally(weights, ids, ids, same=True).means()
    assert got["confidence"] == [1.0]
    assert got["previous"] == [1.0]
    assert got["first"] == [0.5]


def test_padding_changes_nothing():
    weights = made((1, 2, 3, 3))
    ids = np.array([[4, 5, END]])
    wide, padded = made((1, 2, 6, 6), seed=1), np.array([[4, 5, END, PAD, PAD, PAD]])
    wide[:, :, :3] = 0
    wide[:, :, :3, :3] = weights
    once = tally(weights, ids, ids, same=True).means()
    again = tally(wide, padded, padded, same=True).means()
    for name in MEASURES:
        assert again[name] == pytest.approx(once[name])


def test_batches_add_up():
    weights = hidden(made((2, 3, 5, 5)), SOURCE)
    parts = [
        tally(weights[i : i + 1], SOURCE[i : i + 1], SOURCE[i : i + 1], same=True) for i in (0, 1)
    ]
    together = tally(weights, SOURCE, SOURCE, same=True)
    np.testing.assert_allclose((parts[0] + parts[1]).sums, together.sums)
    np.testing.assert_allclose((parts[0] + parts[1]).counts, together.counts)


def test_ids_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"expected rows \(2, 5\)"):
        tally(made((2, 3, 5, 5)), WRITTEN, SOURCE, same=True)
