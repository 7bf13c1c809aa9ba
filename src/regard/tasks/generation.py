"""How a language model goes on: ids around texts, and the writing itself."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import tokenizers
import torch

from regard.core.errors import ConfigError
from regard.data.examples import Ids
from regard.data.language_texts import lines_go_on
from regard.data.language_windows import laid
from regard.data.settings import DataSettings
from regard.decoding.continuing import Dropped, Manner, continuations, steps
from regard.decoding.place import Continuer
from regard.fast.quick import quickened
from regard.models.decoder import LanguageModel
from regard.text.pretrained import PretrainedTokenizer
from regard.text.tokenizer import Tokenizer

BREAK = "\n"


@dataclass(frozen=True, slots=True)
class Framing:
    """A tokenizer, and the ids around texts."""

    tokenizer: Tokenizer
    opening: tuple[int, ...]
    """Before the first text: the end of another, or what a foreign tokenizer puts there."""
    closed: bool
    """Whether a text that is scored ends with the end token."""
    lines: bool
    """Whether the end token is a line break, after which the text goes on."""

    @property
    def end(self) -> int:
        """The end token."""
        return self.tokenizer.marks.end

    @property
    def end_ids(self) -> frozenset[int]:
        """What ends a text that is written."""
        marks = self.tokenizer.marks
        return frozenset() if self.lines else frozenset({marks.end, *marks.other_ends})

    @property
    def hidden_ids(self) -> tuple[int, ...]:
        """What is never written: all that is no text, unless it is the end as well."""
        marks = self.tokenizer.marks
        silent = {marks.pad, marks.begin, marks.unknown} - {None, marks.end, *marks.other_ends}
        return tuple(sorted(number for number in silent if number is not None))

    def laid(self, texts: Sequence[str]) -> Ids:
        """Texts of a corpus end to end, as they are learned."""
        return laid(texts, self.tokenizer, opening=self.opening)

    def scored(self, texts: Sequence[str]) -> Ids:
        """Texts end to end, as they are scored."""
        return laid(self._lines(texts), self.tokenizer, opening=self.opening, closed=self.closed)

    def read(self, prompt: str) -> list[int]:
        """A text to go on from; at least one id."""
        ids = laid(self._lines([prompt]), self.tokenizer, opening=self.opening, closed=False)
        return ids.tolist() or [self.end]

    def inside(self, text: str) -> list[int]:
        """What follows a prompt: nothing is added."""
        return laid(self._lines([text]), self.tokenizer, opening=(), closed=False).tolist()

    def say(self, ids: Iterable[int]) -> str:
        """Ids to text; where lines go on, an end is a line break."""
        if not self.lines:
            return self.tokenizer.decode(ids)
        parts: list[list[int]] = [[]]
        for number in ids:
            if number == self.end:
                parts.append([])
            else:
                parts[-1].append(number)
        return BREAK.join(map(self.tokenizer.decode, parts))

    def said_after(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """What ids say after a prompt, with the space that may belong between them."""
        before, whole = self.say(prompt), self.say([*prompt, *ids])
        return whole[len(before) :] if whole.startswith(before) else self.say(ids)

    def _lines(self, texts: Sequence[str]) -> list[str]:
        if not self.lines:
            return list(texts)
        return [line for text in texts for line in text.split(BREAK)]


def framing_for(tokenizer: Tokenizer, data: DataSettings) -> Framing:
    """As a run with such data has it. Foreign texts stand alone, and nothing closes them."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return Framing(tokenizer, _put_before(tokenizer), closed=False, lines=False)
    return Framing(tokenizer, (tokenizer.marks.end,), closed=True, lines=lines_go_on(data))


def _put_before(tokenizer: PretrainedTokenizer) -> tuple[int, ...]:
    """Special ids that a foreign tokenizer itself puts before a text, as its template says."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    found = inner.encode("a", add_special_tokens=True)
    marked = zip(found.ids, found.special_tokens_mask, strict=True)
    return tuple(number for number, _ in takewhile(lambda pair: pair[1] == 1, marked))


TORN = "\ufffd"
"""How bytes of a character are shown that is not complete."""


def cut_at(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text before the first of the stops, and whether there is one.

    >>> cut_at("one. two; three", [";", "."])
    ('one', True)
    """
    found = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    return (text[: min(found)], True) if found else (text, False)


def certain(text: str, stops: Sequence[str]) -> str:
    """The beginning of a text that nothing which follows can change.

    A torn character may be completed, and the beginning of a stop may become one.

    >>> certain("so <en", ["<end>"]), certain("caf\ufffd", [])
    ('so ', 'caf')
    """
    text = text.rstrip(TORN)
    held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
    return text[: len(text) - max(held, default=0)]


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
