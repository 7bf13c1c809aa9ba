"""Watching a model attend, without touching it.

with watch(model) as views:
    model(source, target)
views["decoder.cross", 0].weights()      # (B, H, T, S)

Weights are computed again from what each attention was given, in numbers wide enough to be shown:
what the q and k of a run mean, and not one more rounding of it. A run inside autocast has narrow
queries (bf16) and wide parameters, which fit together nowhere else.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.core.numbers import counted
from regard.functional.attend import ScoreFn, wide
from regard.functional.positions import Alibi
from regard.functional.scores import BoundScore, Factors
from regard.layers.draw import Remembered
from regard.layers.score import PreparedScore, Score
from regard.layers.viewpoint import Seen, Viewpoint

T = TypeVar("T")
COMPRESSED = ".compressed"  # ends the name of an attention whose keys are slots of a text
CROSS = "decoder.cross"  # attention from a target to its source
POOL = "encoder.head.pool"  # attention of a head that pools a text: it has one row
Place = tuple[str, int]  # which attention: its name, such as ``decoder.cross``, and its layer
OTHERS = "use regard.look(model, tokenizer, text) to see into a model of another library"
Weights = NDArray[np.float32]  # (H, T, S): row = who asks, column = who is looked at


@dataclass(slots=True)
class AttentionCalls:
    """What one attention was given, call after call."""

    calls: list[Seen] = field(default_factory=list)

    def weights(self) -> Tensor:
        """(B, H, T, S) of all calls in order; keys that came in a later step have weight 0."""
        parts = [weights_of(call) for call in self.calls]
        n_keys = max(part.shape[-1] for part in parts)
        padded = [F.pad(part, (0, n_keys - part.shape[-1])) for part in parts]
        return torch.cat(padded, dim=-2)

    @property
    def shape(self) -> tuple[int, int, int, int] | None:
        """(B, H, T, S) of the weights, which need not be computed for it; None before a call."""
        if not self.calls:
            return None
        B, H = self.calls[0].q.shape[:2]
        n_keys = max(call.k.shape[-2] for call in self.calls)
        return B, H, sum(call.q.shape[-2] for call in self.calls), n_keys

    def __repr__(self) -> str:
        weights = "" if self.shape is None else f", weights {self.shape}"
        return f"<AttentionCalls: {counted(len(self.calls), 'call')}{weights}>"


class Views(dict[Place, AttentionCalls]):
    """What was watched, by the name of an attention and its layer; printed, a line each."""

    def __repr__(self) -> str:
        if not self:
            return f"<Views of a model without attention of ours; {OTHERS}>"
        lines = [f"  {name!r}, {layer}: {view!r}" for (name, layer), view in self.items()]
        names = counted(len(self), "attention")
        return "\n".join([f"<Views of {names}; views[name, layer].weights():", *lines]) + ">"

    def __missing__(self, place: Any) -> AttentionCalls:
        if not self:
            raise ConfigError(f"the model that was watched has no attention of ours: {OTHERS}")
        known = ", ".join(f"views[{name!r}, {layer}]" for name, layer in self)
        raise ConfigError(f"there is no attention {place!r}; there are {known}")


@contextmanager
def watch(model: nn.Module) -> Iterator[Views]:
    """Collect what every attention is given inside the block; afterwards no hook remains."""
    views = Views()
    handles = []
    for where, module in viewpoints(model):
        view = views.setdefault(where, AttentionCalls())
        handles.append(module.register_forward_hook(_keeping(view)))
    try:
        yield views
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def kept_weights(model: nn.Module, name: str) -> Iterator[dict[int, list[Remembered]]]:
    """By layer, the weights that attentions of a name compute inside the block, to learn through.

    Each call has one ``Remembered``, whose ``weights`` (B, H, T, S) are those that were used.
    """
    kept: dict[int, list[Remembered]] = {}
    handles = []
    for (found, layer), module in viewpoints(model):
        if found == name:
            keep = _remembering(kept.setdefault(layer, []))
            handles.append(module.change.register_forward_hook(keep))
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def kept_outputs(module: nn.Module) -> Iterator[list[Any]]:
    """What a module gives inside the block, call by call, to learn through."""
    kept: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _inputs, out: kept.append(out))
    try:
        yield kept
    finally:
        handle.remove()


def _remembering(kept: list[Remembered]) -> Callable[[nn.Module, object, Seen], Seen]:
    def keep(_module: nn.Module, _inputs: object, seen: Seen) -> Seen:
        kept.append(Remembered(seen.normaliser))
        return dataclasses.replace(seen, normaliser=kept[-1])

    return keep


@torch.inference_mode()
def attentions(model: nn.Module, source: Tensor, target: Tensor) -> dict[str, tuple[Weights, ...]]:
    """Every attention's weights for one pair: source ids (1, S), target ids (1, T), begin first."""
    with watch(model) as views:
        model(source, target)
    return by_layer({at: view.weights()[0].float().cpu().numpy() for at, view in views.items()})


