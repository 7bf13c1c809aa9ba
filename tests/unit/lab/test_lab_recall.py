import torch

from regard import lab
from regard.data.records import Pair
from regard.lab.claims.recall import _accuracy, _by_gap
from regard.lab.small_models import tagger


def test_over_a_long_gap_the_rnn_forgets_and_attention_answers():
    result = lab.recall(gaps=(45,), n_steps=250)
    assert result.verdict
    assert result.numbers["RNN: right"][0] < 0.5
    assert result.numbers["attention: right"][0] > 0.95


def test_without_a_gap_nobody_forgets_and_the_claim_does_not_hold():
    result = lab.recall(gaps=(3,), n_steps=200)
    assert not result.verdict
    assert min(result.numbers[f"{kind}: right"][0] for kind in ("RNN", "LSTM", "attention")) > 0.9


def test_questions_are_sorted_by_their_gap():
    pairs = [Pair("fact a b ask a", "b"), Pair("fact c d e f ask c", "d")]
    questions = _by_gap(pairs)
    assert sorted(questions) == [0, 2]
    ids, answers = questions[2]
    assert ids.tolist() == [[0, 4, 5, 6, 7, 1, 4]]
    assert answers.tolist() == [5]


def test_only_the_gaps_asked_for_count():
    def says_three(ids):
        return torch.eye(12)[3].expand(*ids.shape, 12)

    questions = {
        0: (torch.zeros(2, 5, dtype=torch.long), torch.tensor([3, 2])),
        1: (torch.zeros(1, 6, dtype=torch.long), torch.tensor([3])),
    }
    assert _accuracy(says_three, questions, range(1)) == 1 / 2
    assert _accuracy(says_three, questions, range(2)) == 2 / 3


def test_no_tagger_sees_ahead():
    ids = torch.tensor([[0, 1, 2, 3]])
    other = torch.tensor([[0, 1, 3, 2]])
    for kind in ("RNN", "LSTM", "attention"):
        torch.manual_seed(0)
        network = tagger(kind, n_symbols=4, n_answers=5, d_model=8)
        assert network(ids).shape == (1, 4, 5)
        torch.testing.assert_close(network(ids)[:, :2], network(other)[:, :2])
        assert not torch.allclose(network(ids)[:, 2], network(other)[:, 2])


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generator_alone():
    first = lab.recall(gaps=(2,), n_steps=3)
    torch.rand(1)
    before = torch.random.get_rng_state()
    assert lab.recall(gaps=(2,), n_steps=3).numbers == first.numbers
    assert torch.equal(before, torch.random.get_rng_state())
