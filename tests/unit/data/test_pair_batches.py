import json
import random
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import CheckpointError, DataError
from regard.data.examples import Example, encode_pairs, within
from regard.data.pair_batches import (
    collate_pairs,
    ordered_batches,
    packed_stream,
    padded_stream,
    pair_lengths,
    tiled_stream,
)
from regard.data.records import Pair
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer


def made(n, seed=0, longest=9):
    """Examples of random lengths; every id tells its example and place."""
    rng = random.Random(seed)
    return [
        Example(
            [10 + 100 * i + j for j in range(rng.randint(0, longest))],
            [60 + 100 * i + j for j in range(rng.randint(0, longest))],
        )
        for i in range(n)
    ]


def epoch_of(stream):
    return [stream.next() for _ in range(stream.n_batches)]


def contents(batches):
    return [(b.numbers, b.source.tolist(), b.target.tolist()) for b in batches]


lengths = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


def test_a_batch_is_padded_after_the_end_and_begins_only_on_the_target_side():
    batch = collate_pairs([Example([5, 6, 7], [8]), Example([9], [])], [40, 7])
    assert batch.source.tolist() == [[5, 6, 7, 2], [9, 2, 0, 0]]
    assert batch.target.tolist() == [[1, 8, 2], [1, 2, 0]]
    assert batch.target_in.tolist() == [[1, 8], [1, 2]]
    assert batch.target_out.tolist() == [[8, 2], [2, 0]]
    assert batch.numbers == (40, 7)
    assert batch.source.dtype == batch.target.dtype == torch.int64


def test_rows_are_numbered_from_zero_when_nobody_says_otherwise():
    assert collate_pairs(made(3)).numbers == (0, 1, 2)


@given(lengths)
@settings(deadline=None)
def test_a_batch_holds_each_text_followed_by_padding_and_counts_the_rest(sizes):
    examples = [Example(range(5, 5 + s), range(7, 7 + t)) for s, t in sizes]
    batch = collate_pairs(examples)
    for row, one in enumerate(examples):
        source, target = batch.source[row].tolist(), batch.target[row].tolist()
        assert source[: len(one.source) + 1] == [*one.source, 2]
        assert target[: len(one.target) + 2] == [1, *one.target, 2]
        assert not any(source[len(one.source) + 1 :])
        assert not any(target[len(one.target) + 2 :])
    assert batch.count == int((batch.target_out != 0).sum())
    assert batch.source.shape[1] == max(s for s, _ in sizes) + 1
    assert batch.target.shape[1] == max(t for _, t in sizes) + 2


def test_a_batch_goes_to_a_device_whole():
    batch = collate_pairs(made(3))
    moved = batch.to("meta")
    assert moved.source.device.type == moved.target.device.type == "meta"
    assert (moved.numbers, moved.count) == (batch.numbers, batch.count)
    assert batch.source.device.type == "cpu"


@given(lengths, st.integers(1, 60), st.integers(0, 3))
@settings(deadline=None)
def test_every_example_comes_once_an_epoch_and_no_batch_is_too_large(sizes, batch_tokens, seed):
    examples = [Example([5] * s, [5] * t) for s, t in sizes]
    stream = padded_stream(examples, batch_tokens=batch_tokens, seed=seed)
    for epoch in range(3):
        batches = epoch_of(stream)
        assert stream.epoch == epoch + 1
        assert sorted(n for b in batches for n in b.numbers) == list(range(len(examples)))
        for batch in batches:
            longest = max(batch.source.shape[1], batch.target_out.shape[1])
            assert len(batch.numbers) == 1 or longest * len(batch.numbers) <= batch_tokens


def test_rows_hold_the_examples_that_their_numbers_name():
    examples = made(30)
    for batch in epoch_of(padded_stream(examples, batch_tokens=40, seed=0)):
        alone = collate_pairs([examples[n] for n in batch.numbers], batch.numbers)
        assert torch.equal(batch.source, alone.source)
        assert torch.equal(batch.target, alone.target)


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    first, again, other = (
        contents(epoch_of(padded_stream(made(50), batch_tokens=40, seed=seed)))
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_the_global_generators_are_neither_read_nor_moved():
    torch.manual_seed(1)
    first = contents(epoch_of(padded_stream(made(50), batch_tokens=40, seed=3)))
    before = torch.get_rng_state()
    torch.manual_seed(2)
    assert contents(epoch_of(padded_stream(made(50), batch_tokens=40, seed=3))) == first
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)


def test_epochs_differ_in_the_order_and_the_company_of_examples():
    stream = padded_stream(made(60), batch_tokens=40, seed=0)
    first, second = epoch_of(stream), epoch_of(stream)
    assert [b.numbers for b in first] != [b.numbers for b in second]
    assert {frozenset(b.numbers) for b in first} != {frozenset(b.numbers) for b in second}


