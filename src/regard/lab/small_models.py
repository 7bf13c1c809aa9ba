"""What models need that are too small to deserve a run folder: learning, gradients, taggers.

Taggers read a sequence of symbols and label each of them. None of them sees ahead, so that the
recurrent and the attentive ones are asked the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.functional.masks import causal
from regard.layers.embeddings import token_embedding
from regard.models.settings import TransformerConfig
from regard.models.transformer import TransformerEncoder

Kind = Literal["RNN", "LSTM", "attention"]
KINDS: tuple[Kind, ...] = ("RNN", "LSTM", "attention")

LEARNING_RATES: dict[Kind, float] = {"RNN": 1e-2, "LSTM": 1e-2, "attention": 5e-3}
"""The best for each of 1e-3, 3e-3, 5e-3, 1e-2 and 2e-2, found on recall over long gaps."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside the block torch draws from this seed; afterwards as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def fit(
    parameters: Iterable[nn.Parameter], loss: Callable[[], Tensor], *, steps: int, lr: float = 1e-3
) -> list[float]:
    """Adam on ``loss``, which draws its own batch each time; returns the loss of every step.

    Gradients are clipped to norm 1, and the rate falls to zero, so that the end is a calm one.
    """
    learned = list(parameters)
    optimiser = torch.optim.Adam(learned, lr=lr)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, total_iters=steps)
    losses = []
    for _ in range(steps):
        value = loss()
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        falling.step()
        losses.append(value.item())
    return losses


def block_norms(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """x (B, S, D) -> y (B, T, E); the Frobenius norms (B, T, S) of the blocks ∂y_t / ∂x_s."""
    x = x.detach().requires_grad_()
    y = function(x)
    rows = []
    for t in range(y.shape[1]):
        # Examples are strangers, so the gradient of their sum is each one's own.
        parts = [
            torch.autograd.grad(y[:, t, e].sum(), x, retain_graph=True)[0]
            for e in range(y.shape[2])
        ]
        rows.append(torch.cat(parts, dim=-1).norm(dim=-1))
    return torch.stack(rows, dim=1)


def small_config(
    n_vocab: int, d_model: int, n_layers: int, *, n_heads: int, **more: Any
) -> TransformerConfig:
    """A Transformer without dropout, whose feed-forward network is twice as wide as it is."""
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "d_ff": 2 * d_model}
    both = {"n_source_vocab": n_vocab, "n_target_vocab": n_vocab}
    return TransformerConfig(**both, **sizes, dropout=0.0, **more)


def tagger(
    kind: Kind, *, n_symbols: int, n_answers: int, d_model: int = 32, n_attentions: int = 1
) -> nn.Module:
    """ids (B, T) -> logits (B, T, n_answers); a Transformer has ``n_attentions`` layers."""
    if kind == "attention":
        config = small_config(n_symbols, d_model, n_attentions, n_heads=2)
        return EncoderTagger(config, n_answers, lambda ids: causal(ids.shape[1]))
    return _Recurrent(kind, n_symbols, n_answers, d_model)


class _Recurrent(nn.Module):
    def __init__(self, kind: Kind, n_symbols: int, n_answers: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_symbols, d_model)
        self.inner: nn.RNNBase
        if kind == "RNN":
            self.inner = nn.RNN(d_model, d_model, batch_first=True)
        else:
            self.inner = lstm_with_forget_bias(d_model)
        self.answer = nn.Linear(d_model, n_answers)

    def forward(self, ids: Tensor) -> Tensor:
        return self.answer(self.inner(self.embedding(ids))[0])


def lstm_with_forget_bias(d: int) -> nn.LSTM:
    """An LSTM whose forget gate has a bias of 1: it remembers more than it forgets, as usual."""
    lstm = nn.LSTM(d, d, batch_first=True)
    nn.init.ones_(lstm.all_weights[0][-1][d : 2 * d])
    return lstm


class EncoderTagger(nn.Module):
    """A Transformer's encoder: ids (B, T) -> logits (B, T, n_answers); ``mask`` is made of ids."""

    def __init__(
        self, config: TransformerConfig, n_answers: int, mask: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        embedding = token_embedding(config.n_source_vocab, config.d_model)
        self.encoder = TransformerEncoder(config, embedding)
        self.answer = nn.Linear(config.d_model, n_answers)
        self.mask = mask

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, n_answers)."""
        return self.answer(self.encoder(ids, self.mask(ids)))
