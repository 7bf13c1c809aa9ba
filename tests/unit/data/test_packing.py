import json
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lengths import realistic

from regard.core.errors import CheckpointError, DataError
from regard.data.examples import Example, IdTable
from regard.data.pair_batches import Packer, packed_stream, padded_stream, text_lengths

lengths = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=60)


def made(n, longest=20, seed=0):
    """Examples whose ids tell their text and place."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, longest, (n, 2), endpoint=True).tolist()
    return [
        Example(range(1000 * i + 5, 1000 * i + 5 + s), range(1000 * i + 505, 1000 * i + 505 + t))
        for i, (s, t) in enumerate(sizes)
    ]


def epoch_of(stream):
    return [stream.next() for _ in range(stream.n_batches)]


def sides(batch):
    """Ids, positions, texts and bounds of both sides."""
    return (
        (batch.source[0], batch.source_positions, batch.source_texts, batch.source_bounds),
        (batch.target_in[0], batch.target_positions, batch.target_texts, batch.target_bounds),
    )


def bounds_of(batch):
    return ((0, batch.source_bounds), (2, batch.target_bounds))


def packer(examples, batch_tokens):
    return Packer(IdTable.of(examples), batch_tokens=batch_tokens, seed=0)


def shapes(batch):
    return {name: tensor.shape for name, tensor in batch.tensors.items()}


def contents(batches):
    return [
        (b.numbers, b.source.tolist(), b.target_out.tolist(), b.spans.tolist()) for b in batches
    ]


def by_loop(texts, n, n_texts, tail):
    """Ids, positions, texts and bounds, one token after the other."""
    ids, places, owners, bounds = [], [], [], [0]
    for number, text in enumerate(texts):
        for place, token in enumerate(text):
            ids.append(token)
            places.append(place)
            owners.append(number)
        bounds.append(len(ids))
    rest = n - len(ids)
    bounds += [len(ids)] * (n_texts + 1 - len(bounds))
    return [*ids, *[0] * rest], [*places, *[0] * rest], [*owners, *[tail] * rest], bounds


@pytest.mark.parametrize("longest", [20, 100, 150])
def test_texts_lie_end_to_end_as_a_loop_lays_them(longest):
    examples = made(40, longest)
    stream = packed_stream(examples, batch_tokens=256, seed=0)
    room = packer(examples, 256).capacity
    for batch in epoch_of(stream):
        pairs = [examples[number] for number in batch.numbers]
        heard = by_loop([[*p.source, 2] for p in pairs], room.n_source, room.n_texts, -1)
        read = by_loop([[1, *p.target] for p in pairs], room.n_target, room.n_texts, -2)
        said = by_loop([[*p.target, 2] for p in pairs], room.n_target, room.n_texts, -2)
        for side, expected in zip(sides(batch), (heard, read), strict=True):
            assert [part.tolist() for part in side] == list(expected)
        assert batch.target_out.tolist() == [said[0]]
        assert batch.source_bounds[-1] == sum(len(p.source) + 1 for p in pairs)
        assert text_lengths(batch.source_bounds).tolist() == [len(p.source) + 1 for p in pairs]
        assert batch.count == sum(len(p.target) + 1 for p in pairs)


def test_ids_and_positions_are_long_and_the_rest_is_short():
    batch = packed_stream(made(40), batch_tokens=256, seed=0).next()
    for ids, positions, texts, bounds in sides(batch):
        assert ids.dtype == positions.dtype == torch.int64
        assert texts.dtype == bounds.dtype == torch.int32
    assert batch.target_out.dtype == torch.int64
    assert batch.spans.dtype == torch.int32


@given(lengths, st.integers(1, 300), st.integers(0, 3))
@settings(deadline=None)
def test_every_example_comes_once_an_epoch_and_all_batches_have_the_same_shapes(
    sizes, batch_tokens, seed
):
    examples = [Example([5] * s, [6] * t) for s, t in sizes]
    stream = packed_stream(examples, batch_tokens=batch_tokens, seed=seed)
    seen = []
    for epoch in range(3):
        batches = epoch_of(stream)
        assert stream.epoch == epoch + 1
        assert sorted(n for b in batches for n in b.numbers) == list(range(len(examples)))
        seen += batches
    assert all(shapes(batch) == shapes(seen[0]) for batch in seen)
    assert len({tuple(batch.sizes.values()) for batch in seen}) == 1


@given(lengths, st.integers(1, 300))
@settings(deadline=None)
def test_spans_are_whole_texts_in_order_and_no_side_exceeds_the_block(sizes, batch_tokens):
    examples = [Example([5] * s, [6] * t) for s, t in sizes]
    stream = packed_stream(examples, batch_tokens=batch_tokens, seed=0)
    longest = max(chain(*sizes)) + 1
    block = packer(examples, batch_tokens).block
    assert block == (64 if longest <= 64 else 128)
    for batch in epoch_of(stream):
        spans = batch.spans.tolist()
        used = [span for span in spans if any(span)]
        assert spans == used + [[0, 0, 0, 0]] * (len(spans) - len(used))
        for column, bounds in bounds_of(batch):
            edges = [0, *(span[column + 1] for span in used)]
            assert [span[column] for span in used] == edges[:-1]
            assert edges[-1] == bounds[-1]
            assert set(edges) <= set(bounds.tolist())
            assert all(span[column + 1] - span[column] <= block for span in used)
        cuts = [
            {bounds.tolist().index(span[column + 1]) for span in used}
            for column, bounds in bounds_of(batch)
        ]
        assert cuts[0] == cuts[1]


@pytest.mark.parametrize(
    ("longest", "block"), [(63, 64), (64, 128), (127, 128), (128, 0), (300, 0)]
)
@pytest.mark.parametrize("side", [0, 1])
def test_the_block_is_the_smaller_that_holds_every_text_or_none(longest, block, side):
    sizes = [3, 3]
    sizes[side] = longest
    examples = [*made(30), Example([5] * sizes[0], [6] * sizes[1])]
    stream = packed_stream(examples, batch_tokens=200, seed=0)
    batches = epoch_of(stream)
    assert {batch.sizes["block"] for batch in batches} == {block}
    assert {batch.sizes["longest"] for batch in batches} == {longest + 1}
    assert all((len(batch.spans) > 0) == (block > 0) for batch in batches)
    assert batches[0].spans.shape[1] == 4


def wasted(table, batch_tokens):
    """The share of positions in the tails, of source and target, over two epochs."""
    stream = packed_stream(table, batch_tokens=batch_tokens, seed=0)
    batches = epoch_of(stream) + epoch_of(stream)
    counts = [(int(batch.source_bounds[-1]), batch.count) for batch in batches]
    capacity = packer(table, batch_tokens).capacity
    return 1 - np.mean(counts, axis=0) / (capacity.n_source, capacity.n_target)


@pytest.mark.parametrize("longest", [63, 127, 200])
def test_at_a_thousand_texts_less_than_a_fiftieth_is_wasted(longest):
    assert max(wasted(realistic(20000, longest=longest), 28000)) < 0.02


@pytest.mark.parametrize("longest", [63, 200])
def test_smaller_batches_waste_little_more(longest):
    assert max(wasted(realistic(20000, longest=longest), 4096)) < 0.025


def test_the_longer_side_fills_about_the_tokens_asked_for():
    room = packer(realistic(20000), 8192).capacity
    assert 0.97 * 8192 < max(room.n_source, room.n_target) <= 8192


def test_blocks_are_well_filled():
    stream = packed_stream(realistic(20000, longest=63), batch_tokens=8192, seed=0)
    batches = epoch_of(stream)
    n_blocks = sum(int((batch.spans[:, 1] > 0).sum()) for batch in batches)
    assert sum(batch.count for batch in batches) > 0.9 * 64 * n_blocks
    assert n_blocks > 0.97 * sum(len(batch.spans) for batch in batches)


def test_an_epoch_leaves_no_batch_half_empty():
    stream = packed_stream(realistic(2000, longest=63), batch_tokens=20000, seed=0)
    filled = [batch.count for batch in epoch_of(stream)]
    assert len(filled) > 1
    assert min(filled) > 0.95 * max(filled)


def test_texts_meet_in_other_company_each_epoch_whatever_their_length():
    stream = packed_stream(realistic(2000), batch_tokens=8000, seed=0)
    first, second = epoch_of(stream), epoch_of(stream)
    for batch in first:
        for other in second:
            shared = len(set(batch.numbers) & set(other.numbers))
            assert shared < 0.5 * len(batch.numbers)
    means = [batch.count / len(batch.numbers) for batch in first]
    assert max(means) < 1.2 * min(means)


def test_the_same_seed_gives_the_same_batches_and_another_seed_others():
    first, again, other = (
        contents(epoch_of(packed_stream(made(90), batch_tokens=128, seed=seed)))
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("cut", range(0, 24, 3))
def test_a_restored_packed_stream_goes_on_as_the_first_would_have(cut):
    def stream():
        return packed_stream(made(90), batch_tokens=128, seed=5)

    whole, stopped, resumed = stream(), stream(), stream()
    batches = [whole.next() for _ in range(30)]
    assert whole.epoch >= 2
    for _ in range(cut):
        stopped.next()
    resumed.restore(json.loads(json.dumps(stopped.state())))
    assert contents(resumed.next() for _ in range(30 - cut)) == contents(batches[cut:])
    assert resumed.state() == whole.state()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "seed was 0 when the checkpoint was made and is 1 now"),
        ({"batch_tokens": 30}, "batch_tokens was 40 when the checkpoint was made and is 30 now"),
        ({"examples": made(40, seed=1)}, "data is not what it was"),
        ({"kind": padded_stream}, "batches are padded or packed otherwise"),
    ],
)
def test_a_state_of_another_packed_stream_is_refused(change, told):
    def stream(examples=None, batch_tokens=40, seed=0, kind=packed_stream):
        return kind(examples or made(40), batch_tokens=batch_tokens, seed=seed)

    with pytest.raises(CheckpointError, match=told):
        stream(**change).restore(stream().state())


class Growing:
    """Texts that get longer from epoch to epoch."""

    digest, longest = "always the same", 64

    def __len__(self):
        return 400

    def of_epoch(self, epoch):
        return realistic(400, mean=8 + 4 * epoch, longest=63)


def test_shapes_stay_the_same_when_texts_change_and_when_a_stream_is_restored():
    stream, resumed = (packed_stream(Growing(), batch_tokens=2000, seed=0) for _ in range(2))
    batches = [*epoch_of(stream), *epoch_of(stream)]
    resumed.restore({**stream.state(), "epoch": 1, "position": 0})
    later = epoch_of(resumed)
    assert all(shapes(batch) == shapes(batches[0]) for batch in (*batches, *later))
    assert contents(later) == contents(batches[-len(later) :])
    assert sorted(n for batch in later for n in batch.numbers) == list(range(400))


def test_nothing_to_pack_is_refused():
    with pytest.raises(DataError, match="no examples"):
        packed_stream([], batch_tokens=40, seed=0)


def test_a_packed_batch_goes_to_a_device_whole():
    batch = packed_stream(made(9), batch_tokens=64, seed=0).next()
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in moved.tensors.values()} == {"meta"}
    assert shapes(moved) == shapes(batch)
    assert (moved.numbers, moved.sizes) == (batch.numbers, batch.sizes)
    assert batch.source.device.type == "cpu"


def test_a_text_longer_than_a_batch_still_comes():
    examples = [*made(20), Example([5] * 40, [6] * 199)]
    batches = epoch_of(packed_stream(examples, batch_tokens=10, seed=0))
    assert sorted(n for batch in batches for n in batch.numbers) == list(range(21))
