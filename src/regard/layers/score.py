"""A score function with its parameters: ``regard.Score``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.functional.attend import ScoreFn
from regard.functional.scores import (
    SCORES,
    BoundScore,
    CallableScore,
    Factors,
    ScoreSizes,
    check_widths,
)
from regard.layers.settings import Beta


class Score(nn.Module):
    """Any score of the registry, by name, with what it has to learn.

    With ``n_heads`` each head has parameters of its own, and queries are (B, H, T, d_query).
    """

    def __init__(
        self,
        name: str,
        *,
        d_query: int,
        d_key: int,
        d_hidden: int | None = None,
        max_len: int = 512,
        beta: Beta = "fixed",
        n_heads: int | None = None,
    ) -> None:
        super().__init__()
        if beta not in (known := get_args(Beta)):
            near = did_you_mean(beta, known)
            raise ConfigError(f"unknown beta {beta!r}{near}; there are {known}")
        if beta != "fixed" and name != "content":
            raise ConfigError(f"beta={beta!r} sharpens the score 'content'; {name!r} has none")
        self.name = name
        self.kind = SCORES[name]
        heads = () if n_heads is None else (n_heads,)
        shapes = self.kind.shapes(ScoreSizes(d_query, d_key, d_hidden or d_key, max_len, beta))
        self._names = tuple(shapes)
        for key, (shape, std) in shapes.items():
            self.register_parameter(key, nn.Parameter(torch.randn((*heads, *shape)) * std))

    @property
    def by_query(self) -> bool:
        """Each query is scored by itself."""
        return True

    @property
    def learned(self) -> dict[str, Tensor]:
        """Its parameters by name, whatever torch's parametrizations make of them."""
        return {name: getattr(self, name) for name in self._names}

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (…, T, Dq), k (…, S, Dk) -> scores (…, T, S)."""
        check_widths(self.name, q, k)
        return self.kind(q, k, **self.learned)

    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        """The same score as an inner product, where it is one: what fused kernels take."""
        check_widths(self.name, q, k)
        make = self.kind.factors
        return make(q, self.prepare(k), **self.learned) if make else None

    def ready(self, k: Tensor) -> tuple[ScoreFn, Tensor]:
        """Prepared keys, and the score for them."""
        return PreparedScore(self), self.prepare(k)

    def prepare(self, k: Tensor) -> Tensor:
        """What can be done to keys before any query is known; for ``PreparedScore``."""
        return self.kind.prepare(k, **self.learned)

    def extra_repr(self) -> str:
        """Its name, when printed."""
        return self.name


@dataclass(frozen=True)
class PreparedScore(BoundScore):
    """The same score for keys that went through ``Score.prepare``: once for many queries."""

    score: Score

    @override
    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return self.score.kind.scores(q, k, **self.score.learned)

    @override
    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        make = self.score.kind.factors
        return make(q, k, **self.score.learned) if make else None


class GivenScore(nn.Module):
    """A score that somebody brings: any function of queries and keys, or a module.

    It is called with q (B, H, T, Dq) and k (B, H, S, Dk) and gives scores (B, H, T, S), or what
    broadcasts to them. The parameters of a module are learned and saved with the layer's.
    """

    name = "given"

    def __init__(self, function: ScoreFn) -> None:
        super().__init__()
        self.function = function

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (…, T, Dq), k (…, S, Dk) -> scores (…, T, S)."""
        return CallableScore(self.function)(q, k)

    @property
    def by_query(self) -> bool:
        """Unknown, so all queries are asked for at once."""
        return False

    def factors(self, _q: Tensor, _k: Tensor) -> None:
        """Nobody knows whether it is an inner product."""
        return

    def ready(self, k: Tensor) -> tuple[ScoreFn, Tensor]:
        """Itself, for keys as they are."""
        return self, k

    def extra_repr(self) -> str:
        """What a function is called, when printed; a module is printed by itself."""
        if isinstance(self.function, nn.Module):
            return ""
        return getattr(self.function, "__name__", type(self.function).__name__)
