"""What handlers need of a run that reads one text: the run, its thread, its name, the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regard.runs.writer import Writer
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

    def check_texts(self, texts: Iterable[str]) -> None:
        """Refuse what is too long to be read whole."""
        most = min(self.limits.tokens, self.run.model.config.max_len - 2)  # begin and end
        for text in texts:
            n_tokens = len(self.run.tokenizer.encode(text))
            if n_tokens > most:
                raise RefusedError(
                    422, f"the text has {n_tokens} tokens, at most {most} go in; shorten it"
                )
