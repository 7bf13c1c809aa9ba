"""Texts end to end give what the same texts give side by side."""

import numpy as np
import pytest
import torch

from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs, packed_stream
from regard.models.presets import build
from regard.models.settings import TransformerConfig
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss

V = 50


def examples(longest):
    rng = np.random.default_rng(0)

    def text():
        return rng.integers(4, V, rng.integers(1, longest)).tolist()

    return [Example(text(), text()) for _ in range(40)]


def model(**changes):
    torch.manual_seed(1)
    settings = {"d_model": 24, "n_heads": 3, "n_layers": 2, "d_ff": 40, "dropout": 0.0}
    config = TransformerConfig(n_source_vocab=V, n_target_vocab=V, **(settings | changes))
    assert config.packs
    return build(config).double().train()


CASES = [
    {"positions": "sinusoidal"},
    {"positions": "learned"},
    {"positions": "index"},
    {"positions": "none"},
    {"norm_first": True},
    {"score": "content"},
    {"score": "general"},
    {"join": "concat"},
]


@pytest.mark.parametrize("changes", CASES, ids=str)
@pytest.mark.parametrize("longest", [12, 150], ids=["in groups", "too long for groups"])
def test_packed_and_padded_texts_give_the_same_loss_and_gradients(changes, longest):
    texts = examples(longest)
    one = model(**changes)
    loss_of = TokenLoss(TrainSettings(max_steps=1))
    packed = packed_stream(texts, batch_tokens=256, seed=1).next()
    assert (packed.sizes["block"] == 0) == (longest > 128)
    padded = collate_pairs([texts[i] for i in packed.numbers])
    assert len(packed.numbers) > 1
    losses = [loss_of(one, batch).total for batch in (packed, padded)]
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(loss, list(one.parameters())) for loss in losses]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "changes",
    [{"score": "additive"}, {"score": "location"}, {"window": "local_m"}, {"normaliser": "hard"}],
    ids=str,
)
def test_what_packed_kernels_cannot_do_is_not_packed(changes):
    assert not TransformerConfig(n_source_vocab=V, n_target_vocab=V, **changes).packs
