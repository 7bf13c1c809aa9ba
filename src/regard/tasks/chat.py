"""Conversations with a language model that brings a template for them along."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import read_text
from regard.core.registry import did_you_mean
from regard.decoding.protocol import ControlIds
from regard.tasks.generation import (
    GenerationConfig,
    StopWords,
    TextGenerator,
    certain,
    text_pieces,
)
from regard.text.chat import MOST_TEMPLATE, TEMPLATE, ChatReader, ChatTemplate, Message
from regard.text.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant")

Truncate = Literal["left"] | None
"""What to do with what is longer than the context: cut its beginning off, or refuse it.

Of a conversation the oldest turns are dropped."""
NAMES = {"begin": "bos_token", "end": "eos_token", "unknown": "unk_token", "pad": "pad_token"}
"""What templates call special tokens."""
_SAID = "\ufdd1"
"""Stands for an answer; no template writes it by itself."""


@dataclass(frozen=True, slots=True)
class ChatPrompts:
    """Writes conversations down for one model."""

    template: ChatTemplate
    reader: ChatReader
    context: int
    """Tokens that the model can read."""

    def ids(self, messages: Sequence[Message]) -> list[int]:
        """The conversation up to where the model's turn begins.

        Special tokens of the template are ids; in the messages they are text.
        """
        _check(messages)
        safe = [{**one, "content": self.reader.guarded(one["content"])} for one in messages]
        return self.reader.read(self.template.render(safe))

    def fitting(
        self, messages: Sequence[Message], *, max_new: int, truncate: Truncate = None
    ) -> list[int]:
        """As ``ids``, such that the context holds them.

        Where the oldest turns are dropped, room is made for ``max_new`` tokens, but at least half
        of the context is kept. What the system was told stays.
        """
        check_truncate(truncate)
        ids = self.ids(messages)
        if len(ids) <= self.context:
            return ids
        if truncate is None:
            remedy = "shorten it, or drop its oldest turns (--truncate left, truncate='left')"
            raise DataError(self._too_long("conversation", len(ids), remedy))
        room = max(self.context // 2, self.context + 1 - max_new)
        ids = self._first_within(room, list(_shortened(messages)), ids)
        if len(ids) > self.context:
            raise DataError(self._too_long("last turn alone", len(ids), "shorten it"))
        return ids

    def _first_within(
        self, room: int, shorter: Sequence[Sequence[Message]], whole: list[int]
    ) -> list[int]:
        """The ids of the first of ever shorter conversations that fits, or of the last.

        Found by halving: to write down every one would take the square of their number.
        """
        low, high, ids = 0, len(shorter) - 1, whole
        while low <= high:
            middle = (low + high) // 2
            tried = self.ids(shorter[middle])
            if len(tried) <= room:
                high, ids = middle - 1, tried
            else:
                low = middle + 1
        return self.ids(shorter[-1]) if shorter and len(ids) > room else ids

    def end_of_turn(self) -> int | None:
        """The token that the template writes after what the model says."""
        asked = {"role": "user", "content": "?"}
        try:
            text = self.template.render(
                [asked, {"role": "assistant", "content": _SAID}], answer=False
            )
        except (CheckpointError, DataError):  # it wants another kind of conversation
            return None
        return self.reader.first_special(text.partition(_SAID)[2])

    def _too_long(self, what: str, n: int, remedy: str) -> str:
        return (
            f"the {what} has {n:,} tokens, but the model's context holds {self.context:,}; {remedy}"
        )


def ended_by(config: GenerationConfig, end: int | None) -> GenerationConfig:
    """The same config, ended by one more token, such as that of the end of a turn."""
    if end is None:
        return config
    ends = config.control.ends | {end}
    rest = tuple(number for number in config.control.suppressed if number not in ends)
    return replace(config, control=ControlIds(ends, rest))


def check_truncate(truncate: Truncate) -> None:
    """Refuse what is no way of cutting."""
    if truncate not in ("left", None):
        hint = did_you_mean(str(truncate), ["left"])
        raise ConfigError(f"truncate={truncate!r}{hint}: expected 'left' or None")


def has_template(folder: Path) -> bool:
    """Whether the run in a folder was made for conversations."""
    return (folder / TEMPLATE).exists()


def load_prompts(folder: Path, tokenizer: Tokenizer, context: int) -> ChatPrompts:
    """With the template of a run folder."""
    path = folder / TEMPLATE
    if not path.exists():
        raise ConfigError(
            f"{folder} has no {TEMPLATE}, so its model is not made for conversations; use "
            "`regard generate` with it"
        )
    source = read_text(path, MOST_TEMPLATE)
    spelled = {number: token for token, number in tokenizer.special_ids.items()}
    marks = tokenizer.specials.named()
    special = {NAMES[mark]: spelled[number] for mark, number in marks.items() if mark in NAMES}
    template = ChatTemplate(source, special, where=str(path))
    return ChatPrompts(template, ChatReader(tokenizer), context)


def _check(messages: Sequence[Any]) -> None:
    """Refuse what is no conversation."""
    if not messages:
        raise DataError("expected a conversation, but found no message; say something")
    for number, message in enumerate(messages, start=1):
        found = message if isinstance(message, Mapping) else {}
        if found.get("role") not in ROLES or not isinstance(found.get("content"), str):
            raise DataError(
                f"message {number}: expected a 'role' ({', '.join(ROLES)}) and a text as "
                f"'content', but found {message!r:.60}"
            )


def _shortened(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The same conversation with ever more of its oldest turns left out."""
    while messages := _later(messages):
        yield list(messages)


