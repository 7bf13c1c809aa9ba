"""The whole loss of hard attention, against all draws enumerated."""

import itertools

import pytest
import torch

from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs
from regard.layers.draw import Draw
from regard.models.presets import ModelSettings, build, resolve
from regard.training import reinforce
from regard.training.losses import token_log_probs
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss

SOURCE, TARGET = [5, 6], [7]  # with the end token three keys to look at and two steps


@pytest.fixture
def model():
    torch.manual_seed(0)
    settings = ModelSettings(preset="bahdanau2015", d_model=5, normaliser="hard")
    sizes = {"n_source_vocab": 9, "n_target_vocab": 9, "shared_vocab": True}
    model = build(resolve(settings, **sizes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2  # so that it matters where one looks
    return model


def scores_of(model):
    """What is learned through draws alone."""
    return list(model.decoder.cross_attention.score.parameters())


def exact(model, batch, monkeypatch):
    """∇ Σ over all choices of P(choices) · -log p(target | choices), by enumeration."""
    total = 0.0
    for path in itertools.product(range(3), repeat=2):
        steps, chances = iter(path), []

        def chosen(_self, scores, visible, steps=steps, chances=chances):
            key = next(steps)
            chances.append(scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)[..., key])
            return torch.nn.functional.one_hot(torch.tensor(key), 3).to(scores).expand_as(scores)

        monkeypatch.setattr(Draw, "forward", chosen)
        log_probs = token_log_probs(model(batch.source, batch.target_in), batch.target_out)
        total = total - (chances[0] * chances[1]).sum() * log_probs.sum()
    monkeypatch.undo()
    return torch.autograd.grad(total, scores_of(model))


def test_its_gradient_is_that_of_the_expected_loss(model, monkeypatch):
    n = 100_000
    wanted = exact(model, collate_pairs([Example(SOURCE, TARGET)]), monkeypatch)
    monkeypatch.setattr(reinforce, "ENTROPY", 0.0)
    loss = TokenLoss(TrainSettings(max_steps=1, label_smoothing=0.0))
    batch = collate_pairs([Example(SOURCE, TARGET)] * n)
    loss(model, batch)  # settles the baseline
    loss.baseline.variance = 1.0
    found = torch.autograd.grad(loss(model, batch).total / n, scores_of(model))
    error = sum((a - b).square().sum() for a, b in zip(found, wanted, strict=True)).sqrt()
    length = sum(b.square().sum() for b in wanted).sqrt()
    assert error < 0.1 * length


def test_what_it_remembers_goes_out_and_comes_back(model):
    settings = TrainSettings(max_steps=1, accumulate=2)
    first, second = TokenLoss(settings), TokenLoss(settings)
    for _ in range(3):
        first(model, collate_pairs([Example(SOURCE, TARGET)]))
    second.restore(first.state())
    assert second.state() == first.state()
    assert first.state()["baseline"]["mean"] is not None
