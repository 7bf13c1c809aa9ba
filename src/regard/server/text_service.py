"""What handlers need of a run that reads one text: the run, its thread, its name, the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regard.runs.kinds.writer import Writer
from regard.server.answers import RefusedError
from regard.server.batcher import Worker
from regard.server.limits import Limits


@dataclass(frozen=True, slots=True)
class TextService:
    """One run, served: a language model or an encoder."""

    run: Any
    worker: Worker
    limits: Limits
    api_key: str | None

    @property
    def name(self) -> str:
        """What the run is called: its folder's name."""
        return str(self.run.folder.path.resolve().name)

    @property
    def made(self) -> int:
        """When its weights were written, in seconds since 1970."""
        return int(self.run.folder.weights.stat().st_mtime)

    def check_name(self, asked: str) -> None:
        """Refuse what this server does not have."""
        if asked != self.name:
            raise RefusedError(
                404, f"there is no model {asked[:50]!r}; this server has {self.name!r}"
            )

    def check_prompts(self, prompts: Iterable[str]) -> None:
        """Refuse what does not fit into the context."""
        run = self.run
        assert isinstance(run, Writer)
        for prompt in prompts:
            if not run.fits(prompt):
                n_tokens = len(run.framing.read(prompt))
                raise RefusedError(
                    422,
                    f"the prompt has {n_tokens} tokens, but the model's context holds "
                    f"{run.context}; shorten it",
                )

    def check_written(self, n_texts: int, max_new: int) -> None:
        """Refuse more tokens than one request may have written, all its texts together."""
        each, most = min(max_new, self.run.context), self.limits.new_tokens
        if n_texts * each > most:
            raise RefusedError(
                422,
                f"{n_texts} texts of up to {each} tokens are {n_texts * each:,} tokens, and one "
                f"request may ask for {most:,}; ask for fewer texts, or for shorter ones",
            )

    def check_read(self, text: str, other: str | None = None) -> None:
        """Refuse a text, or a pair of them, that is too long to be read whole."""
        self._check(self._n_tokens(text, other), self.limits.tokens, other, "go in")

    def check_look(self, text: str, other: str | None = None) -> None:
        """Refuse what is too long to be looked at."""
        n_tokens = self._n_tokens(text, other)
        self._check(n_tokens, self.limits.look_tokens, other, "can be looked at")

    def room_after(self, prompt: str, target: str | None) -> int:
        """Tokens that may be looked at after a prompt; refuse where it, or what follows, is long.

        That there is a token to read is what a run itself asks for.
        """
        full = self.run.context + 1  # what comes last is written and never read
        most = min(self.limits.look_tokens, full if target else full - 1)
        n_tokens = len(self.run.framing.read(prompt)) + self._n_tokens(target)
        if n_tokens > most:
            raise RefusedError(
                422, f"the text has {n_tokens} tokens, at most {most} can be looked at; shorten it"
            )
        return max(1, min(self.limits.look_tokens, full) - n_tokens)

    def _n_tokens(self, *texts: str | None) -> int:
        return sum(len(self.run.tokenizer.encode(text)) for text in texts if text)

    def _check(self, n_tokens: int, at_most: int, other: str | None, what: str) -> None:
        ends = 3 if other else 2  # begin and end, and one more end between two texts
        most = min(at_most, self.run.model.config.max_len - ends)
        if n_tokens > most:
            named = "pair" if other else "text"
            raise RefusedError(
                422, f"the {named} has {n_tokens} tokens, at most {most} {what}; shorten it"
            )

    def check_texts(self, texts: Iterable[str]) -> None:
        """Refuse each that is too long to be read whole."""
        for text in texts:
            self.check_read(text)
