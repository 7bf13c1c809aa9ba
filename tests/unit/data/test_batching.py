import numpy as np
import pytest
from lengths import realistic

from regard.data.batching import buckets
from regard.data.pair_batches import padded_stream


def lengths(n, **how):
    table = realistic(n, **how)
    return table.source.lengths + 1, table.target.lengths + 1


def padding(side, batches):
    """The share of positions that hold no token."""
    return 1 - side.sum() / sum(len(rows) * side[rows].max() for rows in batches)


@pytest.mark.parametrize("batch_tokens", [2048, 4096])
@pytest.mark.parametrize("mean", [14, 24])
def test_less_than_a_twentieth_of_the_positions_is_padding_on_either_side(mean, batch_tokens):
    source, target = lengths(29000, mean=mean)
    batches = buckets(source, target, batch_tokens, np.random.default_rng(0))
    assert padding(source, batches) < 0.05
    assert padding(target, batches) < 0.05


def test_batches_are_nearly_full():
    source, target = lengths(29000)
    batches = buckets(source, target, 4096, np.random.default_rng(0))
    filled = [len(rows) * max(source[rows].max(), target[rows].max()) for rows in batches]
    assert max(filled) <= 4096
    assert np.mean(filled) > 0.8 * 4096


def test_lengths_without_any_spread_are_no_trouble():
    flat, spread = np.full(1000, 7), np.arange(1000) % 40 + 1
    for source, target in ((flat, spread), (spread, flat), (flat, flat), (spread, spread)):
        batches = buckets(source, target, 200, np.random.default_rng(0))
        assert sorted(np.concatenate(batches)) == list(range(1000))
        assert max(padding(source, batches), padding(target, batches)) < 0.1


def test_examples_meet_other_company_each_epoch():
    stream = padded_stream(realistic(5000), batch_tokens=1000, seed=0)
    company = []
    for _ in range(2):
        met = {}
        for batch in [stream.next() for _ in range(stream.n_batches)]:
            met |= {number: set(batch.numbers) for number in batch.numbers}
        company.append(met)
    kept = [len(company[0][i] & company[1][i]) / len(company[0][i]) for i in range(5000)]
    assert np.mean(kept) < 0.7
