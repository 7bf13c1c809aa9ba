"""Shards are read a window at a time, in an order that seed, epoch and window decide."""

from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import CheckpointError, DataError
from regard.data.examples import Example, IdTable
from regard.data.language import ShardedTape, window_stream
from regard.data.pair_batches import packed_stream, padded_stream, tiled_stream
from regard.data.shard_windows import ShardedIds, ShardedPairs, ShardOrder
from regard.data.sharding import Chunk, PairEncoder, Preparation, TextEncoder
from regard.data.shards import Manifest, Shard, ShardFolder
from regard.data.stream import Share
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

WORDS = [f"w{i}" for i in range(40)]
SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)


def a_shard(number, units, *, corpus=0, ids=None):
    file = f"{number:06}.npy"
    more = {"longest": 9, "n_long": 0, "size": 10**9, "digest": "", "texts": ""}
    return Shard(file=file, corpus=corpus, units=units, ids=ids or 10 * units, **more)


def an_order(sizes, weights=(1.0,), window_tokens=200, seed=1):
    shards = [a_shard(i, n, corpus=c) for i, (n, c) in enumerate(sizes)]
    return ShardOrder(shards, weights, seed=seed, window_tokens=window_tokens)


def units_of(order, epoch):
    """Every unit of an epoch as (shard, number), in the order of windows."""
    return [
        (one.shard, unit)
        for window in range(order.n_windows)
        for one in order.slices(epoch, window)
        for unit in range(one.begin, one.end)
    ]


# ------------------------------------------------------------------ the order of shards


@SETTINGS
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=9).filter(any),
    window_tokens=st.integers(1, 2000),
    seed=st.integers(0, 3),
    epoch=st.integers(0, 5),
)
def test_every_unit_comes_once_an_epoch_whatever_the_windows(sizes, window_tokens, seed, epoch):
    order = an_order([(n, 0) for n in sizes], window_tokens=window_tokens, seed=seed)
    found = units_of(order, epoch)
    assert sorted(found) == [(shard, unit) for shard, n in enumerate(sizes) for unit in range(n)]
    assert len(order) == len(found) == order.n_units


def test_windows_are_about_equal_and_as_large_as_they_may_be():
    order = an_order([(7, 0)] * 11, window_tokens=150)  # 770 tokens
    sizes = [sum(one.units for one in order.slices(3, w)) for w in range(order.n_windows)]
    assert order.n_windows == 6
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 77


def test_each_epoch_and_each_seed_has_another_order():
    sizes = [(5, 0)] * 12
    orders = [units_of(an_order(sizes, seed=seed), epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(one) for one in orders}) == 4
    assert units_of(an_order(sizes), 1) == orders[1]


@SETTINGS
@given(
    sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 1)), min_size=2, max_size=8),
    weights=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)),
    n_epochs=st.integers(1, 6),
)
def test_corpora_come_by_weight_and_none_repeats_before_all_of_it_came(sizes, weights, n_epochs):
    sizes = [(4, 0), (4, 1), *sizes]
    order = an_order(sizes, weights)
    counts = Counter(unit for epoch in range(n_epochs) for unit in units_of(order, epoch))
    for corpus, n in enumerate(order.per_epoch):
        of_corpus = [
            counts[shard, unit]
            for shard, (size, its) in enumerate(sizes)
            if its == corpus
            for unit in range(size)
        ]
        assert max(of_corpus) - min(of_corpus) <= 1
        assert sum(of_corpus) == n * n_epochs
        share = order.n_units * weights[corpus] / sum(weights)
        assert abs(n - share) <= 1


def test_a_corpus_without_anything_is_told():
    with pytest.raises(DataError, match=r"^corpus 2 of data\.mix has nothing to learn from$"):
        an_order([(5, 0), (0, 1)], (1.0, 1.0))


# ------------------------------------------------------------------ streams


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """200 pairs in shards of 7 or 30 pairs; -> the folder, and the pairs as ids."""
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    tokenizer = Tokenizer.train([" ".join(WORDS)], TextSettings(kind="word"))
    tokenizer.save(folder / "tokenizer.json")

    def text():
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 12)))

    records = [(text(), text()) for _ in range(200)]
    cuts = [0, 30, 37, 67, 97, 104, 134, 164, 194, 200]
    parts = [records[a:b] for a, b in pairwise(cuts)]
    return folder_of(folder, parts, PairEncoder(folder, 64, "drop"), "pair"), [
        Example(tokenizer.encode(source), tokenizer.encode(target)) for source, target in records
    ]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Some 2,000 ids of texts end to end in 5 shards."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    Tokenizer.train([" ".join(WORDS)], TextSettings(kind="word")).save(folder / "tokenizer.json")
    parts = [
        [(" ".join(rng.choice(WORDS, size=9)),) for _ in range(n)] for n in (50, 7, 60, 40, 44)
    ]
    return folder_of(folder, parts, TextEncoder(folder, (2,)), "text")


def folder_of(folder, parts, encode, kind):
    shards = [encode(Chunk(number, 0, "", part)) for number, part in enumerate(parts)]
    manifest = Manifest(kind=kind, asked={}, tokenizers="", shards=tuple(shards))
    Preparation(folder, {}).finish(manifest)
    return ShardFolder(folder)


