"""Writing on after the ids of prompts, and saying it in text."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from regard.core.errors import ConfigError
from regard.decoding.continuing import Dropped, Manner, continuations, steps
from regard.decoding.place import Continuer
from regard.fast.quick import quickened
from regard.models.decoder import LanguageModel
from regard.runs.writing.framing import Framing
from regard.runs.writing.pieces import certain, cut_at

Stop = str | Sequence[str]
"""Words before which a text ends."""
MOST_TEXTS = 10_000
"""After one prompt: all of them are in memory at once."""


class Written(NamedTuple):
    """What was written after a prompt."""

    text: str
    tokens: tuple[str, ...]
    finished: bool
    """False where a limit or the end of the context came before the end."""
    log_prob: float


@dataclass(frozen=True, slots=True)
class Pen:
    """A model, and how its ids are said."""

    model: LanguageModel
    framing: Framing
    device: torch.device
    dtype: torch.dtype | None = None
    """What to compute in; None: as the weights are."""
    fast: bool = True
    """Whether the model may be rewritten for it; else the plain layers are run."""

    @property
    def quick(self) -> Continuer:
        """The model made ready for writing; itself where somebody watches it."""
        return quickened(self.model, self.dtype, fast=self.fast)

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        manner: Manner,
        *,
        rng: torch.Generator,
        n: int = 1,
        stop: Stop = (),
        dropped: Dropped | None = None,
    ) -> list[list[Written]]:
        """``n`` texts for each prompt, or what there is of them once they are ``dropped``."""
        if not 1 <= n <= MOST_TEXTS:
            raise ConfigError(f"n must be at least 1 and at most {MOST_TEXTS:,}: {n}")
        stops = _stops(stop)
        rows = [ids for ids in prompts for _ in range(n)]

        def stopped(row: int, ids: Sequence[int]) -> bool:
            return cut_at(self.framing.said_after(rows[row], ids), stops)[1]

        ended = stopped if stops else None
        found = continuations(
            self.quick, rows, manner, rng=rng, device=self.device, ended=ended, dropped=dropped
        )
        texts = [
            Written(
                cut_at(self.framing.said_after(ids, one.ids), stops)[0],
                tuple(self.framing.tokenizer.tokens(one.ids)),
                one.finished,
                one.log_prob,
            )
            for ids, one in zip(rows, found, strict=True)
        ]
        return [texts[i : i + n] for i in range(0, len(texts), n)]

    def pieces(
        self,
        prompt: Sequence[int],
        manner: Manner,
        *,
        rng: torch.Generator,
        stop: Stop = (),
        dropped: Dropped | None = None,
    ) -> Generator[str, None, bool]:
        """One text as it comes; what may still change is held back. -> whether it ended itself."""
        stops, said, written, finished = _stops(stop), "", list[int](), False
        coming = steps(self.quick, [prompt], manner, rng=rng, device=self.device, dropped=dropped)
        for step in coming:
            if step.id in manner.end_ids:
                finished = True
                break
            written.append(step.id)
            text, over = cut_at(self.framing.said_after(prompt, written), stops)
            sure = text if over else certain(text, stops)
            if len(sure) > len(said):
                yield sure[len(said) :]
                said = sure
            if over:
                return True
        rest = self.framing.said_after(prompt, written)[len(said) :]
        if rest:
            yield rest
        return finished


def seeded(seed: int | None) -> torch.Generator:
    """Random numbers from a seed; others each time without one."""
    rng = torch.Generator()
    if seed is None:
        rng.seed()
    elif not 0 <= seed < 2**63:
        raise ConfigError(f"a seed must be from 0 to 2**63 - 1: {seed}")
    else:
        rng.manual_seed(seed)
    return rng


def _stops(stop: Stop) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(stops):
        raise ConfigError("an empty stop would end every text at once; leave it out")
    return stops
