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

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.observer import GreedyChoice, Observer, Step, only_given
from regard.decoding.protocol import Generator
from regard.decoding.search import Advanced, Search, advance, read, stops
from regard.decoding.settings import LENGTH_PENALTY
from regard.decoding.single import follow
from regard.decoding.static import can_stay
from regard.decoding.static_beam import static_beam_search
from regard.decoding.steps import checked_limits, next_best, next_log_probs
from regard.kernels.steps import Best


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
    free = observer is None and not prefix
    if n_beams == 1 and free:
        best = greedy(model, source, limits=limits, length_penalty=length_penalty)
        return [[hypothesis] for hypothesis in best]
    if free and can_stay(model, limits, n_beams):
        return static_beam_search(
            model, source, limits, n_beams=n_beams, n_best=n_best, alpha=length_penalty
        )
    if n_beams == 1:
        choose = GreedyChoice(len(source), prefix, observer)
        only = follow(model, source, limits=limits, choose=choose, length_penalty=length_penalty)
        return [[hypothesis] for hypothesis in only]
    search = Search.begin(limits, n_beams, n_best, length_penalty, room=int(limits.max()))
    found = _run(model, source, search, prefix, observer)
    return [found[sentence] for sentence in range(source.shape[0])]


@torch.inference_mode()
def _run(
    model: Generator,
    source: Tensor,
    search: Search,
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
    for t in range(int(search.limits.max())):
        logits, state = model.step(search.last, memory, state)
        later = advance(search, _best(logits, prefix, t, 2 * n_beams))
        if observer is not None:
            observer(_told(later))
        search, stopped = later.search, stops(later.search)
        stay = (~stopped).nonzero().squeeze(1)  # the one wait for the device in a usual step
        if len(stay) < len(stopped):
            found |= read(search.select(stopped.nonzero().squeeze(1)))
            if len(stay) == 0:
                break
            search = search.select(stay)
            memory = memory.select(_rows(stay, torch.arange(n_beams, device=stay.device)))
        state = state.select(_rows(stay, later.parents[stay]))
    return found


def _best(logits: Tensor, prefix: Sequence[int], t: int, n: int) -> Best:
    """The n most probable tokens of each row; only the given one as long as one is given."""
    if t >= len(prefix):
        return next_best(logits, n)
    log_probs = only_given(next_log_probs(logits), prefix, t)
    return Best(*log_probs.topk(min(n, log_probs.shape[1])))


def _told(later: Advanced) -> Step:
    """What an observer is told."""
    search, candidates, kept, _ = later
    kept = kept.masked_fill(search.open.log_prob == -torch.inf, -1)
    return Step(
        search.sentences,
        candidates.parents,
        candidates.ids,
        candidates.token_log_prob,
        candidates.log_prob,
        kept,
    )


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