def by_layer(found: Mapping[Place, T]) -> dict[str, tuple[T, ...]]:
    """Name -> what was found in each of its layers, the lowest first."""
    names = dict.fromkeys(name for name, _ in found)
    ordered = sorted(found, key=lambda place: place[1])
    return {name: tuple(found[at] for at in ordered if at[0] == name) for name in names}


def viewpoints(model: nn.Module) -> list[tuple[Place, Viewpoint]]:
    """Every place of a model where one can look, in the order of its modules.

    Where keys are slots, columns are no tokens, and the name says so: ``decoder.self.compressed``.
    Layers are then counted among those of one name.
    """
    stack = stack_of(model)
    views = [(path, one) for path, one in model.named_modules() if isinstance(one, Viewpoint)]
    found = []
    for path, module in views:
        name, layer = place(path, stack)
        found.append(((name + COMPRESSED if module.slots else name, layer), module))
    if not any(module.slots for _, module in found):
        return found
    known = {at: sorted({n for (name, n), _ in found if name == at}) for (at, _), _ in found}
    return [((name, known[name].index(layer)), module) for (name, layer), module in found]


def stack_of(model: nn.Module) -> str:
    """``encoder`` or ``decoder``, where a model has that stack alone: its attentions' prefix."""
    family = getattr(getattr(model, "config", None), "family", None)
    return family if family in ("encoder", "decoder") else ""


def place(path: str, stack: str = "") -> Place:
    """A module's path, in a stack or a whole model, as a stable name and a layer.

    >>> place("decoder.layers.2.cross_attention.view")
    ('decoder.cross', 2)
    >>> place("layers.0.self_attention.view", "encoder")
    ('encoder.self', 0)
    """
    parts = [stack, *re.sub(r"\.?view$", "", path).split(".")]
    layers = [int(part) for part in parts if part.isdigit()]
    names = [part.removesuffix("_attention") for part in parts]
    kept = [name for name in names if name and name != "layers" and not name.isdigit()]
    return ".".join(kept), layers[-1] if layers else 0


def _keeping(view: AttentionCalls) -> Callable[[nn.Module, object, Seen], None]:
    return lambda _module, _inputs, seen: view.calls.append(seen)


# ------------------------------------------------------------------ computed again, in wide numbers


@dataclass(frozen=True, slots=True)
class TemperedScore:
    """A score divided by a temperature."""

    inner: BoundScore
    temperature: float

    @property
    def by_query(self) -> bool:
        """As the score itself."""
        return self.inner.by_query

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys -> scores."""
        return self.inner(q, k) / self.temperature

    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        """The same as an inner product, where it is one."""
        factors = self.inner.factors(q, k)
        return factors and factors._replace(scale=factors.scale / self.temperature)

    def ready(self, k: Tensor) -> tuple[ScoreFn, Tensor]:
        """Keys made ready for the score, and it at this temperature."""
        score, keys = self.inner.ready(k)
        return lambda q, k: score(q, k) / self.temperature, keys


def widened(seen: Seen) -> Seen:
    """The same in float32 or wider; itself where it is wide already."""
    dtype, bias = wide(seen.q.dtype), seen.bias
    if isinstance(bias, Alibi):
        bias = bias._replace(slopes=bias.slopes.to(dtype))
    return dataclasses.replace(
        seen,
        q=seen.q.to(dtype),
        k=seen.k.to(dtype),
        v=seen.v.to(dtype),
        score=_score(seen.score, dtype),
        bias=bias if bias is None or isinstance(bias, Alibi) else bias.to(dtype),
        prior=None if seen.prior is None else seen.prior.to(dtype),
    )


@torch.no_grad()
def weights_of(seen: Seen) -> Tensor:
    """(B, H, T, S), from the very q and k of that call."""
    with torch.autocast(seen.q.device.type, enabled=False):
        return widened(seen).attended().weights.detach()


def before_scaling(score: BoundScore, q: Tensor, k: Tensor) -> tuple[Tensor, float | None]:
    """Scores (…, T, S) before they are scaled, and the scale."""
    factors = score.factors(q, k)
    if factors is not None:
        return factors.q @ factors.k.mT, factors.scale
    if isinstance(score, TemperedScore):
        inner, scale = before_scaling(score.inner, q, k)
        return inner, (1.0 if scale is None else scale) / score.temperature
    return score(q, k), None


def _score(score: BoundScore, dtype: torch.dtype) -> BoundScore:
    """The same score, fit for wider queries: parameters of a narrow model are copied."""
    if isinstance(score, TemperedScore):
        return TemperedScore(_score(score.inner, dtype), score.temperature)
    if isinstance(score, PreparedScore):
        inner = _score(score.score, dtype)
        return PreparedScore(inner) if isinstance(inner, Score) else score
    if not isinstance(score, nn.Module) or all(p.dtype == dtype for p in score.parameters()):
        return score
    return copy.deepcopy(score).to(dtype)
