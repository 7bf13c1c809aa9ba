"""Texts that a language model reads and generates: as ids, as text, and in pieces as they come.

Prompts of one length are read together, at once. What shares a batch changes no text: each prompt
has random numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple, TypedDict

import tokenizers
import torch
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.data.examples import Ids
from regard.data.language import laid, lines_go_on
from regard.data.settings import DataSettings
from regard.decoding.beam import beam_search
from regard.decoding.greedy import Dropped, Ended, token_steps
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import ControlIds, StaticSessions, no_source
from regard.decoding.protocol import Generator as Model
from regard.decoding.sampling import Sampler, check_sampling, noise_for, sample
from regard.decoding.settings import LENGTH_PENALTY, StopRule
from regard.fast.quick import quickened
from regard.models.decoder import LanguageModel
from regard.tasks.growing_text import TORN, GrowingText
from regard.text.pretrained import PretrainedTokenizer
from regard.text.tokenizer import Tokenizer

BREAK = "\n"
StopWords = str | Sequence[str]
"""Words before which a text ends."""
MOST_TEXTS = 10_000
"""After one prompt: all of them are in memory at once."""
MOST_ROWS = 256
"""Texts, or hypotheses of a beam, that are written at once."""
NONE = ControlIds(frozenset(), ())
"""No token ends a text, and any may be written."""


class Sampling(TypedDict, total=False):
    """How tokens are sampled; what is not given, as the recipe has it."""

    temperature: float | None
    top_k: int | None
    top_p: float | None


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
        return self.tokenizer.specials.end

    @property
    def end_ids(self) -> frozenset[int]:
        """What ends a text that is written."""
        marks = self.tokenizer.specials
        return frozenset() if self.lines else frozenset({marks.end, *marks.other_ends})

    @property
    def hidden_ids(self) -> tuple[int, ...]:
        """What is never written: all that is not text, unless it is the end as well."""
        marks = self.tokenizer.specials
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

    def growing(self, prompt: Sequence[int]) -> GrowingText:
        """``said_after`` the prompt, for ids that come one after another."""
        return GrowingText(self.say, prompt)

    def _lines(self, texts: Sequence[str]) -> list[str]:
        if not self.lines:
            return list(texts)
        return [line for text in texts for line in text.split(BREAK)]


def framing_for(tokenizer: Tokenizer, data: DataSettings) -> Framing:
    """As a run with such data has it. Foreign texts stand alone, and nothing closes them."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return Framing(tokenizer, _put_before(tokenizer), closed=False, lines=False)
    return Framing(tokenizer, (tokenizer.specials.end,), closed=True, lines=lines_go_on(data))


