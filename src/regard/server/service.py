"""What every handler needs: the run, the thread that owns its model, and the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.runs.run import Run
from regard.server.answers import RefusedError
from regard.server.batcher import Worker
from regard.server.limits import Limits
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

    def check_lengths(self, sources: Iterable[str], *, at_most: int, target: str = "") -> None:
        """Refuse what is too long to be worth the work, or longer than the model can read."""
        tokenizers = self.run.tokenizers
        for source in sources:
            self._check(tokenizers.source, source, at_most)
        self._check(tokenizers.target, target, at_most)

    def _check(self, tokenizer: Tokenizer, text: str, at_most: int) -> None:
        longest = self.run.model.config.longest
        room = at_most if longest is None else min(at_most, longest - 1)  # the end takes a place
        n_tokens = len(tokenizer.encode(text))
        if n_tokens > room:
            raise RefusedError(
                422, f"the text has {n_tokens} tokens, at most {room} go in; shorten it"
            )
