"""Beam search: several beginnings are kept, and the best end wins.

A model tells how likely each token is after what was written: step(ids) is a list of
log-probabilities, one a token, for the tuple ids of the tokens so far (empty at first). A
hypothesis is a pair (ids, log-probability of ids). It is finished when its last token is eos; then
nothing is written behind it, but it keeps its place among the others.

    score(hypothesis, alpha)             log-probability / length ** alpha
    extend(hypotheses, step, eos)        the finished as they are, the others with each token
    beam_search(step, eos, n_beams, max_len, alpha)
                                         the hypothesis with the best score

The search starts from one empty hypothesis. At each step it extends, and keeps the n_beams best by
score; it ends when all of those are finished, or after max_len steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()

Hypothesis = tuple[tuple[int, ...], float]
Step = Callable[[tuple[int, ...]], list[float]]


@sheet.blank(
    "Logarithms of probabilities are negative, and each token makes them smaller: dividing by a "
    "power of the length makes up for it.",
    "ids, logp = hypothesis; logp / len(ids) ** alpha",
)
def score(hypothesis: Hypothesis, alpha: float) -> float:
    """log-probability / length ** alpha; the length counts every token, eos too."""
    ids, logp = hypothesis
    return logp / len(ids) ** alpha


@sheet.blank(
    "Is it finished? ids[-1:] == (eos,) is also right for an empty tuple.",
    "An open one gives len(step(ids)) new ones: (ids + (token,), logp + step(ids)[token]).",
)
def extend(hypotheses: list[Hypothesis], step: Step, eos: int) -> list[Hypothesis]:
    """All candidates of the next step, in any order."""
    candidates = []
    for ids, logp in hypotheses:
        if ids[-1:] == (eos,):
            candidates.append((ids, logp))
            continue
        for token, more in enumerate(step(ids)):
            candidates.append(((*ids, token), logp + more))
    return candidates


@sheet.blank(
    "Start with [((), 0.0)], and repeat at most max_len times.",
    "sorted(candidates, key=lambda one: score(one, alpha), reverse=True)[:n_beams]",
    "Stop early when every hypothesis that you kept ends with eos. The first of the sorted list is "
    "the answer.",
)
def beam_search(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    """The best hypothesis found: (ids, its log-probability, not divided)."""
    beams: list[Hypothesis] = [((), 0.0)]
    for _ in range(max_len):
        candidates = extend(beams, step, eos)
        beams = sorted(candidates, key=lambda one: score(one, alpha), reverse=True)[:n_beams]
        if all(ids[-1] == eos for ids, _ in beams):
            break
    return beams[0]


# ------------------------------------------------------------------ examples


class Table:
    """A model that looks at the last token alone: row i holds what follows token i."""

    def __init__(self, start: Sequence[float], rows: Sequence[Sequence[float]]) -> None:
        self.start, self.rows = start, rows

    def __call__(self, ids: tuple[int, ...]) -> list[float]:
        """Log-probabilities of each token after ``ids``."""
        row = self.rows[ids[-1]] if ids else self.start
        return [math.log(one) for one in row]

    def __repr__(self) -> str:
        after = ", ".join(f"after {i} {[*row]}" for i, row in enumerate(self.rows))
        return f"probabilities: at first {[*self.start]}, {after}"


_GREEDY_TRAP = Table([0.1, 0.5, 0.4], [[0.2, 0.4, 0.4], [0.34, 0.33, 0.33], [0.9, 0.05, 0.05]])
"""Token 0 is eos. The likeliest first token, 1, leads nowhere; 2 leads to a likely end."""
_SHORT = Table([0.3, 0.6, 0.1], [[0.2, 0.4, 0.4], [0.05, 0.9, 0.05], [0.4, 0.3, 0.3]])
"""eos at once is likely, a long sentence of 1 likelier by token."""
_EARLY_END = Table([0.4, 0.35, 0.25], [[0.1, 0.1, 0.8], [0.95, 0.03, 0.02], [0.05, 0.05, 0.9]])
"""A hypothesis is finished at the first step, and stays the best."""


@sheet.cases(score)
def _hypotheses() -> Iterator[Arguments]:
    yield {"hypothesis": ((1, 0), -2.0), "alpha": 1.0}
    yield {"hypothesis": ((1, 2, 0), -3.0), "alpha": 0.5}
    yield {"hypothesis": ((1, 2), -3.0), "alpha": 0.0}


@sheet.cases(extend)
def _beams() -> Iterator[Arguments]:
    yield {"hypotheses": [((), 0.0)], "step": _GREEDY_TRAP, "eos": 0}
    yield {"hypotheses": [((1,), -0.5), ((0,), -1.0)], "step": _GREEDY_TRAP, "eos": 0}
    yield {"hypotheses": [((2, 1), -1.5), ((2, 2), -2.0)], "step": _SHORT, "eos": 2}


@sheet.use(extend)
def _in_order(thing: Callable[..., object], **arguments: object) -> object:
    """Candidates in the order of their ids."""
    made = thing(**arguments)
    return sorted(made) if isinstance(made, list) else made


@sheet.cases(beam_search)
def _searches() -> Iterator[Arguments]:
    for table, n_beams, max_len, alpha in (
        (_GREEDY_TRAP, 1, 2, 0.0),
        (_GREEDY_TRAP, 2, 2, 0.0),
        (_EARLY_END, 2, 3, 0.0),
        (_SHORT, 2, 3, 0.0),
        (_SHORT, 3, 4, 1.0),
        (_GREEDY_TRAP, 81, 4, 0.0),
        (_SHORT, 81, 4, 1.0),
        (_EARLY_END, 81, 4, 0.5),
    ):
        yield {"step": table, "eos": 0, "n_beams": n_beams, "max_len": max_len, "alpha": alpha}


# ------------------------------------------------------------------ mistakes and laws


@sheet.mistake(
    score, "you multiply by the length: divide, so that long hypotheses are not punished"
)
def _multiplied(hypothesis: Hypothesis, alpha: float) -> float:
    return hypothesis[1] * len(hypothesis[0]) ** alpha


@sheet.mistake(score, "the length is not used: divide by length ** alpha")
def _without_length(hypothesis: Hypothesis, alpha: float) -> float:
    return hypothesis[1]


@sheet.mistake(score, "alpha is not used: divide by length ** alpha, not by the length")
def _without_alpha(hypothesis: Hypothesis, alpha: float) -> float:
    return hypothesis[1] / len(hypothesis[0])


@sheet.mistake(score, "you multiply the length by alpha: raise it to the power alpha")
def _times_alpha(hypothesis: Hypothesis, alpha: float) -> float:
    return hypothesis[1] / (len(hypothesis[0]) * alpha or 1)


@sheet.mistake(extend, "finished hypotheses are extended: nothing is written behind eos")
def _beyond_the_end(hypotheses: list[Hypothesis], step: Step, eos: int) -> list[Hypothesis]:
    return extend(hypotheses, step, eos=-1)


@sheet.mistake(extend, "finished hypotheses are lost: they stay among the candidates, as they are")
def _lost(hypotheses: list[Hypothesis], step: Step, eos: int) -> list[Hypothesis]:
    return extend([one for one in hypotheses if one[0][-1:] != (eos,)], step, eos)


@sheet.mistake(
    extend, "you keep the last log-probability alone: add it to that of what was written before"
)
def _not_summed(hypotheses: list[Hypothesis], step: Step, eos: int) -> list[Hypothesis]:
    ended = [one for one in hypotheses if one[0][-1:] == (eos,)]
    return ended + extend([(ids, 0.0) for ids, _ in hypotheses if ids[-1:] != (eos,)], step, eos)


@sheet.mistake(extend, "you multiply logarithms: log-probabilities are added")
def _product(hypotheses: list[Hypothesis], step: Step, eos: int) -> list[Hypothesis]:
    ended = [one for one in hypotheses if one[0][-1:] == (eos,)]
    return ended + [
        ((*ids, token), logp * more)
        for ids, logp in hypotheses
        if ids[-1:] != (eos,)
        for token, more in enumerate(step(ids))
    ]


def _search(
    step: Step,
    eos: int,
    n_beams: int,
    max_len: int,
    kept_by: Callable[[Hypothesis], float],
    extended: Callable[[list[Hypothesis], Step, int], list[Hypothesis]] = extend,
) -> list[Hypothesis]:
    """The last beams of a search that keeps the best by a score of one's own."""
    beams: list[Hypothesis] = [((), 0.0)]
    for _ in range(max_len):
        beams = sorted(extended(beams, step, eos), key=kept_by, reverse=True)[:n_beams]
        if all(ids[-1] == eos for ids, _ in beams):
            break
    return beams


