import math

import pytest
import torch
from table_model import TableModel, fixed_table, log_prob_by_forward, random_table, sources

from regard.core.errors import CheckpointError, ConfigError, ShapeError
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.protocol import ControlIds
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

ROWS = ((5, 4), (3,), (4, 4, 3, 5), (5, 5, 5), (3, 4))
LIMITS = (6, 1, 9, 4, 12)


# Oracles: lists and loops, one sentence at a time; they share nothing with the code under test.


def log_probs_by_loops(table, row, ids):
    """{token: log-probability}, without the tokens that may not be written."""
    logits = table(row, (BEGIN_ID, *ids)).tolist()
    norm = math.log(sum(math.exp(x) for x in logits))
    return {i: x - norm for i, x in enumerate(logits) if i not in (PAD_ID, BEGIN_ID)}


def scored(ids, log_prob, alpha):
    return log_prob / ((5 + len(ids)) / 6) ** alpha


def best_first(finished, cut_off, n_best, alpha):
    """[(ids with the end token, log-probability)] -> the n best, finished ones first."""
    ranked = [sorted(part, key=lambda pair: -scored(*pair, alpha)) for part in (finished, cut_off)]
    return (ranked[0] + ranked[1])[:n_best]


def every_target(table, row, limit):
    """[(ids with the end token, log-probability)] of all that end, and of all that are cut off."""
    finished, open_ = [], [((), 0.0)]
    for _ in range(limit):
        grown = [
            ((*ids, token), total + more)
            for ids, total in open_
            for token, more in log_probs_by_loops(table, row, ids).items()
        ]
        finished += [pair for pair in grown if pair[0][-1] == END_ID]
        open_ = [pair for pair in grown if pair[0][-1] != END_ID]
    return finished, open_


def exhaustive_search(table, row, limit, n_best, alpha):
    """Looks at every target there is."""
    return best_first(*every_target(table, row, limit), n_best, alpha)


def unstopped_beam(table, row, limit, n_beams, n_best, alpha):
    """The same search, but it always goes on to the limit."""
    finished, open_ = [], [((), 0.0)]
    for _ in range(limit):
        grown = [
            ((*ids, token), total + more)
            for ids, total in open_
            for token, more in log_probs_by_loops(table, row, ids).items()
        ]
        grown.sort(key=lambda pair: -pair[1])
        finished += [pair for pair in grown[:n_beams] if pair[0][-1] == END_ID]
        open_ = [pair for pair in grown if pair[0][-1] != END_ID][:n_beams]
    return best_first(finished, open_, n_best, alpha)


def as_pairs(hypotheses):
    """Hypotheses in the oracles' terms, exact in ids and rounded in log-probabilities."""
    return [
        ((*h.ids, END_ID) if h.finished else h.ids, pytest.approx(h.log_prob)) for h in hypotheses
    ]


