"""Beam search: the K best unfinished targets of each sentence are written on side by side.

At each step the K open hypotheses of a sentence have K·V continuations, of which the 2K most
probable are looked at. Those among the first K that end are finished; the K best that do not end
stay open (at most K of the 2K end, so K always remain). Finished hypotheses are ranked by
log-probability / ((5 + n) / 6)^α, where n counts the tokens with the end token.

**When a sentence stops.** No later than at its limit, and before that as soon as no open hypothesis
can win any more. Each further token can only lower a log-probability, and the penalty of a longer
target can only be greater, up to that of the limit; as log-probabilities are negative and α ≥ 0,
whatever comes of an open hypothesis scores at most log-probability / ((5 + limit) / 6)^α. The
sentence stops when ``n_best`` finished hypotheses are at least as good as this bound for the most
probable open one. Nothing is lost by it: going on to the limit would give the same targets.

Hypotheses that the limit cut off come after all finished ones, and only where these are too few.

One beam is greedy search: its target ends at its first end token, where a search that goes on
would try what greedy search had passed over.

Who wants to see how it went hands over an ``observer``: it is told every step and changes none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import ConfigError
from regard.decoding.hypothesis import Hypothesis, penalty
from regard.decoding.observer import GreedyChoice, Observer, Step, only_given
from regard.decoding.protocol import Generator
from regard.decoding.settings import LENGTH_PENALTY
from regard.decoding.single import follow
from regard.decoding.steps import checked_limits, next_log_probs
from regard.text.specials import BEGIN_ID, END_ID


def beam_search(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    n_beams: int,
    n_best: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    prefix: Sequence[int] = (),
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence (B, S) its ``n_best`` hypotheses, best first.

    Each has at most ``limits`` (B,) tokens, end token included. There are fewer than ``n_best``
    only where the vocabulary and the limit allow no more. All begin with the ids of ``prefix``.
    """
    _check(n_beams, n_best, length_penalty)
    limits = checked_limits(source, limits)
    if n_beams == 1:
        choose = GreedyChoice(len(source), prefix, observer)
        only = follow(model, source, limits=limits, choose=choose, length_penalty=length_penalty)
        return [[hypothesis] for hypothesis in only]
    search = _begin(limits, n_beams, n_best, length_penalty)
    found = _run(model, source, search, prefix, observer)
    return [found[sentence] for sentence in range(source.shape[0])]


@dataclass(frozen=True, slots=True)
class _Open:
    """The K hypotheses of each sentence that go on, most probable first."""

    ids: Tensor
    """(B, K, 1 + t), begin token first."""
    log_prob: Tensor
    """(B, K); -inf where fewer than K targets exist."""

    def select(self, rows: Tensor) -> Self:
        """Some of the sentences, by index."""
        return type(self)(self.ids[rows], self.log_prob[rows])