def test_batches_do_not_come_by_length():
    stream = padded_stream(made(200), batch_tokens=40, seed=0)
    widths = [batch.target.shape[1] for batch in epoch_of(stream)]
    assert widths not in (sorted(widths), sorted(widths, reverse=True))


def test_equal_lengths_still_meet_in_random_company():
    examples = [Example([5, 6], [7]) for _ in range(40)]
    stream = padded_stream(examples, batch_tokens=12, seed=0)
    companies = [{frozenset(b.numbers) for b in epoch_of(stream)} for _ in range(2)]
    assert len(companies[0] & companies[1]) <= 2


@pytest.mark.parametrize("cut", range(30))
def test_a_restored_stream_goes_on_as_the_first_would_have(cut):
    whole = padded_stream(made(40), batch_tokens=40, seed=5)
    batches = [whole.next() for _ in range(40)]
    assert whole.epoch >= 2

    stopped = padded_stream(made(40), batch_tokens=40, seed=5)
    for _ in range(cut):
        stopped.next()
    state = json.loads(json.dumps(stopped.state()))
    resumed = padded_stream(made(40), batch_tokens=40, seed=5)
    resumed.restore(state)
    assert contents(resumed.next() for _ in range(40 - cut)) == contents(batches[cut:])
    assert resumed.state() == whole.state()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "seed was 0 when the checkpoint was made and is 1 now"),
        ({"batch_tokens": 30}, "batch_tokens was 40 when the checkpoint was made and is 30 now"),
        ({"examples": made(40, seed=1)}, "data is not what it was"),
        ({"examples": made(41)}, "data is not what it was"),
    ],
)
def test_a_state_of_another_stream_is_refused(change, told):
    def stream(examples=None, batch_tokens=40, seed=0):
        return padded_stream(examples or made(40), batch_tokens=batch_tokens, seed=seed)

    with pytest.raises(CheckpointError, match=told):
        stream(**change).restore(stream().state())


def test_a_changed_id_is_changed_data():
    stream = padded_stream([Example([5, 6], [7])], batch_tokens=40, seed=0)
    other = padded_stream([Example([5, 9], [7])], batch_tokens=40, seed=0)
    with pytest.raises(CheckpointError, match="data is not what it was"):
        other.restore(stream.state())


def test_nothing_to_train_on_is_refused():
    with pytest.raises(DataError, match="no examples"):
        padded_stream([], batch_tokens=40, seed=0)


@pytest.mark.parametrize("mean", [9, 24])
def test_less_than_a_twentieth_of_target_positions_is_padding(mean):
    rng = random.Random(0)
    sources = [max(1, round(rng.lognormvariate(0, 0.6) * mean)) for _ in range(5000)]
    examples = [Example([5] * n, [5] * max(1, n + rng.randint(-3, 4))) for n in sources]
    batches = epoch_of(padded_stream(examples, batch_tokens=1000, seed=0))
    said = sum(batch.count for batch in batches)
    assert said / sum(batch.target_out.numel() for batch in batches) > 0.95
    heard = sum(int((batch.source != 0).sum()) for batch in batches)
    assert heard / sum(batch.source.numel() for batch in batches) > 0.85


@given(lengths, st.integers(1, 60))
@settings(deadline=None)
def test_fixed_batches_hold_every_example_once_by_length_within_the_limit(sizes, batch_tokens):
    examples = [Example([5] * s, [5] * t) for s, t in sizes]
    batches = ordered_batches(examples, batch_tokens)
    numbers = [n for batch in batches for n in batch.numbers]
    assert sorted(numbers) == list(range(len(examples)))
    assert [sizes[n] for n in numbers] == sorted(sizes)
    for batch in batches:
        longest = max(batch.source.shape[1], batch.target_out.shape[1])
        assert len(batch.numbers) == 1 or longest * len(batch.numbers) <= batch_tokens


def test_fixed_batches_are_full():
    batches = ordered_batches([Example([5] * 3, [5] * 4) for _ in range(7)], batch_tokens=15)
    assert [len(batch.numbers) for batch in batches] == [3, 3, 1]


def test_fixed_batches_of_nothing_are_none():
    assert ordered_batches([], 10) == []


SHORT, LONG_SOURCE, LONG_TARGET = (
    Example([5, 6], [7, 8]),
    Example([5, 6, 7], [8]),
    Example([5], [7, 8, 9]),
)


def test_max_len_counts_the_special_token_of_each_side():
    kept, n_long = within([SHORT], 3)
    assert (list(kept), n_long) == ([SHORT], 0)
    batch = collate_pairs([SHORT])
    assert batch.source.shape[1] == batch.target_in.shape[1] == 3


def test_a_pair_that_is_too_long_on_either_side_is_dropped_and_counted():
    kept, n_long = within([LONG_SOURCE, SHORT, LONG_TARGET], 3, "drop")
    assert (list(kept), n_long) == ([SHORT], 2)


