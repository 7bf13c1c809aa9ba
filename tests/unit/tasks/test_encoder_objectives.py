"""What encoders make small, against sums written out; and what it costs."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.row_batches import Layout, Masking, fixed_masked
from regard.kernels.call import reference_only
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.tasks.classification import LabelLoss
from regard.tasks.masked import MaskedLoss, guessing
from regard.tasks.similarity import TEMPERATURE, SimilarityLoss, contrast
from regard.text.specials import SpecialIds
from regard.training.flops import encoder_flops

SIZES = {"n_vocab": 13, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 12, "max_len": 16}
IDS = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0], [1, 8, 9, 2]])
OTHERS = torch.tensor([[1, 5, 2], [1, 9, 2], [1, 6, 2]])


@pytest.fixture
def make():
    def made(**head):
        torch.manual_seed(3)
        model = Encoder(EncoderConfig(**SIZES, dropout=0.0, **head)).double().eval()
        for parameter in model.parameters():  # a fresh encoder hardly tells texts apart
            torch.nn.init.normal_(parameter)
        return model

    return made


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_labels_cost_their_cross_entropy_with_doubt_spread_over_all(make, smoothing):
    model = make(head="classify", n_labels=3)
    labels = [2, 0, 1]
    batch = batch_of(ids=IDS, segments=torch.zeros_like(IDS), labels=torch.tensor(labels))
    log_probs = model(IDS).log_softmax(dim=-1)
    expected = 0.0
    for row, label in enumerate(labels):
        for number in range(3):
            wanted = smoothing / 3 + (1 - smoothing) * (number == label)
            expected -= wanted * log_probs[row, number].item()
    assert LabelLoss(smoothing)(model, batch).total.item() == pytest.approx(expected, rel=1e-5)


def batch_of(**tensors):
    return Batch(tensors, (0, 1, 2), count=3)


def vectors(model):
    first, second = ([*model.pooled(ids).detach()] for ids in (IDS, OTHERS))
    return [[x / x.norm() for x in side] for side in (first, second)]


def test_pairs_with_scores_cost_the_squared_distance_of_their_cosines(make):
    model = make()
    first, second = vectors(model)
    scores = torch.tensor([1.0, 0.25, 0.5])
    cosines = [float(a @ b) for a, b in zip(first, second, strict=True)]
    expected = sum((c - s) ** 2 for c, s in zip(cosines, scores.tolist(), strict=True))
    loss = SimilarityLoss()(model, batch_of(ids=IDS, other_ids=OTHERS, scores=scores)).total
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_pairs_without_scores_cost_what_finding_the_partner_costs_both_ways(rng):
    first, second = (
        torch.nn.functional.normalize(torch.randn(4, 5, generator=rng), dim=-1) for _ in range(2)
    )
    ways = [0.0, 0.0]
    for i in range(4):
        there = [math.exp(float(first[i] @ b) / TEMPERATURE) for b in second]
        back = [math.exp(float(a @ second[i]) / TEMPERATURE) for a in first]
        ways[0] -= math.log(there[i] / sum(there))
        ways[1] -= math.log(back[i] / sum(back))
    assert abs(ways[0] - ways[1]) > 0.1
    assert contrast(first, second).item() == pytest.approx(sum(ways) / 2, rel=1e-4)
    assert TEMPERATURE == 0.05


def test_pairs_without_scores_are_contrasted(make):
    model = make()
    expected = contrast(*(torch.stack(side) for side in vectors(model)))
    loss = SimilarityLoss()(model, batch_of(ids=IDS, other_ids=OTHERS, scores=torch.zeros(0))).total
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_masked_words_alone_cost_something(make):
    model = make(head="masked")
    layout = Layout(SpecialIds(0, 1, 2, 3, 4), 16)
    texts = [Example([5, 6, 7, 8], ()), Example([9, 10], ()), Example([11, 12, 5], ())]
    (batch,) = fixed_masked(texts, Masking(layout, 13), 100)
    log_probs = model(batch.ids, batch.segments).log_softmax(dim=-1).flatten(0, 1)
    rows = list(zip(batch.positions.tolist(), batch.targets.tolist(), strict=True))
    expected = -sum(log_probs[place, target].item() for place, target in rows)
    assert MaskedLoss(0.0)(model, batch).total.item() == pytest.approx(expected, rel=1e-6)
    scores = guessing(model, [batch], torch.device("cpu"))
    assert scores["loss"] == pytest.approx(expected / len(rows), rel=1e-4)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    right = sum(int(log_probs[place].argmax()) == target for place, target in rows)
    assert scores["accuracy"] == right / len(rows)


@pytest.mark.parametrize(
    ("head", "answers"),
    [
        ({"head": "classify", "n_labels": 3}, 1),
        ({"head": "classify", "n_labels": 3, "pooling": "attention"}, 1),
        ({"head": "classify", "n_labels": 3, "pooling": "attention", "cell": "lstm"}, 1),
        ({"head": "masked"}, 11),
        ({"head": "masked", "cell": "gru"}, 11),
    ],
    ids=str,
)
def test_a_step_costs_what_torch_counts(make, head, answers):
    model = make(**head).requires_grad_(False)
    ids = torch.ones(1, 11, dtype=torch.long)
    with torch.no_grad(), reference_only(), FlopCounterMode(display=False) as counter:
        model(ids)
    counted = encoder_flops(model).training(1, 11, answers)
    assert counted == pytest.approx(3 * counter.get_total_flops(), rel=1e-9)
