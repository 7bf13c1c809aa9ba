import math
from collections import Counter

import pytest
import torch
from table_model import TableModel, fixed_table, log_prob_by_forward, random_table, sources

from regard.core.errors import CheckpointError, ConfigError
from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampler, distribution, draw, noise_for
from regard.decoding.sampling import sample as sample_by
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

ROWS = ((5, 4), (3,), (4, 4, 3, 5), (5, 5, 5), (3, 4))
LIMITS = (6, 1, 9, 4, 12)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def sample(model, source, *, limits, rng, length_penalty=0.6, **cuts):
    """Each sentence draws by numbers of its own."""
    sampler = Sampler(noise_for(limits.tolist(), rng), **cuts)
    return sample_by(model, source, limits=limits, sampler=sampler, length_penalty=length_penalty)


def drawn(model, *, seed=0, **settings):
    limits = torch.tensor(LIMITS)
    return sample(model, sources(*ROWS), limits=limits, rng=seeded(seed), **settings)


@pytest.mark.parametrize("temperature", [0.0, 1e-50, 1e-6])
def test_temperature_to_zero_is_greedy(temperature):
    model = TableModel(random_table(0, n_vocab=7, end=1.0))
    expected = greedy(model, sources(*ROWS), limits=torch.tensor(LIMITS))
    assert drawn(model, temperature=temperature) == expected
    assert drawn(model) != expected  # the test can fail


def test_top_one_is_greedy():
    model = TableModel(random_table(0, n_vocab=7, end=1.0))
    assert drawn(model, top_k=1) == greedy(model, sources(*ROWS), limits=torch.tensor(LIMITS))


def test_temperature_worked_by_hand():
    probs = torch.tensor([[0.2, 0.8]], dtype=torch.float64)
    # Temperature 1/2 squares probabilities: 0.04 and 0.64 of 0.68.
    expected = torch.tensor([[1 / 17, 16 / 17]], dtype=torch.float64)
    torch.testing.assert_close(distribution(probs.log(), temperature=0.5), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-5, 1e-40, 1e-320])
def test_no_temperature_is_too_small(temperature, dtype):
    log_probs = torch.tensor([[-6.0, -math.inf, -5.0, -5.5]], dtype=dtype)  # padding has the rest
    assert distribution(log_probs, temperature=temperature).tolist() == [[0, 0, 1, 0]]


