"""What a beam search knows, and how it goes one token further.

All of it are values of fixed shapes, of which nothing depends on what is in them. So one step can
be played again and again on a GPU without the host looking on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, penalty
from regard.kernels.steps import Best
from regard.text.specials import BEGIN_ID, END_ID


@dataclass(frozen=True, slots=True)
class Open:
    """The K hypotheses of each sentence that go on, most probable first."""

    ids: Tensor
    """(B, K, 1 + L), begin token first, filled up with end tokens."""
    log_prob: Tensor
    """(B, K); -inf where fewer than K targets exist."""

    def select(self, rows: Tensor) -> Self:
        """Some of the sentences, by index."""
        return type(self)(self.ids[rows], self.log_prob[rows])


@dataclass(frozen=True, slots=True)
class Finished:
    """The M best finished hypotheses of each sentence so far, best first."""

    ids: Tensor
    """(B, M, 1 + L), begin token first, filled up with end tokens."""
    log_prob: Tensor
    """(B, M); -inf where fewer than M have finished."""
    score: Tensor
    """(B, M)."""

    def select(self, rows: Tensor) -> Self:
        """Some of the sentences, by index."""
        return type(self)(self.ids[rows], self.log_prob[rows], self.score[rows])


class Candidates(NamedTuple):
    """The 2K most probable continuations of each sentence, best first."""

    parents: Tensor
    """(B, 2K): the open hypothesis that each continues, 0 … K-1."""
    ids: Tensor
    """(B, 2K): by which token."""
    token_log_prob: Tensor
    """(B, 2K): of that token."""
    log_prob: Tensor
    """(B, 2K): of the whole."""


@dataclass(frozen=True, slots=True)
class Search:
    """Everything known about the B sentences that are searched."""

    sentences: Tensor
    """(B,): their places in the batch that was asked for."""
    limits: Tensor
    """(B,)."""
    n_written: Tensor
    """(B,): tokens of the open hypotheses, begin token not counted."""
    open: Open
    finished: Finished
    alpha: float

    @classmethod
    def begin(cls, limits: Tensor, n_beams: int, n_best: int, alpha: float, room: int) -> Self:
        """One open hypothesis a sentence, the begin token; the other beams are still empty."""
        B = len(limits)
        with limits.device:
            ids = torch.full((B, n_beams, 1 + room), END_ID)
            none = torch.full((B, n_beams), -torch.inf)
            sentences = torch.arange(B)
        ids[:, :, 0] = BEGIN_ID
        log_prob = none.clone()
        log_prob[:, 0] = 0.0
        finished = Finished(*(part[:, :n_best].clone() for part in (ids, none, none)))
        written = torch.zeros_like(sentences)
        return cls(sentences, limits, written, Open(ids, log_prob), finished, alpha)

    def select(self, rows: Tensor) -> Self:
        """Some of the sentences, by index."""
        return type(self)(
            self.sentences[rows],
            self.limits[rows],
            self.n_written[rows],
            self.open.select(rows),
            self.finished.select(rows),
            self.alpha,
        )

    def first(self, n: int) -> Self:
        """The first n sentences, where they lie."""
        open_, finished = self.open, self.finished
        return type(self)(
            self.sentences[:n],
            self.limits[:n],
            self.n_written[:n],
            Open(open_.ids[:n], open_.log_prob[:n]),
            Finished(finished.ids[:n], finished.log_prob[:n], finished.score[:n]),
            self.alpha,
        )

    @property
    def last(self) -> Tensor:
        """(B·K,): the newest token of each open hypothesis."""
        return _at(self.open.ids, self.n_written).flatten()

    def tensors(self) -> tuple[Tensor, ...]:
        """All that changes from step to step."""
        open_, finished = self.open, self.finished
        return (
            self.n_written, open_.ids, open_.log_prob,
            finished.ids, finished.log_prob, finished.score,
        )  # fmt: skip


class Advanced(NamedTuple):
    """A search one token later."""

    search: Search
    candidates: Candidates
    kept: Tensor
    """(B, K): the candidates that stay open, by index."""
    parents: Tensor
    """(B, K): the open hypothesis that each of them continues."""


def advance(search: Search, best: Best) -> Advanced:
    """One token further, given the best continuations (B·K, n) of each open hypothesis."""
    candidates = _expand(search.open, best)
    finished = _collect(search, candidates)
    going_on = candidates.log_prob.masked_fill(candidates.ids == END_ID, -torch.inf)
    log_prob, kept = going_on.topk(search.open.log_prob.shape[1])
    parents = candidates.parents.gather(1, kept)
    ids = _pick(search.open.ids, parents)
    n_written = search.n_written + 1
    where = n_written[:, None, None].expand(-1, ids.shape[1], 1)
    ids.scatter_(2, where, candidates.ids.gather(1, kept).unsqueeze(2))
    later = replace(search, n_written=n_written, open=Open(ids, log_prob), finished=finished)
    return Advanced(later, candidates, kept, parents)


def _expand(live: Open, best: Best) -> Candidates:
    B, K = live.log_prob.shape
    n = best.ids.shape[1]
    totals = live.log_prob.unsqueeze(2) + best.log_prob.view(B, K, n)
    log_prob, place = totals.flatten(1).topk(2 * K)  # (B, 2K)
    ids, token = (part.view(B, K * n).gather(1, place) for part in (best.ids, best.log_prob))
    return Candidates(place // n, ids, token, log_prob)


def _collect(search: Search, candidates: Candidates) -> Finished:
    """Enter those of the first K candidates that end, and keep the M best."""
    finished, live = search.finished, search.open
    K, M = live.log_prob.shape[1], finished.score.shape[1]
    ends = candidates.ids[:, :K] == END_ID
    log_prob = candidates.log_prob[:, :K].masked_fill(~ends, -torch.inf)
    n = (search.n_written + 1).to(log_prob.dtype).unsqueeze(1)
    score = torch.cat((finished.score, log_prob / penalty(n, search.alpha)), dim=1)
    score, best = score.topk(M)
    log_prob = torch.cat((finished.log_prob, log_prob), dim=1).gather(1, best)
    ids = torch.cat((finished.ids, _pick(live.ids, candidates.parents[:, :K])), dim=1)
    return Finished(_pick(ids, best), log_prob, score)


def stops(search: Search) -> Tensor:
    """(B,): True at the limit, and where no open hypothesis can win (see ``beam``)."""
    most = search.open.log_prob[:, 0]
    bound = most / penalty(search.limits.to(most.dtype), search.alpha)
    return (search.finished.score[:, -1] >= bound) | (search.limits <= search.n_written)


def read(stopped: Search) -> dict[int, list[Hypothesis]]:
    """Sentence -> its hypotheses; the open ones fill up where too few have finished."""
    n_best = stopped.finished.score.shape[1]
    lengths = stopped.n_written.tolist()
    finished = _ranked(stopped.finished, [None] * len(lengths), stopped.alpha)
    cut_off = _ranked(stopped.open, lengths, stopped.alpha)
    best = [(done + cut)[:n_best] for done, cut in zip(finished, cut_off, strict=True)]
    return dict(zip(stopped.sentences.tolist(), best, strict=True))


def _ranked(
    part: Open | Finished, lengths: list[int] | list[None], alpha: float
) -> list[list[Hypothesis]]:
    """For each sentence the hypotheses that exist, best first; tokens up to its length."""
    ranked = []
    for ids, log_probs, n in zip(part.ids.tolist(), part.log_prob.tolist(), lengths, strict=True):
        end = None if n is None else 1 + n
        real = [
            Hypothesis.read(written[1:end], log_prob, alpha)
            for written, log_prob in zip(ids, log_probs, strict=True)
            if log_prob != -math.inf
        ]
        ranked.append(sorted(real, key=lambda hypothesis: hypothesis.score, reverse=True))
    return ranked


def _pick(ids: Tensor, which: Tensor) -> Tensor:
    """Of ids (B, N, T) the hypotheses (B, M) by index -> (B, M, T)."""
    return ids.gather(1, which.unsqueeze(2).expand(-1, -1, ids.shape[2]))


def _at(ids: Tensor, n_written: Tensor) -> Tensor:
    """Of ids (B, K, 1 + L) those at one place a sentence (B,) -> (B, K)."""
    return ids.gather(2, n_written[:, None, None].expand(-1, ids.shape[1], 1)).squeeze(2)