@dataclass(frozen=True, slots=True)
class _Finished:
    """The M best finished hypotheses of each sentence so far, best first."""

    ids: Tensor
    """(B, M, 1 + t), begin token first, filled up with end tokens."""
    log_prob: Tensor
    """(B, M); -inf where fewer than M have finished."""
    score: Tensor
    """(B, M)."""

    def select(self, rows: Tensor) -> Self:
        """Some of the sentences, by index."""
        return type(self)(self.ids[rows], self.log_prob[rows], self.score[rows])


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The 2K most probable continuations of each sentence, best first."""

    parents: Tensor
    """(B, 2K): the open hypothesis that each continues, 0 … K-1."""
    ids: Tensor
    """(B, 2K): by which token."""
    log_prob: Tensor
    """(B, 2K): of the whole."""


@dataclass(frozen=True, slots=True)
class _Search:
    """Everything known about the B sentences that are still searched."""

    sentences: Tensor
    """(B,): their places in the batch that was asked for."""
    limits: Tensor
    """(B,)."""
    open: _Open
    finished: _Finished
    alpha: float

    def select(self, rows: Tensor) -> Self:
        """Some of the sentences, by index."""
        return type(self)(
            self.sentences[rows],
            self.limits[rows],
            self.open.select(rows),
            self.finished.select(rows),
            self.alpha,
        )


@torch.inference_mode()
def _run(
    model: Generator,
    source: Tensor,
    search: _Search,
    prefix: Sequence[int],
    observer: Observer | None,
) -> dict[int, list[Hypothesis]]:
    """Sentence -> its hypotheses.

    Memory and state have K rows a sentence. Those of one sentence share one memory, so only the
    state has to follow the hypotheses; the memory changes when sentences leave.
    """
    n_beams = search.open.log_prob.shape[1]
    memory = model.encode(source)
    state = model.start(memory)
    rows = search.sentences.repeat_interleave(n_beams)
    memory, state = memory.select(rows), state.select(rows)
    found: dict[int, list[Hypothesis]] = {}
    while True:
        logits, state = model.step(search.open.ids[:, :, -1].flatten(), memory, state)
        log_probs = only_given(next_log_probs(logits), prefix, search.open.ids.shape[2] - 1)
        search, parents = _advance(search, log_probs, observer)
        stops = _stops(search)
        stay = (~stops).nonzero().squeeze(1)  # the one wait for the device in a usual step
        if len(stay) < len(stops):
            found |= _read(search.select(stops.nonzero().squeeze(1)))
            if len(stay) == 0:
                return found
            search = search.select(stay)
            memory = memory.select(_rows(stay, torch.arange(n_beams, device=stay.device)))
        state = state.select(_rows(stay, parents[stay]))


def _begin(limits: Tensor, n_beams: int, n_best: int, alpha: float) -> _Search:
    """One open hypothesis a sentence, the begin token; the other beams are still empty."""
    B = len(limits)
    ids = torch.full((B, n_beams, 1), BEGIN_ID, device=limits.device)
    none = torch.full((B, n_beams), -torch.inf, device=limits.device)
    log_prob = none.clone()
    log_prob[:, 0] = 0.0
    finished = _Finished(ids[:, :n_best], none[:, :n_best], none[:, :n_best])
    sentences = torch.arange(B, device=limits.device)
    return _Search(sentences, limits, _Open(ids, log_prob), finished, alpha)


def _advance(
    search: _Search, log_probs: Tensor, observer: Observer | None
) -> tuple[_Search, Tensor]:
    """The search one token later, given log-probabilities (B·K, V); and the parents (B, K)."""
    candidates = _expand(search.open, log_probs)
    finished = _collect(search.finished, search.open, candidates, search.alpha)
    live, parents, kept = _survivors(search.open, candidates)
    if observer is not None:
        kept = kept.masked_fill(live.log_prob == -torch.inf, -1)
        observer(_step(search, candidates, kept, log_probs))
    return replace(search, open=live, finished=finished), parents


def _step(search: _Search, candidates: _Candidates, kept: Tensor, log_probs: Tensor) -> Step:
    """What an observer is told of the candidates, of which ``kept`` (B, K) stay open."""
    place = candidates.parents * log_probs.shape[1] + candidates.ids
    token = log_probs.reshape(len(place), -1).gather(1, place)
    return Step(
        search.sentences, candidates.parents, candidates.ids, token, candidates.log_prob, kept
    )


def _expand(live: _Open, log_probs: Tensor) -> _Candidates:
    B, K = live.log_prob.shape
    totals = live.log_prob.unsqueeze(2) + log_probs.view(B, K, -1)  # (B, K, V)
    # V counts at least padding, begin and end, so there are always 2K.
    log_prob, best = totals.flatten(1).topk(2 * K)  # (B, 2K)
    V = totals.shape[2]
    return _Candidates(best // V, best % V, log_prob)


def _collect(finished: _Finished, live: _Open, candidates: _Candidates, alpha: float) -> _Finished:
    """Enter those of the first K candidates that end, and keep the M best."""
    K, M = live.log_prob.shape[1], finished.score.shape[1]
    ends = candidates.ids[:, :K] == END_ID
    log_prob = candidates.log_prob[:, :K].masked_fill(~ends, -torch.inf)
    n = live.ids.shape[2]  # begin stands where end is added
    score = torch.cat((finished.score, log_prob / penalty(n, alpha)), dim=1)
    score, best = score.topk(M)
    log_prob = torch.cat((finished.log_prob, log_prob), dim=1).gather(1, best)
    ids = torch.cat((finished.ids, _pick(live.ids, candidates.parents[:, :K])), dim=1)
    return _Finished(F.pad(_pick(ids, best), (0, 1), value=END_ID), log_prob, score)


def _survivors(live: _Open, candidates: _Candidates) -> tuple[_Open, Tensor, Tensor]:
    """The K best candidates that do not end, their parents (B, K) and their indices (B, K)."""
    going_on = candidates.log_prob.masked_fill(candidates.ids == END_ID, -torch.inf)
    log_prob, best = going_on.topk(live.log_prob.shape[1])
    parents = candidates.parents.gather(1, best)
    last = candidates.ids.gather(1, best).unsqueeze(2)  # (B, K, 1)
    ids = torch.cat((_pick(live.ids, parents), last), dim=2)
    return _Open(ids, log_prob), parents, best


def _stops(search: _Search) -> Tensor:
    """(B,): True at the limit, and where no open hypothesis can win (see the top of this file)."""
    most = search.open.log_prob[:, 0]
    bound = most / penalty(search.limits.to(most.dtype), search.alpha)
    n_written = search.open.ids.shape[2] - 1
    return (search.finished.score[:, -1] >= bound) | (search.limits <= n_written)


def _read(stopped: _Search) -> dict[int, list[Hypothesis]]:
    """Sentence -> its hypotheses; the open ones fill up where too few have finished."""
    n_best = stopped.finished.score.shape[1]
    finished = _ranked(stopped.finished, stopped.alpha)
    cut_off = _ranked(stopped.open, stopped.alpha)
    best = [(done + cut)[:n_best] for done, cut in zip(finished, cut_off, strict=True)]
    return dict(zip(stopped.sentences.tolist(), best, strict=True))


def _ranked(part: _Open | _Finished, alpha: float) -> list[list[Hypothesis]]:
    """For each sentence the hypotheses that exist, best first."""
    ranked = []
    for ids, log_probs in zip(part.ids.tolist(), part.log_prob.tolist(), strict=True):
        pairs = zip(ids, log_probs, strict=True)
        real = [Hypothesis.read(written[1:], p, alpha) for written, p in pairs if p != -math.inf]
        ranked.append(sorted(real, key=lambda hypothesis: hypothesis.score, reverse=True))
    return ranked


def _pick(ids: Tensor, which: Tensor) -> Tensor:
    """Of ids (B, N, T) the hypotheses (B, M) by index -> (B, M, T)."""
    return ids.gather(1, which.unsqueeze(2).expand(-1, -1, ids.shape[2]))


def _rows(sentences: Tensor, beams: Tensor) -> Tensor:
    """Sentences (B,) and beams (B, K) or (K,) -> rows of memory or state (B·K,)."""
    return (sentences.unsqueeze(1) * beams.shape[-1] + beams).flatten()


def _check(n_beams: int, n_best: int, length_penalty: float) -> None:
    problems = []
    if n_beams < 1:
        problems.append(f"n_beams must be at least 1 (1 is greedy), got {n_beams}")
    if n_best < 1:
        problems.append(f"n_best must be at least 1, got {n_best}")
    if n_best > n_beams:
        problems.append(
            f"n_best={n_best} is more than the n_beams={n_beams} that are searched; "
            f"search {n_best} beams or ask for {n_beams} hypotheses"
        )
    if not 0 <= length_penalty < math.inf:
        problems.append(f"length_penalty must be at least 0 and finite, got {length_penalty}")
    if problems:
        raise ConfigError("; ".join(problems))
