"""What every attention of a model did for one sentence, as plain arrays.

All numbers follow from the very q, k and v of that forward pass. Narrow numbers (bf16) are widened
first: what is shown is what those q and k mean, and not one more rounding of it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.functional import masks
from regard.functional.attention import BoundScore
from regard.inspection.capture import View, place, watch
from regard.inspection.edits import Tempered
from regard.layers.attention import MultiHeadAttention
from regard.layers.score import PreparedScore, Score
from regard.layers.viewpoint import Seen

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """One attention, one sentence. Keys are those that the score was given.

    A recurrent system prepares its keys once for all steps: then it is the prepared ones.
    """

    q: Array
    """(H, T, Dq)"""
    k: Array
    """(H, S, Dk)"""
    v: Array
    """(H, S, Dv)"""
    scores: Array
    """(H, T, S), before scaling; -inf where a key cannot be seen at all."""
    scale: float | None
    """What the scores are multiplied by; None where the score is no product and has none."""
    scaled: Array
    """(H, T, S)"""
    visible: NDArray[np.bool_]
    """(H, T, S): who may be looked at."""
    prior: Array | None
    """(H, T, S): what multiplies the weights after normalising, where something does."""
    weights: Array
    """(H, T, S)"""
    outputs: Array
    """(H, T, Dv): the weighted values."""
    to_out: Array | None
    """(H, Dv, D): the rows of W_o that are each head's; None where there is no W_o."""


@torch.inference_mode()
def records(model: nn.Module, source: Tensor, target: Tensor) -> dict[str, tuple[Record, ...]]:
    """Name -> a record a layer, for one pair: source ids (1, S), target ids (1, T), begin first."""
    with watch(model) as views:
        model(source, target)
    outs = output_weights(model)
    found: dict[str, dict[int, Record]] = {}
    for where, view in views.items():
        name, layer = where
        found.setdefault(name, {})[layer] = recorded(view, outs.get(where))
    return {name: tuple(layers[i] for i in sorted(layers)) for name, layers in found.items()}


def output_weights(model: nn.Module) -> dict[tuple[str, int], Tensor]:
    """Where there are several heads: place -> (H, Dv, D), the part of W_o that each head has."""
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            rows = module.to_out.weight.detach().T  # (H·Dv, D)
            found[place(path)] = rows.unflatten(0, (module.n_heads, -1))
    return found


@torch.no_grad()
def recorded(view: View, to_out: Tensor | None = None) -> Record:
    """The record of one sentence that was watched, in one call or in one a step."""
    calls = view.calls
    if not calls or any(call.q.shape[0] != 1 for call in calls):
        sizes = sorted({call.q.shape[0] for call in calls})
        raise ShapeError(f"a record is of one sentence, but {sizes or 'none'} were watched at once")
    last = calls[-1]  # its keys are all there are; those of a step before it begin them
    wide = torch.promote_types(last.q.dtype, torch.float32)
    q = torch.cat([call.q for call in calls], dim=-2).to(wide)
    k, v = last.k.to(wide), last.v.to(wide)
    with torch.autocast(q.device.type, enabled=False):
        scores, scale = before_scaling(_widened(last.score, wide), q, k)
        scaled = scores if scale is None else scores * scale
        visible = _visible(calls) & ~scaled.isneginf()
        prior = _prior(calls)
        weights = last.normaliser(scaled, visible)
        weights = weights if prior is None else weights * prior
        outputs = weights @ v
    return Record(
        q=_array(q),
        k=_array(k),
        v=_array(v),
        scores=_array(scores),
        scale=scale,
        scaled=_array(scaled),
        visible=visible[0].cpu().numpy(),
        prior=None if prior is None else _array(prior),
        weights=_array(weights),
        outputs=_array(outputs),
        to_out=None if to_out is None else _array(to_out.clone().unsqueeze(0)),
    )


def before_scaling(score: BoundScore, q: Tensor, k: Tensor) -> tuple[Tensor, float | None]:
    """Scores (…, T, S) before they are scaled, and the scale."""
    factors = score.factors(q, k)
    if factors is not None:
        return factors.q @ factors.k.mT, factors.scale
    if isinstance(score, Tempered):
        inner, scale = before_scaling(score.inner, q, k)
        return inner, (1.0 if scale is None else scale) / score.temperature
    return score(q, k), None


def _widened(score: BoundScore, dtype: torch.dtype) -> BoundScore:
    """The same score, fit for wider queries: parameters of a narrow model are copied."""
    if isinstance(score, Tempered):
        return Tempered(_widened(score.inner, dtype), score.temperature)
    if isinstance(score, PreparedScore):
        inner = _widened(score.score, dtype)
        return PreparedScore(inner) if isinstance(inner, Score) else score
    if not isinstance(score, nn.Module) or all(p.dtype == dtype for p in score.parameters()):
        return score
    return copy.deepcopy(score).to(dtype)


def _visible(calls: Sequence[Seen]) -> Tensor:
    """(1, H, T, S) of all calls; a key that came later is hidden from those before it."""
    n_keys = calls[-1].k.shape[-2]
    parts = []
    for call in calls:
        rows, mask = _shape(call), call.mask
        if call.causal:
            mask = masks.both(mask, masks.causal(*rows[-2:], device=call.q.device))
        if mask is None:
            mask = torch.ones(rows, dtype=torch.bool, device=call.q.device)
        parts.append(F.pad(mask.expand(rows), (0, n_keys - rows[-1])))
    return torch.cat(parts, dim=-2)


def _prior(calls: Sequence[Seen]) -> Tensor | None:
    """(1, H, T, S) of all calls, or None where none has one."""
    if all(call.prior is None for call in calls):
        return None
    n_keys = calls[-1].k.shape[-2]
    parts = []
    for call in calls:
        rows = _shape(call)
        part = torch.ones(rows, device=call.q.device) if call.prior is None else call.prior
        parts.append(F.pad(part.expand(rows), (0, n_keys - rows[-1])))
    return torch.cat(parts, dim=-2)


def _shape(call: Seen) -> tuple[int, int, int, int]:
    B, H, T, _ = call.q.shape
    return B, H, T, call.k.shape[-2]


def _array(x: Tensor) -> Array:
    """The one sentence's part."""
    return x[0].float().cpu().numpy()
