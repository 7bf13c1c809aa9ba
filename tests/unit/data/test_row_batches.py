"""Texts as an encoder reads them."""

import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.core.errors import CheckpointError, ConfigError
from regard.data.examples import Example, IdTable
from regard.data.row_batches import (
    MASKED,
    SHARE,
    SWAPPED,
    Layout,
    Masking,
    fixed_masked,
    labelled_batch,
    masked_stream,
    ordered_rows,
    row_stream,
    scored_pairs_batch,
)
from regard.text.specials import SpecialIds

MARKS = SpecialIds(pad=0, begin=1, end=2, unknown=3, mask=4)
LAYOUT = Layout(MARKS, max_len=16)


def made(n, seed=0, longest=9, pairs=True):
    rng = random.Random(seed)
    return [
        Example(
            [10 + rng.randrange(80) for _ in range(rng.randint(1, longest))],
            [10 + rng.randrange(80) for _ in range(rng.randint(1, longest) if pairs else 0)],
        )
        for _ in range(n)
    ]


def stream(n=60, seed=3, labels=None, **changes):
    examples = LAYOUT.cut(made(n))[0]
    labels = np.arange(n) % 3 if labels is None else np.array(labels)
    how = {"batch_tokens": 64, "seed": seed, **changes}
    return row_stream(labelled_batch, examples, LAYOUT, labels=labels, **how)


def pairs(n, scores):
    layout = Layout(MARKS, 16, joined=False)
    scores = np.array(scores, np.float32)
    return row_stream(scored_pairs_batch, made(n), layout, batch_tokens=64, seed=1, scores=scores)


def epoch_of(one):
    return [one.next() for _ in range(one.n_batches)]


def contents(batches):
    return [(b.numbers, b.ids.tolist(), b.segments.tolist(), b.labels.tolist()) for b in batches]


def test_a_text_stands_between_begin_and_end_and_a_second_one_after_it():
    table = IdTable.of([Example([5, 6], [7]), Example([8], [])])
    batch = labelled_batch(table, np.array([0, 1]), layout=LAYOUT, labels=np.array([1, 0]))
    assert batch.ids.tolist() == [[1, 5, 6, 2, 7, 2], [1, 8, 2, 0, 0, 0]]
    assert batch.segments.tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert batch.labels.tolist() == [1, 0]
    assert batch.count == 2


def test_a_tokenizer_without_a_begin_token_gives_none():
    layout = Layout(SpecialIds(pad=9, begin=None, end=2, unknown=None), max_len=8)
    ids, segments = layout.texts(IdTable.of([Example([5], [6]), Example([7], [])]), np.arange(2))
    assert ids.tolist() == [[5, 2, 6, 2], [7, 2, 9, 9]]
    assert segments.tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(5, 20))
@hypothesis_settings(deadline=None)
def test_the_longer_of_two_texts_is_cut_first(n, m, max_len):
    """As if one token after the other were taken from the longer, of equals from the second."""
    layout = Layout(MARKS, max_len)
    table, n_cut = layout.cut([Example(range(10, 10 + n), range(50, 50 + m))])
    a, b = n, m
    room = max_len - 2 - (m > 0)
    while a + b > room:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    assert (list(table[0].source), list(table[0].target)) == (
        list(range(10, 10 + a)),
        list(range(50, 50 + b)),
    )
    assert n_cut == (n + m > room)
    assert layout.texts(table, np.arange(1))[0].shape[1] <= max_len


def test_texts_that_are_read_apart_are_cut_apart():
    table, n_cut = Layout(MARKS, 5, joined=False).cut([Example(range(9), [1]), Example([1], [2])])
    assert [len(table[0].source), len(table[0].target), n_cut] == [3, 1, 1]