def test_a_top_k_beyond_the_vocabulary_cuts_nothing():
    probs = torch.tensor([[0.1, 0.3, 0.4, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(distribution(probs.log(), temperature=1.0, top_k=99), probs)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (0.05, [3]),
        (0.39, [3]),
        (0.41, [1, 3]),
        (0.69, [1, 3]),
        (0.71, [1, 3, 4]),
        (0.89, [1, 3, 4]),
        (0.91, [0, 1, 3, 4]),
        (1.0, [0, 1, 3, 4]),
    ],
)
def test_nucleus_is_the_fewest_tokens_that_reach_top_p(top_p, kept):
    given = torch.tensor([[0.1, 0.3, 0.0, 0.4, 0.2]], dtype=torch.float64)
    expected = torch.zeros_like(given)
    expected[0, kept] = given[0, kept] / sum(given[0, i] for i in kept)
    got = distribution(given.log(), temperature=1.0, top_p=top_p)
    torch.testing.assert_close(got, expected)


def test_a_nucleus_that_exactly_reaches_top_p_takes_no_more():
    halves = torch.tensor([[0.125, 0.5, 0.25, 0.125]])
    got = distribution(halves.log(), temperature=1.0, top_p=0.5)
    assert got.tolist() == [[0.0, 1.0, 0.0, 0.0]]


def test_top_p_cuts_what_top_k_and_temperature_left():
    given = torch.tensor([[0.1, 0.3, 0.4, 0.2]], dtype=torch.float64)
    # The best two are 3/7 = 0.43 and 4/7 = 0.57 of each other: 0.5 is reached by one, 0.6 by both.
    one = distribution(given.log(), temperature=1.0, top_k=2, top_p=0.5)
    both = distribution(given.log(), temperature=1.0, top_k=2, top_p=0.6)
    torch.testing.assert_close(one, torch.tensor([[0, 0, 1, 0]]).double())
    torch.testing.assert_close(both, torch.tensor([[0, 3 / 7, 4 / 7, 0]]).double())


def test_equal_tokens_do_not_widen_the_top_k():
    got = distribution(torch.full((1, 5), 0.2).log(), temperature=1.0, top_k=3)
    assert sorted(got[0].tolist()) == pytest.approx([0, 0, 1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_draws_stay_in_the_top_k(top_k):
    table = random_table(4, n_vocab=9, end=-1.0)
    model = TableModel(table)
    ranks = set()
    for seed in range(20):
        for row, hypothesis in zip(ROWS, drawn(model, seed=seed, top_k=top_k), strict=True):
            written = [*hypothesis.ids, *([END_ID] if hypothesis.finished else [])]
            for t, token in enumerate(written):
                logits = table(row, (BEGIN_ID, *written[:t])).clone()
                logits[[PAD_ID, BEGIN_ID]] = -math.inf
                ranks.add(logits.sort(descending=True).indices.tolist().index(token))
    assert ranks == set(range(top_k))


PROBS = (0.15, 0.05, 0.1, 0.05, 0.3, 0.15, 0.2)


@pytest.mark.parametrize(
    ("settings", "weights", "critical"),
    [
        # What each id may be drawn with, before it is divided by the sum; χ² at 0.1 %.
        ({}, {2: 0.1, 3: 0.05, 4: 0.3, 5: 0.15, 6: 0.2}, 18.47),
        ({"temperature": 0.5}, {2: 0.01, 3: 0.0025, 4: 0.09, 5: 0.0225, 6: 0.04}, 18.47),
        ({"top_k": 3}, {4: 0.3, 5: 0.15, 6: 0.2}, 13.82),
        ({"top_p": 0.6}, {4: 0.3, 6: 0.2}, 10.83),
    ],
)
def test_frequencies_are_near_the_probabilities(settings, weights, critical):
    n = 4000
    found = sample(
        TableModel(fixed_table(*PROBS)),
        sources((5,)).expand(n, 1),
        limits=torch.ones(n, dtype=torch.int64),
        rng=seeded(5),
        **settings,
    )
    counts = Counter(END_ID if h.finished else h.ids[0] for h in found)
    assert counts.keys() == weights.keys()
    expected = {i: n * weight / sum(weights.values()) for i, weight in weights.items()}
    chi_square = sum((counts[i] - e) ** 2 / e for i, e in expected.items())
    assert chi_square < critical


def test_later_tokens_are_drawn_afresh():
    model = TableModel(fixed_table(0.0, 0.0, 0.0, 0.5, 0.5))
    (hypothesis,) = sample(model, sources((5,)), limits=torch.tensor([64]), rng=seeded())
    pairs = Counter(zip(hypothesis.ids[::2], hypothesis.ids[1::2], strict=True))
    assert len(pairs) == 4  # each of 33, 34, 43, 44


def test_same_generator_state_same_sample():
    model = TableModel(random_table(6, n_vocab=7))
    assert drawn(model, seed=1) == drawn(model, seed=1)
    assert drawn(model, seed=1) != drawn(model, seed=2)
    rng = seeded(1)
    limits = torch.tensor(LIMITS)
    first = sample(model, sources(*ROWS), limits=limits, rng=rng)
    assert sample(model, sources(*ROWS), limits=limits, rng=rng) != first  # the state moved on


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    drawn(TableModel(random_table(6, n_vocab=7)))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_sample_does_not_depend_on_the_sentences_after_it():
    model = TableModel(random_table(7, n_vocab=7))
    together = drawn(model)
    for n in range(1, len(ROWS)):
        first = sample(
            model, sources(*ROWS[:n]), limits=torch.tensor(LIMITS[:n]), rng=seeded(), top_p=1.0
        )
        assert first == together[:n]


def test_a_sample_does_not_depend_on_when_the_sentences_before_it_end():
    random = random_table(7, n_vocab=7, end=-2.0)
    ends, goes_on = torch.zeros(7).double(), torch.zeros(7).double()
    ends[END_ID], goes_on[5] = 99.0, 99.0
    model = TableModel(lambda s, p: {(3,): ends, (4,): goes_on}.get(s, random(s, p)))
    limits = torch.tensor([8, 8])
    after_short, after_long = (
        sample(model, sources((first,), (5, 5)), limits=limits, rng=seeded()) for first in (3, 4)
    )
    assert [after_short[0].ids, after_long[0].ids] == [(), (5,) * 8]
    assert after_short[1] == after_long[1]
    assert len(after_short[1].ids) > 2


def test_log_prob_is_the_models_own_whatever_the_cuts():
    model = TableModel(random_table(8, n_vocab=7, end=0.5))
    found = drawn(model, temperature=0.7, top_k=4, top_p=0.9, length_penalty=1.0)
    for row, hypothesis in zip(ROWS, found, strict=True):
        assert hypothesis.log_prob == pytest.approx(log_prob_by_forward(model, row, hypothesis))
        n = len(hypothesis.ids) + hypothesis.finished
        assert hypothesis.score == pytest.approx(hypothesis.log_prob * 6 / (5 + n))


def test_limits_are_respected_and_padding_and_begin_never_drawn():
    model = TableModel(random_table(9, n_vocab=5, end=-2.0, spread=0.1))
    written = Counter()
    for seed in range(20):
        for limit, hypothesis in zip(LIMITS, drawn(model, seed=seed), strict=True):
            assert len(hypothesis.ids) + hypothesis.finished <= limit
            assert hypothesis.finished or len(hypothesis.ids) == limit
            written.update(hypothesis.ids)
    assert written.keys() == {3, 4}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_even_the_extreme_draws_have_a_probability(dtype):
    probs = torch.tensor([[0.0, 0.3, 0.0, 0.6000001, 0.1, 0.0]], dtype=dtype)
    lowest, highest = torch.tensor([0.0]), torch.tensor([1.0])  # 1.0 stands for a rounded product
    assert draw(probs, lowest).tolist() == [1]
    assert draw(probs, highest).tolist() == [4]


def test_logits_that_are_no_numbers_are_reported():
    model = TableModel(lambda _source, _prefix: torch.full((6,), math.nan))
    with pytest.raises(CheckpointError, match="logits are not numbers"):
        sample(model, sources((5,)), limits=torch.tensor([3]), rng=seeded())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.5}, "temperature must be at least 0.*-0.5"),
        ({"temperature": math.nan}, "temperature must be at least 0.*nan"),
        ({"temperature": math.inf}, "temperature .* finite: inf"),
        ({"top_k": 0}, "top_k must be at least 1.*: 0"),
        ({"top_p": 0.0}, "top_p must be above 0 .*: 0.0"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1: 1.5"),
        ({"top_k": -1, "top_p": 2.0}, "top_k .*; top_p "),
    ],
)
def test_impossible_settings_are_refused_with_their_values(settings, message):
    with pytest.raises(ConfigError, match=message):
        drawn(TableModel(random_table(0, n_vocab=7)), **settings)


@pytest.mark.parametrize("top_p", [5e-324, 1e-46, 1e-9])
def test_a_share_that_rounds_to_nothing_still_holds_the_best(top_p):
    log_probs = torch.tensor([[0.1, 0.4, 0.3, 0.2]]).log()
    probs = distribution(log_probs, temperature=1.0, top_p=top_p)
    assert probs.tolist() == [[0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e39, 1e308])
def test_no_temperature_makes_a_probability_of_what_is_hidden_or_no_number(temperature):
    log_probs = torch.tensor([[-1.0, -math.inf, -2.0]])
    probs = distribution(log_probs, temperature=temperature, top_p=0.9)
    assert probs[0, 1] == 0
    assert probs.sum() == pytest.approx(1.0)
