"""The work of writing on after prompts, and our own way with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.bench.contest import Work
from regard.bench.matmul import DTYPES
from regard.decoding.continuing import Manner, continuations
from regard.fast.quick import quickened
from regard.models.decoder import LanguageModel
from regard.models.presets import n_parameters


@dataclass(frozen=True, slots=True)
class Continuing:
    """``batch`` prompts of ``n_prompt`` tokens, after each of which ``n_new`` are written."""

    model: LanguageModel
    batch: int
    n_prompt: int
    n_new: int
    device: torch.device

    def prompts(self) -> list[list[int]]:
        """Random ids, the same for everybody."""
        rng = torch.Generator().manual_seed(0)
        size = (self.batch, self.n_prompt)
        return torch.randint(0, self.model.config.n_vocab, size, generator=rng).tolist()

    def checked(self, lengths: list[int]) -> float:
        """Tokens that were written, if they are as many as were asked for."""
        if lengths != [self.n_new] * self.batch:
            raise AssertionError(f"{self.n_new} tokens a prompt were to be written: {lengths}")
        return float(self.batch * self.n_new)


def our_writing(writing: Continuing, precision: str) -> Work:
    """Greedy; no token ends a text."""
    dtype, prompts, rng = DTYPES[precision], writing.prompts(), torch.Generator()
    manner = Manner(max_new=writing.n_new, temperature=0.0)
    quick = quickened(writing.model, dtype)  # laid out once, as a run keeps it

    def run() -> float:
        found = continuations(quick, prompts, manner, rng=rng, device=writing.device)
        return writing.checked([len(one.ids) for one in found])

    return Work(run, n_parameters(writing.model))
