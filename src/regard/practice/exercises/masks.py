"""Masks: who may be looked at.

A mask is boolean, and True means *may be looked at*. A decoder must not see words that are not
written yet, and nobody should look at padding. Masks are joined with &, and act before the softmax.

    causal_mask(n)               position t may look at itself and what came before     (n, n)
    padding_mask(lengths, n)     sentence b may look at its first lengths[b] positions  (B, n)
    masked_softmax(scores, mask) a distribution over what may be looked at              (…, T, S)

A query that may see nothing gets a row of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


@sheet.blank(
    "Compare positions: key s may be seen by query t if s ≤ t.",
    "torch.arange(n) as a row and as a column, compared, gives all pairs; or use torch.tril.",
)
def causal_mask(n: int) -> Tensor:
    """(n, n) of bool: row t is True in the columns 0 … t."""
    position = torch.arange(n)
    return position <= position.unsqueeze(1)


@sheet.blank(
    "Compare each position 0 … n-1 with each length.",
    "torch.arange(n) < lengths.unsqueeze(1) broadcasts to (B, n).",
)
def padding_mask(lengths: Tensor, n: int) -> Tensor:
    """lengths (B,) of int -> (B, n) of bool: True at the words, False at the padding behind."""
    return torch.arange(n) < lengths.unsqueeze(1)


@sheet.blank(
    "What must a score be, so that its exponential is 0?",
    "scores.masked_fill(~mask, -math.inf), then the softmax along the last axis.",
    "A row without any True becomes NaN: fill what is hidden with 0 once more after the softmax.",
)
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """scores (…, T, S), mask that broadcasts to them -> weights of the same shape as the scores.

    Hidden keys get exactly 0; the others of a row sum to 1. A row that sees nothing is all 0.
    """
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


# ------------------------------------------------------------------ examples


@sheet.cases(causal_mask)
def _sizes() -> Iterator[Arguments]:
    for n in (2, 3, 1, 5):
        yield {"n": n}


@sheet.cases(padding_mask)
def _lengths() -> Iterator[Arguments]:
    for lengths, n in (([1], 2), ([2, 1], 3), ([3, 0, 2, 1], 3), ([4, 2], 6)):
        yield {"lengths": torch.tensor(lengths), "n": n}


@sheet.cases(masked_softmax)
def _scores() -> Iterator[Arguments]:
    seen, hidden = True, False
    yield {"scores": torch.tensor([[1.0, 2.0]]), "mask": torch.tensor([[seen, hidden]])}
    yield {
        "scores": torch.tensor([[0.0, 1.0, 2.0], [-1.0, 3.0, 0.5]]),
        "mask": torch.tensor([[seen, hidden, seen], [seen, seen, hidden]]),
    }
    rng = torch.Generator().manual_seed(1)
    scores = torch.randn(2, 3, 4, 5, generator=rng)
    yield {"scores": scores, "mask": torch.arange(5) < torch.tensor([5, 3]).view(2, 1, 1, 1)}
    yield {"scores": scores[0, 0], "mask": torch.rand(4, 5, generator=rng) < 0.7}
    yield {"scores": torch.tensor([[1.0, 2.0]]), "mask": torch.tensor([[hidden, hidden]])}


# ------------------------------------------------------------------ mistakes


@sheet.mistake(causal_mask, "your mask is inverted: True means that a key may be looked at")
def _inverted(n: int) -> Tensor:
    return ~causal_mask(n)


@sheet.mistake(
    causal_mask, "your positions look at what comes after them: row t is True in the columns 0 … t"
)
def _future(n: int) -> Tensor:
    return causal_mask(n).mT


@sheet.mistake(
    causal_mask, "off by one: no position may look at itself; key s is seen where s ≤ t, not s < t"
)
def _without_itself(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril(diagonal=-1)


@sheet.mistake(
    causal_mask, "off by one: each position also sees the next word, which it should predict"
)
def _one_ahead(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril(diagonal=1)


@sheet.mistake(causal_mask, "your mask hides nothing")
def _all_seen(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool)


@sheet.mistake(causal_mask, "your mask holds numbers: make it boolean, as by torch.tril(…).bool()")
def _numbers(n: int) -> Tensor:
    return torch.ones(n, n).tril()


@sheet.mistake(
    causal_mask, "your mask holds 0 and -inf to be added to scores: a boolean one is asked for"
)
def _additive(n: int) -> Tensor:
    return torch.full((n, n), float("-inf")).triu(diagonal=1)


@sheet.mistake(padding_mask, "padding is looked at, and words are not: True means a word")
def _padding_seen(lengths: Tensor, n: int) -> Tensor:
    return ~padding_mask(lengths, n)


@sheet.mistake(padding_mask, "off by one: the first position of the padding is looked at (≤ for <)")
def _one_of_padding(lengths: Tensor, n: int) -> Tensor:
    return torch.arange(n) <= lengths.unsqueeze(1)


@sheet.mistake(padding_mask, "off by one: the last word of each sentence is hidden")
def _last_word_hidden(lengths: Tensor, n: int) -> Tensor:
    return torch.arange(n) < lengths.unsqueeze(1) - 1


@sheet.mistake(padding_mask, "you hide the beginning: padding stands behind the words")
def _left(lengths: Tensor, n: int) -> Tensor:
    return padding_mask(lengths, n).flip(-1)


@sheet.mistake(masked_softmax, "your mask is inverted: True means that a key may be looked at")
def _hides_the_seen(scores: Tensor, mask: Tensor) -> Tensor:
    return masked_softmax(scores, ~mask)


@sheet.mistake(masked_softmax, "you leave the mask out: what is hidden still gets weight")
def _ignored(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


@sheet.mistake(
    masked_softmax,
    "you mask after the softmax: the hidden keys took their share before, so rows sum to less than "
    "1; fill the scores with -inf first",
)
def _afterwards(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(dim=-1) * mask


@sheet.mistake(
    masked_softmax,
    "you set hidden scores to 0, and exp(0) is 1: they still get weight; fill with -inf",
)
def _zeros(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores * mask).softmax(dim=-1)


@sheet.mistake(
    masked_softmax, "you set hidden scores to 0 and clean up after: rows sum to less than 1"
)
def _zeros_twice(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores * mask).softmax(dim=-1) * mask


@sheet.mistake(
    masked_softmax, "a row that may see nothing becomes NaN: fill what is hidden with 0 at the end"
)
def _nan(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


@sheet.mistake(
    masked_softmax,
    "a row that may see nothing gives equal weight to what is hidden: it must be all 0",
)
def _uniform(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@sheet.mistake(
    masked_softmax, "your weights sum to 1 over queries, not keys: softmax along the last axis"
)
def _over_queries(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-2).masked_fill(~mask, 0.0)


@sheet.law(masked_softmax)
def _hidden_is_zero(result: Tensor, scores: Tensor, mask: Tensor) -> str | None:
    hidden = result[~mask.expand_as(result)]
    if hidden.numel() and hidden.abs().max() > 1e-6:
        return f"a hidden key gets the weight {hidden.abs().max():.4g}: it must get 0"
    return None
