"""Streams yield the batches of the first version, bit for bit, and can be shared and resumed."""

import hashlib
import json
from itertools import islice

import numpy as np
import pytest
import torch

from regard.core.errors import CheckpointError, DataError
from regard.data.arrays import Arrays
from regard.data.batch import Batch
from regard.data.examples import Example, IdTable
from regard.data.language import Tape, window_stream
from regard.data.pair_batches import ordered_batches, packed_stream, padded_stream, tiled_stream
from regard.data.row_batches import (
    Layout,
    Masking,
    fixed_masked,
    labelled_batch,
    masked_stream,
    row_stream,
    scored_pairs_batch,
    span_batch,
)
from regard.data.stream import Share
from regard.text.specials import SpecialIds

MARKS = SpecialIds(pad=0, begin=1, end=2, unknown=3, mask=4)
LAYOUT = Layout(MARKS, 32)
APART = Layout(MARKS, 15, joined=False)


def corpus(n, longest, seed):
    rng = np.random.default_rng(seed)

    def text():
        return rng.integers(5, 50, size=rng.integers(1, longest)).tolist()

    return IdTable.of([Example(text(), text()) for _ in range(n)])


TEXTS = corpus(300, 20, 1)
ROWS = LAYOUT.cut(TEXTS)[0]
PAIRS = APART.cut(TEXTS)[0]


def rows(collate, table, layout, **learned):
    return row_stream(collate, table, layout, batch_tokens=300, seed=5, **learned)


def scored(scores):
    return rows(scored_pairs_batch, PAIRS, APART, scores=np.array(scores, np.float32))


def windows():
    ids = np.random.default_rng(3).integers(5, 50, 2000).astype(np.int32)
    return window_stream(Tape(ids, 16, 9), batch_tokens=100)


STREAMS = {
    "padded": lambda: padded_stream(TEXTS, batch_tokens=200, seed=7),
    "packed": lambda: packed_stream(TEXTS, batch_tokens=400, seed=7),
    "packed long": lambda: packed_stream(corpus(60, 300, 2), batch_tokens=900, seed=3),
    "labelled": lambda: rows(labelled_batch, ROWS, LAYOUT, labels=np.arange(300) % 3),
    "scored pairs": lambda: scored([i / 7 for i in range(300)]),
    "pairs": lambda: scored([]),
    "spans": lambda: rows(
        span_batch, ROWS, LAYOUT, spans=np.stack([np.arange(300), np.arange(300) + 1], 1)
    ),
    "masked": lambda: masked_stream(ROWS, Masking(LAYOUT, 50), batch_tokens=300, seed=5),
    "windows": windows,
}
PACKED = (
    "source source_positions source_texts source_bounds target_in target_positions target_texts "
    "target_bounds target_out spans block longest"
)
NAMES = {
    "padded": "source target",
    "packed": PACKED,
    "packed long": PACKED,
    "labelled": "ids segments labels",
    "scored pairs": "ids other_ids scores",
    "pairs": "ids other_ids scores",
    "spans": "ids segments allowed spans",
    "masked": "ids segments positions targets",
    "windows": "target",
}
# Of two epochs and three batches, made by the separate streams that there were before (c066c44).
DIGESTS = {
    "padded": "0134cbada4f0b36e",
    "packed": "e00176ed929e855f",
    "packed long": "4d8060bc528e8c1b",
    "labelled": "17983b4567e9532a",
    "scored pairs": "dc83fef2fed7b4fe",
    "pairs": "872361b08f873254",
    "spans": "6dab91c5ccae0fac",
    "masked": "b03cb01b1bd4d5b8",
    "windows": "0e4348d014d98c6a",
}
# What their states held beside epoch and position.
STATES = {
    "padded": {"data": "86a756bebefc84e6eee57141c8ab52a5", "batch_tokens": 200, "packed": False},
    "packed": {"data": "86a756bebefc84e6eee57141c8ab52a5", "batch_tokens": 400, "packed": True},
    "labelled": {
        "data": "0fdd3a53d8daa908d55277c7dd6f4a2d",
        "labels": "adc2c6ca0cc49209f91638c0db162ab7",
    },
    "scored pairs": {"scores": "cab59621144c0d9fe0f3521dda54ff55"},
    "pairs": {"scores": "cae66941d9efbd404e4d88758ea67670"},
    "spans": {"spans": "5a8bcdcc4c06230d981d3ccd2bde33ce"},
    "masked": {"data": "0fdd3a53d8daa908d55277c7dd6f4a2d", "seed": 5},
    "windows": {"data": "014fa8696d9a5b10d7455117c12edf40", "seed": 9, "packed": False},
}


def digest(batches, names):
    hashed = hashlib.sha256()
    for batch in batches:
        for name in names:
            value = batch.sizes[name] if name in batch.sizes else getattr(batch, name)
            if isinstance(value, torch.Tensor):
                hashed.update(str(value.numel()).encode() + value.contiguous().numpy().tobytes())
            else:
                hashed.update(repr(value).encode())
    return hashed.hexdigest()[:16]


def taken(stream, n):
    return [stream.next() for _ in range(n)]


