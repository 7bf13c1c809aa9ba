"""How probable texts are for a language model, asked in text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.models.decoder import LanguageModel
from regard.runs.writing.framing import Framing
from regard.runs.writing.language_scores import (
    judged,
    judged_each,
    log_probs_after,
    shares,
    summed_up,
    word_perplexity,
)


@dataclass(frozen=True, slots=True)
class Judge:
    """A model, and how it reads texts."""

    model: LanguageModel
    framing: Framing
    device: torch.device

    def log_probs(self, texts: Sequence[str]) -> list[float]:
        """Of each text alone, its end included."""
        ids = [self.framing.scored([text]) for text in texts]
        found = judged_each(self.model, ids, device=self.device)
        return [float(one.log_probs.double().sum()) for one in found]

    def perplexity(self, texts: Sequence[str], stride: int | None) -> float:
        """Of all of them end to end; ``stride`` as ``language_scores.judged`` has it."""
        ids = self.framing.scored(texts)
        found = judged(self.model, ids, device=self.device, stride=stride)
        return float(summed_up(found)["perplexity"])

    def chances(self, prompt: str, options: Sequence[str]) -> list[float]:
        """Of each option, given that one of them follows."""
        before = self.framing.read(prompt)
        asked = [(before, self.framing.inside(option)) for option in options]
        return shares(log_probs_after(self.model, asked, device=self.device))

    def scores(self, texts: Sequence[str], stride: int | None) -> dict[str, Any]:
        """Of a corpus end to end.

        Perplexity a word is told where nothing is unknown: what is read as ``<unk>`` costs nothing.
        """
        ids = self.framing.laid(texts)
        found = judged(self.model, ids, device=self.device, stride=stride)
        scores = {"n": len(texts), **summed_up(found)}
        if stride is not None:
            scores["stride"] = stride
        unread = self.framing.tokenizer.marks.unread
        n_unknown = 0 if unread is None else int((ids[1:] == unread).sum())
        if n_unknown:
            return {**scores, "unknown": n_unknown}
        return {**scores, "word_perplexity": word_perplexity(found, texts)}
