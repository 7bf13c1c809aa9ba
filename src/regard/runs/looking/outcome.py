"""What came out of a reading, in words, with what else might have come out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

from regard.runs.finding import edges_of, said, spans_of
from regard.text.tokenizer import Tokenizer

MOST = 5
"""So many choices are told where there are many."""

Kind = Literal["label", "words", "vector", "answer", "text"]


class Choice(NamedTuple):
    """Something that may come out, and how likely it is."""

    text: str
    probability: float


class Place(NamedTuple):
    """What may stand at some rows, or what the whole text may be; the most probable first."""

    rows: tuple[int, int] | None
    """The first, and the one behind the last; None is the whole text."""
    choices: tuple[Choice, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        choices = [{"text": one.text, "probability": one.probability} for one in self.choices]
        return {"rows": None if self.rows is None else list(self.rows), "choices": choices}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A label, filled words, a vector, an answer, or text that was written."""

    kind: Kind
    text: str
    places: tuple[Place, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As it stands in the payload of a look."""
        places = [place.as_json() for place in self.places]
        return {"kind": self.kind, "text": self.text, "places": places}


def label(logits: Tensor, names: Sequence[str]) -> Outcome:
    """Logits (n_labels,) -> the most probable label, and all of them."""
    shares = logits.float().softmax(dim=-1).tolist()
    ordered = sorted(map(Choice, names, shares), key=lambda one: -one.probability)
    return Outcome("label", ordered[0].text, (Place(None, tuple(ordered)),))


def next_tokens(logits: Tensor, tokenizer: Tokenizer, written: str) -> Outcome:
    """Logits (T, V) -> what was written, and what may come after each token that was read."""
    named = logits.clone()
    nameless = tokenizer.nameless(logits.shape[-1])
    named[:, nameless] = -math.inf
    best = named.topk(min(MOST, logits.shape[-1] - len(nameless)))
    shares = (best.values.float() - logits.float().logsumexp(dim=-1, keepdim=True)).exp()
    places = [
        Place((t, t + 1), tuple(map(Choice, tokenizer.tokens(ids), some)))
        for t, (ids, some) in enumerate(zip(best.indices.tolist(), shares.tolist(), strict=True))
    ]
    return Outcome("text", written, tuple(places))


def answer(logits: Tensor, segments: Sequence[int], context: str, tokenizer: Tokenizer) -> Outcome:
    """Logits (S, 2) of starts and ends -> the best spans of the second text, as they are answered.

    Of the ``context`` as many tokens were read as stand in the second segment before its end.
    """
    first, n_read = len(segments) - sum(segments), max(0, sum(segments) - 1)
    offsets = tokenizer.offsets(context)
    edges = edges_of(context, offsets)[:n_read]
    spans = spans_of(logits.float().cpu(), first, edges, MOST)
    if not spans:
        return Outcome("answer", "")
    found = [said(context, (offsets[a][0], offsets[b][1]), score) for a, b, score in spans]
    choices = tuple(Choice(one.text, one.probability) for one in found)
    rows = first + spans[0][0], first + spans[0][1] + 1
    return Outcome("answer", choices[0].text, (Place(rows, choices),))
