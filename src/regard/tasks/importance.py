"""On which heads a written token, or a label, rests: what its probability is without each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.core.numbers import counted, mentioned
from regard.inspection.edits import edited
from regard.inspection.importance import Head, Judge, Probabilities, joined, passes
from regard.tasks.edits import ModelEdit
from regard.visual.tables import Table, table_html, table_text

WIDTH = 80
"""Letters of a line where it is printed."""


class WithoutHead(NamedTuple):
    """How probable a token is without one head."""

    attention: str
    layer: int
    head: int
    without: float


@dataclass(frozen=True, slots=True)
class Importance:
    """How probable one token of an answer is, and how probable without each head of the model.

    All else is fixed: what was read, and what was written before it.
    """

    token: str
    probability: float
    heads: tuple[WithoutHead, ...]
    """In the order of the model."""

    @property
    def ranked(self) -> list[WithoutHead]:
        """Those without which it loses most, first."""
        return sorted(self.heads, key=lambda one: one.without)

    def table(self) -> Table:
        """A row a head; those without which it loses most come first."""
        rows = [
            (
                f"{one.attention} {one.layer}.{one.head}",
                f"{one.without:.3f}",
                f"{self.probability - one.without:+.3f}".replace("-", "−"),
            )
            for one in self.ranked
        ]
        caption = f"{mentioned(self.token)} has probability {self.probability:.3f}; without a head:"
        return Table(caption, ["head", "without", "lost"], rows)

    def as_json(self) -> dict[str, Any]:
        """The object of ``POST /api/importance``."""
        heads = [one._asdict() for one in self.heads]
        return {"token": self.token, "probability": self.probability, "heads": heads}

    def __repr__(self) -> str:
        return f"<Importance of {counted(len(self.heads), 'head')} for {mentioned(self.token)}>"

    def __str__(self) -> str:
        return table_text(self.table(), WIDTH)

    def _repr_html_(self) -> str:
        return table_html(self.table())


@dataclass(frozen=True, slots=True)
class AllImportances:
    """Of every token of an answer: one pass finds them all."""

    tokens: tuple[str, ...]
    found: Probabilities

    def of(self, step: int) -> Importance:
        """Of the token with this number, counted from 0."""
        check_step(step, self.tokens)
        heads, whole, without = self.found
        shares = without[:, step].tolist()
        told = tuple(WithoutHead(*head, one) for head, one in zip(heads, shares, strict=True))
        return Importance(self.tokens[step], float(whole[step]), told)


def check_step(step: int, tokens: Sequence[str]) -> None:
    """Refuse what is no number of a token."""
    if not tokens:
        raise ConfigError(
            "nothing came out of this text, so there is no token to ask about; give another"
        )
    last = len(tokens) - 1
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= last:
        which = f"0 to {last}, of {mentioned(tokens[0])} to {mentioned(tokens[last])}"
        only = f"0, of {mentioned(tokens[0])}"
        raise ConfigError(f"step is {which if last else only}, not {step!r}")


def unweighed(task: str) -> ConfigError:
    """What is told of runs whose heads cannot be weighed so."""
    return ConfigError(
        "heads are weighed by the probability of a token or a label, and a run of the task "
        f"{task} gives neither; `regard explain` shows where it looks"
    )


@dataclass(frozen=True, slots=True)
class ForcedAnswer:
    """A text with its answer, which stands, and how a model reads copies of both."""

    model: nn.Module
    tokens: tuple[str, ...]
    """What came out, as it is shown; T of them."""
    judge: Judge
    row_numbers: int
    """Logits of one copy."""
    edits: Sequence[ModelEdit] = ()
    """What is changed in the model."""

    def passes(self) -> Iterator[tuple[tuple[Head, ...], Tensor]]:
        """See ``regard.inspection.importance.passes``."""
        return passes(self.model, self.judge, row_numbers=self.row_numbers, edits=self.edits)

    def importances(self) -> AllImportances:
        """All at once."""
        return AllImportances(self.tokens, joined(self.passes()))


def label_answer(
    model: nn.Module, inputs: Sequence[Tensor], names: Sequence[str], edits: Sequence[ModelEdit]
) -> ForcedAnswer:
    """The most probable label of what is read, (1, …) each, by a model that gives (n, labels)."""
    with torch.inference_mode(), edited(model, edits):
        best = model(*inputs)[0].argmax()

    def judge(n: int) -> Tensor:
        return shares_of(model(*(copies_of(one, n) for one in inputs))[:, None], best[None])

    row = sum(one.numel() for one in inputs) + len(names)
    return ForcedAnswer(model, (names[int(best)],), judge, row, edits)


def shares_of(logits: Tensor, ids: Tensor) -> Tensor:
    """How probable each id (T,) is by logits (n, T, V) -> (n, T), in float32 or wider."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    said = wide.gather(-1, ids.expand(len(wide), -1).unsqueeze(-1)).squeeze(-1)
    return (said - wide.logsumexp(dim=-1)).exp()


def copies_of(one: Tensor, n: int) -> Tensor:
    """(1, …) -> (n, …)"""
    return one.expand(n, *one.shape[1:])
