"""Watching the attention of somebody else's model in one pass, which stays what it is.

While the model's own forward runs, a mode sees every function of torch that it calls and recognises
attention among them (``regard.inspection.torch_functions``).

Modules of ``torch.nn`` with a fast path leave it as soon as a mode or a hook is there. So in these
the mode is off, and what they were given is read at their door. Each module's ``forward`` is
wrapped for the time of the pass, so that a sighting knows which module it belongs to.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.inspection.capture import AttentionCalls
from regard.inspection.records import Record, recorded
from regard.inspection.torch_calls import AttentionCall, module_call
from regard.inspection.torch_functions import AttentionMode

T = TypeVar("T")
_ACROSS = re.compile(r"cross|encoder_attn|enc_?dec|enc_attn|src_attn", re.IGNORECASE)
"""How modules are called that look at another text."""
_FAST = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
"""Modules with a fast path."""


@dataclass(frozen=True, slots=True)
class Group:
    """Attentions that are layers of one stack."""

    prefix: str
    """The path of the stack, without a number in it."""
    inner: str
    """The path inside a layer of it, without its numbers."""
    crosses: bool
    """Whether keys are those of another text."""
    shape: tuple[int, int]
    """(T, S)"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One attention of the pass."""

    path: str
    """Of the module that it happened in."""
    group: Group
    record: Record
    n_rows: int
    """Of the batch, of which the first is recorded."""
    added_keys: tuple[str, ...]


@dataclass(slots=True)
class Sightings:
    """All that was seen of attention, in the order of the pass."""

    most: int
    """Weights that may be kept."""
    layers: Collection[int] | None = None
    """Layers to keep, counted from 0 in each group; None keeps all."""
    kept: list[Sighting] = field(default_factory=list)
    n_layers: Counter[Group] = field(default_factory=Counter)
    """Layers seen, kept or not."""
    n_weights: int = 0

    def see(self, path: str, crosses: bool | None, call: AttentionCall) -> None:
        """Keep what a call in the module of that path means, if its layer was asked for."""
        _, n_heads, n_queries, _ = call.seen.q.shape
        n_keys = call.seen.k.shape[-2]
        if crosses is None:
            crosses = n_queries != n_keys - len(call.added_keys) or bool(
                _ACROSS.search(_inside_stack(path) or path)
            )
        inner = ".".join(re.findall(r"[^.\d][^.]*", _inside_stack(path)))
        group = Group(_stack(path), inner, crosses, (n_queries, n_keys))
        layer = self.n_layers[group]
        self.n_layers[group] += 1
        if self.layers is not None and layer not in self.layers:
            return
        self.n_weights += n_heads * n_queries * n_keys
        if self.n_weights > self.most:
            raise DataError(
                f"a look holds at most {counted(self.most, 'weight')}, and layer {layer} of "
                f"{path or 'the model'} with {counted(n_heads, 'head')} of {n_queries:,} × "
                f"{n_keys:,} makes it {self.n_weights:,}; take a part of the text, or some "
                f"layers: layers=[0]"
            )
        record = recorded(AttentionCalls([call.seen]), call.to_out)
        self.kept.append(Sighting(path, group, record, call.n_rows, call.added_keys))


def observed_call(
    model: nn.Module,
    call: Callable[[], T],
    *,
    most: int,
    layers: Collection[int] | None = None,
) -> tuple[T, list[Sighting]]:
    """What a call of the model gives in evaluation, and every attention that was seen in it.

    The model is in its own mode again afterwards, and nothing is left on it.
    """
    found = Sightings(most, layers)
    with evaluating(model), _uncompiled(model), _Observer(model, found):
        output = call()
    if not found.n_layers:
        raise ConfigError(
            f"no attention was seen in {type(model).__name__}: neither "
            "F.scaled_dot_product_attention, nor nn.MultiheadAttention, nor a softmax between two "
            "products; a model with kernels of its own may have attn_implementation='sdpa'"
        )
    if not found.kept:
        n = max(found.n_layers.values())
        raise ConfigError(f"layers={list(layers or ())}: the model has layers 0 to {n - 1}")
    return output, found.kept


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No dropout and no gradients inside the block; afterwards each module is in its own mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def named(sightings: Sequence[Sighting]) -> dict[str, tuple[Sighting, ...]]:
    """Sightings by the name of their attention, a layer each: ``encoder.self``, ``decoder.cross``.

    A stack is what its path says first, or else a decoder where nobody looks ahead. Stacks that
    would have the same name are called by their paths, so are several attentions in one layer, and
    those that differ in lengths by these, too.
    """
    groups: dict[Group, list[Sighting]] = {}
    for one in sightings:
        groups.setdefault(one.group, []).append(one)
    kinds = {group: _kind(group, members) for group, members in groups.items()}
    return {_name(group, kinds): tuple(members) for group, members in groups.items()}


