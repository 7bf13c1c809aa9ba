"""Beam search: the K best unfinished targets of each sentence are written on side by side.

At each step the K open hypotheses of a sentence have K·V continuations, of which the 2K most
probable are looked at. Those among the first K that end are finished; the K best that do not end
stay open (at most K of the 2K end, so K always remain). Finished hypotheses are ranked by
log-probability / ((5 + n) / 6)^α, where n counts the tokens with the end token, plus
β · Σ log min(1, attention that a source token got) (Wu et al. 2016), the coverage penalty.

**When a sentence stops.** No later than at its limit, and before that by one of two rules.

``exact``: as soon as no open hypothesis can win any more. Each further token can only lower a
log-probability, and the penalty of a longer target can only be greater, up to that of the limit; as
log-probabilities are negative and α ≥ 0, whatever comes of an open hypothesis scores at most
log-probability / ((5 + limit) / 6)^α. The sentence stops when ``n_best`` finished hypotheses are at
least as good as this bound for the most probable open one. Nothing is lost by it: going on to the
limit would give the same targets.

``first``, as CTranslate2 has it: as soon as K hypotheses have ended; without penalties, as soon as
the most probable one has, and ``n_best`` in all. It stops earlier, and may miss a better target.

Hypotheses that the limit cut off come after all finished ones, and only where these are too few.

One beam is greedy search: its target ends at its first end token, where a search that goes on
would try what greedy search had passed over.

An ``observer`` is called at every step and changes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.decoding.greedy import Dropped, Ended, collected, greedy, most_probable, token_steps
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import (
    TRANSLATOR,
    ControlIds,
    ForcedPrefixes,
    Generator,
    begin_tokens,
    checked_limits,
    next_best,
    next_log_probs,
    session_for,
)
from regard.decoding.search import BeamSettings, Candidates, Search, advance, expand, read, stops
from regard.decoding.settings import LENGTH_PENALTY, StopRule
from regard.decoding.static_search import can_stay, static_beam_search
from regard.decoding.wanted import check_wanted
from regard.kernels.steps import Best
from regard.text.specials import PAD_ID

LEAST = 1e-6
"""A source token that got no attention counts as if it had got so much: its logarithm is finite."""


class BeamStep(NamedTuple):
    """One step of the search for B sentences."""

    sentences: Tensor
    """(B,): their places in the batch that was asked for."""
    candidates: Candidates
    """Those that do not exist have a log-probability of -inf."""
    kept: Tensor
    """(B, K): the candidates that stay open, by index, in their new order; -1 where none does."""


Observer = Callable[[BeamStep], None]
Attention = Callable[[], Tensor]
"""What each row of the last step looked at, (N, S): weights of the source that sum to 1."""


def beam_search(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    n_beams: int,
    n_best: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    coverage_penalty: float = 0.0,
    attention: Attention | None = None,
    stop: StopRule = "exact",
    prompt: Tensor | None = None,
    control: ControlIds = TRANSLATOR,
    prefixes: Sequence[Sequence[int]] = (),
    ended: Ended | None = None,
    dropped: Dropped | None = None,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """For each source (B, S) its ``n_best`` hypotheses, best first.

    Each has at most ``limits`` (B,) tokens, end token included, and is written after its ``prompt``
    (B, P); None: after the begin token. There are fewer than ``n_best`` only where the vocabulary
    and the limit allow no more. A coverage penalty counts where ``attention`` says what was looked
    at. ``prefixes``, ``ended`` and ``dropped``: see ``token_steps``.
    """
    limits = checked_limits(source, limits)
    beta = coverage_penalty if attention is not None else 0.0
    settings = BeamSettings(n_beams, n_best, length_penalty, beta, stop, control)
    watched = observer is not None or ended is not None or dropped is not None
    free = not watched and not any(prefixes) and prompt is None and control == TRANSLATOR
    if free and n_beams == 1:
        best = greedy(model, source, limits=limits, length_penalty=length_penalty)
        return [[one] for one in best]
    if free and not beta and can_stay(model, limits, n_beams):
        return static_beam_search(model, source, limits, settings)
    if n_beams == 1:
        choose = most_probable if observer is None else GreedyObserver(control, source, observer)
        steps = token_steps(
            model, source, limits=limits, choose=choose, prompt=prompt, control=control,
            prefixes=prefixes, ended=ended, dropped=dropped,
        )  # fmt: skip
        return [[one] for one in collected(steps, len(source), control, length_penalty)]
    coverage = _Coverage(source, settings, attention) if attention is not None and beta else None
    options = _Options(
        settings, ForcedPrefixes.of(prefixes, source), ended, dropped, observer, coverage
    )
    prompt = begin_tokens(source) if prompt is None else prompt
    found = _run(model, source, prompt, limits, options)
    return [found[sentence] for sentence in range(source.shape[0])]


@dataclass(frozen=True, slots=True)
class _Options:
    """How the hypotheses of a search are continued, and who watches."""

    settings: BeamSettings
    forced: ForcedPrefixes
    ended: Ended | None
    dropped: Dropped | None
    observer: Observer | None
    coverage: _Coverage | None

    def best(self, logits: Tensor, sentences: Tensor, t: int) -> Best:
        """The most probable tokens of each row (B·K, V) of the sentences (B,)."""
        n, control = self.settings.n_candidates, self.settings.control
        if self.forced.are_over(t):
            return next_best(logits, n, control)
        rows = sentences.repeat_interleave(self.settings.n_beams)
        log_probs = self.forced.ruling(next_log_probs(logits, control), rows, t)
        return Best(*log_probs.topk(min(n, log_probs.shape[1])))

    def stopped(self, search: Search, candidates: Candidates) -> Tensor | None:
        """(B, C): the candidates that stop words end; None where there are no such words."""
        if self.ended is None:
            return None
        columns = (search.sentences, search.n_written, search.open.ids, *candidates[:2])
        rows = []
        for number, n, ids, *continued in zip(*(one.tolist() for one in columns), strict=True):
            texts = ([*ids[k][1 : 1 + n], token] for k, token in zip(*continued, strict=True))
            rows.append([self.ended(number, text) for text in texts])
        return torch.tensor(rows, device=search.sentences.device)


@torch.inference_mode()
def _run(
    model: Generator, source: Tensor, prompt: Tensor, limits: Tensor, options: _Options
) -> dict[int, list[Hypothesis]]:
    """Sentence -> its hypotheses.

    Memory and state have K rows a sentence once the prompt is read. Those of one sentence share one
    memory, so only the state has to follow the hypotheses; the memory changes when sentences leave.
    """
    coverage, K, longest = options.coverage, options.settings.n_beams, int(limits.max())
    search = Search.begin(limits, options.settings, longest + 1)
    found: dict[int, list[Hypothesis]] = {}
    with session_for(model, len(source) * K, prompt.shape[1], longest) as session:
        rows = search.sentences.repeat_interleave(K)
        logits = session.begin(source, prompt)[rows]
        session.select(rows)
        if coverage is not None:
            coverage.add()
            coverage.select(rows)
        for t in range(longest):
            check_wanted()
            candidates = expand(search, options.best(logits, search.sentences, t))
            added = None if coverage is None else coverage.penalty()
            stopped = options.stopped(search, candidates)
            search, kept, parents = advance(search, candidates, stopped=stopped, added=added)
            if options.observer is not None:
                kept = kept.masked_fill(search.open.log_prob == -torch.inf, -1)
                options.observer(BeamStep(search.sentences, candidates, kept))
            over = stops(search)
            if options.dropped is not None and options.dropped():
                over = torch.ones_like(over)
            stay = (~over).nonzero().squeeze(1)  # the one wait for the device in a usual step
            rows = (stay.unsqueeze(1) * K + parents[stay]).flatten()
            if len(stay) < len(over):
                found |= read(search.at(over.nonzero().squeeze(1)))
                if len(stay) == 0:
                    break
                search = search.at(stay)
                session.select(rows)
            else:
                session.reorder(rows)
            logits = session.step(search.last)
            if coverage is not None:
                coverage.select(rows)
                coverage.add()
    return found


class _Coverage:
    """How much attention each source token got from each open hypothesis."""

    def __init__(self, source: Tensor, settings: BeamSettings, attention: Attention) -> None:
        self.settings = settings
        self.attention = attention
        self.real = source != PAD_ID
        """(N, S)"""
        self.total = torch.zeros(self.real.shape, device=source.device)

    def add(self) -> None:
        """Add what each hypothesis looked at in the last step."""
        looked_at = self.attention()
        if looked_at.shape != self.real.shape:
            raise ConfigError(
                f"a coverage penalty needs attention to each of the {self.real.shape[1]} source "
                f"tokens, but the model looks at {looked_at.shape[1]} places; leave it out"
            )
        self.total = self.total + looked_at

    def penalty(self) -> Tensor:
        """β · Σ log min(1, total) (B, K)."""
        logs = self.total.clamp(LEAST, 1.0).log().masked_fill(~self.real, 0.0)
        penalties = self.settings.coverage_penalty * logs.sum(dim=1)
        return penalties.view(-1, self.settings.n_beams)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows."""
        self.total, self.real = self.total[rows], self.real[rows]


class GreedyObserver:
    """The greedy choice, shown to an observer: two candidates, of which one is kept."""

    def __init__(self, control: ControlIds, source: Tensor, observer: Observer) -> None:
        self.control = control
        self.observer = observer
        self.written = torch.zeros(len(source), dtype=torch.float64)  # log-probability so far

    def __call__(self, log_probs: Tensor, rows: Tensor, t: int) -> Tensor:
        """Log-probabilities (N, V) of rows (N,) of the batch -> ids (N,)."""
        first = most_probable(log_probs, rows, t).unsqueeze(1)
        second = log_probs.scatter(1, first, -torch.inf).argmax(dim=-1, keepdim=True)
        ids = torch.cat((first, second), dim=1)  # (N, 2)
        best, ids, sentences = log_probs.gather(1, ids).cpu(), ids.cpu(), rows.cpu()
        totals = self.written[sentences].unsqueeze(1) + best
        self.written[sentences] = totals[:, 0]
        kept = self.control.are_ends(ids[:, :1]).int().neg().long()
        candidates = Candidates(torch.zeros_like(ids), ids, best, totals)
        self.observer(BeamStep(sentences, candidates, kept))
        return first.squeeze(-1)
