"""Whether a model is still what it was: asked before every translation, so it must be quick.

A walk through all modules takes as long as writing two words. The dictionaries that modules keep
their parts in never change, so they are gathered once and only their contents are looked at.
"""

from __future__ import annotations

from itertools import chain

from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook


class _Updates:
    """Counts the updates of all optimisers: fused ones change weights without a trace."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, *_: object) -> None:
        self.n += 1


_UPDATES = _Updates()
register_optimizer_step_post_hook(_UPDATES)


class Watch:
    """All that a model consists of."""

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self._hooks = [
            hooks for one in modules for hooks in (one._forward_hooks, one._forward_pre_hooks)
        ]
        self._places = [part for one in modules for part in (one._modules, one._parameters)]
        self._parts = self._now()
        self._held = list(chain.from_iterable(place.values() for place in self._places))
        """So that no other part can get the identity of one that was replaced."""
        self._weights = list(model.parameters())

    def holds(self) -> bool:
        """Whether no part was put in, taken out or replaced since."""
        return self._parts == self._now()

    def stamp(self) -> object:
        """Changes when weights are moved or changed in place; None where somebody watches.

        What is done to ``weight.data`` leaves no trace, nor does an update that is played again
        from a recording: training outdates what is kept besides.
        """
        if any(self._hooks):
            return None
        try:
            versions = [weight._version for weight in self._weights]
        except RuntimeError:  # made in inference mode: changes leave no trace
            return object()
        return _UPDATES.n, versions, [weight.data_ptr() for weight in self._weights]

    def _now(self) -> list[int]:
        return list(map(id, chain.from_iterable(place.values() for place in self._places)))
