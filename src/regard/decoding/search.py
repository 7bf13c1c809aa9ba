"""What a beam search knows, and how it goes one token further.

All of it are values of fixed shapes, of which nothing depends on what is in them. So one step can
be replayed again and again on a GPU without the host looking on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.decoding.hypothesis import Hypothesis, finite, penalty
from regard.decoding.protocol import TRANSLATOR, ControlIds
from regard.decoding.settings import LENGTH_PENALTY, StopRule
from regard.kernels.steps import Best
from regard.text.specials import BEGIN_ID, END_ID


@dataclass(frozen=True, slots=True)
class BeamSettings:
    """How to search; see ``beam`` for the rules by which a sentence stops."""

    n_beams: int
    n_best: int = 1
    length_penalty: float = LENGTH_PENALTY
    coverage_penalty: float = 0.0
    stop: StopRule = "exact"
    control: ControlIds = TRANSLATOR

    def __post_init__(self) -> None:
        problems = []
        if self.n_beams < 1:
            problems.append(f"n_beams must be at least 1 (1 is greedy), got {self.n_beams}")
        if self.n_best < 1:
            problems.append(f"n_best must be at least 1, got {self.n_best}")
        if self.n_best > self.n_beams:
            problems.append(
                f"n_best={self.n_best} is more than the n_beams={self.n_beams} that are searched; "
                f"search {self.n_best} beams or ask for {self.n_beams} hypotheses"
            )
        for name in ("length_penalty", "coverage_penalty"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                problems.append(f"{name} must be at least 0 and finite, got {value}")
        if problems:
            raise ConfigError("; ".join(problems))

    @property
    def n_candidates(self) -> int:
        """C: so many continuations are looked at that K remain, however many of them end."""
        return (1 + max(1, len(self.control.ends))) * self.n_beams

    @property
    def n_finished(self) -> int:
        """M: finished hypotheses that are remembered. To stop by the first K takes all of them."""
        return self.n_best if self.stop == "exact" else self.n_beams

    @property
    def filler(self) -> int:
        """What stands after a hypothesis' last token: no token that can be part of it."""
        return END_ID if self.control == TRANSLATOR else -1


class Open(NamedTuple):
    """The K hypotheses of each sentence that go on, most probable first."""

    ids: Tensor
    """(B, K, 1 + L): from the second on what is written, then the filler."""
    log_prob: Tensor
    """(B, K); -inf where fewer than K targets exist."""


class Finished(NamedTuple):
    """The M best finished hypotheses of each sentence so far, best first."""

    ids: Tensor
    """(B, M, 1 + L): from the second on what is written without the end token, then the filler."""
    log_prob: Tensor
    """(B, M); -inf where fewer than M have finished."""
    score: Tensor
    """(B, M)."""


class Candidates(NamedTuple):
    """The C most probable continuations of each sentence, best first."""

    parents: Tensor
    """(B, C): the open hypothesis that each continues, 0 … K-1."""
    ids: Tensor
    """(B, C): by which token."""
    token_log_prob: Tensor
    """(B, C): of that token."""
    log_prob: Tensor
    """(B, C): of the whole."""


@dataclass(frozen=True, slots=True)
class Search:
    """Everything known about the B sentences that are searched."""

    sentences: Tensor
    """(B,): their places in the batch that was asked for."""
    limits: Tensor
    """(B,)."""
    n_written: Tensor
    """(B,): tokens of the open hypotheses, prompt not counted."""
    open: Open
    finished: Finished
    settings: BeamSettings

    @classmethod
    def begin(cls, limits: Tensor, settings: BeamSettings, longest: int) -> Self:
        """One open hypothesis a sentence, of nothing; the other beams are still empty."""
        B, K = len(limits), settings.n_beams
        with limits.device:
            ids = torch.full((B, K, 1 + longest), settings.filler)
            none = torch.full((B, K), -torch.inf)
            sentences = torch.arange(B)
        ids[:, :, 0] = BEGIN_ID
        log_prob = none.clone()
        log_prob[:, 0] = 0.0
        finished = Finished(*(part[:, : settings.n_finished].clone() for part in (ids, none, none)))
        written = torch.zeros_like(sentences)
        return cls(sentences, limits, written, Open(ids, log_prob), finished, settings)

    def at(self, rows: Tensor | slice) -> Search:
        """Some of the sentences: by index, or the first n where they lie."""
        (ids, log_prob), (done_ids, done_log_prob, score) = self.open, self.finished
        return Search(
            self.sentences[rows],
            self.limits[rows],
            self.n_written[rows],
            Open(ids[rows], log_prob[rows]),
            Finished(done_ids[rows], done_log_prob[rows], score[rows]),
            self.settings,
        )

    @property
    def last(self) -> Tensor:
        """(B·K,): the newest token of each open hypothesis."""
        ids, K = self.open.ids, self.open.ids.shape[1]
        where = self.n_written[:, None, None].expand(-1, K, 1)
        return ids.gather(2, where).flatten()

    def tensors(self) -> tuple[Tensor, ...]:
        """All that changes from step to step."""
        return self.n_written, *self.open, *self.finished