def _later(messages: Sequence[Message]) -> list[Message]:
    """Without the oldest turn and its answer; empty where only the last turn is left."""
    begin = 0
    while begin < len(messages) and messages[begin]["role"] == "system":
        begin += 1
    for number in range(begin + 1, len(messages)):
        if messages[number]["role"] == "user":
            return [*messages[:begin], *messages[number:]]
    return []


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A turn of the model's, as it was written."""

    text: str
    finished: bool
    """Whether it came to its end, rather than to a limit."""
    ids: tuple[int, ...]
    """Its tokens, an end token left out."""
    pieces: tuple[str, ...]
    """The part of the text that each token adds; of a torn character, nothing."""


def answered(
    prompt: Sequence[int], generator: TextGenerator, config: GenerationConfig, **how: Any
) -> Generator[str, None, ChatAnswer]:
    """A turn in pieces as they come, and then whole; ``how`` as ``TextGenerator.coming``."""
    ids: list[int] = []

    def noted() -> Iterator[int]:
        for number in generator.coming(prompt, config, **how):
            if number not in config.control.ends:
                ids.append(number)
            yield number

    framing = generator.framing
    finished = yield from text_pieces(noted(), framing.growing(prompt), config.control.ends)
    told, pieces, say = "", [], framing.growing(prompt)
    for n in range(1, len(ids) + 1):
        sure = certain(say(ids[:n]), ()) if n < len(ids) else say(ids)
        pieces.append(sure[len(told) :])
        told = sure if len(sure) > len(told) else told
    return ChatAnswer(told, finished, tuple(ids), tuple(pieces))


@dataclass(slots=True)
class Conversation:
    """Turns so far, and a model to go on with."""

    prompts: ChatPrompts
    generator: TextGenerator
    config: GenerationConfig
    rng: torch.Generator
    stop: StopWords = ()
    truncate: Truncate = None
    messages: list[Message] = field(default_factory=list)
    """``role`` and ``content`` of each turn."""
    finished: bool = False
    """Whether the last answer came to its end, rather than to a limit."""

    def say(self, words: str) -> str:
        """A turn of the user's -> the model's."""
        return "".join(self.stream(words))

    def stream(self, words: str) -> Iterator[str]:
        """As ``say``, in pieces as they come. A turn that is refused is no part of it."""
        asked = [*self.messages, {"role": "user", "content": words}]
        prompt = self._prompt(asked)
        self.messages = asked
        return self._answer(prompt)

    def reply(self) -> str:
        """The model's turn after the messages as they stand."""
        return "".join(self._answer(self._prompt(self.messages)))

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        max_new = self.config.max_new
        return self.prompts.fitting(messages, max_new=max_new, truncate=self.truncate)

    def _answer(self, prompt: Sequence[int]) -> Generator[str, None, None]:
        said, self.finished = "", False
        pieces = self.generator.pieces(prompt, self.config, rng=self.rng, stop=self.stop)
        try:
            while True:
                piece = next(pieces)
                said += piece
                yield piece
        except StopIteration as stop:
            self.finished = bool(stop.value)
        finally:  # whoever stops listening has heard so much
            self.messages.append({"role": "assistant", "content": said})