def test_a_pair_that_is_too_long_is_truncated_and_counted():
    examples, n_long = within([LONG_SOURCE, SHORT, LONG_TARGET], 3, "truncate")
    assert list(examples) == [Example([5, 6], [8]), SHORT, Example([5], [7, 8])]
    assert n_long == 2


def test_dropping_everything_is_refused_with_a_remedy():
    with pytest.raises(DataError, match=r"all 2 pairs are longer than max_len=3.*truncate"):
        within([LONG_SOURCE, LONG_TARGET], 3)


def test_pairs_become_ids_with_a_tokenizer_a_side():
    source = Tokenizer.train(["b a b"], TextSettings(kind="word"))
    target = Tokenizer.train(["y y x"], TextSettings(kind="char"))
    examples = encode_pairs([Pair("a b", "x y"), Pair("b", "y")], source, target)
    assert examples == [Example([5, 4], [6, 4, 5]), Example([4], [5])]


# ------------------------------------------------------------------ tiles


def test_tiles_hold_every_example_once_an_epoch_in_few_shapes():
    examples = made(300, longest=40)
    stream = tiled_stream(examples, batch_tokens=128, seed=3)
    for _ in range(2):
        batches = epoch_of(stream)
        assert sorted(n for b in batches for n in b.numbers) == list(range(300))
        shapes = {(b.source.shape, b.target.shape) for b in batches}
        assert len(shapes) <= 6  # sides of 8, 16, … 48 positions
        for b in batches:
            plain = collate_pairs([examples[n] for n in b.numbers], b.numbers)
            rows, (_, n_source), (_, n_target) = (
                len(b.numbers),
                plain.source.shape,
                plain.target.shape,
            )
            assert torch.equal(b.source[:rows, :n_source], plain.source)
            assert torch.equal(b.target[:rows, :n_target], plain.target)
            assert not b.source[:rows, n_source:].any()
            assert not b.target[:rows, n_target:].any()
            assert b.count == plain.count
            assert b.source.numel() <= 128 or len(b.source) == 1


def test_tiles_are_no_longer_than_a_model_may_read():
    examples = made(300, longest=40)
    most = max(len(side) + 1 for one in examples for side in (one.source, one.target))
    batches = epoch_of(tiled_stream(examples, batch_tokens=128, seed=3, longest=most))
    assert most % 8  # a tile of its own would be longer
    assert max(b.source.shape[1] for b in batches) == most
    longest = [len(b.source) for b in batches if most in (b.source.shape[1], b.target_in.shape[1])]
    assert {*longest} == {128 // most}  # as many rows as there is room for
    assert max(b.target_in.shape[1] for b in batches) == most
    assert sorted(n for b in batches for n in b.numbers) == list(range(300))


def test_empty_rows_of_a_tile_read_an_end_and_learn_nothing():
    batch = tiled_stream(made(1), batch_tokens=64, seed=0).next()
    assert len(batch.source) > 1
    assert batch.source[1:].sum(dim=1).tolist() == [2] * (len(batch.source) - 1)  # the end is 2
    assert not batch.target_out[1:].any()


def test_tiles_of_documents_are_long_on_one_side_alone():
    examples = [Example(list(range(5, 5 + 90 + i)), [7] * (4 + i % 3)) for i in range(20)]
    batches = epoch_of(tiled_stream(examples, batch_tokens=1024, seed=0))
    assert {b.target.shape[1] for b in batches} == {9}  # begin, and a power of two
    assert {b.source.shape[1] for b in batches} == {96, 112}  # as their own lengths ask for


def test_short_documents_are_not_padded_for_their_long_summaries():
    examples = [Example([5] * n, [7] * 20) for n in (40, 40, 400, 400)]
    batches = epoch_of(tiled_stream(examples, batch_tokens=448, seed=0))
    shapes = {(tuple(b.source.shape), b.target.shape[1]) for b in batches}
    assert shapes == {((9, 48), 33), ((1, 448), 33)}


def test_one_long_summary_pads_no_other():
    examples = [Example([5] * 40, [7] * (100 if i == 3 else 4)) for i in range(20)]
    batches = epoch_of(tiled_stream(examples, batch_tokens=448, seed=0))
    assert [b.target.shape[1] for b in batches if 3 in b.numbers] == [129]
    assert {b.target.shape[1] for b in batches if 3 not in b.numbers} == {9}


@pytest.mark.parametrize("stream_of", [packed_stream, padded_stream, tiled_stream])
def test_a_text_is_as_long_however_it_is_laid_beside_others(stream_of):
    """What a training costs is counted of these lengths, and must not depend on the device."""
    examples = made(50)
    wanted = sorted((len(one.source) + 1, len(one.target) + 1) for one in examples)
    batches = epoch_of(stream_of(examples, batch_tokens=128, seed=3))
    assert len(batches) > 2
    found = [zip(*map(np.ndarray.tolist, pair_lengths(one)), strict=True) for one in batches]
    assert sorted(chain.from_iterable(found)) == wanted