def expand(search: Search, best: Best) -> Candidates:
    """The candidates, given the best continuations (B·K, n) of each open hypothesis."""
    open_, n = search.open, best.ids.shape[1]
    B, K = open_.log_prob.shape
    totals = open_.log_prob.unsqueeze(2) + best.log_prob.view(B, K, n)
    log_prob, place = totals.flatten(1).topk(min(search.settings.n_candidates, K * n))  # (B, C)
    ids, token = (part.view(B, K * n).gather(1, place) for part in (best.ids, best.log_prob))
    return Candidates(place // n, ids, token, log_prob)


def advance(
    search: Search,
    candidates: Candidates,
    *,
    stopped: Tensor | None = None,
    added: Tensor | None = None,
) -> tuple[Search, Tensor, Tensor]:
    """The search one token later, the candidates that stay open (B, K), and their parents (B, K).

    ``stopped`` (B, C) says which candidates end with their token, beside those that end with an
    end token; ``added`` (B, K) is what the score of a hypothesis gets if it ends now.
    """
    ends = search.settings.control.are_ends(candidates.ids)
    over = ends if stopped is None else ends | stopped
    finished = _collect(search, candidates, ends, over, added)
    log_prob, kept = candidates.log_prob.masked_fill(over, -torch.inf).topk(search.settings.n_beams)
    parents = candidates.parents.gather(1, kept)
    n_written = search.n_written + 1
    ids = _extended(search.open.ids, parents, candidates.ids.gather(1, kept), n_written)
    later = replace(search, n_written=n_written, open=Open(ids, log_prob), finished=finished)
    return later, kept, parents


def _collect(
    search: Search, candidates: Candidates, ends: Tensor, over: Tensor, added: Tensor | None
) -> Finished:
    """Enter those of the first K candidates that end, and keep the M best."""
    finished, K = search.finished, search.settings.n_beams
    parents, ids, _, log_prob = (part[:, :K] for part in candidates)
    log_prob = log_prob.masked_fill(~over[:, :K], -torch.inf)
    n = search.n_written + 1
    score = log_prob / penalty(n.to(log_prob.dtype).unsqueeze(1), search.settings.length_penalty)
    if added is not None:
        score = score + added.gather(1, parents)
    score, best = torch.cat((finished.score, score), dim=1).topk(finished.score.shape[1])
    log_prob = torch.cat((finished.log_prob, log_prob), dim=1).gather(1, best)
    last = ids.masked_fill(ends[:, :K], search.settings.filler)
    grown = _extended(search.open.ids, parents, last, n)
    return Finished(_pick(torch.cat((finished.ids, grown), dim=1), best), log_prob, score)


def stops(search: Search) -> Tensor:
    """(B,): True at the limit, and where the rule says so (see ``beam``)."""
    at_limit = search.limits <= search.n_written
    if search.settings.stop == "first":
        return at_limit | first_ended(search)
    most = search.open.log_prob[:, 0]
    bound = most / penalty(search.limits.to(most.dtype), search.settings.length_penalty)
    return at_limit | (search.finished.score[:, -1] >= bound)


def first_ended(search: Search) -> Tensor:
    """(B,): the rule ``first``: K have ended; without penalties, the most probable one has."""
    settings, finished = search.settings, search.finished
    enough = finished.log_prob[:, -1] > -torch.inf
    if settings.length_penalty or settings.coverage_penalty:
        return enough
    ahead = finished.score[:, 0] >= search.open.log_prob[:, 0]
    return enough | (ahead & (finished.log_prob[:, settings.n_best - 1] > -torch.inf))


def read(stopped: Search) -> dict[int, list[Hypothesis]]:
    """Sentence -> its hypotheses; the open ones fill up where too few have finished.

    Both kinds are sorted, so no more than ``n_best`` of either are fetched from the device.
    """
    found = {}
    filler, alpha = stopped.settings.filler, stopped.settings.length_penalty
    n_best = stopped.settings.n_best
    best_of_each = (part[:, :n_best] for part in (*stopped.open, *stopped.finished))
    columns = (stopped.sentences, stopped.n_written, *best_of_each)
    for sentence, n, ids, log_probs, done_ids, done_log_probs, scores in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        best = [
            Hypothesis(tuple(until(written[1:], filler)), finite(log_prob), score, finished=True)
            for written, log_prob, score in zip(done_ids, done_log_probs, scores, strict=True)
            if log_prob != -math.inf
        ]
        n_missing = n_best - len(best)
        cut_off = [
            Hypothesis.read(written[1 : 1 + n], log_prob, alpha, ends=())
            for written, log_prob in zip(ids[:n_missing], log_probs[:n_missing], strict=True)
            if log_prob != -math.inf
        ]
        found[sentence] = best + cut_off
    return found


def until(ids: list[int], filler: int) -> list[int]:
    """What comes before the first filler."""
    return ids[: ids.index(filler)] if filler in ids else ids


def _extended(ids: Tensor, parents: Tensor, last: Tensor, n_written: Tensor) -> Tensor:
    """Of ids (B, K, T) the parents (B, N), with their last tokens (B, N) -> (B, N, T)."""
    grown = _pick(ids, parents)
    where = n_written[:, None, None].expand(-1, parents.shape[1], 1)
    return grown.scatter_(2, where, last.unsqueeze(2))


def _pick(ids: Tensor, which: Tensor) -> Tensor:
    """Of ids (B, N, T) the hypotheses (B, M) by index -> (B, M, T)."""
    return ids.gather(1, which.unsqueeze(2).expand(-1, -1, ids.shape[2]))
