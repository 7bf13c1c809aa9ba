"""What every attention did for one sentence, as plain arrays, and its steps for one query.

All numbers follow from the very q, k and v of that forward pass, widened where they are narrow. The
six steps: query · each key · score · scaled score · softmax · value · weighted value · their sum;
then what W_o makes of the sum, which is what the head adds to the residual stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.errors import ConfigError, ShapeError
from regard.functional import masks, positions
from regard.inspection.capture import (
    AttentionCalls,
    before_scaling,
    by_layer,
    viewpoints,
    watch,
    widened,
)
from regard.layers.attention import MultiHeadAttention
from regard.layers.viewpoint import Seen

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """One attention, one sentence. Keys are those that the score was given, prepared or not."""

    q: Array  # (H, T, Dq)
    k: Array  # (H, S, Dk)
    v: Array  # (H, S, Dv)
    scores: Array  # (H, T, S), before scaling; -inf where a key cannot be seen at all
    scale: float | None  # of the scores; None where the score is no product and has none
    bias: Array | None  # (H, T, S): added to the scores once they are scaled
    scaled: Array  # (H, T, S): scores times the scale, with the bias
    visible: NDArray[np.bool_]  # (H, T, S): who may be looked at
    prior: Array | None  # (H, T, S): what multiplies the weights after normalising
    weights: Array  # (H, T, S)
    outputs: Array  # (H, T, Dv): the weighted values
    to_out: Array | None  # (H, Dv, D): each head's rows of W_o; None where there is no W_o

    def __repr__(self) -> str:
        parts = ((one.name, getattr(self, one.name)) for one in fields(self))
        told = [f"{name} {x.shape}" for name, x in parts if isinstance(x, np.ndarray)]
        return f"<Record of one attention: {', '.join(told)}>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """What the token ``row`` asked, what each of ``columns`` answered, and what came of it."""

    name: str
    layer: int
    head: int
    token: int  # the row, counted from 0
    row: str
    columns: tuple[str, ...]
    query: Array  # (Dq,)
    keys: Array  # (S, Dk)
    scores: Array  # (S,), before scaling
    scale: float | None  # what the scores are multiplied by; None where the score has no scale
    scaled: Array  # (S,)
    visible: NDArray[np.bool_]  # (S,)
    prior: Array | None  # (S,): what multiplies the weights after the softmax
    weights: Array  # (S,)
    values: Array  # (S, Dv)
    weighted: Array  # (S, Dv)
    sum: Array  # (Dv,)
    projected: Array | None  # (D,): the sum through this head's part of W_o, without its bias
    residual: Array | None  # (D,): what the head added to the residual stream, if there is one

    def as_json(self) -> dict[str, Any]:
        """Plain numbers and lists; a score of -inf, which JSON has no word for, is null."""
        return {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}


def records(model: nn.Module, source: Tensor, target: Tensor) -> dict[str, tuple[Record, ...]]:
    """Name -> a record a layer, for one pair: source ids (1, S), target ids (1, T), begin first."""
    return recorded_pair(model, source, target)[1]


def recorded_pair(
    model: nn.Module, source: Tensor, target: Tensor
) -> tuple[Tensor, dict[str, tuple[Record, ...]]]:
    """Logits (T, V) of what follows each target id, and the records of ``records``.

    A model for which both are one text is looked at while it reads the target: rows are the
    target's, and columns all that is before them, the source included.
    """
    generator: Any = model
    if not getattr(generator, "reads_as_one", False):
        logits, found = recorded_call(model, source, target)
        return logits[0], found
    with torch.inference_mode():
        memory = generator.encode(source)
        (states, _), found = recorded_call(
            model, target, memory, generator.start(memory), call=generator.read
        )
        return generator.logits(states[0]), found


@torch.inference_mode()
def recorded_call(
    model: nn.Module, *read: Any, call: Callable[..., Any] | None = None
) -> tuple[Any, dict[str, tuple[Record, ...]]]:
    """What a model makes of one text, whatever it reads, and name -> a record a layer."""
    with watch(model) as views:
        output = (call or model)(*read)
    outs = output_weights(model)
    return output, by_layer({at: recorded(view, outs.get(at)) for at, view in views.items()})


def output_weights(model: nn.Module) -> dict[tuple[str, int], Tensor]:
    """Where there are several heads: place -> (H, Dv, D), the part of W_o that each head has."""
    places, found = {view: where for where, view in viewpoints(model)}, {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            rows = module.to_out.weight.detach().T  # (H·Dv, D)
            found[places[module.view]] = rows.unflatten(0, (module.n_heads, -1))
    return found


@torch.no_grad()
def recorded(view: AttentionCalls, to_out: Tensor | None = None) -> Record:
    """The record of one sentence that was watched, in one call or in one a step."""
    sizes = sorted({call.q.shape[0] for call in view.calls})
    if sizes != [1]:
        raise ShapeError(f"a record is of one sentence, but {sizes or 'none'} were watched at once")
    calls = [widened(call) for call in view.calls]
    last = calls[-1]  # its keys are all there are; those of a step before it begin them
    q, k, v = torch.cat([call.q for call in calls], dim=-2), last.k, last.v
    with torch.autocast(q.device.type, enabled=False):
        scores, scale = before_scaling(last.score, q, k)
        scaled = scores if scale is None else scores * scale
        biases = [positions.dense_bias(call.bias, *_shape(call)[-2:]) for call in calls]
        bias = _joined(calls, biases, fill=0.0)
        scaled = scaled if bias is None else scaled + bias
        visible = _padded(calls, [_visible(call) for call in calls]) & ~scaled.isneginf()
        prior = _joined(calls, [call.prior for call in calls], fill=1.0)
        weights = _normalised(calls, scaled, visible)
        weights = weights if prior is None else weights * prior
        outputs = weights @ v
    tensors = {"q": q, "k": k, "v": v, "scores": scores, "bias": bias, "scaled": scaled}
    tensors |= {"prior": prior, "weights": weights, "outputs": outputs}
    tensors["to_out"] = None if to_out is None else to_out.clone().unsqueeze(0)
    arrays: dict[str, Any] = {  # (1, …) on any device -> (…)
        name: None if one is None else one[0].float().cpu().numpy() for name, one in tensors.items()
    }
    return Record(**arrays, scale=scale, visible=visible[0].cpu().numpy())


def steps_of(
    record: Record,
    *,
    name: str,
    layer: int,
    head: int,
    token: int,
    row: str,
    columns: tuple[str, ...],
) -> Steps:
    """One row of one head of a record, with its words."""
    n_heads = len(record.weights)
    if not 0 <= head < n_heads:
        raise ConfigError(f"{name} has heads 0 to {n_heads - 1}, not {head}")
    at = (head, token)
    weights, values, total = record.weights[at], record.v[head], record.outputs[at]
    projected = None if record.to_out is None else total @ record.to_out[head]
    return Steps(
        name=name,
        layer=layer,
        head=head,
        token=token,
        row=row,
        columns=columns,
        query=record.q[at],
        keys=record.k[head],
        scores=record.scores[at],
        scale=record.scale,
        scaled=record.scaled[at],
        visible=record.visible[at],
        prior=None if record.prior is None else record.prior[at],
        weights=weights,
        values=values,
        weighted=weights[:, None] * values,
        sum=total,
        projected=projected,
        residual=projected,  # the stream is added to as it is: dropout is off when we look
    )


def _normalised(calls: Sequence[Seen], scaled: Tensor, visible: Tensor) -> Tensor:
    """(1, H, T, S) of all calls, each by its own normaliser: what was drawn is drawn only once."""
    parts, first = [], 0
    for call in calls:
        n_queries, n_keys = _shape(call)[-2:]
        at = (..., slice(first, first + n_queries), slice(n_keys))
        parts.append(call.normaliser(scaled[at], visible[at]))
        first += n_queries
    return _padded(calls, parts)


def _visible(call: Seen) -> Tensor:
    """(1, H, T, S): which keys each query of a call may see."""
    rows, mask = _shape(call), masks.dense(call.mask)
    if call.near is not None:
        mask = masks.both(mask, call.near.dense(*rows[-2:], device=call.q.device))
    if call.causal:
        mask = masks.both(mask, masks.causal(*rows[-2:], device=call.q.device))
    return torch.ones(rows, dtype=torch.bool, device=call.q.device) if mask is None else mask


def _joined(calls: Sequence[Seen], of: Sequence[Tensor | None], *, fill: float) -> Tensor | None:
    """(1, H, T, S) of all calls, or None where none has one."""
    if all(one is None for one in of):
        return None
    empty = [torch.full(_shape(call), fill, device=call.q.device) for call in calls]
    return _padded(calls, [x if x is not None else e for x, e in zip(of, empty, strict=True)])


def _padded(calls: Sequence[Seen], parts: Sequence[Tensor]) -> Tensor:
    """(1, H, T, S) of all calls; a key that came later is 0 for those before it."""
    n_keys = calls[-1].k.shape[-2]
    shapes = map(_shape, calls)
    padded = [
        F.pad(part.expand(shape), (0, n_keys - shape[-1]))
        for part, shape in zip(parts, shapes, strict=True)
    ]
    return torch.cat(padded, dim=-2)


def _shape(call: Seen) -> tuple[int, int, int, int]:
    B, H, T, _ = call.q.shape
    return B, H, T, call.k.shape[-2]


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, np.ndarray):
        return value
    finite = np.isfinite(value)
    known: Any = None  # instead of what JSON has no number for
    return value.tolist() if finite.all() else np.where(finite, value, known).tolist()
