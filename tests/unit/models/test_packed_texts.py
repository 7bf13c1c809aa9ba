"""Texts end to end give what the same texts give side by side."""

import math

import numpy as np
import pytest
import torch

from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs, packed_stream
from regard.functional.packing import PackedSide
from regard.models.bytenet import ByteNetConfig, unfolded
from regard.models.convs2s import ConvS2SConfig
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


SIZES = {
    TransformerConfig: {"d_model": 24, "n_heads": 3, "n_layers": 2, "d_ff": 40, "dropout": 0.0},
    ConvS2SConfig: {"d_model": 12, "n_layers": 3, "n_decoder_layers": 2, "dropout": 0.0},
    ByteNetConfig: {"d_model": 6, "n_sets": 2, "dilations": (1, 2, 4)},
}


def model(family, changes):
    torch.manual_seed(1)
    settings = {"n_source_vocab": V, "n_target_vocab": V, **SIZES[family], **changes}
    config = family(**settings)
    assert config.packs
    return build(config).double().train()


CASES = [
    (TransformerConfig, {"positions": "sinusoidal"}),
    (TransformerConfig, {"positions": "learned"}),
    (TransformerConfig, {"positions": "index"}),
    (TransformerConfig, {"positions": "none"}),
    (TransformerConfig, {"norm_first": True}),
    (TransformerConfig, {"score": "content"}),
    (TransformerConfig, {"score": "general"}),
    (TransformerConfig, {"join": "concat"}),
    (ConvS2SConfig, {}),
    (ConvS2SConfig, {"kernel": 4, "top_layers": ((20, 1), (12, 5))}),
    (ConvS2SConfig, {"score": "general", "d_embedding": 10}),
    (ByteNetConfig, {}),
    (ByteNetConfig, {"unfold": (0.7, 2.5)}),
    (ByteNetConfig, {"unfold": (0.0, 3.0), "kernel": 4, "block": "multiplicative"}),
]


@pytest.mark.parametrize(("family", "changes"), CASES, ids=str)
@pytest.mark.parametrize("longest", [12, 150], ids=["in groups", "too long for groups"])
def test_packed_and_padded_texts_give_the_same_loss_and_gradients(family, changes, longest):
    texts = examples(longest)
    one = model(family, changes)
    loss_of = TokenLoss(TrainSettings(max_steps=1))
    packed = packed_stream(texts, batch_tokens=256, seed=1).next()
    assert (packed.sizes["block"] == 0) == (longest > 128)
    padded = collate_pairs([texts[i] for i in packed.numbers])
    assert len(packed.numbers) > 1
    losses = [loss_of(one, batch).total for batch in (packed, padded)]
    torch.testing.assert_close(*losses)
    gradients = [torch.autograd.grad(loss, list(one.parameters())) for loss in losses]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("family", [TransformerConfig, ConvS2SConfig])
@pytest.mark.parametrize(
    "changes",
    [{"score": "additive"}, {"score": "location"}, {"window": "local_m"}, {"normaliser": "hard"}],
    ids=str,
)
def test_what_packed_kernels_cannot_do_is_not_packed(family, changes):
    assert not family(n_source_vocab=V, n_target_vocab=V, **changes).packs


@pytest.mark.parametrize("unfold", [(1.2, 0.0), (1.01, 0.5), (0.3, 2.0)])
def test_there_is_room_for_the_columns_of_many_short_texts(unfold):
    n, (a, b) = 50, unfold
    bounds = torch.arange(n + 1, dtype=torch.int32)  # of one token each
    side = PackedSide(torch.zeros(n, dtype=torch.long), torch.arange(n, dtype=torch.int32), bounds)
    found = unfolded(torch.arange(4, 4 + n)[None], side, unfold, pad_id=0)
    each = math.ceil(a + b)
    assert found.bounds[-1] == each * n <= len(found.texts)
    assert found.texts[: each * n].tolist() == [text for text in range(n) for _ in range(each)]
    assert found.ids[0, : each * n : each].tolist() == [*range(4, 4 + n)]
    assert (found.texts[each * n :] == -1).all()
    assert (found.ids[0, each * n :] == 0).all()
