"""Losses are computed through the model's ``forward``: hooks fire, wrappers and compilers work."""

import copy

import pytest
import torch
from language_models import language_model
from systems import system

from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.pair_batches import packed_stream, padded_stream
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.tasks.answers import SpanLoss
from regard.tasks.classification import LabelLoss
from regard.tasks.language import NextTokenLoss
from regard.tasks.masked import MaskedLoss
from regard.tasks.similarity import SimilarityLoss
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss

SETTINGS = TrainSettings(max_steps=1)
PAIRS = [Example([4, 5, 6][: n % 3 + 1], [7, 8, 4, 5][: n % 4 + 1]) for n in range(12)]
IDS = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0], [1, 8, 9, 2]])
SEGMENTS = torch.zeros_like(IDS)


def batch_of(**tensors):
    return Batch(tensors, (0, 1, 2), count=3)


def encoder(**head):
    torch.manual_seed(3)
    sizes = {"n_vocab": 13, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 12, "max_len": 16}
    return Encoder(EncoderConfig(**sizes, dropout=0.0, **head))


CASES = {
    "padded": lambda: (
        system("transformer", dropout=0.0),
        TokenLoss(SETTINGS),
        padded_stream(PAIRS, batch_tokens=40, seed=1).next(),
    ),
    "packed": lambda: (
        system("transformer", dropout=0.0),
        TokenLoss(SETTINGS),
        packed_stream(PAIRS, batch_tokens=40, seed=1).next(),
    ),
    "hard": lambda: (
        system("bahdanau2015", normaliser="hard", dropout=0.0),
        TokenLoss(SETTINGS),
        padded_stream(PAIRS, batch_tokens=40, seed=1).next(),
    ),
    "language": lambda: (
        language_model(),
        NextTokenLoss(SETTINGS),
        Batch({"target": torch.randint(0, 13, (3, 9))}, (0, 1, 2), count=24),
    ),
    "classification": lambda: (
        encoder(head="classify", n_labels=3),
        LabelLoss(0.1),
        batch_of(ids=IDS, segments=SEGMENTS, labels=torch.tensor([2, 0, 1])),
    ),
    "masked": lambda: (
        encoder(head="masked"),
        MaskedLoss(0.1),
        batch_of(
            ids=IDS,
            segments=SEGMENTS,
            positions=torch.tensor([1, 5, 10]),
            targets=torch.tensor([5, 7, 9]),
        ),
    ),
    "answers": lambda: (
        encoder(head="spans"),
        SpanLoss(0.1),
        batch_of(ids=IDS, segments=SEGMENTS, allowed=IDS > 2, spans=torch.tensor([[1, 2]] * 3)),
    ),
    "similarity": lambda: (
        encoder(),
        SimilarityLoss(),
        batch_of(ids=IDS, other_ids=IDS[:, :3], scores=torch.zeros(0)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_hooks_of_the_model_fire(case):
    model, objective, batch = CASES[case]()
    fired = []
    model.register_forward_hook(lambda *_: fired.append(1))
    objective(model.train(), batch).total.backward()
    assert len(fired) == (2 if case == "similarity" else 1)


def test_hard_attention_has_a_loss_of_its_own():
    model, objective, batch = CASES["hard"]()
    assert {*objective(model.train(), batch).sums} == {"cross_entropy", "reinforce"}
    assert {*objective(model.eval(), batch).sums} == {"cross_entropy"}


@pytest.mark.parametrize("case", ["padded", "language", "masked"])
def test_a_compiled_forward_hands_on_the_very_output_matrix(case):
    """Else its gradient would be lost, or the matrix copied at every step."""
    model, objective, batch = CASES[case]()
    eager, compiled = objective, copy.copy(objective)
    compiled._lazy_logits = torch.compile(objective._lazy_logits, backend="aot_eager")
    found = []
    for one in (eager, compiled):
        model.zero_grad()
        one(model.train(), batch).total.backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, msg=name)
    inputs = {
        "padded": lambda: (batch.source, batch.target_in, None),
        "language": lambda: (batch.target_in,),
        "masked": lambda: (batch.positions, batch.ids, batch.segments),
    }[case]()
    output = (model.head if case == "masked" else model).output()
    assert compiled._lazy_logits(model, *inputs).weight is output.weight
