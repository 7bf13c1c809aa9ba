"""Score functions: how well a query matches a key. They know nothing of masks or heads.

Queries are (…, T, Dq), keys (…, S, Dk), scores (…, T, S). Parameters may carry leading axes, such
as one for heads, that broadcast with those of the queries. A new score is one entry in ``SCORES``,
here or in a plug-in: a ``ScoreKind``, which says all that is to be known of it.

    @SCORES.add("manhattan")
    @ScoreKind
    def manhattan(q, k):
        return -torch.cdist(q, k, p=1)

Five of the seven are inner products in disguise: of transformed queries and keys. Those are written
as their ``factors``, from which both the readable score and the fused kernels follow.

What a score does to keys alone is its ``prepare``: a decoder that asks one query after another
about the same keys does it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError, ShapeError
from regard.core.registry import Registry
from regard.functional.attend import ScoreFn


class Factors(NamedTuple):
    """A score as ``scale · q kᵀ``."""

    q: Tensor
    k: Tensor
    scale: float

    def product(self) -> Tensor:
        """The scores (…, T, S)."""
        return self.q @ self.k.mT * self.scale


class Shape(NamedTuple):
    """A parameter to be made: its sizes, and the deviation that gives scores of unit variance."""

    sizes: tuple[int, ...]
    std: float


@dataclass(frozen=True, slots=True)
class ScoreSizes:
    """What a score needs to know to size its parameters."""

    d_query: int
    d_key: int
    d_hidden: int
    """Inner width of ``additive`` and ``tanh_product``."""
    max_len: int
    """Rows of the table of ``location``."""
    beta: str = "fixed"
    """``fixed`` at 1, ``learned``, or ``emitted`` from each query: the sharpness of ``content``."""


@dataclass(frozen=True, slots=True)
class ScoreKind:
    """All that is to be known of a score; around a plain function, one without parameters."""

    scores: Callable[..., Tensor]
    """(q, prepared keys, **parameters) -> (…, T, S)"""
    factors: Callable[..., Factors] | None = None
    """(q, prepared keys, **parameters) -> the same as an inner product, where it is one."""
    shapes: Callable[[ScoreSizes], Mapping[str, Shape]] = lambda _sizes: {}
    """The parameters it needs."""
    prepare: Callable[..., Tensor] = lambda k, **_parameters: k
    """(k, **parameters) -> prepared keys."""
    equal_widths: bool = False
    """Whether queries and keys must be equally wide."""

    def __call__(self, q: Tensor, k: Tensor, **parameters: Tensor | None) -> Tensor:
        """The scores (…, T, S) of queries and plain keys."""
        return self.scores(q, self.prepare(k, **parameters), **parameters)


SCORES: Registry[ScoreKind] = Registry("score")


def check_widths(name: str, q: Tensor, k: Tensor) -> None:
    """Refuse queries and keys of different widths where the score has no matrix between them."""
    if SCORES[name].equal_widths and q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"score {name!r} needs queries and keys of one width, got {q.shape[-1]} and "
            f"{k.shape[-1]}; 'general' and 'additive' take different ones"
        )


# ------------------------------------------------------------------ inner products


def dot_factors(q: Tensor, k: Tensor) -> Factors:
    """qᵀk (Luong et al. 2015)."""
    return Factors(q, k, 1.0)


def scaled_dot_factors(q: Tensor, k: Tensor) -> Factors:
    """qᵀk / √Dk, so that entries of unit variance give scores of unit variance (Vaswani 2017)."""
    return Factors(q, k, 1.0 / math.sqrt(k.shape[-1]))


def general_factors(q: Tensor, k: Tensor, *, weight: Tensor) -> Factors:
    """qᵀWk, weight (…, Dq, Dk) (Luong et al. 2015)."""
    return Factors(q @ weight, k, 1.0)


def content_factors(
    q: Tensor, k: Tensor, *, log_beta: Tensor | None = None, to_beta: Tensor | None = None
) -> Factors:
    """β·cos(q, k) of unit keys (Graves 2014): β is 1, exp(log_beta (…)) or softplus(to_betaᵀq)."""
    sharp = F.normalize(q, dim=-1)
    if log_beta is not None:
        sharp = sharp * log_beta.exp()[..., None, None]
    if to_beta is not None:
        sharp = sharp * F.softplus(q @ to_beta[..., None])
    return Factors(sharp, k, 1.0)


def tanh_product_factors(
    q: Tensor, k: Tensor, *, w_query: Tensor, v: Tensor, **_: Tensor
) -> Factors:
    """Σ v ∘ tanh(W_q q) ∘ tanh(W_k k) of tanh(W_k k) (…, S, A) (Shazeer et al. 2017).

    w_query (…, Dq, A), v (…, A).
    """
    return Factors((q @ w_query).tanh() * v.unsqueeze(-2), k, 1.0)


def _content_shapes(sizes: ScoreSizes) -> Mapping[str, Shape]:
    if sizes.beta == "learned":
        return {"log_beta": Shape((), 0.0)}
    if sizes.beta == "emitted":
        return {"to_beta": Shape((sizes.d_query,), 1.0 / math.sqrt(sizes.d_query))}
    return {}


def _general_shapes(sizes: ScoreSizes) -> Mapping[str, Shape]:
    std = 1.0 / math.sqrt(sizes.d_query * sizes.d_key)
    return {"weight": Shape((sizes.d_query, sizes.d_key), std)}


# ------------------------------------------------------------------ the other two


def additive(q: Tensor, prepared: Tensor, *, w_query: Tensor, v: Tensor, **_: Tensor) -> Tensor:
    """vᵀtanh(W_q q + W_k k) (Bahdanau 2015) of W_k k (…, S, A), w_query (…, Dq, A), v (…, A)."""
    hidden = (q @ w_query).unsqueeze(-2) + prepared.unsqueeze(-3)  # (…, T, S, A)
    if v.dim() == 1:
        return (hidden.tanh() @ v.unsqueeze(-1)).squeeze(-1)
    return torch.einsum("...tsa,...a->...ts", hidden.tanh(), v)


def location(q: Tensor, k: Tensor, *, table: Tensor) -> Tensor:
    """(W q)_j: the query alone says where to look (Luong et al. 2015); table (…, max_len, Dq).

    Keys beyond the table score -inf, which hides them; rows beyond the sentence are ignored.
    """
    n_keys, n_rows = k.shape[-2], table.shape[-2]
    rows = F.pad(table[..., :n_keys, :], (0, 0, 0, max(0, n_keys - n_rows)))
    scores = q @ rows.mT  # (…, T, S): never as wide as the table, where texts are shorter
    if n_keys <= n_rows:
        return scores
    return scores.masked_fill(torch.arange(n_keys, device=q.device) >= n_rows, -torch.inf)


def _additive_shapes(sizes: ScoreSizes) -> Mapping[str, Shape]:
    return {
        "w_query": Shape((sizes.d_query, sizes.d_hidden), 1.0 / math.sqrt(sizes.d_query)),
        "w_key": Shape((sizes.d_key, sizes.d_hidden), 1.0 / math.sqrt(sizes.d_key)),
        "v": Shape((sizes.d_hidden,), 1.0 / math.sqrt(sizes.d_hidden)),
    }


def _location_shapes(sizes: ScoreSizes) -> Mapping[str, Shape]:
    return {"table": Shape((sizes.max_len, sizes.d_query), 1.0 / math.sqrt(sizes.d_query))}


def _product(factors: Callable[..., Factors], **others: Any) -> ScoreKind:
    """A score that is an inner product."""
    return ScoreKind(lambda q, k, **own: factors(q, k, **own).product(), factors, **others)


def _unit_length(k: Tensor, **_: Tensor | None) -> Tensor:
    return F.normalize(k, dim=-1)


def _projected(k: Tensor, *, w_key: Tensor, **_: Tensor) -> Tensor:
    return k @ w_key  # (…, S, Dk) -> (…, S, A)


def _squashed(k: Tensor, *, w_key: Tensor, **_: Tensor) -> Tensor:
    return (k @ w_key).tanh()  # (…, S, Dk) -> (…, S, A)


SCORES.add("content")(
    _product(content_factors, shapes=_content_shapes, prepare=_unit_length, equal_widths=True)
)
SCORES.add("additive")(ScoreKind(additive, shapes=_additive_shapes, prepare=_projected))
SCORES.add("tanh_product")(
    _product(tanh_product_factors, shapes=_additive_shapes, prepare=_squashed)
)
SCORES.add("location")(ScoreKind(location, shapes=_location_shapes))
SCORES.add("general")(_product(general_factors, shapes=_general_shapes))
SCORES.add("dot")(_product(dot_factors, equal_widths=True))
SCORES.add("scaled_dot")(_product(scaled_dot_factors, equal_widths=True))


# ------------------------------------------------------------------ with parameters in place


class BoundScore(Protocol):
    """A score with its parameters in place: what attention asks of ``NamedScore`` and ``Score``."""

    @property
    def by_query(self) -> bool:
        """Whether each query is scored by itself, so that a kernel may ask for some at a time."""
        return True

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys -> scores (…, T, S)."""
        ...

    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        """The same as an inner product, or None where it is none."""
        return None

    def ready(self, k: Tensor) -> tuple[ScoreFn, Tensor]:
        """The score for keys that were prepared once for many queries, and those."""
        return self, k