def _put_before(tokenizer: PretrainedTokenizer) -> tuple[int, ...]:
    """Special ids that a foreign tokenizer itself puts before a text, as its template says."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    found = inner.encode("a", add_special_tokens=True)
    marked = zip(found.ids, found.special_tokens_mask, strict=True)
    return tuple(number for number, _ in takewhile(lambda pair: pair[1] == 1, marked))


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """How to write on: by sampling, greedily with temperature 0, or by beam search."""

    max_new: int
    """Most tokens to write, the end included."""
    context: int | None = None
    """Most tokens that a model can read, prompt and all; None where any number will do."""
    control: ControlIds = NONE
    temperature: float = 1.0
    """Of sampling; a beam search draws nothing."""
    top_k: int | None = None
    top_p: float | None = None
    beam: int = 1
    length_penalty: float = LENGTH_PENALTY
    stop_rule: StopRule = "exact"

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_k, self.top_p)
        if self.max_new < 1:
            raise ConfigError(f"max_new must be at least 1: {self.max_new}")

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn at random."""
        return self.beam == 1 and self.temperature > 0

    def sampler(self, noise: Tensor) -> Sampler:
        """What chooses tokens, drawn by the noise."""
        return Sampler(noise, self.temperature, self.top_k, self.top_p)

    def limit(self, n_read: int) -> int:
        """Tokens that can be written after so many: the last one is never read."""
        if n_read < 1:
            raise DataError("there is nothing to go on from: a prompt needs at least one token")
        if self.context is None:
            return self.max_new
        if n_read > self.context:
            raise DataError(f"a prompt of {n_read} tokens, but the context holds {self.context}")
        return min(self.max_new, self.context - n_read + 1)


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    config: GenerationConfig,
    *,
    rng: torch.Generator,
    device: torch.device,
    n: int = 1,
    ended: Ended | None = None,
    dropped: Dropped | None = None,
) -> list[list[Hypothesis]]:
    """``n`` continuations of each prompt, in the order of the prompts; those of a beam best first.

    ``ended`` gets the number of a prompt and what was written after it. All stop where they are
    once they are ``dropped``.
    """
    each = 1 if config.beam > 1 else n
    rows = [ids for ids in prompts for _ in range(each)]
    limits = [config.limit(len(ids)) for ids in rows]
    noise = _noise(config, len(rows), rng)
    found: list[list[Hypothesis]] = [[] for _ in prompts]
    for group in _groups(model, rows, config):
        ids = torch.tensor([rows[i] for i in group], dtype=torch.long, device=device)
        limit = torch.full((len(group),), limits[group[0]], device=device)
        over = None if ended is None else partial(_ended, ended, [row // each for row in group])
        how: dict[str, Any] = {"prompt": ids, "limits": limit, "control": config.control}
        how |= {"length_penalty": config.length_penalty, "ended": over, "dropped": dropped}
        if config.beam > 1:
            how |= {"n_beams": config.beam, "n_best": n, "stop": config.stop_rule}
            texts = beam_search(model, no_source(ids), **how)
        else:
            sampler = config.sampler(noise[group].to(device))
            texts = [[one] for one in sample(model, no_source(ids), sampler=sampler, **how)]
        for row, several in zip(group, texts, strict=True):
            found[row // each] += several
    return found


def _ended(ended: Ended, numbers: Sequence[int], row: int, written: Sequence[int]) -> bool:
    """The same asked by the rows of a batch, which are those of these prompts."""
    return ended(numbers[row], written)


def stream(
    model: Model,
    prompt: Sequence[int],
    config: GenerationConfig,
    *,
    rng: torch.Generator,
    device: torch.device,
    dropped: Dropped | None = None,
) -> Iterator[int]:
    """The ids that are written after one prompt, each as it comes; an end token is the last."""
    if config.beam > 1:
        raise ConfigError("a beam search has no text before its end: leave out the beam to stream")
    limit = torch.tensor([config.limit(len(prompt))], device=device)
    ids = torch.tensor([list(prompt)], dtype=torch.long, device=device)
    sampler = config.sampler(_noise(config, 1, rng).to(device))
    for step in token_steps(
        model, no_source(ids), prompt=ids, limits=limit, control=config.control, choose=sampler,
        dropped=dropped,
    ):  # fmt: skip
        yield step.ids[0]


def _noise(config: GenerationConfig, n_rows: int, rng: torch.Generator) -> Tensor:
    """For each prompt as much as the shortest one could need: how long others are changes none."""
    return noise_for([config.limit(1)] * n_rows, rng) if config.draws else torch.zeros(n_rows, 1)


def _groups(
    model: Model, prompts: Sequence[Sequence[int]], config: GenerationConfig
) -> Iterator[list[int]]:
    """Numbers of prompts of one length, not too many at once."""
    by_length: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(row)
    for length, rows in by_length.items():
        most = MOST_ROWS
        if isinstance(model, StaticSessions):
            most = min(most, model.most_rows(length, config.limit(length)))
        most = max(1, most // config.beam)
        for begin in range(0, len(rows), most):
            yield rows[begin : begin + most]


class GeneratedText(NamedTuple):
    """What was written after a prompt."""

    text: str
    tokens: tuple[str, ...]
    finished: bool
    """False where a limit or the end of the context came before the end."""
    log_prob: float
    score: float
    """``log_prob`` over the length penalty: what a beam search ranks by."""
    ids: tuple[int, ...] = ()
    """Those of the tokens."""


@dataclass(frozen=True, slots=True)
class TextGenerator:
    """A language model, and how its ids are read and said."""

    model: LanguageModel
    framing: Framing
    device: torch.device
    dtype: torch.dtype | None = None
    """What to compute in; None: as the weights are."""
    fast: bool = True
    """Whether the model may be rewritten for it; else the plain layers are run."""

    @property
    def quick(self) -> Model:
        """The model made ready for generating; itself where somebody watches it."""
        return quickened(self.model, self.dtype, fast=self.fast)

    def texts(
        self,
        prompts: Sequence[Sequence[int]],
        config: GenerationConfig,
        *,
        rng: torch.Generator,
        n: int = 1,
        stop: StopWords = (),
        dropped: Dropped | None = None,
    ) -> list[list[GeneratedText]]:
        """``n`` texts for each prompt, or what there is of them once they are ``dropped``."""
        if not 1 <= n <= MOST_TEXTS:
            raise ConfigError(f"n must be at least 1 and at most {MOST_TEXTS:,}: {n}")
        stops = stop_words(stop)

        def stopped(row: int, ids: Sequence[int]) -> bool:
            return cut_at(self.framing.said_after(prompts[row], ids), stops)[1]

        found = generate(
            self.quick, prompts, config, rng=rng, device=self.device, n=n,
            ended=stopped if stops else None, dropped=dropped,
        )  # fmt: skip
        return [
            [self._text(prompt, one, stops) for one in several]
            for prompt, several in zip(prompts, found, strict=True)
        ]

    def _text(self, prompt: Sequence[int], one: Hypothesis, stops: Sequence[str]) -> GeneratedText:
        return GeneratedText(
            cut_at(self.framing.said_after(prompt, one.ids), stops)[0],
            tuple(self.framing.tokenizer.tokens(one.ids)),
            one.finished,
            one.log_prob,
            one.score,
            tuple(one.ids),
        )

    def coming(
        self,
        prompt: Sequence[int],
        config: GenerationConfig,
        *,
        rng: torch.Generator,
        dropped: Dropped | None = None,
    ) -> Iterator[int]:
        """The ids of one text as they come; an end token is the last."""
        return stream(self.quick, prompt, config, rng=rng, device=self.device, dropped=dropped)

    def pieces(
        self,
        prompt: Sequence[int],
        config: GenerationConfig,
        *,
        rng: torch.Generator,
        stop: StopWords = (),
        dropped: Dropped | None = None,
    ) -> Generator[str, None, bool]:
        """One text as it comes; what may still change is held back. -> whether it ended itself."""
        coming = self.coming(prompt, config, rng=rng, dropped=dropped)
        say = self.framing.growing(prompt)
        return (yield from text_pieces(coming, say, config.control.ends, stop_words(stop)))


def text_pieces(
    coming: Iterator[int],
    say: Callable[[Sequence[int]], str],
    ends: frozenset[int],
    stops: Sequence[str] = (),
) -> Generator[str, None, bool]:
    """The text of ids as they come, as ``say`` reads them; what may still change is held back.

    It ends before the first of the stops, or with an end token. -> whether it ended itself.
    """
    told, written, finished = "", list[int](), False
    for number in coming:
        if number in ends:
            finished = True
            break
        written.append(number)
        text, over = cut_at(say(written), stops)
        sure = text if over else certain(text, stops)
        if len(sure) > len(told):
            yield sure[len(told) :]
            told = sure
        if over:
            return True
    rest = say(written)[len(told) :]
    if rest:
        yield rest
    return finished


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


def stop_words(stop: StopWords) -> tuple[str, ...]:
    """All of them; an empty one is refused."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(stops):
        raise ConfigError("an empty stop would end every text at once; leave it out")
    return stops