@sheet.mistake(beam_search, "you keep one hypothesis (a greedy search): keep n_beams of them")
def _greedy(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    return beam_search(step, eos, 1, max_len, alpha)


@sheet.mistake(
    beam_search, "the length is not used when you choose: keep and choose by score(…, alpha)"
)
def _no_length(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    return beam_search(step, eos, n_beams, max_len, 0.0)


@sheet.mistake(
    beam_search, "you return the score: the log-probability itself is asked for, not divided"
)
def _returns_score(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    found = beam_search(step, eos, n_beams, max_len, alpha)
    return found[0], score(found, alpha)


@sheet.mistake(beam_search, "you keep the worst hypotheses: sort with the highest score first")
def _worst(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    return _search(step, eos, n_beams, max_len, lambda one: -score(one, alpha))[0]


@sheet.mistake(
    beam_search,
    "a sentence goes on behind eos: extend(…) leaves finished hypotheses as they are",
)
def _goes_on(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    beams = _search(step, -1, n_beams, max_len, lambda one: score(one, alpha))
    return beams[0]


@sheet.mistake(
    beam_search,
    "finished hypotheses are lost: they stay in the beam and compete with the open ones",
)
def _drops_finished(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    def extended(beams: list[Hypothesis], step: Step, eos: int) -> list[Hypothesis]:
        return _lost(beams, step, eos) or beams

    return _search(step, eos, n_beams, max_len, lambda one: score(one, alpha), extended)[0]


@sheet.mistake(
    beam_search,
    "you stop as soon as one hypothesis is finished: another may still become better; stop when "
    "all are",
)
def _stops_at_first(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    beams: list[Hypothesis] = [((), 0.0)]
    for _ in range(max_len):
        candidates = extend(beams, step, eos)
        beams = sorted(candidates, key=lambda one: score(one, alpha), reverse=True)[:n_beams]
        if any(ids[-1] == eos for ids, _ in beams):
            break
    return next((one for one in beams if one[0][-1] == eos), beams[0])


@sheet.mistake(beam_search, "you take one step too few: max_len tokens may be written")
def _one_step_less(step: Step, eos: int, n_beams: int, max_len: int, alpha: float) -> Hypothesis:
    return beam_search(step, eos, n_beams, max_len - 1, alpha)


@sheet.law(beam_search)
def _is_the_best_of_all(
    result: Hypothesis, step: Step, eos: int, n_beams: int, max_len: int, alpha: float
) -> str | None:
    """Where the beam holds everything, it must find what trying everything finds."""
    n_vocab = len(step(()))
    if n_beams < n_vocab**max_len:
        return None
    best = max(_everything(step, eos, n_vocab, max_len), key=lambda one: score(one, alpha))
    if tuple(result[0]) == best[0]:
        return None
    return (
        f"so wide a beam keeps everything, and among everything {[*best[0]]} is the best, with "
        f"the score {score(best, alpha):.4f}: you found {[*result[0]]}"
    )


def _everything(step: Step, eos: int, n_vocab: int, max_len: int) -> Iterator[Hypothesis]:
    """All sequences that end with eos, or are as long as may be."""
    for length in range(1, max_len + 1):
        for ids in itertools.product(range(n_vocab), repeat=length):
            ends = ids[-1] == eos or length == max_len
            if ends and eos not in ids[:-1]:
                yield ids, sum(step(ids[:t])[token] for t, token in enumerate(ids))
