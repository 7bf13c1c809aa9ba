"""LayerNorm suits sequences better than BatchNorm, for lengths differ and batches are small.

BatchNorm takes mean and deviation over the batch. So what a sentence becomes depends on who shares
the batch and on how much padding fills it up, and evaluation, with means gathered in training, does
not compute what training did; the smaller the batch, the more so. LayerNorm takes them over the
width of each token by itself. Training both shows whether it matters: the noise slows BatchNorm
down, but evaluation is free of it, and after 800 steps gives as many right answers.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.masks import padding
from regard.lab.result import Result, lines, percent, share_bars, unmet
from regard.lab.small_models import EncoderTagger, fit, seeded, small_config
from regard.layers.blocks import Residual

_MOVED, _STILL = 0.05, 1e-9  # shares of its size by which an output moves, or does not
_WORSE = 0.05
_LARGE, _MANY, _DRAWS = 16, 256, 12
_SIZES = (2, 4, 8, 16, 32)
_CAUSES = ("other neighbours", "more padding", "evaluation")
Norm = Literal["LayerNorm", "BatchNorm"]
NORMS: tuple[Norm, ...] = ("LayerNorm", "BatchNorm")

PAD = 0
LONGEST = 16
_SYMBOLS, _WIDTH = 8, 32
_IGNORED = -100
_TESTED = 400  # sentences


def norm(*, batch: int = 2, unequal: bool = True, n_steps: int = 500, seed: int = 0) -> Result:
    """What moves a sentence's output under each norm, and how well both learn in small batches.

    ``batch`` is in sentences; without ``unequal`` they are all as long, and nothing is padded.
    """
    moved = {n: _moved("BatchNorm", n, unequal, seed) for n in sorted({*_SIZES, batch})}
    still = _moved("LayerNorm", batch, unequal, seed)
    right = {
        (of, n): learned(of, batch=n, unequal=unequal, n_steps=n_steps, seed=seed)
        for n in sorted({batch, _LARGE})
        for of in NORMS
    }
    layer, over_batch = (right[of, batch] for of in NORMS)
    worse = layer["as trained"] - over_batch["as trained"] > _WORSE
    parts = {
        "LayerNorm moves nothing": max(still.values()) < _STILL,
        **{f"BatchNorm's output moves by {c}": v > _MOVED for c, v in moved[batch].items()},
        "BatchNorm is right less often in training": worse,
    }
    neighbours, padded, evaluated = map(percent, moved[batch].values())
    by_cause = {cause: {n: 100 * shares[cause] for n, shares in moved.items()} for cause in _CAUSES}
    named = {f"{of}, {n} a batch": one for (of, n), one in right.items()}
    return Result(
        name="norm",
        verdict=all(parts.values()),
        finding=(
            f"In batches of {batch}, other neighbours move what BatchNorm makes of a sentence by "
            f"{neighbours} of its size, more padding by {padded} and evaluation by {evaluated}; "
            f"what LayerNorm makes of it by {percent(max(still.values()))}. After training in "
            f"batches of {batch}, LayerNorm is right in {percent(layer['as trained'])} and "
            f"BatchNorm in {percent(over_batch['as trained'])} with the batch's means, "
            f"{percent(over_batch['in evaluation'])} with those gathered in training; in batches "
            f"of {_LARGE}, in {percent(right['LayerNorm', _LARGE]['as trained'])} and "
            f"{percent(right['BatchNorm', _LARGE]['as trained'])}." + unmet(parts)
        ),
        numbers={
            **{f"LayerNorm moved by {cause}": share for cause, share in still.items()},
            **{f"BatchNorm moved by {cause}": share for cause, share in moved[batch].items()},
            **{f"{name}: right {mode}": named[name][mode] for mode in layer for name in named},
        },
        pictures=(
            lines(
                by_cause,
                "How far BatchNorm's output moves",
                "sentences in the batch",
                "per cent of its size",
            ),
            share_bars(
                {f"{name}, {mode}": named[name][mode] for name in named for mode in layer},
                title="Right answers",
            ),
        ),
    )


def _moved(of: Norm, n: int, unequal: bool, seed: int) -> dict[str, float]:
    """By how much of its size a sentence's output moves, by each of the causes."""
    with seeded(seed):
        model = Normalised(of).double()
        _gather(model, sentences(_MANY, unequal=unequal))
        changes = [_changes(model, n, unequal) for _ in range(_DRAWS)]
    means = torch.tensor(changes, dtype=torch.float64).mean(dim=0).tolist()
    return dict(zip(_CAUSES, means, strict=True))


@torch.no_grad()
def _changes(model: nn.Module, n: int, unequal: bool) -> list[float]:
    ids, others = sentences(2 * n, unequal=unequal).chunk(2)
    others = torch.cat([ids[:1], others[1:]])
    padded = F.pad(ids, (0, LONGEST if unequal else 0), value=PAD)
    plain = model.train()(ids)
    outputs = [model(others), model(padded)[:, : ids.shape[1]], model.eval()(ids)]
    real = ids[0] != PAD
    return [((y - plain)[0, real].norm() / plain[0, real].norm()).item() for y in outputs]


@torch.no_grad()
def _gather(model: nn.Module, ids: Tensor) -> None:
    """Give BatchNorm the means of these sentences for evaluation, and have it keep them."""
    for momentum in (1.0, 0.0):
        for part in model.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.momentum = momentum
        model.train()(ids)


class Normalised(EncoderTagger):
    """ids (B, T) -> logits (B, T, V); padding is hidden from attention, but BatchNorm counts it."""

    def __init__(self, norm: Norm) -> None:
        n_vocab = 1 + _SYMBOLS
        config = small_config(n_vocab, _WIDTH, 2, n_heads=2, pad_id=PAD)
        super().__init__(config, n_vocab, partial(padding, pad=PAD))
        if norm == "BatchNorm":
            for part in list(self.encoder.modules()):
                if isinstance(part, Residual):
                    part.add_module("norm", _OverBatch())


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


def learned(norm: Norm, *, batch: int, unequal: bool, n_steps: int, seed: int) -> dict[str, float]:
    """Train on batches of so many sentences; shares of right answers on new batches as large.

    They are with the statistics of the batch at hand, and with those gathered in training.
    """

    def loss() -> Tensor:
        ids = _cut(sentences(batch, unequal=unequal))
        first = ids[:, :1].where(ids != PAD, _IGNORED)
        return F.cross_entropy(model(ids).flatten(0, 1), first.flatten(), ignore_index=_IGNORED)

    with seeded(seed):
        model = Normalised(norm)
        fit(model.parameters(), loss, steps=n_steps, lr=2e-3)
        tests = [_cut(sentences(batch, unequal=unequal)) for _ in range(max(1, _TESTED // batch))]
    in_evaluation = _right(model.eval(), tests)
    return {"as trained": _right(model.train(), tests), "in evaluation": in_evaluation}


def _cut(ids: Tensor) -> Tensor:
    """Without the columns that are padding in all rows."""
    return ids[:, : int((ids != PAD).sum(dim=1).max())]


@torch.no_grad()
def _right(model: nn.Module, tests: list[Tensor]) -> float:
    found = [(model(ids).argmax(dim=-1) == ids[:, :1])[ids != PAD] for ids in tests]
    return torch.cat(found).double().mean().item()
