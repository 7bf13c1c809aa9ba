"""``data.loss_on``: the target's tokens are predicted, or those of the source too."""

import pytest
import torch
from systems import system
from torch.nn.functional import cross_entropy

from regard.core.errors import ConfigError
from regard.data.examples import Example
from regard.data.pair_batches import padded_stream
from regard.text.specials import PAD_ID
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss, check_loss_on
from regard.training.update import Update

SETTINGS = TrainSettings(max_steps=1, label_smoothing=0.0, precision="fp32")
PAIRS = [Example([5, 6, 7, 8], [9]), Example([4], [5, 6]), Example([10, 11], [4, 4, 12])]


def first_batch(loss_on):
    stream = padded_stream(PAIRS, batch_tokens=100, seed=0, loss_on=loss_on)
    return stream.next()


@pytest.fixture
def model():
    return system("dmca2018", dropout=0.0).double().train()


def summed(logits, wanted):
    """Token by token, those of padding left out."""
    return sum(
        cross_entropy(logits[b, t], wanted[b, t])
        for b in range(wanted.shape[0])
        for t in range(wanted.shape[1])
        if wanted[b, t] != PAD_ID
    )


def test_sums_and_counts_are_those_of_each_side(model):
    batch = first_batch("all")
    losses = TokenLoss(SETTINGS)(model, batch)
    both = model(batch.source, batch.target_in, with_source=True)
    assert dict(losses.counts) == {"cross_entropy": 2 + 3 + 4, "source": 4 + 1 + 2}
    torch.testing.assert_close(losses.sums["cross_entropy"], summed(both.target, batch.target_out))
    torch.testing.assert_close(losses.sums["source"], summed(both.source, batch.source[:, 1:]))
    assert batch.count == 9 + 7


def test_on_the_target_alone_there_is_one_loss(model):
    batch = first_batch("target")
    losses = TokenLoss(SETTINGS)(model, batch)
    assert dict(losses.counts) == {"cross_entropy": 9}
    assert batch.count == 9


def test_a_model_is_judged_by_its_targets(model):
    batch = first_batch("all")
    losses = TokenLoss(SETTINGS)(model.eval(), batch)
    assert dict(losses.counts) == {"cross_entropy": 9}
    plain = TokenLoss(SETTINGS)(model.eval(), first_batch("target"))
    torch.testing.assert_close(losses.total, plain.total)


def test_gradients_are_of_the_mean_over_all_tokens(model):
    update = Update(model, TokenLoss(SETTINGS), SETTINGS, torch.device("cpu"))
    batch = first_batch("all")
    update.backward(batch, batch.count)
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    both = model(batch.source, batch.target_in, with_source=True)
    total = summed(both.target, batch.target_out) + summed(both.source, batch.source[:, 1:])
    (total / 16).backward()
    for one, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad)


def test_who_cannot_predict_the_source_is_told_so():
    free = SETTINGS.model_copy(update={"teacher_forcing": 0.5})
    check_loss_on("target", system("transformer").config, free)
    check_loss_on("all", system("dmca2018").config, SETTINGS)
    with pytest.raises(
        ConfigError, match="family 'transformer' reads its source and predicts none"
    ):
        check_loss_on("all", system("transformer").config, SETTINGS)
    with pytest.raises(ConfigError, match="needs train.teacher_forcing=1"):
        check_loss_on("all", system("dmca2018").config, free)
