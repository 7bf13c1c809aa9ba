"""What if? Changes to a model's attentions that last as long as a block.

with edited(model, [Ablate("decoder.cross", layer=1, head=0)]):
    model(source, target)

An edit changes what an attention is given (``Seen``), just before the place where others watch; so
whoever watches inside the block sees the edited attention, and nothing remains afterwards.
``NoPositions`` is the exception: it changes what the model reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.functional import masks, positions
from regard.inspection.capture import Place, TemperedScore, viewpoints
from regard.layers.positions import Positions, Relative, RelativePositions
from regard.layers.viewpoint import Seen

# Where a softmax is hard or flat already; beyond them scores are soon no numbers any more.
COLDEST, HOTTEST = 1e-6, 1e6


class Edit:
    """A change to some attentions."""

    def concerns(self, where: Place) -> bool:
        """Whether the attention at this place is changed."""
        raise NotImplementedError

    def __call__(self, seen: Seen) -> Seen:
        """What it is given instead."""
        raise NotImplementedError

    def attached(self, model: nn.Module) -> list[RemovableHandle]:
        """Hold from now on, until the handles are removed; one that changes nothing is refused."""
        views = viewpoints(model)
        concerned = [module for where, module in views if self.concerns(where)]
        if not concerned:
            names = sorted({name for (name, _), _ in views})
            asked = getattr(self, "name", None) or ""
            hint = "" if asked in names else did_you_mean(asked, names)
            known = ", ".join(f"{name} {layer}" for (name, layer), _ in views) or "none"
            raise ConfigError(f"no attention is concerned by {self}{hint}; known: {known}")
        return [
            one.change.register_forward_hook(lambda _, __, seen: self(seen)) for one in concerned
        ]


@dataclass(frozen=True, slots=True)
class OneHead(Edit):
    """One head of one attention."""

    name: str
    layer: int
    head: int

    def concerns(self, where: Place) -> bool:
        """Whether the attention of this name and layer is meant."""
        return where == (self.name, self.layer)

    def chosen(self, seen: Seen) -> Tensor:
        """(H, 1, 1): True for the head."""
        n_heads = seen.q.shape[1]
        if not 0 <= self.head < n_heads:
            raise ConfigError(f"{self.name} has heads 0 to {n_heads - 1}, not {self.head}")
        return (torch.arange(n_heads, device=seen.q.device) == self.head)[:, None, None]


@dataclass(frozen=True, slots=True)
class Ablate(OneHead):
    """The head brings nothing home: its weights count as zero."""

    def __call__(self, seen: Seen) -> Seen:
        """Its weights are multiplied by 0, after normalising."""
        kept = (~self.chosen(seen)).to(seen.v.dtype)
        return dataclasses.replace(seen, prior=kept if seen.prior is None else seen.prior * kept)


@dataclass(frozen=True, slots=True)
class Force(OneHead):
    """The head looks at one key and nowhere else; where that is hidden, it sees nothing.

    Keys of a self-attention may come one by one, as a decoder writes or a tape grows: one that is
    not there yet counts as hidden, and whether it ever came is known only afterwards.
    """

    key: int

    def __call__(self, seen: Seen) -> Seen:
        """All other keys are hidden from it."""
        n_keys = seen.k.shape[-2]
        may_come = ".self" in self.name
        if self.key < 0 or (self.key >= n_keys and not may_come):
            raise ConfigError(f"{self.name} has keys 0 to {n_keys - 1}, not {self.key}")
        here = torch.arange(n_keys, device=seen.q.device) == min(self.key, n_keys)
        allowed = ~self.chosen(seen) | here  # (H, 1, S)
        return dataclasses.replace(seen, mask=masks.both(masks.dense(seen.mask), allowed))


@dataclass(frozen=True, slots=True)
class Temperature(Edit):
    """Scores are divided by it: below 1 attention sharpens, above 1 it spreads."""

    value: float
    name: str | None = None  # which attentions; all of them where it is None

    def __post_init__(self) -> None:
        if not COLDEST <= self.value <= HOTTEST:
            bounds = f"from {COLDEST:.0e} to {HOTTEST:.0e}"
            raise ConfigError(f"a temperature must be {bounds}, got {self.value}")

    def concerns(self, where: Place) -> bool:
        """Whether the attention is one of those named."""
        return self.name is None or where[0] == self.name

    def __call__(self, seen: Seen) -> Seen:
        """The same with a tempered score; what is added to it is divided likewise."""
        bias = positions.scaled_bias(seen.bias, 1 / self.value)
        return dataclasses.replace(seen, score=TemperedScore(seen.score, self.value), bias=bias)


@dataclass(frozen=True, slots=True)
class NoPositions:
    """Nothing tells order: positions are not added, and zero where they are appended.

    Nor does attention know how far apart tokens stand.
    """

    def attached(self, model: nn.Module) -> list[RemovableHandle]:
        """Hold from now on, until the handles are removed."""
        told = [one for one in model.modules() if isinstance(one, Positions)]
        known = [one for one in told if type(one) is not Positions]  # that is the kind `none`
        if not known:
            raise ConfigError(
                "no_positions: this system has no positions that could be removed; recurrent "
                "systems know order by reading word after word"
            )
        places = [one for one in model.modules() if isinstance(one, RelativePositions)]
        return [
            *(one.register_forward_hook(_without_positions) for one in known),
            *(one.register_forward_hook(lambda _, read, __: Relative(*read[:2])) for one in places),
        ]


def _without_positions(module: nn.Module, inputs: tuple[Tensor, int], joined: Tensor) -> Tensor:
    x = inputs[0]
    return F.pad(x, (0, joined.shape[-1] - x.shape[-1]))  # by nothing, where they are added


@contextmanager
def edited(model: nn.Module, edits: Sequence[Edit | NoPositions]) -> Iterator[None]:
    """Inside the block the edits hold, in their order; afterwards nothing is left of them."""
    handles: list[RemovableHandle] = []
    try:
        for edit in edits:
            handles += edit.attached(model)
        yield
    finally:
        for handle in handles:
            handle.remove()
