import math

import pytest
import torch
from table_model import TableModel, fixed_table, log_prob_by_forward, random_table, sources

from regard.core.errors import CheckpointError, ShapeError
from regard.decoding.greedy import greedy
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

ROWS = ((5, 4), (3,), (4, 4, 3, 5), (5, 5, 5), (3, 4))
LIMITS = (6, 1, 9, 4, 30)


def greedy_by_loops(table, row, limit):
    """Slow and obvious: (ids, finished)."""
    ids = []
    while len(ids) < limit:
        logits = table(row, (BEGIN_ID, *ids)).tolist()
        allowed = [i for i in range(len(logits)) if i not in (PAD_ID, BEGIN_ID)]
        best = max(allowed, key=lambda i: logits[i])
        if best == END_ID:
            return tuple(ids), True
        ids.append(best)
    return tuple(ids), False


@pytest.mark.parametrize("seed", range(5))
def test_greedy_equals_loops(seed):
    table = random_table(seed, n_vocab=7, end=1.0)
    found = greedy(TableModel(table), sources(*ROWS), limits=torch.tensor(LIMITS))
    expected = [greedy_by_loops(table, row, n) for row, n in zip(ROWS, LIMITS, strict=True)]
    assert [(h.ids, h.finished) for h in found] == expected
    assert {h.finished for h in found} == {True, False}  # both ways to end are seen


def test_log_prob_and_score_are_found_again_by_a_plain_forward():
    model = TableModel(random_table(1, n_vocab=7, end=1.0))
    found = greedy(model, sources(*ROWS), limits=torch.tensor(LIMITS), length_penalty=0.8)
    for row, hypothesis in zip(ROWS, found, strict=True):
        assert hypothesis.log_prob == pytest.approx(log_prob_by_forward(model, row, hypothesis))
        n = len(hypothesis.ids) + hypothesis.finished
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + n) / 6) ** 0.8)


def test_a_sentence_alone_gives_what_it_gives_in_a_batch():
    model = TableModel(random_table(2, n_vocab=7, end=1.0))
    together = greedy(model, sources(*ROWS), limits=torch.tensor(LIMITS))
    for row, limit, hypothesis in zip(ROWS, LIMITS, together, strict=True):
        assert greedy(model, sources(row), limits=torch.tensor([limit])) == [hypothesis]


def test_sentences_leave_when_they_end():
    model = TableModel(random_table(3, n_vocab=7, end=1.0))
    found = greedy(model, sources(*ROWS), limits=torch.tensor(LIMITS))
    lengths = [len(h.ids) + h.finished for h in found]
    assert model.rows == [sum(n > t for n in lengths) for t in range(max(lengths))]
    assert len(set(model.rows)) > 2  # they ended at different steps
    assert model.n_encoded == 1


def test_padding_and_begin_are_never_written_however_probable():
    model = TableModel(fixed_table(0.5, 0.3, 0.05, 0.15))
    (hypothesis,) = greedy(model, sources((5,)), limits=torch.tensor([3]))
    assert hypothesis.ids == (3, 3, 3)
    assert hypothesis.log_prob == pytest.approx(3 * math.log(0.15))  # not 0.15 / 0.2


def test_the_end_token_may_be_the_last_the_limit_allows():
    table = {(BEGIN_ID,): 3, (BEGIN_ID, 3): END_ID}

    def two_tokens(_source, prefix):
        return torch.nn.functional.one_hot(torch.tensor(table[prefix]), 4).double()

    found = greedy(TableModel(two_tokens), sources((5,), (5,)), limits=torch.tensor([2, 1]))
    assert [(h.ids, h.finished) for h in found] == [((3,), True), ((3,), False)]


def test_narrow_logits_are_summed_in_float32():
    def table(_source, prefix):
        return torch.tensor([0.0, 0.0, -9.0, 0.1 * len(prefix), 0.3], dtype=torch.bfloat16)

    (hypothesis,) = greedy(TableModel(table), sources((5,)), limits=torch.tensor([40]))
    wide = TableModel(lambda source, prefix: table(source, prefix).float())
    assert hypothesis.log_prob == pytest.approx(log_prob_by_forward(wide, (5,), hypothesis))


def test_logits_that_are_no_numbers_are_reported():
    model = TableModel(lambda _source, _prefix: torch.full((6,), math.nan))
    with pytest.raises(CheckpointError, match="logits are not numbers"):
        greedy(model, sources((5,)), limits=torch.tensor([3]))


def test_limits_are_checked():
    with pytest.raises(ShapeError, match="limits"):
        greedy(TableModel(fixed_table(0.1, 0.1, 0.8)), sources((5,)), limits=torch.tensor([3, 3]))