def contents(batches):
    return [(b.numbers, b.count, {k: x.tolist() for k, x in b.tensors.items()}) for b in batches]


@pytest.mark.parametrize("name", STREAMS)
def test_batches_and_states_are_those_of_the_first_version(name):
    stream = STREAMS[name]()
    names = [*NAMES[name].split(), "numbers", "count"]
    assert digest(taken(stream, 2 * stream.n_batches + 3), names) == DIGESTS[name]
    assert STATES.get(name, {}).items() <= stream.state().items()


def test_ordered_batches_are_those_of_the_first_version():
    batches = ordered_batches(TEXTS, 200)
    assert digest(batches, ["source", "target", "numbers"]) == "9016454a5e972968"
    masked = fixed_masked(ROWS, Masking(LAYOUT, 50), 300)
    names = ["ids", "segments", "positions", "targets", "numbers"]
    assert digest(masked, names) == "b7b57d70755db15d"


@pytest.mark.parametrize("name", STREAMS)
def test_going_on_is_exact_wherever_it_was_left(name):
    whole = STREAMS[name]()
    n = whole.n_batches + 2
    expected = contents(taken(whole, n))
    for cut in (0, 1, n - 3, n - 2, n - 1):
        left = STREAMS[name]()
        taken(left, cut)
        resumed = STREAMS[name]()
        resumed.restore(json.loads(json.dumps(left.state())))
        assert contents(taken(resumed, n - cut)) == expected[cut:]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_a_stream_round_by_round(name, world):
    """Together they take what one takes, and after each round all are where one would be."""
    alone = STREAMS[name]()
    parts = [STREAMS[name]().part(Share(rank, 1, world)) for rank in range(world)]
    for _ in range(2 * alone.n_batches // world + 2):
        together = [part.next() for part in parts]
        assert contents(together) == contents(taken(alone, world))
        assert all(part.state() == alone.state() for part in parts)


def test_another_number_of_processes_can_go_on():
    alone = STREAMS["padded"]()
    before = STREAMS["padded"]().part(Share(1, 1, 3))
    taken(before, 2)
    after = STREAMS["padded"]().part(Share(0, 1, 2))
    after.restore(before.state())
    taken(alone, 6)
    assert after.next().numbers == alone.next().numbers


def test_a_rank_outside_the_world_is_refused():
    with pytest.raises(ValueError, match="not a share of a round"):
        STREAMS["padded"]().part(Share(2, 1, 2))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: padded_stream(TEXTS, batch_tokens=200, seed=8), "seed was 8"),
        (lambda: padded_stream(TEXTS, batch_tokens=100, seed=7), "batch_tokens was 100"),
        (lambda: packed_stream(TEXTS, batch_tokens=200, seed=7), "padded or packed otherwise"),
        (lambda: tiled_stream(TEXTS, batch_tokens=200, seed=7), "padded or packed otherwise"),
        (lambda: padded_stream(TEXTS[:-1], batch_tokens=200, seed=7), "data is not what it was"),
    ],
)
def test_a_state_of_something_else_is_refused(other, message):
    with pytest.raises(CheckpointError, match=message):
        STREAMS["padded"]().restore(other().state())
    with pytest.raises(CheckpointError):
        other().restore(STREAMS["padded"]().state())


def test_a_batch_reads_its_tensors_as_attributes():
    batch = Batch({"source": torch.zeros(2, 3)}, (4, 5), count=2)
    assert batch.source.shape == (2, 3)
    assert torch.equal(batch.to("cpu").source, batch.source)
    with pytest.raises(AttributeError, match="no 'labels'; it has source"):
        _ = batch.labels
    assert not hasattr(batch, "__array__")


def frames(n=30, width=4, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rng.integers(1, 9), width)).astype(np.float32) for _ in range(n)]


def test_vectors_come_padded_with_their_lengths():
    source, labels = frames(), np.arange(30)
    stream = Arrays(source=source, labels=labels).stream(batch_tokens=24, seed=0)
    seen = []
    for batch in islice(iter(stream.next, None), stream.n_batches):
        assert batch.source.shape[0] * batch.source.shape[1] <= 24
        assert batch.labels.tolist() == list(batch.numbers)
        assert batch.count == len(batch.numbers)
        for row, n, number in zip(batch.source, batch.source_lengths, batch.numbers, strict=True):
            assert np.array_equal(row[:n], source[number])
            assert not row[n:].any()
        seen += batch.numbers
    assert sorted(seen) == list(range(30))


def test_pictures_of_one_size_are_stacked():
    arrays = Arrays(source=np.zeros((5, 3, 8, 8), np.float32), labels=np.arange(5))
    (batch,) = arrays.ordered(batch_tokens=5)
    assert batch.source.shape == (5, 3, 8, 8)
    assert arrays.digest != Arrays(source=np.ones((5, 3, 8, 8)), labels=np.arange(5)).digest


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(DataError, match="equally many"):
        Arrays(source=frames(3), labels=np.arange(2))
    with pytest.raises(DataError, match="no examples"):
        padded_stream([], batch_tokens=10, seed=0)
