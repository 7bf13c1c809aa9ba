import pytest
import torch

from regard.core.errors import ConfigError, ShapeError
from regard.decoding.protocol import checked_limits, next_log_probs
from regard.text.specials import BEGIN_ID, PAD_ID

SOURCE = torch.full((3, 5), 7)


def test_padding_and_begin_are_forbidden_but_keep_their_share():
    probs = torch.tensor([[0.2, 0.1, 0.4, 0.3]], dtype=torch.float64)
    log_probs = next_log_probs(probs.log() + 5)
    assert log_probs[0, [PAD_ID, BEGIN_ID]].exp().tolist() == [0.0, 0.0]
    torch.testing.assert_close(log_probs[:, 2:].exp(), probs[:, 2:])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_log_softmax_is_at_least_in_float32(given, expected):
    logits = torch.tensor([[0.3, -1.2, 2.1, 0.7, 0.5]]).to(given)
    log_probs = next_log_probs(logits)
    assert log_probs.dtype == expected
    wide = logits.to(expected).log_softmax(dim=-1)  # rounding after would lose digits
    assert torch.equal(log_probs[:, 2:], wide[:, 2:])


def test_logits_are_left_as_they_were():
    logits = torch.zeros(1, 4)
    next_log_probs(logits)
    assert torch.equal(logits, torch.zeros(1, 4))


@pytest.mark.parametrize(
    "limits",
    [
        torch.tensor([4, 5]),
        torch.tensor(4),
        torch.tensor([[4], [5], [6]]),
        torch.tensor([4.0, 5.0, 6.0]),
    ],
)
def test_limits_must_be_one_integer_a_sentence(limits):
    with pytest.raises(ShapeError, match=r"one integer a sentence, here \(3,\), got"):
        checked_limits(SOURCE, limits)


def test_a_limit_without_room_is_refused_with_its_value():
    with pytest.raises(ConfigError, match=r"at least 1 token, got a limit of -2; raise max_len"):
        checked_limits(SOURCE, torch.tensor([4, -2, 6]))


def test_good_limits_pass():
    limits = torch.tensor([1, 2, 3], dtype=torch.int32)
    assert torch.equal(checked_limits(SOURCE, limits), limits)