def _name(group: Group, kinds: Mapping[Group, str]) -> str:
    stack, kind = kinds[group].split(".")
    rivals = [one for one in kinds if kinds[one] == kinds[group]]
    if any(one.prefix != group.prefix for one in rivals):
        stack = group.prefix
    near = [one for one in rivals if one.prefix == group.prefix]
    inner = group.inner if any(one.inner != group.inner for one in near) else ""
    alike = [one for one in near if one.inner == group.inner]
    return _joined(stack, inner, kind, "x".join(map(str, group.shape)) if len(alike) > 1 else "")


def _kind(group: Group, members: Sequence[Sighting]) -> str:
    said = re.findall(r"encoder|decoder", group.prefix.lower())
    n_queries, n_keys = group.shape
    n_keys -= len(members[0].added_keys)
    ahead = np.triu(np.ones((n_queries, n_keys), dtype=bool), 1)
    seen_ahead = any((one.record.visible[..., :n_keys] & ahead).any() for one in members)
    causal = n_queries == n_keys > 1 and not seen_ahead
    stack = said[0] if said else "decoder" if group.crosses or causal else "encoder"
    return f"{stack}.{'cross' if group.crosses else 'self'}"


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _stack(path: str) -> str:
    """The path up to its first number: ``model.layers.3.attn`` -> ``model.layers``."""
    return re.split(r"\.?(?<![^.])\d+(?![^.])", path, maxsplit=1)[0]


def _inside_stack(path: str) -> str:
    """The path behind its stack: ``model.layers.3.attn`` -> ``.3.attn``."""
    return path[len(_stack(path)) :]


# ------------------------------------------------------------------ modules


class _Observer:
    """The wrapped modules of a model and the mode, for the time of a block."""

    def __init__(self, model: nn.Module, found: Sightings) -> None:
        self.model = model
        self.found = found
        self.path = ""
        """Of the module that runs."""
        self.mode = AttentionMode(self._see)
        self._before: list[tuple[nn.Module, Any]] = []

    def __enter__(self) -> None:
        for path, module in self.model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            self._before.append((module, vars(module).get("forward")))
            module.forward = self._wrapped(path, module)
        self.mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.mode.__exit__(*error)
        for module, forward in self._before:
            del module.forward
            if forward is not None:
                module.forward = forward

    def _see(self, call: AttentionCall, crosses: bool | None = None) -> None:
        self.found.see(self.path, crosses, call)

    @contextmanager
    def _inside(self, path: str, *, off: bool) -> Iterator[None]:
        before, self.path = self.path, path
        try:
            with torch._C.DisableTorchFunction() if off else nullcontext():
                yield
        finally:
            self.path = before

    def _wrapped(self, path: str, module: nn.Module) -> Callable[..., Any]:
        forward = module.forward
        own = isinstance(module, _FAST) and all(map(_of_torch, module.modules()))
        seen = {
            nn.MultiheadAttention: self._seen_module,
            nn.TransformerEncoderLayer: self._seen_layer,
        }
        look = seen.get(type(module)) if own else None

        @functools.wraps(forward)
        def observed(*args: Any, **kwargs: Any) -> Any:
            n = self.found.n_layers.total()
            with self._inside(path, off=own):
                output = forward(*args, **kwargs)
                if look is not None and self.found.n_layers.total() == n:
                    look(module, inspect.signature(forward).bind(*args, **kwargs).arguments)
            return output

        return observed

    def _seen_module(self, module: Any, given: Mapping[str, Any]) -> None:
        self._see(module_call(module, **given), given["key"] is not given["query"])

    def _seen_layer(self, module: Any, given: Mapping[str, Any]) -> None:
        """The attention of a layer that went the fast path: its module was not asked."""
        x = given["src"]
        x = x.unbind()[0][None] if x.is_nested else x
        x = module.norm1(x) if module.norm_first else x
        masks: dict[str, Any] = {"attn_mask": given.get("src_mask")}
        masks["key_padding_mask"] = given.get("src_key_padding_mask")
        self.path = _joined(self.path, "self_attn")
        self._see(module_call(module.self_attn, x, x, x, **masks), False)


def _of_torch(module: nn.Module) -> bool:
    """Whether nothing in its forward is somebody else's."""
    return type(module).__module__.startswith("torch.nn.")


def _uncompiled(model: nn.Module) -> AbstractContextManager[Any]:
    """Compiled modules run as they are written: what is compiled calls no function of torch."""
    compiled = any(
        hasattr(one, "_orig_mod") or one._compiled_call_impl is not None for one in model.modules()
    )
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()