def sharded(folder, window_tokens=600, seed=3):
    return ShardedPairs(folder, [1.0], seed=seed, window_tokens=window_tokens)


def tape(folder, window_tokens=500, seed=3):
    ids = ShardedIds(folder, [1.0], seed=seed, window_tokens=window_tokens)
    return ShardedTape(ids, 8, seed)


STREAMS = {
    "padded": lambda pairs, texts: padded_stream(sharded(pairs), batch_tokens=80, seed=3),
    "tiled": lambda pairs, texts: tiled_stream(sharded(pairs), batch_tokens=80, seed=3),
    "packed": lambda pairs, texts: packed_stream(sharded(pairs), batch_tokens=160, seed=3),
    "language": lambda pairs, texts: window_stream(tape(texts), batch_tokens=40),
}


@pytest.fixture(params=STREAMS)
def make(request, pairs, texts):
    return lambda: STREAMS[request.param](pairs[0], texts)


def taken(stream, n):
    return [stream.next() for _ in range(n)]


def same(batches, others):
    assert len(batches) == len(others)
    for one, other in zip(batches, others, strict=True):
        assert (one.numbers, one.count) == (other.numbers, other.count)
        assert all(x.equal(other.tensors[name]) for name, x in one.tensors.items())


def one_epoch(stream):
    found = []
    while stream.epoch == 0:
        found.append(stream.next())
    return found


@pytest.mark.parametrize("name", ["padded", "tiled", "packed"])
def test_every_pair_comes_once_an_epoch_and_is_what_its_number_says(name, pairs, texts):
    folder, examples = pairs
    batches = one_epoch(STREAMS[name](folder, texts))
    assert sorted(number for one in batches for number in one.numbers) == list(range(200))
    dataset = sharded(folder)
    assert [dataset[number] for number in range(200)] == examples
    if name == "padded":
        for batch in batches:
            for row, number in zip(batch.source.tolist(), batch.numbers, strict=True):
                assert row[: row.index(2)] == examples[number].source


def test_a_language_is_read_once_an_epoch_as_it_lies_in_the_shards(texts):
    whole = np.concatenate([texts.ids(i) for i in range(5)])
    ends = {int(x) for x in np.cumsum([one.units for one in texts.manifest.shards])}
    batches = one_epoch(window_stream(tape(texts), batch_tokens=40))
    seen = Counter()
    for batch in batches:
        for row, number in zip(batch.target.tolist(), batch.numbers, strict=True):
            inside = next((n for n in range(1, 9) if number + n in ends), 9)
            assert row[:inside] == whole[number : number + inside].tolist()
            seen.update(range(number, number + min(inside, 8)))
    assert max(seen.values()) == 1
    n_windows = tape(texts).n_windows
    assert len(seen) > len(whole) - n_windows * (5 + 2) * 8  # a batch and two ends of a window


@pytest.mark.parametrize("world", [2, 3, 4])
def test_processes_share_the_batches_of_one_and_leave_its_state(make, world):
    alone, ranks = make(), [make().part(Share(rank, 1, world)) for rank in range(world)]
    for _ in range(40):
        same(taken(alone, world), [rank.next() for rank in ranks])
        assert [rank.state() for rank in ranks] == [alone.state()] * world
    assert alone.epoch >= 1


def test_going_on_from_every_cut_is_never_having_stopped(make):
    stream, states = make(), []
    batches = []
    while stream.epoch < 2:
        states.append(stream.state())
        batches.append(stream.next())
    assert len({state["window"] for state in states}) > 2
    for cut in range(0, len(states), 3):
        again = make()
        again.restore(states[cut])
        same(taken(again, min(4, len(batches) - cut)), batches[cut : cut + 4])
        assert again.state() in (*states, stream.state())


def test_a_state_of_other_windows_is_refused(pairs):
    state = padded_stream(sharded(pairs[0]), batch_tokens=80, seed=3).state()
    other = padded_stream(sharded(pairs[0], window_tokens=700), batch_tokens=80, seed=3)
    with pytest.raises(CheckpointError, match="the training data is not what it was"):
        other.restore(state)


def test_one_window_that_holds_all_is_planned_as_a_table_in_memory(pairs):
    """Only the order in which shards are read tells them apart."""
    whole = sharded(pairs[0], window_tokens=10**6)
    assert whole.n_windows == 1
    table = whole.of_window(0, 0)
    plain = IdTable.of([table[i] for i in range(200)])
    ours, theirs = (padded_stream(one, batch_tokens=80, seed=3) for one in (whole, plain))
    for _ in range(ours.n_batches):
        one, other = ours.next(), theirs.next()
        assert one.source.equal(other.source)
        assert one.target.equal(other.target)


def test_a_window_too_small_for_a_batch_is_passed_over(texts):
    """Windows of 8 ids hold no 9, and there are many of them."""
    small = ShardedTape(ShardedIds(texts, [1.0], seed=3, window_tokens=12), 8, 3)
    stream = window_stream(small, batch_tokens=8)
    numbers = [batch.numbers for batch in islice(iter(stream.next, None), 30)]
    assert all(len(some) == 1 for some in numbers)
    none = ShardedTape(ShardedIds(texts, [1.0], seed=3, window_tokens=6), 8, 3)
    with pytest.raises(DataError, match="nothing to train on"):
        window_stream(none, batch_tokens=8).next()
