"""Learning rates are chosen by a search that knows nothing of training: losses are made up here."""

import math

import pytest

from regard.core.errors import TrainingError
from regard.runs.rates import REACH, SHARES, Trial, least_cost, search_rate


def searched(loss, shares=SHARES, centre=1.0):
    """-> what was found, what was tried as (rate, share), and the costs that were told."""
    tried, told = [], []

    def train(rate, share, left):
        tried.append((rate, share))
        told.append(left)
        value = loss(rate, share)
        return Trial(rate, value, flops=10 * share, seconds=share, share=share)

    return search_rate(centre, shares, train), tried, told


def bowl(best):
    """Lowest at ``best``, the same both ways on a scale of logarithms."""
    return lambda rate, _share: 1 + abs(math.log2(rate / best))


@pytest.mark.parametrize("best", [1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("shares", [SHARES, SHARES[-1:]])
def test_the_grid_widens_until_the_best_rate_is_inside_it(best, shares):
    found, tried, _ = searched(bowl(best), shares)
    rates = {rate for rate, _ in tried}
    assert found.lr == best
    assert not found.bounded
    assert {best / 2, best, 2 * best} <= {rate for rate, share in tried if share == SHARES[-1]}
    assert min(rates) in (0.5, best / 2)  # and no further than that
    assert max(rates) in (2.0, 2 * best)


@pytest.mark.parametrize(("slope", "edge"), [(-1, 2.0**REACH), (1, 2.0**-REACH)])
def test_a_grid_that_comes_to_its_bound_says_so(slope, edge):
    found, tried, _ = searched(lambda rate, _share: 9 + slope * math.log2(rate))
    assert found.bounded
    assert found.lr == edge
    rates = {rate for rate, _ in tried}
    assert all(2.0**-REACH <= rate <= 2.0**REACH for rate in rates)


@pytest.mark.parametrize(("best", "long"), [(2.0, [1, 2, 4]), (0.5, [1, 2, 0.5, 0.25])])
def test_what_is_chosen_is_what_long_trials_say(best, long):
    """Short trials prefer 1, then 2: the grid widens again, for both may be edges of the long."""

    def loss(rate, share):
        slow = 0.3 if rate < 1 and share == SHARES[0] else 0.0
        return bowl(1.0 if share == SHARES[0] else best)(rate, share) + slow

    found, tried, _ = searched(loss)
    assert found.lr == best
    assert tried == [*((r, SHARES[0]) for r in (0.5, 1, 2)), *((r, SHARES[1]) for r in long)]
    assert not found.bounded


def test_rates_that_cannot_be_told_apart_all_go_on():
    flat = {0.5: 5.0, 1.0: 5.01, 2.0: 5.02, 4.0: 6.0, 0.25: 7.0}
    _, tried, _ = searched(lambda rate, share: flat[rate] if share == SHARES[0] else 1 / rate)
    assert [rate for rate, share in tried if share == SHARES[1]][:3] == [0.5, 1.0, 2.0]
    clear = {0.5: 5.0, 1.0: 4.0, 2.0: 4.5}
    _, tried, _ = searched(lambda rate, _share: clear[rate])
    assert [rate for rate, share in tried if share == SHARES[1]][:2] == [1.0, 2.0]


def test_every_trial_is_counted_and_what_follows_is_told_before_it():
    found, tried, told = searched(bowl(1.0))
    assert [(one.lr, one.share) for one in found.trials] == tried
    assert sum(one.flops for one in found.trials) == 10 * sum(share for _, share in tried)
    left = [sum(share for _, share in tried[n + 1 :]) for n in range(len(tried))]
    assert told == pytest.approx(left)
    assert least_cost() == pytest.approx(sum(share for _, share in tried))


def test_rates_that_are_too_high_are_left_for_lower_ones():
    found, tried, _ = searched(lambda rate, _share: None if rate > 0.2 else 1 - rate)
    assert found.lr == 0.125
    assert not found.bounded  # the next above it failed, which is no better
    assert tried[3] == (0.25, SHARES[0])
    found, tried, _ = searched(lambda rate, share: None if rate * share > 0.3 else 1 / rate)
    assert found.lr == 0.5  # 2 and 1 were the best of the short trials
    assert tried[-3:] == [(rate, SHARES[1]) for rate in (2.0, 0.5, 0.25)]
    with pytest.raises(TrainingError, match=r"no learning rate of 0.0625, .*, 2 led anywhere"):
        searched(lambda _rate, _share: None)
