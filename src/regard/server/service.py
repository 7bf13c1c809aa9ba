"""What every handler needs: the run, the thread that owns its model, and the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.runs.kinds.translator import Run
from regard.server.answers import RefusedError
from regard.server.batcher import Worker
from regard.server.examples import examples
from regard.server.limits import MAX_LINES, Limits
from regard.server.lines import spoken
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Service:
    """One run, served."""

    run: Run
    worker: Worker
    limits: Limits
    api_key: str | None

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of source and target."""
        source, target = self.run.recipe.data.direction.split("-")
        return source, target

    @property
    def sample(self) -> str:
        """A sentence that the model can read."""
        return next(iter(examples(self.run, self.limits.look_tokens)), "a")

    def check_lines(self, texts: Iterable[str]) -> list[str]:
        """The lines of the texts to translate; refuse too many of them, and too long ones."""
        lines = spoken(texts)
        if len(lines) > MAX_LINES:
            raise RefusedError(
                422, f"there are {len(lines)} lines, at most {MAX_LINES} go in; send fewer at once"
            )
        for line in lines:
            self._check(self.run.tokenizers.source, line, self.limits.tokens, "go in")
        return lines

    def check_look(self, source: str, target: str = "") -> None:
        """Refuse what is too long to be looked at, or longer than the model can read."""
        tokenizers, most = self.run.tokenizers, self.limits.look_tokens
        self._check(tokenizers.source, source, most, "can be looked at")
        self._check(tokenizers.target, target, most, "can be looked at")

    def _check(self, tokenizer: Tokenizer, text: str, at_most: int, what: str) -> None:
        longest = self.run.model.config.longest
        room = at_most if longest is None else min(at_most, longest - 1)  # the end takes a place
        n_tokens = len(tokenizer.encode(text))
        if n_tokens > room:
            raise RefusedError(
                422, f"the text has {n_tokens} tokens, at most {room} {what}; shorten it"
            )
