"""A Transformer's encoder that normalises over its width (LayerNorm) or over the batch (BatchNorm).

The task: at every place of a sentence, say which symbol it began with.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.masks import padding
from regard.lab.learning import fit
from regard.layers.embeddings import token_embedding
from regard.layers.residual import Residual
from regard.models.transformer import Encoder, TransformerConfig

Norm = Literal["LayerNorm", "BatchNorm"]
NORMS: tuple[Norm, ...] = ("LayerNorm", "BatchNorm")

PAD = 0
LONGEST = 16
_SYMBOLS, _WIDTH = 8, 32
_IGNORED = -100
_TESTED = 400  # sentences


class Normalised(nn.Module):
    """ids (B, T) -> logits (B, T, V)."""

    def __init__(self, norm: Norm) -> None:
        super().__init__()
        n_vocab = 1 + _SYMBOLS
        config = TransformerConfig(
            n_source_vocab=n_vocab,
            n_target_vocab=n_vocab,
            pad_id=PAD,
            d_model=_WIDTH,
            n_layers=2,
            n_heads=2,
            d_ff=2 * _WIDTH,
            dropout=0.0,
        )
        self.encoder = Encoder(config, token_embedding(n_vocab, _WIDTH))
        self.answer = nn.Linear(_WIDTH, n_vocab)
        if norm == "BatchNorm":
            for part in list(self.encoder.modules()):
                if isinstance(part, Residual):
                    part.add_module("norm", _OverBatch())

    def forward(self, ids: Tensor) -> Tensor:
        """Padding is hidden from attention, but BatchNorm counts it."""
        return self.answer(self.encoder(ids, padding(ids, pad=PAD)))


class _OverBatch(nn.Module):
    """Mean and deviation of each feature over all places of all sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(_WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.flatten(0, 1)).view_as(x)


def sentences(n: int, *, unequal: bool) -> Tensor:
    """ids (n, T): 2 to LONGEST symbols each, padded to LONGEST, or all of half that length."""
    if not unequal:
        return torch.randint(1, 1 + _SYMBOLS, (n, LONGEST // 2))
    ids = torch.randint(1, 1 + _SYMBOLS, (n, LONGEST))
    return ids.where(torch.arange(LONGEST) < torch.randint(2, LONGEST + 1, (n, 1)), PAD)


class Right(NamedTuple):
    """Shares of right answers on new sentences."""

    as_trained: float
    """With the statistics of the batch at hand."""
    in_evaluation: float
    """With those gathered in training."""


def learned(norm: Norm, *, batch: int, unequal: bool, n_steps: int, seed: int) -> Right:
    """Train on batches of so many sentences, and test on batches as large."""

    def loss() -> Tensor:
        ids = _cut(sentences(batch, unequal=unequal))
        first = ids[:, :1].where(ids != PAD, _IGNORED)
        return F.cross_entropy(model(ids).flatten(0, 1), first.flatten(), ignore_index=_IGNORED)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Normalised(norm)
        fit(model.parameters(), loss, steps=n_steps, lr=2e-3)
        tests = [_cut(sentences(batch, unequal=unequal)) for _ in range(max(1, _TESTED // batch))]
    in_evaluation = _right(model.eval(), tests)
    return Right(_right(model.train(), tests), in_evaluation)


def _cut(ids: Tensor) -> Tensor:
    """Without the columns that are padding in all rows."""
    return ids[:, : int((ids != PAD).sum(dim=1).max())]


@torch.no_grad()
def _right(model: nn.Module, tests: list[Tensor]) -> float:
    found = [(model(ids).argmax(dim=-1) == ids[:, :1])[ids != PAD] for ids in tests]
    return torch.cat(found).double().mean().item()
