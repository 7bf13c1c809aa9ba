import math

import pytest
import torch

from regard.training.losses import cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_with_the_smoothed_target(rng, smoothing):
    logits = torch.randn(2, 3, 5, generator=rng)
    targets = torch.tensor([[1, 4, 0], [2, 0, 0]])  # 0 is padding
    wanted = 0.0
    for b, t in ((0, 0), (0, 1), (1, 0)):
        powers = [math.exp(x) for x in logits[b, t].tolist()]
        for v in range(5):
            share = smoothing / 5 + (1 - smoothing) * (v == targets[b, t])
            wanted -= share * math.log(powers[v] / sum(powers))
    got = cross_entropy(logits, targets, pad=0, label_smoothing=smoothing)
    assert math.isclose(got, wanted, rel_tol=1e-5)


def test_padding_changes_nothing(rng):
    logits = torch.randn(2, 3, 5, generator=rng)
    targets = torch.tensor([[1, 4, 2], [2, 3, 1]])
    more = torch.nn.functional.pad(logits, (0, 0, 0, 2), value=7.0)
    padded = torch.nn.functional.pad(targets, (0, 2))
    kind = {"pad": 0, "label_smoothing": 0.1}
    torch.testing.assert_close(
        cross_entropy(more, padded, **kind), cross_entropy(logits, targets, **kind)
    )
