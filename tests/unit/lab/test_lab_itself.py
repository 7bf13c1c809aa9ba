import math

import pytest
import torch
import torch.nn.functional as F

from regard import lab
from regard.lab.claims.itself import _own, _plain, _share, _with_lengths, trained_head


def small(**changes):
    return lab.itself(**{"widths": (2, 32), "n_sets": 50, "steps": 2, **changes})


def test_plain_tokens_attend_most_to_themselves():
    result = small()
    assert result.verdict
    assert result.numbers["share by dimensions, normal entries"][0] < 0.6  # but not in a plane


def test_random_queries_and_keys_look_anywhere():
    result = small(projected=True)
    assert not result.verdict
    assert result.numbers["share: random queries and keys"] == pytest.approx(1 / 16, abs=0.03)


def test_a_token_of_the_same_length_never_beats_the_token_itself(rng):
    x = F.normalize(torch.randn(50, 8, 2, generator=rng, dtype=torch.float64), dim=-1)
    assert _share(_plain(3 * x)) == 1


def test_a_longer_token_in_the_same_direction_takes_over():
    x = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])
    assert _share(_plain(x)) == pytest.approx(2 / 3)  # the first looks at the second


def test_weight_on_itself_is_that_of_the_softmax():
    x = torch.eye(3, dtype=torch.float64).expand(1, 3, 3) * 2.0  # scores 4 with itself, else 0
    assert _own(_plain(x)) == pytest.approx(math.exp(4) / (math.exp(4) + 2))


def test_lengths_change_and_directions_stay(rng):
    x = torch.randn(3, 5, 4, generator=rng, dtype=torch.float64)
    changed = _with_lengths(x, 0.5, rng)
    torch.testing.assert_close(F.normalize(changed, dim=-1), F.normalize(x, dim=-1))
    alike = _with_lengths(x, 0.0, rng).norm(dim=-1)
    torch.testing.assert_close(alike, torch.full_like(alike, 2.0))  # the root of 4


def test_a_head_trained_to_mirror_never_looks_at_itself():
    state = torch.random.get_rng_state()
    head = trained_head(8, mirrored=True, steps=250, seed=0)
    assert head.accuracy > 0.9
    assert _share(head.weights) < 0.05
    assert torch.equal(torch.random.get_rng_state(), state)
