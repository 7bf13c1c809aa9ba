"""What every handler needs: the run, the thread that owns its model, and the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regard.runs.kinds.translator import Run
from regard.server.batcher import Worker
from regard.server.errors import RefusedError
from regard.server.limits import Limits
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Service:
    """One run of any task, served."""

    run: Any
    worker: Worker
    limits: Limits
    api_key: str | None

    @property
    def name(self) -> str:
        """What the run is called: its folder's name."""
        return str(self.run.folder.path.resolve().name)

    def check_prompts(self, prompts: Iterable[str]) -> None:
        """Refuse what does not fit into a language model's context."""
        run = self.run
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

    def check_source(self, text: str) -> None:
        """Refuse a sentence that is too long to be translated."""
        self._check_side(self.run.tokenizers.source, text, self.limits.tokens, "go in")

    def check_read(self, text: str, other: str | None = None) -> None:
        """Refuse a text, or a pair of them, that is too long to be read whole."""
        self._check_text(text, other, self.limits.tokens, "go in")

    def check_texts(self, texts: Iterable[str]) -> None:
        """Refuse each that is too long to be read whole."""
        for text in texts:
            self.check_read(text)

    def check_look(self, source: str, second: str | None = None) -> None:
        """Refuse what is too long to be looked at, or longer than the model can read.

        ``second`` is the other text of a pair, or a translation.
        """
        most, what = self.limits.look_tokens, "can be looked at"
        if isinstance(self.run, Run):
            tokenizers = self.run.tokenizers
            self._check_side(tokenizers.source, source, most, what)
            self._check_side(tokenizers.target, second or "", most, what)
        else:
            self._check_text(source, second, most, what)

    def room_after(self, prompt: str, target: str | None) -> int:
        """Tokens that may be looked at after a prompt; refuse where it, or what follows, is long.

        That there is a token to read is what a run itself asks for.
        """
        full = self.run.context + 1  # what comes last is written and never read
        most = min(self.limits.look_tokens, full if target else full - 1)
        n_tokens = len(self.run.framing.read(prompt)) + self._n_tokens(target)
        _check_length("text", n_tokens, most, "can be looked at")
        return max(1, min(self.limits.look_tokens, full) - n_tokens)

    def _check_side(self, tokenizer: Tokenizer, text: str, at_most: int, what: str) -> None:
        longest = self.run.model.config.longest
        room = at_most if longest is None else min(at_most, longest - 1)  # the end takes a place
        _check_length("text", len(tokenizer.encode(text)), room, what)

    def _check_text(self, text: str, other: str | None, at_most: int, what: str) -> None:
        ends = 3 if other else 2  # begin and end, and one more end between two texts
        most = min(at_most, self.run.model.config.max_len - ends)
        _check_length("pair" if other else "text", self._n_tokens(text, other), most, what)

    def _n_tokens(self, *texts: str | None) -> int:
        return sum(len(self.run.tokenizer.encode(text)) for text in texts if text)


def _check_length(called: str, n_tokens: int, at_most: int, what: str) -> None:
    if n_tokens > at_most:
        raise RefusedError(
            422, f"the {called} has {n_tokens} tokens, at most {at_most} {what}; shorten it"
        )
