"""A Transformer of sixteen layers learns as one of few does; a stack of sixteen LSTMs does not.

Stacks of 1 to 16 layers learn to say which symbol came just before: one layer is enough, so that
all that depth can do here is to stand in the way. The gradient that reaches the lowest layer before
training tells why: in a bare stack each layer passes on a part of it. A Transformer's layers add to
a stream that goes past them. So it is not attention that makes depth possible: with ``residual``
the LSTMs' layers add to such a stream as well, and learn at every depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.masks import causal
from regard.lab.result import Result, lines, listed, percent, unmet
from regard.lab.small_models import (
    EncoderTagger,
    fit,
    lstm_with_forget_bias,
    seeded,
    small_config,
)

LEARNED = 0.9
"""Share of right answers from which on a stack has learned it."""
_SYMBOLS, _WIDTH, _LENGTH = 8, 24, 12
_RATES = {"LSTM": 1e-2, "Transformer": 6e-3}


class _LearnedDepth(NamedTuple):
    right: float
    """Share of right answers on new sequences."""
    loss: float
    gradients: list[float]
    """Before training, the norm that reaches each layer's output from the lowest to the last."""

    @property
    def arrives(self) -> float:
        """What reaches the lowest layer of what the last one got."""
        return self.gradients[0] / self.gradients[-1]


def depth(
    *,
    residual: bool = False,
    depths: Sequence[int] = (1, 2, 4, 8, 16),
    steps: int = 150,
    seed: int = 0,
) -> Result:
    """Right answers by depth at equal steps; ``residual`` adds the LSTMs' layers to a stream."""
    learned = {kind: [_learned(kind, n, residual, steps, seed) for n in depths] for kind in _RATES}
    right = {kind: [one.right for one in some] for kind, some in learned.items()}
    arrives = {kind: [one.arrives for one in some] for kind, some in learned.items()}
    lost = [n for n, share in zip(depths, right["LSTM"], strict=True) if share < LEARNED]
    deepest = depths[-1]
    parts = {
        "the shallowest LSTM learns it": right["LSTM"][0] > LEARNED,
        f"the LSTMs fail at {deepest} layers": right["LSTM"][-1] < LEARNED,
        "Transformers learn it at every depth": min(right["Transformer"]) > LEARNED,
    }
    fails = f"LSTMs fail at {listed(lost)} layers" if lost else "LSTMs learn it at every depth"
    return Result(
        name="depth",
        verdict=all(parts.values()),
        finding=(
            f"After {steps} steps {fails}; the worst Transformer gives "
            f"{percent(min(right['Transformer']))} right answers. Of the gradient at the last of "
            f"{deepest} layers, {arrives['LSTM'][-1]:.1g} reaches the lowest LSTM and "
            f"{arrives['Transformer'][-1]:.2g} the lowest layer of the Transformer." + unmet(parts)
        ),
        numbers={
            "layers": list(depths),
            **{f"{kind}: right": some for kind, some in right.items()},
            **{f"{kind}: loss": [one.loss for one in some] for kind, some in learned.items()},
            **{f"{kind}: gradient that arrives": some for kind, some in arrives.items()},
        },
        pictures=(
            lines(right, "What stacks learn", "layers", "right answers", xs=depths),
            lines(
                {kind: some[-1].gradients for kind, some in learned.items()},
                f"Gradient in a stack of {deepest}, before training",
                "layer",
                "norm at its output",
                xs=range(1, deepest + 1),
                log_y=True,
            ),
        ),
    )


def _learned(kind: str, n_layers: int, residual: bool, steps: int, seed: int) -> _LearnedDepth:
    rng = torch.Generator().manual_seed(seed)

    def loss(n: int = 32) -> Tensor:
        ids, answers = echoes(n, rng)
        return F.cross_entropy(model(ids)[:, 1:].flatten(0, 1), answers.flatten())

    with seeded(seed):
        model = stack(kind, n_layers, residual=residual)
    gradients = gradient_norms(model, loss)
    fit(model.parameters(), loss, steps=steps, lr=_RATES[kind])
    ids, answers = echoes(500, rng)
    with torch.no_grad():
        logits = model(ids)[:, 1:]
        right = (logits.argmax(dim=-1) == answers).double().mean().item()
        return _LearnedDepth(right, loss(500).item(), gradients)


def echoes(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Symbols (B, T), and those that came before the second and all later ones."""
    ids = torch.randint(_SYMBOLS, (n, _LENGTH), generator=rng)
    return ids, ids[:, :-1]


def stack(kind: str, n_layers: int, *, residual: bool) -> Any:
    """ids (B, T) -> logits (B, T, V); its ``layers`` are of one width."""
    if kind == "LSTM":
        return StackedLSTM(n_layers, residual=residual)
    config = small_config(_SYMBOLS, _WIDTH, n_layers, n_heads=2, norm_first=True)
    return _Attentive(config, _SYMBOLS, lambda ids: causal(ids.shape[1]))


class _Attentive(EncoderTagger):
    @property
    def layers(self) -> nn.ModuleList:
        return self.encoder.layers


class StackedLSTM(nn.Module):
    """LSTMs one upon another; with ``residual`` each adds to what it read."""

    def __init__(self, n_layers: int, *, residual: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_SYMBOLS, _WIDTH)
        self.layers = nn.ModuleList(_Layer(residual) for _ in range(n_layers))
        self.answer = nn.Linear(_WIDTH, _SYMBOLS)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.answer(x)


class _Layer(nn.Module):
    def __init__(self, residual: bool) -> None:
        super().__init__()
        self.lstm, self.residual = lstm_with_forget_bias(_WIDTH), residual

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.lstm(x)[0]
        return x + found if self.residual else found


def gradient_norms(model: Any, loss: Callable[[], Tensor]) -> list[float]:
    """The norm of the loss's gradient at the output of each layer, the lowest first."""
    outputs: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _layer, _given, out: outputs.append(out))
        for layer in model.layers
    ]
    value = loss()
    for hook in hooks:
        hook.remove()
    return [one.norm().item() for one in torch.autograd.grad(value, outputs)]
