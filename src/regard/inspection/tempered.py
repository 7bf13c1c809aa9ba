"""A score at a temperature."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.functional.attend import ScoreFn
from regard.functional.scores import BoundScore, Factors


@dataclass(frozen=True, slots=True)
class Tempered:
    """A score divided by a temperature."""

    inner: BoundScore
    temperature: float

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