def test_every_example_comes_once_an_epoch_and_no_batch_is_too_large():
    one = stream(n=97)
    for _ in range(2):
        batches = epoch_of(one)
        assert sorted(n for b in batches for n in b.numbers) == list(range(97))
        assert all(b.ids.numel() <= 64 for b in batches)
        for batch in batches:
            assert batch.labels.tolist() == [n % 3 for n in batch.numbers]


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    first, again, other = (contents(epoch_of(stream(seed=seed))) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_going_on_from_a_place_is_exact():
    one = stream()
    for _ in range(one.n_batches + 3):
        one.next()
    state = json.loads(json.dumps(one.state()))
    rest = contents([one.next() for _ in range(12)])
    other = stream()
    other.restore(state)
    assert contents([other.next() for _ in range(12)]) == rest


def test_other_labels_are_other_data():
    state = stream().state()
    with pytest.raises(CheckpointError, match="labels was"):
        stream(labels=[0] * 60).restore(state)


def test_other_scores_are_other_data():
    state = pairs(9, [i / 9 for i in range(9)]).state()
    with pytest.raises(CheckpointError, match="scores was"):
        pairs(9, [0.5] * 9).restore(state)


def test_rows_do_not_depend_on_their_company():
    one = stream()
    table = LAYOUT.cut(made(60))[0]
    for batch in epoch_of(one):
        for row, number in enumerate(batch.numbers):
            alone = labelled_batch(table, np.array([number]), layout=LAYOUT, labels=np.arange(0))
            width = alone.ids.shape[1]
            assert torch.equal(batch.ids[row, :width], alone.ids[0])
            assert not batch.ids[row, width:].any()
            assert torch.equal(batch.segments[row, :width], alone.segments[0])


def test_for_scoring_all_come_once_in_order_of_length():
    table = LAYOUT.cut(made(50))[0]
    parts = ordered_rows(table, LAYOUT, 64)
    assert sorted(np.concatenate(parts).tolist()) == list(range(50))
    lengths = LAYOUT.sizes(table)[0][np.concatenate(parts)]
    assert (np.diff(lengths) >= 0).all()


def test_pairs_are_read_apart_with_their_scores():
    for batch in epoch_of(pairs(40, [i / 40 for i in range(40)])):
        assert batch.ids.shape[0] == batch.other_ids.shape[0] == len(batch.numbers)
        torch.testing.assert_close(batch.scores, torch.tensor(batch.numbers) / 40)
        assert (batch.ids[:, 0] == 1).all()
        assert (batch.other_ids[:, 0] == 1).all()


def test_pairs_may_have_no_scores():
    assert len(pairs(9, []).next().scores) == 0


def test_a_batch_goes_elsewhere_whole():
    moved = stream().next().to("meta")
    assert {moved.ids.device.type, moved.segments.device.type, moved.labels.device.type} == {"meta"}


# ------------------------------------------------------------------ masked words


def masked(n=300, seed=1, batch_tokens=256):
    examples = LAYOUT.cut(made(n, pairs=False))[0]
    masking = Masking(LAYOUT, 90)
    return examples, masked_stream(examples, masking, batch_tokens=batch_tokens, seed=seed)


def test_fifteen_in_a_hundred_are_to_be_guessed_of_which_eighty_ten_and_ten():
    _, one = masked(n=4000)
    n_text = n_places = n_masks = n_same = 0
    for batch in epoch_of(one):
        text = batch.ids.numel() - int(torch.isin(batch.ids, torch.tensor([0, 1, 2])).sum())
        shown = batch.ids.flatten()[batch.positions]
        n_text += text
        n_places += len(batch.positions)
        n_masks += int((shown == 4).sum())
        n_same += int((shown == batch.targets).sum())
    assert n_places / n_text == pytest.approx(SHARE, abs=0.01)
    assert n_masks / n_places == pytest.approx(MASKED, abs=0.02)
    # Another token is by chance the same in one of 85.
    same = 1 - MASKED - SWAPPED + SWAPPED / 85
    assert n_same / n_places == pytest.approx(same, abs=0.02)
    assert (MASKED, SWAPPED, SHARE) == (0.8, 0.1, 0.15)


def test_targets_are_what_stood_there_and_all_other_places_are_untouched():
    examples, one = masked()
    for batch in epoch_of(one):
        whole, _ = LAYOUT.texts(examples, np.array(batch.numbers))
        again = batch.ids.clone()
        again.view(-1)[batch.positions] = batch.targets
        assert torch.equal(again, whole)
        assert len(batch.positions) == len(set(batch.positions.tolist())) == batch.count > 0
        assert not torch.isin(batch.targets, torch.tensor([0, 1, 2, 4])).any()


def test_only_words_stand_in_for_words():
    _, one = masked(n=2000)
    for batch in epoch_of(one):
        shown = batch.ids.flatten()[batch.positions]
        assert ((shown == 4) | (shown >= 5)).all()


def test_masks_differ_from_epoch_to_epoch_and_can_be_taken_up_again():
    def drawn(batches):
        return [(b.numbers, b.ids.tolist(), b.positions.tolist()) for b in batches]

    _, one = masked()
    first = epoch_of(one)
    state = one.state()
    second = drawn(epoch_of(one))
    by_number = {b.numbers: b.positions.tolist() for b in first}
    assert all(by_number.get(numbers) != places for numbers, _, places in second)
    _, other = masked()
    other.restore(json.loads(json.dumps(state)))
    assert drawn(epoch_of(other)) == second


def test_for_scoring_the_same_words_are_left_out_each_time():
    examples, _ = masked()
    first, again = (fixed_masked(examples, Masking(LAYOUT, 90), 256) for _ in range(2))
    assert [b.ids.tolist() for b in first] == [b.ids.tolist() for b in again]
    assert sorted(n for b in first for n in b.numbers) == list(range(300))


def test_a_batch_of_one_word_has_something_to_guess():
    masking = Masking(LAYOUT, 90)
    one = masked_stream([Example([7], ())], masking, batch_tokens=8, seed=0)
    assert all(one.next().count == 1 for _ in range(20))


def test_a_text_without_words_is_never_learned_from():
    masking = Masking(LAYOUT, 90)
    one = masked_stream([Example([], ()), Example([7], ())], masking, batch_tokens=3, seed=0)
    assert {one.next().numbers for _ in range(9)} == {(1,)}


def test_a_tokenizer_without_a_mask_is_refused():
    with pytest.raises(ConfigError, match="no token for masked words"):
        Masking(Layout(SpecialIds(0, 1, 2, 3), 16), 90)