# Laws.


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("n_vocab", [4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_many_beams_equal_exhaustive_search(seed, n_vocab, alpha):
    table = random_table(seed, n_vocab=n_vocab)
    limits = (4, 1, 3, 2, 4)
    n_beams = n_vocab ** max(limits)
    settings = {"n_beams": n_beams, "n_best": 6, "length_penalty": alpha}
    found = beam_search(TableModel(table), sources(*ROWS), limits=torch.tensor(limits), **settings)
    for row, limit, hypotheses in zip(ROWS, limits, found, strict=True):
        assert as_pairs(hypotheses) == exhaustive_search(table, row, limit, 6, alpha)


def test_exhaustive_search_is_more_than_greedy():
    table = random_table(0, n_vocab=5)
    best = [exhaustive_search(table, row, 4, 1, 0.6)[0][0] for row in ROWS]
    follow = greedy(TableModel(table), sources(*ROWS), limits=torch.full((5,), 4))
    assert best != [(*h.ids, END_ID) for h in follow]  # so the test above can fail


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("n_beams", [2, 3, 5])
@pytest.mark.parametrize("end", [-1.0, 1.5])
def test_stopping_early_loses_nothing(n_beams, alpha, end):
    n_stopped = 0
    for seed in range(6):
        table = random_table(seed, n_vocab=7, end=end)
        for n_best in (1, n_beams):
            model = TableModel(table)
            settings = {"n_beams": n_beams, "n_best": n_best, "length_penalty": alpha}
            found = beam_search(model, sources(*ROWS), limits=torch.tensor(LIMITS), **settings)
            n_stopped += sum(model.rows) < n_beams * sum(LIMITS)
            for row, limit, hypotheses in zip(ROWS, LIMITS, found, strict=True):
                expected = unstopped_beam(table, row, limit, n_beams, n_best, alpha)
                assert as_pairs(hypotheses) == expected
    assert n_stopped > 0


@pytest.mark.parametrize(("n_best", "n_steps"), [(1, 2), (2, 3)])
def test_the_stop_worked_by_hand(n_best, n_steps):
    """End has 0.6, the only word 0.4; α = 1 and limit 7, so the bound divides by 12 / 6 = 2.

    step  finished                              bound for the open one
    1     log 0.6 = -0.511                      log 0.4 / 2 = -0.458: could still win
    2     (log 0.4 + log 0.6) / (7/6) = -1.223  2 log 0.4 / 2 = -0.916: one is decided, not two
    3     worse                                 3 log 0.4 / 2 = -1.374: two are decided
    """
    model = TableModel(fixed_table(0.0, 0.0, 0.6, 0.4))
    settings = {"n_beams": 2, "n_best": n_best, "length_penalty": 1.0}
    (found,) = beam_search(model, sources((5,)), limits=torch.tensor([7]), **settings)
    assert len(model.rows) == n_steps
    assert [h.ids for h in found] == [(), (3,)][:n_best]
    expected = [math.log(0.6), (math.log(0.4) + math.log(0.6)) * 6 / 7][:n_best]
    assert [h.score for h in found] == pytest.approx(expected)


def test_a_longer_limit_raises_the_bound():
    """As above, but 43 tokens divide by 8: 3 log 0.4 / 8 = -0.34 could win, 5 … = -0.57 cannot."""
    model = TableModel(fixed_table(0.0, 0.0, 0.6, 0.4))
    beam_search(model, sources((5,)), limits=torch.tensor([43]), n_beams=2, length_penalty=1.0)
    assert len(model.rows) == 5


def test_a_search_without_open_hypotheses_stops():
    model = TableModel(fixed_table(0.0, 0.5, 0.5))  # nothing but the end token can be written
    (found,) = beam_search(model, sources((5,)), limits=torch.tensor([9]), n_beams=3, n_best=3)
    assert as_pairs(found) == [((END_ID,), math.log(0.5))]
    assert len(model.rows) == 1


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy(seed, alpha):
    model = TableModel(random_table(seed, n_vocab=7, end=0.5))
    settings = {"limits": torch.tensor(LIMITS), "length_penalty": alpha}
    found = beam_search(model, sources(*ROWS), n_beams=1, **settings)
    assert found == [[h] for h in greedy(model, sources(*ROWS), **settings)]


@pytest.mark.parametrize("seed", range(3))
def test_a_sentence_alone_gives_what_it_gives_in_a_batch(seed):
    model = TableModel(random_table(seed, n_vocab=7, end=0.5))
    settings = {"n_beams": 4, "n_best": 3}
    together = beam_search(model, sources(*ROWS), limits=torch.tensor(LIMITS), **settings)
    for row, limit, hypotheses in zip(ROWS, LIMITS, together, strict=True):
        alone = beam_search(model, sources(row), limits=torch.tensor([limit]), **settings)
        assert alone == [hypotheses]


def test_order_of_the_batch_is_kept():
    model = TableModel(random_table(1, n_vocab=7, end=0.5))
    limits = torch.tensor(LIMITS)
    forth = beam_search(model, sources(*ROWS), limits=limits, n_beams=3)
    back = beam_search(model, sources(*ROWS[::-1]), limits=limits.flip(0), n_beams=3)
    assert forth == back[::-1]
    assert len({hypotheses[0].ids for hypotheses in forth}) > 2


def test_scores_are_found_again_by_a_plain_forward():
    model = TableModel(random_table(2, n_vocab=7, end=0.5))
    settings = {"n_beams": 4, "n_best": 4, "length_penalty": 0.8}
    found = beam_search(model, sources(*ROWS), limits=torch.tensor(LIMITS), **settings)
    for row, hypotheses in zip(ROWS, found, strict=True):
        for hypothesis in hypotheses:
            expected = log_prob_by_forward(model, row, hypothesis)
            assert hypothesis.log_prob == pytest.approx(expected)
            n = len(hypothesis.ids) + hypothesis.finished
            assert hypothesis.score == pytest.approx(expected / ((5 + n) / 6) ** 0.8)


@pytest.mark.parametrize("end", [-3.0, 0.0, 3.0])
def test_the_n_best_are_distinct_within_limits_and_best_first(end):
    model = TableModel(random_table(3, n_vocab=7, end=end))
    found = beam_search(
        model, sources(*ROWS), limits=torch.tensor(LIMITS), n_beams=4, n_best=4, length_penalty=1.0
    )
    for limit, hypotheses in zip(LIMITS, found, strict=True):
        assert len(hypotheses) == 4
        assert len({(h.ids, h.finished) for h in hypotheses}) == 4
        order = [(h.finished, h.score) for h in hypotheses]
        assert order == sorted(order, reverse=True)
        for hypothesis in hypotheses:
            assert len(hypothesis.ids) + hypothesis.finished <= limit
            assert hypothesis.finished or len(hypothesis.ids) == limit
            assert not {PAD_ID, BEGIN_ID, END_ID} & set(hypothesis.ids)


def test_padding_and_begin_are_never_written_however_probable():
    model = TableModel(fixed_table(0.5, 0.3, 0.05, 0.15))
    settings = {"n_beams": 6, "n_best": 6}
    (found,) = beam_search(model, sources((5,)), limits=torch.tensor([2]), **settings)
    expected = exhaustive_search(fixed_table(0.5, 0.3, 0.05, 0.15), (5,), 2, 6, 0.6)
    assert as_pairs(found) == expected  # three targets, and probabilities that sum to 0.2 a step


def test_what_the_limit_cut_off_comes_after_what_is_finished():
    model = TableModel(fixed_table(0.0, 0.0, 0.1, 0.9))
    settings = {"n_beams": 3, "n_best": 3, "length_penalty": 0.0}
    (found,) = beam_search(model, sources((5,)), limits=torch.tensor([2]), **settings)
    log = math.log
    assert as_pairs(found) == [
        ((END_ID,), log(0.1)),
        ((3, END_ID), log(0.9) + log(0.1)),
        ((3, 3), 2 * log(0.9)),  # more probable, but not finished
    ]
    assert [h.finished for h in found] == [True, True, False]


def test_an_end_beyond_the_first_k_candidates_finishes_nothing():
    """Two words have 0.45 each: the end token, third of three, is not among the first two."""
    model = TableModel(fixed_table(0.0, 0.0, 0.1, 0.45, 0.44))
    (found,) = beam_search(model, sources((5,)), limits=torch.tensor([1]), n_beams=2, n_best=2)
    assert [(h.ids, h.finished) for h in found] == [((3,), False), ((4,), False)]


def test_narrow_logits_are_summed_in_float32():
    wide = random_table(5, n_vocab=7)
    settings = {"limits": torch.tensor(LIMITS), "n_beams": 3, "n_best": 3}
    narrow = TableModel(lambda s, p: wide(s, p).bfloat16())
    same_in_float32 = TableModel(lambda s, p: wide(s, p).bfloat16().float())
    found = beam_search(narrow, sources(*ROWS), **settings)
    assert found == beam_search(same_in_float32, sources(*ROWS), **settings)


# The rule of the first K.


def first_k_ended(table, row, limit, n_beams, n_best, alpha):
    """The same search, which stops once as many have ended as there are beams."""
    finished, open_ = [], [((), 0.0)]
    for _ in range(limit):
        grown = [
            ((*ids, token), total + more)
            for ids, total in open_
            for token, more in log_probs_by_loops(table, row, ids).items()
        ]
        grown.sort(key=lambda pair: -pair[1])
        finished += [pair for pair in grown[:n_beams] if pair[0][-1] == END_ID]
        open_ = [pair for pair in grown if pair[0][-1] != END_ID][:n_beams]
        best = max((total for _, total in finished), default=-math.inf)
        ahead = alpha == 0 and len(finished) >= n_best and best >= open_[0][1]
        if len(finished) >= n_beams or ahead:
            break
    return best_first(finished, open_, n_best, alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("n_beams", [2, 3, 5])
def test_the_first_k_that_end_stop_a_sentence(n_beams, alpha):
    n_steps = {"exact": 0, "first": 0}
    differ = 0
    for seed in range(6):
        table = random_table(seed, n_vocab=7, end=1.0)
        for n_best in (1, n_beams):
            settings = {"n_beams": n_beams, "n_best": n_best, "length_penalty": alpha}
            models = {stop: TableModel(table) for stop in n_steps}
            found = {
                stop: beam_search(
                    model, sources(*ROWS), limits=torch.tensor(LIMITS), stop=stop, **settings
                )
                for stop, model in models.items()
            }
            for stop, model in models.items():
                n_steps[stop] += sum(model.rows)
            differ += found["exact"] != found["first"]
            for row, limit, hypotheses in zip(ROWS, LIMITS, found["first"], strict=True):
                assert as_pairs(hypotheses) == first_k_ended(
                    table, row, limit, n_beams, n_best, alpha
                )
    assert n_steps["first"] < n_steps["exact"]
    assert alpha == 0 or differ > 0  # so it may miss a better target


def test_beams_stay_full_however_many_tokens_may_end_a_text():
    """Two ends have 0.4 each: all of the best four continuations of two hypotheses end."""
    told, control = [], ControlIds(frozenset({2, 3}), (0, 1))
    model = TableModel(fixed_table(0.0, 0.0, 0.4, 0.4, 0.11, 0.09))
    settings = {"limits": torch.tensor([4]), "n_beams": 2, "n_best": 2, "control": control}
    beam_search(model, sources((5,)), observer=told.append, length_penalty=3.0, **settings)
    assert len(told) > 1
    assert all((step.kept >= 0).all() for step in told)


# Coverage.


def test_the_coverage_penalty_worked_by_hand():
    """Both words have 0.4, the end 0.2. Word 3 looks at the first of two source tokens, word 4 at
    the second; the end at both alike. Only what says both covers the source.
    """
    table = fixed_table(0.0, 0.0, 0.2, 0.4, 0.4)
    steps = []

    class Looking(TableModel):
        def step(self, ids, memory, state):
            logits, state = super().step(ids, memory, state)
            rows = {BEGIN_ID: [0.0, 0.0], 3: [1.0, 0.0], 4: [0.0, 1.0]}
            steps.append(torch.tensor([rows.get(i, [0.0, 0.0]) for i in ids.tolist()]))
            return logits, state

    settings = {"limits": torch.tensor([3]), "n_beams": 16, "n_best": 7, "length_penalty": 0.0}
    (plain,) = beam_search(Looking(table), sources((5, 6)), **settings)
    assert plain[0].ids == ()
    (found,) = beam_search(
        Looking(table), sources((5, 6)), coverage_penalty=1.0,
        attention=lambda: steps[-1], **settings,
    )  # fmt: skip
    assert {found[0].ids, found[1].ids} == {(3, 4), (4, 3)}
    assert found[0].score == pytest.approx(2 * math.log(0.4) + math.log(0.2))  # all is covered
    assert found[0].log_prob == pytest.approx(found[0].score)
    half = next(one for one in found if one.ids in ((3,), (4,), (3, 3), (4, 4), ()))
    assert half.score < half.log_prob + math.log(1e-5)  # one token got nothing


class LookingModel(TableModel):
    """Looks at three source tokens by the token that it reads last; ``looked_at`` is its last
    step's (N, 3).
    """

    def __init__(self, table, looks):
        super().__init__(table)
        self.looks, self.looked_at = looks, None

    def step(self, ids, memory, state):
        self.looked_at = self.looks[ids]
        return super().step(ids, memory, state)


def exhaustive_coverage(table, looks, row, limit, alpha, beta):
    """[(ids with the end token, score)] of every target that ends, best first."""
    scores = []
    for ids, total in every_target(table, row, limit)[0]:
        covered = [sum(looks[i][s] for i in (BEGIN_ID, *ids[:-1])) for s in range(3)]
        penalty = sum(math.log(min(1.0, x)) for x in covered)
        scores.append((ids, scored(ids, total, alpha) + beta * penalty))
    return sorted(scores, key=lambda pair: -pair[1])


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.5), (0.2, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("seed", range(4))
def test_many_beams_with_a_coverage_penalty_equal_exhaustive_search(seed, alpha, beta):
    n_vocab, limit, row = 5, 4, (5, 4, 3)
    table, rng = random_table(seed, n_vocab=n_vocab), torch.Generator().manual_seed(seed)
    looks = (3 * torch.randn(n_vocab, 3, generator=rng)).softmax(dim=1)
    model = LookingModel(table, looks)
    (found,) = beam_search(
        model, sources(row), limits=torch.tensor([limit]), n_beams=n_vocab**limit, n_best=8,
        length_penalty=alpha, coverage_penalty=beta, attention=lambda: model.looked_at,
    )  # fmt: skip
    wanted = exhaustive_coverage(table, looks.tolist(), row, limit, alpha, beta)
    without = exhaustive_coverage(table, looks.tolist(), row, limit, alpha, 0.0)
    assert [ids for ids, _ in wanted[:8]] != [ids for ids, _ in without[:8]]  # it says something
    assert [((*one.ids, END_ID), one.score) for one in found] == [
        (ids, pytest.approx(score, abs=1e-5)) for ids, score in wanted[:8]
    ]


def test_a_coverage_penalty_needs_attention_to_every_source_token():
    with pytest.raises(ConfigError, match="each of the 2 source tokens, but the model looks at 3"):
        beam_search(
            TableModel(random_table(0, n_vocab=7)), sources((5, 6)), limits=torch.tensor([3]),
            n_beams=2, coverage_penalty=0.2, attention=lambda: torch.ones(1, 3),
        )  # fmt: skip


# Work.


def test_sentences_leave_when_they_stop():
    table = random_table(4, n_vocab=7, end=1.0)
    settings = {"n_beams": 3, "n_best": 2}
    steps = []
    for row, limit in zip(ROWS, LIMITS, strict=True):
        alone = TableModel(table)
        beam_search(alone, sources(row), limits=torch.tensor([limit]), **settings)
        steps.append(len(alone.rows))
    model = TableModel(table)
    beam_search(model, sources(*ROWS), limits=torch.tensor(LIMITS), **settings)
    rows = [3 * sum(n > t for n in steps) for t in range(max(steps))]
    assert model.rows == [len(ROWS), *rows[1:]]  # all beams begin with the same token
    assert len(set(steps)) > 2  # they stopped at different steps


def test_the_source_is_read_once_and_memory_moves_only_when_sentences_leave():
    model = TableModel(random_table(4, n_vocab=7, end=1.0))
    beam_search(model, sources(*ROWS), limits=torch.tensor(LIMITS), n_beams=3)
    assert model.n_encoded == 1
    assert model.memory_selects == sorted({3 * len(ROWS), *model.rows[1:]}, reverse=True)
    assert len(model.memory_selects) < len(model.rows)


# Errors.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_beams": 2, "n_best": 5}, "n_best=5 .* n_beams=2 "),
        ({"n_beams": 0}, "n_beams must be at least 1 .*got 0"),
        ({"n_beams": 2, "n_best": 0}, "n_best must be at least 1, got 0"),
        ({"n_beams": 2, "length_penalty": -1.0}, "length_penalty must be at least 0 .*got -1.0"),
        ({"n_beams": 2, "length_penalty": math.nan}, "length_penalty .*got nan"),
        (
            {"n_beams": 2, "coverage_penalty": -1.0, "attention": list},
            "coverage_penalty .*got -1.0",
        ),
        ({"n_beams": -3, "length_penalty": -1.0}, "n_beams .*; length_penalty "),
    ],
)
def test_impossible_settings_are_refused_with_their_values(settings, message):
    model = TableModel(random_table(0, n_vocab=7))
    with pytest.raises(ConfigError, match=message):
        beam_search(model, sources((5,)), limits=torch.tensor([3]), **settings)


def test_limits_are_checked():
    model = TableModel(random_table(0, n_vocab=7))
    with pytest.raises(ShapeError, match="limits"):
        beam_search(model, sources((5,)), limits=torch.tensor([3, 3]), n_beams=2)


def test_logits_that_are_no_numbers_are_reported():
    model = TableModel(lambda _source, _prefix: torch.full((6,), math.nan))
    with pytest.raises(CheckpointError, match="logits are not numbers"):
        beam_search(model, sources((5,)), limits=torch.tensor([3]), n_beams=2)