@dataclass(frozen=True)
class NamedScore(BoundScore):
    """A score that needs no parameters, by its name."""

    name: str

    def __post_init__(self) -> None:
        sizes = ScoreSizes(d_query=1, d_key=1, d_hidden=1, max_len=1)
        if SCORES[self.name].shapes(sizes):
            raise ConfigError(
                f"score {self.name!r} has parameters; make it with "
                f"regard.Score({self.name!r}, d_query=…, d_key=…) and pass that"
            )

    @override
    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        check_widths(self.name, q, k)
        return SCORES[self.name](q, k)

    @override
    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        check_widths(self.name, q, k)
        kind = SCORES[self.name]
        return kind.factors(q, kind.prepare(k)) if kind.factors else None

    @override
    def ready(self, k: Tensor) -> tuple[ScoreFn, Tensor]:
        kind = SCORES[self.name]
        return kind.scores, kind.prepare(k)


@dataclass(frozen=True)
class CallableScore(BoundScore):
    """Any function of queries and keys that gives scores (…, T, S), or broadcasts over heads.

    Nothing is known of it: it may ask where a query stands, and so it is given all of them.
    """

    function: ScoreFn

    @property
    @override
    def by_query(self) -> bool:
        return False

    @override
    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        scores: object = self.function(q, k)
        leading = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
        wanted = torch.Size((*leading, q.shape[-2], k.shape[-2]))
        found = f"{tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        if not isinstance(scores, Tensor) or not _spreads(scores.shape, wanted):
            raise ShapeError(
                f"a score must give one number a query and key that broadcasts to "
                f"{tuple(wanted)}: (…, T, S) = (…, {q.shape[-2]}, {k.shape[-2]}), found {found}"
            )
        return scores.to(q.dtype).expand(wanted)


def _spreads(shape: torch.Size, wanted: torch.Size) -> bool:
    """Whether scores of a shape have all queries and keys, and broadcast over what leads."""
    ahead = shape[:-2]
    known = zip(reversed(ahead), reversed(wanted[:-2]), strict=False)
    return (
        shape[-2:] == wanted[-2:]
        and len(shape) <= len(wanted)
        and all(own in (1, n) for own, n in known)
    )


def bound_score(score: str | ScoreFn | BoundScore) -> BoundScore:
    """A score by name, as a function of queries and keys, or bound already."""
    if isinstance(score, str):
        return NamedScore(score)
    if not callable(score):
        raise ConfigError(
            f"a score must be a name, a regard.Score or a function of queries and keys, "
            f"found {type(score).__name__}"
        )
    return cast("BoundScore", score) if hasattr(score, "ready") else CallableScore(score)
