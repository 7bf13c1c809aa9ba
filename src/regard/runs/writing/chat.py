"""Conversations with a language model that brings a template for them along."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from regard.checkpoints.run_folder import RunFolder
from regard.decoding.continuing import Manner
from regard.runs.writing.chat_prompts import ChatPrompts, Truncate, load_prompts
from regard.runs.writing.framing import Framing
from regard.runs.writing.pen import Pen, Stop, seeded
from regard.text.chat import Message

MAX_NEW = 500
"""Tokens of an answer where nothing is said."""


class Speaker(Protocol):
    """What is needed of a language model's run."""

    @property
    def folder(self) -> RunFolder:
        """Where its template lies."""
        ...

    @property
    def framing(self) -> Framing:
        """How it reads."""
        ...

    @property
    def context(self) -> int:
        """Tokens that it can read."""
        ...

    @property
    def pen(self) -> Pen:
        """What writes."""
        ...

    def manner(self, **choices: Any) -> Manner:
        """How to write."""
        ...


@dataclass(frozen=True, slots=True)
class Chat:
    """What all conversations with a run have in common."""

    prompts: ChatPrompts
    pen: Pen
    end_of_turn: int | None

    def ending(self, manner: Manner) -> Manner:
        """The same manner, ended by the end of a turn too."""
        if self.end_of_turn is None:
            return manner
        hidden = tuple(number for number in manner.hidden_ids if number != self.end_of_turn)
        return replace(manner, end_ids=manner.end_ids | {self.end_of_turn}, hidden_ids=hidden)


def chat_of(run: Speaker) -> Chat:
    """With the template in the run's folder."""
    prompts = load_prompts(run.folder.path, run.framing.tokenizer, run.context)
    return Chat(prompts, run.pen, prompts.end_of_turn())


@dataclass(slots=True, kw_only=True)
class Conversation:
    """Turns so far, and a model to go on with."""

    chat: Chat
    manner: Manner
    rng: torch.Generator
    stop: Stop = ()
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
        return self.chat.prompts.fitting(
            messages, max_new=self.manner.max_new, truncate=self.truncate
        )

    def _answer(self, prompt: Sequence[int]) -> Generator[str, None, None]:
        said, self.finished = "", False
        pieces = self.chat.pen.pieces(prompt, self.manner, rng=self.rng, stop=self.stop)
        try:
            while True:
                piece = next(pieces)
                said += piece
                yield piece
        except StopIteration as stop:
            self.finished = bool(stop.value)
        finally:  # whoever stops listening has heard so much
            self.messages.append({"role": "assistant", "content": said})


def conversation(
    run: Speaker,
    messages: Iterable[Message] = (),
    *,
    max_new: int = MAX_NEW,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: Stop = (),
    truncate: Truncate = None,
) -> Conversation:
    """Begin one, or go on with what was said."""
    chat = chat_of(run)
    plain = run.manner(max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p)
    return Conversation(
        chat=chat,
        manner=chat.ending(plain),
        rng=seeded(seed),
        stop=stop,
        truncate=truncate,
        messages=list(messages),
    )
