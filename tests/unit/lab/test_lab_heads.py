import torch

from regard import lab
from regard.lab.claims.heads import Reader, _weights, best_reader, right, sentences


def small(**changes):
    return lab.heads(**{"counts": (2,), "steps": 150, "n_models": 1, **changes})


def test_one_head_splits_its_weight_but_cannot_keep_two_words_apart():
    result = small()
    one, two = result.numbers["share right by heads"]
    assert result.verdict
    assert one < 0.6
    assert two > 0.95
    assert result.numbers["one head, order not asked"] > 0.95


def test_one_head_is_enough_where_nobody_asks_for_the_order():
    result = small(ordered=False)
    assert not result.verdict
    assert result.numbers["share right by heads"][0] > 0.95


def test_the_words_of_the_two_roles_are_the_answer(rng):
    for words, roles, answer in zip(*(x.tolist() for x in sentences(20, rng)), strict=True):
        assert sorted(roles) == [0] * 6 + [1, 2]
        assert [words[roles.index(1)], words[roles.index(2)]] == answer


def test_an_answer_in_order_needs_both_words_at_their_places():
    logits = torch.zeros(3, 2, 16)
    logits[:, 0, 5] = logits[:, 1, 7] = 1.0
    assert right(logits, torch.tensor([[5, 7], [7, 5], [5, 6]])).tolist() == [True, False, False]


def test_a_set_needs_both_words_and_no_other():
    logits = torch.full((3, 1, 16), -1.0)
    logits[:, 0, [5, 7]] = 1.0
    logits[2, 0, 9] = 1.0
    assert right(logits, torch.tensor([[5, 7], [7, 5], [5, 7]])).tolist() == [True, True, False]


def test_what_one_head_brings_home_is_one_mixture_of_both_words():
    """Exchanging the words does not change a mixture of equal parts, whatever has been learned."""
    model = Reader(1, ordered=True, network=False)
    roles = torch.tensor([[1, 2]])
    there, back = model(torch.tensor([[3, 4]]), roles), model(torch.tensor([[4, 3]]), roles)
    assert _weights(model)[0] == [1 / 8] * 8  # untrained, it looks at all alike
    torch.testing.assert_close(there, back)


def test_training_leaves_the_generator_alone():
    state = torch.random.get_rng_state()
    first = best_reader(2, ordered=True, steps=2, seeds=[3])
    again = best_reader(2, ordered=True, steps=2, seeds=[3])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.model.to_logits.weight, again.model.to_logits.weight)
