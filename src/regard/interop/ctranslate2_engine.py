"""Translations written by CTranslate2, with the weights, the limits and the scores of the run.

**What is guaranteed**, in float32. A hypothesis has the log-probability that the model gives it, to
1e-4, and our score: log-probability / ((5 + n) / 6)^α, where CTranslate2 has n^α. Greedy search
gives the same targets. Beam search follows the same hypotheses and ends by another rule: ours goes
on until nothing open can win, CTranslate2 until K have ended (where α is 0, until the most probable
one has). The best of those by our score is taken: with α = 0 it is the same, else it is the same or
scores less. Where the limit cuts off all that CTranslate2 ends with, they stay cut off; ours would
rather take a worse one that had ended.

Two rules of ours CTranslate2 does not know: each target has a limit of its own, and padding and the
begin token are never said. It searches without them, and the rare sentences that broke one are
searched again: so the rules cost nothing where they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import torch

from regard.core.errors import ConfigError
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodeSettings
from regard.interop.ctranslate2_cache import exported
from regard.interop.ctranslate2_model import n_positions
from regard.interop.ctranslate2_translator import Translator
from regard.models.base import SequenceModel
from regard.runs.kinds.translator import Run
from regard.runs.translation import DECODE_TOKENS, decode, limits_for
from regard.text.specials import BEGIN_ID, PAD_ID

Found = dict[int, list[Hypothesis]]
"""By the number of the sentence."""


@dataclass(frozen=True, slots=True)
class CTranslate2Engine:
    """Writes as ``regard.runs.translation.decode`` does."""

    translator: Translator
    model: SequenceModel
    """Writes what is too long for CTranslate2's table of positions."""
    device: torch.device

    @classmethod
    def of(cls, run: Run, compute_type: str = "float32") -> Self:
        """The engine of a run, which is exported first where that was not done before."""
        with exported(run) as folder:
            translator = Translator.load(folder, run.device, compute_type)
        return cls(translator, run.model, run.device)

    def __call__(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodeSettings,
        *,
        n_best: int = 1,
        batch_tokens: int = DECODE_TOKENS,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, in the order of the sources."""
        if n_best > settings.beam:
            raise ConfigError(
                f"n_best={n_best} is more than the beam={settings.beam} that is searched; "
                f"search {n_best} beams or ask for {settings.beam} hypotheses"
            )
        found = _Search(self, sources, settings, n_best, batch_tokens).all()
        return [_ranked(found[number])[:n_best] for number in range(len(sources))]


@dataclass(frozen=True, slots=True)
class _Search:
    """One call of the engine; sentences are known by their number."""

    engine: CTranslate2Engine
    sources: Sequence[Sequence[int]]
    settings: DecodeSettings
    n_best: int
    batch_tokens: int

    def all(self) -> Found:
        """Every sentence: together at first, then those again that broke a rule."""
        lengths = torch.tensor([len(source) + 1 for source in self.sources], dtype=torch.int64)
        limits = limits_for(self.engine.model, lengths, self.settings.max_len)
        fits = torch.maximum(lengths, limits) <= n_positions(self.engine.model.config)
        found = self._native((~fits).nonzero().flatten().tolist())
        short, limit_of = fits.nonzero().flatten().tolist(), limits.tolist()
        if short:
            found |= self._free(short, max(limit_of[i] for i in short))
        late = [i for i in short if _is_late(found[i], limit_of[i])]
        for limit, numbers in _by_limit(late, limit_of):
            found |= self._patient(numbers, limit)
        strayed = [i for i in short if any(map(_strays, found[i]))]
        for limit, numbers in _by_limit(strayed, limit_of):
            found |= self._patient(numbers, limit, silent=True)
        return found

    def _native(self, numbers: list[int]) -> Found:
        found = decode(
            self.engine.model,
            [self.sources[i] for i in numbers],
            self.settings,
            device=self.engine.device,
            n_best=self.n_best,
            batch_tokens=self.batch_tokens,
        )
        return dict(zip(numbers, found, strict=True))

    def _free(self, numbers: list[int], limit: int) -> Found:
        """As CTranslate2 would. Without a penalty its best are the best, else ours are sought."""
        settings = self.settings
        found = self.engine.translator.search(
            [self.sources[i] for i in numbers],
            settings,
            limit=limit,
            n_best=settings.beam if settings.length_penalty else self.n_best,
            batch_tokens=self.batch_tokens,
        )
        return dict(zip(numbers, found, strict=True))

    def _patient(self, numbers: list[int], limit: int, *, silent: bool = False) -> Found:
        """Under our rules; all is found: fewer than K have ended before the limit, K end there."""
        beam = self.settings.beam
        found = self.engine.translator.search(
            [self.sources[i] for i in numbers],
            self.settings,
            limit=limit,
            n_best=2 * beam if beam > 1 else 1,
            patience=2 if beam > 1 else 1,
            silent=silent,
            batch_tokens=self.batch_tokens,
        )
        if silent:
            alpha = self.settings.length_penalty
            judge = self.engine.translator.judged
            found = [
                judge(self.sources[i], hypotheses, alpha)
                for i, hypotheses in zip(numbers, found, strict=True)
            ]
        return dict(zip(numbers, found, strict=True))


def _by_limit(numbers: Iterable[int], limit_of: Sequence[int]) -> Iterable[tuple[int, list[int]]]:
    ordered = sorted(numbers, key=limit_of.__getitem__)
    return [(limit, list(group)) for limit, group in groupby(ordered, limit_of.__getitem__)]


def _is_late(hypotheses: Sequence[Hypothesis], limit: int) -> bool:
    """Whether the limit was passed, or has cut off some: then better ones may have been left out.

    Where it cut off all, those are taken: to search again would be dear, and hardly find another.
    """
    longest = max(len(one.ids) + one.finished for one in hypotheses)
    return longest > limit or len({one.finished for one in hypotheses}) == 2


def _strays(hypothesis: Hypothesis) -> bool:
    return PAD_ID in hypothesis.ids or BEGIN_ID in hypothesis.ids


def _ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Best first; what the limit cut off comes last."""
    return sorted(hypotheses, key=lambda one: (one.finished, one.score), reverse=True)
